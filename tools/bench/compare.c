/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Compares the counters of a replay with those of the recording.  Some counters are compared only
 * for objects that still exist at the end of the recording. */

#include "what-if.h"

#include "common/trace-names-private.h"

static void G_GNUC_PRINTF (2, 3) note (WhatIf *self, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_ptr_array_add (self->notes, g_strdup_vprintf (format, args));
  va_end (args);
}

static gchar *
describe (const RecordedObject *object)
{
  return g_strdup_printf (
      "%s #%" G_GUINT64_FORMAT "%s%s", _tarn_trace_name_class (object->object_class),
      object->number, object->name != NULL ? " " : "", object->name != NULL ? object->name : "");
}

static void
compare_number (WhatIf *self, const RecordedObject *object, const gchar *counter, guint64 recorded,
                guint64 replayed)
{
  Difference *difference;

  self->n_compared++;
  if (recorded == replayed)
    return;
  difference = g_new0 (Difference, 1);
  difference->object = describe (object);
  difference->counter = g_strdup (counter);
  difference->recorded = recorded;
  difference->replayed = replayed;
  g_ptr_array_add (self->differences, difference);
}

/* A counter of the recording, and its value in the replay. */
typedef struct
{
  TarnTraceProperty property;
  const gchar *name;
  guint64 replayed;
} Counter;

static void
compare_counters (WhatIf *self, const RecordedObject *object, const Counter *counters, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (object->counters.is_known[counters[i].property])
      compare_number (self, object, counters[i].name, object->counters.number[counters[i].property],
                      counters[i].replayed);
}

/* Compares the numbers of requests.  The recording's numbers were counted from its events, because
 * a program that was killed has recorded no counters. */
static void
compare_requests (WhatIf *self, const RecordedObject *object, const TarnPoolStats *stats)
{
  compare_number (self, object, "hits", object->hits, stats->hits);
  compare_number (self, object, "misses", object->misses, stats->misses);
  compare_number (self, object, "failures", object->failures - object->n_skipped, stats->failures);
}

static void
compare_pool (WhatIf *self, const RecordedObject *object, const TarnPoolStats *stats)
{
  const Counter always[] = {
    { TARN_TRACE_HITS, "hits", stats->hits },
    { TARN_TRACE_MISSES, "misses", stats->misses },
    { TARN_TRACE_FAILURES, "failures", stats->failures + object->n_skipped },
    { TARN_TRACE_DRIVER_CALLS, "driver calls", stats->driver_calls },
    { TARN_TRACE_UPSTREAM_FAILURES, "upstream failures", stats->upstream_failures },
    { TARN_TRACE_PEAK_MANAGED_BYTES, "peak of managed bytes", stats->peak_managed_bytes },
    { TARN_TRACE_PEAK_ACTIVE_BYTES, "peak of active bytes", stats->peak_active_bytes },
  };
  const Counter in_the_end[] = {
    { TARN_TRACE_UPSTREAM_FREES, "upstream frees", stats->upstream_frees },
    { TARN_TRACE_HELD_BLOCKS, "held blocks", stats->held_blocks },
    { TARN_TRACE_ACTIVE_BLOCKS, "active blocks", stats->active_blocks },
    { TARN_TRACE_MANAGED_BYTES, "managed bytes", stats->managed_bytes },
    { TARN_TRACE_ACTIVE_BYTES, "active bytes", stats->active_bytes },
    { TARN_TRACE_HELD_BYTES, "held bytes", stats->held_bytes },
  };

  if (!object->counters.is_known[TARN_TRACE_HITS])
    {
      compare_requests (self, object, stats);
      return;
    }
  compare_counters (self, object, always, G_N_ELEMENTS (always));
  if (!object->has_ended)
    compare_counters (self, object, in_the_end, G_N_ELEMENTS (in_the_end));
}

static void
compare_heap (WhatIf *self, const RecordedObject *object, const TarnHeapStats *stats)
{
  const Counter always[] = {
    { TARN_TRACE_DRIVER_CALLS, "driver calls", stats->driver_calls },
    { TARN_TRACE_MOVES, "moves", stats->moves },
    { TARN_TRACE_PEAK_UPSTREAM_BYTES, "peak of upstream bytes", stats->peak_upstream_bytes },
    { TARN_TRACE_PEAK_USED_BYTES, "peak of used bytes", stats->peak_used_bytes },
  };
  const Counter in_the_end[] = {
    { TARN_TRACE_UPSTREAM_FREES, "upstream frees", stats->upstream_frees },
    { TARN_TRACE_UPSTREAM_BYTES, "upstream bytes", stats->upstream_bytes },
    { TARN_TRACE_USED_BYTES, "used bytes", stats->used_bytes },
    { TARN_TRACE_FREE_BYTES, "free bytes", stats->free_bytes },
    { TARN_TRACE_PIECES, "pieces", stats->pieces },
  };

  compare_counters (self, object, always, G_N_ELEMENTS (always));
  if (!object->has_ended)
    compare_counters (self, object, in_the_end, G_N_ELEMENTS (in_the_end));
}

/* Tells whether the recording has all requests of a pool.  Some are missing if the pool had blocks
 * before recording began, or if its counters are larger than the number of recorded requests. */
static gboolean
is_whole (const RecordedObject *object)
{
  const RecordedNumbers *counters = &object->counters;
  guint64 counted = counters->number[TARN_TRACE_HITS] + counters->number[TARN_TRACE_MISSES]
                    + counters->number[TARN_TRACE_FAILURES];
  guint64 recorded = object->hits + object->misses + object->failures;

  return !object->was_there && (!counters->is_known[TARN_TRACE_HITS] || counted <= recorded);
}

static void
note_partial (WhatIf *self, const RecordedObject *object)
{
  g_autofree gchar *name = describe (object);

  note (self, "%s is not compared: it had been used before recording began", name);
}

static void
note_limits (WhatIf *self, const RecordedObject *object)
{
  g_autofree gchar *name = describe (object);

  if (recorded_has_varying_room (object))
    note (self,
          "%s once had %" G_GUINT64_FORMAT " bytes and another time could not allocate "
          "%" G_GUINT64_FORMAT ": it is replayed with the room of each time",
          name, object->most_given, object->least_refused);
}

static void
note_all (WhatIf *self, const Recorded *recorded)
{
  if (recorded->n_lost > 0)
    note (self, "%" G_GUINT64_FORMAT " %s lost", recorded->n_lost,
          recorded->n_lost == 1 ? "event was" : "events were");
  if (!recorded->is_complete)
    note (self, "recording was not ended: the last events may be missing");
  if (recorded->n_threads > 1)
    note (self, "steps of several threads at the same time are replayed one after the other");
}

void
what_if_compare (WhatIf *self, const Rebuilt *rebuilt)
{
  const Recorded *recorded = rebuilt->recorded;
  g_autoptr (GHashTable) partial = g_hash_table_new (NULL, NULL);

  note_all (self, recorded);
  for (guint i = 0; i < recorded->objects->len; i++)
    {
      const RecordedObject *object = recorded->objects->pdata[i];

      note_limits (self, object);
      if (object->object_class != TARN_TRACE_POOL)
        continue;
      if (is_whole (object))
        compare_pool (self, object, &rebuilt->objects[i].pool_stats);
      else
        {
          note_partial (self, object);
          g_hash_table_add (partial, GUINT_TO_POINTER (object->upstream));
        }
    }
  for (guint i = 0; i < recorded->objects->len; i++)
    {
      const RecordedObject *object = recorded->objects->pdata[i];

      if (object->object_class == TARN_TRACE_HEAP
          && !g_hash_table_contains (partial, GUINT_TO_POINTER (i)))
        compare_heap (self, object, &rebuilt->objects[i].heap_stats);
    }
}
