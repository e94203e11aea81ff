/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints events, one a line: as words and values for people, as JSON for programs. */

#include "decode.h"
#include "names.h"
#include "print.h"
#include "progress.h"
#include "write.h"

/* Fields that all requests have in addition to the fields of their kind of event. */
static const Field of_requests[] = {
  { FIELD_HANDLE, G_STRUCT_OFFSET (RecordedEvent, queue), "queue" },
  { FIELD_NUMBER, G_STRUCT_OFFSET (RecordedEvent, stack), "stack" },
};

/* Functions that write values, frames and events */

static void
write_value (const Output *output, FieldType type, guint64 value)
{
  const gchar *error = type == FIELD_ERROR ? name_error (value) : NULL;

  if (type == FIELD_TRUTH)
    fputs (value != 0 ? "true" : "false", output->file);
  else if ((type == FIELD_ADDRESS || type == FIELD_HANDLE) && !output->is_json)
    fprintf (output->file, "0x%" G_GINT64_MODIFIER "x", value);
  else if (error != NULL)
    fprintf (output->file, output->is_json ? "\"%s\"" : "%s", error);
  else if (type == FIELD_ERROR && value == 0)
    fputs (output->is_json ? "null" : "none", output->file);
  else
    fprintf (output->file, "%" G_GUINT64_FORMAT, value);
}

static void
write_name (const Output *output, const gchar *name)
{
  fprintf (output->file, output->is_json ? ",\"%s\":" : " %s=", name);
}

/* Writes a field.  In text for people, leaves out an error, a queue or a stack with the value 0,
 * which means none. */
static void
write_field (const Output *output, const Field *field, const RecordedEvent *event)
{
  guint64 value = *(const guint64 *) G_STRUCT_MEMBER_P (event, field->offset);
  gboolean is_optional = field->type == FIELD_ERROR
                         || field->offset == G_STRUCT_OFFSET (RecordedEvent, stack)
                         || (field->type == FIELD_HANDLE && event->kind != TARN_TRACE_WAIT);

  if (value == 0 && is_optional && !output->is_json)
    return;
  write_name (output, field->name);
  write_value (output, field->type, value);
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
write_json_number (const Output *output, const gchar *name, guint64 number, gboolean is_known)
{
  write_name (output, name);
  if (is_known)
    fprintf (output->file, "%" G_GUINT64_FORMAT, number);
  else
    fputs ("null", output->file);
}

static void
write_json_frame (const Output *output, const NamedFrame *frame)
{
  FILE *file = output->file;

  fputs ("{\"function\":", file);
  write_json_text (file, frame->function);
  write_json_number (output, "offset", frame->offset, frame->function != NULL);
  fputs (",\"file\":", file);
  write_json_text (file, frame->file);
  write_json_number (output, "line", frame->line, frame->line > 0);
  fputs (",\"module\":", file);
  write_json_text (file, frame->module[0] != '\0' ? frame->module : NULL);
  write_json_number (output, "module_offset", frame->module_offset, frame->module[0] != '\0');
  write_json_number (output, "address", frame->address, TRUE);
  fputs ("}", file);
}

static void
write_json_frames (const Output *output, const guint64 *addresses, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      guint n_frames;
      const NamedFrame *frames = symbols_get (output->symbols, addresses[i], &n_frames);

      for (guint j = 0; j < n_frames; j++)
        {
          if (i + j > 0)
            fputc (',', output->file);
          write_json_frame (output, &frames[j]);
        }
    }
}

/* Writes the innermost frame only, for people. */
static void
write_first_frame (const Output *output, guint64 address, gsize n)
{
  guint n_frames;
  const NamedFrame *frames = symbols_get (output->symbols, address, &n_frames);
  g_autofree gchar *text = format_frame (frames, TRUE);

  write_json_text (output->file, text);
  if (n > 1 || n_frames > 1)
    fputs (", ...", output->file);
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
  if (output->is_json)
    write_json_frames (output, addresses, n);
  else
    write_first_frame (output, addresses[0], n);
  fputs ("]", output->file);
}

static void
write_request (const Output *output, const RecordedEvent *event)
{
  for (gsize i = 0; i < G_N_ELEMENTS (of_requests); i++)
    write_field (output, &of_requests[i], event);
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
  for (const Field *field = decode_get_fields (event->kind); field->type != FIELD_NONE; field++)
    /* the object is printed already, at the start of the line */
    if (field->offset != G_STRUCT_OFFSET (RecordedEvent, object))
      write_field (output, field, event);
  if (decode_is_request (event->kind))
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
