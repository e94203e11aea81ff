/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads a recording in two passes: its objects first, because an object may be described after its
 * first event, and then the steps.  Ignores events that make no sense because other events were
 * lost. */

#include "recorded-private.h"

#include <string.h>
#include <tarn/tarn.h>

#include "../read.h"
#include "../text.h"
#include "../trace/progress.h"

#define MAX_UNIT ((guint64) 1 << 30) /* limit for a recorded alignment or granularity, in bytes */

static void
object_free (gpointer data)
{
  RecordedObject *object = data;

  g_free (object->name);
  g_free (object);
}

void
recorded_free (Recorded *self)
{
  g_free (self->name);
  g_ptr_array_unref (self->objects);
  g_array_unref (self->steps);
  g_array_unref (self->reaches);
  g_array_unref (self->rooms);
  g_free (self);
}

gboolean
recorded_has_varying_room (const RecordedObject *object)
{
  return object->least_refused <= object->most_given;
}

guint64
recorded_get_option (const RecordedObject *object, TarnTraceProperty property, guint64 otherwise)
{
  return object->options.is_known[property] ? object->options.number[property] : otherwise;
}

gboolean
recorded_refuse (GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, text);
  return FALSE;
}

/* Functions that read objects */

void
recorded_read_numbers (RecordedNumbers *numbers, const RecordedEvent *event)
{
  for (gsize i = 0; i < event->n_properties; i++)
    if (event->properties[i].property < RECORDED_N_PROPERTIES)
      {
        numbers->number[event->properties[i].property] = event->properties[i].number;
        numbers->is_known[event->properties[i].property] = TRUE;
      }
}

guint
reader_find_object (const Reader *reader, guint64 number)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (reader->object_index, &number)) - 1;
}

RecordedObject *
reader_get_object (const Recorded *self, guint index)
{
  g_assert (index < self->objects->len);
  return self->objects->pdata[index];
}

static RecordedObject *
add_object (Reader *reader, guint64 number)
{
  RecordedObject *object = g_new0 (RecordedObject, 1);

  object->number = number;
  object->upstream = RECORDED_NONE;
  object->least_refused = G_MAXUINT64;
  g_ptr_array_add (reader->recorded->objects, object);
  g_hash_table_insert (reader->object_index, &object->number,
                       GUINT_TO_POINTER (reader->recorded->objects->len));
  return object;
}

/* Refuses recorded options that no backend and no heap can have.  The library would abort
 * tarn-bench if it got them. */
static gboolean
check_options (const RecordedObject *object, GError **error)
{
  static const TarnTraceProperty units[]
      = { TARN_TRACE_GRANULARITY, TARN_TRACE_PART_ALIGNMENT, TARN_TRACE_ALIGNMENT };

  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    {
      guint64 unit = recorded_get_option (object, units[i], 0);

      if ((unit & (unit - 1)) != 0 || unit > MAX_UNIT)
        return recorded_refuse (error,
                                "object %" G_GUINT64_FORMAT " has an alignment or a granularity of "
                                "%" G_GUINT64_FORMAT
                                ", which is not a power of two up to %" G_GUINT64_FORMAT,
                                object->number, unit, MAX_UNIT);
    }
  return TRUE;
}

static gboolean
describe_object (Reader *reader, const RecordedEvent *event, GError **error)
{
  guint index = reader_find_object (reader, event->object);
  guint upstream = reader_find_object (reader, event->upstream);
  RecordedObject *object;

  if (index != RECORDED_NONE)
    return TRUE; /* a later description of the same object is ignored */
  if (reader->recorded->objects->len == RECORDED_MAX_OBJECTS)
    return recorded_refuse (error, "it has more than %d pools, heaps and allocators",
                            RECORDED_MAX_OBJECTS);
  object = add_object (reader, event->object);
  object->object_class = event->object_class;
  object->upstream = event->upstream != 0 ? upstream : RECORDED_NONE;
  object->name = event->name != NULL ? text_make_printable (event->name, -1) : NULL;
  recorded_read_numbers (&object->options, event);
  if (object->upstream != RECORDED_NONE
      && reader_get_object (reader->recorded, object->upstream)->object_class == TARN_TRACE_POOL)
    return recorded_refuse (error,
                            "object %" G_GUINT64_FORMAT " is over pool %" G_GUINT64_FORMAT
                            ": its requests cannot be distinguished from those of the program",
                            event->object, event->upstream);
  return check_options (object, error);
}

static gboolean
read_objects (Reader *reader, Recording *recording, GError **error)
{
  g_autoptr (GError) local = NULL;
  RecordedEvent event;
  Progress progress;

  progress_begin (&progress, recording, "reading objects");
  while (progress_next (&progress, &event, &local))
    if (event.kind == TARN_TRACE_OBJECT && !describe_object (reader, &event, &local))
      break;
  progress_end (&progress);
  if (local == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Functions that read the whole file */

static void
reader_init (Reader *reader, Recorded *recorded)
{
  *reader = (Reader){ .recorded = recorded,
                      .object_index = g_hash_table_new (g_int64_hash, g_int64_equal),
                      .blocks = g_ptr_array_new (),
                      .threads = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL),
                      .queues = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL),
                      .progress = recorded_queues_new () };
}

static void
reader_clear (Reader *reader)
{
  for (guint i = 0; i < reader->blocks->len; i++)
    if (reader->blocks->pdata[i] != NULL)
      g_hash_table_unref (reader->blocks->pdata[i]);
  g_ptr_array_unref (reader->blocks);
  g_hash_table_unref (reader->object_index);
  g_hash_table_unref (reader->threads);
  g_hash_table_unref (reader->queues);
  recorded_queues_free (reader->progress);
}

static gboolean
read_all (Recorded *recorded, Recording *recording, GError **error)
{
  Reader reader;
  gboolean is_read;

  reader_init (&reader, recorded);
  is_read
      = read_objects (&reader, recording, error) && reader_read_steps (&reader, recording, error);
  recorded->n_threads = g_hash_table_size (reader.threads);
  recorded->n_queues = g_hash_table_size (reader.queues);
  reader_clear (&reader);
  return is_read;
}

gboolean
recorded_recognizes (const gchar *path)
{
  const gsize length = strlen (TARN_TRACE_MAGIC) - 1;
  gchar start[sizeof (TARN_TRACE_MAGIC)] = "";
  gsize n = read_start (path, start, length);

  /* A snapshot is JSON, not CSV.  recorded_read () refuses it with an explanation. */
  return start[0] == '{' || (n == length && memcmp (start, TARN_TRACE_MAGIC, length) == 0);
}

Recorded *
recorded_read (const gchar *path, GError **error)
{
  g_autoptr (GBytes) bytes = read_file (path, error);
  g_autoptr (Recording) recording
      = bytes != NULL ? recording_open_bytes (bytes, path, error) : NULL;
  g_autoptr (Recorded) recorded = NULL;
  g_autofree gchar *base = g_path_get_basename (path);

  if (recording == NULL)
    return NULL;
  recorded = g_new0 (Recorded, 1);
  recorded->name = text_make_printable (base, -1);
  recorded->objects = g_ptr_array_new_with_free_func (object_free);
  recorded->steps = g_array_new (FALSE, FALSE, sizeof (Step));
  recorded->reaches = g_array_new (FALSE, FALSE, sizeof (Reach));
  recorded->rooms = g_array_new (FALSE, FALSE, sizeof (Room));
  recorded->n_lost = recording_get_n_lost (recording);
  recorded->is_complete = recording_is_complete (recording);
  if (read_all (recorded, recording, error))
    return g_steal_pointer (&recorded);
  g_prefix_error (error, "%s: ", path);
  return NULL;
}
