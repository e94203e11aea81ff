/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists the names that tarn-trace prints. */

#include "names.h"

#include <tarn/error.h>

#include "common/trace-names-private.h"
#include "decode.h"

static const gchar *const kinds[TARN_TRACE_N_KINDS] = {
  [TARN_TRACE_STRING] = "string",
  [TARN_TRACE_FRAME] = "frame",
  [TARN_TRACE_STACK] = "stack",
  [TARN_TRACE_THREAD] = "thread",
  [TARN_TRACE_USE] = "use",
  [TARN_TRACE_QUEUE] = "queue",
  [TARN_TRACE_TAG] = "tag",
  [TARN_TRACE_SET_STACK] = "set-stack",
  [TARN_TRACE_OBJECT] = "object",
  [TARN_TRACE_END] = "end",
  [TARN_TRACE_STATS] = "stats",
  [TARN_TRACE_BLOCK] = "block",
  [TARN_TRACE_HIT] = "hit",
  [TARN_TRACE_MISS] = "miss",
  [TARN_TRACE_LENT] = "lent",
  [TARN_TRACE_FAIL] = "fail",
  [TARN_TRACE_FREE] = "free",
  [TARN_TRACE_GONE] = "gone",
  [TARN_TRACE_ALLOCATED] = "allocated",
  [TARN_TRACE_FREED] = "freed",
  [TARN_TRACE_MARK] = "mark",
  [TARN_TRACE_WAIT] = "wait",
  [TARN_TRACE_RECORD_USE] = "record-use",
  [TARN_TRACE_MOVE] = "move",
  [TARN_TRACE_FORGET] = "forget",
  [TARN_TRACE_TRIM] = "trim",
  [TARN_TRACE_LIMIT] = "limit",
  [TARN_TRACE_RECLAIM] = "reclaim",
  [TARN_TRACE_OUT_OF_MEMORY] = "out-of-memory",
  [TARN_TRACE_PIECE] = "piece",
  [TARN_TRACE_PIECE_GONE] = "piece-gone",
  [TARN_TRACE_PIECE_MOVED] = "piece-moved",
  [TARN_TRACE_EXTENT] = "extent",
  [TARN_TRACE_EXTENT_FREE] = "extent-free",
  [TARN_TRACE_PART] = "part",
  [TARN_TRACE_LOST] = "lost",
  [TARN_TRACE_LIMIT_REACHED] = "limit-reached",
  [TARN_TRACE_NESTED] = "nested",
  [TARN_TRACE_STOP] = "stop",
  [TARN_TRACE_MODULE] = "module",
};

static const gchar *const errors[] = {
  [TARN_ERROR_OUT_OF_MEMORY] = "out-of-memory",
  [TARN_ERROR_INVALID_SIZE] = "invalid-size",
  [TARN_ERROR_INVALID_ARGUMENT] = "invalid-argument",
  [TARN_ERROR_INVALID_SELECTION] = "invalid-selection",
  [TARN_ERROR_NO_DEVICE] = "no-device",
  [TARN_ERROR_NO_DRIVER] = "no-driver",
  [TARN_ERROR_NO_CONTEXT] = "no-context",
  [TARN_ERROR_NOT_SUPPORTED] = "not-supported",
  [TARN_ERROR_LIMIT] = "limit",
  [TARN_ERROR_CONTEXT_LOST] = "context-lost",
  [TARN_ERROR_FORKED] = "forked",
  [TARN_ERROR_RECURSION] = "recursion",
  [TARN_ERROR_FAILED] = "failed",
};

const gchar *
name_kind (TarnTraceKind kind)
{
  g_assert (kind > 0 && kind < TARN_TRACE_N_KINDS);
  return kinds[kind];
}

gboolean
name_find_kind (const gchar *name, TarnTraceKind *kind)
{
  for (guint i = 1; i < TARN_TRACE_N_KINDS; i++)
    if (decode_is_returned ((TarnTraceKind) i) && g_str_equal (kinds[i], name))
      {
        *kind = (TarnTraceKind) i;
        return TRUE;
      }
  return FALSE;
}

const gchar *
name_class (TarnTraceClass object_class)
{
  const gchar *name = _tarn_trace_name_class (object_class);

  g_assert (name != NULL);
  return name;
}

const gchar *
name_property (guint32 property)
{
  return _tarn_trace_name_property (property);
}

const gchar *
name_error (guint64 error)
{
  return error > 0 && error <= G_N_ELEMENTS (errors) ? errors[error - 1] : NULL;
}
