/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads environment variables by which a user records an unmodified program.  TARN_TRACE makes Tarn
 * record the program's events, and TARN_SNAPSHOT_ON_OOM makes Tarn write a snapshot when the
 * program runs out of memory.  Ignores these variables in a set-user-ID program. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <stdlib.h>
#include <tarn/trace.h>
#include <unistd.h>

#include "base/message-private.h"
#include "common/shorten-private.h"
#include "common/variable-private.h"
#include "record/record-private.h"

static gchar *snapshot_path; /* the value of TARN_SNAPSHOT_ON_OOM; constant after begin () */

gchar *
_tarn_path_expand (const gchar *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "%p", -1);
  g_autofree gchar *number = g_strdup_printf ("%ld", (glong) getpid ());

  return g_strjoinv (number, parts);
}

static guint
read_depth (void)
{
  const gchar *depth = _tarn_get_variable ("TARN_TRACE_STACKS");
  g_autofree gchar *quoted = NULL;
  guint64 number = 0;

  if (depth == NULL
      || g_ascii_string_to_unsigned (depth, 10, 0, TARN_TRACE_MAX_STACK_DEPTH, &number, NULL))
    return (guint) number;
  quoted = _tarn_shorten (depth);
  _tarn_message ("TARN_TRACE_STACKS is '%s', but must be from 0 to %d: no stacks are recorded",
                 quoted, TARN_TRACE_MAX_STACK_DEPTH);
  return 0;
}

static void
begin_to_record (const gchar *path, guint depth)
{
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_autofree gchar *file = _tarn_path_expand (path);
  g_autoptr (GError) error = NULL;

  options.stack_depth = depth;
  if (_tarn_record_start (file, &options, &error))
    _tarn_follow (TARN_FOLLOW_FOR_RECORDING, TRUE);
  else
    _tarn_message ("TARN_TRACE: %s", error->message);
}

static void
begin (void)
{
  const gchar *path = _tarn_get_variable ("TARN_TRACE");
  guint depth = read_depth ();

  _tarn_stack_set_depth (depth);
  if (path != NULL)
    begin_to_record (path, depth);
  snapshot_path = g_strdup (_tarn_get_variable ("TARN_SNAPSHOT_ON_OOM"));
  if (snapshot_path != NULL)
    _tarn_follow (TARN_FOLLOW_FOR_OUT_OF_MEMORY, TRUE);
}

const gchar *
_tarn_record_get_snapshot_path (void)
{
  return snapshot_path;
}

void
_tarn_record_from_environment (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once_with_messages (&once, begin);
}
