/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fake device with virtual memory or sub-buffers (pages-private.h): tables of ranges, without
 * real memory.  A mistake in a call ends the test. */

#include "testing/pages-private.h"

static GHashTable *
table_new (void)
{
  return g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
}

TarnTestingStretch *
_tarn_testing_find_stretch (GHashTable *table, guint64 key)
{
  TarnTestingStretch *found = g_hash_table_lookup (table, &key);

  g_assert_nonnull (found);
  return found;
}

const TarnTestingStretch *
_tarn_testing_find_overlap (GHashTable *table, guint64 start, guint64 size, guint64 of)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const TarnTestingStretch *other = value;

      if (other->of == of && start < other->start + other->size && other->start < start + size)
        return other;
    }
  return NULL;
}

TarnTestingStretch *
_tarn_testing_pages_find_mapped (TarnTestingPages *pages, guint64 address)
{
  const TarnTestingStretch *mapping = g_hash_table_lookup (pages->mappings, &address);

  if (mapping == NULL)
    g_error ("0x%" G_GINT64_MODIFIER "x is not mapped", address);
  return _tarn_testing_find_stretch (pages->backings, mapping->backing);
}

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
allocator_gone (gpointer user_data)
{
  TarnTestingPages *pages = user_data;

  _tarn_mutex_lock (&pages->lock);
  pages->allocators--;
  _tarn_mutex_unlock (&pages->lock);
}

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

/* Functions by which a test changes settings and asks questions */

void
tarn_testing_pages_set_budget (TarnTestingPages *pages, guint64 bytes)
{
  _tarn_mutex_lock (&pages->lock);
  pages->bytes = bytes;
  _tarn_mutex_unlock (&pages->lock);
}

void
tarn_testing_pages_set_max_addresses (TarnTestingPages *pages, gsize size)
{
  _tarn_mutex_lock (&pages->lock);
  pages->max_addresses = size;
  _tarn_mutex_unlock (&pages->lock);
}

void
tarn_testing_pages_set_hook (TarnTestingPages *pages, TarnTestingHook func, gpointer user_data)
{
  pages->hook = func;
  pages->hook_data = user_data;
}

void
tarn_testing_pages_fail (TarnTestingPages *pages, guint nth, gboolean for_ever)
{
  _tarn_mutex_lock (&pages->lock);
  pages->fail_at = nth == 0 ? 0 : pages->calls + nth;
  pages->fail_for_ever = for_ever;
  pages->has_failed = FALSE;
  _tarn_mutex_unlock (&pages->lock);
}

void
tarn_testing_pages_refuse_aliases (TarnTestingPages *pages)
{
  _tarn_mutex_lock (&pages->lock);
  pages->refuses_aliases = TRUE;
  _tarn_mutex_unlock (&pages->lock);
}

/* Returns TRUE if a whole range is mapped, by one or more mappings without a gap. */
static gboolean
is_mapped (TarnTestingPages *pages, guint64 start, guint64 size)
{
  guint64 at = start;

  while (at < start + size)
    {
      const TarnTestingStretch *mapping = _tarn_testing_find_overlap (pages->mappings, at, 1, 0);

      if (mapping == NULL)
        return FALSE;
      at = mapping->start + mapping->size;
    }
  return TRUE;
}

static gboolean
is_in_piece (TarnTestingPages *pages, guint64 start, guint64 size)
{
  const TarnTestingStretch *piece = _tarn_testing_find_overlap (pages->backings, start, 1, 0);

  return piece != NULL && start + size <= piece->start + piece->size;
}

gboolean
tarn_testing_pages_is_usable (TarnTestingPages *pages, TarnMemory memory, gsize size)
{
  gboolean is_usable;
  const TarnTestingStretch *part;

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

guint64
tarn_testing_pages_locate (TarnTestingPages *pages, TarnMemory memory, gsize offset)
{
  const TarnTestingStretch *stretch;
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  if (pages->kind == TARN_TESTING_PAGES_PARTS)
    {
      stretch = _tarn_testing_find_stretch (pages->parts, memory.address);
      g_assert_cmpuint (offset, <, stretch->size);
      number = _tarn_testing_find_stretch (pages->backings, stretch->of)->number;
      offset += (gsize) stretch->start;
    }
  else
    {
      stretch = _tarn_testing_find_overlap (
          pages->kind == TARN_TESTING_PAGES_VIRTUAL ? pages->mappings : pages->backings,
          memory.address + offset, 1, 0);
      g_assert_nonnull (stretch);
      number = pages->kind == TARN_TESTING_PAGES_VIRTUAL
                   ? _tarn_testing_pages_find_mapped (pages, stretch->start)->number
                   : stretch->number;
      offset = (gsize) (memory.address + offset - stretch->start);
    }
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

guint64
tarn_testing_pages_locate_in_piece (TarnTestingPages *pages, TarnMemory piece, gsize offset)
{
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  number = _tarn_testing_find_stretch (pages->backings, piece.address)->number;
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

gboolean
tarn_testing_pages_has_failed (TarnTestingPages *pages)
{
  gboolean has_failed;

  _tarn_mutex_lock (&pages->lock);
  has_failed = pages->has_failed;
  _tarn_mutex_unlock (&pages->lock);
  return has_failed;
}

guint64
tarn_testing_pages_get_used_bytes (TarnTestingPages *pages)
{
  guint64 bytes;

  _tarn_mutex_lock (&pages->lock);
  bytes = pages->used_bytes;
  _tarn_mutex_unlock (&pages->lock);
  return bytes;
}

guint
tarn_testing_pages_get_reserved (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = g_hash_table_size (pages->reservations);
  _tarn_mutex_unlock (&pages->lock);
  return n;
}

guint
tarn_testing_pages_get_calls (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = pages->calls;
  _tarn_mutex_unlock (&pages->lock);
  return n;
}

guint
tarn_testing_pages_get_allocations (TarnTestingPages *pages)
{
  guint n;

  _tarn_mutex_lock (&pages->lock);
  n = pages->allocations;
  _tarn_mutex_unlock (&pages->lock);
  return n;
}
