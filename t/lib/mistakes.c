/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "mistakes.h"

#include "record/record-private.h"

#define SIZE 1000
#define LARGE_SIZE ((gsize) 32 << 20)

/* Names with a character that a terminal would act on. */
#define NAME "mistaken\x1b"
#define QUOTED_NAME "mistaken\\x1b"
#define TAG "planted\x1b"
#define QUOTED_TAG "planted\\x1b"

static TarnPool *
make_pool (const MistakesMemory *memory, gpointer state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.name = NAME;
  return memory->pool_new (state, &options);
}

static TarnBlock *
ask (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  tarn_tag_push (TAG);
  block = tarn_pool_allocate (pool, size, &error);
  tarn_tag_pop ();
  g_assert_no_error (error);
  return block;
}

/* A message that names the pool, the block, its tag, where it was asked for, and, behind that, who
 * freed it (nullable: nobody). */
static void
expect (gsize size, const gchar *text, const gchar *freed)
{
  g_autofree gchar *pattern
      = g_strdup_printf ("pool '" QUOTED_NAME "' over *: block at 0x* of %" G_GSIZE_FORMAT
                         " bytes, tag '" QUOTED_TAG "': %s*allocated by thread %u\n*#0 0x*%s",
                         size, text, _tarn_record_get_thread (), freed != NULL ? freed : "");

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, pattern);
}

/* What is right is not found wrong: all bytes of blocks are used, of many sizes, and blocks live on
 * and are freed in any order. */
static void
test_none (const MistakesMemory *memory, gpointer state)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state);
  gsize before = tarn_debug_check ();
  TarnBlock *blocks[8] = { NULL };

  for (guint i = 0; i < 100; i++)
    {
      TarnBlock **block = &blocks[g_test_rand_int_range (0, G_N_ELEMENTS (blocks))];
      gsize size = (gsize) g_test_rand_int_range (0, 5000);

      tarn_block_free (*block);
      *block = ask (pool, size);
      if (size == 0)
        continue;
      memory->put (state, tarn_block_get_memory (*block), 0, (guint8) i);
      memory->put (state, tarn_block_get_memory (*block), (gssize) size - 1, (guint8) i);
      g_assert_cmpuint (memory->get (state, tarn_block_get_memory (*block), 0), ==, (guint8) i);
    }
  g_assert_cmpuint (tarn_debug_check (), ==, before);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (tarn_debug_check (), ==, before);
}

/* Each is named once: on demand, or when it is freed. */
static void
plant (const MistakesMemory *memory, gpointer state, gsize size, gssize offset, const gchar *text)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, size);
  gsize before = tarn_debug_check ();

  memory->put (state, tarn_block_get_memory (block), offset, 7);
  expect (size, text, NULL);
  g_assert_cmpuint (tarn_debug_check (), ==, before + 1);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_debug_check (), ==, before + 1);
  tarn_block_free (block);

  block = ask (pool, size);
  memory->put (state, tarn_block_get_memory (block), offset, 7);
  expect (size, text, NULL);
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_debug_check (), ==, before + 2);
}

static void
test_behind (const MistakesMemory *memory, gpointer state)
{
  static const gsize sizes[] = { 1, 4, 512, SIZE, 100001, 1000001 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree gchar *text = g_strdup_printf (
          "written behind its end, at offset %" G_GSIZE_FORMAT ": 0x07", sizes[i]);

      if (!memory->has_gaps || sizes[i] % 512 != 0)
        plant (memory, state, sizes[i], (gssize) sizes[i], text);
    }
}

static void
test_before (const MistakesMemory *memory, gpointer state)
{
  plant (memory, state, SIZE, -1, "written before its beginning, at offset -1,");
  plant (memory, state, LARGE_SIZE, -1, "written before its beginning, at offset -1,");
}

static void
test_fresh (const MistakesMemory *memory, gpointer state)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state);

  for (guint i = 0; i < 3; i++) /* also what was another block's */
    {
      TarnBlock *block = ask (pool, SIZE);

      for (gssize at = 0; at < SIZE; at += 333)
        g_assert_cmpuint (memory->get (state, tarn_block_get_memory (block), at), ==, 0xff);
      memory->put (state, tarn_block_get_memory (block), 333, 1);
      tarn_block_free (block);
    }
}

static void
plant_after_free (const MistakesMemory *memory, gpointer state, gsize size, gsize offset)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, size);
  TarnMemory place = tarn_block_get_memory (block);
  g_autofree gchar *text = g_strdup_printf ("written after it was freed, at offset %" G_GSIZE_FORMAT
                                            ": 0x07, and up to offset %" G_GSIZE_FORMAT "\n",
                                            offset, offset + 10);

  tarn_block_free (block);
  memory->put (state, place, (gssize) offset, 7);
  memory->put (state, place, (gssize) offset + 10, 8);
  expect (size, text, "freed by thread *#0 0x*");
  tarn_pool_unref (pool);
  g_test_assert_expected_messages ();
}

/* In what the host reads at once, and in what a device looks at, from its first byte to its last.
 */
static void
test_written_after_free (const MistakesMemory *memory, gpointer state)
{
  static const gsize sizes[] = { 11, SIZE, (3 << 20) + 5 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      plant_after_free (memory, state, sizes[i], 0);
      plant_after_free (memory, state, sizes[i], sizes[i] / 2 - 5);
      plant_after_free (memory, state, sizes[i], sizes[i] - 11);
    }
}

/* What is read there is not a number of any type. */
static void
test_read_after_free (const MistakesMemory *memory, gpointer state)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);
  TarnMemory place = tarn_block_get_memory (block);

  memory->put (state, place, 8, 1);
  tarn_block_free (block);
  g_assert_cmpuint (memory->get (state, place, 8), ==, 0xff);
}

static void
test_freed_twice (const MistakesMemory *memory, gpointer state)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);

  tarn_block_free (block);
  expect (SIZE, "freed once more, by thread ", "freed by thread *#0 0x*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
}

/* The thread that has freed it has ended: its number is all that is left of it. */
static gpointer
free_in_thread (gpointer block)
{
  tarn_block_free (block);
  return GUINT_TO_POINTER (_tarn_record_get_thread ());
}

static void
test_freed_by_ended_thread (const MistakesMemory *memory, gpointer state)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);
  TarnMemory place = tarn_block_get_memory (block);
  GThread *thread = g_thread_new ("brief", free_in_thread, block);
  g_autofree gchar *freed = NULL;

  freed
      = g_strdup_printf ("freed by thread %u\n*#0 0x*", GPOINTER_TO_UINT (g_thread_join (thread)));
  memory->put (state, place, 0, 7);
  expect (SIZE, "written after it was freed, at offset 0: 0x07", freed);
  tarn_pool_unref (pool);
  g_test_assert_expected_messages ();
}

/* By where they are asked for, the most bytes first. */
static void
test_leaked (const MistakesMemory *memory, gpointer state)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *small = ask (pool, SIZE);
  TarnBlock *large = ask (pool, 5 * SIZE);

  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE,
                         "pool '" QUOTED_NAME
                         "' over *: 2 blocks are in use when the pool ends, 6000 "
                         "bytes*5000 bytes in 1 block, tag '" QUOTED_TAG "'*#0 0x*"
                         "1000 bytes in 1 block, tag '" QUOTED_TAG "'*#0 0x*");
  tarn_pool_unref (pool);
  g_test_assert_expected_messages ();
  tarn_block_free (small);
  tarn_block_free (large);
}

static void
test_freed_elsewhere (const MistakesMemory *memory, gpointer state)
{
  g_autoptr (TarnPool) pool = make_pool (memory, state), other = make_pool (memory, state);
  g_autoptr (GError) error = NULL;
  TarnMemory place;

  g_assert_true (tarn_allocator_allocate_memory (TARN_ALLOCATOR (pool), SIZE, &place, &error));
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL,
                         "pool '" QUOTED_NAME "': memory 0x* of 1000 bytes is not in use");
  tarn_allocator_free_memory (TARN_ALLOCATOR (other), place, SIZE);
  g_test_assert_expected_messages ();
  tarn_allocator_free_memory (TARN_ALLOCATOR (pool), place, SIZE);
}

/* What upstream cannot give it has from the quarantine. */
static void
test_limit (const MistakesMemory *memory, gpointer state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  options.limit_bytes = 10 * SIZE;
  pool = memory->pool_new (state, &options);
  for (guint i = 0; i < 50; i++)
    tarn_block_free (ask (pool, 9 * SIZE));
  g_assert_null (tarn_pool_allocate (pool, 11 * SIZE, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
}

/* What a pool's own option has looked for, whatever the environment has. */
static void
test_option (const MistakesMemory *memory, gpointer state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pool;
  TarnBlock *block;
  TarnMemory place;

  options.name = NAME;
  options.debug = "";
  pool = memory->pool_new (state, &options);
  g_assert_false (tarn_pool_is_debugged (pool));
  tarn_block_free (ask (pool, SIZE));
  tarn_pool_unref (pool);

  options.debug = " guards,leaks";
  pool = memory->pool_new (state, &options);
  g_assert_true (tarn_pool_is_debugged (pool));
  block = ask (pool, SIZE);
  place = tarn_block_get_memory (block);
  memory->put (state, place, SIZE, 7);
  expect (SIZE, "written behind its end, at offset 1000: 0x07", NULL);
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  tarn_pool_unref (pool);
}

/* Blocks for which the quarantine has no room are filled as well, and that is done when their
 * memory goes back: what is filled later may be anybody's. */
static void
test_unquarantined (const MistakesMemory *memory, gpointer state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;

  options.name = NAME;
  options.debug = "poison,quarantine=1";
  pool = memory->pool_new (state, &options);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (ask (pool, LARGE_SIZE));
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
}

/* What is in quarantine goes back where a pool is told to give back what it holds. */
static void
test_trimmed (const MistakesMemory *memory, gpointer state)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);
  TarnMemory place = tarn_block_get_memory (block);

  tarn_block_free (block);
  memory->put (state, place, 0, 7);
  expect (SIZE, "written after it was freed, at offset 0: 0x07", "freed by thread*");
  tarn_pool_free_held (pool);
  g_test_assert_expected_messages ();
  tarn_pool_unref (pool);
}

/* The place that is named is where the program says that a block ends, not where it is given back.
 */
static void
test_noted (const MistakesMemory *memory, gpointer state)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);
  TarnMemory place = tarn_block_get_memory (block);
  g_autofree gchar *freed
      = g_strdup_printf ("freed by thread %u\n*#0 0x*", _tarn_record_get_thread ());

  tarn_debug_note_free (block);
  g_thread_join (g_thread_new ("later", free_in_thread, block));
  memory->put (state, place, 0, 7);
  expect (SIZE, "written after it was freed, at offset 0: 0x07", freed);
  tarn_pool_unref (pool);
  g_test_assert_expected_messages ();
}

/* A library reports a use of a block that it has not freed yet. */
static void
test_reported (const MistakesMemory *memory, gpointer state)
{
  TarnPool *pool = make_pool (memory, state);
  TarnBlock *block = ask (pool, SIZE);
  gsize n = tarn_debug_check ();

  tarn_debug_report_use (NULL);
  tarn_debug_note_free (block);
  expect (SIZE, "used after it was freed\n  used by thread ", "\n  freed by thread *\n*#0 0x*");
  tarn_debug_report_use (block);
  g_assert_cmpuint (tarn_debug_check (), ==, n + 1);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  g_test_assert_expected_messages ();
}

const Mistake mistakes[] = {
  { "mistakes/none", test_none },
  { "mistakes/written-behind", test_behind },
  { "mistakes/written-before", test_before },
  { "mistakes/fresh", test_fresh },
  { "mistakes/written-after-free", test_written_after_free },
  { "mistakes/read-after-free", test_read_after_free },
  { "mistakes/freed-twice", test_freed_twice },
  { "mistakes/freed-by-ended-thread", test_freed_by_ended_thread },
  { "mistakes/leaked", test_leaked },
  { "mistakes/freed-elsewhere", test_freed_elsewhere },
  { "mistakes/limit", test_limit },
  { "mistakes/option", test_option },
  { "mistakes/unquarantined", test_unquarantined },
  { "mistakes/trimmed", test_trimmed },
  { "mistakes/noted", test_noted },
  { "mistakes/reported", test_reported },
};
const gsize n_mistakes = G_N_ELEMENTS (mistakes);
