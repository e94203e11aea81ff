/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator below the heaps that serve captured CUDA graphs.  (A heap splits large segments of
 * memory into blocks.)  The allocator takes virtual memory from the heap below a pool.  If no heap
 * is below the pool, or if that heap has no virtual memory, the allocator takes blocks of the pool.
 *
 * A graph keeps addresses, so the memory of a graph's heap stays in place until the graph is gone.
 * Each launch of the graph uses the memory again.  So while the graph exists, no event can show
 * that the memory is idle, and the callback event_record () fails.  When the graph is gone, no
 * event is needed, because the host waits for the device before the memory is reused. */

#include "graph-pieces-private.h"

#include <tarn/heap.h>

#include "common/lock-private.h"
#include "order-private.h"

/* A lender: a pool that lends memory to the heaps of captured CUDA graphs.  If a heap is below this
 * pool, the field "ops" has the functions for that heap's virtual memory. */
typedef struct
{
  gint ref_count; /* atomic */
  TarnPool *pool; /* a reference to the pool that lends memory */
  TarnAllocatorOps ops;
  gpointer data; /* the user_data that the functions in ops need */
} Lender;

/* Memory or addresses that a graph's heap has freed, and that Tarn has not yet returned to the
 * lender (the pool, or the heap below the pool). */
typedef struct
{
  void (*give_back) (Lender *lender, TarnMemory memory, gsize size);
  Lender *lender; /* a reference to the lender of the memory */
  TarnMemory memory;
  gsize size;
} Leaving;

typedef struct
{
  Lender *lender;   /* a reference to the lender of the allocator's memory */
  gint is_released; /* atomic; TRUE if the allocator's graphs are gone */
  TarnMutex lock;   /* guards @used, @spare and @known */
  GHashTable *used; /* maps the address of each block of the pool that heaps use to its TarnBlock */
  /* An array of spare blocks.  A spare block belongs to the pool, and a heap has freed it.  The
   * allocator keeps it for the next requests of its heaps. */
  GPtrArray *spare;
  /* a set: the TarnMemory.address of each backing (memory from cuMemCreate ()) that a heap has
   * mapped, and that graphs may therefore use */
  GHashTable *known;
} Pieces;

/* The list of freed memory.  Tarn returns the memory to the pools in the order of this list,
 * because an address must be unmapped before it is released.  So only one thread at a time, the
 * settler, returns memory. */
static TarnMutex lock = TARN_MUTEX_INIT;  /* a thread that takes this lock holds no other lock */
static TarnCond settled = TARN_COND_INIT; /* signalled when settler becomes NULL */
/* an array of Leaving, in the order in which heaps freed the memory; guarded by the lock */
static GArray *leaving;
/* the thread that returns memory now, or NULL if no thread does; guarded by the lock */
static const GThread *settler;
static guint n_leaving; /* atomic: a copy of leaving->len, for threads that do not hold the lock */

static GArray *
leaving_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (Leaving));
}

static void __attribute__ ((constructor)) make_list (void) { leaving = leaving_new (); }

/* Functions that queue freed memory, and return queued memory to the pools */

/* Stores the length of the list of freed memory in n_leaving, for threads that do not hold the
 * lock.  A thread that ends a capture first lowers the number of captures, and then reads this
 * length.  A thread that frees memory first stores this length, and then reads the number of
 * captures.  These accesses are sequentially consistent, so at least one of the two threads sees
 * that it can return the memory. */
static void
set_length (void)
{
  _tarn_assert_locked (&lock);
  __atomic_store_n (&n_leaving, leaving->len, __ATOMIC_SEQ_CST);
}

static Lender *
lender_ref (Lender *lender)
{
  g_atomic_int_inc (&lender->ref_count);
  return lender;
}

static void
lender_unref (Lender *lender)
{
  if (!g_atomic_int_dec_and_test (&lender->ref_count))
    return;
  tarn_pool_unref (lender->pool);
  g_free (lender);
}

static void
leave (Pieces *self, void (*give_back) (Lender *lender, TarnMemory memory, gsize size),
       TarnMemory memory, gsize size)
{
  Leaving entry = { give_back, lender_ref (self->lender), memory, size };

  _tarn_mutex_lock (&lock);
  g_array_append_val (leaving, entry);
  set_length ();
  _tarn_mutex_unlock (&lock);
}

/* Makes the host wait for all commands in the CUDA context of a lender's pool.  Returns FALSE if
 * the host cannot wait.  Returns TRUE if the context or the driver is gone, because the commands
 * are then gone, too. */
static gboolean
synchronize (const Lender *lender)
{
  const TarnCudaContext *context = _tarn_cuda_pool_get_context (lender->pool);
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;

  if (_tarn_cuda_context_enter (context, &scope, &error))
    {
      _tarn_cuda_context_await (context, &error);
      _tarn_cuda_context_leave (context, &scope);
    }
  return error == NULL || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
         || g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED);
}

/* Takes all entries out of the list of freed memory.  Returns NULL if the list is empty, or a
 * capture is in progress.  Graphs that the program has released may still run, so the caller makes
 * the host wait for the device before it returns the memory to the pools. */
static GArray *
take_leaving (void)
{
  GArray *taken = leaving;

  _tarn_assert_locked (&lock);
  if (taken->len == 0 || _tarn_cuda_is_anything_captured ())
    return NULL;
  leaving = leaving_new ();
  set_length ();
  return taken;
}

/* Makes the host wait for the context of each entry of a list of freed memory.  Returns a set of
 * the contexts for which the host could not wait. */
static GHashTable *
synchronize_all (const GArray *entries)
{
  g_autoptr (GHashTable) done = g_hash_table_new (NULL, NULL);
  GHashTable *failed = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < entries->len; i++)
    {
      const Lender *lender = g_array_index (entries, Leaving, i).lender;
      gpointer context = (gpointer) _tarn_cuda_pool_get_context (lender->pool);

      if (g_hash_table_add (done, context) && !synchronize (lender))
        g_hash_table_add (failed, context);
    }
  return failed;
}

/* Makes the host wait for the context of each entry of a list of freed memory, and then returns the
 * entries' memory to the pools.  Returns an array of the entries whose context the host could not
 * wait for. */
static GArray *
give_back (const GArray *entries)
{
  g_autoptr (GHashTable) failed = synchronize_all (entries);
  GArray *rest = leaving_new ();

  for (guint i = 0; i < entries->len; i++)
    {
      const Leaving *entry = &g_array_index (entries, Leaving, i);

      if (g_hash_table_contains (failed, _tarn_cuda_pool_get_context (entry->lender->pool)))
        {
          g_array_append_vals (rest, entry, 1);
          continue;
        }
      entry->give_back (entry->lender, entry->memory, entry->size);
      lender_unref (entry->lender);
    }
  return rest;
}

/* Returns the memory in the list of freed memory to the pools.  If the host cannot wait for an
 * entry's context, puts the entry back at the start of the list.  If other threads have added
 * entries meanwhile, starts again, unless a capture is in progress. */
static void
settle (void)
{
  GArray *taken, *rest;
  gboolean has_newer = TRUE;

  _tarn_assert_locked (&lock);
  while (has_newer && (taken = take_leaving ()) != NULL)
    {
      _tarn_mutex_unlock (&lock);
      rest = give_back (taken);
      g_array_unref (taken);
      _tarn_mutex_lock (&lock);
      has_newer = leaving->len > 0;
      g_array_prepend_vals (leaving, rest->data, rest->len);
      set_length ();
      g_array_unref (rest);
    }
}

/* Returns the memory in the list of freed memory to the pools.  Only one thread at a time, the
 * settler, may return memory.  If another thread is the settler and @may_wait is FALSE, does
 * nothing.  If another thread is the settler and @may_wait is TRUE, first waits for that thread. */
static void
become_settler (gboolean may_wait)
{
  const GThread *self = g_thread_self ();

  if (__atomic_load_n (&n_leaving, __ATOMIC_SEQ_CST) == 0 && !may_wait)
    return;
  _tarn_mutex_lock (&lock);
  while (may_wait && settler != NULL && settler != self)
    _tarn_cond_wait (&settled, &lock);
  if (settler == NULL)
    {
      settler = self;
      settle ();
      settler = NULL;
      _tarn_cond_broadcast (&settled);
    }
  _tarn_mutex_unlock (&lock);
}

void
_tarn_cuda_graph_pieces_settle (void)
{
  become_settler (FALSE);
}

void
_tarn_cuda_graph_pieces_settle_and_wait (void)
{
  become_settler (TRUE);
}

/* Functions that count the captures in progress */

static guint n_captures; /* atomic: the number of captures in progress that Tarn knows of */

void
_tarn_cuda_count_captures (gint change)
{
  __atomic_add_fetch (&n_captures, (guint) change, __ATOMIC_SEQ_CST);
}

gboolean
_tarn_cuda_is_anything_captured (void)
{
  return __atomic_load_n (&n_captures, __ATOMIC_SEQ_CST) > 0;
}

/* Functions that retain streams, and record, wait for and release events (TarnAllocatorOps) */

/* The only event that event_record () returns.  It counts as completed. */
#define DONE GUINT_TO_POINTER (1)

static gboolean
queue_ref (gpointer user_data, gpointer queue, gboolean *in_order, GError **error)
{
  (void) user_data;
  (void) queue;
  (void) error;
  *in_order = TRUE;
  return TRUE;
}

static void
queue_unref (gpointer user_data, gpointer queue)
{
  (void) user_data;
  (void) queue;
}

static gpointer
event_record (gpointer user_data, gpointer queue, GError **error)
{
  const Pieces *self = user_data;

  (void) queue;
  if (g_atomic_int_get (&self->is_released))
    return DONE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                       "a CUDA graph uses its memory at each launch, on the streams that it was "
                       "captured with, until it is released");
  return NULL;
}

static gboolean
event_is_done (gpointer user_data, gpointer event)
{
  (void) user_data;
  (void) event;
  return TRUE;
}

static gboolean
event_wait (gpointer user_data, gpointer event, gpointer queue, GError **error)
{
  (void) user_data;
  (void) event;
  (void) queue;
  (void) error;
  return TRUE;
}

static void
event_release (gpointer user_data, gpointer event)
{
  (void) user_data;
  (void) event;
}

static void
set_order (TarnAllocatorOps *ops)
{
  ops->queue_ref = queue_ref;
  ops->queue_unref = queue_unref;
  ops->event_record = event_record;
  ops->event_is_done = event_is_done;
  ops->event_wait = event_wait;
  ops->event_release = event_release;
}

/* Functions that reserve addresses, create physical memory, and map it (TarnAllocatorOps) */

static gboolean
pieces_addresses_reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  const Lender *lender = ((const Pieces *) user_data)->lender;

  return lender->ops.addresses_reserve (lender->data, size, addresses, error);
}

static void
give_addresses_back (Lender *lender, TarnMemory addresses, gsize size)
{
  lender->ops.addresses_release (lender->data, addresses, size);
}

static void
pieces_addresses_release (gpointer user_data, TarnMemory addresses, gsize size)
{
  leave (user_data, give_addresses_back, addresses, size);
}

/* Allocates a block of @size bytes from the lending pool, and frees it.  For this request, the pool
 * frees cached memory and calls its reclaim functions, so that the heap below the pool has memory
 * to lend.  Returns FALSE if the pool cannot free enough. */
static gboolean
make_room (const Lender *lender, gsize size)
{
  TarnBlock *block = tarn_pool_allocate (lender->pool, size, NULL);

  if (block == NULL)
    return FALSE;
  tarn_block_free (block);
  return TRUE;
}

/* Makes the lending pool return cached blocks to the heap below it: blocks of about @size bytes, or
 * all cached blocks if @all is TRUE.  Returns FALSE if the pool caches none. */
static gboolean
give_back_held (const Lender *lender, gsize size, gboolean all)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (lender->pool, &stats);
  if (stats.held_bytes == 0)
    return FALSE;
  tarn_pool_trim (lender->pool, all ? 0 : stats.held_bytes - MIN (stats.held_bytes, size));
  return TRUE;
}

/* Makes room for another attempt to get @size bytes, after @n_failed attempts have failed:
 * - After the first failure, calls make_room ().  That is enough if the pool caches little.  But a
 *   pool with a high bound on cached bytes (TarnPoolOptions.hold_bytes) caches even the block that
 *   make_room () frees.
 * - So after the second failure, makes the pool return cached blocks of about @size bytes to the
 *   heap below it.
 * - After the third failure, makes the pool return all cached blocks to that heap.
 * Returns FALSE if another attempt is useless. */
static gboolean
prepare_attempt (const Lender *lender, gsize size, guint n_failed)
{
  if (n_failed == 1)
    return make_room (lender, size);
  return n_failed <= 3 && give_back_held (lender, size, n_failed == 3);
}

static gboolean
pieces_backing_new (gpointer user_data, gsize size, TarnMemory *backing, GError **error)
{
  const Lender *lender = ((const Pieces *) user_data)->lender;
  GError *local = NULL;
  guint n_failed = 0;

  while (!lender->ops.backing_new (lender->data, size, backing, &local))
    {
      if (!tarn_error_is_no_memory (local) || !prepare_attempt (lender, size, ++n_failed))
        {
          g_propagate_error (error, local);
          return FALSE;
        }
      g_clear_error (&local);
    }
  return TRUE;
}

static void
give_backing_back (Lender *lender, TarnMemory backing, gsize size)
{
  lender->ops.backing_release (lender->data, backing, size);
}

/* Releases a backing (memory from cuMemCreate ()).  If no heap ever mapped the backing, no graph
 * can use it, so releases it now.  Otherwise adds it to the list of freed memory, which Tarn
 * releases after the host has waited for the device. */
static void
pieces_backing_release (gpointer user_data, TarnMemory backing, gsize size)
{
  Pieces *self = user_data;
  gboolean was_mapped;

  _tarn_mutex_lock (&self->lock);
  was_mapped = g_hash_table_remove (self->known, GSIZE_TO_POINTER ((gsize) backing.address));
  _tarn_mutex_unlock (&self->lock);
  if (was_mapped)
    leave (self, give_backing_back, backing, size);
  else
    give_backing_back (self->lender, backing, size);
}

static gboolean
pieces_backing_map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address,
                    GError **error)
{
  Pieces *self = user_data;
  const Lender *lender = self->lender;

  if (!lender->ops.backing_map (lender->data, backing, size, address, error))
    return FALSE;
  _tarn_mutex_lock (&self->lock);
  g_hash_table_add (self->known, GSIZE_TO_POINTER ((gsize) backing.address));
  _tarn_mutex_unlock (&self->lock);
  return TRUE;
}

static void
unmap (Lender *lender, TarnMemory address, gsize size)
{
  lender->ops.backing_unmap (lender->data, address, size);
}

static void
pieces_backing_unmap (gpointer user_data, TarnMemory address, gsize size)
{
  leave (user_data, unmap, address, size);
}

static gboolean
pieces_backing_stays (gpointer user_data)
{
  return !g_atomic_int_get (&((Pieces *) user_data)->is_released);
}

/* Functions that allocate and free blocks of the pool (TarnAllocatorOps) */

/* Takes the smallest spare block (a block that a heap has freed) of at least @size bytes.  Returns
 * NULL if there is none. */
static TarnBlock *
take_spare (Pieces *self, gsize size)
{
  TarnBlock *best = NULL;

  _tarn_assert_locked (&self->lock);
  for (guint i = 0; i < self->spare->len; i++)
    {
      TarnBlock *block = self->spare->pdata[i];

      if (tarn_block_get_size (block) >= size
          && (best == NULL || tarn_block_get_size (block) < tarn_block_get_size (best)))
        best = block;
    }
  if (best != NULL)
    g_ptr_array_remove_fast (self->spare, best);
  return best;
}

static gboolean
pieces_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  Pieces *self = user_data;
  TarnBlock *block;

  _tarn_mutex_lock (&self->lock);
  block = take_spare (self, size);
  _tarn_mutex_unlock (&self->lock);
  if (block == NULL)
    block = tarn_pool_allocate (self->lender->pool, size, error);
  if (block == NULL)
    return FALSE;
  /* Hide this block from tarn_pool_find ().  The graph's heap makes blocks of the program at the
   * same addresses, and tarn_pool_find () must find those. */
  tarn_block_hide (block);
  *memory = tarn_block_get_memory (block);
  _tarn_mutex_lock (&self->lock);
  g_hash_table_insert (self->used, GSIZE_TO_POINTER ((gsize) memory->address), block);
  _tarn_mutex_unlock (&self->lock);
  return TRUE;
}

static void
free_block (Lender *lender, TarnMemory block, gsize size)
{
  (void) lender;
  (void) size;
  tarn_block_free (block.pointer);
}

static void
leave_block (Pieces *self, TarnBlock *block)
{
  TarnMemory memory = { .pointer = block };

  leave (self, free_block, memory, tarn_block_get_size (block));
}

/* Takes back a block that a heap has freed.  While the graphs that may use the block exist, keeps
 * it for later requests of the heaps.  Otherwise queues the block to be returned to the pool. */
static void
pieces_free (gpointer user_data, TarnMemory memory, gsize size)
{
  Pieces *self = user_data;
  gpointer block = NULL;
  gboolean leaves;

  (void) size;
  _tarn_mutex_lock (&self->lock);
  g_hash_table_steal_extended (self->used, GSIZE_TO_POINTER ((gsize) memory.address), NULL, &block);
  leaves = block != NULL && g_atomic_int_get (&self->is_released);
  if (block != NULL && !leaves)
    g_ptr_array_add (self->spare, block);
  _tarn_mutex_unlock (&self->lock);
  if (leaves)
    leave_block (self, block);
}

static gboolean
pieces_part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                 GError **error)
{
  (void) user_data;
  (void) size;
  (void) error;
  part->address = memory.address + offset;
  return TRUE;
}

/* Functions that make and release the allocator */

static void
release (Pieces *self)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();

  _tarn_mutex_lock (&self->lock);
  g_atomic_int_set (&self->is_released, TRUE);
  g_ptr_array_extend_and_steal (blocks, g_steal_pointer (&self->spare));
  self->spare = g_ptr_array_new ();
  _tarn_mutex_unlock (&self->lock);
  for (guint i = 0; i < blocks->len; i++)
    leave_block (self, blocks->pdata[i]);
}

static void
pieces_end (gpointer user_data)
{
  Pieces *self = user_data;

  g_assert (g_hash_table_size (self->used) == 0);
  release (self);
  g_ptr_array_unref (self->spare);
  g_hash_table_unref (self->used);
  g_hash_table_unref (self->known);
  _tarn_mutex_clear (&self->lock);
  lender_unref (self->lender);
  g_free (self);
  /* The program may have released the graph long ago, and freed the last block of the graph only
   * now.  So return the memory of these blocks to the pools now. */
  _tarn_cuda_graph_pieces_settle ();
}

static Lender *
lender_new (TarnPool *pool)
{
  Lender *lender = g_new0 (Lender, 1);
  TarnAllocator *upstream = tarn_pool_get_upstream (pool);
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  lender->ref_count = 1;
  lender->pool = tarn_pool_ref (pool);
  lender->ops = (TarnAllocatorOps) TARN_ALLOCATOR_OPS_INIT;
  /* The lender uses virtual memory of the allocator below the pool only if that allocator is a
   * heap, because only a heap counts this memory towards the pool's limit. */
  if (tarn_heap_get_stats (upstream, &stats))
    tarn_allocator_get_ops (upstream, &lender->ops);
  lender->data = tarn_allocator_get_user_data (upstream);
  return lender;
}

static void
set_virtual_memory (const Lender *lender, TarnAllocatorOps *ops)
{
  if (lender->ops.virtual_granularity == 0)
    return;
  ops->virtual_granularity = lender->ops.virtual_granularity;
  ops->addresses_reserve = pieces_addresses_reserve;
  ops->addresses_release = pieces_addresses_release;
  ops->backing_new = pieces_backing_new;
  ops->backing_release = pieces_backing_release;
  ops->backing_map = pieces_backing_map;
  ops->backing_unmap = pieces_backing_unmap;
  ops->backing_stays = pieces_backing_stays;
}

TarnAllocator *
_tarn_cuda_graph_pieces_new (TarnPool *pool)
{
  Pieces *self = g_new0 (Pieces, 1);
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  self->lender = lender_new (pool);
  self->used = g_hash_table_new (NULL, NULL);
  self->spare = g_ptr_array_new ();
  self->known = g_hash_table_new (NULL, NULL);
  _tarn_mutex_init (&self->lock);
  ops.name = "cuda-graph";
  ops.allocate = pieces_allocate;
  ops.free = pieces_free;
  ops.part_alignment = 512;
  ops.part_new = pieces_part_new;
  ops.below = TARN_ALLOCATOR (pool);
  set_order (&ops);
  set_virtual_memory (self->lender, &ops);
  return tarn_allocator_new (&ops, self, pieces_end);
}

void
_tarn_cuda_graph_pieces_release (TarnAllocator *pieces)
{
  release (tarn_allocator_get_user_data (pieces));
}

gboolean
_tarn_cuda_is_graph_pieces (TarnAllocator *allocator)
{
  return tarn_allocator_is_of (allocator, pieces_free);
}

TarnAllocator *
_tarn_cuda_graph_pieces_get_direct (TarnAllocator *allocator)
{
  const Pieces *self;

  if (!_tarn_cuda_is_graph_pieces (allocator))
    return allocator;
  self = tarn_allocator_get_user_data (allocator);
  return tarn_allocator_get_direct (TARN_ALLOCATOR (self->lender->pool));
}
