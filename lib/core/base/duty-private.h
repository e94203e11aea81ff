/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The rules by which threads wait for one another.  While a thread calls a backend on behalf of
 * an allocator, it has a duty: other threads may wait until the call has ended.  During the
 * call, the backend may call Tarn again, in the same thread.  Without a rule, such a nested call
 * could deadlock: the thread would wait for its own duty, or for a thread that waits for this
 * one.
 *
 * The rule is an order of ranks, one for each duty.  A thread may wait for duties of a rank only if
 * all of its own duties have higher ranks.  So the ranks fall along each chain of waiting threads,
 * and no chain is a circle.  If a thread must not wait, its function fails, or continues without
 * the result of the other call.
 *
 * The rank of a duty depends first on the level of the allocator in the stack of allocators, then
 * on the kind of duty.  An allocator without an allocator below has level 0.  Any other allocator
 * has the level of the allocator below, plus 1.  The allocator below is the upstream of a pool or
 * heap, or the allocator that a direct allocator names (TarnAllocatorOps.below). */

#ifndef TARN_DUTY_PRIVATE_H
#define TARN_DUTY_PRIVATE_H

#include <glib.h>

/* The highest level of an allocator in a stack of allocators.  A higher allocator counts as being
 * on this level. */
#define TARN_MAX_LEVEL 15

/* The kinds of duties.  A duty is a call that a thread makes for an allocator, and for whose end
 * other threads may wait.  The kinds are sorted by rank, the lowest rank first. */
typedef enum
{
  TARN_DUTY_GIVE_BACK, /* the call returns memory to upstream */
  TARN_DUTY_RECORD,    /* the call records an event on a queue */
  /* The call asks upstream for memory, or adds or removes segments of a heap. */
  TARN_DUTY_ASK,
  TARN_N_DUTIES
} TarnDuty;

/* The number of the calling thread's duties, for each rank.  A duty is a call for whose end other
 * threads may wait.  A rank stands for a level of allocators and a kind of duty
 * (_tarn_duty_get_rank ()). */
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

/* A duty is a call for whose end other threads may wait.  Returns TRUE if the calling thread may
 * wait until duties of other threads have ended.  @level, @duty: the level of the duties'
 * allocator, and the kind of the duties. */
static inline gboolean
_tarn_may_await (guint level, TarnDuty duty)
{
  for (guint i = 0; i <= _tarn_duty_get_rank (level, duty); i++)
    if (_tarn_duties[i] > 0)
      return FALSE;
  return TRUE;
}

#endif
