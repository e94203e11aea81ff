/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mistakes of programs with blocks, such as out-of-bounds writes: TARN_DEBUG must find each one,
 * and name its block. */

#ifndef T_LIB_MISTAKES_H
#define T_LIB_MISTAKES_H

#include <tarn/tarn.h>

/* A kind of memory. */
typedef struct
{
  /* Makes a pool. */
  TarnPool *(*pool_new) (gpointer state, const TarnPoolOptions *options);
  /* Writes a byte by a command, at an offset in memory, which may be outside a block's; waits. */
  void (*put) (gpointer state, TarnMemory memory, gssize offset, guint8 byte);
  /* Reads one. */
  guint8 (*get) (gpointer state, TarnMemory memory, gssize offset);
  gboolean has_gaps; /* there is nothing behind a block of so many times 512 bytes */
} MistakesMemory;

/* The value that TARN_DEBUG must have before the first call of Tarn. */
#define MISTAKES_TARN_DEBUG "guards,poison,leaks,check=7"

typedef struct
{
  const gchar *path;
  void (*func) (const MistakesMemory *memory, gpointer state);
} Mistake;

extern const Mistake mistakes[];
extern const gsize n_mistakes;

#endif
