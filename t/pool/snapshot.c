/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots. */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tarn/tarn.h>
#include <tarn/testing.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "lib/place.h"

static TarnBlock *
allocate (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

static TarnPool *
pool_new (TarnAllocator *allocator, const gchar *name)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.name = name;
  return tarn_pool_new (allocator, &options, NULL);
}

/* Reading */

static JsonNode *
read_file (const gchar *path)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  return json_parser_steal_root (parser);
}

static JsonNode *
take_snapshot (const Place *place)
{
  g_autoptr (GError) error = NULL;
  gboolean is_written = tarn_snapshot_write (place->path, &error);

  g_assert_no_error (error);
  g_assert_true (is_written);
  return read_file (place->path);
}

/* Gets an allocator by its name. */
static JsonObject *
find (JsonNode *snapshot, const gchar *name)
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

/* Adds up a member of all items of a list, which may not be there; with an active that is so. */
static guint64
sum (JsonObject *allocator, const gchar *list, const gchar *member, gint active)
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

static guint64
get_counter (JsonObject *allocator, const gchar *counter)
{
  JsonObject *counters = json_object_get_object_member (allocator, "counters");

  return (guint64) json_object_get_int_member (counters, counter);
}

/* The counters of a pool are those of its blocks. */
static void
check_pool (JsonObject *pool)
{
  g_assert_cmpstr (json_object_get_string_member (pool, "class"), ==, "pool");
  g_assert_cmpuint (get_counter (pool, "active_blocks"), ==, sum (pool, "blocks", NULL, 1));
  g_assert_cmpuint (get_counter (pool, "active_bytes"), ==, sum (pool, "blocks", "size", 1));
  g_assert_cmpuint (get_counter (pool, "held_blocks"), ==, sum (pool, "blocks", NULL, 0));
  g_assert_cmpuint (get_counter (pool, "held_bytes"), ==, sum (pool, "blocks", "alloc_size", 0));
  g_assert_cmpuint (get_counter (pool, "managed_bytes"), ==,
                    sum (pool, "blocks", "alloc_size", -1));
}

/* Gets the block in use of a size, of which there is one. */
static JsonObject *
find_block (JsonObject *pool, gsize size)
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

/* What there is */

static void
test_blocks (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, "\"quoted\\\n\001 \303\244");
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[] = { allocate (pool, 100), allocate (pool, 3000), allocate (pool, 5000) };

  place_init (&place, "snapshot.json");
  tarn_block_free (blocks[1]);
  {
    g_autoptr (JsonNode) snapshot = take_snapshot (&place);
    JsonObject *root = json_node_get_object (snapshot);
    JsonObject *object = find (snapshot, "\"quoted\\\n\001 \303\244");
    JsonObject *block = find_block (object, 100);
    guint64 address = g_ascii_strtoull (json_object_get_string_member (block, "address"), NULL, 16);

    g_assert_cmpint (json_object_get_int_member (root, "tarn-snapshot"), ==, 1);
    g_assert_cmpint (json_object_get_int_member (root, "pid"), ==, getpid ());
    g_assert_cmpstr (json_object_get_string_member (root, "reason"), ==, "asked");
    g_assert_nonnull (strstr (json_object_get_string_member (root, "program"), "snapshot.t"));
    g_assert_false (json_object_get_boolean_member (root, "followed"));
    check_pool (object);
    g_assert_cmpuint (get_counter (object, "active_bytes"), ==, 5100);
    g_assert_cmpuint (get_counter (object, "held_blocks"), ==, 1);
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
  g_autoptr (TarnPool) pool = pool_new (allocator, "\377\376");
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (JsonNode) snapshot = NULL;

  g_assert_nonnull (pool);
  place_init (&place, "snapshot.json");
  snapshot = take_snapshot (&place);
  check_pool (find (snapshot, "\357\277\275\357\277\275"));
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
    blocks[i] = allocate (pool, (i + 1) * 300000);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    tarn_block_free (blocks[i]);
  place_init (&place, "snapshot.json");
  {
    g_autoptr (JsonNode) snapshot = take_snapshot (&place);
    JsonObject *object = find (snapshot, "heap");
    JsonObject *over = find (snapshot, "over it");

    g_assert_cmpstr (json_object_get_string_member (object, "class"), ==, "heap");
    g_assert_cmpint (json_object_get_int_member (over, "upstream"), ==,
                     json_object_get_int_member (object, "id"));
    g_assert_cmpuint (get_counter (object, "upstream_bytes"), ==,
                      sum (object, "pieces", "size", -1));
    g_assert_cmpuint (get_counter (object, "pieces"), ==, sum (object, "pieces", NULL, -1));
    g_assert_cmpuint (get_counter (object, "used_bytes"), ==, sum (object, "extents", "size", -1));
    g_assert_cmpuint (sum (object, "extents", "size", -1), >=,
                      sum (over, "blocks", "alloc_size", -1));
    check_pool (over);
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
      snapshot = take_snapshot (&place);
      g_assert_cmpuint (count_allocators (snapshot), ==, 3);
      g_assert_cmpint (json_object_get_int_member (find (snapshot, "over it"), "upstream"), ==,
                       json_object_get_int_member (find (snapshot, "heap"), "id"));
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

/* Who has it */

static void
assert_tag (JsonNode *snapshot, gsize size, const gchar *tag)
{
  JsonObject *block = find_block (find (snapshot, "tagged"), size);

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
  g_autoptr (TarnPool) pool = pool_new (allocator, "tagged");
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *before, *blocks[3];

  place_init (&place, "snapshot.json");
  tarn_tag_push ("nobody looks");
  before = allocate (pool, 10);
  tarn_snapshot_set_follow (TRUE);
  for (guint round = 0; round < 2; round++) /* from upstream, and from the thread's own */
    {
      TARN_TAG_SCOPE ("outer");

      blocks[0] = allocate (pool, 1000);
      {
        TARN_TAG_SCOPE ("inner \"\\");

        blocks[1] = allocate (pool, 2000);
      }
      tarn_tag_pop ();
      tarn_tag_pop ();
      blocks[2] = allocate (pool, 4000);
      tarn_tag_push ("nobody looks");
      tarn_tag_push ("outer");
      {
        g_autoptr (JsonNode) snapshot = take_snapshot (&place);
        JsonObject *of_before = find_block (find (snapshot, "tagged"), 10);

        g_assert_true (
            json_object_get_boolean_member (json_node_get_object (snapshot), "followed"));
        g_assert_false (json_object_has_member (of_before, "tag"));
        assert_tag (snapshot, 1000, "outer");
        assert_tag (snapshot, 2000, "inner \"\\");
        assert_tag (snapshot, 4000, NULL);
        check_pool (find (snapshot, "tagged"));
      }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
    }
  blocks[0] = allocate (pool, 1000);
  tarn_snapshot_set_follow (FALSE);
  tarn_block_free (blocks[0]); /* which nobody sees */
  blocks[0] = allocate (pool, 1000);
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (JsonNode) snapshot = take_snapshot (&place);

      g_assert_false (json_object_has_member (find_block (find (snapshot, "tagged"), 1000), "tag"));
      tarn_snapshot_set_follow (round == 0); /* nor does that make it known */
    }
  tarn_block_free (blocks[0]);
  tarn_block_free (before);
  tarn_tag_pop ();
}

/* One moment: each thread has a block of one of two pools at any time, and of both at some.  To
 * tell of the pools between them takes so long that whoever does not hold them still has other
 * blocks then. */

#define N_THREADS 4
#define N_BETWEEN 10
#define N_HELD 100

typedef struct
{
  TarnPool *pools[2];
  gint n_ready; /* atomic */
  gint is_over; /* atomic */
} Traffic;

static gpointer
go_to_and_fro (gpointer data)
{
  Traffic *traffic = data;
  TarnBlock *has = allocate (traffic->pools[0], 64);
  guint n = 0;

  g_atomic_int_inc (&traffic->n_ready);
  while (!g_atomic_int_get (&traffic->is_over))
    {
      TarnBlock *next = allocate (traffic->pools[++n % 2], 64);

      tarn_block_free (has);
      has = next;
    }
  tarn_block_free (has);
  return NULL;
}

static TarnPool *
pool_new_full (TarnAllocator *allocator)
{
  TarnPool *pool = pool_new (allocator, "between");
  TarnBlock *blocks[N_HELD];

  for (guint i = 0; i < N_HELD; i++)
    blocks[i] = allocate (pool, 64);
  for (guint i = 0; i < N_HELD; i++)
    tarn_block_free (blocks[i]);
  return pool;
}

static void
test_one_moment (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) left = pool_new (allocator, "left");
  g_autoptr (GPtrArray) between = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_pool_unref);
  g_autoptr (TarnPool) right = NULL;
  g_auto (Place) place = { NULL, NULL };
  Traffic traffic = { .pools = { left } };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_BETWEEN; i++)
    g_ptr_array_add (between, pool_new_full (allocator));
  traffic.pools[1] = right = pool_new (allocator, "right");
  place_init (&place, "snapshot.json");
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("traffic", go_to_and_fro, &traffic);
  while (g_atomic_int_get (&traffic.n_ready) < N_THREADS)
    g_thread_yield ();
  for (guint round = 0; round < 200; round++)
    {
      g_autoptr (JsonNode) snapshot = NULL;
      guint64 n;

      if (round % 50 == 0)
        tarn_snapshot_set_follow (round % 100 == 0);
      snapshot = take_snapshot (&place);
      n = sum (find (snapshot, "left"), "blocks", NULL, 1)
          + sum (find (snapshot, "right"), "blocks", NULL, 1);
      check_pool (find (snapshot, "left"));
      check_pool (find (snapshot, "right"));
      g_assert_cmpuint (n, >=, N_THREADS);
      g_assert_cmpuint (n, <=, 2 * N_THREADS);
    }
  g_atomic_int_set (&traffic.is_over, TRUE);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  tarn_snapshot_set_follow (FALSE);
}

/* Pools of one group have all their locks taken by whoever runs out of memory, and so has whoever
 * takes a snapshot: in the same order, whatever that was in which they joined. */

typedef struct
{
  TarnPool *pool;
  gint *is_over; /* atomic */
} Hungry;

static gpointer
run_out (gpointer data)
{
  const Hungry *self = data;

  while (!g_atomic_int_get (self->is_over))
    {
      TarnBlock *block = tarn_pool_allocate (self->pool, 600, NULL);

      if (block != NULL)
        tarn_block_free (block);
    }
  return NULL;
}

static void
test_group (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (1000);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnPool) first = pool_new (allocator, "first");
  g_autoptr (TarnPool) second = pool_new (allocator, "second");
  g_auto (Place) place = { NULL, NULL };
  gint is_over = FALSE;
  Hungry hungry[] = { { first, &is_over }, { second, &is_over } };
  GThread *threads[2];

  place_init (&place, "snapshot.json");
  tarn_pool_set_reclaim_group (second, group);
  tarn_pool_set_reclaim_group (first, group);
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("hungry", run_out, &hungry[i]);
  for (guint round = 0; round < 300; round++)
    {
      g_autoptr (JsonNode) snapshot = take_snapshot (&place);

      check_pool (find (snapshot, "first"));
      check_pool (find (snapshot, "second"));
    }
  g_atomic_int_set (&is_over, TRUE);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
}

/* Out of memory */

static TarnBlock *
allocate_tagged (TarnPool *pool, gsize size, const gchar *tag)
{
  TARN_TAG_SCOPE (tag);

  return allocate (pool, size);
}

static void
test_holders (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (10000);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, "small");
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[6];

  tarn_snapshot_set_follow (TRUE);
  blocks[0] = allocate_tagged (pool, 512, "a");
  blocks[1] = allocate_tagged (pool, 1024, "b");
  blocks[2] = allocate_tagged (pool, 2048, "c\x1b");
  blocks[3] = allocate_tagged (pool, 512, "a");
  blocks[4] = allocate_tagged (pool, 128, "d");
  blocks[5] = allocate (pool, 4096); /* nobody's */
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
  g_autoptr (TarnPool) pool = pool_new (allocator, "starving");
  TarnBlock *block = allocate_tagged (pool, 512, "holder");

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
  snapshot = read_file (place.path);
  root = json_node_get_object (snapshot);
  block = find_block (find (snapshot, "starving"), 512);
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
      g_autoptr (TarnPool) pool = pool_new (allocator, "tagged");
      g_autoptr (JsonNode) snapshot = NULL;
      g_autoptr (TarnBlock) block = NULL;

      tarn_snapshot_set_follow (TRUE);
      block = allocate (pool, 100);
      place_init (&place, "snapshot.json");
      snapshot = take_snapshot (&place);
#ifdef __GLIBC__
      g_assert_true (json_object_has_member (find_block (find (snapshot, "tagged"), 100), "stack"));
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

/* On a signal */

static void
handle (int number)
{
  (void) number;
}

static void
assert_refuses (gint number, const gchar *message)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_snapshot_on_signal (number, "unused", &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, message));
}

/* Waits until a file is there, which appears with all that is in it. */
static JsonNode *
await_file (const gchar *path)
{
  gint64 end = g_get_monotonic_time () + 60 * G_TIME_SPAN_SECOND;

  while (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end);
      g_usleep (1000);
    }
  return read_file (path);
}

static void
test_signal (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new (allocator, "tagged");
  g_autofree gchar *pattern = NULL;
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  struct sigaction action;
  TarnBlock *block;

  place_init (&place, "snapshot.json");
  pattern = g_build_filename (place.folder, "%p-%n.json", NULL);
  for (gint watch = 0; watch < 2; watch++)
    {
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, pattern, &error));
      g_assert_no_error (error);
      block = allocate_tagged (pool, 100, "signalled");
      for (guint n = 1; n <= 3; n++)
        {
          g_autofree gchar *path
              = g_strdup_printf ("%s/%ld-%u.json", place.folder, (glong) getpid (), n);
          g_autoptr (JsonNode) snapshot = NULL;

          kill (getpid (), SIGUSR2);
          snapshot = await_file (path);
          g_assert_cmpstr (
              json_object_get_string_member (json_node_get_object (snapshot), "reason"), ==,
              "signal");
          g_assert_cmpstr (
              json_object_get_string_member (find_block (find (snapshot, "tagged"), 100), "tag"),
              ==, "signalled");
          g_unlink (path);
        }
      tarn_block_free (block);
      assert_refuses (12345, "12345 is no signal");
      sigaction (SIGUSR2, NULL, &action);
      g_assert_true (action.sa_handler != SIG_DFL);
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, pattern, NULL));
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, NULL, NULL));
      sigaction (SIGUSR2, NULL, &action);
      g_assert_true (action.sa_handler == SIG_DFL);
    }
  assert_refuses (0, "0 is no signal");
  assert_refuses (12345, "12345 is no signal");
  assert_refuses (SIGKILL, "signal 9");
  signal (SIGUSR2, handle);
  assert_refuses (SIGUSR2, "has a handler already");
  signal (SIGUSR2, SIG_DFL);
}

/* Where there is none */

static void
write_in_child (gpointer data)
{
  GError *error = NULL;

  STEP (1, !tarn_snapshot_write (data, &error));
  STEP (2, take_forked (&error));
  STEP (3, !tarn_snapshot_on_signal (SIGUSR2, data, &error));
  STEP (4, take_forked (&error));
  tarn_snapshot_set_follow (TRUE);
}

static void
test_errors (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;

  place_init (&place, "snapshot.json");
  in_child (write_in_child, place.path);
  g_assert_false (g_file_test (place.path, G_FILE_TEST_EXISTS));
  g_assert_false (tarn_snapshot_write ("/nonexistent/snapshot", &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_nonnull (strstr (error->message, "/nonexistent/snapshot"));
}

/* A snapshot is its owner's alone, and goes to no file that a symbolic link of others names. */
static void
test_private (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *target = NULL, *text = NULL;
  mode_t mask = umask (0);
  struct stat info;

  place_init (&place, "snapshot.json");
  target = g_build_filename (place.folder, "target", NULL);
  g_assert_true (g_file_set_contents (target, "precious", -1, NULL));
  g_assert_cmpint (symlink (target, place.path), ==, 0);
  g_assert_false (tarn_snapshot_write (place.path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_LOOP);
  g_clear_error (&error);
  g_assert_cmpint (g_unlink (place.path), ==, 0);
  g_assert_true (tarn_snapshot_write (place.path, &error));
  g_assert_no_error (error);
  umask (mask);
  g_assert_cmpint (lstat (place.path, &info), ==, 0);
  g_assert_cmphex (info.st_mode, ==, S_IFREG | 0600);
  g_assert_true (g_file_get_contents (target, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "precious");
  g_assert_cmpint (g_unlink (target), ==, 0);
  g_assert_false (tarn_snapshot_write ("/nonexistent/\x1b[2J", &error));
  g_assert_null (strchr (error->message, '\x1b'));
}

/* What is no regular file is written to, and stays what it is. */
static void
test_device (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  gchar text[16] = "";
  struct stat info;
  gint file;

  place_init (&place, "fifo");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  file = open (place.path, O_RDWR | O_CLOEXEC);
  g_assert_cmpint (file, >=, 0);
  g_assert_true (tarn_snapshot_write (place.path, &error));
  g_assert_no_error (error);
  g_assert_cmpint (lstat (place.path, &info), ==, 0);
  g_assert_true (S_ISFIFO (info.st_mode));
  g_assert_cmpint (read (file, text, 1), ==, 1);
  g_assert_cmpstr (text, ==, "{");
  close (file);
}

/* Nobody reads: a snapshot of memory that ran out must not hang the program. */
static void
test_device_without_reader (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;

  place_init (&place, "fifo");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  alarm (60);
  g_assert_false (tarn_snapshot_write (place.path, &error));
  alarm (0);
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NXIO);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/blocks", test_blocks);
  g_test_add_func ("/core/snapshot/device", test_device);
  g_test_add_func ("/core/snapshot/device/without-reader", test_device_without_reader);
  g_test_add_func ("/core/snapshot/names", test_names);
  g_test_add_func ("/core/snapshot/heap", test_heap);
  g_test_add_func ("/core/snapshot/debugged", test_debugged);
  g_test_add_func ("/core/snapshot/tags", test_tags);
  g_test_add_func ("/core/snapshot/one-moment", test_one_moment);
  g_test_add_func ("/core/snapshot/group", test_group);
  g_test_add_func ("/core/snapshot/holders", test_holders);
  g_test_add_func ("/core/snapshot/environment", test_environment);
  g_test_add_func ("/core/snapshot/stacks", test_stacks);
  g_test_add_func ("/core/snapshot/environment-wrong", test_environment_wrong);
  g_test_add_func ("/core/snapshot/signal", test_signal);
  g_test_add_func ("/core/snapshot/errors", test_errors);
  g_test_add_func ("/core/snapshot/private", test_private);
  return g_test_run ();
}
