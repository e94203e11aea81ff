/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * The clock of Tarn, which tests, simulations and replays can replace.
 */

#ifndef TARN_CLOCK_H
#define TARN_CLOCK_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * Gets the time. Any thread may call it, even while the thread holds a lock of Tarn. So the
 * function must neither call Tarn nor wait.
 *
 * @return microseconds since a fixed moment, as g_get_monotonic_time () returns; for each thread
 *         they never decrease
 * @since 0.1
 */
typedef gint64 (*TarnClockFunc) (void);

/**
 * Sets the clock by which Tarn finds memory that was unused for a long time. Heaps return segments
 * that were unused for TarnHeapOptions.idle_seconds. Pools over a heap return blocks that were held
 * for ten seconds. Other threads get the cached blocks of a thread that has become idle. With its
 * own clock, a test need not wait for seconds, and a program that replays a recording frees the
 * same memory at the same steps. Recordings, snapshots and durations always use the system's clock.
 * In a child of fork () this does nothing.
 *
 * @param func  returns the time; NULL, the default: the system's clock. Any thread may call this. A
 *              thread that is in Tarn at that time may still call the previous function.
 * @since 0.1
 */
void tarn_clock_set (TarnClockFunc func);

G_END_DECLS

#endif
