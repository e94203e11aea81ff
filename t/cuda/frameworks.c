/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool that a process shares on a device, and what PyTorch and CuPy take of it.  It lives as
 * long as the process, so what has to be the first is tested in processes of their own. */

#include <dlfcn.h>
#include <string.h>

#include "common/limit-private.h"
#include "cuda/shared-pool-private.h"
#include "lib/in-child.h"
#include "order-fixture.h"

#define MIB ((gsize) 1 << 20)
#define N_THREADS 8
#define N_BLOCKS 16
#define N_ROUNDS 2000

typedef struct
{
  const TarnCudaTest *test;
  CUcontext primary;
  TarnPool *shared;
} World;

static void
world_init (World *world, const TarnCudaTest *test)
{
  g_autoptr (GError) error = NULL;

  order_load ();
  world->test = test;
  SUCCEED (tarn->cuDevicePrimaryCtxRetain (&world->primary, test->device));
  SUCCEED (tarn->cuCtxPushCurrent (world->primary));
  world->shared = tarn_cuda_get_shared_pool (test->device, &error);
  g_assert_no_error (error);
}

static void
world_clear (World *world)
{
  CUcontext popped;

  g_assert_cmpuint (tarn_pool_get_active_blocks (world->shared), ==, 0);
  tarn_pool_unref (world->shared);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  SUCCEED (tarn->cuDevicePrimaryCtxRelease (world->test->device));
}

static void *
allocate (const World *world, gsize size, CUstream stream)
{
  void *memory = tarn_cuda_torch_malloc ((gssize) size, world->test->device, stream);

  g_assert_nonnull (memory);
  g_assert_cmpuint (GPOINTER_TO_SIZE (memory) % 512, ==, 0);
  return memory;
}

static void
release (const World *world, void *memory, CUstream stream)
{
  tarn_cuda_torch_free (memory, 0, world->test->device, stream);
}

/* One pool */

static gpointer
get_pool (gpointer data)
{
  const TarnCudaTest *test = data;

  return tarn_cuda_get_shared_pool (test->device, NULL);
}

/* Each device has one, whoever asks. */
static void
test_one (const TarnCudaTest *test, gconstpointer unused)
{
  GThread *threads[N_THREADS];
  World world;

  (void) unused;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("asks", get_pool, (gpointer) test);
  world_init (&world, test);
  for (guint i = 0; i < N_THREADS; i++)
    {
      TarnPool *pool = g_thread_join (threads[i]);

      g_assert_true (pool == world.shared);
      tarn_pool_unref (pool);
    }
  g_assert_true (_tarn_cuda_shared_get (test->device, NULL)->context.handle == world.primary);
  world_clear (&world);
}

static void
test_no_device (const TarnCudaTest *test, gconstpointer unused)
{
  static const struct
  {
    CUdevice device;
    const gchar *number;
  } bad[] = { { -1, "device -1" }, { 64, "device 64" }, { 100000, "device 100000" } };

  (void) test;
  (void) unused;
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (tarn_cuda_get_shared_pool (bad[i].device, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DEVICE);
      g_assert_nonnull (strstr (error->message, bad[i].number));
    }
}

/* The environment */

static void
test_limits (void)
{
  static const struct
  {
    const gchar *text;
    gsize limit;
  } good[] = { { "1", 1 },          { "8000000", 8000000 }, { " 64M\n", 64 * MIB },
               { "3k", 3072 },      { "1GiB", 1024 * MIB }, { "2mib", 2 * MIB },
               { "100%", 1000000 }, { "12.5%", 125000 },    { " 1% ", 10000 } };
  static const gchar *const bad[] = { "",
                                      " ",
                                      "8X",
                                      "8GB",
                                      "-1",
                                      "0",
                                      "0%",
                                      "101%",
                                      "%",
                                      "5 %",
                                      "1e9",
                                      "0x10",
                                      "nan%",
                                      "inf",
                                      "8G of it",
                                      "99999999999999999999",
                                      "99999999999T",
                                      "+5",
                                      "5%%" };

  for (gsize i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      gsize limit = 0;

      g_assert_true (_tarn_parse_limit ("TARN_CUDA_LIMIT", good[i].text, 1000000, &limit, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (limit, ==, good[i].limit);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autofree gchar *quoted = g_strdup_printf ("TARN_CUDA_LIMIT: '%s' ", bad[i]);
      g_autoptr (GError) error = NULL;
      gsize limit = 7;

      g_assert_false (_tarn_parse_limit ("TARN_CUDA_LIMIT", bad[i], 1000000, &limit, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_prefix (error->message, quoted));
      g_assert_cmpuint (limit, ==, 7);
    }
}

/* In a process of its own, with those variables. */
static gboolean
is_in_process (const gchar *limit, const gchar *stats)
{
  if (g_test_subprocess ())
    return TRUE;
  g_setenv ("TARN_CUDA_LIMIT", limit, TRUE);
  g_setenv ("TARN_CUDA_STATS", stats, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_CUDA_LIMIT");
  g_unsetenv ("TARN_CUDA_STATS");
  g_test_trap_assert_passed ();
  return FALSE;
}

static void
test_bad_limit (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;

  (void) unused;
  if (!is_in_process ("8X", "0"))
    return;
  g_assert_null (tarn_cuda_get_shared_pool (test->device, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "'8X'"));
}

/* An empty variable is unset. */
static void
test_empty_limit (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPool *shared;

  (void) unused;
  if (!is_in_process ("", ""))
    return;
  shared = tarn_cuda_get_shared_pool (test->device, NULL);
  g_assert_nonnull (shared);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (shared), ==, 0);
}

/* There is no more than the limit; what is freed can be had again; and the table says so. */
static void
test_limit (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  void *memory;

  (void) unused;
  if (!is_in_process ("64M", "1"))
    {
      g_test_trap_assert_stderr ("*memory of CUDA devices, in MiB*peak in use* 40.0 * 40.0 *");
      return;
    }
  world_init (&world, test);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (world.shared), ==, 64 * MIB);
  memory = allocate (&world, 40 * MIB, NULL);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*CUDA out of memory*40.00 MiB*");
  g_assert_null (tarn_cuda_torch_malloc (40 * MIB, test->device, NULL));
  g_test_assert_expected_messages ();
  release (&world, memory, NULL);
  release (&world, allocate (&world, 40 * MIB, NULL), NULL);
  world_clear (&world);
}

static void
test_no_stats (const TarnCudaTest *test, gconstpointer unused)
{
  World world;

  (void) unused;
  if (!is_in_process ("100%", "0"))
    {
      g_test_trap_assert_stderr_unmatched ("*in MiB*");
      return;
    }
  world_init (&world, test);
  release (&world, allocate (&world, MIB, NULL), NULL);
  world_clear (&world);
}

/* PyTorch */

static void
test_sizes (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  gchar bytes[4];
  void *memory;

  (void) unused;
  world_init (&world, test);
  g_assert_null (tarn_cuda_torch_malloc (0, test->device, NULL));
  g_assert_null (tarn_cuda_torch_malloc (-5, test->device, NULL));
  release (&world, NULL, NULL);
  memory = allocate (&world, 1000, NULL);
  SUCCEED (cuda.cuMemsetD32Async (GPOINTER_TO_SIZE (memory), 0x61616161, 250, NULL));
  SUCCEED (cuda.cuMemcpyDtoH (bytes, GPOINTER_TO_SIZE (memory) + 996, 4));
  g_assert_cmpmem (bytes, 4, "aaaa", 4);
  release (&world, memory, NULL);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is not in use");
  release (&world, memory, NULL);
  g_test_assert_expected_messages ();
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is not in use");
  tarn_cuda_torch_record_stream (memory, NULL);
  g_test_assert_expected_messages ();
  world_clear (&world);
}

typedef struct
{
  const World *world;
  void **slots; /* atomic: what some thread has allocated, for any to free */
} Players;

static gpointer
play (gpointer data)
{
  const Players *players = data;
  const World *world = players->world;
  CUcontext popped;
  CUstream stream;

  SUCCEED (tarn->cuCtxPushCurrent (world->primary));
  stream = order_stream_new ();
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gsize size = (gsize) g_random_int_range (1, 100000);
      guint slot = (guint) g_random_int_range (0, N_BLOCKS);

      release (world,
               __atomic_exchange_n (&players->slots[slot],
                                    allocate (world, size, i % 2 ? stream : NULL),
                                    __ATOMIC_ACQ_REL),
               NULL);
    }
  SUCCEED (cuda.cuStreamSynchronize (stream));
  g_assert_true (tarn_cuda_pool_forget_stream (world->shared, stream, NULL));
  order_stream_free (stream);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

/* Any thread frees what any other has allocated. */
static void
test_threads (const TarnCudaTest *test, gconstpointer unused)
{
  void *slots[N_BLOCKS] = { NULL };
  GThread *threads[N_THREADS];
  World world;
  Players players = { &world, slots };

  (void) unused;
  world_init (&world, test);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("plays", play, &players);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_BLOCKS; i++)
    release (&world, slots[i], NULL);
  world_clear (&world);
}

static unsigned int
query (CUstream stream)
{
  unsigned int (*func) (CUstream);

  *(gpointer *) &func = order_find_function ("cuStreamQuery");
  return func (stream);
}

/* What another stream is still busy with is not handed out by the one that it was allocated for. */
static void
test_record (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  CUstream own, other;
  void *memory, *again;
  Gate gate;

  (void) unused;
  world_init (&world, test);
  own = order_stream_new ();
  other = order_stream_new ();
  gate_init (&gate);
  memory = allocate (&world, MIB, own);
  gate_close (&gate, other);
  tarn_cuda_torch_record_stream (memory, other);
  release (&world, memory, own);
  again = allocate (&world, MIB, own);
  if (again == memory) /* then its stream waits */
    ASSERT_STATUS (query (own), FAKE_CUDA_NOT_READY);
  gate_open (&gate);
  release (&world, again, own);
  SUCCEED (cuda.cuStreamSynchronize (own));
  SUCCEED (cuda.cuStreamSynchronize (other));
  gate_clear (&gate);
  order_stream_free (own);
  order_stream_free (other);
  world_clear (&world);
}

/* Nothing that is not in use stays. */
static void
test_empty_cache (const TarnCudaTest *test, gconstpointer unused)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  World world;

  (void) unused;
  world_init (&world, test);
  for (gsize i = 1; i < 50; i++)
    release (&world, allocate (&world, i * MIB, NULL), NULL);
  tarn_cuda_torch_empty_cache ();
  g_assert_cmpuint (tarn_pool_get_managed_bytes (world.shared), ==, 0);
  if (tarn_heap_get_stats (tarn_pool_get_upstream (world.shared), &stats))
    g_assert_cmpuint (stats.upstream_bytes, ==, 0);
  world_clear (&world);
}

static void
test_fraction (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaShared *shared;
  gsize bytes;
  World world;

  (void) unused;
  world_init (&world, test);
  shared = _tarn_cuda_shared_get (test->device, NULL);
  tarn_cuda_torch_set_memory_fraction (0.25, test->device);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (world.shared), ==, shared->total_bytes / 4);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*fraction of -1 *");
  tarn_cuda_torch_set_memory_fraction (-1, test->device);
  g_test_assert_expected_messages ();
  bytes = shared->total_bytes;
  shared->total_bytes = 0; /* as if the driver did not say how much memory the device has */
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*fraction of 0.5 * does not say how *");
  tarn_cuda_torch_set_memory_fraction (0.5, test->device);
  g_test_assert_expected_messages ();
  shared->total_bytes = bytes;
  g_assert_cmpuint (tarn_pool_get_limit_bytes (world.shared), ==, shared->total_bytes / 4);
  tarn_pool_set_limit_bytes (world.shared, 0);
  world_clear (&world);
}

static void
use_in_child (gpointer data)
{
  void *memory = data;

  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*fork*");
  STEP (1, tarn_cuda_torch_malloc (1000, 0, NULL) == NULL);
  g_test_assert_expected_messages ();
  tarn_cuda_torch_free (memory, 1000, 0, NULL);
  tarn_cuda_torch_empty_cache ();
}

static void
test_fork (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  void *memory;

  (void) unused;
  world_init (&world, test);
  memory = allocate (&world, 1000, NULL);
  in_child (use_in_child, memory);
  release (&world, memory, NULL);
  world_clear (&world);
}

/* CuPy */

static CUstream current;

static CUstream
get_current (void)
{
  return current;
}

static void
test_cupy (const TarnCudaTest *test, gconstpointer unused)
{
  CUstream (*func) (void) = get_current;
  void *param = *(void **) &func, *first, *second;
  World world;

  (void) unused;
  world_init (&world, test);
  g_assert_null (tarn_cuda_cupy_malloc (NULL, 0, test->device));
  tarn_cuda_cupy_free (NULL, tarn_cuda_cupy_malloc (NULL, MIB, test->device), test->device);
  current = order_stream_new ();
  first = tarn_cuda_cupy_malloc (param, MIB, test->device);
  tarn_cuda_cupy_free (param, first, test->device);
  second = tarn_cuda_cupy_malloc (param, MIB, test->device);
  g_assert_true (second == first); /* it is that stream's */
  tarn_cuda_cupy_free (param, second, test->device);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, "*bytes asked for*");
  g_assert_null (tarn_cuda_cupy_malloc (param, CUDA_TOO_MANY_BYTES, test->device));
  g_test_assert_expected_messages ();
  SUCCEED (cuda.cuStreamSynchronize (current));
  g_assert_true (tarn_cuda_pool_forget_stream (world.shared, current, NULL));
  order_stream_free (current);
  world_clear (&world);
}

/* Another device can use it: CUDA's runtime copies from one to the other on that understanding. */
static void
test_peers (const TarnCudaTest *test, gconstpointer unused)
{
  unsigned int (*get_access) (unsigned long long *, const void *, CUdeviceptr);
  void *libcuda = dlopen ("libcuda.so.1", RTLD_NOW);
  World world;
  int n = 0;
  void *memory;

  (void) unused;
  world_init (&world, test);
  *(void **) &get_access = libcuda != NULL ? dlsym (libcuda, "cuMemGetAccess") : NULL;
  SUCCEED (tarn->cuDeviceGetCount (&n));
  memory = allocate (&world, MIB, NULL);
  for (int device = 0; device < n; device++)
    {
      const struct
      {
        unsigned int type; /* CU_MEM_LOCATION_TYPE_DEVICE */
        int id;
      } location = { 1, device };
      unsigned long long flags = 0;
      int can = device == test->device;

      if (device != test->device && tarn->cuDeviceCanAccessPeer != NULL)
        SUCCEED (tarn->cuDeviceCanAccessPeer (&can, device, test->device));
      /* Memory that is not mapped has no such thing. */
      if (get_access != NULL && get_access (&flags, &location, (guintptr) memory) == 0)
        g_assert_cmpuint (flags, ==, can ? 3 : 0); /* to read and to write */
    }
  release (&world, memory, NULL);
  world_clear (&world);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/frameworks/limits", test_limits);
  tarn_cuda_test_add ("frameworks/one", test_one, NULL);
  tarn_cuda_test_add ("frameworks/no-device", test_no_device, NULL);
  tarn_cuda_test_add ("frameworks/bad-limit", test_bad_limit, NULL);
  tarn_cuda_test_add ("frameworks/empty-limit", test_empty_limit, NULL);
  tarn_cuda_test_add ("frameworks/limit", test_limit, NULL);
  tarn_cuda_test_add ("frameworks/no-stats", test_no_stats, NULL);
  tarn_cuda_test_add ("frameworks/sizes", test_sizes, NULL);
  tarn_cuda_test_add ("frameworks/threads", test_threads, NULL);
  tarn_cuda_test_add ("frameworks/record", test_record, NULL);
  tarn_cuda_test_add ("frameworks/empty-cache", test_empty_cache, NULL);
  tarn_cuda_test_add ("frameworks/fraction", test_fraction, NULL);
  tarn_cuda_test_add ("frameworks/fork", test_fork, NULL);
  tarn_cuda_test_add ("frameworks/cupy", test_cupy, NULL);
  tarn_cuda_test_add ("frameworks/peers", test_peers, NULL);
  return g_test_run ();
}
