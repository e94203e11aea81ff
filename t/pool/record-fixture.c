/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "record-fixture.h"

void
record_start (const Place *place, const TarnTraceOptions *options)
{
  g_autoptr (GError) error = NULL;
  gboolean is_started = tarn_trace_start (place->path, options, &error);

  g_assert_no_error (error);
  g_assert_true (is_started);
}

void
record_stop (void)
{
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (GError) error = NULL;
  gboolean is_stopped = tarn_trace_stop (&error);

  g_assert_no_error (error);
  g_assert_true (is_stopped);
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, ==, 0);
}

Recording *
record_open (const Place *place)
{
  g_autoptr (GError) error = NULL;
  Recording *recording = recording_open (place->path, &error);

  g_assert_no_error (error);
  g_assert_nonnull (recording);
  return recording;
}

gboolean
record_next (Recording *recording, RecordedEvent *event)
{
  g_autoptr (GError) error = NULL;
  gboolean is_there = recording_next (recording, event, &error);

  g_assert_no_error (error);
  return is_there;
}

gpointer
record_copy_number (guint64 number)
{
  guint64 *copy = g_new (guint64, 1);

  *copy = number;
  return copy;
}

static void G_GNUC_PRINTF (2, 3) note (GString *log, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_string_append_vprintf (log, format, args);
  va_end (args);
  g_string_append_c (log, '\n');
}

gchar *
record_read_log (Recording *recording)
{
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  GString *log = g_string_new (NULL);
  RecordedEvent event;

  while (record_next (recording, &event))
    {
      const gchar *tag = event.tag != 0 ? recording_get_string (recording, event.tag) : "-";
      gpointer name = g_hash_table_lookup (names, &event.block);

      if (event.block != 0 && name == NULL)
        {
          name = GINT_TO_POINTER ('a' + g_hash_table_size (names));
          g_hash_table_insert (names, record_copy_number (event.block), name);
        }
      switch (event.kind)
        {
        case TARN_TRACE_BLOCK:
          note (log, "block %c %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %s",
                GPOINTER_TO_INT (name), event.size, event.alloc_size,
                event.other ? "in use" : "held");
          break;
        case TARN_TRACE_HIT:
          note (log, "hit %c %" G_GUINT64_FORMAT " %s", GPOINTER_TO_INT (name), event.size, tag);
          break;
        case TARN_TRACE_MISS:
          note (log, "miss %c %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %s",
                GPOINTER_TO_INT (name), event.size, event.alloc_size, tag);
          break;
        case TARN_TRACE_FREE:
          note (log, "free %c", GPOINTER_TO_INT (name));
          break;
        case TARN_TRACE_GONE:
          note (log, "gone %c", GPOINTER_TO_INT (name));
          break;
        case TARN_TRACE_FAIL:
          note (log, "fail %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, event.size, event.other);
          break;
        case TARN_TRACE_TRIM:
          note (log, "trim %" G_GUINT64_FORMAT, event.size);
          break;
        case TARN_TRACE_OUT_OF_MEMORY:
          note (log, "out of memory %" G_GUINT64_FORMAT, event.size);
          break;
        case TARN_TRACE_LIMIT_REACHED:
          note (log, "limit reached %" G_GUINT64_FORMAT, event.size);
          break;
        default:
          break;
        }
    }
  return g_string_free (log, FALSE);
}
