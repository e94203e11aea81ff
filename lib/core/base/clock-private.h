/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A clock for times of seconds, which takes a few nanoseconds to read. */

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

/* Sets the recorder's clock: while events are recorded, the time is that of the events, so that a
 * replay sees the same times. */
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
