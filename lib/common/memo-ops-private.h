/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the functions that a program gives when it makes a memo of a backend.  A memo caches the
 * values of a function that has two arguments: a first argument, such as a context, and a key.  The
 * program gives functions that handle keys and values: one that compares keys, for example.  The
 * backend adds the functions that handle first arguments. */

#ifndef TARN_MEMO_OPS_PRIVATE_H
#define TARN_MEMO_OPS_PRIVATE_H

#include <tarn/memo.h>

#include "common/struct-private.h"

/* Copies the program's functions from @theirs to @ours.  If the program gives none, @theirs is
 * NULL, and @ours gets the defaults.  Returns FALSE if _tarn_struct_read () refuses @theirs, or if
 * @theirs sets a field for first arguments, such as first_arg_kind or ref_first_arg.  Only the
 * backend may set these fields. */
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
