/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A backend's memos know what their first arguments are; keys and values are the caller's. */

#ifndef TARN_MEMO_OPS_PRIVATE_H
#define TARN_MEMO_OPS_PRIVATE_H

#include <tarn/memo.h>

#include "common/struct-private.h"

/* Reads the caller's functions, or none, for a backend to add its own.  FALSE for a struct that
 * cannot be read, and for one that has functions for first arguments. */
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
