/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * One call each of a backend's ordering functions.  A failure has an error, whatever the backend
 * forgot to say. */

#include "allocator/allocator-private.h"

static gboolean
explain (const TarnAllocator *direct, const gchar *function, gboolean succeeded, GError **error)
{
  if (!succeeded && error != NULL && *error == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED,
                 "%s () of allocator '%s' failed without saying why", function, direct->ops.name);
  return succeeded;
}

gboolean
_tarn_allocator_ref_queue (const TarnAllocator *direct, gpointer queue, gboolean *in_order,
                           GError **error)
{
  if (direct->ops.queue_ref == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "allocator '%s' knows nothing of queues", direct->ops.name);
      return FALSE;
    }
  *in_order = FALSE;
  return explain (direct, "queue_ref",
                  direct->ops.queue_ref (direct->user_data, queue, in_order, error), error);
}

void
_tarn_allocator_unref_queue (const TarnAllocator *direct, gpointer queue)
{
  direct->ops.queue_unref (direct->user_data, queue);
}

gboolean
_tarn_allocator_check_queue (const TarnAllocator *direct, gpointer queue, GError **error)
{
  return direct->ops.check_queue == NULL
         || explain (direct, "check_queue",
                     direct->ops.check_queue (direct->user_data, queue, error), error);
}

/* Not every backend can keep a queue alive, and then only one that the caller names is asked. */
gpointer
_tarn_allocator_mark (const TarnAllocator *direct, gpointer queue, gboolean is_named,
                      GError **error)
{
  gboolean marks_all = !is_named && direct->ops.mark_all != NULL;
  gpointer mark = marks_all ? direct->ops.mark_all (direct->user_data, error)
                            : direct->ops.mark (direct->user_data, queue, error);

  explain (direct, marks_all ? "mark_all" : "mark", mark != NULL, error);
  return mark;
}

gboolean
_tarn_allocator_wait (const TarnAllocator *direct, gpointer mark, gpointer queue, GError **error)
{
  return explain (direct, "wait", direct->ops.wait (direct->user_data, mark, queue, error), error);
}
