/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A clock that takes a few nanoseconds to read, and is exact to a few milliseconds.  Pools and
 * heaps use it to find memory that has been unused for some seconds. */

#ifndef TARN_CLOCK_PRIVATE_H
#define TARN_CLOCK_PRIVATE_H

#include <tarn/clock.h>
#include <time.h>

/* The default time, in microseconds, for which a pool or heap keeps unused memory. */
#define TARN_USUAL_IDLE_TIME (10 * G_TIME_SPAN_SECOND)

/* The time, in microseconds, after which a pool or heap forgets that memory ran out, unless it runs
 * out again. */
#define TARN_SHORT_TIME (10 * G_TIME_SPAN_SECOND)

/* The number of times that a pool or heap looks for unused memory during TARN_USUAL_IDLE_TIME. */
#define TARN_LOOKS 8

/* The function that replaces the system's clock, set by tarn_clock_set () or by the recorder.  NULL
 * if no function replaces the system's clock.  Accessed atomically. */
extern TarnClockFunc _tarn_clock_func __attribute__ ((visibility ("hidden")));

/* Makes @func replace the system's clock while the recorder writes a recording of the program's
 * requests.  If @func is NULL, ends the replacement.  @func returns times that a later replay can
 * compute from the recording, so the replay makes the same decisions. */
void _tarn_clock_set_recorder (TarnClockFunc func);

/* Returns the microseconds since a fixed moment, exact to a few milliseconds. */
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
