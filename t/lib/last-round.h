/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A thread that does something when the system destroys what is its own for the last time: nobody
 * is told any more that it ends. */

#ifndef LAST_ROUND_H
#define LAST_ROUND_H

#include <glib.h>

/* Has a thread do one thing while it lives, and the other when nothing comes after it; and waits
 * for its end.  FALSE, and the test is skipped, where ThreadSanitizer has left the thread by then.
 */
gboolean in_last_round (void (*before) (gpointer), void (*late) (gpointer), gpointer data);

#endif
