/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The devices of the fake CUDA driver.  Each device is like an H200, except for the settings that
 * the test has changed. */

#include "testing/cuda/fake-private.h"

#include <stdio.h>
#include <string.h>

/* The attributes of an H200: number (CU_DEVICE_ATTRIBUTE_...) and value. */
static const struct
{
  guint number;
  gint value;
} h200[] = {
  { 1, 1024 },        /* MAX_THREADS_PER_BLOCK */
  { 2, 1024 },        /* MAX_BLOCK_DIM_X */
  { 3, 1024 },        /* MAX_BLOCK_DIM_Y */
  { 4, 64 },          /* MAX_BLOCK_DIM_Z */
  { 5, 2147483647 },  /* MAX_GRID_DIM_X */
  { 6, 65535 },       /* MAX_GRID_DIM_Y */
  { 7, 65535 },       /* MAX_GRID_DIM_Z */
  { 8, 49152 },       /* MAX_SHARED_MEMORY_PER_BLOCK */
  { 9, 65536 },       /* TOTAL_CONSTANT_MEMORY */
  { 10, 32 },         /* WARP_SIZE */
  { 11, 2147483647 }, /* MAX_PITCH */
  { 12, 65536 },      /* MAX_REGISTERS_PER_BLOCK */
  { 13, 1980000 },    /* CLOCK_RATE, kHz */
  { 14, 512 },        /* TEXTURE_ALIGNMENT */
  { 15, 1 },          /* GPU_OVERLAP */
  { 16, 132 },        /* MULTIPROCESSOR_COUNT */
  { 19, 1 },          /* CAN_MAP_HOST_MEMORY */
  { 30, 512 },        /* SURFACE_ALIGNMENT */
  { 31, 1 },          /* CONCURRENT_KERNELS */
  { 32, 1 },          /* ECC_ENABLED */
  { 36, 3201000 },    /* MEMORY_CLOCK_RATE, kHz */
  { 37, 6016 },       /* GLOBAL_MEMORY_BUS_WIDTH */
  { 38, 62914560 },   /* L2_CACHE_SIZE */
  { 39, 2048 },       /* MAX_THREADS_PER_MULTIPROCESSOR */
  { 40, 3 },          /* ASYNC_ENGINE_COUNT */
  { 41, 1 },          /* UNIFIED_ADDRESSING */
  { 51, 32 },         /* TEXTURE_PITCH_ALIGNMENT */
  { 75, 9 },          /* COMPUTE_CAPABILITY_MAJOR */
  { 76, 0 },          /* COMPUTE_CAPABILITY_MINOR */
  { 78, 1 },          /* STREAM_PRIORITIES_SUPPORTED */
  { 79, 1 },          /* GLOBAL_L1_CACHE_SUPPORTED */
  { 80, 1 },          /* LOCAL_L1_CACHE_SUPPORTED */
  { 81, 233472 },     /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
  { 82, 65536 },      /* MAX_REGISTERS_PER_MULTIPROCESSOR */
  { 83, 1 },          /* MANAGED_MEMORY */
  { 87, 2 },          /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */
  { 89, 1 },          /* CONCURRENT_MANAGED_ACCESS */
  { 90, 1 },          /* COMPUTE_PREEMPTION_SUPPORTED */
  { 91, 1 },          /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
  { 95, 1 },          /* COOPERATIVE_LAUNCH */
  { 97, 232448 },     /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
  { 99, 1 },          /* HOST_REGISTER_SUPPORTED */
  { 102, 1 },         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
  { 103, 1 },         /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
  { 106, 32 },        /* MAX_BLOCKS_PER_MULTIPROCESSOR */
  { 110, 1 },         /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
  { 111, 1024 },      /* RESERVED_SHARED_MEMORY_PER_BLOCK */
  { 115, 1 },         /* MEMORY_POOLS_SUPPORTED */
  { 120, 1 },         /* CLUSTER_LAUNCH */
};

#define LAST_ATTRIBUTE 143
#define ATTRIBUTE_PCI_BUS_ID 33
#define ATTRIBUTE_PCI_DOMAIN_ID 50
#define FIRST_BUS 0xfa

void
fake_device_settings_init (DeviceSettings *settings)
{
  *settings = (DeviceSettings){ .total_memory = FAKE_CUDA_MEMORY_SIZE, .budget = G_MAXUINT64 };
}

Status
cuDeviceGetCount (int *count)
{
  ENTER (cuDeviceGetCount);
  LOCKED;
  REQUIRE (count != NULL, FAKE_CUDA_INVALID_VALUE);

  *count = (int) fake_count_devices ();
  return FAKE_CUDA_SUCCESS;
}

Status
cuDeviceGet (CUdevice *device, int ordinal)
{
  ENTER (cuDeviceGet);
  LOCKED;
  REQUIRE (device != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (ordinal), FAKE_CUDA_INVALID_DEVICE);

  *device = ordinal;
  return FAKE_CUDA_SUCCESS;
}

Status
cuDeviceGetName (char *name, int length, CUdevice device)
{
  ENTER (cuDeviceGetName);
  LOCKED;
  REQUIRE (name != NULL && length > 0, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  g_snprintf (name, (gulong) length, "Fake GPU %c", 'A' + device);
  return FAKE_CUDA_SUCCESS;
}

/* Writes the PCI address of a device, in capital letters, as the driver does. */
Status
cuDeviceGetPCIBusId (char *id, int length, CUdevice device)
{
  ENTER (cuDeviceGetPCIBusId);
  LOCKED;
  REQUIRE (id != NULL && length > 0, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  g_snprintf (id, (gulong) length, "%04X:%02X:00.0", (guint) (FIRST_BUS + device) >> 8,
              (guint) (FIRST_BUS + device) & 0xff);
  return FAKE_CUDA_SUCCESS;
}

/* Writes the UUID of a device's GPU.  The caller holds the lock. */
static Status
get_uuid (char *uuid, CUdevice device)
{
  REQUIRE (uuid != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  for (int i = 0; i < 16; i++)
    uuid[i] = (char) (0x11 * i + device);
  return FAKE_CUDA_SUCCESS;
}

Status
cuDeviceGetUuid (char *uuid, CUdevice device)
{
  ENTER (cuDeviceGetUuid);
  LOCKED;

  return get_uuid (uuid, device);
}

#if FAKE_CUDA_VERSION >= 11040
Status
cuDeviceGetUuid_v2 (char *uuid, CUdevice device)
{
  Status status;
  ENTER (cuDeviceGetUuid_v2);
  LOCKED;

  status = get_uuid (uuid, device);
  if (status == FAKE_CUDA_SUCCESS && fake_get_settings (device)->is_part)
    uuid[0] = (char) ~uuid[0];
  return status;
}
#endif

/* Returns the value that a device's attribute has if the test has not set it.  Returns 0 if the
 * table h200 does not have the attribute. */
static gint
get_default (guint attribute, CUdevice device)
{
  if (attribute == ATTRIBUTE_PCI_BUS_ID)
    return (FIRST_BUS + device) & 0xff;
  if (attribute == ATTRIBUTE_PCI_DOMAIN_ID)
    return (FIRST_BUS + device) >> 8;
  for (gsize i = 0; i < G_N_ELEMENTS (h200); i++)
    if (h200[i].number == attribute)
      return h200[i].value;
  return 0;
}

gboolean
fake_get_attribute (gint *value, guint attribute, CUdevice device)
{
  GHashTable *attributes = fake_get_settings (device)->attributes;
  gpointer set;

  if (attributes != NULL
      && g_hash_table_lookup_extended (attributes, GUINT_TO_POINTER (attribute), NULL, &set))
    *value = GPOINTER_TO_INT (set);
  else if (attribute < 1 || attribute > LAST_ATTRIBUTE)
    return FALSE;
  else
    *value = get_default (attribute, device);
  return TRUE;
}

Status
cuDeviceGetAttribute (int *value, unsigned int attribute, CUdevice device)
{
  ENTER (cuDeviceGetAttribute);
  LOCKED;
  REQUIRE (value != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  return fake_get_attribute (value, attribute, device) ? FAKE_CUDA_SUCCESS
                                                       : FAKE_CUDA_INVALID_VALUE;
}

/* Returns TRUE if @device can access the memory of @peer.  A device can access its own memory.  Two
 * devices can access each other's memory, unless one of them is a part of a GPU (MIG). */
gboolean
fake_can_access (CUdevice device, CUdevice peer)
{
  return device == peer
         || (!fake_get_settings (device)->is_part && !fake_get_settings (peer)->is_part);
}

Status
cuDeviceCanAccessPeer (int *can_access, CUdevice device, CUdevice peer)
{
  ENTER (cuDeviceCanAccessPeer);
  LOCKED;
  REQUIRE (can_access != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device) && fake_is_device (peer), FAKE_CUDA_INVALID_DEVICE);

  *can_access = device != peer && fake_can_access (device, peer);
  return FAKE_CUDA_SUCCESS;
}

Status
cuDeviceTotalMem_v2 (size_t *bytes, CUdevice device)
{
  ENTER (cuDeviceTotalMem);
  LOCKED;
  REQUIRE (bytes != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  *bytes = (size_t) fake_get_settings (device)->total_memory;
  return FAKE_CUDA_SUCCESS;
}
