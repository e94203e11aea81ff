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
 * The banks of a device's local memory (in CUDA: shared). Work items that access
 * different places in one bank at the same time have to take turns.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnLocalMemory), as TARN_LOCAL_MEMORY_INIT sets it */
  guint bank_count;  /**< the number of banks, at least 1 */
  guint bank_bytes;  /**< the number of adjacent bytes in one bank, at least 1 */
  guint work_items;  /**< the number of work items that access the memory together */
  guint reserved;    /**< for later versions: 0 */
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
 * Computes how many accesses to local memory have to take turns. Neighbouring work items access
 * neighbouring elements of an array. The function checks the accesses along each axis, and finds
 * the worst conflict. PyOpenCL calls this why_not_local_access_conflict_free.
 *
 * @param memory        the banks, and the number of work items; start from TARN_LOCAL_MEMORY_INIT
 * @param item_size     bytes of an element; the result is exact if this is memory->bank_bytes
 * @param rank          the number of axes, at least 1
 * @param shape         the elements along each axis, in C order, at least 1
 * @param stored_shape  nullable: the elements along each axis including padding; NULL: the same as
 *                      @p shape
 * @param axis          out, nullable: the axis of the worst conflict; the rightmost axis is 0; -1
 *                      if there is no conflict
 * @param bank          out, nullable: the bank of the worst conflict; -1 if there is none
 * @param explanation   out, nullable, (transfer full): a text that lists the work items which
 *                      access this bank, for g_free(); NULL if there is no conflict
 * @return the number of accesses to the bank that take turns, 1 if there is no conflict; 0 only
 *         after a programming error. Any thread may call it.
 * @since 0.1
 */
guint tarn_local_memory_conflict (const TarnLocalMemory *memory, gsize item_size, guint rank,
                                  const gsize *shape, const gsize *stored_shape, gint *axis,
                                  gint *bank, gchar **explanation);

G_END_DECLS

#endif
