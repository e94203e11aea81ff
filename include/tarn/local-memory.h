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

/**
 * Computes how often accesses to local memory have to take turns. They are those of neighbouring
 * work items to neighbouring elements of an array, along the axis where it is worst. PyOpenCL calls
 * this why_not_local_access_conflict_free.
 *
 * @param memory        how the memory is accessed; start from TARN_LOCAL_MEMORY_INIT
 * @param item_size     bytes of an element; the answer is exact for memory->bank_bytes
 * @param rank          axes, at least 1
 * @param shape         elements along each axis, in C order, at least 1
 * @param stored_shape  nullable: @p shape; the elements that there is room for along each axis
 * @param axis          out, nullable: the axis of the worst conflict, counted from the right from 0
 *                      on; -1 if there is none
 * @param bank          out, nullable: its bank; -1 if there is none
 * @param explanation   out, nullable, (transfer full): which work items access that bank, for
 *                      g_free(); NULL if there is no conflict
 * @return the multiplicity, 1 if there is no conflict; 0 only after a programming error. Any thread
 *         may call it.
 * @since 0.1
 */
guint tarn_local_memory_conflict (const TarnLocalMemory *memory, gsize item_size, guint rank,
                                  const gsize *shape, const gsize *stored_shape, gint *axis,
                                  gint *bank, gchar **explanation);

G_END_DECLS

#endif
