/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "order-fixture.h"

#include <dlfcn.h>

#include "order/order-private.h"

const TarnTestingCuda *fake;
OrderDriver cuda;
const TarnCudaDriver *tarn;

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */
#define NO_TIMING 2    /* CU_EVENT_DISABLE_TIMING */

/* The driver */

void
order_init (const TarnTestingCuda *driver)
{
  fake = driver;
}

gpointer
order_find_function (const gchar *symbol)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  g_assert_nonnull (library);
  return dlsym (library, symbol);
}

void
order_load (void)
{
  if (tarn != NULL)
    return;
  tarn = _tarn_cuda_get_driver (NULL);
  g_assert_nonnull (tarn);
#define X(name, symbol, arguments)                                                                 \
  *(gpointer *) &cuda.name = order_find_function (symbol);                                         \
  if (cuda.name == NULL)                                                                           \
    g_error ("the CUDA driver has no " symbol);
  ORDER_FUNCTIONS (X)
#undef X
}

/* Gates */

void
gate_init (Gate *gate)
{
  _tarn_mutex_init (&gate->lock);
  _tarn_cond_init (&gate->changed);
  gate->is_open = TRUE;
}

void
gate_clear (Gate *gate)
{
  _tarn_cond_clear (&gate->changed);
  _tarn_mutex_clear (&gate->lock);
}

/* In a thread of the driver's. */
static void
stand_at_gate (gpointer data)
{
  Gate *gate = data;

  _tarn_mutex_lock (&gate->lock);
  while (!gate->is_open)
    _tarn_cond_wait (&gate->changed, &gate->lock);
  _tarn_mutex_unlock (&gate->lock);
}

void
gate_close (Gate *gate, CUstream stream)
{
  _tarn_mutex_lock (&gate->lock);
  gate->is_open = FALSE;
  _tarn_mutex_unlock (&gate->lock);
  SUCCEED (cuda.cuLaunchHostFunc (stream, stand_at_gate, gate));
}

void
gate_open (Gate *gate)
{
  _tarn_mutex_lock (&gate->lock);
  gate->is_open = TRUE;
  _tarn_cond_broadcast (&gate->changed);
  _tarn_mutex_unlock (&gate->lock);
}

/* Fixtures */

CUstream
order_stream_new (void)
{
  CUstream stream;

  SUCCEED (cuda.cuStreamCreate (&stream, NON_BLOCKING));
  return stream;
}

void
order_stream_free (CUstream stream)
{
  if (stream != NULL)
    SUCCEED (cuda.cuStreamDestroy (stream));
}

/* A driver may load what it needs when it is first needed, and wait for all streams to do so: not
 * when one of them is held up. */
static void
warm_up (Fixture *fixture)
{
  const CUstream streams[] = { fixture->a, fixture->b, fixture->c, NULL, PER_THREAD };
  guint word;

  for (gsize i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      gate_close (&fixture->gate, streams[i]);
      gate_open (&fixture->gate);
      SUCCEED (cuda.cuMemsetD32Async (fixture->own, 0, SIZE / 4, streams[i]));
      SUCCEED (cuda.cuStreamSynchronize (streams[i]));
    }
  assert_runs (fixture);
  SUCCEED (cuda.cuMemcpyDtoH (&word, fixture->own, sizeof word));
}

void
fixture_init (Fixture *fixture, const TarnCudaTest *test, TarnTestingCudaKind kind)
{
  g_autoptr (GError) error = NULL;

  order_load ();
  if (fake != NULL)
    fake->reset ();
  *fixture = (Fixture){ .test = test, .kind = kind };
  gate_init (&fixture->gate);
  fixture->a = order_stream_new ();
  fixture->b = order_stream_new ();
  fixture->c = order_stream_new ();
  fixture->apart = order_stream_new ();
  SUCCEED (tarn->cuMemAlloc (&fixture->own, SIZE));
  warm_up (fixture);
  fixture->allocator = cuda_allocator_new (kind, test->context, &error);
  g_assert_no_error (error);
  fixture->pool = tarn_pool_new (fixture->allocator, NULL, &error);
  g_assert_no_error (error);
}

void
fixture_clear (Fixture *fixture)
{
  CUcontext current = NULL;

  assert_valid (fixture->pool);
  g_assert_cmpuint (tarn_pool_get_active_blocks (fixture->pool), ==, 0);
  tarn_pool_unref (fixture->pool);
  tarn_allocator_unref (fixture->allocator);
  SUCCEED (tarn->cuMemFree (fixture->own));
  order_stream_free (fixture->a);
  order_stream_free (fixture->b);
  order_stream_free (fixture->c);
  order_stream_free (fixture->apart);
  gate_clear (&fixture->gate);
  SUCCEED (tarn->cuCtxGetCurrent (&current));
  g_assert_true (current == fixture->test->context);
  if (fake == NULL)
    return;
  g_assert_cmpuint (fake->get_live (fixture->kind), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_EVENT), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_STREAM), ==, 0);
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 1);
}

/* Blocks */

TarnBlock *
take (Fixture *fixture, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_cuda_pool_allocate (fixture->pool, size, stream, &error);

  g_assert_no_error (error);
  return block;
}

void
use_once (Fixture *fixture, gsize size, CUstream stream)
{
  tarn_block_free (take (fixture, size, stream));
}

/* Of all kinds. */
guint64
get_address (const TarnBlock *block)
{
  return tarn_block_get_memory (block).address;
}

void
put_write (const TarnBlock *block, guint value, CUstream stream)
{
  SUCCEED (cuda.cuMemsetD32Async ((CUdeviceptr) get_address (block), value,
                                  tarn_block_get_size (block) / 4, stream));
}

guint
read_word (const Fixture *fixture, const TarnBlock *block)
{
  guint word = 0;

  if (fixture->kind == TARN_TESTING_CUDA_HOST_MEMORY)
    return *(const guint *) tarn_cuda_block_get_host_pointer (block);
  SUCCEED (cuda.cuMemcpyDtoH (&word, (CUdeviceptr) get_address (block), sizeof word));
  return word;
}

/* Assertions */

void
assert_valid (TarnPool *pool)
{
  g_autofree gchar *violation = _tarn_pool_check (pool);

  g_assert_cmpstr (violation, ==, NULL);
}

void
hand_on (TarnPool *pool, gsize size)
{
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_hand_on (pool, tarn_pool_bin_number (pool, size));
  _tarn_mutex_unlock (&pool->lock);
  assert_valid (pool);
}

/* More than once, so that what was put on other streams before had its time, too. */
void
assert_runs (const Fixture *fixture)
{
  for (guint i = 0; i < 10; i++)
    {
      SUCCEED (cuda.cuMemsetD32Async (fixture->own, i, SIZE / 4, fixture->apart));
      SUCCEED (cuda.cuStreamSynchronize (fixture->apart));
    }
}

static CUevent
record_event (CUstream stream)
{
  CUevent event;

  SUCCEED (tarn->cuEventCreate (&event, NO_TIMING));
  SUCCEED (tarn->cuEventRecord (event, stream));
  return event;
}

void
assert_idle (CUstream stream)
{
  CUevent event = record_event (stream);

  SUCCEED (tarn->cuEventQuery (event));
  SUCCEED (tarn->cuEventDestroy (event));
}

void
assert_waits (const Fixture *fixture, CUstream stream)
{
  CUevent event = record_event (stream);

  assert_runs (fixture);
  ASSERT_STATUS (tarn->cuEventQuery (event), FAKE_CUDA_NOT_READY);
  SUCCEED (tarn->cuEventDestroy (event));
}

guint64
get_queue_waits (const Fixture *fixture)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (fixture->pool, &stats);
  return stats.queue_waits;
}

guint64
get_misses (const Fixture *fixture)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (fixture->pool, &stats);
  return stats.misses;
}
