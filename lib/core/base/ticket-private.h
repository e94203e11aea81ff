/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls in flight that others may wait for, in the order of their starts.  Nothing here takes a
 * lock: a list is behind the lock of who has it. */

#ifndef TARN_TICKET_PRIVATE_H
#define TARN_TICKET_PRIVATE_H

#include "common/lock-private.h"

/* One call, on the stack of its thread. */
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
  guint64 last;    /* serial of the last call that has begun */
  guint64 ended;   /* calls that have done something, and are over */
  guint n_waiting; /* threads; to wake none takes a call of the system, too */
  TarnCond changed;
} TarnTickets;

/* Adds a call to those in flight. */
static inline void
_tarn_tickets_begin (TarnTickets *tickets, TarnTicket *ticket)
{
  ticket->serial = ++tickets->last;
  ticket->previous = tickets->newest;
  ticket->next = NULL;
  *(tickets->newest != NULL ? &tickets->newest->next : &tickets->oldest) = ticket;
  tickets->newest = ticket;
}

/* Ends a call, and wakes the threads that wait for it, which look again.  @has_done: it has done
 * something. */
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

/* Waits until a call ends; @lock is what the list is behind. */
static inline void
_tarn_tickets_wait (TarnTickets *tickets, TarnMutex *lock)
{
  tickets->n_waiting++;
  _tarn_cond_wait (&tickets->changed, lock);
  tickets->n_waiting--;
}

/* Waits until every call up to that serial is done. */
static inline void
_tarn_tickets_await (TarnTickets *tickets, guint64 serial, TarnMutex *lock)
{
  while (tickets->oldest != NULL && tickets->oldest->serial <= serial)
    _tarn_tickets_wait (tickets, lock);
}

#endif
