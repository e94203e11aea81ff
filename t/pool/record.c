/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings of pools and heaps, read back: what is in the file is what was done. */

#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tarn/tarn.h>
#include <tarn/testing.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "lib/place.h"
#include "trace/recording.h"

/* A file for a recording, in a folder of its own */

static void
start (const Place *place, const TarnTraceOptions *options)
{
  g_autoptr (GError) error = NULL;
  gboolean is_started = tarn_trace_start (place->path, options, &error);

  g_assert_no_error (error);
  g_assert_true (is_started);
}

/* Ends the recording, of which nothing may be lost. */
static void
stop (void)
{
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (GError) error = NULL;
  gboolean is_stopped = tarn_trace_stop (&error);

  g_assert_no_error (error);
  g_assert_true (is_stopped);
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, ==, 0);
}

static Recording *
open_recording (const Place *place)
{
  g_autoptr (GError) error = NULL;
  Recording *recording = recording_open (place->path, &error);

  g_assert_no_error (error);
  g_assert_nonnull (recording);
  return recording;
}

static gboolean
next (Recording *recording, RecordedEvent *event)
{
  g_autoptr (GError) error = NULL;
  gboolean is_there = recording_next (recording, event, &error);

  g_assert_no_error (error);
  return is_there;
}

static guint64
get_property (const RecordedEvent *event, TarnTraceProperty property)
{
  for (gsize i = 0; i < event->n_properties; i++)
    if (event->properties[i].property == property)
      return event->properties[i].number;
  g_assert_not_reached ();
}

static guint64
get_thread_number (void)
{
  return (guint64) syscall (SYS_gettid);
}

static gpointer
copy_number (guint64 number)
{
  guint64 *copy = g_new (guint64, 1);

  *copy = number;
  return copy;
}

/* What a test did, as lines, and what a recording says */

static void G_GNUC_PRINTF (2, 3) note (GString *log, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_string_append_vprintf (log, format, args);
  va_end (args);
  g_string_append_c (log, '\n');
}

/* Writes a line for each event of requests and frees, in which blocks have names: a, b, ... in the
 * order in which they are met. */
static gchar *
read_log (Recording *recording)
{
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  GString *log = g_string_new (NULL);
  RecordedEvent event;

  while (next (recording, &event))
    {
      const gchar *tag = event.tag != 0 ? recording_get_string (recording, event.tag) : "-";
      gpointer name = g_hash_table_lookup (names, &event.block);

      if (event.block != 0 && name == NULL)
        {
          name = GINT_TO_POINTER ('a' + g_hash_table_size (names));
          g_hash_table_insert (names, copy_number (event.block), name);
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
        default:
          break;
        }
    }
  return g_string_free (log, FALSE);
}

static TarnBlock *
allocate (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

static TarnPool *
pool_new (TarnAllocator *allocator, const gchar *name)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.name = name;
  return tarn_pool_new (allocator, &options, NULL);
}

/* Each sort of request, one after the other */
static void
test_requests (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (4096);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, "things");
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *first, *second;

  place_init (&place, "trace");
  first = allocate (pool, 100);
  second = allocate (pool, 200);
  tarn_block_free (second);
  start (&place, NULL);
  tarn_block_free (first);
  tarn_tag_push ("outer");
  second = allocate (pool, 201);
  {
    TARN_TAG_SCOPE ("inner");
    first = allocate (pool, 1000);
  }
  tarn_block_free (second);
  tarn_tag_pop ();
  second = allocate (pool, 202);
  g_assert_null (tarn_pool_allocate (pool, 4000, NULL));
  tarn_block_free (first);
  tarn_pool_free_held (pool);
  stop ();
  tarn_block_free (second);

  recording = open_recording (&place);
  g_assert_true (recording_is_complete (recording));
  g_assert_cmpuint (recording_get_pid (recording), ==, getpid ());
  log = read_log (recording);
  g_assert_cmpstr (log, ==,
                   "block a 100 103 in use\n"
                   "block b 0 207 held\n"
                   "free a\n"
                   "hit b 201 outer\n"
                   "miss c 1000 1023 inner\n"
                   "free b\n"
                   "hit b 202 -\n"
                   "gone a\n"
                   "out of memory 4000\n"
                   "fail 4000 1\n"
                   "free c\n"
                   "trim 0\n"
                   "gone c\n");
}

/* The counters in the file are the pool's, at the end of the recording, or its own. */
static void
test_counters (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (Recording) recording = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 n_events[TARN_TRACE_N_KINDS] = { 0 };
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[50];
  RecordedEvent event;
  guint n_reports = 0;

  place_init (&place, "trace");
  start (&place, NULL);
  pool = pool_new (allocator, "counted");
  for (guint round = 0; round < 20; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        blocks[i] = allocate (pool, 1 + (i * 37 + round * 11) % 500);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
    }
  tarn_pool_trim (pool, 1000);
  tarn_pool_get_stats (pool, &stats);
  stop ();

  recording = open_recording (&place);
  while (next (recording, &event))
    {
      n_events[event.kind]++;
      if (event.kind == TARN_TRACE_OBJECT && event.object_class == TARN_TRACE_POOL)
        {
          g_assert_cmpstr (event.name, ==, "counted");
          g_assert_cmpuint (get_property (&event, TARN_TRACE_LEADING_BITS), ==, 4);
        }
      if (event.kind != TARN_TRACE_STATS)
        continue;
      n_reports++;
      g_assert_cmpuint (get_property (&event, TARN_TRACE_HITS), ==, stats.hits);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_MISSES), ==, stats.misses);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_DRIVER_CALLS), ==, stats.driver_calls);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_HELD_BYTES), ==, stats.held_bytes);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_PEAK_MANAGED_BYTES), ==,
                        stats.peak_managed_bytes);
    }
  g_assert_cmpuint (n_reports, ==, 1);
  g_assert_cmpuint (n_events[TARN_TRACE_HIT], ==, stats.hits);
  g_assert_cmpuint (n_events[TARN_TRACE_MISS], ==, stats.misses);
  g_assert_cmpuint (n_events[TARN_TRACE_GONE], ==, stats.upstream_frees);
  g_assert_cmpuint (n_events[TARN_TRACE_FREE], ==, stats.hits + stats.misses);
  g_assert_cmpuint (n_events[TARN_TRACE_ALLOCATED], ==,
                    tarn_testing_device_get_allocate_calls (device));
  g_assert_cmpuint (n_events[TARN_TRACE_FREED], ==, tarn_testing_device_get_free_calls (device));
  g_assert_cmpuint (recording_get_n_lost (recording), ==, 0);
}

/* What a heap says of its memory adds up to its counters, at its busiest as at its end; so do the
 * calls of the backend. */
static void
check_heap (TarnTestingPagesKind kind)
{
  TarnTestingPages *device = tarn_testing_pages_new (G_MAXUINT64, kind);
  TarnAllocator *allocator = tarn_testing_pages_allocator_new (device);
  TarnAllocator *heap = tarn_heap_allocator_new (allocator, NULL, NULL);
  TarnPool *pool = tarn_pool_new (heap, NULL, NULL);
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  gint64 pieces = 0, in_pieces = 0, in_extents = 0, most_in_extents = 0;
  guint64 n_allocated = 0, n_freed = 0;
  g_autoptr (Recording) recording = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[100];
  RecordedEvent event;

  place_init (&place, "trace");
  start (&place, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = allocate (pool, 1 + i * i * 1999);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    blocks[i] = allocate (pool, 5000 + i * 100);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  tarn_heap_get_stats (heap, &stats);
  stop ();

  recording = open_recording (&place);
  while (next (recording, &event))
    {
      gint64 size = (gint64) event.size;

      pieces += event.kind == TARN_TRACE_PIECE ? 1 : event.kind == TARN_TRACE_PIECE_GONE ? -1 : 0;
      in_pieces += event.kind == TARN_TRACE_PIECE        ? size
                   : event.kind == TARN_TRACE_PIECE_GONE ? -size
                                                         : 0;
      in_extents += event.kind == TARN_TRACE_EXTENT        ? size
                    : event.kind == TARN_TRACE_EXTENT_FREE ? -size
                                                           : 0;
      most_in_extents = MAX (most_in_extents, in_extents);
      g_assert_cmpint (in_extents, <=, in_pieces);
      n_allocated += event.kind == TARN_TRACE_ALLOCATED && event.other == 0;
      n_freed += event.kind == TARN_TRACE_FREED;
    }
  g_assert_cmpint (pieces, ==, (gint64) stats.pieces);
  g_assert_cmpint (in_pieces, ==, (gint64) stats.upstream_bytes);
  g_assert_cmpint (in_extents, ==, (gint64) stats.used_bytes);
  g_assert_cmpint (most_in_extents, ==, (gint64) stats.peak_used_bytes);
  g_assert_cmpuint (n_allocated, ==, stats.driver_calls);
  g_assert_cmpuint (n_freed, ==, stats.upstream_frees);
  g_assert_cmpuint (n_freed, >, 0);
  tarn_pool_unref (pool);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (allocator);
  tarn_testing_pages_free (device);
}

static void
test_heap (void)
{
  check_heap (TARN_TESTING_PAGES_VIRTUAL);
  check_heap (TARN_TESTING_PAGES_PARTS);
  check_heap (TARN_TESTING_PAGES_ADDRESSES);
}

/* A backend without a pool: what fails says why. */
static void
test_direct (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (100);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  start (&place, NULL);
  tarn_block_free (tarn_allocator_allocate (allocator, 60, NULL));
  g_assert_null (tarn_allocator_allocate (allocator, 101, NULL));
  stop ();
  recording = open_recording (&place);
  log = read_log (recording);
  g_assert_cmpstr (log, ==, "miss a 60 60 -\nfree a\nfail 101 1\n");
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
      *place = allocate (worker->pool, 1 + (chance >> 8) % 4096);
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
  while (next (recording, &event))
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
        g_assert_true (g_hash_table_add (in_use, copy_number (event.block)));
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
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);
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
  start (&place, &options);
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
  stop ();
  tarn_trace_get_stats (&stats);
  g_test_message ("%" G_GUINT64_FORMAT " events in %.2f s, %" G_GUINT64_FORMAT " MiB", stats.events,
                  (gdouble) (end - begin) / 1e6, stats.written_bytes >> 20);
  recording = open_recording (&place);
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
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);
  g_autoptr (Recording) recording = NULL;
  guint64 self = get_thread_number ();
  TarnBlock *blocks[N_LIVE];
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  gint n_in_use = 0, n = 0;

  place_init (&place, "trace");
  start (&place, NULL);
  for (guint round = 0; round < 50; round++)
    {
      for (guint i = 0; i < N_LIVE; i++)
        blocks[i] = allocate (pool, 64);
      g_thread_join (g_thread_new ("other", free_all, blocks));
    }
  stop ();
  recording = open_recording (&place);
  while (next (recording, &event))
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
      start (&place, NULL);
      g_usleep (2000);
      stop ();
      recording = open_recording (&place);
      while (next (recording, &event))
        continue;
    }
  g_atomic_int_set (&is_over, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

/* Too little room: a pipe that nobody reads from */

static gpointer
read_pipe (gpointer data)
{
  const Place *place = data;
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 part[4096];
  gint file = open (place->path, O_RDONLY);
  gssize n;

  while (file >= 0 && (n = read (file, part, sizeof part)) > 0)
    g_byte_array_append (bytes, part, (guint) n);
  close (file);
  return g_byte_array_free_to_bytes (g_steal_pointer (&bytes));
}

static void
test_lost (void)
{
  enum
  {
    N_REQUESTS = 500000
  };
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (Recording) recording = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  GThread *thread;
  guint64 n = 0;
  gint file;

  place_init (&place, "trace");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  file = open (place.path, O_RDONLY | O_NONBLOCK); /* else start would wait for a reader */
  options.buffer_bytes = 0;
  start (&place, &options);
  for (guint i = 0; i < N_REQUESTS; i++)
    tarn_block_free (allocate (pool, 64));
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, >, N_REQUESTS);
  thread = g_thread_new ("reader", read_pipe, &place);
  g_usleep (1000); /* it may open the pipe before we close ours, or after */
  g_assert_true (tarn_trace_stop (&error));
  g_assert_no_error (error);
  tarn_trace_get_stats (&stats);
  close (file);
  bytes = g_thread_join (thread);
  recording = recording_open_bytes (bytes, "pipe", &error);
  g_assert_no_error (error);
  while (next (recording, &event))
    n += event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_FREE
         || event.kind == TARN_TRACE_MISS;
  g_assert_cmpuint (recording_get_n_lost (recording), ==, stats.lost_events);
  g_assert_cmpuint (n + stats.lost_events, >=, 2 * N_REQUESTS);
  g_assert_cmpuint (n + stats.lost_events, <, 2 * N_REQUESTS + 10);
}

/* Files that cannot be written */

static void
test_errors (void)
{
  g_autoptr (GError) error = NULL;
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  g_assert_false (tarn_trace_stop (&error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (tarn_trace_start ("/nowhere/at/all", NULL, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_nonnull (strstr (error->message, "/nowhere/at/all"));
  g_clear_error (&error);
  if (g_access ("/dev/full", W_OK) == 0)
    {
      g_assert_false (tarn_trace_start ("/dev/full", NULL, &error));
      g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
      g_clear_error (&error);
    }
  options.stack_depth = TARN_TRACE_MAX_STACK_DEPTH + 1;
  g_assert_false (tarn_trace_start (place.path, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "65"));
  g_clear_error (&error);
  start (&place, NULL);
  g_assert_false (tarn_trace_start (place.path, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  stop ();
  g_assert_false (tarn_trace_start ("/nowhere/\x1b[2J\n", NULL, &error));
  g_assert_nonnull (strstr (error->message, "/nowhere/\\x1b[2J\\x0a: "));
}

/* A recording is its owner's alone, and goes to no file that a symbolic link of others names. */
static void
test_private (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };
  g_autofree gchar *target = NULL, *text = NULL;
  mode_t mask = umask (0);
  struct stat info;

  place_init (&place, "trace");
  target = g_build_filename (place.folder, "target", NULL);
  start (&place, NULL);
  stop ();
  umask (mask);
  g_assert_cmpint (stat (place.path, &info), ==, 0);
  g_assert_cmphex (info.st_mode & 0777, ==, 0600);
  g_assert_cmpint (g_unlink (place.path), ==, 0);
  g_assert_true (g_file_set_contents (target, "precious", -1, NULL));
  g_assert_cmpint (symlink (target, place.path), ==, 0);
  g_assert_false (tarn_trace_start (place.path, NULL, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_LOOP);
  g_assert_true (g_file_get_contents (target, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "precious");
  g_assert_cmpint (g_unlink (target), ==, 0);
}

/* The disk is full later on: the program goes on, and is told in the end. */
static void
test_full (void)
{
  g_autoptr (TarnTestingDevice) device = NULL;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  const struct rlimit limit = { 100000, 100000 };
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  place_init (&place, "trace");
  device = tarn_testing_device_new (G_MAXUINT64);
  allocator = tarn_testing_device_allocator_new (device);
  pool = pool_new (allocator, NULL);
  signal (SIGXFSZ, SIG_IGN);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  start (&place, NULL);
  for (guint i = 0; i < 200000; i++)
    tarn_block_free (allocate (pool, 64));
  g_assert_false (tarn_trace_stop (&error));
  g_assert_cmpint (error->domain, ==, G_FILE_ERROR);
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, >, 300000);
  g_assert_cmpuint (stats.events, >, 1000);
}

/* Children of fork () */

static void
record_in_child (gpointer data)
{
  TarnBlock **block = data;
  g_autoptr (GError) error = NULL;

  tarn_block_free (*block);
  STEP (1, !tarn_trace_stop (&error));
  STEP (2, take_forked (&error));
  STEP (3, !tarn_trace_start ("/dev/null", NULL, &error));
  STEP (4, take_forked (&error));
  tarn_tag_push ("child");
  tarn_tag_pop ();
}

static void
test_fork (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *block;

  place_init (&place, "trace");
  start (&place, NULL);
  block = allocate (pool, 1);
  in_child (record_in_child, &block);
  tarn_block_free (block);
  stop ();
  recording = open_recording (&place);
  log = read_log (recording);
  g_assert_cmpstr (log, ==, "miss a 1 1 -\nfree a\n");
}

/* The child of fork () is held before the library has seen it, by a handler that was there first.
 */
static gint held_child[2] = { -1, -1 };

static void
hold_child (void)
{
  gchar byte;

  if (held_child[0] < 0)
    return;
  close (held_child[1]);
  if (read (held_child[0], &byte, 1) != 1) /* its parent has failed */
    _exit (1);
}

/* A child that lives on does not keep its parent from the file, nor does one that has not yet run.
 */
static void
test_fork_lives_on (void)
{
  g_auto (Place) place = { NULL, NULL };
  gint status;
  pid_t child;

  place_init (&place, "trace");
  start (&place, NULL);
  g_assert_cmpint (pipe (held_child), ==, 0);
  child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (20);
      pause ();
      _exit (0);
    }
  stop ();
  start (&place, NULL);
  stop ();
  g_assert_cmpint (write (held_child[1], "", 1), ==, 1);
  close (held_child[0]);
  close (held_child[1]);
  held_child[0] = held_child[1] = -1;
  start (&place, NULL);
  stop ();
  kill (child, SIGKILL);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
}

/* A program that is recorded from outside, and ends as it likes */

static void
be_recorded (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);

  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (pool, 64));
}

static void
test_environment (void)
{
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *pattern = NULL, *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  const gchar *name;
  GDir *folder;

  if (g_test_subprocess ())
    {
      be_recorded ();
      return;
    }
  place_init (&place, "trace");
  pattern = g_build_filename (place.folder, "%p.trace", NULL);
  g_setenv ("TARN_TRACE", pattern, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_TRACE");
  g_test_trap_assert_passed ();
  folder = g_dir_open (place.folder, 0, NULL);
  name = g_dir_read_name (folder);
  g_assert_true (g_str_has_suffix (name, ".trace"));
  g_free (place.path);
  place.path = g_build_filename (place.folder, name, NULL);
  g_assert_null (g_dir_read_name (folder));
  g_dir_close (folder);
  recording = open_recording (&place);
  g_assert_true (recording_is_complete (recording));
  log = read_log (recording);
  g_assert_true (g_str_has_prefix (log, "miss a 64 67 -\nfree a\nhit a 64 -\nfree a\n"));
  g_assert_true (g_str_has_suffix (log, "hit a 64 -\nfree a\ngone a\n"));
}

/* Who is recorded from outside is told at the end what is missing. */
static void
test_environment_full (void)
{
  const struct rlimit limit = { 20000, 20000 };
  g_auto (Place) place = { NULL, NULL };

  if (g_test_subprocess ())
    {
      signal (SIGXFSZ, SIG_IGN);
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
      for (guint i = 0; i < 2000; i++)
        be_recorded ();
      return;
    }
  place_init (&place, "trace");
  g_setenv ("TARN_TRACE", place.path, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_TRACE");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("*recording: *events were not written: *");
  g_test_trap_assert_stderr ("*recording: *events were lost*");
}

/* Killed at any moment: all is there but the last second. */

typedef struct
{
  guint64 n_events; /* atomic: recorded before time */
  gint64 time;
} Checkpoint;

#define N_CHECKPOINTS (1U << 20)
#define KILL_ME "--record-until-killed"

static gchar *program;

/* Of both processes, in a file. */
static Checkpoint *
map_checkpoints (const gchar *path)
{
  gsize size = N_CHECKPOINTS * sizeof (Checkpoint);
  gint file = open (path, O_RDWR | O_CREAT, 0600);
  gpointer checkpoints;

  g_assert_cmpint (ftruncate (file, (off_t) size), ==, 0);
  checkpoints = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  g_assert_true (checkpoints != MAP_FAILED);
  close (file);
  return checkpoints;
}

/* What the program does that is killed: a program of its own, for a child of fork () does not
 * record. */
static void
record_until_killed (const gchar *path, const gchar *checkpoints_path)
{
  Checkpoint *checkpoints = map_checkpoints (checkpoints_path);
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = pool_new (allocator, NULL);
  g_autoptr (GError) error = NULL;

  if (!tarn_trace_start (path, NULL, &error))
    g_error ("%s", error->message);
  for (guint64 i = 0; i < N_CHECKPOINTS; i++)
    {
      for (guint k = 0; k < 100; k++)
        tarn_block_free (allocate (pool, 64));
      checkpoints[i].time = g_get_monotonic_time ();
      __atomic_store_n (&checkpoints[i].n_events, 200 * (i + 1), __ATOMIC_RELEASE);
      if (i % 64 == 0)
        g_usleep (100);
    }
  pause ();
}

static GPid
spawn (const Place *place, const gchar *checkpoints_path)
{
  const gchar *arguments[] = { program, KILL_ME, place->path, checkpoints_path, NULL };
  g_autoptr (GError) error = NULL;
  GPid child = 0;

  g_spawn_async (NULL, (gchar **) arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &child,
                 &error);
  g_assert_no_error (error);
  return child;
}

static void
check_killed (const Place *place, const Checkpoint *checkpoints, gint64 killed)
{
  g_autoptr (Recording) recording = open_recording (place);
  guint64 n = 0, least = 0, all = 0;
  RecordedEvent event;

  while (next (recording, &event))
    n += event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS
         || event.kind == TARN_TRACE_FREE;
  g_assert_false (recording_is_complete (recording));
  for (guint i = 0; i < N_CHECKPOINTS && checkpoints[i].n_events != 0; i++)
    {
      all = checkpoints[i].n_events;
      if (checkpoints[i].time < killed - G_USEC_PER_SEC)
        least = checkpoints[i].n_events;
    }
  g_test_message ("%" G_GUINT64_FORMAT " events of about %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
                  " of them a second before",
                  n, all, least);
  g_assert_cmpuint (n + recording_get_n_lost (recording), >=, least);
}

static void
test_killed (void)
{
  guint n_rounds = g_test_slow () ? 100 : 3;

  for (guint round = 0; round < n_rounds; round++)
    {
      g_auto (Place) place = { NULL, NULL };
      g_autofree gchar *path = NULL;
      Checkpoint *checkpoints;
      gint64 killed;
      gint status;
      GPid child;

      place_init (&place, "trace");
      path = g_build_filename (place.folder, "checkpoints", NULL);
      checkpoints = map_checkpoints (path);
      child = spawn (&place, path);
      while (__atomic_load_n (&checkpoints[0].n_events, __ATOMIC_ACQUIRE) == 0)
        g_usleep (1000);
      g_usleep ((gulong) g_test_rand_int_range (0, 2 * G_USEC_PER_SEC));
      kill (child, SIGKILL);
      killed = g_get_monotonic_time ();
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_true (WIFSIGNALED (status));
      check_killed (&place, checkpoints, killed);
      munmap (checkpoints, N_CHECKPOINTS * sizeof (Checkpoint));
      g_unlink (path);
    }
}

/* Stacks */

static void
test_stacks (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, NULL);
  g_autoptr (GHashTable) stacks = g_hash_table_new (NULL, NULL);
  g_autoptr (Recording) recording = NULL;
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  guint n = 0;

  place_init (&place, "trace");
  options.stack_depth = 12;
  start (&place, &options);
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (allocate (pool, 64));
  tarn_block_free (tarn_pool_allocate (pool, 64, NULL));
  stop ();
  recording = open_recording (&place);
  while (next (recording, &event))
    if (event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS)
      {
        gsize n_frames = 0;
        const guint64 *frames = recording_get_stack (recording, event.stack, &n_frames);

        n++;
        g_assert_nonnull (frames);
        g_assert_cmpuint (n_frames, >=, 1);
        g_assert_cmpuint (n_frames, <=, 12);
        for (gsize i = 0; i < n_frames; i++)
          g_assert_nonnull (recording_get_frame (recording, frames[i]));
        g_hash_table_add (stacks, GSIZE_TO_POINTER (event.stack));
      }
  g_assert_cmpuint (n, ==, 1001);
  g_assert_cmpuint (g_hash_table_size (stacks), >=, 2);  /* a loop has one */
  g_assert_cmpuint (g_hash_table_size (stacks), <=, 50); /* or a few, where it is unrolled */
}

static void
test_tags (void)
{
  tarn_tag_push ("a");
  tarn_tag_pop ();
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*tarn_tag_pop*");
  tarn_tag_pop ();
  g_test_assert_expected_messages ();
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*tag != NULL*");
  tarn_tag_push (NULL);
  g_test_assert_expected_messages ();
}

/* A device is no process's own: another one may have locked it. */
static void
test_device (void)
{
  gint file = open ("/dev/null", O_WRONLY | O_CLOEXEC);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (file, >=, 0);
  flock (file, LOCK_EX | LOCK_NB); /* else another process has */
  tarn_trace_start ("/dev/null", NULL, &error);
  g_assert_no_error (error);
  tarn_trace_stop (&error);
  g_assert_no_error (error);
  close (file);
}

int
main (int argc, char **argv)
{
  program = g_file_read_link ("/proc/self/exe", NULL);
  if (argc == 4 && g_str_equal (argv[1], KILL_ME))
    record_until_killed (argv[2], argv[3]);
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (pthread_atfork (NULL, NULL, hold_child), ==, 0);
  g_test_add_func ("/core/record/requests", test_requests);
  g_test_add_func ("/core/record/device", test_device);
  g_test_add_func ("/core/record/counters", test_counters);
  g_test_add_func ("/core/record/heap", test_heap);
  g_test_add_func ("/core/record/direct", test_direct);
  g_test_add_func ("/core/record/threads", test_threads);
  g_test_add_func ("/core/record/other-threads", test_other_threads);
  g_test_add_func ("/core/record/again", test_again);
  g_test_add_func ("/core/record/lost", test_lost);
  g_test_add_func ("/core/record/errors", test_errors);
  g_test_add_func ("/core/record/private", test_private);
  g_test_add_func ("/core/record/full", test_full);
  g_test_add_func ("/core/record/fork", test_fork);
  g_test_add_func ("/core/record/fork-lives-on", test_fork_lives_on);
  g_test_add_func ("/core/record/environment", test_environment);
  g_test_add_func ("/core/record/environment-full", test_environment_full);
  g_test_add_func ("/core/record/killed", test_killed);
  g_test_add_func ("/core/record/stacks", test_stacks);
  g_test_add_func ("/core/record/tags", test_tags);
  return g_test_run ();
}
