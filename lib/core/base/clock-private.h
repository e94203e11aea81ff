/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A clock for what counts in seconds, which is read in a few nanoseconds. */

#ifndef TARN_CLOCK_PRIVATE_H
#define TARN_CLOCK_PRIVATE_H

#include <tarn/clock.h>
#include <time.h>

/* For how long what nobody uses is kept, where the program does not say: microseconds. */
#define TARN_USUAL_IDLE_TIME (10 * G_TIME_SPAN_SECOND)

/* How often in this time it is looked for what has been kept for so long. */
#define TARN_LOOKS 8

/* In place of the system's clock: what tarn_clock_set () has set, or the recorder; NULL: neither.
 */
extern TarnClockFunc _tarn_clock_func __attribute__ ((visibility ("hidden"))); /* atomic */

/* While events are recorded time goes by them, so that a replay has the same. */
void _tarn_clock_set_recorder (TarnClockFunc func);

/* Gets microseconds since some moment, exact to a few milliseconds. */
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
