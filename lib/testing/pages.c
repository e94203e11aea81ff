/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Virtual memory, and parts of memory, as tables: what is mapped where, and every mistake with
 * that. */

#include "testing/pages-private.h"

#include "common/lock-private.h"

/* A stretch of addresses, or of a piece; or a backing, which has no start. */
typedef struct
{
  guint64 start, size;
  guint64 of;     /* of a part its piece */
  guint64 number; /* of a backing or a piece */
  guint n_uses;   /* of a backing or a piece: mappings, of which it has one, or parts */
} Stretch;

struct _TarnTestingPages
{
  TarnMutex lock; /* guards all below */
  guint64 bytes, used_bytes;
  gsize max_addresses;
  TarnTestingPagesKind kind;
  guint64 last_number;
  GHashTable *reservations, *mappings; /* start -> Stretch */
  GHashTable *backings, *parts; /* number -> Stretch; a piece is a backing that is not mapped */
  guint allocators, allocations;
  guint calls, fail_at; /* the value of calls at which to fail; 0: never */
  gboolean fail_for_ever, has_failed;
  TarnTestingHook hook; /* nullable */
  gpointer hook_data;
};

static GHashTable *
table_new (void)
{
  return g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
}

static void
add (GHashTable *table, guint64 key, Stretch stretch)
{
  guint64 *own_key = g_new (guint64, 1);
  Stretch *added = g_new (Stretch, 1);

  *own_key = key;
  *added = stretch;
  g_assert_true (g_hash_table_insert (table, own_key, added));
}

static Stretch *
find (GHashTable *table, guint64 key)
{
  Stretch *found = g_hash_table_lookup (table, &key);

  g_assert_nonnull (found);
  return found;
}

/* Finds what has some of a stretch, for tables that have few. */
static const Stretch *
find_overlap (GHashTable *table, guint64 start, guint64 size, guint64 of)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Stretch *other = value;

      if (other->of == of && start < other->start + other->size && other->start < start + size)
        return other;
    }
  return NULL;
}

/**
 * Makes a device with virtual memory or parts of memory.
 *
 * @param bytes  its budget; G_MAXUINT64 never runs out
 * @param kind   what heaps make blocks of
 * @return (transfer full) the device, for tarn_testing_pages_free(); any thread may use it
 * @since 0.1
 */
TarnTestingPages *
tarn_testing_pages_new (guint64 bytes, TarnTestingPagesKind kind)
{
  TarnTestingPages *pages = g_new0 (TarnTestingPages, 1);

  _tarn_mutex_init (&pages->lock);
  pages->bytes = bytes;
  pages->max_addresses = G_MAXSIZE;
  pages->kind = kind;
  pages->last_number = 0x1000;
  pages->reservations = table_new ();
  pages->mappings = table_new ();
  pages->backings = table_new ();
  pages->parts = table_new ();
  return pages;
}

/**
 * Frees a device. It ends the test if anything is left: memory, parts, mappings, addresses, or an
 * allocator that is still referenced.
 *
 * @param pages  the device, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void
tarn_testing_pages_free (TarnTestingPages *pages)
{
  if (pages == NULL)
    return;
  g_assert_cmpuint (g_hash_table_size (pages->parts), ==, 0);
  g_assert_cmpuint (g_hash_table_size (pages->mappings), ==, 0);
  g_assert_cmpuint (g_hash_table_size (pages->backings), ==, 0);
  g_assert_cmpuint (g_hash_table_size (pages->reservations), ==, 0);
  g_assert_cmpuint (pages->used_bytes, ==, 0);
  g_assert_cmpuint (pages->allocators, ==, 0);
  g_hash_table_unref (pages->parts);
  g_hash_table_unref (pages->mappings);
  g_hash_table_unref (pages->backings);
  g_hash_table_unref (pages->reservations);
  _tarn_mutex_clear (&pages->lock);
  g_free (pages);
}

static void
call_hook (TarnTestingPages *pages)
{
  if (pages->hook != NULL)
    pages->hook (pages->hook_data);
}

/* Begins a call that can fail.  FALSE, with an error and the lock not held: it does. */
static gboolean
begin_call (TarnTestingPages *pages, GError **error)
{
  gboolean fails;

  call_hook (pages);
  _tarn_mutex_lock (&pages->lock);
  pages->calls++;
  fails
      = pages->fail_at != 0
        && (pages->fail_for_ever ? pages->calls >= pages->fail_at : pages->calls == pages->fail_at);
  if (!fails)
    return TRUE;
  pages->has_failed = TRUE;
  _tarn_mutex_unlock (&pages->lock);
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "fake: told to fail");
  return FALSE;
}

/* Begins one that cannot. */
static void
begin_sure_call (TarnTestingPages *pages)
{
  call_hook (pages);
  _tarn_mutex_lock (&pages->lock);
}

static gboolean
end_call (TarnTestingPages *pages)
{
  _tarn_mutex_unlock (&pages->lock);
  return TRUE;
}

/* Memory: a backing, or a piece */

/* Gets addresses that nobody ever had. */
static guint64
take_addresses (TarnTestingPages *pages, gsize size)
{
  guint64 start
      = (pages->last_number / TARN_TESTING_PAGES_GRANULARITY + 1) * TARN_TESTING_PAGES_GRANULARITY;

  pages->last_number = start + size;
  return start;
}

static gboolean
memory_new (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnTestingPages *pages = user_data;
  Stretch backing = { .size = size };

  g_assert_cmpuint (memory->address, ==, 0);
  g_assert_true (pages->kind != TARN_TESTING_PAGES_VIRTUAL
                 || size % TARN_TESTING_PAGES_GRANULARITY == 0);
  if (!begin_call (pages, error))
    return FALSE;
  if (pages->bytes != G_MAXUINT64
      && (pages->used_bytes > pages->bytes || size > pages->bytes - pages->used_bytes))
    {
      _tarn_mutex_unlock (&pages->lock);
      g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                   "fake: full for %" G_GSIZE_FORMAT " bytes", size);
      return FALSE;
    }
  backing.number = pages->allocations + 1;
  if (pages->kind == TARN_TESTING_PAGES_ADDRESSES)
    memory->address = backing.start = take_addresses (pages, size);
  else
    memory->address = ++pages->last_number;
  add (pages->backings, memory->address, backing);
  pages->used_bytes += size;
  pages->allocations++;
  return end_call (pages);
}

static void
memory_release (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnTestingPages *pages = user_data;
  const Stretch *backing;

  begin_sure_call (pages);
  backing = find (pages->backings, memory.address);
  g_assert_cmpuint (backing->size, ==, size);
  g_assert_cmpuint (backing->n_uses, ==, 0);
  pages->used_bytes -= size;
  g_hash_table_remove (pages->backings, &memory.address);
  end_call (pages);
}

/* Virtual memory */

static gboolean
reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  TarnTestingPages *pages = user_data;
  Stretch reservation = { .size = size };

  g_assert_cmpuint (addresses->address, ==, 0);
  g_assert_cmpuint (size % TARN_TESTING_PAGES_GRANULARITY, ==, 0);
  if (!begin_call (pages, error))
    return FALSE;
  if (size > pages->max_addresses)
    {
      _tarn_mutex_unlock (&pages->lock);
      g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "fake: too many addresses");
      return FALSE;
    }
  reservation.start = addresses->address = take_addresses (pages, size);
  add (pages->reservations, reservation.start, reservation);
  return end_call (pages);
}

static void
release (gpointer user_data, TarnMemory addresses, gsize size)
{
  TarnTestingPages *pages = user_data;

  begin_sure_call (pages);
  g_assert_cmpuint (find (pages->reservations, addresses.address)->size, ==, size);
  g_assert_null (find_overlap (pages->mappings, addresses.address, size, 0));
  g_hash_table_remove (pages->reservations, &addresses.address);
  end_call (pages);
}

static gboolean
is_reserved (TarnTestingPages *pages, guint64 start, gsize size)
{
  const Stretch *reservation = find_overlap (pages->reservations, start, size, 0);

  return reservation != NULL && start >= reservation->start
         && start + size <= reservation->start + reservation->size;
}

static gboolean
map (gpointer user_data, TarnMemory memory, gsize size, TarnMemory address, GError **error)
{
  TarnTestingPages *pages = user_data;
  Stretch mapping = { .start = address.address, .size = size };
  Stretch *backing;

  if (!begin_call (pages, error))
    return FALSE;
  backing = find (pages->backings, memory.address);
  g_assert_cmpuint (backing->size, ==, size);
  g_assert_cmpuint (backing->n_uses, ==, 0);
  g_assert_cmpuint (address.address % TARN_TESTING_PAGES_GRANULARITY, ==, 0);
  g_assert_true (is_reserved (pages, address.address, size));
  g_assert_null (find_overlap (pages->mappings, address.address, size, 0));
  backing->n_uses++;
  add (pages->mappings, address.address, mapping);
  backing->start = address.address;
  return end_call (pages);
}

static Stretch *
find_mapped (TarnTestingPages *pages, guint64 address)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, pages->backings);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((Stretch *) value)->n_uses > 0 && ((Stretch *) value)->start == address)
      return value;
  g_error ("0x%" G_GINT64_MODIFIER "x is not mapped", address);
}

static void
unmap (gpointer user_data, TarnMemory address, gsize size)
{
  TarnTestingPages *pages = user_data;

  begin_sure_call (pages);
  g_assert_cmpuint (find (pages->mappings, address.address)->size, ==, size);
  find_mapped (pages, address.address)->n_uses--;
  g_hash_table_remove (pages->mappings, &address.address);
  end_call (pages);
}

/* Parts */

static gboolean
part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
          GError **error)
{
  TarnTestingPages *pages = user_data;
  Stretch stretch = { .start = offset, .size = size, .of = memory.address };
  Stretch *piece;

  g_assert_cmpuint (part->address, ==, 0);
  if (!begin_call (pages, error))
    return FALSE;
  piece = find (pages->backings, memory.address);
  g_assert_cmpuint (offset % TARN_TESTING_PAGES_PART_ALIGNMENT, ==, 0);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (offset + size, <=, piece->size);
  g_assert_null (find_overlap (pages->parts, offset, size, memory.address));
  piece->n_uses++;
  part->address = ++pages->last_number;
  add (pages->parts, part->address, stretch);
  return end_call (pages);
}

static void
part_release (gpointer user_data, TarnMemory part, gsize size)
{
  TarnTestingPages *pages = user_data;
  const Stretch *stretch;

  begin_sure_call (pages);
  stretch = find (pages->parts, part.address);
  g_assert_cmpuint (stretch->size, ==, size);
  find (pages->backings, stretch->of)->n_uses--;
  g_hash_table_remove (pages->parts, &part.address);
  end_call (pages);
}

/* A part that is an address. */
static gboolean
address_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
             GError **error)
{
  TarnTestingPages *pages = user_data;

  (void) error;
  g_assert_cmpuint (part->address, ==, 0);
  begin_sure_call (pages);
  g_assert_cmpuint (offset % TARN_TESTING_PAGES_PART_ALIGNMENT, ==, 0);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (offset + size, <=, find (pages->backings, memory.address)->size);
  part->address = memory.address + offset;
  return end_call (pages);
}

/* The allocator */

static void
allocator_gone (gpointer user_data)
{
  TarnTestingPages *pages = user_data;

  _tarn_mutex_lock (&pages->lock);
  pages->allocators--;
  _tarn_mutex_unlock (&pages->lock);
}

void
_tarn_testing_pages_ops_init (TarnTestingPages *pages, TarnAllocatorOps *ops)
{
  *ops = (TarnAllocatorOps) TARN_ALLOCATOR_OPS_INIT;
  ops->name = "fake pages";
  ops->allocate = memory_new;
  ops->free = memory_release;
  if (pages->kind == TARN_TESTING_PAGES_VIRTUAL)
    {
      ops->virtual_granularity = TARN_TESTING_PAGES_GRANULARITY;
      ops->addresses_reserve = reserve;
      ops->addresses_release = release;
      ops->backing_new = memory_new;
      ops->backing_release = memory_release;
      ops->backing_map = map;
      ops->backing_unmap = unmap;
    }
  else
    {
      gboolean are_made = pages->kind == TARN_TESTING_PAGES_PARTS;

      ops->part_alignment = TARN_TESTING_PAGES_PART_ALIGNMENT;
      ops->part_new = are_made ? part_new : address_new;
      ops->part_release = are_made ? part_release : NULL;
    }
}

/**
 * Makes an allocator of a device's memory, for a heap. There may be several.
 *
 * @param pages  the device, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *
tarn_testing_pages_allocator_new (TarnTestingPages *pages)
{
  TarnAllocatorOps ops;

  g_return_val_if_fail (pages != NULL, NULL);

  _tarn_testing_pages_ops_init (pages, &ops);
  _tarn_mutex_lock (&pages->lock);
  pages->allocators++;
  _tarn_mutex_unlock (&pages->lock);
  return tarn_allocator_new (&ops, pages, allocator_gone);
}

/* What a test has it do, and is told */

/**
 * Sets the budget of a device. It may be less than is in use.
 *
 * @param pages  the device; any thread may call it
 * @param bytes  all that may be in use at a time; G_MAXUINT64 never runs out
 * @since 0.1
 */
void
tarn_testing_pages_set_budget (TarnTestingPages *pages, guint64 bytes)
{
  _tarn_mutex_lock (&pages->lock);
  pages->bytes = bytes;
  _tarn_mutex_unlock (&pages->lock);
}

/**
 * Sets the most addresses of one reservation. A larger one is out of memory.
 *
 * @param pages  the device; any thread may call it
 * @param size   bytes; G_MAXSIZE, as at the start: any
 * @since 0.1
 */
void
tarn_testing_pages_set_max_addresses (TarnTestingPages *pages, gsize size)
{
  _tarn_mutex_lock (&pages->lock);
  pages->max_addresses = size;
  _tarn_mutex_unlock (&pages->lock);
}

/**
 * Sets what each call of the allocator calls first. No lock is held then.
 *
 * @param pages      the device; called before other threads use it
 * @param func       a function; NULL, as at the start: none
 * @param user_data  for the function
 * @since 0.1
 */
void
tarn_testing_pages_set_hook (TarnTestingPages *pages, TarnTestingHook func, gpointer user_data)
{
  pages->hook = func;
  pages->hook_data = user_data;
}

/**
 * Has a call that can fail do so, with #TARN_ERROR_OUT_OF_MEMORY. It takes the place of what was
 * asked for before.
 *
 * @param pages     the device; any thread may call it
 * @param nth       the call from now on that fails, 1 being the next one; 0: none
 * @param for_ever  whether all that follow fail, too
 * @since 0.1
 */
void
tarn_testing_pages_fail (TarnTestingPages *pages, guint nth, gboolean for_ever)
{
  _tarn_mutex_lock (&pages->lock);
  pages->fail_at = nth == 0 ? 0 : pages->calls + nth;
  pages->fail_for_ever = for_ever;
  pages->has_failed = FALSE;
  _tarn_mutex_unlock (&pages->lock);
}

/* Mappings lie side by side: one after the other has to begin where the last one ended. */
static gboolean
is_mapped (TarnTestingPages *pages, guint64 start, guint64 size)
{
  guint64 at = start;

  while (at < start + size)
    {
      const Stretch *mapping = find_overlap (pages->mappings, at, 1, 0);

      if (mapping == NULL)
        return FALSE;
      at = mapping->start + mapping->size;
    }
  return TRUE;
}

static gboolean
is_in_piece (TarnTestingPages *pages, guint64 start, guint64 size)
{
  const Stretch *piece = find_overlap (pages->backings, start, 1, 0);

  return piece != NULL && start + size <= piece->start + piece->size;
}

/**
 * Tells whether somebody may use memory. Then all of it is mapped, or it is a part of that size
 * at least.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param size    bytes
 * @return whether it is
 * @since 0.1
 */
gboolean
tarn_testing_pages_is_usable (TarnTestingPages *pages, TarnMemory memory, gsize size)
{
  gboolean is_usable;
  const Stretch *part;

  _tarn_mutex_lock (&pages->lock);
  switch (pages->kind)
    {
    case TARN_TESTING_PAGES_VIRTUAL:
      is_usable = is_mapped (pages, memory.address, MAX (size, 1));
      break;
    case TARN_TESTING_PAGES_ADDRESSES:
      is_usable = is_in_piece (pages, memory.address, MAX (size, 1));
      break;
    case TARN_TESTING_PAGES_PARTS:
    default:
      part = g_hash_table_lookup (pages->parts, &memory.address);
      is_usable = part != NULL && part->size >= size;
    }
  _tarn_mutex_unlock (&pages->lock);
  return is_usable;
}

/**
 * Gets a number for one byte of memory, wherever it is. No other byte ever has it. It ends the
 * test if nobody may use that byte.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param offset  which byte of it
 * @return the number
 * @since 0.1
 */
guint64
tarn_testing_pages_locate (TarnTestingPages *pages, TarnMemory memory, gsize offset)
{
  const Stretch *stretch;
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  if (pages->kind == TARN_TESTING_PAGES_PARTS)
    {
      stretch = find (pages->parts, memory.address);
      g_assert_cmpuint (offset, <, stretch->size);
      number = find (pages->backings, stretch->of)->number;
      offset += (gsize) stretch->start;
    }
  else
    {
      stretch = find_overlap (pages->kind == TARN_TESTING_PAGES_VIRTUAL ? pages->mappings
                                                                        : pages->backings,
                              memory.address + offset, 1, 0);
      g_assert_nonnull (stretch);
      number = pages->kind == TARN_TESTING_PAGES_VIRTUAL
                   ? find_mapped (pages, stretch->start)->number
                   : stretch->number;
      offset = (gsize) (memory.address + offset - stretch->start);
    }
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

/**
 * Gets the number of one byte of a piece of memory. Blocks are parts of it. It ends the test if
 * there is no such piece.
 *
 * @param pages   the device; any thread may call it
 * @param piece   memory of the device's own allocator
 * @param offset  which byte of it
 * @return the number that tarn_testing_pages_locate() gets for it in a part
 * @since 0.1
 */
guint64
tarn_testing_pages_locate_in_piece (TarnTestingPages *pages, TarnMemory piece, gsize offset)
{
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  number = find (pages->backings, piece.address)->number;
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

/**
 * Tells whether a call failed because it was told to. It counts since the last
 * tarn_testing_pages_fail().
 *
 * @param pages  the device; any thread may call it
 * @return whether one has
 * @since 0.1
 */
gboolean
tarn_testing_pages_has_failed (TarnTestingPages *pages)
{
  gboolean has_failed;

  _tarn_mutex_lock (&pages->lock);
  has_failed = pages->has_failed;
  _tarn_mutex_unlock (&pages->lock);
  return has_failed;
}

/**
 * Gets the bytes that are allocated and not freed. They may be mapped or not.
 *
 * @param pages  the device; any thread may call it
 * @return bytes
 * @since 0.1
 */
guint64
tarn_testing_pages_get_used_bytes (TarnTestingPages *pages)
{
  guint64 bytes;

  _tarn_mutex_lock (&pages->lock);
  bytes = pages->used_bytes;
  _tarn_mutex_unlock (&pages->lock);
  return bytes;
}

/**
 * Counts the reservations of addresses that were not given back.
 *
 * @param pages  the device; any thread may call it
 * @return how many
 * @since 0.1
 */
guint
tarn_testing_pages_get_reserved (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = g_hash_table_size (pages->reservations);
  _tarn_mutex_unlock (&pages->lock);
  return n;
}

/**
 * Counts the calls of functions that can fail, those that did included.
 *
 * @param pages  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint
tarn_testing_pages_get_calls (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = pages->calls;
  _tarn_mutex_unlock (&pages->lock);
  return n;
}

/**
 * Counts the pieces of memory that were ever allocated.
 *
 * @param pages  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint
tarn_testing_pages_get_allocations (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = pages->allocations;
  _tarn_mutex_unlock (&pages->lock);
  return n;
}
