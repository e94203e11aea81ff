/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "fake-pages.h"

#include "common/lock-private.h"

/* A stretch of addresses, or of a piece; or a backing, which has no start. */
typedef struct
{
  guint64 start, size;
  guint64 of;     /* of a part its piece */
  guint64 number; /* of a backing or a piece */
  guint n_uses;   /* of a backing or a piece: mappings, of which it has one, or parts */
} Stretch;

struct _FakePages
{
  TarnMutex lock; /* guards all below */
  guint64 bytes, used_bytes;
  gsize max_addresses;
  FakePagesKind kind;
  guint64 last_number;
  GHashTable *reservations, *mappings; /* start -> Stretch */
  GHashTable *backings, *parts; /* number -> Stretch; a piece is a backing that is not mapped */
  guint allocators, allocations;
  guint calls, fail_at; /* the value of calls at which to fail; 0: never */
  gboolean fail_for_ever, has_failed;
  void (*hook) (gpointer);
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

FakePages *
fake_pages_new (guint64 bytes, FakePagesKind kind)
{
  FakePages *pages = g_new0 (FakePages, 1);

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
fake_pages_free (FakePages *pages)
{
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
call_hook (FakePages *pages)
{
  if (pages->hook != NULL)
    pages->hook (pages->hook_data);
}

/* Begins a call that can fail.  FALSE, with an error and the lock not held: it does. */
static gboolean
begin_call (FakePages *pages, GError **error)
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
begin_sure_call (FakePages *pages)
{
  call_hook (pages);
  _tarn_mutex_lock (&pages->lock);
}

static gboolean
end_call (FakePages *pages)
{
  _tarn_mutex_unlock (&pages->lock);
  return TRUE;
}

/* Memory: a backing, or a piece */

/* Gets addresses that nobody ever had. */
static guint64
take_addresses (FakePages *pages, gsize size)
{
  guint64 start = (pages->last_number / FAKE_PAGES_GRANULARITY + 1) * FAKE_PAGES_GRANULARITY;

  pages->last_number = start + size;
  return start;
}

static gboolean
memory_new (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  FakePages *pages = user_data;
  Stretch backing = { .size = size };

  g_assert_cmpuint (memory->address, ==, 0);
  g_assert_true (pages->kind != FAKE_PAGES_VIRTUAL || size % FAKE_PAGES_GRANULARITY == 0);
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
  if (pages->kind == FAKE_PAGES_ADDRESSES)
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
  FakePages *pages = user_data;
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
  FakePages *pages = user_data;
  Stretch reservation = { .size = size };

  g_assert_cmpuint (addresses->address, ==, 0);
  g_assert_cmpuint (size % FAKE_PAGES_GRANULARITY, ==, 0);
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
  FakePages *pages = user_data;

  begin_sure_call (pages);
  g_assert_cmpuint (find (pages->reservations, addresses.address)->size, ==, size);
  g_assert_null (find_overlap (pages->mappings, addresses.address, size, 0));
  g_hash_table_remove (pages->reservations, &addresses.address);
  end_call (pages);
}

static gboolean
is_reserved (FakePages *pages, guint64 start, gsize size)
{
  const Stretch *reservation = find_overlap (pages->reservations, start, size, 0);

  return reservation != NULL && start >= reservation->start
         && start + size <= reservation->start + reservation->size;
}

static gboolean
map (gpointer user_data, TarnMemory memory, gsize size, TarnMemory address, GError **error)
{
  FakePages *pages = user_data;
  Stretch mapping = { .start = address.address, .size = size };
  Stretch *backing;

  if (!begin_call (pages, error))
    return FALSE;
  backing = find (pages->backings, memory.address);
  g_assert_cmpuint (backing->size, ==, size);
  g_assert_cmpuint (backing->n_uses, ==, 0);
  g_assert_cmpuint (address.address % FAKE_PAGES_GRANULARITY, ==, 0);
  g_assert_true (is_reserved (pages, address.address, size));
  g_assert_null (find_overlap (pages->mappings, address.address, size, 0));
  backing->n_uses++;
  add (pages->mappings, address.address, mapping);
  backing->start = address.address;
  return end_call (pages);
}

static Stretch *
find_mapped (FakePages *pages, guint64 address)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, pages->backings);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((Stretch *) value)->n_uses > 0 && ((Stretch *) value)->start == address)
      return value;
  g_assert_not_reached ();
}

static void
unmap (gpointer user_data, TarnMemory address, gsize size)
{
  FakePages *pages = user_data;

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
  FakePages *pages = user_data;
  Stretch stretch = { .start = offset, .size = size, .of = memory.address };
  Stretch *piece;

  g_assert_cmpuint (part->address, ==, 0);
  if (!begin_call (pages, error))
    return FALSE;
  piece = find (pages->backings, memory.address);
  g_assert_cmpuint (offset % FAKE_PAGES_PART_ALIGNMENT, ==, 0);
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
  FakePages *pages = user_data;
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
  FakePages *pages = user_data;

  (void) error;
  g_assert_cmpuint (part->address, ==, 0);
  begin_sure_call (pages);
  g_assert_cmpuint (offset % FAKE_PAGES_PART_ALIGNMENT, ==, 0);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (offset + size, <=, find (pages->backings, memory.address)->size);
  part->address = memory.address + offset;
  return end_call (pages);
}

/* The allocator */

static void
allocator_gone (gpointer user_data)
{
  FakePages *pages = user_data;

  _tarn_mutex_lock (&pages->lock);
  pages->allocators--;
  _tarn_mutex_unlock (&pages->lock);
}

TarnAllocator *
fake_pages_allocator_new (FakePages *pages)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "fake pages";
  ops.allocate = memory_new;
  ops.free = memory_release;
  if (pages->kind == FAKE_PAGES_VIRTUAL)
    {
      ops.virtual_granularity = FAKE_PAGES_GRANULARITY;
      ops.addresses_reserve = reserve;
      ops.addresses_release = release;
      ops.backing_new = memory_new;
      ops.backing_release = memory_release;
      ops.backing_map = map;
      ops.backing_unmap = unmap;
    }
  else
    {
      ops.part_alignment = FAKE_PAGES_PART_ALIGNMENT;
      ops.part_new = pages->kind == FAKE_PAGES_ADDRESSES ? address_new : part_new;
      ops.part_release = pages->kind == FAKE_PAGES_ADDRESSES ? NULL : part_release;
    }
  _tarn_mutex_lock (&pages->lock);
  pages->allocators++;
  _tarn_mutex_unlock (&pages->lock);
  return tarn_allocator_new (&ops, pages, allocator_gone);
}

/* What tests do with it */

void
fake_pages_set_budget (FakePages *pages, guint64 bytes)
{
  _tarn_mutex_lock (&pages->lock);
  pages->bytes = bytes;
  _tarn_mutex_unlock (&pages->lock);
}

void
fake_pages_set_max_addresses (FakePages *pages, gsize size)
{
  _tarn_mutex_lock (&pages->lock);
  pages->max_addresses = size;
  _tarn_mutex_unlock (&pages->lock);
}

void
fake_pages_set_hook (FakePages *pages, void (*func) (gpointer), gpointer user_data)
{
  pages->hook = func;
  pages->hook_data = user_data;
}

void
fake_pages_fail (FakePages *pages, guint nth, gboolean for_ever)
{
  _tarn_mutex_lock (&pages->lock);
  pages->fail_at = nth == 0 ? 0 : pages->calls + nth;
  pages->fail_for_ever = for_ever;
  pages->has_failed = FALSE;
  _tarn_mutex_unlock (&pages->lock);
}

/* Mappings lie side by side: one after the other has to begin where the last one ended. */
static gboolean
is_mapped (FakePages *pages, guint64 start, guint64 size)
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
is_in_piece (FakePages *pages, guint64 start, guint64 size)
{
  const Stretch *piece = find_overlap (pages->backings, start, 1, 0);

  return piece != NULL && start + size <= piece->start + piece->size;
}

gboolean
fake_pages_is_usable (FakePages *pages, TarnMemory memory, gsize size)
{
  gboolean is_usable;
  const Stretch *part;

  _tarn_mutex_lock (&pages->lock);
  switch (pages->kind)
    {
    case FAKE_PAGES_VIRTUAL:
      is_usable = is_mapped (pages, memory.address, MAX (size, 1));
      break;
    case FAKE_PAGES_ADDRESSES:
      is_usable = is_in_piece (pages, memory.address, MAX (size, 1));
      break;
    case FAKE_PAGES_PARTS:
    default:
      part = g_hash_table_lookup (pages->parts, &memory.address);
      is_usable = part != NULL && part->size >= size;
    }
  _tarn_mutex_unlock (&pages->lock);
  return is_usable;
}

guint64
fake_pages_locate (FakePages *pages, TarnMemory memory, gsize offset)
{
  const Stretch *stretch;
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  if (pages->kind == FAKE_PAGES_PARTS)
    {
      stretch = find (pages->parts, memory.address);
      g_assert_cmpuint (offset, <, stretch->size);
      number = find (pages->backings, stretch->of)->number;
      offset += (gsize) stretch->start;
    }
  else
    {
      stretch = find_overlap (pages->kind == FAKE_PAGES_VIRTUAL ? pages->mappings : pages->backings,
                              memory.address + offset, 1, 0);
      g_assert_nonnull (stretch);
      number = pages->kind == FAKE_PAGES_VIRTUAL ? find_mapped (pages, stretch->start)->number
                                                 : stretch->number;
      offset = (gsize) (memory.address + offset - stretch->start);
    }
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

guint64
fake_pages_locate_in_piece (FakePages *pages, TarnMemory piece, gsize offset)
{
  guint64 number;

  _tarn_mutex_lock (&pages->lock);
  number = find (pages->backings, piece.address)->number;
  _tarn_mutex_unlock (&pages->lock);
  return (number << 32) + offset;
}

#define GETTER(type, name, expression)                                                             \
  type name (FakePages *pages)                                                                     \
  {                                                                                                \
    type value;                                                                                    \
                                                                                                   \
    _tarn_mutex_lock (&pages->lock);                                                               \
    value = (expression);                                                                          \
    _tarn_mutex_unlock (&pages->lock);                                                             \
    return value;                                                                                  \
  }

GETTER (gboolean, fake_pages_has_failed, pages->has_failed)
GETTER (guint64, fake_pages_get_used_bytes, pages->used_bytes)
GETTER (guint, fake_pages_get_reserved, g_hash_table_size (pages->reservations))
GETTER (guint, fake_pages_get_calls, pages->calls)
GETTER (guint, fake_pages_get_allocations, pages->allocations)
