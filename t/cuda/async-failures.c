/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA's own pools on the fake driver, each call of which fails in turn. */

#include "async-pools.h"

static gboolean
use_everything (const Fixture *self, CUmemoryPool given, GError **error)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_async_allocator_new (NULL, given, error);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnBlock) block = NULL;

  if (allocator == NULL || (block = tarn_allocator_allocate (allocator, SIZE, error)) == NULL
      || !tarn_cuda_block_record_use (block, self->a, error)
      || !tarn_cuda_block_record_use (block, self->b, error))
    return FALSE;
  tarn_block_free (g_steal_pointer (&block));
  pool = tarn_pool_new (allocator, NULL, NULL);
  if ((block = tarn_cuda_pool_allocate (pool, SIZE, self->a, error)) == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&block));
  tarn_pool_free_held (pool);
  return (block = tarn_allocator_allocate (allocator, SIZE, error)) != NULL;
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_test_message ("%s", message);
  ++*(guint *) data;
}

static guint
count_all (void)
{
  return fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY)
         + fake->get_live (TARN_TESTING_CUDA_STREAM) + fake->get_live (TARN_TESTING_CUDA_EVENT);
}

/* Gives the thread its context back, if a call failed that was to do so. */
static void
mend_stack (const TarnCudaTest *test)
{
  CUcontext popped;

  while (fake->get_context_stack_depth () > 1)
    SUCCEED (tarn->cuCtxPopCurrent (&popped));
  g_assert_true (cuda_get_current () == test->context);
}

/* An error names the call that failed, and nothing is lost without a message.  FALSE: there are not
 * so many calls. */
static gboolean
fail_nth (const Fixture *self, CUmemoryPool given, guint nth, gboolean for_ever, guint status)
{
  guint n_before = count_all (), n_messages = 0;
  guint handlers[]
      = { g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &n_messages),
          g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &n_messages) };
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean ok;

  fake->fail (NULL, nth, for_ever, status);
  ok = use_everything (self, given, &error);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handlers[0]);
  g_log_remove_handler ("Tarn", handlers[1]);
  g_test_message ("%u%s %u: %s: %s; %u messages", nth, for_ever ? " and all others" : "", status,
                  failed != NULL ? failed : "none", ok ? "no error" : error->message, n_messages);
  g_assert_true (ok == (error == NULL));
  if (!ok)
    cuda_assert_blamed (error, failed, status, for_ever);
  mend_stack (self->test);
  g_assert_cmpuint (count_all (), >=, n_before);
  g_assert_cmpuint (count_all () - n_before, <=, n_messages);
  return failed != NULL;
}

/* Frees what the failing calls have kept. */
static void
test_failures (const TarnCudaTest *test, gconstpointer has_pool)
{
  CUmemoryPool given = NULL;
  CUcontext context, popped;
  guint nth;

  async_load ();
  for (gint i = 0; i < 4; i++)
    {
      TarnCudaTest own = *test;
      Fixture self;

      SUCCEED (tarn->cuCtxPopCurrent (&popped));
      own.context = context = cuda_context_new (test->device);
      SUCCEED (tarn->cuCtxPushCurrent (context));
      self = (Fixture){ .test = &own };
      self.a = order_stream_new ();
      self.b = order_stream_new ();
      if (has_pool != NULL)
        given = async_pool_create (test->device);
      for (nth = 1; fail_nth (&self, given, nth, i % 2 != 0,
                              i < 2 ? FAKE_CUDA_INVALID_HANDLE : FAKE_CUDA_OUT_OF_MEMORY);
           nth++)
        ;
      g_assert_cmpuint (nth, >, 30);
      if (given != NULL)
        SUCCEED (pools.cuMemPoolDestroy (given));
      SUCCEED (tarn->cuCtxPopCurrent (&popped));
      SUCCEED (tarn->cuCtxDestroy (context));
      SUCCEED (tarn->cuCtxPushCurrent (test->context));
    }
  fake->reset ();
}

int
main (int argc, char **argv)
{
  order_init (tarn_fake_cuda ());
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("async/failures", test_failures, NULL);
  tarn_cuda_test_add ("async/failures-pool", test_failures, GINT_TO_POINTER (TRUE));
  return g_test_run ();
}
