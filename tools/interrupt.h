/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Signals that end a tool which runs other programs: the tool ends those first. */

#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <glib.h>

/* Remembers which signals are ignored from the start.  Call it before any driver: LLVM, which many
 * of them use, catches signals even if they are ignored. */
void interrupt_init (void);

/* Catches the signals: each ends an iteration of the default main context.  Signals that were
 * ignored from the start stay ignored, as nohup(1) expects.  Ignores SIGPIPE as well. */
void interrupt_watch (void);

/* Gets the signal that came last, or 0. */
gint interrupt_get_signal (void);

/* Ends this program with the signal that came last, as if it had not been caught. */
void interrupt_die (void);

#endif
