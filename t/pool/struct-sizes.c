/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Callers of the core that were compiled with other versions of its structs. */

#include <tarn/tarn.h>

#include "lib/nothing.h"
#include "lib/struct-sizes.h"
#include "pool/pool-private.h"

/* All but the last field of each */

typedef struct
{
  gsize struct_size;
  const gchar *name;
  gboolean deferred;
  gboolean (*allocate) (gpointer user_data, gsize size, TarnMemory *memory, GError **error);
  void (*free) (gpointer user_data, TarnMemory memory, gsize size);
  gboolean (*reclaim) (gpointer user_data);
  gboolean (*queue_ref) (gpointer user_data, gpointer queue, gboolean *in_order, GError **error);
  void (*queue_unref) (gpointer user_data, gpointer queue);
  gpointer (*event_record) (gpointer user_data, gpointer queue, GError **error);
  gboolean (*event_is_done) (gpointer user_data, gpointer event);
  gboolean (*event_wait) (gpointer user_data, gpointer event, gpointer queue, GError **error);
  void (*event_release) (gpointer user_data, gpointer event);
  gpointer (*event_record_all) (gpointer user_data, GError **error);
  gpointer (*fresh_queue) (gpointer user_data);
  gboolean (*check_queue) (gpointer user_data, gpointer queue, GError **error);
  gboolean frees_in_order;
  gboolean (*free_on_queue) (gpointer user_data, TarnMemory memory, gsize size, gpointer queue);
  gsize part_alignment;
  gboolean (*part_new) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        TarnMemory *part, GError **error);
  void (*part_release) (gpointer user_data, TarnMemory part, gsize size);
  gsize virtual_granularity;
  gboolean (*addresses_reserve) (gpointer user_data, gsize size, TarnMemory *addresses,
                                 GError **error);
  void (*addresses_release) (gpointer user_data, TarnMemory addresses, gsize size);
  gboolean (*backing_new) (gpointer user_data, gsize size, TarnMemory *backing, GError **error);
  void (*backing_release) (gpointer user_data, TarnMemory backing, gsize size);
  gboolean (*backing_map) (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address,
                           GError **error);
  void (*backing_unmap) (gpointer user_data, TarnMemory address, gsize size);
  gboolean (*backing_stays) (gpointer user_data);
  gboolean (*read) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
                    GError **error);
  gboolean (*fill) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
                    GError **error);
  gboolean (*find_other) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                          guint8 byte, gsize *first, GError **error);
  gboolean (*is_retained) (gpointer user_data, TarnMemory memory);
  gboolean (*get_memory) (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes,
                          GError **error);
} OldTarnAllocatorOps;

STRUCT_SIZES_VERSIONS (TarnAllocatorOps,
                       gconstpointer (*find_host) (gpointer user_data, TarnMemory memory,
                                                   gsize size),
                       find_host);

typedef struct
{
  gsize struct_size;
  guint leading_bits_in_bin_id;
  TarnPoolFlags flags;
  const gchar *name;
  gsize limit_bytes;
  guint thread_cache_blocks;
  gsize thread_cache_bytes;
  gsize hold_bytes;
  const gchar *debug;
} OldTarnPoolOptions;

STRUCT_SIZES_VERSIONS (TarnPoolOptions, const TarnHeapOptions *heap, heap);

typedef struct
{
  gsize struct_size;
  gsize held_blocks;
  gsize active_blocks;
  gsize managed_bytes;
  gsize active_bytes;
  gsize held_bytes;
  gsize peak_managed_bytes;
  gsize peak_active_bytes;
  guint64 hits;
  guint64 misses;
  guint64 failures;
  guint64 served_without_driver;
  guint64 driver_calls;
  guint64 upstream_failures;
  guint64 upstream_frees;
  guint64 reclaims;
  guint64 ignored_frees;
} OldTarnPoolStats;

STRUCT_SIZES_VERSIONS (TarnPoolStats, guint64 queue_waits, queue_waits);

typedef struct
{
  gsize struct_size;
  const gchar *first_arg_kind;
  guint max_entries;
  TarnMemo *upstream;
  TarnMemoKeyType key_type;
  GHashFunc hash;
  GEqualFunc equal;
  gpointer (*copy_key) (gconstpointer key);
  void (*free_key) (gpointer key);
  gpointer (*ref_value) (gpointer user_data, gpointer value);
  void (*unref_value) (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead);
  gpointer (*ref_first_arg) (gpointer user_data, gpointer first_arg);
  void (*unref_first_arg) (gpointer user_data, gpointer first_arg);
  guint64 (*first_arg_id) (gpointer user_data, gpointer first_arg);
  gpointer (*current_first_arg) (gpointer user_data, GError **error);
} OldTarnMemoOps;

STRUCT_SIZES_VERSIONS (TarnMemoOps,
                       gpointer (*value_for_thread) (gpointer user_data, gpointer value,
                                                     gpointer first_arg, gconstpointer key,
                                                     GError **error),
                       value_for_thread);

typedef struct
{
  gsize struct_size;
  gsize entries;
  guint64 hits;
  guint64 misses;
  guint64 waits;
  guint64 failures;
  guint64 evictions;
} OldTarnMemoStats;

STRUCT_SIZES_VERSIONS (TarnMemoStats, gdouble compute_seconds, compute_seconds);

typedef struct
{
  gsize struct_size;
  guint bank_count;
  guint bank_bytes;
} OldTarnLocalMemory;

STRUCT_SIZES_VERSIONS (TarnLocalMemory, guint work_items; guint reserved, reserved);

typedef struct
{
  gsize struct_size;
  guint stack_depth;
} OldTarnTraceOptions;

STRUCT_SIZES_VERSIONS (TarnTraceOptions, gsize buffer_bytes, buffer_bytes);

typedef struct
{
  gsize struct_size;
  guint64 events;
  guint64 lost_events;
} OldTarnTraceStats;

STRUCT_SIZES_VERSIONS (TarnTraceStats, guint64 written_bytes, written_bytes);

typedef struct
{
  gsize struct_size;
  guint64 device_bytes;
  guint64 free_bytes;
  guint64 taken_bytes;
  guint64 used_bytes;
} OldTarnBudget;

STRUCT_SIZES_VERSIONS (TarnBudget, guint64 budget_bytes, budget_bytes);

static void
test_defaults (void)
{
  struct_sizes_check_defaults (TarnAllocatorOps, TARN_ALLOCATOR_OPS_INIT);
  struct_sizes_check_defaults (TarnPoolOptions, TARN_POOL_OPTIONS_INIT);
  struct_sizes_check_defaults (TarnPoolStats, TARN_POOL_STATS_INIT);
  struct_sizes_check_defaults (TarnBudget, TARN_BUDGET_INIT);
  struct_sizes_check_defaults (TarnMemoOps, TARN_MEMO_OPS_INIT);
  struct_sizes_check_defaults (TarnMemoStats, TARN_MEMO_STATS_INIT);
  struct_sizes_check_defaults (TarnLocalMemory, TARN_LOCAL_MEMORY_INIT);
  struct_sizes_check_defaults (TarnTraceOptions, TARN_TRACE_OPTIONS_INIT);
  struct_sizes_check_defaults (TarnTraceStats, TARN_TRACE_STATS_INIT);
}

/* Allocators, with queues on which everything is done already */

static gint queue;

static gboolean
ref_queue (gpointer user_data, gpointer handle, gboolean *in_order, GError **error)
{
  (void) user_data;
  (void) handle;
  (void) error;
  *in_order = TRUE;
  return TRUE;
}

static void
forget (gpointer user_data, gpointer handle)
{
  (void) user_data;
  (void) handle;
}

static gpointer
record_event (gpointer user_data, gpointer handle, GError **error)
{
  (void) user_data;
  (void) error;
  return handle;
}

static gboolean
is_done (gpointer user_data, gpointer handle)
{
  (void) user_data;
  (void) handle;
  return TRUE;
}

static gboolean
await (gpointer user_data, gpointer handle, gpointer waiting, GError **error)
{
  (void) user_data;
  (void) handle;
  (void) waiting;
  (void) error;
  return TRUE;
}

/* Of a block that a queue uses: free_on_queue is called, if there is one. */
static void
check_allocator (const void *ops)
{
  g_autoptr (TarnAllocator) allocator = tarn_allocator_new (ops, NULL, NULL);
  TarnBlock *block = tarn_allocator_allocate (allocator, 1, NULL);

  g_assert_nonnull (block);
  g_assert_true (tarn_block_record_use (block, &queue, NULL));
  tarn_block_free (block);
}

static void
test_allocator_ops (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  OlderTarnAllocatorOps older;
  NewerTarnAllocatorOps newer;

  nothing_ops_init (&ops);
  ops.queue_ref = ref_queue;
  ops.queue_unref = forget;
  ops.event_record = record_event;
  ops.event_is_done = is_done;
  ops.event_wait = await;
  ops.event_release = forget;
  struct_sizes_begin_from (&older, &ops);
  check_allocator (&older);
  struct_sizes_begin_from (&newer, &ops);
  check_allocator (&newer);
  newer.as.later = &newer;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL,
                         "tarn_allocator_new: struct_size of TarnAllocatorOps is *");
  g_assert_null (tarn_allocator_new (&newer.as.known, NULL, NULL));
  g_test_assert_expected_messages ();
}

/* Pools */

static TarnPool *
pool_new (const void *options, GError **error)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  nothing_ops_init (&ops);
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  return tarn_pool_new (allocator, options, error);
}

static void
test_pool_options (void)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnPool) other = NULL;
  g_autoptr (GError) error = NULL;
  OlderTarnPoolOptions older;
  NewerTarnPoolOptions newer;

  options.leading_bits_in_bin_id = 7;
  struct_sizes_begin_from (&older, &options);
  pool = pool_new (&older, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (pool->leading_bits, ==, 7);
  g_assert_cmpuint (pool->policy.thread_cache_bytes, ==, options.thread_cache_bytes);
  struct_sizes_begin_from (&newer, &options);
  other = pool_new (&newer, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (other->leading_bits, ==, 7);
  newer.as.later = &newer;
  g_assert_null (pool_new (&newer, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "TarnPoolOptions"));
}

/* Options of a later version, where a field that is less than a word has another at its side. */
typedef struct
{
  TarnPoolOptions known;
  guint later;
  guint reserved;
} LaterOptions;

static void __attribute__ ((noinline)) leave_dirt (void)
{
  volatile guint8 dirt[1024];

  for (gsize i = 0; i < sizeof dirt; i++)
    dirt[i] = STRUCT_SIZES_GUARD;
}

static TarnPool *__attribute__ ((noinline)) pool_new_with_later_options (GError **error)
{
  LaterOptions options = { TARN_POOL_OPTIONS_INIT, 0, 0 };

  options.known.struct_size = sizeof options;
  return pool_new (&options, error);
}

/* What a later caller starts from is not taken for a field that it sets: there is no byte in it
 * that nobody wrote. */
static void
test_dirty_stack (void)
{
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  leave_dirt ();
  pool = pool_new_with_later_options (&error);
  g_assert_no_error (error);
  g_assert_nonnull (pool);
}

static void
test_pool_stats (void)
{
  g_autoptr (TarnPool) pool = pool_new (NULL, NULL);
  TarnBlock *block = tarn_pool_allocate (pool, 5, NULL);
  OlderTarnPoolStats older;
  NewerTarnPoolStats newer;

  struct_sizes_begin (&older);
  tarn_pool_get_stats (pool, (gpointer) &older);
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.active_bytes, ==, 5);
  g_assert_cmpuint (older.as.ignored_frees, ==, 0);
  struct_sizes_begin (&newer);
  tarn_pool_get_stats (pool, &newer.as.known);
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.active_bytes, ==, 5);
  g_assert_cmpuint (newer.as.known.queue_waits, ==, 0);
  g_assert_null (newer.as.later);
  tarn_block_free (block);
}

static void
test_budget (void)
{
  g_autoptr (TarnPool) pool = pool_new (NULL, NULL);
  TarnBlock *block = tarn_pool_allocate (pool, 5, NULL);
  OlderTarnBudget older;
  NewerTarnBudget newer;

  struct_sizes_begin (&older);
  g_assert_true (tarn_pool_get_budget (pool, (gpointer) &older, NULL));
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.device_bytes, ==, G_MAXUINT64);
  g_assert_cmpuint (older.as.used_bytes, ==, 5);
  struct_sizes_begin (&newer);
  g_assert_true (tarn_pool_get_budget (pool, &newer.as.known, NULL));
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.used_bytes, ==, 5);
  g_assert_cmpuint (newer.as.known.budget_bytes, ==, G_MAXUINT64);
  g_assert_null (newer.as.later);
  tarn_block_free (block);
}

/* Memos */

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) user_data;
  (void) error;
  return g_strdup (key);
}

static gpointer
ref_string (gpointer user_data, gpointer value)
{
  (void) user_data;
  return g_strdup (value);
}

static void
unref_string (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead)
{
  (void) user_data;
  (void) first_arg;
  (void) is_dead;
  g_free (value);
}

static void
check_memo (TarnMemo *memo)
{
  g_autofree gchar *answer = NULL;
  gpointer value;

  g_assert_nonnull (memo);
  g_assert_true (tarn_memo_get (memo, memo, "key", &value, NULL));
  answer = value;
  g_assert_cmpstr (answer, ==, "key");
}

static void
test_memo_ops (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  g_autoptr (TarnMemo) other = NULL;
  OlderTarnMemoOps older;
  NewerTarnMemoOps newer;

  ops.key_type = TARN_MEMO_KEY_STRING;
  ops.ref_value = ref_string;
  ops.unref_value = unref_string;
  struct_sizes_begin_from (&older, &ops);
  memo = tarn_memo_new ((gpointer) &older, compute, NULL, NULL);
  check_memo (memo);
  struct_sizes_begin_from (&newer, &ops);
  other = tarn_memo_new (&newer.as.known, compute, NULL, NULL);
  check_memo (other);
  newer.as.later = &newer;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*is_read*");
  g_assert_null (tarn_memo_new (&newer.as.known, compute, NULL, NULL));
  g_test_assert_expected_messages ();
}

static void
test_memo_stats (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  OlderTarnMemoStats older;
  NewerTarnMemoStats newer;

  ops.key_type = TARN_MEMO_KEY_STRING;
  ops.ref_value = ref_string;
  ops.unref_value = unref_string;
  memo = tarn_memo_new (&ops, compute, NULL, NULL);
  check_memo (memo);
  struct_sizes_begin (&older);
  tarn_memo_get_stats (memo, (gpointer) &older);
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.misses, ==, 1);
  g_assert_cmpuint (older.as.evictions, ==, 0);
  struct_sizes_begin (&newer);
  tarn_memo_get_stats (memo, &newer.as.known);
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.misses, ==, 1);
  g_assert_cmpfloat (newer.as.known.compute_seconds, <, 10);
  g_assert_null (newer.as.later);
}

/* Recordings */

static gboolean
record_to_nothing (const void *options, GError **error)
{
  return tarn_trace_start ("/dev/null", options, error) && tarn_trace_stop (error);
}

static void
test_trace (void)
{
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  OlderTarnTraceOptions older;
  NewerTarnTraceOptions newer;
  OlderTarnTraceStats older_stats;
  NewerTarnTraceStats newer_stats;

  struct_sizes_begin_from (&older, &options);
  g_assert_true (record_to_nothing (&older, &error));
  g_assert_no_error (error);
  struct_sizes_begin_from (&newer, &options);
  g_assert_true (record_to_nothing (&newer, &error));
  g_assert_no_error (error);
  newer.as.later = &newer;
  g_assert_false (record_to_nothing (&newer, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "TarnTraceOptions"));

  struct_sizes_begin (&older_stats);
  tarn_trace_get_stats ((gpointer) &older_stats);
  struct_sizes_check (&older_stats);
  g_assert_cmpuint (older_stats.as.lost_events, ==, 0);
  struct_sizes_begin (&newer_stats);
  tarn_trace_get_stats (&newer_stats.as.known);
  struct_sizes_check (&newer_stats);
  g_assert_cmpuint (newer_stats.as.known.written_bytes, >, 0);
  g_assert_null (newer_stats.as.later);
}

/* Local memory */

static guint
find_conflict (const void *memory)
{
  const gsize shape[] = { 32, 32 };

  return tarn_local_memory_conflict (memory, 4, 2, shape, NULL, NULL, NULL, NULL);
}

static void
test_local_memory (void)
{
  TarnLocalMemory memory = TARN_LOCAL_MEMORY_INIT;
  OlderTarnLocalMemory older;
  NewerTarnLocalMemory newer;

  memory.bank_count = 32;
  memory.bank_bytes = 4;
  memory.work_items = 32;
  struct_sizes_begin_from (&newer, &memory);
  g_assert_cmpuint (find_conflict (&newer), ==, 32);
  struct_sizes_begin_from (&older, &memory);
  g_assert_cmpuint (find_conflict (&older), ==, 1); /* of nobody who accesses it */
  newer.as.later = &newer;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*is_read*");
  g_assert_cmpuint (find_conflict (&newer), ==, 0);
  memory.reserved = 1;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*reserved == 0*");
  g_assert_cmpuint (find_conflict (&memory), ==, 0);
  g_test_assert_expected_messages ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/struct-sizes/defaults", test_defaults);
  g_test_add_func ("/core/struct-sizes/allocator-ops", test_allocator_ops);
  g_test_add_func ("/core/struct-sizes/pool-options", test_pool_options);
  g_test_add_func ("/core/struct-sizes/dirty-stack", test_dirty_stack);
  g_test_add_func ("/core/struct-sizes/pool-stats", test_pool_stats);
  g_test_add_func ("/core/struct-sizes/budget", test_budget);
  g_test_add_func ("/core/struct-sizes/memo-ops", test_memo_ops);
  g_test_add_func ("/core/struct-sizes/memo-stats", test_memo_stats);
  g_test_add_func ("/core/struct-sizes/trace", test_trace);
  g_test_add_func ("/core/struct-sizes/local-memory", test_local_memory);
  return g_test_run ();
}
