/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Wraps the backend's functions for queues and for events.  (Events order the commands of different
 * queues.)  If a function of the backend fails without setting an error, its wrapper sets one. */

#include "allocator/allocator-private.h"
#include "record/record-private.h"

/* Sets an error if @succeeded is FALSE and the backend's function @function has set none.  Returns
 * @succeeded. */
static gboolean
ensure_error (const TarnAllocator *direct, const gchar *function, gboolean succeeded,
              GError **error)
{
  if (!succeeded && error != NULL && *error == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%s () of %s failed without saying why",
                 function, direct->label);
  return succeeded;
}

/* Asks the backend to keep a queue alive until _tarn_allocator_unref_queue ().  (Some drivers
 * cannot keep a queue alive.)  Sets *in_order to TRUE if the queue runs its commands in order.
 * Returns FALSE with an error if the backend has no functions for queues, or refuses this queue. */
gboolean
_tarn_allocator_ref_queue (const TarnAllocator *direct, gpointer queue, gboolean *in_order,
                           GError **error)
{
  if (direct->ops.queue_ref == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "%s knows nothing of queues",
                   direct->label);
      return FALSE;
    }
  *in_order = FALSE;
  return ensure_error (direct, "queue_ref",
                       _tarn_call_queue (direct, queue_ref, queue, in_order, error), error);
}

/* Tells the backend that it need not keep a queue alive any longer. */
void
_tarn_allocator_unref_queue (const TarnAllocator *direct, gpointer queue)
{
  _tarn_call_queue (direct, queue_unref, queue);
}

/* Asks the backend whether it can allocate memory for a queue now.  Returns FALSE with an error if
 * it cannot. */
gboolean
_tarn_allocator_check_queue (const TarnAllocator *direct, gpointer queue, GError **error)
{
  return direct->ops.check_queue == NULL
         || ensure_error (direct, "check_queue",
                          _tarn_call_queue (direct, check_queue, queue, error), error);
}

/* Returns the queue whose commands make the backend's newly allocated memory ready for use.
 * Returns NULL if new memory is ready at once. */
gpointer
_tarn_allocator_get_fresh_queue (const TarnAllocator *direct)
{
  if (direct->ops.fresh_queue == NULL)
    return NULL;
  _tarn_assert_may_call ();
  return direct->ops.fresh_queue (direct->queue_data);
}

/* Records an event on a queue.  Returns NULL with an error on failure.  @is_named is TRUE if the
 * program names the queue in the current call.  If it is FALSE, the program may have destroyed the
 * queue.  Then a backend that cannot keep queues alive does not touch the queue, and records the
 * event on all its queues instead. */
gpointer
_tarn_allocator_record_event (const TarnAllocator *direct, gpointer queue, gboolean is_named,
                              GError **error)
{
  guint64 start = _tarn_record_begin_call ();
  gboolean records_all = !is_named && direct->ops.event_record_all != NULL;
  gpointer event = records_all ? _tarn_call_queue (direct, event_record_all, error)
                               : _tarn_call_queue (direct, event_record, queue, error);

  TARN_EVENT_SINCE (start, mark, TARN_TRACE_MARK, direct->id, GPOINTER_TO_SIZE (queue));
  ensure_error (direct, records_all ? "event_record_all" : "event_record", event != NULL, error);
  return event;
}

/* Makes a queue (NULL: the host) wait for an event. */
gboolean
_tarn_allocator_wait (const TarnAllocator *direct, gpointer event, gpointer queue, GError **error)
{
  guint64 start = _tarn_record_begin_call ();
  gboolean has_waited = _tarn_call_queue (direct, event_wait, event, queue, error);

  TARN_EVENT_SINCE (start, wait, TARN_TRACE_WAIT, direct->id, GPOINTER_TO_SIZE (queue));
  return ensure_error (direct, "event_wait", has_waited, error);
}
