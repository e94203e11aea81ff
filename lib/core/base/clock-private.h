/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A clock for what counts in seconds, which is read in a few nanoseconds. */

#ifndef TARN_CLOCK_PRIVATE_H
#define TARN_CLOCK_PRIVATE_H

#include <tarn/clock.h>
#include <time.h>

/* The time for which unused memory is kept by default, in microseconds. */
#define TARN_USUAL_IDLE_TIME (10 * G_TIME_SPAN_SECOND)

/* The number of checks for unused memory in this time. */
#define TARN_LOOKS 8

/* The function that replaces the system's clock, set by tarn_clock_set () or the recorder; NULL:
 * none. */
extern TarnClockFunc _tarn_clock_func __attribute__ ((visibility ("hidden"))); /* atomic */

/* Sets the clock of the recorder: while events are recorded, time is that of the events, so that a
 * replay has the same. */
void _tarn_clock_set_recorder (TarnClockFunc func);

/* Returns microseconds since a fixed moment, exact to a few milliseconds. */
static inline gint64
_tarn_clock_now (void)
{
  TarnClockFunc func = __atomic_load_n (&_tarn_clock_func, __ATOMIC_ACQUIRE);

  if (__builtin_expect (func != NULL, 0))
    return func ();
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec now;

  if (clock_gettime (CLOCK_MONOTONIC_COARSE, &now) == 0)
    return (gint64) now.tv_sec * G_TIME_SPAN_SECOND + now.tv_nsec / 1000;
#endif
  return g_get_monotonic_time ();
}

#endif
