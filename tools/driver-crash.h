/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Explains why a tool dies if a driver crashes while the tool asks it for its devices. */

#ifndef DRIVER_CRASH_H
#define DRIVER_CRASH_H

/* Sets handlers for the signals that a crash raises.  A handler prints a message, and then the
 * signal ends the tool. */
void driver_crash_watch (void);

/* Restores the signal handlers that driver_crash_watch () has replaced. */
void driver_crash_unwatch (void);

#endif
