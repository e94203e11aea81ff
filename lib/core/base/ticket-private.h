/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of running calls, the oldest first.  Other threads may wait until such a call has ended.
 * The functions of this file take no lock: the caller holds the lock that guards the list. */

#ifndef TARN_TICKET_PRIVATE_H
#define TARN_TICKET_PRIVATE_H

#include "common/lock-private.h"

/* A running call.  The struct is on the stack of the thread that makes the call.  The field serial
 * numbers the calls in the order in which they began. */
typedef struct _TarnTicket TarnTicket;
struct _TarnTicket
{
  guint64 serial;
  TarnTicket *previous;
  TarnTicket *next;
};

typedef struct
{
  TarnTicket *oldest;
  TarnTicket *newest;
  guint64 last; /* the serial number of the call that began last */
  /* The number of ended calls that had an effect, such as freed memory.  A thread that has failed
   * to allocate compares it with an earlier value: if it has changed, another try may succeed. */
  guint64 ended;
  /* The number of threads that wait until a call in the list ends.  If it is 0,
   * _tarn_tickets_end () makes no broadcast, which would be a system call. */
  guint n_waiting;
  TarnCond changed;
} TarnTickets;

/* Adds a call to the list of running calls. */
static inline void
_tarn_tickets_begin (TarnTickets *tickets, TarnTicket *ticket)
{
  ticket->serial = ++tickets->last;
  ticket->previous = tickets->newest;
  ticket->next = NULL;
  *(tickets->newest != NULL ? &tickets->newest->next : &tickets->oldest) = ticket;
  tickets->newest = ticket;
}

/* Removes an ended call from the list of running calls, and wakes all waiting threads.  Each of
 * these threads then checks if it must still wait.  @has_done: TRUE if the call had an effect, such
 * as freed memory. */
static inline void
_tarn_tickets_end (TarnTickets *tickets, TarnTicket *ticket, gboolean has_done)
{
  g_assert (tickets->ended < tickets->last);
  *(ticket->previous != NULL ? &ticket->previous->next : &tickets->oldest) = ticket->next;
  *(ticket->next != NULL ? &ticket->next->previous : &tickets->newest) = ticket->previous;
  tickets->ended += has_done;
  if (tickets->n_waiting > 0)
    _tarn_cond_broadcast (&tickets->changed);
}

/* Waits until any of the calls in the list ends, or the condition variable wakes the thread
 * spuriously.  @lock guards the list; the caller holds it. */
static inline void
_tarn_tickets_wait (TarnTickets *tickets, TarnMutex *lock)
{
  tickets->n_waiting++;
  _tarn_cond_wait (&tickets->changed, lock);
  tickets->n_waiting--;
}

/* Waits until the call with the number @serial, and every call that began before it, have ended.
 * The caller holds @lock. */
static inline void
_tarn_tickets_await (TarnTickets *tickets, guint64 serial, TarnMutex *lock)
{
  while (tickets->oldest != NULL && tickets->oldest->serial <= serial)
    _tarn_tickets_wait (tickets, lock);
}

#endif
