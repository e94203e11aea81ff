/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The public functions that start and stop recordings (files with all requests, frees and other
 * events of a program), and get the counters of a recording. */

#include <tarn/error.h>
#include <tarn/trace.h>

#include "allocator/allocator-private.h"
#include "base/fork-private.h"
#include "common/struct-private.h"
#include "record/record-private.h"

/* Starts or stops tracing of blocks for a recording.  While pools trace, they report each request
 * and free.  At the start, also describes all allocators and their blocks in the recording. */
static void
follow (gboolean follows)
{
  if (_tarn_follow (TARN_FOLLOW_FOR_RECORDING, follows) || follows)
    _tarn_allocators_describe ();
}

gboolean
tarn_trace_start (const gchar *path, const TarnTraceOptions *options, GError **error)
{
  TarnTraceOptions known = TARN_TRACE_OPTIONS_INIT;

  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (options != NULL
      && !_tarn_struct_read_or_set_error (&known, sizeof known, options, "TarnTraceOptions", error))
    return FALSE;
  if (known.stack_depth > TARN_TRACE_MAX_STACK_DEPTH)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "stack_depth is %u, but must be from 0 to %d", known.stack_depth,
                   TARN_TRACE_MAX_STACK_DEPTH);
      return FALSE;
    }
  if (!_tarn_record_start (path, &known, error))
    return FALSE;
  follow (TRUE);
  return TRUE;
}

gboolean
tarn_trace_stop (GError **error)
{
  gboolean is_stopped;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  is_stopped = _tarn_record_stop (error);
  /* A child of fork () does not call follow (), which takes locks: threads of the parent may have
   * held these locks at the time of fork (), and nobody releases them in the child. */
  if (!_tarn_forked () && !_tarn_records ())
    follow (FALSE);
  return is_stopped;
}

void
tarn_trace_get_stats (TarnTraceStats *stats)
{
  TarnTraceStats known = TARN_TRACE_STATS_INIT;

  g_return_if_fail (_tarn_struct_has_size (stats));

  if (_tarn_forked ())
    return;
  _tarn_record_get_stats (&known);
  _tarn_struct_write (stats, &known, sizeof known);
}
