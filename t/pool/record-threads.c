/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings of threads: each thread's events are complete and in order, also of threads that
 * come and go, or that go on during several recordings. */

#include <sys/syscall.h>
#include <unistd.h>

#include "lib/pool-fixture.h"
#include "record-fixture.h"

static guint64
get_thread_number (void)
{
  return (guint64) syscall (SYS_gettid);
}

/* Threads.  Each keeps a log of its own: of sizes it asked for and blocks it freed. */

#define N_THREADS 8
#define N_LIVE 64

typedef struct
{
  TarnPool *pool;
  guint64 n_events; /* to do */
  guint64 thread;
  guint64 n_requests, n_frees;
  guint64 hash; /* of what it did, in order */
} Worker;

static guint64
mix (guint64 hash, guint64 number)
{
  return (hash ^ number) * G_GUINT64_CONSTANT (0x100000001b3);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  TarnBlock *live[N_LIVE] = { NULL };
  guint32 chance = (guint32) GPOINTER_TO_SIZE (data) | 1;

  worker->thread = get_thread_number ();
  for (guint64 n = 0; n < worker->n_events; n++)
    {
      TarnBlock **place;

      chance = chance * 1664525 + 1013904223;
      place = &live[(chance >> 16) % N_LIVE];
      if (*place != NULL)
        {
          worker->hash = mix (worker->hash, GPOINTER_TO_SIZE (*place));
          worker->n_frees++;
          tarn_block_free (*place);
          *place = NULL;
          continue;
        }
      *place = pool_take (worker->pool, 1 + (chance >> 8) % 4096);
      worker->hash = mix (worker->hash, tarn_block_get_size (*place));
      worker->n_requests++;
    }
  for (guint i = 0; i < N_LIVE; i++)
    if (live[i] != NULL)
      {
        worker->hash = mix (worker->hash, GPOINTER_TO_SIZE (live[i]));
        worker->n_frees++;
        tarn_block_free (live[i]);
      }
  return NULL;
}

static void
compare_threads (Recording *recording, const Worker *workers)
{
  g_autoptr (GHashTable) in_use = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_int64_hash, g_int64_equal);
  Worker read[N_THREADS] = { { .pool = NULL } };
  RecordedEvent event;
  guint64 n = 0;

  for (guint i = 0; i < N_THREADS; i++)
    {
      read[i].thread = workers[i].thread;
      g_hash_table_insert (seen, &read[i].thread, &read[i]);
    }
  while (record_next (recording, &event))
    {
      Worker *worker = g_hash_table_lookup (seen, &event.thread);
      gboolean is_request = event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS;

      if (!is_request && event.kind != TARN_TRACE_FREE)
        continue;
      g_assert_nonnull (worker);
      n++;
      worker->hash = mix (worker->hash, is_request ? event.size : event.block);
      worker->n_requests += is_request;
      worker->n_frees += !is_request;
      /* The order of all threads is one in which it can have happened. */
      if (is_request)
        g_assert_true (g_hash_table_add (in_use, record_copy_number (event.block)));
      else
        g_assert_true (g_hash_table_remove (in_use, &event.block));
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_assert_cmpuint (read[i].n_requests, ==, workers[i].n_requests);
      g_assert_cmpuint (read[i].n_frees, ==, workers[i].n_frees);
      g_assert_cmpuint (read[i].hash, ==, workers[i].hash);
    }
  g_assert_cmpuint (g_hash_table_size (in_use), ==, 0);
  g_test_message ("%" G_GUINT64_FORMAT " events are those that %d threads kept a log of", n,
                  N_THREADS);
}

static void
test_threads (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);
  g_autoptr (Recording) recording = NULL;
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  Worker workers[N_THREADS] = { { .pool = NULL } };
  guint64 n_events = g_test_slow () ? 20000000 : 400000;
  GThread *threads[N_THREADS];
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_auto (Place) place = { NULL, NULL };
  gint64 begin, end;

  place_init (&place, "trace");
  if (!g_test_slow ())
    options.buffer_bytes = 16 * n_events; /* whatever else runs beside this */
  record_start (&place, &options);
  begin = g_get_monotonic_time ();
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].pool = pool;
      workers[i].n_events = n_events / N_THREADS;
      threads[i] = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  end = g_get_monotonic_time ();
  record_stop ();
  tarn_trace_get_stats (&stats);
  g_test_message ("%" G_GUINT64_FORMAT " events in %.2f s, %" G_GUINT64_FORMAT " MiB", stats.events,
                  (gdouble) (end - begin) / 1e6, stats.written_bytes >> 20);
  recording = record_open (&place);
  compare_threads (recording, workers);
}

/* Blocks that one thread asks for and another frees, and threads that come and go */

static gint is_over; /* atomic */

static gpointer
free_all (gpointer data)
{
  TarnBlock **blocks = data;

  for (guint i = 0; i < N_LIVE; i++)
    tarn_block_free (blocks[i]);
  return NULL;
}

static void
test_other_threads (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);
  g_autoptr (Recording) recording = NULL;
  guint64 self = get_thread_number ();
  TarnBlock *blocks[N_LIVE];
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  gint n_in_use = 0, n = 0;

  place_init (&place, "trace");
  record_start (&place, NULL);
  for (guint round = 0; round < 50; round++)
    {
      for (guint i = 0; i < N_LIVE; i++)
        blocks[i] = pool_take (pool, 64);
      g_thread_join (g_thread_new ("other", free_all, blocks));
    }
  record_stop ();
  recording = record_open (&place);
  while (record_next (recording, &event))
    if (event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS)
      {
        g_assert_cmpuint (event.thread, ==, self);
        g_assert_cmpint (++n_in_use, <=, N_LIVE);
      }
    else if (event.kind == TARN_TRACE_FREE)
      {
        g_assert_cmpuint (event.thread, !=, self);
        g_assert_cmpint (--n_in_use, >=, 0);
        n++;
      }
  g_assert_cmpint (n, ==, 50 * N_LIVE);
}

/* Frees memory that it allocates, without a pool, which is all that it calls Tarn for. */
static gpointer
use_allocator (gpointer allocator)
{
  while (!g_atomic_int_get (&is_over))
    tarn_block_free (tarn_allocator_allocate (allocator, 64, NULL));
  return NULL;
}

/* One recording after another, while threads go on that have never called what gives them streams
 * of their own. */
static void
test_again (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  GThread *threads[2];

  g_atomic_int_set (&is_over, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("user", use_allocator, allocator);
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (Recording) recording = NULL;
      g_auto (Place) place = { NULL, NULL };
      RecordedEvent event;

      place_init (&place, "trace");
      record_start (&place, NULL);
      g_usleep (2000);
      record_stop ();
      recording = record_open (&place);
      while (record_next (recording, &event))
        continue;
    }
  g_atomic_int_set (&is_over, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/record/threads", test_threads);
  g_test_add_func ("/core/record/other-threads", test_other_threads);
  g_test_add_func ("/core/record/again", test_again);
  return g_test_run ();
}
