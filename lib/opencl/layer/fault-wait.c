/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: a call that would wait for commands still waits for them when fault injection
 * makes the call fail. */

#include "faults-private.h"

/* The longest times, in microseconds, for which a call that fault injection makes fail waits for
 * commands, if the call would also wait without fault injection.  When such a call fails, the
 * program may free the host memory that the commands use.  With a real failure that is safe,
 * because the device is lost and no command runs any more.  With an injected failure the commands
 * still run.
 *
 * MAX_WAIT is the usual limit.  MAX_UNSET_WAIT is the limit while the program has user events that
 * it has not set: a command may wait for such an event, and the program may set the event only
 * after this call, or never. */
#define MAX_WAIT (60 * G_TIME_SPAN_SECOND)
#define MAX_UNSET_WAIT G_TIME_SPAN_SECOND

/* The number of user events that the program has made and not set.  If the program releases a user
 * event without setting it, the event counts for ever. */
static gint n_unset_events;

void
_tarn_layer_fault_count_unset (gint n)
{
  g_atomic_int_add (&n_unset_events, n);
}

static gboolean
is_running (cl_event event)
{
  cl_int state = CL_COMPLETE;

  return BEHIND (clGetEventInfo) (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                                  NULL)
             == CL_SUCCESS
         && state > CL_COMPLETE;
}

/* Submits the command of an event to its device, as a wait for the event does. */
static void
flush (cl_event event)
{
  cl_command_queue queue = NULL;

  if (BEHIND (clGetEventInfo) (event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL)
          == CL_SUCCESS
      && queue != NULL) /* a user event has no queue */
    BEHIND (clFlush) (queue);
}

/* Waits for the commands of @n events.  @events may be NULL. */
void
_tarn_layer_fault_await (cl_uint n, const cl_event *events)
{
  gint64 start = g_get_monotonic_time ();

  for (cl_uint i = 0; events != NULL && i < n; i++)
    flush (events[i]);
  for (cl_uint i = 0; events != NULL && i < n; i++)
    while (is_running (events[i])
           && g_get_monotonic_time () - start
                  < (g_atomic_int_get (&n_unset_events) == 0 ? MAX_WAIT : MAX_UNSET_WAIT))
      g_usleep (100);
}
