/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The rules by which threads wait for one another.  While a thread calls a backend on behalf of
 * an allocator, it has a duty: other threads may wait until the call has ended.  During the
 * call, the backend may call Tarn again, in the same thread.  Without a rule, such a nested call
 * could deadlock: the thread would wait for its own duty, or for a thread that waits for this
 * one.
 *
 * The rule is an order of ranks, one for each duty.  A thread may wait for duties of a rank only
 * if all of its own duties have higher ranks.  So the ranks fall along each chain of waiting
 * threads, and no chain is a circle.  A thread that must not wait fails, or continues without
 * the result.
 *
 * The rank of a duty depends first on the level of its allocator in the stack of allocators,
 * then on the kind of duty.  A direct allocator has level 0, unless it names an allocator below
 * it (TarnAllocatorOps.below).  Any other allocator has the level of its upstream, the allocator
 * below it, plus 1. */

#ifndef TARN_DUTY_PRIVATE_H
#define TARN_DUTY_PRIVATE_H

#include <glib.h>

/* The highest level of an allocator in a stack of allocators.  Allocators above this level count as
 * being on it. */
#define TARN_MAX_LEVEL 15

/* The kinds of duties that a thread can have for an allocator (a call for which other threads may
 * wait).  The kind with the lowest rank is first. */
typedef enum
{
  TARN_DUTY_GIVE_BACK, /* returns memory upstream */
  TARN_DUTY_RECORD,    /* records an event on a queue */
  TARN_DUTY_ASK,       /* asks upstream for memory, or changes the pieces of a heap */
  TARN_N_DUTIES
} TarnDuty;

/* The calling thread's number of duties of each rank. */
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

/* Returns TRUE if the calling thread may wait until other threads have ended their duties of this
 * kind, for an allocator of this level. */
static inline gboolean
_tarn_may_await (guint level, TarnDuty duty)
{
  for (guint i = 0; i <= _tarn_duty_get_rank (level, duty); i++)
    if (_tarn_duties[i] > 0)
      return FALSE;
  return TRUE;
}

#endif
