/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The tables in which the layer finds the record of an object by the driver's handle.  There is one
 * table for each kind of object: contexts, queues, buffers and kernels.  Every command looks up its
 * queue and its buffers, from any thread.  So that threads seldom wait for each other, a table
 * consists of shards, each with a lock of its own.  A shard keeps its latest record outside its
 * hash table.  This saves hash table operations, because a buffer often ends before the next
 * begins, and most programs have few contexts and queues.
 *
 * Invariant: a table has a reference to each of its records.  A record is either the latest of its
 * shard, or in the shard's hash table under its own handle. */

#include "layer-private.h"

#define N_SHARDS 64 /* must be a power of two, because get_shard () uses N_SHARDS - 1 as a mask */

/* A shard: a part of a table.  The function get_shard () decides which handles belong to which
 * shard. */
typedef struct
{
  TarnMutex lock;
  LayerObject *latest; /* a reference to the latest record; NULL if there is none */
  /* Maps a handle to a reference to its record (LayerObject), for all records of the shard except
   * @latest.  NULL until there is such a record. */
  GHashTable *others;
} __attribute__ ((aligned (64))) Shard;

/* No code initializes the tables, because a mutex of zero bytes is valid and unlocked. */
static Shard tables[LAYER_N_OBJECT_KINDS][N_SHARDS];

/* Returns the shard for a handle.  Handles are aligned addresses, so their lowest bits are equal:
 * the lowest four bits do not take part in the choice. */
static Shard *
get_shard (LayerKind kind, gconstpointer handle)
{
  guintptr bits = (guintptr) handle >> 4;

  return &tables[kind][(bits ^ bits >> 6 ^ bits >> 12) & (N_SHARDS - 1)];
}

/* Finds the record of a handle in a shard.  Returns NULL if the shard has none.  The caller holds
 * the shard's lock. */
static LayerObject *
find_locked (Shard *shard, gconstpointer handle)
{
  _tarn_assert_locked (&shard->lock);
  if (shard->latest != NULL && shard->latest->handle == handle)
    return shard->latest;
  return shard->others != NULL ? g_hash_table_lookup (shard->others, handle) : NULL;
}

gpointer
_tarn_layer_find (LayerKind kind, gconstpointer handle)
{
  Shard *shard = get_shard (kind, handle);
  TARN_LOCKED (&shard->lock);
  LayerObject *found = find_locked (shard, handle);

  return found != NULL ? _tarn_layer_ref (found) : NULL;
}

/* Appends references to all records of a shard to an array.  The caller holds the shard's lock. */
static void
list_locked (Shard *shard, GPtrArray *records)
{
  GHashTableIter iter;
  gpointer record;

  _tarn_assert_locked (&shard->lock);
  if (shard->latest != NULL)
    g_ptr_array_add (records, _tarn_layer_ref (shard->latest));
  if (shard->others == NULL)
    return;
  g_hash_table_iter_init (&iter, shard->others);
  while (g_hash_table_iter_next (&iter, NULL, &record))
    g_ptr_array_add (records, _tarn_layer_ref (record));
}

GPtrArray *
_tarn_layer_list_all (LayerKind kind)
{
  GPtrArray *records = g_ptr_array_new_with_free_func (_tarn_layer_unref);

  for (guint i = 0; i < N_SHARDS; i++)
    {
      TARN_LOCKED (&tables[kind][i].lock);

      list_locked (&tables[kind][i], records);
    }
  return records;
}

/* Removes a record from a shard.  Returns FALSE if the record is not in the shard, for example
 * because a newer record with the same handle has replaced it.  The caller holds the shard's
 * lock. */
static gboolean
take_out_locked (Shard *shard, const LayerObject *record)
{
  gpointer found = NULL;

  _tarn_assert_locked (&shard->lock);
  if (shard->latest == record)
    {
      shard->latest = NULL;
      return TRUE;
    }
  if (shard->others == NULL
      || !g_hash_table_steal_extended (shard->others, record->handle, NULL, &found))
    return FALSE;
  if (found != record)
    g_hash_table_insert (shard->others, record->handle, found);
  return found == record;
}

/* Adds a record to its shard, as the latest record.  If the shard has an older record with the same
 * handle, removes the older record and returns it.  Otherwise returns NULL. */
static LayerObject *
exchange (LayerObject *record)
{
  Shard *shard = get_shard (record->kind, record->handle);
  TARN_LOCKED (&shard->lock);
  LayerObject *older = find_locked (shard, record->handle);

  if (older != NULL)
    take_out_locked (shard, older);
  if (shard->latest != NULL)
    {
      if (shard->others == NULL)
        shard->others = g_hash_table_new (NULL, NULL);
      g_hash_table_insert (shard->others, shard->latest->handle, shard->latest);
    }
  shard->latest = record;
  return older;
}

void
_tarn_layer_list (gpointer record)
{
  _tarn_layer_unref (exchange (_tarn_layer_ref (record)));
}

static gboolean
take_out (const LayerObject *self)
{
  Shard *shard = get_shard (self->kind, self->handle);
  TARN_LOCKED (&shard->lock);

  return take_out_locked (shard, self);
}

void
_tarn_layer_unlist (gpointer record)
{
  if (take_out (record))
    _tarn_layer_unref (record);
}

gpointer
_tarn_layer_ref (gpointer record)
{
  guint n = __atomic_fetch_add (&((LayerObject *) record)->references, 1, __ATOMIC_RELAXED);

  g_assert (n > 0);
  (void) n;
  return record;
}

void
_tarn_layer_unref (gpointer record)
{
  LayerObject *self = record;
  guint n;

  if (self == NULL)
    return;
  n = __atomic_fetch_sub (&self->references, 1, __ATOMIC_ACQ_REL);
  g_assert (n > 0);
  if (n > 1)
    return;
  /* The record's finalizer may call the driver.  A thread must hold no lock during such a call. */
  _tarn_assert_no_locks ();
  self->finalize (self);
}

void
_tarn_layer_clear (gpointer record)
{
  _tarn_layer_unref (*(gpointer *) record);
}

/* Adds 1 to a count and returns TRUE.  If the count is 0, does not change it and returns FALSE. */
static gboolean
try_add (guint *count)
{
  guint n = __atomic_load_n (count, __ATOMIC_RELAXED);

  while (
      n > 0
      && !__atomic_compare_exchange_n (count, &n, n + 1, FALSE, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    ;
  return n > 0;
}

gboolean
_tarn_layer_try_ref (gpointer record)
{
  return try_add (&((LayerObject *) record)->references);
}

void
_tarn_layer_retain (gpointer record)
{
  __atomic_add_fetch (&((LayerObject *) record)->program_references, 1, __ATOMIC_RELAXED);
}

gboolean
_tarn_layer_try_retain (gpointer record)
{
  return try_add (&((LayerObject *) record)->program_references);
}

gboolean
_tarn_layer_release (gpointer record)
{
  return __atomic_sub_fetch (&((LayerObject *) record)->program_references, 1, __ATOMIC_ACQ_REL)
         == 0;
}

/* Functions for tickets: numbers that stand for records in callbacks of the driver */

static TarnMutex tickets_lock;
/* Maps a ticket, which is a number, to a reference to the ticket's record.  NULL until the first
 * ticket is made. */
static GHashTable *tickets;
static gsize last_ticket;

gpointer
_tarn_layer_ticket_new (gpointer record)
{
  TARN_LOCKED (&tickets_lock);

  if (tickets == NULL)
    tickets = g_hash_table_new (NULL, NULL);
  last_ticket++;
  g_hash_table_insert (tickets, GSIZE_TO_POINTER (last_ticket), _tarn_layer_ref (record));
  return GSIZE_TO_POINTER (last_ticket);
}

gpointer
_tarn_layer_ticket_take (gpointer ticket)
{
  TARN_LOCKED (&tickets_lock);
  gpointer record = g_hash_table_lookup (tickets, ticket);

  g_hash_table_remove (tickets, ticket);
  return record;
}
