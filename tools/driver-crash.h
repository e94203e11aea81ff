/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Explains why a tool dies if a driver crashes while the tool asks it for its devices. */

#ifndef DRIVER_CRASH_H
#define DRIVER_CRASH_H

/* From now on, a signal that a crash raises first prints a message, and then ends the tool. */
void driver_crash_watch (void);

/* Restores the signal handlers that driver_crash_watch () has replaced. */
void driver_crash_unwatch (void);

#endif
