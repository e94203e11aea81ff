/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings: their start and end by the program. */

#include <tarn/error.h>
#include <tarn/trace.h>

#include "allocator/allocator-private.h"
#include "base/fork-private.h"
#include "common/struct-private.h"
#include "record/record-private.h"

/* Makes all allocators record their state and trace their blocks, or stop. */
static void
follow (gboolean follows)
{
  if (_tarn_follow (TARN_FOLLOW_FOR_RECORDING, follows) || follows)
    _tarn_allocators_describe ();
}

/**
 * Begins to record what all pools, heaps and allocators of the process do. In the file are requests
 * and frees, with their times, threads, queues and tags; calls of drivers and waits, with how long
 * they took; what heaps do with their memory; and first what there is already. tarn-trace prints
 * it, tarn-view draws it, and tarn-bench tries it on other pools; the guide describes its form.
 *
 * Threads write to memory, and one thread of the library's to the file, ten times a second at
 * least, so that a program which crashes leaves all but the last tenth of a second. While events
 * are recorded, a request that a thread's own blocks serve takes about 50 ns more. The recording
 * ends with tarn_trace_stop(), or with the program. A child of fork () does not go on with it.
 *
 * Without a call in the program: TARN_TRACE=FILE in its environment, where %p is the number of the
 * process; and TARN_TRACE_STACKS=DEPTH. They are not read in a set-user-ID program.
 *
 * @param path     the file, which is made empty if it is there, and which only its owner may read
 *                 if it is not; no symbolic link
 * @param options  nullable: the defaults; start from TARN_TRACE_OPTIONS_INIT
 * @param error    return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_INVALID_ARGUMENT
 *                 if something is recorded already, by another process if it is to the same file,
 *                 or for an option outside its range or one that this version of the library does
 *                 not have; TARN_ERROR_FORKED in a child of fork ()
 * @return whether it has begun; any thread may call it
 * @since 0.1
 */
gboolean
tarn_trace_start (const gchar *path, const TarnTraceOptions *options, GError **error)
{
  TarnTraceOptions known = TARN_TRACE_OPTIONS_INIT;
  TarnRecordOptions chosen;

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
  chosen
      = (TarnRecordOptions){ .buffer_bytes = known.buffer_bytes, .stack_depth = known.stack_depth };
  if (!_tarn_record_start (path, &chosen, error))
    return FALSE;
  follow (TRUE);
  return TRUE;
}

/**
 * Ends what tarn_trace_start(), or TARN_TRACE, began. All is in the file then, with the counters of
 * all pools and heaps at the end.
 *
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if nothing is recorded;
 *               G_FILE_ERROR if something could not be written; TARN_ERROR_FORKED in a child of
 *               fork ()
 * @return whether all that was recorded is in the file; tarn_trace_get_stats() tells what was lost.
 *         Any thread may call it.
 * @since 0.1
 */
gboolean
tarn_trace_stop (GError **error)
{
  gboolean is_stopped;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  is_stopped = _tarn_record_stop (error);
  if (!_tarn_forked ()
      && !_tarn_records ()) /* in a child of fork (), another thread may have held the locks */
    follow (FALSE);
  return is_stopped;
}

/**
 * Stores the counters of the recording that goes on, or else of the last one.
 *
 * @param stats  out: start from TARN_TRACE_STATS_INIT, whose struct_size says how much is filled.
 *               Any thread may call it; in a child of fork () nothing is stored.
 * @since 0.1
 */
void
tarn_trace_get_stats (TarnTraceStats *stats)
{
  TarnRecordStats known;
  TarnTraceStats now = TARN_TRACE_STATS_INIT;

  g_return_if_fail (_tarn_struct_has_size (stats));

  if (_tarn_forked ())
    return;
  _tarn_record_get_stats (&known);
  now.events = known.events;
  now.lost_events = known.lost;
  now.written_bytes = known.written_bytes;
  _tarn_struct_write (stats, &now, sizeof now);
}
