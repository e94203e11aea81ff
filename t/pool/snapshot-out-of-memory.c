/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots of programs that run out of memory: the holders of blocks in errors,
 * TARN_SNAPSHOT_ON_OOM, stacks. */

#include <string.h>

#include "lib/pool-fixture.h"
#include "snapshot-fixture.h"

static void
test_holders (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (10000);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "small");
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[6];

  tarn_snapshot_set_follow (TRUE);
  blocks[0] = pool_take_tagged (pool, 512, "a");
  blocks[1] = pool_take_tagged (pool, 1024, "b");
  blocks[2] = pool_take_tagged (pool, 2048, "c\x1b");
  blocks[3] = pool_take_tagged (pool, 512, "a");
  blocks[4] = pool_take_tagged (pool, 128, "d");
  blocks[5] = pool_take (pool, 4096); /* nobody's */
  g_assert_null (tarn_pool_allocate (pool, 8192, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_true (g_str_has_suffix (error->message,
                                   "; 'c\\x1b' has 2048 bytes in 1 block, 'a' has 1024 bytes in 2 "
                                   "blocks, 'b' has 1024 bytes in 1 block"));
  g_clear_error (&error);
  tarn_pool_set_limit_bytes (pool, 9000);
  tarn_testing_device_set_budget (device, G_MAXUINT64);
  g_assert_null (tarn_pool_allocate (pool, 8192, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "'c\\x1b' has 2048 bytes"));
  g_clear_error (&error);
  tarn_snapshot_set_follow (FALSE);
  g_assert_null (tarn_pool_allocate (pool, 8192, &error));
  g_assert_null (strstr (error->message, "' has"));
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

static void
run_out_of_memory (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (1000);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "starving");
  TarnBlock *block = pool_take_tagged (pool, 512, "holder");

  g_assert_null (tarn_pool_allocate (pool, 900, NULL));
  tarn_block_free (block);
  g_assert_null (tarn_pool_allocate (pool, 1100, NULL)); /* within a second: it leaves none */
}

static void
test_environment (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (JsonNode) snapshot = NULL;
  JsonObject *root, *block;
  JsonArray *stacks;

  if (g_test_subprocess ())
    {
      run_out_of_memory ();
      return;
    }
  place_init (&place, "snapshot.json");
  g_setenv ("TARN_SNAPSHOT_ON_OOM", place.path, TRUE);
  g_setenv ("TARN_TRACE_STACKS", "8", TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_SNAPSHOT_ON_OOM");
  g_unsetenv ("TARN_TRACE_STACKS");
  g_test_trap_assert_passed ();
  snapshot = snapshot_read (place.path);
  root = json_node_get_object (snapshot);
  block = snapshot_find_block (snapshot_find (snapshot, "starving"), 512);
  stacks = json_object_get_array_member (root, "stacks");
  g_assert_cmpstr (json_object_get_string_member (root, "reason"), ==, "out-of-memory");
  g_assert_nonnull (strstr (json_object_get_string_member (root, "message"),
                            "'holder' has 512 bytes in 1 block"));
  g_assert_cmpstr (json_object_get_string_member (block, "tag"), ==, "holder");
#ifdef __GLIBC__
  g_assert_cmpuint (json_array_get_length (stacks), ==, 1);
  g_assert_cmpint (json_object_get_int_member (json_array_get_object_element (stacks, 0), "stack"),
                   ==, json_object_get_int_member (block, "stack"));
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (
                        json_array_get_object_element (stacks, 0), "frames")),
                    >=, 2);
#endif
}

/* Stacks alone: for whoever has blocks be followed. */
static void
test_stacks (void)
{
  g_auto (Place) place = { NULL, NULL };

  if (g_test_subprocess ())
    {
      g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
      g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
      g_autoptr (TarnPool) pool = pool_new_named (allocator, "tagged");
      g_autoptr (JsonNode) snapshot = NULL;
      g_autoptr (TarnBlock) block = NULL;

      tarn_snapshot_set_follow (TRUE);
      block = pool_take (pool, 100);
      place_init (&place, "snapshot.json");
      snapshot = snapshot_take (&place);
#ifdef __GLIBC__
      g_assert_true (json_object_has_member (
          snapshot_find_block (snapshot_find (snapshot, "tagged"), 100), "stack"));
#endif
      return;
    }
  g_setenv ("TARN_TRACE_STACKS", "4", TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_TRACE_STACKS");
  g_test_trap_assert_passed ();
}

/* A file that cannot be written is told of, and the request's own error stays what it is. */
static void
test_environment_wrong (void)
{
  if (g_test_subprocess ())
    {
      run_out_of_memory ();
      return;
    }
  g_setenv ("TARN_SNAPSHOT_ON_OOM", "/nonexistent/snapshot", TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_SNAPSHOT_ON_OOM");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("*TARN_SNAPSHOT_ON_OOM: *nonexistent*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/holders", test_holders);
  g_test_add_func ("/core/snapshot/environment", test_environment);
  g_test_add_func ("/core/snapshot/stacks", test_stacks);
  g_test_add_func ("/core/snapshot/environment-wrong", test_environment_wrong);
  return g_test_run ();
}
