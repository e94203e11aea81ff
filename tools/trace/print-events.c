/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Events, one a line: for people as words and names with values, for programs as JSON. */

#include <string.h>

#include "names.h"
#include "print.h"
#include "progress.h"
#include "write.h"

typedef enum
{
  SHOW_NUMBER,
  SHOW_ADDRESS, /* for people in hexadecimal */
  SHOW_TRUTH,
  SHOW_ERROR
} Show;

typedef struct
{
  const gchar *name; /* NULL: there are no more */
  Show show;
  gsize offset; /* of a guint64 in RecordedEvent */
} Column;

#define COLUMN(name, show, member)                                                                 \
  {                                                                                                \
    name, SHOW_##show, G_STRUCT_OFFSET (RecordedEvent, member)                                     \
  }
#define BLOCK COLUMN ("block", NUMBER, block)
#define SIZE COLUMN ("size", NUMBER, size)
#define ALLOC_SIZE COLUMN ("alloc_size", NUMBER, alloc_size)
#define ADDRESS COLUMN ("address", ADDRESS, address)
#define QUEUE COLUMN ("queue", ADDRESS, queue)
#define DURATION COLUMN ("duration", NUMBER, duration)
#define ERROR COLUMN ("error", ERROR, other)

static const Column layouts[TARN_TRACE_N_KINDS][6] = {
  [TARN_TRACE_BLOCK] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS, COLUMN ("in_use", TRUTH, other) },
  [TARN_TRACE_HIT] = { BLOCK, SIZE },
  [TARN_TRACE_MISS] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS },
  [TARN_TRACE_LENT] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS },
  [TARN_TRACE_FAIL] = { SIZE, ERROR },
  [TARN_TRACE_FREE] = { BLOCK },
  [TARN_TRACE_UNDO] = { BLOCK },
  [TARN_TRACE_GONE] = { BLOCK },
  [TARN_TRACE_ALLOCATED] = { SIZE, ADDRESS, ERROR, DURATION },
  [TARN_TRACE_FREED] = { SIZE, ADDRESS, DURATION },
  [TARN_TRACE_MARK] = { QUEUE, DURATION },
  [TARN_TRACE_WAIT] = { QUEUE, DURATION },
  [TARN_TRACE_RECORD_USE] = { BLOCK, QUEUE },
  [TARN_TRACE_MOVE] = { BLOCK, QUEUE },
  [TARN_TRACE_FORGET] = { QUEUE },
  [TARN_TRACE_TRIM]
  = { COLUMN ("keep_bytes", NUMBER, size), COLUMN ("stops_holding", TRUTH, other) },
  [TARN_TRACE_LIMIT] = { COLUMN ("bytes", NUMBER, size) },
  [TARN_TRACE_RECLAIM]
  = { COLUMN ("wanted_bytes", NUMBER, size), COLUMN ("gave", TRUTH, other), DURATION },
  [TARN_TRACE_OUT_OF_MEMORY]
  = { COLUMN ("wanted_bytes", NUMBER, size), COLUMN ("active_bytes", NUMBER, alloc_size),
      COLUMN ("held_bytes", NUMBER, other) },
  [TARN_TRACE_PIECE] = { ADDRESS, SIZE, QUEUE },
  [TARN_TRACE_PIECE_GONE] = { ADDRESS, SIZE },
  [TARN_TRACE_PIECE_MOVED] = { ADDRESS, SIZE, COLUMN ("new_address", ADDRESS, other), QUEUE },
  [TARN_TRACE_EXTENT] = { ADDRESS, SIZE },
  [TARN_TRACE_EXTENT_FREE] = { ADDRESS, SIZE },
  [TARN_TRACE_LOST] = { COLUMN ("events", NUMBER, size) },
};

/* What a request has beside its numbers. */
static const Column of_requests[] = {
  COLUMN ("queue", ADDRESS, queue),
  COLUMN ("stack", NUMBER, stack),
};

gchar *
format_frame (const Recording *recording, guint64 address, gboolean is_short)
{
  const RecordedFrame *frame = recording_get_frame (recording, address);
  const gchar *slash;

  if (frame == NULL || (frame->symbol[0] == '\0' && frame->module[0] == '\0'))
    return g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", address);
  if (frame->symbol[0] != '\0')
    return g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", frame->symbol, frame->symbol_offset);
  slash = is_short ? strrchr (frame->module, '/') : NULL;
  return g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", slash != NULL ? slash + 1 : frame->module,
                          frame->module_offset);
}

/* Both */

static void
write_value (const Output *output, Show show, guint64 value)
{
  const gchar *error = show == SHOW_ERROR ? name_error (value) : NULL;

  if (show == SHOW_TRUTH)
    fputs (value != 0 ? "true" : "false", output->file);
  else if (show == SHOW_ADDRESS && !output->is_json)
    fprintf (output->file, "0x%" G_GINT64_MODIFIER "x", value);
  else if (error != NULL)
    fprintf (output->file, output->is_json ? "\"%s\"" : "%s", error);
  else if (show == SHOW_ERROR && value == 0)
    fputs (output->is_json ? "null" : "none", output->file);
  else
    fprintf (output->file, "%" G_GUINT64_FORMAT, value);
}

static void
write_name (const Output *output, const gchar *name)
{
  fprintf (output->file, output->is_json ? ",\"%s\":" : " %s=", name);
}

/* What is no error, no queue, or no stack goes without saying for people. */
static void
write_column (const Output *output, const Column *column, const RecordedEvent *event)
{
  guint64 value = *(const guint64 *) G_STRUCT_MEMBER_P (event, column->offset);
  gboolean is_optional = column->show == SHOW_ERROR
                         || column->offset == G_STRUCT_OFFSET (RecordedEvent, stack)
                         || (column->offset == G_STRUCT_OFFSET (RecordedEvent, queue)
                             && event->kind != TARN_TRACE_WAIT);

  if (value == 0 && is_optional && !output->is_json)
    return;
  write_name (output, column->name);
  write_value (output, column->show, value);
}

static void
write_text (const Output *output, const gchar *name, const gchar *text)
{
  if (text == NULL && !output->is_json)
    return;
  write_name (output, name);
  write_json_text (output->file, text);
}

static void
write_frames (const Output *output, guint64 stack)
{
  gsize n;
  const guint64 *addresses = recording_get_stack (output->recording, stack, &n);

  if (!output->is_json && n == 0)
    return;
  write_name (output, "frames");
  fputc ('[', output->file);
  for (gsize i = 0; i < n && (output->is_json || i < 1); i++)
    {
      g_autofree gchar *text = format_frame (output->recording, addresses[i], !output->is_json);

      if (i > 0)
        fputc (',', output->file);
      write_json_text (output->file, text);
    }
  fputs (!output->is_json && n > 1 ? ", ...]" : "]", output->file);
}

static gboolean
is_request (TarnTraceKind kind)
{
  return kind >= TARN_TRACE_BLOCK && kind <= TARN_TRACE_FAIL;
}

static void
write_request (const Output *output, const RecordedEvent *event)
{
  for (gsize i = 0; i < G_N_ELEMENTS (of_requests); i++)
    write_column (output, &of_requests[i], event);
  write_text (output, "tag", recording_get_string (output->recording, event->tag));
  write_frames (output, event->stack);
}

static void
write_properties (const Output *output, const RecordedEvent *event)
{
  for (gsize i = 0; i < event->n_properties; i++)
    {
      const gchar *name = name_property (event->properties[i].property);

      if (name == NULL)
        continue;
      write_name (output, name);
      fprintf (output->file, "%" G_GUINT64_FORMAT, event->properties[i].number);
    }
}

static void
write_object (const Output *output, const RecordedEvent *event)
{
  write_text (output, "class", name_class (event->object_class));
  write_text (output, "type", event->text);
  write_text (output, "name", event->name);
  write_name (output, "upstream");
  fprintf (output->file, "%" G_GUINT64_FORMAT, event->upstream);
}

static void
write_rest (const Output *output, const RecordedEvent *event)
{
  for (const Column *column = layouts[event->kind]; column->name != NULL; column++)
    write_column (output, column, event);
  if (is_request (event->kind))
    write_request (output, event);
  if (event->kind == TARN_TRACE_OBJECT)
    write_object (output, event);
  write_properties (output, event);
  fputs (output->is_json ? "}\n" : "\n", output->file);
}

static void
write_json_start (const Output *output, const RecordedEvent *event)
{
  fprintf (output->file,
           "{\"time\":%" G_GUINT64_FORMAT
           ",\"kind\":\"%s\",\"stream\":%u,\"thread\":%" G_GUINT64_FORMAT
           ",\"object\":%" G_GUINT64_FORMAT,
           event->time, name_kind (event->kind), event->stream, event->thread, event->object);
}

static void
write_text_start (const Output *output, const RecordedEvent *event)
{
  const Object *object = objects_find (output->objects, event->object);
  g_autofree gchar *name
      = object != NULL && object->name != NULL ? format_text (object->name) : NULL;

  fprintf (output->file,
           "%" G_GUINT64_FORMAT ".%09u %7" G_GUINT64_FORMAT " #%" G_GUINT64_FORMAT "%s%s %s",
           event->time / 1000000000, (guint) (event->time % 1000000000), event->thread,
           event->object, name != NULL ? " " : "", name != NULL ? name : "",
           name_kind (event->kind));
}

gboolean
print_events (const Output *output, GError **error)
{
  g_autoptr (GError) read_error = NULL;
  Progress progress;
  RecordedEvent event;

  progress_begin (&progress, output->recording, "printing");
  while (!ferror (output->file) && progress_next (&progress, &event, &read_error))
    if (filter_has_event (output->filter, output->objects, output->recording, &event))
      {
        if (output->is_json)
          write_json_start (output, &event);
        else
          write_text_start (output, &event);
        write_rest (output, &event);
      }
  progress_end (&progress);
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}
