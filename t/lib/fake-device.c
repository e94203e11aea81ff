/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "fake-device.h"

#include "common/lock-private.h"

struct _FakeDevice
{
  TarnMutex lock; /* guards all below */
  guint64 bytes, used_bytes;
  gsize max_size;
  GHashTable *ledger; /* address -> size, both GSIZE_TO_POINTER () */
  guint64 last_address;
  guint allocators;
  guint allocate_calls, free_calls;
  gsize last_size;
  guint fail_at; /* the value of allocate_calls at which to fail; 0: never */
  gboolean fail_for_ever, has_failed;
  gboolean (*reclaim) (gpointer);
  gpointer reclaim_data;
  void (*free_hook) (gpointer);
  gpointer free_hook_data;
};

FakeDevice *
fake_device_new (guint64 bytes)
{
  FakeDevice *device = g_new0 (FakeDevice, 1);

  _tarn_mutex_init (&device->lock);
  device->bytes = bytes;
  device->max_size = G_MAXSIZE;
  device->ledger = g_hash_table_new (NULL, NULL);
  device->last_address = 0x1000;
  return device;
}

void
fake_device_free (FakeDevice *device)
{
  g_assert_cmpuint (g_hash_table_size (device->ledger), ==, 0);
  g_assert_cmpuint (device->used_bytes, ==, 0);
  g_assert_cmpuint (device->allocators, ==, 0);
  g_hash_table_unref (device->ledger);
  _tarn_mutex_clear (&device->lock);
  g_free (device);
}

static gboolean
is_to_fail (FakeDevice *device)
{
  if (device->fail_at == 0 || device->allocate_calls < device->fail_at)
    return FALSE;
  return device->fail_for_ever || device->allocate_calls == device->fail_at;
}

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  FakeDevice *device = user_data;
  gboolean full, too_large;

  _tarn_mutex_lock (&device->lock);
  device->allocate_calls++;
  device->last_size = size;
  too_large = size > device->max_size;
  full = device->bytes != G_MAXUINT64
         && (device->used_bytes > device->bytes || size > device->bytes - device->used_bytes);
  if (is_to_fail (device))
    full = device->has_failed = TRUE;
  if (!full && !too_large)
    {
      memory->address = ++device->last_address;
      device->used_bytes += size; /* wraps where there is no budget, and back */
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

static void
free_memory (gpointer user_data, TarnMemory memory, gsize size)
{
  FakeDevice *device = user_data;
  gpointer ledger_size;

  if (device->free_hook != NULL)
    device->free_hook (device->free_hook_data);

  _tarn_mutex_lock (&device->lock);
  device->free_calls++;
  g_assert_true (g_hash_table_steal_extended (device->ledger, GSIZE_TO_POINTER (memory.address),
                                              NULL, &ledger_size));
  g_assert_cmpuint (GPOINTER_TO_SIZE (ledger_size), ==, size);
  device->used_bytes -= size;
  _tarn_mutex_unlock (&device->lock);
}

static gboolean
reclaim (gpointer user_data)
{
  FakeDevice *device = user_data;

  return device->reclaim != NULL && device->reclaim (device->reclaim_data);
}

static void
allocator_gone (gpointer user_data)
{
  FakeDevice *device = user_data;

  _tarn_mutex_lock (&device->lock);
  device->allocators--;
  _tarn_mutex_unlock (&device->lock);
}

TarnAllocator *
fake_device_allocator_new (FakeDevice *device)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "fake";
  ops.allocate = allocate;
  ops.free = free_memory;
  ops.reclaim = reclaim;
  _tarn_mutex_lock (&device->lock);
  device->allocators++;
  _tarn_mutex_unlock (&device->lock);
  return tarn_allocator_new (&ops, device, allocator_gone);
}

void
fake_device_set_budget (FakeDevice *device, guint64 bytes)
{
  _tarn_mutex_lock (&device->lock);
  device->bytes = bytes;
  _tarn_mutex_unlock (&device->lock);
}

void
fake_device_set_max_size (FakeDevice *device, gsize size)
{
  _tarn_mutex_lock (&device->lock);
  device->max_size = size;
  _tarn_mutex_unlock (&device->lock);
}

/* Hooks are set before threads are started. */

void
fake_device_set_reclaim (FakeDevice *device, gboolean (*func) (gpointer), gpointer user_data)
{
  device->reclaim = func;
  device->reclaim_data = user_data;
}

void
fake_device_set_free_hook (FakeDevice *device, void (*func) (gpointer), gpointer user_data)
{
  device->free_hook = func;
  device->free_hook_data = user_data;
}

void
fake_device_fail (FakeDevice *device, guint nth, gboolean for_ever)
{
  _tarn_mutex_lock (&device->lock);
  device->fail_at = nth == 0 ? 0 : device->allocate_calls + nth;
  device->fail_for_ever = for_ever;
  device->has_failed = FALSE;
  _tarn_mutex_unlock (&device->lock);
}

#define GETTER(type, name, expression)                                                             \
  type name (FakeDevice *device)                                                                   \
  {                                                                                                \
    type value;                                                                                    \
                                                                                                   \
    _tarn_mutex_lock (&device->lock);                                                              \
    value = (expression);                                                                          \
    _tarn_mutex_unlock (&device->lock);                                                            \
    return value;                                                                                  \
  }

GETTER (gboolean, fake_device_has_failed, device->has_failed)
GETTER (guint64, fake_device_get_used_bytes, device->used_bytes)
GETTER (guint, fake_device_get_live, g_hash_table_size (device->ledger))
GETTER (guint, fake_device_get_allocate_calls, device->allocate_calls)
GETTER (guint, fake_device_get_free_calls, device->free_calls)
GETTER (gsize, fake_device_get_last_size, device->last_size)

static gboolean
allocate_nothing (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) size;
  (void) memory;
  (void) error;
  return TRUE;
}

static void
free_nothing (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  g_assert_cmpuint (memory.address, ==, 0);
}

void
nothing_ops_init (TarnAllocatorOps *ops)
{
  *ops = (TarnAllocatorOps) TARN_ALLOCATOR_OPS_INIT;
  ops->allocate = allocate_nothing;
  ops->free = free_nothing;
}
