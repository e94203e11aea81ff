/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Detects that this process is a child of fork (), where drivers cannot be called. */

#ifndef TARN_FORK_PRIVATE_H
#define TARN_FORK_PRIVATE_H

#include <glib.h>

/* TRUE in a child of fork () whose parent had called a driver before the fork.  The child sets this
 * variable while it has only one thread, so reads need no atomic operation. */
extern gboolean _tarn_is_forked __attribute__ ((visibility ("hidden")));

void _tarn_watch_fork (void);

/* Returns TRUE in a child of fork () whose parent had called a driver before the fork.
 *
 * If this function returns TRUE, the caller must return before it takes any lock, for two reasons.
 * A lock that another thread held during fork () stays locked for ever in the child.  The driver
 * does not work in the child: calls to the driver hang. */
static inline gboolean
_tarn_forked (void)
{
  return G_UNLIKELY (_tarn_is_forked);
}

#endif
