/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queue functions of the allocator that guarded.c puts between a debugged pool and its upstream
 * allocator.  Each function calls the same function of the backend. */

#include "debug/debug-private.h"

#define DIRECT(user_data) (((TarnGuarded *) (user_data))->direct)
#define CALL(user_data, func, ...) _tarn_call (DIRECT (user_data), func, __VA_ARGS__)

static gboolean
guarded_queue_ref (gpointer user_data, gpointer queue, gboolean *in_order, GError **error)
{
  return CALL (user_data, queue_ref, queue, in_order, error);
}

static void
guarded_queue_unref (gpointer user_data, gpointer queue)
{
  CALL (user_data, queue_unref, queue);
}

static gpointer
guarded_event_record (gpointer user_data, gpointer queue, GError **error)
{
  return CALL (user_data, event_record, queue, error);
}

static gboolean
guarded_event_is_done (gpointer user_data, gpointer event)
{
  return CALL (user_data, event_is_done, event);
}

static gboolean
guarded_event_wait (gpointer user_data, gpointer event, gpointer queue, GError **error)
{
  return CALL (user_data, event_wait, event, queue, error);
}

static void
guarded_event_release (gpointer user_data, gpointer event)
{
  CALL (user_data, event_release, event);
}

static gpointer
guarded_event_record_all (gpointer user_data, GError **error)
{
  return CALL (user_data, event_record_all, error);
}

static gpointer
guarded_fresh_queue (gpointer user_data)
{
  return _tarn_call_plain (DIRECT (user_data), fresh_queue);
}

static gboolean
guarded_check_queue (gpointer user_data, gpointer queue, GError **error)
{
  return CALL (user_data, check_queue, queue, error);
}

void
_tarn_guarded_set_queue_functions (TarnAllocatorOps *ops, const TarnAllocatorOps *direct)
{
  if (direct->queue_ref == NULL)
    return;
  ops->queue_ref = guarded_queue_ref;
  ops->queue_unref = guarded_queue_unref;
  ops->event_record = guarded_event_record;
  ops->event_is_done = guarded_event_is_done;
  ops->event_wait = guarded_event_wait;
  ops->event_release = guarded_event_release;
  ops->event_record_all = direct->event_record_all != NULL ? guarded_event_record_all : NULL;
  ops->fresh_queue = direct->fresh_queue != NULL ? guarded_fresh_queue : NULL;
  ops->check_queue = direct->check_queue != NULL ? guarded_check_queue : NULL;
}
