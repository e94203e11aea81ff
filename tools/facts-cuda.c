/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Collects facts about a CUDA device.  If OpenCL devices have the same fact, its key is the same in
 * facts-opencl.c. */

#include <stddef.h>
#include <tarn/cuda.h>

#include "facts-private.h"

static void
add_identity (Facts *facts, const TarnCudaDevice *device)
{
  facts->section = "identity";
  facts_add_text (facts, "name", "Name", device->name);
  facts_add_text (facts, "vendor", "Vendor", "NVIDIA Corporation");
  facts_add_text (facts, "type", "Type", "GPU");
  facts_add_text (facts, "platform", "Platform", "CUDA");
  facts_add_text (facts, "uuid", "UUID", device->uuid);
  facts_add_text (facts, "pci", "PCI address", device->pci);
}

static void
add_memory (Facts *facts, const TarnCudaDevice *device, const TarnCudaDeviceData *data,
            const GError *error)
{
  facts->section = "memory";
  facts_add_number (facts, "global_bytes", "Global", device->bytes > 0 ? FACT_BYTES : FACT_NONE,
                    device->bytes, NULL, NULL);
  facts_add_number (facts, "local_bytes", "Shared by a block", FACT_BYTES, data->shared_per_block,
                    NULL, error != NULL ? g_error_copy (error) : NULL);
  facts_add_number (facts, "local_optin_bytes", "... if it opts in", FACT_BYTES,
                    data->shared_per_block_optin, NULL,
                    error != NULL ? g_error_copy (error) : NULL);
}

static void
add_execution (Facts *facts, const TarnCudaDeviceData *data, const GError *error)
{
  Fact *fact;

  facts->section = "execution";
  facts_add_number (facts, "max_work_group_size", "Largest block", FACT_NUMBER,
                    data->max_threads_per_block, NULL, error != NULL ? g_error_copy (error) : NULL);
  facts_add_number (facts, "simd_group_size", "Warp size", FACT_NUMBER, data->warp_size, NULL,
                    error != NULL ? g_error_copy (error) : NULL);
  fact = facts_add (facts, "compute_capability", "Compute capability", FACT_TEXT, NULL,
                    error != NULL ? g_error_copy (error) : NULL);
  fact->text = g_strdup_printf ("%d.%d", data->major, data->minor);
}

/* Adds the numbers from which occupancy is computed. */
static void
add_multiprocessor (Facts *facts, const TarnCudaDeviceData *data, const GError *error)
{
  const struct
  {
    const gchar *key, *label;
    FactType type;
    guint64 number;
  } rows[] = {
    { "warps", "Warps", FACT_NUMBER, data->warps_per_mp },
    { "blocks", "Blocks", FACT_NUMBER, data->blocks_per_mp },
    { "registers", "Registers", FACT_NUMBER, data->registers_per_mp },
    { "registers_per_block", "Registers of a block", FACT_NUMBER, data->registers_per_block },
    { "shared_bytes", "Shared memory", FACT_BYTES, data->shared_per_mp },
    { "shared_reserved_bytes", "... taken for each block", FACT_BYTES,
      data->shared_reserved_per_block },
  };

  facts->section = "multiprocessor";
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    facts_add_number (facts, rows[i].key, rows[i].label, rows[i].type, rows[i].number, NULL,
                      error != NULL ? g_error_copy (error) : NULL);
}

void
facts_add_cuda (GPtrArray *list, const Device *device)
{
  const TarnCudaDevice *found = device->cuda;
  Facts facts = { list, NULL };
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  g_autoptr (GError) error = NULL;

  tarn_cuda_device_data_init (&data, found->device, &error);
  add_identity (&facts, found);
  add_memory (&facts, found, &data, error);
  add_execution (&facts, &data, error);
  add_multiprocessor (&facts, &data, error);
}
