/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Detects that this process is a child of fork (), where drivers cannot be called. */

#ifndef TARN_FORK_PRIVATE_H
#define TARN_FORK_PRIVATE_H

#include <glib.h>

/* TRUE in a child of fork ().  Only the child's first thread writes it, while no other thread
 * exists, so it is read without an atomic operation. */
extern gboolean _tarn_is_forked __attribute__ ((visibility ("hidden")));

void _tarn_watch_fork (void);

/* Returns TRUE in a child of fork () whose parent had called a driver.  Drivers do not work in such
 * a child: their calls hang.  A lock that another thread held during fork () stays locked for ever.
 * So a function calls this before it takes any lock. */
static inline gboolean
_tarn_forked (void)
{
  return G_UNLIKELY (_tarn_is_forked);
}

#endif
