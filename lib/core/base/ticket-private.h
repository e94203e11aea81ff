/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of calls in flight that other threads may wait for, the oldest first.  Nothing here takes a
 * lock: the lock of its owner guards a list. */

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
  guint64 ended;   /* finished calls that have done something */
  guint n_waiting; /* threads; a broadcast takes a system call even if there are none */
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

/* Waits until a call ends; @lock guards the list. */
static inline void
_tarn_tickets_wait (TarnTickets *tickets, TarnMutex *lock)
{
  tickets->n_waiting++;
  _tarn_cond_wait (&tickets->changed, lock);
  tickets->n_waiting--;
}

/* Waits until every call up to @serial has ended. */
static inline void
_tarn_tickets_await (TarnTickets *tickets, guint64 serial, TarnMutex *lock)
{
  while (tickets->oldest != NULL && tickets->oldest->serial <= serial)
    _tarn_tickets_wait (tickets, lock);
}

#endif
