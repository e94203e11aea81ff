/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake device: a table of allocations, without real memory.  Each allocation has an address
 * that was never used before, so an address identifies one allocation. */

#include "testing/device-private.h"

#include "common/lock-private.h"

#define FIRST_ADDRESS 0x1001

/* The largest number of leaks that a message lists. */
#define MAX_NAMED 10

struct _TarnTestingDevice
{
  TarnMutex lock; /* guards all fields below, except reclaim, free_hook and their data */
  guint64 bytes, used_bytes;
  gsize max_size;
  GHashTable *ledger; /* maps an allocation's address to its size (GSIZE_TO_POINTER ()) */
  guint64 next_address;
  guint allocators;
  guint allocate_calls, free_calls;
  gsize last_size;
  /* the number of the allocation that fails, as @allocate_calls counts; 0 if none fails */
  guint fail_at;
  gboolean fail_for_ever, has_failed;
  gdouble fail_share; /* the fraction of all calls that fail, 0 to 1 */
  GRand *rand;        /* chooses the calls that fail by fail_share; NULL until fail_share is set */
  TarnTestingReclaim reclaim;
  gpointer reclaim_data;
  TarnTestingHook free_hook;
  gpointer free_hook_data;
  gchar *fault; /* a message about the first wrong free; NULL if there was none */
};

/* Functions that make and free a fake device */

TarnTestingDevice *
tarn_testing_device_new (guint64 bytes)
{
  TarnTestingDevice *device = g_new0 (TarnTestingDevice, 1);

  _tarn_mutex_init (&device->lock);
  device->bytes = bytes;
  device->max_size = G_MAXSIZE;
  device->ledger = g_hash_table_new (NULL, NULL);
  device->next_address = FIRST_ADDRESS;
  return device;
}

void
tarn_testing_device_free (TarnTestingDevice *device)
{
  if (device == NULL)
    return;
  tarn_testing_assert_no_leaks (device);
  g_assert_cmpuint (device->used_bytes, ==, 0);
  g_assert_cmpuint (device->allocators, ==, 0);
  g_hash_table_unref (device->ledger);
  g_clear_pointer (&device->rand, g_rand_free);
  _tarn_mutex_clear (&device->lock);
  g_free (device);
}

/* Functions that allocate and free the fake device's memory */

/* Returns TRUE if the test wants the current call to fail.  The caller holds the lock. */
static gboolean
take_failure (TarnTestingDevice *device)
{
  gboolean fails = FALSE;

  if (device->fail_at != 0)
    fails = device->fail_for_ever ? device->allocate_calls >= device->fail_at
                                  : device->allocate_calls == device->fail_at;
  if (device->fail_share > 0 && g_rand_double (device->rand) < device->fail_share)
    fails = TRUE;
  device->has_failed |= fails;
  return fails;
}

/* Returns TRUE if the device has @size bytes left.  The caller holds the lock. */
static gboolean
has_room (const TarnTestingDevice *device, gsize size)
{
  return device->bytes == G_MAXUINT64
         || (device->used_bytes <= device->bytes && size <= device->bytes - device->used_bytes);
}

gboolean
_tarn_testing_device_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnTestingDevice *device = user_data;
  gboolean full, too_large;

  _tarn_mutex_lock (&device->lock);
  device->allocate_calls++;
  device->last_size = size;
  too_large = size > device->max_size;
  full = take_failure (device) || !has_room (device, size);
  if (!full && !too_large)
    {
      memory->address = device->next_address++;
      /* The sum may overflow if the device's memory has no limit.  That does no harm, because each
       * free subtracts the same size again. */
      device->used_bytes += size;
      g_hash_table_insert (device->ledger, GSIZE_TO_POINTER (memory->address),
                           GSIZE_TO_POINTER (size));
    }
  _tarn_mutex_unlock (&device->lock);

  if (too_large)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                 "fake: too large for %" G_GSIZE_FORMAT " bytes", size);
  else if (full)
    g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                 "fake: full for %" G_GSIZE_FORMAT " bytes", size);
  return !full && !too_large;
}

/* Describes the mistake in a call that frees memory: a double free, a wrong size, or an unknown
 * address.  Returns NULL if there is none.  The caller holds the lock. */
static gchar *
find_fault (const TarnTestingDevice *device, guint64 address, gsize size)
{
  gpointer allocated;

  if (g_hash_table_lookup_extended (device->ledger, GSIZE_TO_POINTER (address), NULL, &allocated))
    return GPOINTER_TO_SIZE (allocated) == size
               ? NULL
               : g_strdup_printf ("memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT
                                  " bytes is freed as %" G_GSIZE_FORMAT " bytes",
                                  address, GPOINTER_TO_SIZE (allocated), size);
  return g_strdup_printf (
      "memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT " bytes is freed %s", address, size,
      address >= FIRST_ADDRESS && address < device->next_address ? "twice"
                                                                 : "and was never allocated");
}

void
_tarn_testing_device_release (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnTestingDevice *device = user_data;
  gchar *fault;

  if (device->free_hook != NULL)
    device->free_hook (device->free_hook_data);

  _tarn_mutex_lock (&device->lock);
  device->free_calls++;
  fault = find_fault (device, memory.address, size);
  if (fault == NULL)
    {
      g_hash_table_remove (device->ledger, GSIZE_TO_POINTER (memory.address));
      device->used_bytes -= size;
    }
  else if (device->fault == NULL)
    device->fault = g_steal_pointer (&fault);
  _tarn_mutex_unlock (&device->lock);
  g_free (fault);
}

gboolean
_tarn_testing_device_reclaim (gpointer user_data)
{
  TarnTestingDevice *device = user_data;

  return device->reclaim != NULL && device->reclaim (device->reclaim_data);
}

static void
allocator_gone (gpointer user_data)
{
  TarnTestingDevice *device = user_data;

  _tarn_mutex_lock (&device->lock);
  device->allocators--;
  _tarn_mutex_unlock (&device->lock);
}

TarnAllocator *
tarn_testing_device_allocator_new (TarnTestingDevice *device)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  g_return_val_if_fail (device != NULL, NULL);

  ops.name = "fake";
  ops.allocate = _tarn_testing_device_allocate;
  ops.free = _tarn_testing_device_release;
  ops.reclaim = _tarn_testing_device_reclaim;
  _tarn_mutex_lock (&device->lock);
  device->allocators++;
  _tarn_mutex_unlock (&device->lock);
  return tarn_allocator_new (&ops, device, allocator_gone);
}

/* Functions by which a test changes the fake device's settings */

void
tarn_testing_device_set_budget (TarnTestingDevice *device, guint64 bytes)
{
  _tarn_mutex_lock (&device->lock);
  device->bytes = bytes;
  _tarn_mutex_unlock (&device->lock);
}

void
tarn_testing_device_set_max_size (TarnTestingDevice *device, gsize size)
{
  _tarn_mutex_lock (&device->lock);
  device->max_size = size;
  _tarn_mutex_unlock (&device->lock);
}

void
tarn_testing_device_set_reclaim (TarnTestingDevice *device, TarnTestingReclaim func,
                                 gpointer user_data)
{
  device->reclaim = func;
  device->reclaim_data = user_data;
}

void
tarn_testing_device_set_free_hook (TarnTestingDevice *device, TarnTestingHook func,
                                   gpointer user_data)
{
  device->free_hook = func;
  device->free_hook_data = user_data;
}

void
tarn_testing_device_fail (TarnTestingDevice *device, guint nth, gboolean for_ever)
{
  _tarn_mutex_lock (&device->lock);
  device->fail_at = nth == 0 ? 0 : device->allocate_calls + nth;
  device->fail_for_ever = for_ever;
  device->has_failed = FALSE;
  _tarn_mutex_unlock (&device->lock);
}

void
tarn_testing_device_fail_share (TarnTestingDevice *device, gdouble share)
{
  g_return_if_fail (share >= 0 && share <= 1);

  _tarn_mutex_lock (&device->lock);
  if (device->rand == NULL)
    device->rand = g_rand_new_with_seed (_tarn_testing_seed ());
  device->fail_share = share;
  device->has_failed = FALSE;
  _tarn_mutex_unlock (&device->lock);
}

/* Functions that answer a test's questions */

gboolean
tarn_testing_device_has_failed (TarnTestingDevice *device)
{
  gboolean has_failed;

  _tarn_mutex_lock (&device->lock);
  has_failed = device->has_failed;
  _tarn_mutex_unlock (&device->lock);
  return has_failed;
}

guint64
tarn_testing_device_get_used_bytes (TarnTestingDevice *device)
{
  guint64 bytes;

  _tarn_mutex_lock (&device->lock);
  bytes = device->used_bytes;
  _tarn_mutex_unlock (&device->lock);
  return bytes;
}

guint
tarn_testing_device_get_live (TarnTestingDevice *device)
{
  guint n;

  _tarn_mutex_lock (&device->lock);
  n = g_hash_table_size (device->ledger);
  _tarn_mutex_unlock (&device->lock);
  return n;
}

guint
tarn_testing_device_get_allocate_calls (TarnTestingDevice *device)
{
  guint n;

  _tarn_mutex_lock (&device->lock);
  n = device->allocate_calls;
  _tarn_mutex_unlock (&device->lock);
  return n;
}

guint
tarn_testing_device_get_free_calls (TarnTestingDevice *device)
{
  guint n;

  _tarn_mutex_lock (&device->lock);
  n = device->free_calls;
  _tarn_mutex_unlock (&device->lock);
  return n;
}

gsize
tarn_testing_device_get_last_size (TarnTestingDevice *device)
{
  gsize size;

  _tarn_mutex_lock (&device->lock);
  size = device->last_size;
  _tarn_mutex_unlock (&device->lock);
  return size;
}

gchar *
tarn_testing_device_steal_fault (TarnTestingDevice *device)
{
  gchar *fault;

  _tarn_mutex_lock (&device->lock);
  fault = g_steal_pointer (&device->fault);
  _tarn_mutex_unlock (&device->lock);
  return fault;
}

static gint
compare_addresses (gconstpointer a, gconstpointer b)
{
  gsize first = GPOINTER_TO_SIZE (a), second = GPOINTER_TO_SIZE (b);

  return (first > second) - (first < second);
}

/* Describes the allocations that were not freed, in the order in which they were allocated.  The
 * caller holds the lock. */
static gchar *
describe_ledger (const TarnTestingDevice *device)
{
  GString *text = g_string_new (NULL);
  GList *addresses = g_list_sort (g_hash_table_get_keys (device->ledger), compare_addresses);
  guint n = 0;

  g_string_printf (text, "%u allocation(s) of %" G_GUINT64_FORMAT " bytes were not freed:",
                   g_hash_table_size (device->ledger), device->used_bytes);
  for (GList *at = addresses; at != NULL && n < MAX_NAMED; at = at->next, n++)
    g_string_append_printf (text, "%s memory 0x%" G_GSIZE_MODIFIER "x of %" G_GSIZE_FORMAT " bytes",
                            n == 0 ? "" : ",", GPOINTER_TO_SIZE (at->data),
                            GPOINTER_TO_SIZE (g_hash_table_lookup (device->ledger, at->data)));
  if (g_hash_table_size (device->ledger) > n)
    g_string_append (text, ", ...");
  g_list_free (addresses);
  return g_string_free (text, FALSE);
}

gchar *
tarn_testing_device_describe_leaks (TarnTestingDevice *device)
{
  gchar *text = NULL;

  _tarn_mutex_lock (&device->lock);
  if (g_hash_table_size (device->ledger) > 0)
    text = describe_ledger (device);
  _tarn_mutex_unlock (&device->lock);
  return text;
}

void
tarn_testing_assert_no_leaks (TarnTestingDevice *device)
{
  g_autofree gchar *fault = tarn_testing_device_steal_fault (device);
  g_autofree gchar *leaks = tarn_testing_device_describe_leaks (device);

  if (fault != NULL || leaks != NULL)
    _tarn_testing_end (G_STRFUNC, fault != NULL ? fault : leaks);
}
