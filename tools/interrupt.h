/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Signals that end a program which runs others: it ends those first. */

#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <glib.h>

/* Remembers which of them are ignored, as whoever started us had it.  Before a driver is asked
 * anything: LLVM, which many are made of, catches them whether they are ignored or not. */
void interrupt_init (void);

/* Has the default main context end its iteration for such a signal, and ignores those that were;
 * also writes to a pipe that nobody reads. */
void interrupt_watch (void);

/* Gets the signal that came last; 0: none did. */
gint interrupt_get_signal (void);

/* Ends us of it, as if it had not been caught. */
void interrupt_die (void);

#endif
