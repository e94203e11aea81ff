/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the functions that a program gives for a backend's memo.  (A memo caches results, each for
 * a key and a first argument, such as a context.)  The program gives the functions for keys and
 * values.  The backend adds the functions for first arguments. */

#ifndef TARN_MEMO_OPS_PRIVATE_H
#define TARN_MEMO_OPS_PRIVATE_H

#include <tarn/memo.h>

#include "common/struct-private.h"

/* Copies the program's functions from @theirs to @ours.  @theirs: NULL if the program gives none.
 * Returns FALSE if @theirs is invalid, or has a kind of first arguments or functions for them,
 * because only the backend gives these. */
static inline gboolean
_tarn_memo_ops_read (TarnMemoOps *ours, const TarnMemoOps *theirs)
{
  *ours = (TarnMemoOps) TARN_MEMO_OPS_INIT;
  return theirs == NULL
         || (_tarn_struct_read (ours, sizeof *ours, theirs) && ours->first_arg_kind == NULL
             && ours->ref_first_arg == NULL && ours->unref_first_arg == NULL
             && ours->first_arg_id == NULL && ours->current_first_arg == NULL);
}

#endif
