/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The TarnAllocatorOps of the fake device in pages.c.  Each function that can fail counts its
 * calls, and fails when the test asks for that. */

#include "testing/pages-private.h"

static void
add (GHashTable *table, guint64 key, TarnTestingStretch stretch)
{
  guint64 *own_key = g_new (guint64, 1);
  TarnTestingStretch *added = g_new (TarnTestingStretch, 1);

  *own_key = key;
  *added = stretch;
  g_assert_true (g_hash_table_insert (table, own_key, added));
}

static void
call_hook (TarnTestingPages *pages)
{
  if (pages->hook != NULL)
    pages->hook (pages->hook_data);
}

/* Begins a call that can fail: counts the call, and takes the lock.  If the test wants the call to
 * fail, returns FALSE with an error, and does not hold the lock. */
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

/* Begins one of the fake device's calls, which cannot fail, and takes the device's lock. */
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

/* Functions that allocate and free the fake device's memory: backings, which have no address, and
 * segments, which have one */

/* Chooses addresses that were never used.  Returns FALSE with an error if too few are left. */
static gboolean
take_addresses (TarnTestingPages *pages, gsize size, guint64 *start, GError **error)
{
  guint64 n_granules = pages->last_number / TARN_TESTING_PAGES_GRANULARITY + 1;

  if (n_granules > (G_MAXUINT64 - size) / TARN_TESTING_PAGES_GRANULARITY)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                   "fake: no addresses are left for %" G_GSIZE_FORMAT " bytes", size);
      return FALSE;
    }
  *start = n_granules * TARN_TESTING_PAGES_GRANULARITY;
  pages->last_number = *start + size;
  return TRUE;
}

static gboolean
memory_new (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnTestingPages *pages = user_data;
  TarnTestingStretch backing = { .size = size };

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
  if (pages->kind == TARN_TESTING_PAGES_ADDRESSES
      && !take_addresses (pages, size, &backing.start, error))
    {
      _tarn_mutex_unlock (&pages->lock);
      return FALSE;
    }
  memory->address = backing.start != 0 ? backing.start : ++pages->last_number;
  add (pages->backings, memory->address, backing);
  pages->used_bytes += size;
  pages->allocations++;
  return end_call (pages);
}

static void
memory_release (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnTestingPages *pages = user_data;
  const TarnTestingStretch *backing;

  begin_sure_call (pages);
  backing = _tarn_testing_find_stretch (pages->backings, memory.address);
  g_assert_cmpuint (backing->size, ==, size);
  g_assert_cmpuint (backing->n_uses, ==, 0);
  pages->used_bytes -= size;
  g_hash_table_remove (pages->backings, &memory.address);
  end_call (pages);
}

/* Functions that reserve addresses, and map backings at these addresses */

static gboolean
reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  TarnTestingPages *pages = user_data;
  TarnTestingStretch reservation = { .size = size };

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
  if (!take_addresses (pages, size, &reservation.start, error))
    {
      _tarn_mutex_unlock (&pages->lock);
      return FALSE;
    }
  addresses->address = reservation.start;
  add (pages->reservations, reservation.start, reservation);
  return end_call (pages);
}

static void
release (gpointer user_data, TarnMemory addresses, gsize size)
{
  TarnTestingPages *pages = user_data;

  begin_sure_call (pages);
  g_assert_cmpuint (_tarn_testing_find_stretch (pages->reservations, addresses.address)->size, ==,
                    size);
  g_assert_null (_tarn_testing_find_overlap (pages->mappings, addresses.address, size, 0));
  g_hash_table_remove (pages->reservations, &addresses.address);
  end_call (pages);
}

static gboolean
is_reserved (TarnTestingPages *pages, guint64 start, gsize size)
{
  const TarnTestingStretch *reservation
      = _tarn_testing_find_overlap (pages->reservations, start, size, 0);

  return reservation != NULL && start >= reservation->start
         && start + size <= reservation->start + reservation->size;
}

static gboolean
map (gpointer user_data, TarnMemory memory, gsize size, TarnMemory address, GError **error)
{
  TarnTestingPages *pages = user_data;
  TarnTestingStretch mapping
      = { .start = address.address, .size = size, .backing = memory.address };
  TarnTestingStretch *backing;

  if (!begin_call (pages, error))
    return FALSE;
  backing = _tarn_testing_find_stretch (pages->backings, memory.address);
  g_assert_cmpuint (backing->size, ==, size);
  g_assert_cmpuint (address.address % TARN_TESTING_PAGES_GRANULARITY, ==, 0);
  g_assert_true (is_reserved (pages, address.address, size));
  g_assert_null (_tarn_testing_find_overlap (pages->mappings, address.address, size, 0));
  if (backing->n_uses > 0 && pages->refuses_aliases)
    {
      _tarn_mutex_unlock (&pages->lock);
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "fake: it is mapped already");
      return FALSE;
    }
  backing->n_uses++;
  add (pages->mappings, address.address, mapping);
  return end_call (pages);
}

static void
unmap (gpointer user_data, TarnMemory address, gsize size)
{
  TarnTestingPages *pages = user_data;

  begin_sure_call (pages);
  g_assert_cmpuint (_tarn_testing_find_stretch (pages->mappings, address.address)->size, ==, size);
  _tarn_testing_pages_find_mapped (pages, address.address)->n_uses--;
  g_hash_table_remove (pages->mappings, &address.address);
  end_call (pages);
}

/* Functions that make and release sub-buffers of segments */

static gboolean
part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
          GError **error)
{
  TarnTestingPages *pages = user_data;
  TarnTestingStretch stretch = { .start = offset, .size = size, .of = memory.address };
  TarnTestingStretch *piece;

  g_assert_cmpuint (part->address, ==, 0);
  if (!begin_call (pages, error))
    return FALSE;
  piece = _tarn_testing_find_stretch (pages->backings, memory.address);
  g_assert_cmpuint (offset % TARN_TESTING_PAGES_PART_ALIGNMENT, ==, 0);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (offset + size, <=, piece->size);
  g_assert_null (_tarn_testing_find_overlap (pages->parts, offset, size, memory.address));
  piece->n_uses++;
  part->address = ++pages->last_number;
  add (pages->parts, part->address, stretch);
  return end_call (pages);
}

static void
part_release (gpointer user_data, TarnMemory part, gsize size)
{
  TarnTestingPages *pages = user_data;
  const TarnTestingStretch *stretch;

  begin_sure_call (pages);
  stretch = _tarn_testing_find_stretch (pages->parts, part.address);
  g_assert_cmpuint (stretch->size, ==, size);
  _tarn_testing_find_stretch (pages->backings, stretch->of)->n_uses--;
  g_hash_table_remove (pages->parts, &part.address);
  end_call (pages);
}

/* Makes a sub-buffer of a segment for a device whose sub-buffers are only addresses: the segment's
 * address plus the offset.  Nobody has to release such a sub-buffer. */
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
  g_assert_cmpuint (offset + size, <=,
                    _tarn_testing_find_stretch (pages->backings, memory.address)->size);
  part->address = memory.address + offset;
  return end_call (pages);
}

/* The function that sets the allocator's functions */

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
      ops->backing_aliases = TRUE;
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
