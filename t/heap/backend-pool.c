/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the backends' own pools are made of: each step failing, and upstreams of which there is no
 * heap. */

#include <tarn/tarn.h>

#include "heap/heap-private.h"
#include "lib/conformance.h"

static GError *heap_error; /* what heaps cannot be made for; NULL: they can */

static TarnAllocator *
heap_new_or_fail (TarnAllocator *upstream, const TarnHeapOptions *options, GError **error)
{
  if (heap_error == NULL)
    return tarn_heap_allocator_new (upstream, options, error);
  g_propagate_error (error, g_error_copy (heap_error));
  return NULL;
}

#define tarn_heap_allocator_new heap_new_or_fail
#include "common/heap-pool-private.h"
#undef tarn_heap_allocator_new

/* An upstream with parts, or without; it counts what is alive of it. */

typedef struct
{
  guint allocators, blocks, allocations, parts, released;
} Ledger;

static gboolean
ledger_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  Ledger *ledger = user_data;

  (void) size;
  (void) error;
  ledger->blocks++;
  memory->address = ++ledger->allocations;
  return TRUE;
}

static void
ledger_free (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) memory;
  (void) size;
  ((Ledger *) user_data)->blocks--;
}

static gboolean
ledger_part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                 GError **error)
{
  (void) memory;
  (void) offset;
  (void) size;
  (void) error;
  part->address = ++((Ledger *) user_data)->parts;
  return TRUE;
}

static void
ledger_part_release (gpointer user_data, TarnMemory part, gsize size)
{
  (void) part;
  (void) size;
  ((Ledger *) user_data)->released++;
}

static void
ledger_end (gpointer user_data)
{
  ((Ledger *) user_data)->allocators--;
}

static TarnAllocator *
upstream_new (Ledger *ledger, gboolean has_parts)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "ledger";
  ops.allocate = ledger_allocate;
  ops.free = ledger_free;
  if (has_parts)
    {
      ops.part_alignment = 128;
      ops.part_new = ledger_part_new;
      ops.part_release = ledger_part_release;
    }
  ledger->allocators++;
  return tarn_allocator_new (&ops, ledger, ledger_end);
}

static gsize
get_used_bytes (TarnPool *pool)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (tarn_pool_get_upstream (pool), &stats));
  return stats.used_bytes;
}

/* The pool alone keeps the rest alive. */
static void
test_steps (gconstpointer has_parts)
{
  Ledger ledger = { 0, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  TarnPool *pool
      = _tarn_pool_new_over_heap (upstream_new (&ledger, has_parts != NULL), NULL, &error);
  TarnBlock *blocks[2];

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = allocate (pool, 1000);
  g_assert_cmpuint (ledger.allocations, ==, has_parts != NULL ? 1 : 2);
  g_assert_cmpuint (ledger.parts, ==, has_parts != NULL ? 2 : 0);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (ledger.allocators, ==, 1);
  tarn_pool_unref (pool);
  g_assert_cmpuint (ledger.blocks, ==, 0);
  g_assert_cmpuint (ledger.allocators, ==, 0);
  g_assert_cmpuint (ledger.released, ==, ledger.parts);
}

/* The program's options are the heap's; it follows the pool's limit, whatever they say. */
static void
test_heap_options (gconstpointer has_parts)
{
  Ledger ledger = { 0, 0, 0, 0, 0 };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;
  const TarnHeap *heap;
  TarnBlock *block;

  heap_options.name = "below";
  heap_options.alignment = 4096;
  heap_options.idle_seconds = 77;
  options.heap = &heap_options;
  pool = _tarn_pool_new_over_heap (upstream_new (&ledger, has_parts != NULL), &options, &error);
  g_assert_no_error (error);
  heap = _tarn_heap_of (tarn_pool_get_upstream (pool));
  g_assert_cmpint (heap != NULL, ==, has_parts != NULL);
  if (heap != NULL)
    {
      g_assert_cmpstr (tarn_allocator_get_name (tarn_pool_get_upstream (pool)), ==, "below");
      g_assert_cmpint (heap->idle_time, ==, 77 * G_TIME_SPAN_SECOND);
      g_assert_true (heap->follows_pool);
      block = allocate (pool, 1000);
      g_assert_cmpuint (get_used_bytes (pool), ==, 4096);
      tarn_block_free (block);
    }
  tarn_pool_unref (pool);

  heap_options.alignment = 100; /* which nobody reads where there is no heap */
  pool = _tarn_pool_new_over_heap (upstream_new (&ledger, has_parts != NULL), &options, &error);
  if (has_parts != NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  else
    g_assert_no_error (error);
  g_assert_cmpint (pool == NULL, ==, has_parts != NULL);
  tarn_pool_unref (pool);
  g_assert_cmpuint (ledger.allocators, ==, 0);
}

/* Nor are options read that a later version has. */
static void
test_later_heap_options (void)
{
  struct
  {
    TarnHeapOptions known;
    gpointer later;
  } later = { TARN_HEAP_OPTIONS_INIT, &later };
  Ledger ledger = { 0, 0, 0, 0, 0 };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;

  later.known.struct_size = sizeof later;
  options.heap = &later.known;
  g_assert_null (_tarn_pool_new_over_heap (upstream_new (&ledger, TRUE), &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpuint (ledger.allocators, ==, 0);
}

/* What the driver says of its allocator stays what is said. */
static void
test_no_allocator (void)
{
  g_autoptr (GError) error
      = g_error_new_literal (TARN_ERROR, TARN_ERROR_NO_DRIVER, "there is no driver");

  g_assert_null (_tarn_pool_new_over_heap (NULL, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER);
}

/* There is no heap, for a reason that is none of the upstream's. */
static void
test_no_heap (void)
{
  Ledger ledger = { 0, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;

  heap_error = g_error_new_literal (TARN_ERROR, TARN_ERROR_FORKED, "a child");
  g_assert_null (_tarn_pool_new_over_heap (upstream_new (&ledger, TRUE), NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FORKED);
  g_assert_null (_tarn_pool_new_over_heap (upstream_new (&ledger, TRUE), NULL, NULL));
  g_clear_error (&heap_error);
  g_assert_cmpuint (ledger.allocators, ==, 0);
}

/* There is no pool. */
static void
test_no_pool (gconstpointer has_parts)
{
  Ledger ledger = { 0, 0, 0, 0, 0 };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;

  options.leading_bits_in_bin_id = 99;
  g_assert_null (
      _tarn_pool_new_over_heap (upstream_new (&ledger, has_parts != NULL), &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpuint (ledger.allocators, ==, 0);
}

int
main (int argc, char **argv)
{
  gpointer parts = GINT_TO_POINTER (TRUE);

  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/core/heap/backend-pool/parts", parts, test_steps);
  g_test_add_data_func ("/core/heap/backend-pool/no-parts", NULL, test_steps);
  g_test_add_data_func ("/core/heap/backend-pool/options", parts, test_heap_options);
  g_test_add_data_func ("/core/heap/backend-pool/options-no-parts", NULL, test_heap_options);
  g_test_add_func ("/core/heap/backend-pool/later-options", test_later_heap_options);
  g_test_add_func ("/core/heap/backend-pool/no-allocator", test_no_allocator);
  g_test_add_func ("/core/heap/backend-pool/no-heap", test_no_heap);
  g_test_add_data_func ("/core/heap/backend-pool/no-pool", parts, test_no_pool);
  g_test_add_data_func ("/core/heap/backend-pool/no-pool-no-parts", NULL, test_no_pool);
  return g_test_run ();
}
