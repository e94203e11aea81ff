/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Handles signals that end a tool: a tool that runs other programs first ends these programs. */

#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <glib.h>

/* Remembers the signals that are ignored when the program begins.  Call it before any driver is
 * loaded: many drivers use LLVM, which catches signals even if they are ignored. */
void interrupt_init (void);

/* Catches SIGINT, SIGTERM and SIGHUP.  If g_main_context_iteration () waits in the default main
 * context, each of these signals makes it return, so the caller can call interrupt_get_signal ().
 * Signals that were ignored when the program began stay ignored, as nohup(1) expects.  Also ignores
 * SIGPIPE. */
void interrupt_watch (void);

/* Gets the signal that came last, or 0. */
gint interrupt_get_signal (void);

/* Ends this program with the signal that came last, as if it had not been caught. */
void interrupt_die (void);

#endif
