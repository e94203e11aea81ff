/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fixture of the tests of virtual memory of CUDA devices. */

#include "virtual-fixture.h"

#include <dlfcn.h>
#include <string.h>

const TarnTestingCuda *fake;
VirtualDriver cuda;
guint n_left;

static void
load (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  if (library == NULL) /* there is no device, and no test */
    return;
#define X(name, symbol, arguments) *(gpointer *) &cuda.name = dlsym (library, symbol);
  VIRTUAL_FUNCTIONS (X)
#undef X
}

void
virtual_init (const TarnTestingCuda *driver)
{
  fake = driver;
  load ();
}

gboolean
memory_open (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options,
             GError **error)
{
  *memory = (Memory){ .allocator
                      = tarn_cuda_device_allocator_new_with_options (context, options, error) };
  if (memory->allocator == NULL)
    return FALSE;
  memory->ops = &memory->allocator->ops;
  memory->data = memory->allocator->user_data;
  memory->unit = memory->ops->virtual_granularity;
  return TRUE;
}

gboolean
memory_fill (Memory *memory, GError **error)
{
  const TarnAllocatorOps *ops = memory->ops;

  if (!ops->addresses_reserve (memory->data, UNITS * memory->unit, &memory->addresses, error))
    return FALSE;
  for (gsize i = 0; i < 2; i++)
    if (!ops->backing_new (memory->data, (i + 1) * memory->unit, &memory->backing[i], error))
      return FALSE;
  return TRUE;
}

void
memory_clear (Memory *memory)
{
  for (gsize i = 0; i < 2; i++)
    if (memory->backing[i].address != 0)
      memory->ops->backing_release (memory->data, memory->backing[i], (i + 1) * memory->unit);
  if (memory->addresses.address != 0)
    memory->ops->addresses_release (memory->data, memory->addresses, UNITS * memory->unit);
  tarn_allocator_unref (memory->allocator);
  *memory = (Memory){ .allocator = NULL };
}

TarnMemory
memory_at (const Memory *memory, gsize unit)
{
  return (TarnMemory){ .address = memory->addresses.address + unit * memory->unit };
}

CUdeviceptr
pointer_at (const Memory *memory, gsize unit)
{
  return (CUdeviceptr) memory_at (memory, unit).address;
}

gboolean
memory_map (Memory *memory, gsize backing, gsize unit, GError **error)
{
  return memory->ops->backing_map (memory->data, memory->backing[backing],
                                   (backing + 1) * memory->unit, memory_at (memory, unit), error);
}

void
memory_unmap (Memory *memory, gsize backing, gsize unit)
{
  memory->ops->backing_unmap (memory->data, memory_at (memory, unit), (backing + 1) * memory->unit);
}

guint
count_live (void)
{
  guint n = 0;

  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_ADDRESSES; kind <= TARN_TESTING_CUDA_MAPPING;
       kind++)
    n += fake->get_live (kind);
  return n;
}

void
assert_nothing_is_alive (void)
{
  if (fake == NULL)
    return;
  g_assert_cmpuint (count_live (), ==, n_left);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
}

gboolean
open_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options)
{
  g_autoptr (TarnAllocator) plain = NULL;
  g_autoptr (GError) error = NULL;

  if (fake != NULL)
    fake->reset ();
  plain = tarn_cuda_device_allocator_new (context, &error);
  g_assert_no_error (error);
  if (plain->ops.virtual_granularity == 0)
    {
      g_test_skip ("the device has no virtual memory");
      return FALSE;
    }
  g_assert_true (memory_open (memory, context, options, &error));
  g_assert_no_error (error);
  return TRUE;
}

gboolean
fill_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options)
{
  g_autoptr (GError) error = NULL;

  if (!open_or_skip (memory, context, options))
    return FALSE;
  g_assert_true (memory_fill (memory, &error));
  g_assert_no_error (error);
  return TRUE;
}

void
map_surely (Memory *memory, gsize backing, gsize unit)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (memory_map (memory, backing, unit, &error));
  g_assert_no_error (error);
}

void
assert_bytes (CUdeviceptr address, const gchar *expected)
{
  gchar bytes[8];
  gsize n = strlen (expected);

  g_assert_cmpuint (n, <=, sizeof bytes);
  SUCCEED (cuda.cuMemcpyDtoH (bytes, address, n));
  g_assert_cmpmem (bytes, n, expected, n);
}

void
assert_out_of_memory (GError **error, const gchar *call, gsize size)
{
  g_autofree gchar *text = g_strdup_printf (" (2) for %" G_GSIZE_FORMAT " bytes", size);

  g_assert_error (*error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_true (g_str_has_prefix ((*error)->message, call));
  g_assert_nonnull (strstr ((*error)->message, text));
  g_clear_error (error);
}
