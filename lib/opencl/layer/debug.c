/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks of the program's buffers, if TARN_DEBUG is set.  After a buffer was released, the layer
 * checks its contents by commands on a queue of the layer's own, and waits for these commands.  But
 * the layer may learn in a callback from the driver that a buffer is no longer used, and a callback
 * must not wait.  So a thread of the layer, the debug thread, checks and frees the buffers.  The
 * program's commands never delay this thread, because no command uses these buffers any more.
 *
 * Until the debug thread has freed a released buffer, this file keeps the buffer in a table, and
 * reports calls of the program that use the buffer.
 *
 * The mutex @lock guards all variables of this file that are not atomic.  Invariant: n_left is the
 * number of tasks in @tasks, plus 1 while the debug thread runs a task. */

#include "layer-private.h"

#include <stdlib.h>
#include <tarn/debug.h>

/* A task: a function that the debug thread calls. */
typedef struct
{
  void (*func) (gpointer data);
  gpointer data;
} LayerTask;

static TarnMutex lock = TARN_MUTEX_INIT;
static TarnCond changed = TARN_COND_INIT;
static GQueue tasks = G_QUEUE_INIT; /* a queue that owns each LayerTask, the oldest first */
static gboolean has_thread;
/* The contexts whose buffers are checked.  The array has no references to them.  NULL until the
 * first context is added. */
static GPtrArray *contexts;
static guint n_left; /* the number of tasks that are not done */

/* Waits until there is a task, and takes the oldest one. */
static LayerTask *
pop_task (void)
{
  TARN_LOCKED (&lock);

  while (tasks.length == 0)
    _tarn_cond_wait (&changed, &lock);
  return g_queue_pop_head (&tasks);
}

/* Counts a task as done. */
static void
note_done (void)
{
  TARN_LOCKED (&lock);

  g_assert (n_left > tasks.length);
  n_left--;
  _tarn_cond_broadcast (&changed);
}

/* The function of the debug thread: waits for tasks, and runs each. */
static gpointer G_GNUC_NORETURN
do_tasks (gpointer unused)
{
  (void) unused;
  while (TRUE)
    {
      g_autofree LayerTask *task = pop_task ();

      task->func (task->data);
      note_done ();
    }
}

/* Adds a task, and starts the debug thread if it does not run yet.  Returns FALSE if the thread
 * cannot be started. */
static gboolean
push_task (LayerTask *task)
{
  TARN_LOCKED (&lock);

  if (!has_thread)
    {
      GThread *thread = g_thread_try_new ("tarn-layer-debug", do_tasks, NULL, NULL);

      if (thread == NULL)
        return FALSE;
      g_thread_unref (thread);
      has_thread = TRUE;
    }
  g_queue_push_tail (&tasks, task);
  n_left++;
  g_assert (n_left == tasks.length || n_left == tasks.length + 1);
  _tarn_cond_broadcast (&changed);
  return TRUE;
}

void
_tarn_layer_debug_defer (void (*func) (gpointer data), gpointer data)
{
  LayerTask *task;

  if (!tarn_check_fork (NULL))
    return;
  task = g_new (LayerTask, 1);
  *task = (LayerTask){ func, data };
  if (push_task (task))
    return;
  g_free (task);
  func (data);
}

gboolean
_tarn_layer_debug_drain (gint64 max_wait)
{
  gint64 end = g_get_monotonic_time () + max_wait;
  TARN_LOCKED (&lock);

  while (n_left > 0)
    if (!_tarn_cond_wait_until (&changed, &lock, end))
      return FALSE;
  return TRUE;
}

/* If the debug thread has more than FEW_TASKS tasks, a request for a buffer waits, for at most
 * MAX_WAIT microseconds.  Without this wait, several threads could release buffers faster than the
 * debug thread checks and frees them. */
#define FEW_TASKS 32
#define MAX_WAIT (G_TIME_SPAN_SECOND / 10)

void
_tarn_layer_debug_keep_up (void)
{
  gint64 end = g_get_monotonic_time () + MAX_WAIT;
  TARN_LOCKED (&lock);

  while (n_left > FEW_TASKS && _tarn_cond_wait_until (&changed, &lock, end))
    ;
}

gboolean
_tarn_layer_is_debugged (const LayerContext *context)
{
  return __atomic_load_n (&context->is_debugged, __ATOMIC_ACQUIRE);
}

/* Returns references to the contexts whose buffers are checked. */
static GPtrArray *
list_contexts (void)
{
  TARN_LOCKED (&lock);
  GPtrArray *list = g_ptr_array_new_with_free_func (_tarn_layer_unref);

  for (guint i = 0; i < contexts->len; i++)
    if (_tarn_layer_try_ref (g_ptr_array_index (contexts, i)))
      g_ptr_array_add (list, g_ptr_array_index (contexts, i));
  return list;
}

/* Checks all buffers at exit, also those that are still in use, before Tarn reports leaks.  First
 * waits for all commands and for the debug thread. */
static void
look_at_exit (void)
{
  GPtrArray *list;

  if (!tarn_check_fork (NULL))
    return;
  list = list_contexts ();
  for (guint i = 0; i < list->len; i++)
    _tarn_layer_context_finish (g_ptr_array_index (list, i));
  g_ptr_array_unref (list);
  while (!_tarn_layer_debug_drain (G_TIME_SPAN_MINUTE))
    ;
  tarn_debug_check ();
}

/* Registers the check that runs at exit. */
static void
watch_exit (void)
{
  atexit (look_at_exit);
}

void
_tarn_layer_debug_begin (LayerContext *context)
{
  static TarnOnce once = TARN_ONCE_INIT;
  TARN_LOCKED (&lock);

  /* Exit functions run in the reverse order of their registration.  The driver and Tarn have
   * already registered theirs, so look_at_exit () runs first. */
  _tarn_once (&once, watch_exit);
  if (_tarn_layer_is_debugged (context))
    return;
  if (contexts == NULL)
    contexts = g_ptr_array_new ();
  g_ptr_array_add (contexts, context);
  __atomic_store_n (&context->is_debugged, TRUE, __ATOMIC_RELEASE);
}

void
_tarn_layer_debug_end (LayerContext *context)
{
  TARN_LOCKED (&lock);

  g_ptr_array_remove_fast (contexts, context);
}

/* After a check of all guard bytes, the layer makes no such check for a time that is CHECK_SHARE
 * times as long as the check took.  So checks take less than 1 / CHECK_SHARE of the time. */
#define CHECK_SHARE 8

void
_tarn_layer_debug_check_guards (const LayerContext *context)
{
  static gint64 next; /* atomic: monotonic time of the next check */
  gint64 begin = g_get_monotonic_time (), end, expected;

  expected = __atomic_load_n (&next, __ATOMIC_RELAXED);
  /* The exchange lets only one thread at a time check the guard bytes. */
  if (!_tarn_layer_is_debugged (context) || begin < expected
      || !__atomic_compare_exchange_n (&next, &expected, G_MAXINT64, FALSE, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED))
    return;
  tarn_debug_check ();
  end = g_get_monotonic_time ();
  __atomic_store_n (&next, end + CHECK_SHARE * (end - begin), __ATOMIC_RELEASE);
}

/* The released buffers whose memory the layer has not freed yet.  The keys are the handles.  The
 * table has no references to the buffers.  NULL until a buffer with checks is released. */
static GHashTable *ended;
/* TRUE once the layer has made the table @ended.  Atomic, because calls read it without the lock.
 */
static gboolean has_ended;

/* Adds a released buffer to the table. */
static void
add_ended (LayerBuffer *buffer)
{
  TARN_LOCKED (&lock);

  if (ended == NULL)
    ended = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (ended, buffer->base.handle, buffer);
  __atomic_store_n (&has_ended, TRUE, __ATOMIC_RELEASE);
}

void
_tarn_layer_debug_note_end (LayerBuffer *buffer)
{
  if (buffer->block == NULL || !_tarn_layer_is_debugged (buffer->context)
      || !tarn_check_fork (NULL))
    return;
  tarn_debug_note_free (buffer->block);
  add_ended (buffer);
}

/* Removes a buffer from the table, and waits until no report about the buffer is being made. */
static void
remove_ended (LayerBuffer *buffer)
{
  TARN_LOCKED (&lock);

  if (g_hash_table_lookup (ended, buffer->base.handle) != buffer)
    return;
  g_hash_table_remove (ended, buffer->base.handle);
  while (buffer->n_reports > 0)
    _tarn_cond_wait (&changed, &lock);
}

void
_tarn_layer_debug_forget_end (LayerBuffer *buffer)
{
  if (__atomic_load_n (&has_ended, __ATOMIC_ACQUIRE))
    remove_ended (buffer);
}

/* Finds a released buffer, and keeps its block from being freed until end_report (). */
static LayerBuffer *
begin_report (cl_mem handle)
{
  TARN_LOCKED (&lock);
  LayerBuffer *buffer = g_hash_table_lookup (ended, handle);

  if (buffer != NULL)
    buffer->n_reports++;
  return buffer;
}

static void
end_report (LayerBuffer *buffer)
{
  TARN_LOCKED (&lock);

  buffer->n_reports--;
  _tarn_cond_broadcast (&changed);
}

gboolean
_tarn_layer_debug_report_use (cl_mem handle)
{
  LayerBuffer *buffer;

  if (handle == NULL || !__atomic_load_n (&has_ended, __ATOMIC_ACQUIRE) || !tarn_check_fork (NULL))
    return FALSE;
  buffer = begin_report (handle);
  if (buffer == NULL)
    return FALSE;
  tarn_debug_report_use (buffer->block);
  end_report (buffer);
  return TRUE;
}
