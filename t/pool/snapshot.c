/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots: pools, heaps and their blocks, names, tags. */

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/pool-fixture.h"
#include "snapshot-fixture.h"

static void
test_blocks (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "\"quoted\\\n\001 \303\244");
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[] = { pool_take (pool, 100), pool_take (pool, 3000), pool_take (pool, 5000) };

  place_init (&place, "snapshot.json");
  tarn_block_free (blocks[1]);
  {
    g_autoptr (JsonNode) snapshot = snapshot_take (&place);
    JsonObject *root = json_node_get_object (snapshot);
    JsonObject *object = snapshot_find (snapshot, "\"quoted\\\n\001 \303\244");
    JsonObject *block = snapshot_find_block (object, 100);
    guint64 address = g_ascii_strtoull (json_object_get_string_member (block, "address"), NULL, 16);

    g_assert_cmpint (json_object_get_int_member (root, "tarn-snapshot"), ==, 1);
    g_assert_cmpint (json_object_get_int_member (root, "pid"), ==, getpid ());
    g_assert_cmpstr (json_object_get_string_member (root, "reason"), ==, "asked");
    g_assert_nonnull (strstr (json_object_get_string_member (root, "program"), "snapshot.t"));
    g_assert_false (json_object_get_boolean_member (root, "followed"));
    snapshot_check_pool (object);
    g_assert_cmpuint (snapshot_get_counter (object, "active_bytes"), ==, 5100);
    g_assert_cmpuint (snapshot_get_counter (object, "held_blocks"), ==, 1);
    g_assert_cmpuint (address, ==, tarn_block_get_memory (blocks[0]).address);
    g_assert_false (json_object_has_member (block, "tag"));
    g_assert_false (json_object_has_member (block, "age"));
  }
  tarn_block_free (blocks[0]);
  tarn_block_free (blocks[2]);
}

/* A name that is not UTF-8 makes no file that cannot be read. */
static void
test_names (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "\377\376");
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (JsonNode) snapshot = NULL;

  g_assert_nonnull (pool);
  place_init (&place, "snapshot.json");
  snapshot = snapshot_take (&place);
  snapshot_check_pool (snapshot_find (snapshot, "\357\277\275\357\277\275"));
}

/* The number of allocators that a snapshot tells of. */
static guint
count_allocators (JsonNode *snapshot)
{
  return json_array_get_length (
      json_object_get_array_member (json_node_get_object (snapshot), "allocators"));
}

static void
check_heap (TarnTestingPagesKind kind)
{
  TarnTestingPages *pages = tarn_testing_pages_new (G_MAXUINT64, kind);
  TarnAllocator *allocator = tarn_testing_pages_allocator_new (pages);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  TarnAllocator *heap;
  TarnPool *pool;
  TarnBlock *blocks[20];
  g_auto (Place) place = { NULL, NULL };

  options.name = "heap";
  heap = tarn_heap_allocator_new (allocator, &options, NULL);
  pool_options.name = "over it";
  pool_options.hold_bytes = G_MAXSIZE;
  pool = tarn_pool_new (heap, &pool_options, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = pool_take (pool, (i + 1) * 300000);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    tarn_block_free (blocks[i]);
  place_init (&place, "snapshot.json");
  {
    g_autoptr (JsonNode) snapshot = snapshot_take (&place);
    JsonObject *object = snapshot_find (snapshot, "heap");
    JsonObject *over = snapshot_find (snapshot, "over it");

    g_assert_cmpstr (json_object_get_string_member (object, "class"), ==, "heap");
    g_assert_cmpint (json_object_get_int_member (over, "upstream"), ==,
                     json_object_get_int_member (object, "id"));
    g_assert_cmpuint (snapshot_get_counter (object, "upstream_bytes"), ==,
                      snapshot_sum (object, "pieces", "size", -1));
    g_assert_cmpuint (snapshot_get_counter (object, "pieces"), ==,
                      snapshot_sum (object, "pieces", NULL, -1));
    g_assert_cmpuint (snapshot_get_counter (object, "used_bytes"), ==,
                      snapshot_sum (object, "extents", "size", -1));
    g_assert_cmpuint (snapshot_sum (object, "extents", "size", -1), >=,
                      snapshot_sum (over, "blocks", "alloc_size", -1));
    snapshot_check_pool (over);
    g_assert_true (json_object_get_null_member (json_object_get_object_member (over, "options"),
                                                "hold_bytes"));
  }
  for (guint i = 1; i < G_N_ELEMENTS (blocks); i += 2)
    tarn_block_free (blocks[i]);
  tarn_pool_unref (pool);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (allocator);
  tarn_testing_pages_free (pages);
}

static void
test_heap (void)
{
  check_heap (TARN_TESTING_PAGES_VIRTUAL);
  check_heap (TARN_TESTING_PAGES_PARTS);
  check_heap (TARN_TESTING_PAGES_ADDRESSES);
}

/* A pool with TARN_DEBUG is shown over the allocator that the program gave it; the one between does
 * not appear. */
static void
check_debugged (void)
{
  static const gchar *const words[] = { "", "check", "leaks", "guards", "gaps,poison,leaks" };
  TarnTestingPages *pages = tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_VIRTUAL);

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      g_autoptr (TarnAllocator) allocator = tarn_testing_pages_allocator_new (pages);
      TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
      TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
      g_autoptr (TarnAllocator) heap = NULL;
      g_autoptr (TarnPool) pool = NULL;
      g_auto (Place) place = { NULL, NULL };
      g_autoptr (JsonNode) snapshot = NULL;

      options.name = "heap";
      heap = tarn_heap_allocator_new (allocator, &options, NULL);
      pool_options.name = "over it";
      pool_options.debug = words[i];
      pool = tarn_pool_new (heap, &pool_options, NULL);
      place_init (&place, "snapshot.json");
      snapshot = snapshot_take (&place);
      g_assert_cmpuint (count_allocators (snapshot), ==, 3);
      g_assert_cmpint (json_object_get_int_member (snapshot_find (snapshot, "over it"), "upstream"),
                       ==, json_object_get_int_member (snapshot_find (snapshot, "heap"), "id"));
    }
  tarn_testing_pages_free (pages);
}

/* Runs in a process of its own, because from the first debugged pool on blocks are followed. */
static void
test_debugged (void)
{
  if (g_test_subprocess ())
    {
      check_debugged ();
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_passed ();
}

static void
assert_tag (JsonNode *snapshot, gsize size, const gchar *tag)
{
  JsonObject *block = snapshot_find_block (snapshot_find (snapshot, "tagged"), size);

  g_assert_cmpint (json_object_get_int_member (block, "thread"), ==, syscall (SYS_gettid));
  g_assert_cmpint (json_object_get_int_member (block, "age"), <, 600 * (gint64) 1000000000);
  if (tag != NULL)
    g_assert_cmpstr (json_object_get_string_member (block, "tag"), ==, tag);
  else
    g_assert_true (json_object_get_null_member (block, "tag"));
}

static void
test_tags (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "tagged");
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *before, *blocks[3];

  place_init (&place, "snapshot.json");
  tarn_tag_push ("nobody looks");
  before = pool_take (pool, 10);
  tarn_snapshot_set_follow (TRUE);
  for (guint round = 0; round < 2; round++) /* from upstream, and from the thread's own */
    {
      TARN_TAG_SCOPE ("outer");

      blocks[0] = pool_take (pool, 1000);
      {
        TARN_TAG_SCOPE ("inner \"\\");

        blocks[1] = pool_take (pool, 2000);
      }
      tarn_tag_pop ();
      tarn_tag_pop ();
      blocks[2] = pool_take (pool, 4000);
      tarn_tag_push ("nobody looks");
      tarn_tag_push ("outer");
      {
        g_autoptr (JsonNode) snapshot = snapshot_take (&place);
        JsonObject *of_before = snapshot_find_block (snapshot_find (snapshot, "tagged"), 10);

        g_assert_true (
            json_object_get_boolean_member (json_node_get_object (snapshot), "followed"));
        g_assert_false (json_object_has_member (of_before, "tag"));
        assert_tag (snapshot, 1000, "outer");
        assert_tag (snapshot, 2000, "inner \"\\");
        assert_tag (snapshot, 4000, NULL);
        snapshot_check_pool (snapshot_find (snapshot, "tagged"));
      }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
    }
  blocks[0] = pool_take (pool, 1000);
  tarn_snapshot_set_follow (FALSE);
  tarn_block_free (blocks[0]); /* which nobody sees */
  blocks[0] = pool_take (pool, 1000);
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (JsonNode) snapshot = snapshot_take (&place);

      g_assert_false (json_object_has_member (
          snapshot_find_block (snapshot_find (snapshot, "tagged"), 1000), "tag"));
      tarn_snapshot_set_follow (round == 0); /* nor does that make it known */
    }
  tarn_block_free (blocks[0]);
  tarn_block_free (before);
  tarn_tag_pop ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/blocks", test_blocks);
  g_test_add_func ("/core/snapshot/names", test_names);
  g_test_add_func ("/core/snapshot/heap", test_heap);
  g_test_add_func ("/core/snapshot/debugged", test_debugged);
  g_test_add_func ("/core/snapshot/tags", test_tags);
  return g_test_run ();
}
