/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Bank conflicts of local memory.
 */

#ifndef TARN_LOCAL_MEMORY_H
#define TARN_LOCAL_MEMORY_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * The banks of a device's local memory. CUDA calls it shared memory. Work items that access
 * different places in one bank at the same time have to take turns.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnLocalMemory), as TARN_LOCAL_MEMORY_INIT sets it */
  guint bank_count;  /**< how many banks there are, at least 1 */
  guint bank_bytes;  /**< how many bytes in a row are in the same bank, at least 1 */
  guint work_items;  /**< how many work items access the memory at the same time */
  guint reserved;    /**< for later: 0 */
} TarnLocalMemory;

/**
 * A TarnLocalMemory to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_LOCAL_MEMORY_INIT                                                                     \
  {                                                                                                \
    sizeof (TarnLocalMemory), /* struct_size */                                                    \
        0,                    /* bank_count */                                                     \
        0,                    /* bank_bytes */                                                     \
        0,                    /* work_items */                                                     \
        0                     /* reserved */                                                       \
  }

guint tarn_local_memory_conflict (const TarnLocalMemory *memory, gsize item_size, guint rank,
                                  const gsize *shape, const gsize *stored_shape, gint *axis,
                                  gint *bank, gchar **explanation);

G_END_DECLS

#endif
