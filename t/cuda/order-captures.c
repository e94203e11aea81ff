/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * While a stream captures a graph: what its own thread and others can do, on it and on others. */

#include <string.h>

#include "order-fixture.h"
#include "order.h"

#define GLOBAL_MODE 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL; 1 and 2 are _THREAD_LOCAL and _RELAXED */
#define N_MODES 3

static void
begin_capture (CUstream stream)
{
  SUCCEED (cuda.cuStreamBeginCapture (stream, GLOBAL_MODE));
}

/* Nothing has ended it before. */
static void
end_capture (CUstream stream)
{
  CUgraph graph = NULL;

  SUCCEED (cuda.cuStreamEndCapture (stream, &graph));
  g_assert_nonnull (graph);
  SUCCEED (cuda.cuGraphDestroy (graph));
}

static guint
count_calls (void)
{
  return fake != NULL ? fake->get_calls (NULL) : 0;
}

static void
assert_not_supported (Fixture *fixture, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  guint64 waits = get_queue_waits (fixture);

  g_assert_null (tarn_cuda_pool_allocate (fixture->pool, size, stream, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "captures"));
  g_assert_cmpuint (get_queue_waits (fixture), ==, waits);
  assert_valid (fixture->pool);
}

/* The pool's only stream. */
static void
test_alone (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;
  guint n_calls;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  begin_capture (fixture.a);
  n_calls = count_calls ();
  for (guint i = 0; i < 100; i++)
    {
      block = take (&fixture, SIZE, fixture.a);
      g_assert_true (tarn_cuda_block_record_use (block, fixture.a, NULL));
      tarn_block_free (block);
    }
  g_assert_cmpuint (count_calls (), ==, n_calls);
  block = take (&fixture, SIZE, fixture.a);
  put_write (block, 1, fixture.a);
  assert_not_supported (&fixture, SIZE, fixture.a);
  assert_not_supported (&fixture, OTHER_SIZE, fixture.a);
  tarn_block_free (block);
  end_capture (fixture.a);
  use_once (&fixture, OTHER_SIZE, fixture.a);
  fixture_clear (&fixture);
}

/* A pool that has met none meets the one that captures, and has nothing for it. */
static void
test_first (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  begin_capture (fixture.a);
  assert_not_supported (&fixture, SIZE, fixture.a);
  end_capture (fixture.a);

  tarn_block_free (tarn_pool_allocate (fixture.pool, SIZE, NULL));
  begin_capture (fixture.a);
  use_once (&fixture, SIZE, fixture.a);
  end_capture (fixture.a);
  fixture_clear (&fixture);
}

/* A second stream that captures has no memory that was used, or fresh; but it can use the first
 * one's block. */
static void
test_second (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  block = take (&fixture, OTHER_SIZE, fixture.a);
  begin_capture (fixture.b);
  assert_not_supported (&fixture, SIZE, fixture.b);
  assert_not_supported (&fixture, 2 * SIZE, fixture.b);
  g_assert_true (tarn_cuda_block_record_use (block, fixture.b, NULL));
  if (fake != NULL)
    g_assert_cmpuint (fake->get_calls ("cuEventCreate"), ==, 0);
  end_capture (fixture.b);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer count)
{
  (void) domain;
  (void) level;
  g_test_message ("%s", message);
  ++*(guint *) count;
}

/* A second one that appears while the first captures: no event can be recorded for what is held,
 * which is no news, and it stays with the first. */
static void
test_meanwhile (const TarnCudaTest *test, gconstpointer unused)
{
  guint n_messages = 0;
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  Fixture fixture;
  TarnBlock *kept, *block;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  kept = take (&fixture, OTHER_SIZE, fixture.a); /* so that the pool goes on to know the stream */
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  tarn_block_free (block);
  begin_capture (fixture.a);
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), !=, address);
  g_assert_cmpuint (n_messages, ==, 0);
  end_capture (fixture.a);
  tarn_block_free (block);
  tarn_block_free (kept);
  fixture_clear (&fixture);
  g_log_remove_handler ("Tarn", handler);
}

/* A pool with several streams.  What is freed in a capture stays with its stream until that is
 * named after it. */
static void
test_several (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block, *other;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  begin_capture (fixture.a);
  assert_not_supported (&fixture, OTHER_SIZE, fixture.a); /* b used it last */
  put_write (block, 1, fixture.a);
  tarn_block_free (block);
  for (guint i = 0; i < 3; i++)
    {
      block = take (&fixture, SIZE, fixture.a);
      g_assert_cmphex (get_address (block), ==, address);
      tarn_block_free (block);
    }
  g_assert_false (tarn_cuda_pool_forget_stream (fixture.pool, fixture.a, NULL));
  end_capture (fixture.a);

  other = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (other), !=, address);
  use_once (&fixture, 2 * SIZE, fixture.a); /* an event is recorded */
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  gate_close (&fixture.gate, fixture.a);
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  gate_open (&fixture.gate);
  tarn_block_free (block);
  tarn_block_free (other);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  fixture_clear (&fixture);
}

/* An event that comes later than the free is not waited for: the memory is another stream's once it
 * is idle. */
static void
test_left_over (const TarnCudaTest *test, gconstpointer is_forgotten)
{
  Fixture fixture;
  TarnBlock *block, *fresh[2];
  guint64 address;

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  begin_capture (fixture.a);
  tarn_block_free (block);
  end_capture (fixture.a);
  gate_close (&fixture.gate, fixture.a);
  fresh[0] = take (&fixture, SIZE, fixture.b); /* wants what the other holds */
  if (GPOINTER_TO_INT (is_forgotten))
    g_assert_true (tarn_cuda_pool_forget_stream (fixture.pool, fixture.a, NULL));
  else
    use_once (&fixture, OTHER_SIZE, fixture.a);
  fresh[1] = take (&fixture, SIZE, fixture.b);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmphex (get_address (fresh[i]), !=, address);
      put_write (fresh[i], 2, fixture.b);
      SUCCEED (cuda.cuStreamSynchronize (fixture.b));
    }
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  tarn_block_free (fresh[0]);
  tarn_block_free (fresh[1]);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

/* A pool hands memory over from stream a to stream b while stream c is being captured.  It asks the
 * driver about events meanwhile, and the capture survives. */
static void
test_another_captures (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  hand_on (fixture.pool, SIZE);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  gate_close (&fixture.gate, fixture.a);
  put_write (block, 1, fixture.a);
  tarn_block_free (block);
  begin_capture (fixture.c);
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  put_write (block, 2, fixture.b);
  end_capture (fixture.c);
  assert_waits (&fixture, fixture.b);
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.b));
  g_assert_cmphex (read_word (&fixture, block), ==, 2);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

/* Calls for another stream, or for a pool, that a program may make while a stream is being
 * captured. */

typedef struct
{
  const TarnCudaTest *test;
  TarnPool *pool;  /* used on both streams */
  TarnPool *other; /* the one that a way is for: the same, or another one */
  CUstream captured, stream;
} Busy;

static void
hit (Busy *busy)
{
  for (guint i = 0; i < 20; i++)
    tarn_block_free (tarn_cuda_pool_allocate (busy->other, SIZE, busy->stream, NULL));
}

static void
ask_for_fresh (Busy *busy)
{
  TarnBlock *block = tarn_cuda_pool_allocate (busy->other, 24 << 20, busy->stream, NULL);

  g_assert_nonnull (block);
  tarn_block_free (block);
}

static void
free_held (Busy *busy)
{
  tarn_pool_free_held (busy->other);
  g_assert_cmpuint (tarn_pool_get_held_blocks (busy->other), ==, 0);
}

static void
trim (Busy *busy)
{
  tarn_pool_trim (busy->other, 0);
}

static void
stop_holding (Busy *busy)
{
  tarn_pool_stop_holding (busy->other);
}

static void
record_use (Busy *busy)
{
  TarnBlock *block = tarn_cuda_pool_allocate (busy->other, SIZE, busy->stream, NULL);

  g_assert_true (tarn_cuda_block_record_use (block, NULL, NULL));
  tarn_block_free (block);
}

static void
wait_for_block (Busy *busy)
{
  TarnBlock *block = tarn_cuda_pool_allocate (busy->other, SIZE, busy->stream, NULL);

  g_assert_true (tarn_block_wait (block, NULL));
  tarn_block_free (block);
}

/* Refused, because the wait would become part of the graph. */
static void
move_into_capture (Busy *busy)
{
  TarnBlock *block = tarn_cuda_pool_allocate (busy->other, SIZE, busy->stream, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_cuda_block_move_to_stream (block, busy->captured, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  tarn_block_free (block);
}

static void
end_pool (Busy *busy)
{
  TarnPool *own = busy->other;

  busy->other = tarn_pool_ref (busy->pool);
  tarn_pool_unref (own);
}

/* Asks for so much that the pool has to free all that it holds, and may fail even then. */
static void
reach_limit (Busy *busy)
{
  tarn_block_free (tarn_cuda_pool_allocate (busy->other, 31 << 20, busy->stream, NULL));
}

static void
forget_stream (Busy *busy)
{
  g_autoptr (GError) error = NULL;

  tarn_cuda_pool_forget_stream (busy->other, busy->stream, &error);
  g_assert_no_error (error);
}

static const struct
{
  const gchar *name;
  void (*act) (Busy *busy);
} ways[] = {
  { "hits", hit },
  { "fresh", ask_for_fresh },
  { "free-held", free_held },
  { "trim", trim },
  { "stop-holding", stop_holding },
  { "record-use", record_use },
  { "block-wait", wait_for_block },
  { "move", move_into_capture },
  { "last-reference", end_pool },
  { "limit", reach_limit },
  { "forget-stream", forget_stream },
};

typedef struct
{
  Busy *busy;
  gsize way;
} Deed;

static gpointer
act_elsewhere (gpointer data)
{
  const Deed *deed = data;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (deed->busy->test->context));
  ways[deed->way].act (deed->busy);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

static TarnPool *
limited_pool_new (const TarnCudaTest *test, gboolean is_over_heap)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;

  options.limit_bytes = 32 << 20;
  if (is_over_heap)
    return tarn_cuda_pool_new (test->context, &options, NULL);
  allocator = tarn_cuda_device_allocator_new (test->context, NULL);
  return tarn_pool_new (allocator, &options, NULL);
}

/* Makes the pools.  They hold memory that both streams have used, and one block is in use. */
static TarnBlock *
busy_init (Busy *busy, const TarnCudaTest *test, guint variant, CUstream captured)
{
  *busy = (Busy){ .test = test, .captured = captured, .stream = order_stream_new () };
  busy->pool = limited_pool_new (test, (variant & 1) != 0);
  busy->other = (variant & 2) != 0 ? limited_pool_new (test, (variant & 1) != 0)
                                   : tarn_pool_ref (busy->pool);
  for (gsize size = SIZE; size <= 4 * SIZE; size *= 2)
    {
      tarn_block_free (tarn_cuda_pool_allocate (busy->other, size, busy->captured, NULL));
      tarn_block_free (tarn_cuda_pool_allocate (busy->other, size, busy->stream, NULL));
    }
  return tarn_cuda_pool_allocate (busy->pool, SIZE, busy->captured, NULL);
}

static void
busy_clear (Busy *busy, TarnBlock *block)
{
  tarn_block_free (block);
  assert_valid (busy->pool);
  tarn_cuda_pool_forget_stream (busy->other, busy->captured, NULL);
  tarn_pool_unref (busy->other);
  tarn_pool_unref (busy->pool);
  order_stream_free (busy->stream);
}

/* A call leaves a capture alone.  Bits of the variant: over a heap; for a pool that the captured
 * stream does not use; in another thread. */
static void
test_survives (const TarnCudaTest *test, gconstpointer way)
{
  Fixture fixture;

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  for (guint mode = GLOBAL_MODE; mode < N_MODES; mode++)
    for (guint variant = 0; variant < 8; variant++)
      {
        Busy busy;
        TarnBlock *block = busy_init (&busy, test, variant, fixture.a);
        Deed deed = { &busy, GPOINTER_TO_SIZE (way) };

        SUCCEED (cuda.cuStreamBeginCapture (fixture.a, mode));
        if ((variant & 4) != 0)
          g_thread_join (g_thread_new ("other", act_elsewhere, &deed));
        else
          ways[deed.way].act (&busy);
        end_capture (fixture.a);
        busy_clear (&busy, block);
      }
  fixture_clear (&fixture);
}

/* While a blocking stream is being captured, calls for the legacy stream fail, because it would
 * wait for that one. */
static void
test_blocking (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUstream captured;
  TarnBlock *block;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  SUCCEED (cuda.cuStreamCreate (&captured, 0));
  block = take (&fixture, SIZE, fixture.b);
  begin_capture (captured);
  assert_not_supported (&fixture, OTHER_SIZE, NULL);
  g_assert_false (tarn_cuda_block_move_to_stream (block, NULL, NULL));
  g_assert_true (tarn_cuda_block_record_use (block, NULL, NULL));
  tarn_block_free (block);
  use_once (&fixture, 2 * SIZE, fixture.b);
  tarn_pool_free_held (fixture.pool);
  end_capture (captured);
  SUCCEED (cuda.cuStreamDestroy (captured));
  fixture_clear (&fixture);
}

/* A pool that holds as much as it may gets more from a captured stream.  It frees that once the
 * stream is named after the capture. */
static void
test_many_in_capture (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnAllocator *allocator = tarn_cuda_device_allocator_new (test->context, NULL);
  TarnBlock *blocks[50];
  Fixture fixture;
  TarnPool *pool;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  options.hold_bytes = 4 * SIZE;
  pool = tarn_pool_new (allocator, &options, NULL);
  tarn_allocator_unref (allocator);
  tarn_block_free (tarn_cuda_pool_allocate (pool, SIZE, fixture.b, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_cuda_pool_allocate (pool, SIZE, fixture.a, NULL);
  begin_capture (fixture.a);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, G_N_ELEMENTS (blocks) + 1);
  end_capture (fixture.a);
  tarn_block_free (tarn_cuda_pool_allocate (pool, 2 * SIZE, fixture.a, NULL));
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  tarn_block_free (tarn_cuda_pool_allocate (pool, 2 * SIZE, fixture.b, NULL));
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), <=, 4);
  assert_valid (pool);
  tarn_pool_unref (pool);
  fixture_clear (&fixture);
}

/* A pool whose blocks have guards serves other streams while a blocking stream is being captured,
 * and says once that those blocks have none. */
static void
test_guards (const TarnCudaTest *test, gconstpointer unused)
{
  guint n_messages = 0;
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  CUstream captured;
  Fixture fixture;
  TarnPool *pool;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  SUCCEED (cuda.cuStreamCreate (&captured, 0));
  options.debug = "guards,poison,quarantine=1M";
  pool = tarn_cuda_pool_new (test->context, &options, &error);
  g_assert_no_error (error);
  begin_capture (captured);
  for (guint i = 0; i < 5; i++)
    {
      TarnBlock *block = tarn_cuda_pool_allocate (pool, SIZE, fixture.b, &error);

      g_assert_no_error (error);
      tarn_block_free (block);
    }
  end_capture (captured);
  g_assert_cmpuint (n_messages, ==, 1);
  tarn_block_free (tarn_cuda_pool_allocate (pool, SIZE, fixture.b, &error));
  g_assert_no_error (error);
  tarn_pool_unref (pool);
  SUCCEED (cuda.cuStreamDestroy (captured));
  fixture_clear (&fixture);
  g_log_remove_handler ("Tarn", handler);
}

/* Captures a stream when the nth event is about to be recorded, as another thread may. */
typedef struct
{
  CUstream stream;
  guint n;
} JustThen;

static void
capture_just_then (const gchar *function, gpointer data)
{
  JustThen *self = data;

  if (strcmp (function, "cuEventRecord") == 0 && self->n > 0 && --self->n == 0)
    begin_capture (self->stream);
}

/* An event that was recorded after a stream began to be captured is nothing to wait for: who does
 * is captured, too, and what it is given is not executed. */
static void
capture_at_record (Fixture *fixture, guint n)
{
  JustThen just_then = { fixture->b, n };
  TarnBlock *block = take (fixture, SIZE, fixture->a);
  unsigned int is_capturing = 1;

  g_assert_true (tarn_cuda_block_record_use (block, fixture->b, NULL));
  fake->set_hook (capture_just_then, &just_then);
  tarn_block_free (block);
  fake->set_hook (NULL, NULL);
  if (just_then.n > 0)
    begin_capture (fixture->b);
  block = tarn_cuda_pool_allocate (fixture->pool, SIZE, fixture->a, NULL);
  if (block != NULL)
    put_write (block, 5, fixture->a);
  SUCCEED (cuda.cuStreamIsCapturing (fixture->a, &is_capturing));
  g_assert_cmpuint (is_capturing, ==, 0);
  end_capture (fixture->b);
  if (block != NULL)
    g_assert_cmphex (read_word (fixture, block), ==, 5);
  tarn_block_free (block);
}

static void
test_just_then (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  if (fake == NULL)
    {
      g_test_skip ("a driver tells nobody what it is about to do");
      return;
    }
  for (guint n = 1; n <= 3; n++)
    {
      fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
      capture_at_record (&fixture, n);
      fixture_clear (&fixture);
    }
}

static void
add_ways (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("order/captures/survives/%s", ways[i].name);

      tarn_cuda_test_add (path, test_survives, GSIZE_TO_POINTER (i));
    }
}

void
order_add_captures (void)
{
  add_ways ();
  tarn_cuda_test_add ("order/captures/blocking", test_blocking, NULL);
  tarn_cuda_test_add ("order/captures/many", test_many_in_capture, NULL);
  tarn_cuda_test_add ("order/captures/guards", test_guards, NULL);
  tarn_cuda_test_add ("order/captures/alone", test_alone, NULL);
  tarn_cuda_test_add ("order/captures/first", test_first, NULL);
  tarn_cuda_test_add ("order/captures/second", test_second, NULL);
  tarn_cuda_test_add ("order/captures/meanwhile", test_meanwhile, NULL);
  tarn_cuda_test_add ("order/captures/several", test_several, NULL);
  tarn_cuda_test_add ("order/captures/just-then", test_just_then, NULL);
  tarn_cuda_test_add ("order/captures/left-over", test_left_over, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/captures/left-over-forgotten", test_left_over, GINT_TO_POINTER (TRUE));
  tarn_cuda_test_add ("order/captures/another", test_another_captures, NULL);
}
