/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The names of all statuses of CUDA 12.9, except CUDA_ERROR_UNKNOWN (999), which tests use as a
 * status without a name. The descriptions are not the real driver's: each is the status's name
 * without the prefix CUDA_ERROR_ or CUDA_, in small letters, with blanks instead of underscores. */

#include "testing/cuda/fake-private.h"

#include <string.h>

typedef struct
{
  Status status;
  const gchar *name;
} Row;

#define ERROR(status, name)                                                                        \
  {                                                                                                \
    status, "CUDA_ERROR_" name                                                                     \
  }

static const Row rows[] = {
  { 0, "CUDA_SUCCESS" },
  ERROR (1, "INVALID_VALUE"),
  ERROR (2, "OUT_OF_MEMORY"),
  ERROR (3, "NOT_INITIALIZED"),
  ERROR (4, "DEINITIALIZED"),
  ERROR (5, "PROFILER_DISABLED"),
  ERROR (6, "PROFILER_NOT_INITIALIZED"),
  ERROR (7, "PROFILER_ALREADY_STARTED"),
  ERROR (8, "PROFILER_ALREADY_STOPPED"),
  ERROR (34, "STUB_LIBRARY"),
  ERROR (46, "DEVICE_UNAVAILABLE"),
  ERROR (100, "NO_DEVICE"),
  ERROR (101, "INVALID_DEVICE"),
  ERROR (102, "DEVICE_NOT_LICENSED"),
  ERROR (200, "INVALID_IMAGE"),
  ERROR (201, "INVALID_CONTEXT"),
  ERROR (202, "CONTEXT_ALREADY_CURRENT"),
  ERROR (205, "MAP_FAILED"),
  ERROR (206, "UNMAP_FAILED"),
  ERROR (207, "ARRAY_IS_MAPPED"),
  ERROR (208, "ALREADY_MAPPED"),
  ERROR (209, "NO_BINARY_FOR_GPU"),
  ERROR (210, "ALREADY_ACQUIRED"),
  ERROR (211, "NOT_MAPPED"),
  ERROR (212, "NOT_MAPPED_AS_ARRAY"),
  ERROR (213, "NOT_MAPPED_AS_POINTER"),
  ERROR (214, "ECC_UNCORRECTABLE"),
  ERROR (215, "UNSUPPORTED_LIMIT"),
  ERROR (216, "CONTEXT_ALREADY_IN_USE"),
  ERROR (217, "PEER_ACCESS_UNSUPPORTED"),
  ERROR (218, "INVALID_PTX"),
  ERROR (219, "INVALID_GRAPHICS_CONTEXT"),
  ERROR (220, "NVLINK_UNCORRECTABLE"),
  ERROR (221, "JIT_COMPILER_NOT_FOUND"),
  ERROR (222, "UNSUPPORTED_PTX_VERSION"),
  ERROR (223, "JIT_COMPILATION_DISABLED"),
  ERROR (224, "UNSUPPORTED_EXEC_AFFINITY"),
  ERROR (225, "UNSUPPORTED_DEVSIDE_SYNC"),
  ERROR (226, "CONTAINED"),
  ERROR (300, "INVALID_SOURCE"),
  ERROR (301, "FILE_NOT_FOUND"),
  ERROR (302, "SHARED_OBJECT_SYMBOL_NOT_FOUND"),
  ERROR (303, "SHARED_OBJECT_INIT_FAILED"),
  ERROR (304, "OPERATING_SYSTEM"),
  ERROR (400, "INVALID_HANDLE"),
  ERROR (401, "ILLEGAL_STATE"),
  ERROR (402, "LOSSY_QUERY"),
  ERROR (500, "NOT_FOUND"),
  ERROR (600, "NOT_READY"),
  ERROR (700, "ILLEGAL_ADDRESS"),
  ERROR (701, "LAUNCH_OUT_OF_RESOURCES"),
  ERROR (702, "LAUNCH_TIMEOUT"),
  ERROR (703, "LAUNCH_INCOMPATIBLE_TEXTURING"),
  ERROR (704, "PEER_ACCESS_ALREADY_ENABLED"),
  ERROR (705, "PEER_ACCESS_NOT_ENABLED"),
  ERROR (708, "PRIMARY_CONTEXT_ACTIVE"),
  ERROR (709, "CONTEXT_IS_DESTROYED"),
  ERROR (710, "ASSERT"),
  ERROR (711, "TOO_MANY_PEERS"),
  ERROR (712, "HOST_MEMORY_ALREADY_REGISTERED"),
  ERROR (713, "HOST_MEMORY_NOT_REGISTERED"),
  ERROR (714, "HARDWARE_STACK_ERROR"),
  ERROR (715, "ILLEGAL_INSTRUCTION"),
  ERROR (716, "MISALIGNED_ADDRESS"),
  ERROR (717, "INVALID_ADDRESS_SPACE"),
  ERROR (718, "INVALID_PC"),
  ERROR (719, "LAUNCH_FAILED"),
  ERROR (720, "COOPERATIVE_LAUNCH_TOO_LARGE"),
  ERROR (721, "TENSOR_MEMORY_LEAK"),
  ERROR (800, "NOT_PERMITTED"),
  ERROR (801, "NOT_SUPPORTED"),
  ERROR (802, "SYSTEM_NOT_READY"),
  ERROR (803, "SYSTEM_DRIVER_MISMATCH"),
  ERROR (804, "COMPAT_NOT_SUPPORTED_ON_DEVICE"),
  ERROR (805, "MPS_CONNECTION_FAILED"),
  ERROR (806, "MPS_RPC_FAILURE"),
  ERROR (807, "MPS_SERVER_NOT_READY"),
  ERROR (808, "MPS_MAX_CLIENTS_REACHED"),
  ERROR (809, "MPS_MAX_CONNECTIONS_REACHED"),
  ERROR (810, "MPS_CLIENT_TERMINATED"),
  ERROR (811, "CDP_NOT_SUPPORTED"),
  ERROR (812, "CDP_VERSION_MISMATCH"),
  ERROR (900, "STREAM_CAPTURE_UNSUPPORTED"),
  ERROR (901, "STREAM_CAPTURE_INVALIDATED"),
  ERROR (902, "STREAM_CAPTURE_MERGE"),
  ERROR (903, "STREAM_CAPTURE_UNMATCHED"),
  ERROR (904, "STREAM_CAPTURE_UNJOINED"),
  ERROR (905, "STREAM_CAPTURE_ISOLATION"),
  ERROR (906, "STREAM_CAPTURE_IMPLICIT"),
  ERROR (907, "CAPTURED_EVENT"),
  ERROR (908, "STREAM_CAPTURE_WRONG_THREAD"),
  ERROR (909, "TIMEOUT"),
  ERROR (910, "GRAPH_EXEC_UPDATE_FAILURE"),
  ERROR (911, "EXTERNAL_DEVICE"),
  ERROR (912, "INVALID_CLUSTER_SIZE"),
  ERROR (913, "FUNCTION_NOT_LOADED"),
  ERROR (914, "INVALID_RESOURCE_TYPE"),
  ERROR (915, "INVALID_RESOURCE_CONFIGURATION"),
  ERROR (916, "KEY_ROTATION"),
  ERROR (999, "UNKNOWN"),
};

/* The descriptions of the statuses: entry n is for rows[n].  The first call that needs a
 * description makes it, and nobody frees it. */
static gchar *texts[G_N_ELEMENTS (rows)];

static const Row *
find_row (Status status)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].status == status)
      return &rows[i];
  return NULL;
}

/* Returns the description of a status. The caller holds the lock. */
static const gchar *
get_text (const Row *row)
{
  gchar **text = &texts[row - rows];
  const gchar *name = row->name + strlen ("CUDA_");

  if (g_str_has_prefix (name, "ERROR_"))
    name += strlen ("ERROR_");
  if (*text == NULL)
    *text = g_strdelimit (g_ascii_strdown (name, -1), "_", ' ');
  return *text;
}

Status
cuGetErrorName (Status status, const char **name)
{
  const Row *row = find_row (status);
  ENTER (cuGetErrorName);
  REQUIRE (name != NULL, FAKE_CUDA_INVALID_VALUE);

  *name = row != NULL ? row->name : NULL;
  return row != NULL ? FAKE_CUDA_SUCCESS : FAKE_CUDA_INVALID_VALUE;
}

Status
cuGetErrorString (Status status, const char **text)
{
  const Row *row = find_row (status);
  ENTER (cuGetErrorString);
  LOCKED;
  REQUIRE (text != NULL, FAKE_CUDA_INVALID_VALUE);

  *text = row != NULL ? get_text (row) : NULL;
  return row != NULL ? FAKE_CUDA_SUCCESS : FAKE_CUDA_INVALID_VALUE;
}
