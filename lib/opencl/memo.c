/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos (caches of computed values) whose first argument is an OpenCL context, queue or device.  A
 * memo retains this object as long as the memo stores a value for the object. */

#include "common/memo-ops-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "status-private.h"

#define REFERENCES(name, Noun)                                                                     \
  static gpointer ref_##name (gpointer unused, gpointer object)                                    \
  {                                                                                                \
    (void) unused;                                                                                 \
    if (!_tarn_opencl_load (NULL))                                                                 \
      return NULL;                                                                                 \
    return _tarn_cl.clRetain##Noun (object) == CL_SUCCESS ? object : NULL;                         \
  }                                                                                                \
                                                                                                   \
  static void unref_##name (gpointer unused, gpointer object)                                      \
  {                                                                                                \
    (void) unused;                                                                                 \
    _tarn_opencl_report_release ("clRelease" #Noun, _tarn_cl.clRelease##Noun (object));            \
  }

REFERENCES (context, Context)
REFERENCES (queue, CommandQueue)

static gpointer
ref_device (gpointer unused, gpointer device)
{
  (void) unused;
  return _tarn_opencl_load (NULL) && _tarn_opencl_ref_device (device) ? device : NULL;
}

static void
unref_device (gpointer unused, gpointer device)
{
  (void) unused;
  _tarn_opencl_unref_device (device);
}

/* Fails, because OpenCL has no current object.  A memo calls this function if its first argument is
 * NULL, which stands for the current object, such as CUDA's current context. */
static gpointer
refuse_null (gpointer unused, GError **error)
{
  (void) unused;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                       "NULL is no first argument of a memo of OpenCL's: it has no current one");
  return NULL;
}

static const struct
{
  const gchar *name;
  gpointer (*ref) (gpointer, gpointer);
  void (*unref) (gpointer, gpointer);
} kinds[] = {
  { "opencl-context", ref_context, unref_context },
  { "opencl-queue", ref_queue, unref_queue },
  { "opencl-device", ref_device, unref_device },
};

/* Makes a memo.  The caller's functions handle keys and values.  This file's functions handle the
 * first argument of each lookup, which is an OpenCL object (see kinds). */
static TarnMemo *
memo_new (guint kind, const TarnMemoOps *theirs, TarnMemoFunc func, gpointer user_data,
          GDestroyNotify destroy)
{
  TarnMemoOps ops;
  gboolean has_only_keys_and_values = _tarn_memo_ops_read (&ops, theirs);

  g_return_val_if_fail (has_only_keys_and_values, NULL);

  ops.first_arg_kind = kinds[kind].name;
  ops.ref_first_arg = kinds[kind].ref;
  ops.unref_first_arg = kinds[kind].unref;
  ops.current_first_arg = refuse_null;
  return tarn_memo_new (&ops, func, user_data, destroy);
}

TarnMemo *
tarn_opencl_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                              GDestroyNotify destroy)
{
  return memo_new (0, ops, func, user_data, destroy);
}

TarnMemo *
tarn_opencl_queue_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                            GDestroyNotify destroy)
{
  return memo_new (1, ops, func, user_data, destroy);
}

TarnMemo *
tarn_opencl_device_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                             GDestroyNotify destroy)
{
  return memo_new (2, ops, func, user_data, destroy);
}
