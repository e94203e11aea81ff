/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The rules by which threads wait for one another.  A thread that calls a backend on behalf of an
 * allocator has a duty: other threads may wait until that call has ended.  The backend may come
 * back to Tarn from inside the call, in the same thread.  A thread that waited there without a rule
 * could wait for itself, or for a thread that waits for it.
 *
 * The rule is an order.  Each duty has a rank, and a thread waits for duties of a rank only if all
 * duties of its own are of higher ranks.  So ranks fall along each chain of threads that wait, and
 * no chain is a circle.  A thread that must not wait fails, or goes on without.
 *
 * The rank of a duty depends first on the level of its allocator, then on the kind of duty.  A
 * direct allocator is at level 0, unless it names an allocator below it (TarnAllocatorOps.below);
 * any other allocator is one level above its upstream. */

#ifndef TARN_DUTY_PRIVATE_H
#define TARN_DUTY_PRIVATE_H

#include <glib.h>

/* Allocators that are stacked higher than that share the highest level. */
#define TARN_MAX_LEVEL 15

/* The duties of a thread at an allocator, the lowest rank first. */
typedef enum
{
  TARN_DUTY_GIVE_BACK, /* gives memory back */
  TARN_DUTY_RECORD,    /* records an event on a queue */
  TARN_DUTY_ASK,       /* asks upstream for memory; or changes what pieces a heap has */
  TARN_N_DUTIES
} TarnDuty;

/* The calling thread's duties by their ranks: how many there are of each. */
extern _Thread_local guint _tarn_duties[(TARN_MAX_LEVEL + 1) * TARN_N_DUTIES]
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));

static inline guint
_tarn_duty_get_rank (guint level, TarnDuty duty)
{
  return MIN (level, TARN_MAX_LEVEL) * TARN_N_DUTIES + duty;
}

static inline void
_tarn_duty_begin (guint level, TarnDuty duty)
{
  _tarn_duties[_tarn_duty_get_rank (level, duty)]++;
}

static inline void
_tarn_duty_end (guint level, TarnDuty duty)
{
  g_assert (_tarn_duties[_tarn_duty_get_rank (level, duty)] > 0);
  _tarn_duties[_tarn_duty_get_rank (level, duty)]--;
}

/* Returns TRUE if the calling thread may wait for other threads' duties of a rank. */
static inline gboolean
_tarn_may_await (guint level, TarnDuty duty)
{
  for (guint i = 0; i <= _tarn_duty_get_rank (level, duty); i++)
    if (_tarn_duties[i] > 0)
      return FALSE;
  return TRUE;
}

#endif
