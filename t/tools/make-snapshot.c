/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots of a program with two pools over a heap, queues, tags and a second thread, for
 * tarn-view.t.  make-snapshot KIND FILE writes one; without a file it runs out of memory, for
 * TARN_SNAPSHOT_ON_OOM.  KIND: virtual memory, or parts, which have addresses of their own. */

#include <tarn/tarn.h>
#include <tarn/testing.h>

#define MIB ((gsize) 1 << 20)

#define N_WEIGHTS 3
#define N_LAYERS 5
#define HOSTILE "</script><img src=x onerror=alert(1)>\n\"\\\x1b[31m"

typedef struct
{
  TarnTestingOrder *order;
  gpointer queue;
  TarnAllocator *heap;
  TarnPool *weights, *scratch;
  GPtrArray *blocks; /* in use */
} Program;

static void
keep (Program *program, TarnPool *pool, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (pool, size, queue, &error);

  g_assert_no_error (error);
  g_ptr_array_add (program->blocks, block);
}

static TarnPool *
make_pool (Program *program, const gchar *name, gsize limit_bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.name = name;
  options.limit_bytes = limit_bytes;
  options.hold_bytes = 16 * MIB;
  pool = tarn_pool_new (program->heap, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static void
begin (Program *program, TarnTestingPagesKind kind)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) driver = NULL;
  g_autoptr (GError) error = NULL;

  program->order = tarn_testing_order_new (256 * MIB, kind, 0);
  program->queue = tarn_testing_queue_new (tarn_testing_order_get_queues (program->order), TRUE);
  driver = tarn_testing_order_allocator_new (program->order);
  options.growth_bytes = 32 * MIB;
  program->heap = tarn_heap_allocator_new (driver, &options, &error);
  g_assert_no_error (error);
  program->weights = make_pool (program, "weights & <co>", 0);
  program->scratch = make_pool (program, HOSTILE, 64 * MIB);
  program->blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
}

static void
end (Program *program)
{
  g_ptr_array_unref (program->blocks);
  tarn_pool_unref (program->weights);
  tarn_pool_unref (program->scratch);
  tarn_allocator_unref (program->heap);
  tarn_testing_order_free (program->order);
}

/* What it asks for before blocks are followed has no tag and no age. */
static void
load (Program *program)
{
  keep (program, program->weights, 3 * MIB + 1, NULL);
  tarn_snapshot_set_follow (TRUE);
  tarn_tag_push ("weights");
  for (guint i = 0; i < N_WEIGHTS; i++)
    keep (program, program->weights, (4 + i) * MIB - 100, NULL);
  tarn_tag_pop ();
}

/* Every second block is freed, and held. */
static gpointer
run_layers (gpointer data)
{
  Program *program = data;

  tarn_tag_push (HOSTILE);
  for (guint i = 0; i < N_LAYERS; i++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *freed
          = tarn_pool_allocate_ordered (program->scratch, 2 * MIB, program->queue, &error);

      g_assert_no_error (error);
      keep (program, program->scratch, MIB - i, program->queue);
      tarn_block_free (freed);
    }
  tarn_tag_pop ();
  return NULL;
}

static void
write_snapshot (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  gboolean is_written = tarn_snapshot_write (path, &error);

  g_assert_no_error (error);
  g_assert_true (is_written);
}

/* The pool's limit; the request fails. */
static void
run_out (Program *program)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  tarn_tag_push ("too much");
  block = tarn_pool_allocate (program->scratch, 65 * MIB, &error);
  tarn_tag_pop ();
  g_assert_null (block);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
}

gint
main (gint argc, gchar **argv)
{
  Program program;
  gboolean is_virtual;

  g_test_init (&argc, &argv, NULL); /* for the fakes' random numbers */
  is_virtual = argc > 1 && g_str_equal (argv[1], "virtual");
  if (argc > 3 || !(is_virtual || (argc > 1 && g_str_equal (argv[1], "parts"))))
    g_error ("usage: make-snapshot virtual|parts [FILE]");
  g_set_prgname ("make-snapshot");
  begin (&program, is_virtual ? TARN_TESTING_PAGES_VIRTUAL : TARN_TESTING_PAGES_PARTS);
  load (&program);
  g_thread_join (g_thread_new ("layers", run_layers, &program));
  if (argc == 3)
    write_snapshot (argv[2]);
  else
    run_out (&program);
  end (&program);
  return 0;
}
