/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * What Tarn takes for the time: for tests, simulations and replays.
 */

#ifndef TARN_CLOCK_H
#define TARN_CLOCK_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * Gets the time. Any thread calls it, also with locks of Tarn's held: it must not call Tarn, nor
 * wait.
 *
 * @return microseconds since some moment, as g_get_monotonic_time () has them; for one thread they
 *         never become less
 * @since 0.1
 */
typedef gint64 (*TarnClockFunc) (void);

/**
 * Sets the clock by which the library finds memory that nobody has used for long. A heap returns
 * such pieces after TarnHeapOptions.idle_seconds; pools over a heap and idle threads return such
 * blocks. So a test need not wait for seconds, and a program that replays a recording frees
 * the same memory at the same steps. Recordings, snapshots and durations always use the system's
 * clock. In a child of fork () this does nothing.
 *
 * @param func  returns the time; NULL, the default: the system's clock. Any thread may call this;
 *              others may still call the previous function until they return to the program.
 * @since 0.1
 */
void tarn_clock_set (TarnClockFunc func);

G_END_DECLS

#endif
