/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Detects children of fork (), in which drivers cannot be called. */

#ifndef TARN_FORK_PRIVATE_H
#define TARN_FORK_PRIVATE_H

#include <glib.h>

/* Written once, by the only thread of a child of fork (): no atomic is needed to read it. */
extern gboolean _tarn_is_forked __attribute__ ((visibility ("hidden")));

void _tarn_watch_fork (void);

/* Returns TRUE in a child of a process that had called a driver.  Drivers do not survive fork ():
 * their calls hang, and a lock that another thread held at that moment stays locked.  So callers
 * ask this before they take any lock. */
static inline gboolean
_tarn_forked (void)
{
  return G_UNLIKELY (_tarn_is_forked);
}

#endif
