/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "snapshot-fixture.h"

#include "lib/pool-fixture.h"

JsonNode *
snapshot_read (const gchar *path)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  return json_parser_steal_root (parser);
}

JsonNode *
snapshot_take (const Place *place)
{
  g_autoptr (GError) error = NULL;
  gboolean is_written = tarn_snapshot_write (place->path, &error);

  g_assert_no_error (error);
  g_assert_true (is_written);
  return snapshot_read (place->path);
}

JsonObject *
snapshot_find (JsonNode *snapshot, const gchar *name)
{
  JsonArray *all = json_object_get_array_member (json_node_get_object (snapshot), "allocators");

  for (guint i = 0; i < json_array_get_length (all); i++)
    {
      JsonObject *allocator = json_array_get_object_element (all, i);

      if (g_strcmp0 (json_object_get_string_member (allocator, "name"), name) == 0)
        return allocator;
    }
  g_assert_not_reached ();
}

guint64
snapshot_sum (JsonObject *allocator, const gchar *list, const gchar *member, gint active)
{
  JsonArray *items = json_object_has_member (allocator, list)
                         ? json_object_get_array_member (allocator, list)
                         : NULL;
  guint64 total = 0;

  for (guint i = 0; items != NULL && i < json_array_get_length (items); i++)
    {
      JsonObject *item = json_array_get_object_element (items, i);

      if (active < 0 || json_object_get_boolean_member (item, "active") == (active == 1))
        total += member != NULL ? (guint64) json_object_get_int_member (item, member) : 1;
    }
  return total;
}

guint64
snapshot_get_counter (JsonObject *allocator, const gchar *counter)
{
  JsonObject *counters = json_object_get_object_member (allocator, "counters");

  return (guint64) json_object_get_int_member (counters, counter);
}

void
snapshot_check_pool (JsonObject *pool)
{
  g_assert_cmpstr (json_object_get_string_member (pool, "class"), ==, "pool");
  g_assert_cmpuint (snapshot_get_counter (pool, "active_blocks"), ==,
                    snapshot_sum (pool, "blocks", NULL, 1));
  g_assert_cmpuint (snapshot_get_counter (pool, "active_bytes"), ==,
                    snapshot_sum (pool, "blocks", "size", 1));
  g_assert_cmpuint (snapshot_get_counter (pool, "held_blocks"), ==,
                    snapshot_sum (pool, "blocks", NULL, 0));
  g_assert_cmpuint (snapshot_get_counter (pool, "held_bytes"), ==,
                    snapshot_sum (pool, "blocks", "alloc_size", 0));
  g_assert_cmpuint (snapshot_get_counter (pool, "managed_bytes"), ==,
                    snapshot_sum (pool, "blocks", "alloc_size", -1));
}

JsonObject *
snapshot_find_block (JsonObject *pool, gsize size)
{
  JsonArray *blocks = json_object_get_array_member (pool, "blocks");
  JsonObject *found = NULL;

  for (guint i = 0; i < json_array_get_length (blocks); i++)
    {
      JsonObject *block = json_array_get_object_element (blocks, i);

      if (json_object_get_boolean_member (block, "active")
          && (gsize) json_object_get_int_member (block, "size") == size)
        {
          g_assert_null (found);
          found = block;
        }
    }
  g_assert_nonnull (found);
  return found;
}

TarnBlock *
pool_take_tagged (TarnPool *pool, gsize size, const gchar *tag)
{
  TARN_TAG_SCOPE (tag);

  return pool_take (pool, size);
}
