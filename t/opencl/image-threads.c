/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images with several queues and threads, on every OpenCL device; pools that end while
 * others ask them to free images. */

#include "image-pools.h"

#define SIDE 32
#define N_STEPS 200

/* Fills an image by commands on a queue, reads it back, and frees it: what another queue does with
 * the memory meanwhile, or afterwards, must not be seen. */
static void
use_image (TarnOpenclImagePool *pool, cl_command_queue queue, guint i, cl_uint *words)
{
  static const size_t origin[3], region[3] = { SIDE, SIDE, 1 };
  const cl_uint color[4] = { i, 0, 0, 0 };
  TarnBlock *block = take (pool, WORDS, SIDE, SIDE, queue);
  cl_mem image = tarn_opencl_block_get_image (block);

  g_assert_cmpint (clEnqueueFillImage (queue, image, color, origin, region, 0, NULL, NULL), ==,
                   CL_SUCCESS);
  g_assert_cmpint (
      clEnqueueReadImage (queue, image, CL_FALSE, origin, region, 0, 0, words, 0, NULL, NULL), ==,
      CL_SUCCESS);
  tarn_block_free (block);
}

static void
assert_words (const cl_uint *words, guint value)
{
  for (guint i = 0; i < SIDE * SIDE; i++)
    g_assert_cmpuint (words[i], ==, value);
}

/* Images go from queue to queue, and each queue finds what it has put there. */
static void
test_queues (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_command_queue queues[3];
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  cl_uint (*words)[SIDE * SIDE];

  (void) device;
  if (!have_images (state))
    return;
  words = g_malloc_n (N_STEPS, sizeof *words);
  pool = pool_new (state, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = opencl_queue_new (state, FALSE);
  for (guint i = 0; i < N_STEPS; i++)
    use_image (pool, queues[g_test_rand_int_range (0, G_N_ELEMENTS (queues))], i, words[i]);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    opencl_settle (queues[i]);
  for (guint i = 0; i < N_STEPS; i++)
    assert_words (words[i], i);
  g_assert_cmpuint (get_stats (pool_of (pool)).hits, >, N_STEPS / 2);
  g_clear_pointer (&pool, tarn_opencl_image_pool_unref);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    opencl_queue_free (queues[i]);
  g_free (words);
}

#define N_THREADS 4

typedef struct
{
  TarnOpenclImagePool *pool;
  cl_command_queue queue;
} Worker;

/* Takes an image that may find no room while others hold some.  What all have in use at a time fits
 * within the limit, so that the small ones do, too. */
static void
try_large (const Worker *worker, guint i)
{
  const cl_image_format format = FLOATS;
  const cl_image_desc desc = plane (128, 40 + i % 19);
  g_autoptr (GError) error = NULL;

  tarn_block_free (
      tarn_opencl_image_pool_allocate (worker->pool, 0, &format, &desc, worker->queue, &error));
  if (error != NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  cl_uint words[SIDE * SIDE];

  for (guint i = 0; i < N_STEPS / 4; i++)
    {
      use_image (worker->pool, worker->queue, i, words);
      try_large (worker, i);
      tarn_block_free (take (worker->pool, BYTES, 1 + i % 9, 1 + i % 5, worker->queue));
      opencl_settle (worker->queue);
      assert_words (words, i);
    }
  return NULL;
}

static void
use_buffers (TarnPool *buffers)
{
  for (guint i = 0; i < 2 * N_STEPS; i++)
    {
      g_autoptr (GError) error = NULL;

      tarn_block_free (tarn_pool_allocate (buffers, LIMIT / 2 - 1000 * (i % 50), &error));
      if (error != NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
      if (i % 10 == 0)
        assert_valid (buffers);
    }
}

static void
use_together (OpenclState *state, gboolean has_heap)
{
  g_autoptr (TarnPool) buffers = buffers_new (state, has_heap);
  g_autoptr (TarnOpenclImagePool) pool = pool_new (state, buffers, NULL);
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ pool, opencl_queue_new (state, FALSE) };
      threads[i] = g_thread_new ("images", work, &workers[i]);
    }
  use_buffers (buffers);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  assert_valid (buffers);
  assert_valid (pool_of (pool));
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==,
                    tarn_pool_get_managed_bytes (pool_of (pool)));
  g_clear_pointer (&pool, tarn_opencl_image_pool_unref);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
  for (guint i = 0; i < N_THREADS; i++)
    opencl_queue_free (workers[i].queue);
}

/* Threads that have a limit together with buffers, straight from the driver or of a heap */
static void
test_threads (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  if (!have_images (state))
    return;
  use_together (state, FALSE);
  use_together (state, TRUE);
}

#define N_POOLS 200

typedef struct
{
  TarnPool *buffers;
  gboolean is_ending; /* atomic */
} Maker;

/* Has held images go, time and again. */
static gpointer
make_buffers (gpointer data)
{
  Maker *maker = data;

  while (!g_atomic_int_get (&maker->is_ending))
    {
      tarn_block_free (tarn_pool_allocate (maker->buffers, LIMIT, NULL));
      tarn_pool_free_held (maker->buffers);
    }
  return NULL;
}

/* Pools of images end while requests of buffers ask them to free some. */
static void
test_end_meanwhile (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  Maker maker = { .is_ending = FALSE };
  GThread *thread;

  (void) memory;
  (void) data;
  if (!have_images (state))
    return;
  maker.buffers = buffers_new (state, FALSE);
  thread = g_thread_new ("buffers", make_buffers, &maker);
  for (guint i = 0; i < N_POOLS; i++)
    {
      g_autoptr (TarnOpenclImagePool) pool = pool_new (state, maker.buffers, NULL);
      const cl_image_format format = BYTES;
      const cl_image_desc desc = plane (40, 40);

      for (guint j = 0; j < 5; j++)
        tarn_block_free (tarn_opencl_image_pool_allocate (pool, 0, &format, &desc, NULL, NULL));
    }
  g_atomic_int_set (&maker.is_ending, TRUE);
  g_thread_join (thread);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (maker.buffers), ==, 0);
  tarn_pool_unref (maker.buffers);
}

typedef struct
{
  OpenclState *state;
  TarnPool *buffers;
  gint *n_waiting; /* atomic */
  TarnOpenclImagePool *pool;
} Joiner;

/* Makes a pool of images at the same moment as the other threads. */
static gpointer
make_images (gpointer data)
{
  Joiner *joiner = data;

  g_atomic_int_add (joiner->n_waiting, -1);
  while (g_atomic_int_get (joiner->n_waiting) > 0)
    ;
  joiner->pool = pool_new (joiner->state, joiner->buffers, NULL);
  return NULL;
}

static void
join_together (OpenclState *state, TarnPool *buffers)
{
  Joiner joiners[N_THREADS];
  GThread *threads[N_THREADS];
  gint n_waiting = N_THREADS;
  g_autoptr (TarnReclaimGroup) group = NULL;

  for (guint i = 0; i < N_THREADS; i++)
    {
      joiners[i] = (Joiner){ state, buffers, &n_waiting, NULL };
      threads[i] = g_thread_new ("joiner", make_images, &joiners[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  group = tarn_pool_get_reclaim_group (buffers);
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_autoptr (TarnReclaimGroup) own = tarn_pool_get_reclaim_group (pool_of (joiners[i].pool));

      g_assert_true (own == group);
      tarn_opencl_image_pool_unref (joiners[i].pool);
    }
}

/* Threads make pools of images beside one pool of buffers: all of them are in its group. */
static void
test_join (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  if (!have_images (state))
    return;
  for (guint i = 0; i < N_POOLS; i++)
    {
      g_autoptr (TarnPool) buffers = buffers_new (state, FALSE);

      join_together (state, buffers);
    }
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "images/queues", test_queues },
  };
  static const OpenclQueueCase queue_cases[] = {
    { "images/threads", test_threads, OPENCL_NEEDS_THREADS, NULL },
    { "images/end-meanwhile", test_end_meanwhile, OPENCL_NEEDS_THREADS, NULL },
    { "images/join", test_join, OPENCL_NEEDS_THREADS, NULL },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (queue_cases, G_N_ELEMENTS (queue_cases));
  return g_test_run ();
}
