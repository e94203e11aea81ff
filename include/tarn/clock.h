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

void tarn_clock_set (TarnClockFunc func);

G_END_DECLS

#endif
