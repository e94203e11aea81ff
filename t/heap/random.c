/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Random requests and frees.  What is in use never overlaps and stays usable; a request fails only
 * where the device, less what is in use, has less; invariants hold after each.  --seed=SEED brings
 * a run back. */

#include "heap-fixture.h"

#define N_OPERATIONS 4000
#define MAX_LIVE 300
#define N_THREADS 4

typedef struct
{
  TarnMemory memory;
  gsize size;
} Live;

static gsize
draw_size (guint bits)
{
  return (gsize) g_test_rand_int_range (0, 1 << 20)
         >> g_test_rand_int_range (0, 20) << g_test_rand_int_range (0, (gint32) bits);
}

static void
assert_apart (HeapFixture *fixture, const GArray *live)
{
  const TarnExtent *extent
      = heap_get_extent (fixture, g_array_index (live, Live, live->len - 1).memory);

  g_assert_cmpuint (extent->size, >=, g_array_index (live, Live, live->len - 1).size);
  for (guint i = 0; i + 1 < live->len; i++)
    {
      const TarnExtent *other = heap_get_extent (fixture, g_array_index (live, Live, i).memory);

      g_assert_true (extent->start + extent->size <= other->start
                     || other->start + other->size <= extent->start);
    }
}

/* A request that fails would have been too much for the device beside what is in use, if pieces
 * had no more than one extent each: what is free in pieces cannot be had. */
static void
assert_out_of_memory (HeapFixture *fixture, gsize size, guint64 budget, const GError *error)
{
  TarnHeapStats stats = heap_get_stats (fixture);

  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (size + stats.upstream_bytes + 2 * MIB, >, budget);
  if (fixture->is_virtual)
    g_assert_cmpuint (size, >, stats.largest_free_bytes);
}

static void
allocate (HeapFixture *fixture, GArray *live, guint bits, guint64 budget)
{
  Live one = { .size = draw_size (bits) };
  g_autoptr (GError) error = NULL;

  if (!tarn_allocator_allocate_memory (fixture->heap, one.size, &one.memory, &error))
    {
      assert_out_of_memory (fixture, one.size, budget, error);
      return;
    }
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, one.memory, one.size));
  g_array_append_val (live, one);
  assert_apart (fixture, live);
}

static void
free_one (HeapFixture *fixture, GArray *live)
{
  guint i = (guint) g_test_rand_int_range (0, (gint32) live->len);
  Live one = g_array_index (live, Live, i);

  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, one.memory, one.size));
  g_array_remove_index_fast (live, i);
  tarn_allocator_free_memory (fixture->heap, one.memory, one.size);
}

static void
run (HeapFixture *fixture, guint64 budget)
{
  g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (Live));
  guint target = 0, bits = 1;

  tarn_testing_pages_set_budget (fixture->pages, budget);
  for (guint i = 0; i < N_OPERATIONS; i++)
    {
      if (i % 200 == 0)
        {
          target = (guint) g_test_rand_int_range (1, MAX_LIVE);
          bits = (guint) g_test_rand_int_range (1, 12);
        }
      if (g_test_rand_int_range (0, 500) == 0)
        fixture->heap->klass->trim (fixture->heap, 0);
      else if (live->len > 0
               && g_test_rand_int_range (0, (gint32) (live->len + target)) >= (gint32) target)
        free_one (fixture, live);
      else if (live->len < MAX_LIVE)
        allocate (fixture, live, bits, budget);
      if (i % 8 == 0)
        heap_assert_valid (fixture);
    }
  while (live->len > 0)
    free_one (fixture, live);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, heap_get_stats (fixture).pieces);
}

static void
test_endless (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  run (fixture, G_MAXUINT64);
}

static void
test_tight (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint64 budget = 40 * MIB; budget <= 20 * GIB; budget *= 5)
    run (fixture, budget);
}

/* Threads */

typedef struct
{
  HeapFixture *fixture;
  guint32 seed;
  gint *n_failed;
} Thread;

static gpointer
run_thread (gpointer data)
{
  Thread *thread = data;
  g_autoptr (GRand) random = g_rand_new_with_seed (thread->seed);
  Live live[20] = { { .size = 0 } };

  for (guint i = 0; i < 4000; i++)
    {
      Live *one = &live[g_rand_int_range (random, 0, 20)];

      if (one->memory.address != 0)
        {
          g_assert_true (
              tarn_testing_pages_is_usable (thread->fixture->pages, one->memory, one->size));
          tarn_allocator_free_memory (thread->fixture->heap, one->memory, one->size);
          one->memory.address = 0;
          continue;
        }
      one->size = (gsize) g_rand_int_range (random, 1, 1 << g_rand_int_range (random, 1, 27));
      if (!tarn_allocator_allocate_memory (thread->fixture->heap, one->size, &one->memory, NULL))
        g_atomic_int_inc (thread->n_failed);
      if (i % 500 == 0)
        thread->fixture->heap->klass->trim (thread->fixture->heap, 0);
    }
  for (guint i = 0; i < G_N_ELEMENTS (live); i++)
    if (live[i].memory.address != 0)
      tarn_allocator_free_memory (thread->fixture->heap, live[i].memory, live[i].size);
  return NULL;
}

static void
test_threads (HeapFixture *fixture, gconstpointer unused)
{
  Thread threads[N_THREADS];
  GThread *running[N_THREADS];
  gint n_failed = 0;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 300 * MIB);
  for (guint i = 0; i < N_THREADS; i++)
    {
      threads[i] = (Thread){ fixture, (guint32) g_test_rand_int (), &n_failed };
      running[i] = g_thread_new ("user", run_thread, &threads[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (running[i]);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  g_test_message ("%d requests found no memory", n_failed);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("random/endless", test_endless);
  heap_add ("random/tight", test_tight);
  heap_add ("random/threads", test_threads);
  return g_test_run ();
}
