/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: calls that are made to fail, and that would have waited for commands, wait
 * nevertheless. */

#include "faults-private.h"

/* A program that has waited for commands may free the memory of the host that they use, also if the
 * call that waited has failed: then no command runs any more, because the device is lost.  But here
 * the device goes on.  So a call that is made to fail waits, too, until the commands are done, but
 * at most for MAX_WAIT microseconds.  Commands may wait for a user event that the program sets only
 * after this call, or never: as long as there is an unset one, at most for MAX_UNSET_WAIT. */
#define MAX_WAIT (60 * G_TIME_SPAN_SECOND)
#define MAX_UNSET_WAIT G_TIME_SPAN_SECOND

/* The number of user events that the program has made and not set.  One that it releases before it
 * has set it counts for ever. */
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
      && queue != NULL) /* NULL for a user event */
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
