/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recording a program that does not ask for it: TARN_TRACE.  None of this is read in a set-user-ID
 * program. */

#define _GNU_SOURCE 1 /* secure_getenv () */

#include <stdlib.h>
#include <tarn/trace.h>
#include <unistd.h>

#include "record/record-private.h"

/* Has %p be the number of the process. */
static gchar *
expand (const gchar *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "%p", -1);
  g_autofree gchar *number = g_strdup_printf ("%ld", (glong) getpid ());

  return g_strjoinv (number, parts);
}

static void
begin (void)
{
  const gchar *path = secure_getenv ("TARN_TRACE");
  const gchar *depth = secure_getenv ("TARN_TRACE_STACKS");
  TarnTraceOptions usual = TARN_TRACE_OPTIONS_INIT;
  TarnRecordOptions options = { .buffer_bytes = usual.buffer_bytes };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *file = NULL;
  guint64 number = 0;

  if (path == NULL || path[0] == '\0')
    return;
  if (depth != NULL
      && !g_ascii_string_to_unsigned (depth, 10, 0, TARN_TRACE_MAX_STACK_DEPTH, &number, NULL))
    g_message ("TARN_TRACE_STACKS is '%s', but must be from 0 to %d: no stacks are recorded", depth,
               TARN_TRACE_MAX_STACK_DEPTH);
  options.stack_depth = (guint) number;
  file = expand (path);
  if (_tarn_record_start (file, &options, &error))
    __atomic_store_n (&_tarn_is_following, 1, __ATOMIC_SEQ_CST);
  else
    g_message ("TARN_TRACE: %s", error->message);
}

void
_tarn_record_from_environment (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once (&once, begin);
}
