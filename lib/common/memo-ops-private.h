/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the functions of a backend's memo, a cache of results for a first argument and a key.  The
 * backend sets the functions for first arguments; the program sets those for keys and values. */

#ifndef TARN_MEMO_OPS_PRIVATE_H
#define TARN_MEMO_OPS_PRIVATE_H

#include <tarn/memo.h>

#include "common/struct-private.h"

/* Copies the program's functions, @theirs (NULL: none), to @ours.  The backend then adds its own.
 * Returns FALSE if @theirs is invalid, or sets functions for first arguments. */
static inline gboolean
_tarn_memo_ops_read (TarnMemoOps *ours, const TarnMemoOps *theirs)
{
  *ours = (TarnMemoOps) TARN_MEMO_OPS_INIT;
  return theirs == NULL
         || (_tarn_struct_read (ours, sizeof *ours, theirs) && ours->ref_first_arg == NULL
             && ours->unref_first_arg == NULL && ours->first_arg_id == NULL
             && ours->current_first_arg == NULL);
}

#endif
