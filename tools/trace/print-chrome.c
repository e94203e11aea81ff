/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints Chrome's Trace Event Format, which Perfetto reads, too: counters of pools and heaps, calls
 * with their durations, and failures. */

#include "names.h"
#include "print.h"
#include "progress.h"
#include "write.h"

/* A file that is being written. */
typedef struct
{
  const Output *output;
  gboolean has_some;   /* an event was written, so a comma comes before the next one */
  GHashTable *threads; /* a set of guint64 *: threads that were named */
} Chrome;

/* Gets an event's thread.  If the thread is unknown, gets the number of the event's stream
 * instead. */
static guint64
get_thread (const RecordedEvent *event)
{
  return event->thread != 0 ? event->thread : event->stream;
}

/* Begins an event: writes its phase, its name and its thread. */
static void
begin (Chrome *chrome, const gchar *phase, const gchar *name, guint64 thread)
{
  FILE *file = chrome->output->file;

  fputs (chrome->has_some ? ",\n" : "\n", file);
  chrome->has_some = TRUE;
  fprintf (file, "{\"ph\":\"%s\",\"name\":", phase);
  write_json_text (file, name);
  fprintf (file, ",\"pid\":%u,\"tid\":%" G_GUINT64_FORMAT,
           recording_get_pid (chrome->output->recording), thread);
}

static void
write_time (Chrome *chrome, const gchar *key, guint64 time)
{
  fprintf (chrome->output->file, ",\"%s\":", key);
  write_microseconds (chrome->output->file, time);
}

static void
write_member (Chrome *chrome, gboolean is_first, const gchar *key, guint64 value)
{
  fprintf (chrome->output->file, "%s\"%s\":%" G_GUINT64_FORMAT, is_first ? "" : ",", key, value);
}

static gchar *
name_object (const Chrome *chrome, const Object *object)
{
  g_autofree gchar *name = objects_describe (chrome->output->objects, object);

  return g_strdup_printf ("%s %" G_GUINT64_FORMAT "%s%s", name_class (object->object_class),
                          object->number, name[0] != '\0' ? " " : "", name);
}

static void
name_thread (Chrome *chrome, const RecordedEvent *event)
{
  guint64 thread = get_thread (event);
  guint64 *key;

  if (event->kind == TARN_TRACE_OBJECT || event->text == NULL || event->text[0] == '\0'
      || g_hash_table_contains (chrome->threads, &thread))
    return;
  key = g_new (guint64, 1);
  *key = thread;
  g_hash_table_add (chrome->threads, key);
  begin (chrome, "M", "thread_name", thread);
  fputs (",\"args\":{\"name\":", chrome->output->file);
  write_json_text (chrome->output->file, event->text);
  fputs ("}}", chrome->output->file);
}

static void
add_counters (Chrome *chrome, const Object *object, guint64 time)
{
  g_autofree gchar *name = name_object (chrome, object);

  begin (chrome, "C", name, 0);
  write_time (chrome, "ts", time);
  fputs (",\"args\":{", chrome->output->file);
  write_member (chrome, TRUE, "managed", object->managed_bytes);
  write_member (chrome, FALSE, "active", object->active_bytes);
  write_member (chrome, FALSE, "held", object->held_bytes);
  fputs ("}}", chrome->output->file);
}

/* Begins to write a call.  event->time is the call's end, so its start is computed. */
static void
begin_call (Chrome *chrome, const gchar *name, const RecordedEvent *event)
{
  guint64 duration = MIN (event->duration, event->time);

  begin (chrome, "X", name, get_thread (event));
  write_time (chrome, "ts", event->time - duration);
  write_time (chrome, "dur", duration);
  fputs (",\"args\":{", chrome->output->file);
  write_member (chrome, TRUE, "object", event->object);
}

static void
begin_instant (Chrome *chrome, const gchar *name, const RecordedEvent *event)
{
  begin (chrome, "i", name, get_thread (event));
  write_time (chrome, "ts", event->time);
  fprintf (chrome->output->file, ",\"s\":\"%s\",\"args\":{",
           event->kind == TARN_TRACE_OUT_OF_MEMORY || event->kind == TARN_TRACE_LIMIT_REACHED
               ? "p"
               : "t");
  write_member (chrome, TRUE, "object", event->object);
}

static void
write_error (Chrome *chrome, guint64 error)
{
  const gchar *name = name_error (error);

  if (name != NULL)
    fprintf (chrome->output->file, ",\"error\":\"%s\"", name);
  else if (error != 0)
    write_member (chrome, FALSE, "error", error);
}

static void
write_stack (Chrome *chrome, guint64 stack)
{
  g_autofree gchar *text = format_stack (chrome->output, stack, TRUE);

  if (text[0] == '\0')
    return;
  fputs (",\"stack\":", chrome->output->file);
  write_json_text (chrome->output->file, text);
}

/* Begins a call.  Returns FALSE if @event is no call. */
static gboolean
add_call (Chrome *chrome, const RecordedEvent *event)
{
  switch (event->kind)
    {
    case TARN_TRACE_ALLOCATED:
      begin_call (chrome, "upstream allocation", event);
      write_member (chrome, FALSE, "size", event->size);
      write_error (chrome, event->other);
      return TRUE;
    case TARN_TRACE_FREED:
      begin_call (chrome, "upstream free", event);
      write_member (chrome, FALSE, "size", event->size);
      return TRUE;
    case TARN_TRACE_MARK:
      begin_call (chrome, "mark", event);
      write_member (chrome, FALSE, "queue", event->queue);
      return TRUE;
    case TARN_TRACE_WAIT:
      begin_call (chrome, event->queue == 0 ? "wait of the host" : "wait", event);
      write_member (chrome, FALSE, "queue", event->queue);
      return TRUE;
    case TARN_TRACE_RECLAIM:
      begin_call (chrome, "reclaim", event);
      write_member (chrome, FALSE, "wanted", event->size);
      return TRUE;
    default:
      return FALSE;
    }
}

static gboolean
add_instant (Chrome *chrome, const RecordedEvent *event)
{
  switch (event->kind)
    {
    case TARN_TRACE_OUT_OF_MEMORY:
    case TARN_TRACE_LIMIT_REACHED:
      begin_instant (chrome,
                     event->kind == TARN_TRACE_OUT_OF_MEMORY ? "out of memory" : "limit reached",
                     event);
      write_member (chrome, FALSE, "wanted", event->size);
      write_member (chrome, FALSE, "active", event->alloc_size);
      write_member (chrome, FALSE, "held", event->other);
      return TRUE;
    case TARN_TRACE_FAIL:
      begin_instant (chrome, "failed request", event);
      write_member (chrome, FALSE, "size", event->size);
      write_error (chrome, event->other);
      write_stack (chrome, event->stack);
      return TRUE;
    case TARN_TRACE_LOST:
      begin_instant (chrome, "lost events", event);
      write_member (chrome, FALSE, "events", event->size);
      return TRUE;
    default:
      return FALSE;
    }
}

static void
add (Chrome *chrome, const RecordedEvent *event, const Object *object)
{
  name_thread (chrome, event);
  if (add_call (chrome, event) || add_instant (chrome, event))
    fputs ("}}", chrome->output->file);
  else if (object != NULL && object->object_class != TARN_TRACE_DIRECT
           && (event->kind >= TARN_TRACE_BLOCK && event->kind <= TARN_TRACE_PART))
    add_counters (chrome, object, event->time);
}

static void
begin_file (Chrome *chrome)
{
  FILE *file = chrome->output->file;
  g_autofree gchar *base = g_path_get_basename (chrome->output->path);
  g_autofree gchar *name = g_utf8_make_valid (base, -1);

  fputs ("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file);
  begin (chrome, "M", "process_name", 0);
  fputs (",\"args\":{\"name\":", file);
  write_json_text (file, name);
  fputs ("}}", file);
}

/* Applies all events to the objects, because their counters are written, too.  Writes only the
 * events that the filter selects. */
gboolean
print_chrome (const Output *output, GError **error)
{
  g_autoptr (GHashTable) threads
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GError) read_error = NULL;
  Chrome chrome = { output, FALSE, threads };
  Progress progress;
  RecordedEvent event;
  Change change;

  begin_file (&chrome);
  progress_begin (&progress, output->recording, "writing");
  while (!ferror (output->file) && progress_next (&progress, &event, &read_error))
    {
      objects_apply (output->objects, &event, &change);
      if (filter_has_event (output->filter, output->objects, output->recording, &event))
        add (&chrome, &event, change.object);
    }
  progress_end (&progress);
  fputs ("\n]}\n", output->file);
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}
