/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is asked of the driver for the order of streams, how often, and when: on the fake one, which
 * counts, and has a hook before each call. */

#include <stdlib.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "order-fixture.h"
#include "order/order-private.h"

#define N_TIMES 1000

/* Counts */

/* Those that may be called when a pool has met several streams. */
static const gchar *const functions[] = {
  "cuEventCreate",
  "cuEventRecord",
  "cuEventQuery",
  "cuStreamWaitEvent",
  "cuCtxGetCurrent",
  "cuStreamIsCapturing",
  "cuThreadExchangeStreamCaptureMode",
#if FAKE_CUDA_VERSION >= 12000
  "cuCtxGetId",
#endif
};

typedef struct
{
  guint created, recorded, queried, waits, all, others;
} Calls;

static Calls
read_calls (void)
{
  Calls calls = { .created = fake->get_calls ("cuEventCreate"),
                  .recorded = fake->get_calls ("cuEventRecord"),
                  .queried = fake->get_calls ("cuEventQuery"),
                  .waits = fake->get_calls ("cuStreamWaitEvent"),
                  .all = fake->get_calls (NULL) };

  calls.others = calls.all;
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    calls.others -= fake->get_calls (functions[i]);
  return calls;
}

static Calls
subtract (Calls after, Calls before)
{
  return (Calls){ after.created - before.created, after.recorded - before.recorded,
                  after.queried - before.queried, after.waits - before.waits,
                  after.all - before.all,         after.others - before.others };
}

static void
test_one_stream (const TarnCudaTest *test, gconstpointer unused)
{
  static const CUstream defaults[] = { NULL, LEGACY, PER_THREAD };
  Fixture fixture;

  (void) unused;
  for (gsize i = 0; i <= G_N_ELEMENTS (defaults); i++)
    {
      CUstream stream;
      guint n_calls;

      fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
      stream = i < G_N_ELEMENTS (defaults) ? defaults[i] : fixture.a;
      use_once (&fixture, SIZE, stream);
      n_calls = fake->get_calls (NULL);
      for (guint j = 0; j < N_TIMES; j++)
        {
          TarnBlock *block = take (&fixture, SIZE, stream);

          g_assert_true (tarn_cuda_block_record_use (block, stream, NULL));
          tarn_block_free (block);
        }
      g_assert_cmpuint (fake->get_calls (NULL), ==, n_calls);
      fixture_clear (&fixture);
    }
}

/* Counts waits for all streams: each takes one call of cuMemFree. */
static guint
count_waits_for_all (void)
{
  return fake->get_calls ("cuMemFree");
}

/* What one stream holds and another asks for gets one event together, when the first is named next;
 * the second one waits for nothing. */
static void
test_second_stream (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  guint n_of_all;
  Calls before;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  for (gsize size = 1; size < SIZE; size *= 2)
    use_once (&fixture, size, fixture.a);
  n_of_all = count_waits_for_all ();
  before = read_calls ();
  for (gsize size = 1; size < SIZE; size *= 2)
    use_once (&fixture, size, fixture.b);
  g_assert_cmpuint (subtract (read_calls (), before).recorded, ==, 0);
  use_once (&fixture, SIZE, fixture.a);
  g_assert_cmpuint (subtract (read_calls (), before).recorded, ==, 1);
  for (gsize size = 1; size < SIZE; size *= 2)
    use_once (&fixture, size, fixture.c); /* idle by now */
  g_assert_cmpuint (subtract (read_calls (), before).recorded, ==, 1);
  g_assert_cmpuint (subtract (read_calls (), before).waits, ==, 0);
  g_assert_cmpuint (count_waits_for_all (), ==, n_of_all);
  g_assert_cmpuint (get_misses (&fixture), ==, 2 * 16 + 1);
  fixture_clear (&fixture);
}

typedef struct
{
  const gchar *name;
  gboolean is_busy;   /* nothing that is put on a stream is done */
  guint n_held;       /* blocks in the bin */
  guint n_successive; /* requests of one stream, before the next stream's */
  gboolean hands_on;  /* so that all frees record an event; else only the first ones do */
  guint n_waits;      /* what comes of it */
} Pattern;

static const Pattern patterns[] = {
  { "idle", FALSE, 1, 1, TRUE, 0 },
  { "idle-of-ten", FALSE, 10, 1, FALSE, 0 },
  { "busy", TRUE, 1, 1, TRUE, N_TIMES - 1 },
  { "busy-of-ten", TRUE, 10, 1, FALSE, 0 }, /* each stream has blocks of its own */
  { "busy-again", TRUE, 1, 5, TRUE, N_TIMES / 5 - 1 },
  { "busy-own", TRUE, 1, N_TIMES, FALSE, 0 },
};

/* All were used on the first stream last.  The pool knows both streams: to meet one takes calls.
 */
static void
hold_blocks (Fixture *fixture, guint n)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);

  hand_on (fixture->pool, SIZE);
  use_once (fixture, OTHER_SIZE, fixture->b);
  use_once (fixture, 2 * SIZE, fixture->a);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (blocks, take (fixture, SIZE, fixture->a));
}

static void
assert_hit_and_free (Fixture *fixture, CUstream stream)
{
  Calls start = read_calls (), hit, end;
  TarnBlock *block = take (fixture, SIZE, stream);

  hit = subtract (read_calls (), start);
  g_assert_cmpuint (hit.waits, <=, 1);
  g_assert_cmpuint (hit.queried, <=, 4);
  g_assert_cmpuint (hit.recorded, ==, 0);
  start = read_calls ();
  tarn_block_free (block);
  end = subtract (read_calls (), start);
  g_assert_cmpuint (end.recorded, <=, 1);
  g_assert_cmpuint (end.waits + end.queried, ==, 0);
}

static void
test_several_streams (const TarnCudaTest *test, gconstpointer data)
{
  const Pattern *pattern = data;
  Fixture fixture;
  Calls before, calls;

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  hold_blocks (&fixture, pattern->n_held);
  if (pattern->is_busy)
    {
      fake->put_work (fixture.a);
      fake->put_work (fixture.b);
    }
  before = read_calls ();
  for (guint i = 0; i < N_TIMES; i++)
    assert_hit_and_free (&fixture, i / pattern->n_successive % 2 == 0 ? fixture.a : fixture.b);
  calls = subtract (read_calls (), before);
  g_test_message ("%u times: %u created, %u recorded, %u queried, %u waits, %u calls", N_TIMES,
                  calls.created, calls.recorded, calls.queried, calls.waits, calls.all);
  g_assert_cmpuint (calls.others, ==, 0);
  g_assert_cmpuint (calls.created, <=, 2 + pattern->n_held);
  g_assert_cmpuint (calls.waits, ==, pattern->n_waits);
  if (pattern->hands_on)
    g_assert_cmpuint (calls.recorded, ==, N_TIMES);
  else
    g_assert_cmpuint (calls.recorded, <=, 2 * TARN_RECORDED_FREES);
  fake->finish_all_work ();
  fixture_clear (&fixture);
}

/* Events that are kept are not without number, and all go in the end. */
static void
test_many_events (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  for (guint i = 0; i < N_TIMES; i++)
    {
      TarnBlock *block = take (&fixture, OTHER_SIZE, fixture.a);

      g_assert_true (tarn_cuda_block_record_use (block, fixture.b, NULL));
      g_ptr_array_add (blocks, block);
    }
  g_ptr_array_set_size (blocks, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_EVENT), >=, N_TIMES);
  tarn_pool_free_held (fixture.pool);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_EVENT), <=, 256);
  fixture_clear (&fixture);
}

/* Memory that goes back to the driver is in use no more */

typedef struct
{
  Fixture fixture;
  TarnMutex lock;
  TarnCond changed;
  gboolean is_waited_for; /* the pool has begun to wait */
  guint n_frees;          /* of memory */
} Return;

/* Ends what is on the streams, once somebody waits for it. */
static gpointer
run_device (gpointer data)
{
  Return *self = data;

  _tarn_mutex_lock (&self->lock);
  while (!self->is_waited_for)
    _tarn_cond_wait (&self->changed, &self->lock);
  _tarn_mutex_unlock (&self->lock);
  fake->finish_all_work ();
  return NULL;
}

static void
note_wait (Return *self)
{
  _tarn_mutex_lock (&self->lock);
  self->is_waited_for = TRUE;
  _tarn_cond_broadcast (&self->changed);
  _tarn_mutex_unlock (&self->lock);
}

static void
watch_calls (const gchar *function, gpointer data)
{
  Return *self = data;

  if (cuda_is_wait (function))
    note_wait (self);
  else if (g_str_has_prefix (function, "cuMemFree"))
    {
      self->n_frees++;
      SUCCEED (cuStreamQuery (self->fixture.a));
    }
}

static void
give_back_held (Fixture *fixture)
{
  tarn_pool_free_held (fixture->pool);
}

static void
give_back_all (Fixture *fixture)
{
  tarn_pool_stop_holding (fixture->pool);
}

static void
die (Fixture *fixture)
{
  tarn_pool_unref (fixture->pool);
  fixture->pool = tarn_pool_new (fixture->allocator, NULL, NULL);
}

static void
run_out (Fixture *fixture)
{
  fake->set_budget (fixture->test->device, 6 * SIZE);
  tarn_block_free (take (fixture, 4 * SIZE, fixture->b));
}

/* The host is whom a request without a stream is for; it waits for what is handed on. */
static void
request_for_host (Fixture *fixture)
{
  TarnBlock *block = tarn_pool_allocate (fixture->pool, SIZE, NULL);

  SUCCEED (cuStreamQuery (fixture->a));
  put_write (block, 3, fixture->b);
  SUCCEED (cuStreamQuery (fixture->b));
  g_assert_cmphex (read_word (fixture, block), ==, 3);
  tarn_block_free (block);
  tarn_pool_free_held (fixture->pool);
}

typedef struct
{
  const gchar *name;
  void (*give_back) (Fixture *fixture);
} Way;

static const Way ways[] = {
  { "free-held", give_back_held }, { "stop-holding", give_back_all }, { "last-reference", die },
  { "out-of-memory", run_out },    { "host", request_for_host },
};

static void
return_init (Return *self, const TarnCudaTest *test, TarnTestingCudaKind kind)
{
  fixture_init (&self->fixture, test, kind);
  _tarn_mutex_init (&self->lock);
  _tarn_cond_init (&self->changed);
  self->is_waited_for = FALSE;
  self->n_frees = 0;
}

static void
return_clear (Return *self)
{
  fake->set_hook (NULL, NULL);
  fixture_clear (&self->fixture);
  _tarn_cond_clear (&self->changed);
  _tarn_mutex_clear (&self->lock);
}

/* The write ends the test if it finds its memory gone. */
static TarnBlock *
use_for_long (Return *self)
{
  TarnBlock *block = take (&self->fixture, SIZE, self->fixture.a);

  fake->put_work (self->fixture.a);
  put_write (block, 1, self->fixture.a);
  return block;
}

static void
watch (Return *self, void (*give_back) (Fixture *fixture), Fixture *fixture)
{
  GThread *device = g_thread_new ("device", run_device, self);

  fake->set_hook (watch_calls, self);
  give_back (fixture);
  fake->set_hook (NULL, NULL);
  g_assert_true (self->is_waited_for);
  g_assert_cmpuint (self->n_frees, >, 0);
  g_thread_join (device);
}

static void
test_give_back (const TarnCudaTest *test, gconstpointer data)
{
  const Way *way = data;
  Return self;

  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_DEVICE_MEMORY;
       kind <= TARN_TESTING_CUDA_MANAGED_MEMORY; kind++)
    for (gint is_recorded = FALSE; is_recorded <= TRUE; is_recorded++)
      {
        if (kind == TARN_TESTING_CUDA_HOST_MEMORY && way->give_back == run_out)
          continue; /* that has no budget */
        if (!is_recorded && way->give_back == request_for_host)
          continue; /* it has fresh memory */
        return_init (&self, test, kind);
        if (is_recorded)
          hand_on (self.fixture.pool, SIZE);
        tarn_block_free (use_for_long (&self));
        watch (&self, way->give_back, &self.fixture);
        return_clear (&self);
      }
}

static TarnBlock *block_to_free;

static void
free_block (Fixture *unused)
{
  (void) unused;
  tarn_block_free (g_steal_pointer (&block_to_free));
}

/* Blocks that are not held: of a pool that holds none any more, and without a pool. */
static void
test_give_back_at_once (const TarnCudaTest *test, gconstpointer unused)
{
  Return self;

  (void) unused;
  for (gint has_pool = FALSE; has_pool <= TRUE; has_pool++)
    {
      return_init (&self, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
      if (has_pool)
        {
          block_to_free = use_for_long (&self);
          tarn_pool_stop_holding (self.fixture.pool);
        }
      else
        {
          block_to_free = tarn_allocator_allocate (self.fixture.allocator, SIZE, NULL);
          g_assert_true (tarn_cuda_block_record_use (block_to_free, self.fixture.a, NULL));
          fake->put_work (self.fixture.a);
          put_write (block_to_free, 1, self.fixture.a);
        }
      watch (&self, free_block, &self.fixture);
      return_clear (&self);
    }
}

/* Children of fork () */

static void
use_in_child (gpointer data)
{
  Fixture *fixture = data;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GError *error = NULL;

  STEP (1, tarn_cuda_pool_allocate (fixture->pool, SIZE, fixture->a, &error) == NULL);
  STEP (2, take_forked (&error));
  STEP (3, tarn_cuda_pool_allocate (fixture->pool, SIZE, PER_THREAD, &error) == NULL);
  STEP (4, take_forked (&error));
  STEP (5, !tarn_cuda_block_record_use (block_to_free, fixture->c, &error));
  STEP (6, take_forked (&error));
  STEP (7, !tarn_cuda_block_move_to_stream (block_to_free, fixture->c, &error));
  STEP (8, take_forked (&error));
  STEP (9, !tarn_block_wait (block_to_free, &error));
  STEP (10, take_forked (&error));
  STEP (11, tarn_cuda_pool_forget_stream (fixture->pool, fixture->a, &error));
  tarn_block_free (block_to_free);
  tarn_pool_free_held (fixture->pool);
  tarn_pool_stop_holding (fixture->pool);
  tarn_pool_unref (fixture->pool);
  tarn_pool_get_stats (fixture->pool, &stats);
  STEP (12, stats.ignored_frees == 1);
  tarn_allocator_unref (fixture->allocator);
  STEP (13, fake->get_calls_after_fork () == 0);
}

static void
test_fork (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block_to_free = take (&fixture, SIZE, fixture.b);
  tarn_pool_ref (fixture.pool);
  _tarn_mutex_lock (&fixture.pool->lock); /* as if another thread had it */
  in_child (use_in_child, &fixture);
  _tarn_mutex_unlock (&fixture.pool->lock);
  tarn_pool_unref (fixture.pool);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  tarn_block_free (g_steal_pointer (&block_to_free));
  use_once (&fixture, SIZE, fixture.a);
  fixture_clear (&fixture);
}

/* At exit */

#define N_KINDS (TARN_TESTING_CUDA_MANAGED_MEMORY + 1)

/* What a program may have at its end, on streams of a context of its own. */
static struct
{
  CUcontext context;
  CUstream a, b;
  TarnAllocator *allocators[N_KINDS];
  TarnPool *pools[N_KINDS];
  TarnBlock *blocks[N_KINDS], *direct[N_KINDS];
} left;

static void
leave (TarnTestingCudaKind kind, gboolean has_many)
{
  left.allocators[kind] = cuda_allocator_new (kind, left.context, NULL);
  left.pools[kind] = tarn_pool_new (left.allocators[kind], NULL, NULL);
  left.blocks[kind] = tarn_cuda_pool_allocate (left.pools[kind], SIZE, left.a, NULL);
  left.direct[kind] = tarn_allocator_allocate (left.allocators[kind], SIZE, NULL);
  g_assert_true (left.blocks[kind] != NULL && left.direct[kind] != NULL);
  tarn_cuda_block_record_use (left.direct[kind], left.a, NULL);
  tarn_block_free (tarn_cuda_pool_allocate (left.pools[kind], OTHER_SIZE, left.a, NULL));
  tarn_block_free (tarn_cuda_pool_allocate (left.pools[kind], 2 * SIZE, left.a, NULL));
  if (!has_many)
    return;
  tarn_cuda_block_record_use (left.blocks[kind], left.b, NULL);
  tarn_cuda_block_record_use (left.blocks[kind], PER_THREAD, NULL);
  tarn_block_free (tarn_cuda_pool_allocate (left.pools[kind], OTHER_SIZE, left.b, NULL));
}

static void
leave_everything (CUdevice device, gboolean has_many)
{
  SUCCEED (tarn->cuCtxCreate (&left.context, 0, device));
  left.a = order_stream_new ();
  left.b = order_stream_new ();
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    leave (i, has_many);
  SUCCEED (tarn->cuCtxPopCurrent (&left.context));
}

/* The driver's own handlers were the first, as they are if a library opens it. */
static void
clear_what_is_left (void)
{
  fake->fail (NULL, 1, TRUE, FAKE_CUDA_DEINITIALIZED);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    {
      if (tarn_cuda_pool_allocate (left.pools[i], 8 * SIZE, left.b, NULL) != NULL
          || tarn_cuda_pool_allocate (left.pools[i], 8 * SIZE, NULL, NULL) != NULL)
        _exit (3);
      tarn_cuda_pool_forget_stream (left.pools[i], left.b, NULL);
      tarn_block_free (left.blocks[i]);
      tarn_block_free (tarn_cuda_pool_allocate (left.pools[i], OTHER_SIZE, left.a, NULL));
      tarn_block_free (tarn_cuda_pool_allocate (left.pools[i], OTHER_SIZE, PER_THREAD, NULL));
      tarn_pool_free_held (left.pools[i]);
      tarn_pool_unref (left.pools[i]);
      tarn_block_free (left.direct[i]);
      tarn_allocator_unref (left.allocators[i]);
    }
  if (fake->get_failed () == NULL)
    _exit (4); /* it was not asked: this has tested nothing */
}

static void
test_at_exit (const TarnCudaTest *test, gconstpointer has_many)
{
  Fixture fixture;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stdout_unmatched ("*MESSAGE*");
      g_test_trap_assert_stderr ("");
      return;
    }
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  fixture_clear (&fixture);
  leave_everything (test->device, GPOINTER_TO_INT (has_many));
  g_assert_cmpint (atexit (clear_what_is_left), ==, 0);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("order/calls/one-stream", test_one_stream, NULL);
  tarn_cuda_test_add ("order/calls/second-stream", test_second_stream, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("order/calls/%s", patterns[i].name);

      tarn_cuda_test_add (path, test_several_streams, &patterns[i]);
    }
  tarn_cuda_test_add ("order/calls/many-events", test_many_events, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("order/give-back/%s", ways[i].name);

      tarn_cuda_test_add (path, test_give_back, &ways[i]);
    }
  tarn_cuda_test_add ("order/give-back/at-once", test_give_back_at_once, NULL);
  tarn_cuda_test_add ("order/fork", test_fork, NULL);
  tarn_cuda_test_add ("order/at-exit/one-stream", test_at_exit, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/at-exit/streams", test_at_exit, GINT_TO_POINTER (TRUE));
  return g_test_run ();
}
