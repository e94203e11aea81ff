/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures recordings: how much memory the program's pools took, and how much they would take with
 * each alternative (a change to its pools and heaps).  Counters come from a replay in the recorded
 * order; times come from separate replays. */

#include <math.h>

#include <tarn/snapshot.h>

#include "measures.h"
#include "recorded-replay.h"
#include "what-if.h"

#define MAX_TIMED_NS ((gint64) 1000000000) /* after this time no further repetition begins */

/* A recording that is replayed on a kind of memory. */
typedef struct
{
  const Bench *bench;
  const Recorded *recorded;
  const Source *source;
  WhatIf *table;
  gsize *peaks; /* for each pool, the most bytes that it managed during the first replay */
} Trial;

static gdouble
get_share (guint64 part, guint64 all)
{
  return all > 0 ? (gdouble) part / (gdouble) all : (gdouble) NAN;
}

static void
set_hit_share (WhatIfRow *row, const Rebuilt *rebuilt)
{
  guint64 served = 0, without_driver = 0;

  for (guint i = 0; i < rebuilt->recorded->objects->len; i++)
    {
      const TarnPoolStats *stats = &rebuilt->objects[i].pool_stats;

      served += stats->hits + stats->misses;
      without_driver += stats->served_without_driver;
    }
  row->hit_share = get_share (without_driver, served);
}

static void
set_row (WhatIfRow *row, const RecordedReplay *replay)
{
  row->peak_managed = replay->peak;
  row->peak_active = replay->peak_active;
  row->failures = replay->n_failures;
  row->calls = rebuilt_get_calls (replay->rebuilt) + replay->n_backend_blocks;
  row->ratio = get_share (replay->peak, replay->peak_active);
  row->idle_share
      = get_share (replay->peak - MIN (replay->active_at_peak, replay->peak), replay->peak);
  set_hit_share (row, replay->rebuilt);
}

static gboolean
time_once (const Trial *trial, const Alternative *alternative, gdouble *ns, GError **error)
{
  g_auto (Rebuilt) rebuilt = { .recorded = NULL };
  g_auto (RecordedReplay) replay = { .rebuilt = NULL };

  return rebuilt_init (&rebuilt, trial->recorded, trial->source, alternative, trial->peaks, error)
         && recorded_replay_time (&replay, &rebuilt, ns, error);
}

/* Times the steps in several repetitions.  No repetition begins after MAX_TIMED_NS, so a large
 * program may be replayed only once: its many steps are repetition enough. */
static gboolean
time_steps (const Trial *trial, const Alternative *alternative, WhatIfRow *row, GError **error)
{
  guint n_repetitions = trial->bench->n_repetitions;
  g_autofree gdouble *ns = g_new (gdouble, n_repetitions);
  gint64 start = clock_now ();
  guint n = 0;

  do
    if (!time_once (trial, alternative, &ns[n], error))
      return FALSE;
  while (++n < n_repetitions && clock_now () - start < MAX_TIMED_NS);
  row->has_time = TRUE;
  row->ns = spread_of (ns, n);
  return TRUE;
}

static void
keep_peaks (const Rebuilt *rebuilt, gsize *peaks)
{
  for (guint i = 0; i < rebuilt->recorded->objects->len; i++)
    peaks[i] = rebuilt->objects[i].pool_stats.peak_managed_bytes;
}

/* Tells whether a replay changes nothing, so that its counters must equal those of the recording.
 * If the kind of memory has a heap, the replay also puts a heap below each recorded pool that has
 * none.  That is a change, too, unless every recorded pool has a heap. */
static gboolean
is_as_recorded (const Trial *trial, const Alternative *alternative)
{
  return alternative->label == NULL
         && !(alternative->has_heaps && alternative_applies (alternative, trial->recorded));
}

/* Replays a recording while the library traces blocks, as it did while the program was recorded.
 * Tracing makes pools count each request, so their counters are exact. */
static gboolean
replay_traced (RecordedReplay *replay, Rebuilt *rebuilt, GError **error)
{
  gboolean is_replayed;

  tarn_snapshot_set_follow (TRUE);
  is_replayed = recorded_replay_in_order (replay, rebuilt, error);
  tarn_snapshot_set_follow (FALSE);
  return is_replayed;
}

static gboolean
try_alternative (const Trial *trial, const Alternative *alternative, WhatIfRow *row, GError **error)
{
  gboolean is_first = alternative->label == NULL;
  g_auto (Rebuilt) rebuilt = { .recorded = NULL };
  g_auto (RecordedReplay) replay = { .rebuilt = NULL };

  if (!rebuilt_init (&rebuilt, trial->recorded, trial->source, alternative,
                     is_first ? NULL : trial->peaks, error)
      || !replay_traced (&replay, &rebuilt, error))
    return FALSE;
  set_row (row, &replay);
  if (is_first)
    keep_peaks (&rebuilt, trial->peaks);
  if (is_as_recorded (trial, alternative))
    what_if_compare (trial->table, &rebuilt);
  return TRUE;
}

static void
fill_row (const Trial *trial, const Alternative *alternative)
{
  const gchar *label = alternative->label;
  g_autoptr (GError) error = NULL;
  WhatIfRow *row;

  if (label == NULL)
    label = is_as_recorded (trial, alternative) ? "as recorded" : "as recorded+heap";
  row = what_if_add (trial->table, label);
  if (!try_alternative (trial, alternative, row, &error)
      || !time_steps (trial, alternative, row, &error))
    row->error = g_strdup (error->message);
}

/* Tries the program as recorded, and then all alternatives.  If the kind has a heap, every replay
 * puts a heap below each pool that has none, unless the alternative removes heaps. */
static void
try_all (const Trial *trial)
{
  gboolean has_heap = trial->source->kind->has_heap;
  g_autoptr (Alternative) first = alternative_new_as_recorded (has_heap);
  const GPtrArray *all = trial->bench->alternatives;

  fill_row (trial, first);
  for (guint i = 0; all != NULL && i < all->len; i++)
    {
      const Alternative *given = all->pdata[i];
      g_autoptr (Alternative) with_heaps = has_heap ? alternative_copy_with_heaps (given) : NULL;

      if (trial->bench->has_all_alternatives || alternative_applies (given, trial->recorded))
        fill_row (trial, with_heaps != NULL ? with_heaps : given);
    }
  what_if_sort (trial->table);
}

void
measure_what_if (const Bench *bench, const Source *source, const Measure *measure)
{
  (void) measure;
  for (guint i = 0; i < bench->recordings->len; i++)
    {
      const Recorded *recorded = bench->recordings->pdata[i];
      g_autofree gsize *peaks = g_new0 (gsize, MAX (recorded->objects->len, 1));
      const Trial trial = { bench, recorded, source, what_if_new (recorded, source), peaks };

      try_all (&trial);
      g_ptr_array_add (bench->results->tables, trial.table);
      bench_hand_over (bench);
    }
}
