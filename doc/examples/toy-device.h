/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A device that only counts bytes, so that a program can run out of its memory on any machine.
 * leaking.c and fragmenting.c use it. */

#ifndef TOY_DEVICE_H
#define TOY_DEVICE_H

#include <tarn/tarn.h>

#define MIB ((gsize) 1 << 20)

typedef struct
{
  gsize bytes, used;
  guint64 next_address;
} ToyDevice;

static gboolean
toy_device_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  ToyDevice *device = user_data;

  if (size > device->bytes - device->used)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                   "the device has %" G_GSIZE_FORMAT " bytes, of which %" G_GSIZE_FORMAT
                   " are allocated",
                   device->bytes, device->used);
      return FALSE;
    }
  device->used += size;
  memory->address = device->next_address;
  device->next_address += size;
  return TRUE;
}

static void
toy_device_free (gpointer user_data, TarnMemory memory, gsize size)
{
  ToyDevice *device = user_data;

  (void) memory;
  device->used -= size;
}

static gboolean
toy_device_make_part (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                      TarnMemory *part, GError **error)
{
  (void) user_data;
  (void) size;
  (void) error;
  part->address = memory.address + offset;
  return TRUE;
}

/* Makes a pool over a heap, like those for OpenCL and CUDA.  The device must outlive it. */
static TarnPool *
toy_device_pool_new (ToyDevice *device, const gchar *name, GError **error)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnAllocator *allocator, *heap;
  TarnPool *pool;

  ops.name = "toy-device";
  ops.allocate = toy_device_allocate;
  ops.free = toy_device_free;
  ops.part_alignment = 256;
  ops.part_new = toy_device_make_part;
  options.name = name;
  allocator = tarn_allocator_new (&ops, device, NULL);
  heap = tarn_heap_allocator_new (allocator, NULL, error);
  tarn_allocator_unref (allocator);
  if (heap == NULL)
    return NULL;
  pool = tarn_pool_new (heap, &options, error);
  tarn_allocator_unref (heap);
  return pool;
}

#endif
