/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A world for functions that call Tarn back: a pool, a backend whose functions each may call
 * back, and the actions by which they do. */

#ifndef CALL_BACKS_H
#define CALL_BACKS_H

#include <tarn/tarn.h>
#include <tarn/testing.h>

#include "common/lock-private.h"

#define GRANULARITY ((gsize) 4096)
#define BUDGET ((gsize) 1 << 20)

/* What calls back. */
typedef enum
{
  BY_ALLOCATE,
  BY_FREE,
  BY_RECLAIM,
  BY_QUEUE_REF,
  BY_QUEUE_UNREF,
  BY_EVENT_RECORD,
  BY_EVENT_RECORD_ALL,
  BY_EVENT_IS_DONE,
  BY_EVENT_WAIT,
  BY_EVENT_RELEASE,
  BY_FRESH_QUEUE,
  BY_CHECK_QUEUE,
  BY_FREE_ON_QUEUE,
  BY_PART_NEW,
  BY_PART_RELEASE,
  BY_ADDRESSES_RESERVE,
  BY_ADDRESSES_RELEASE,
  BY_BACKING_NEW,
  BY_BACKING_RELEASE,
  BY_BACKING_MAP,
  BY_BACKING_UNMAP,
  BY_READ,
  BY_FILL,
  BY_FIND_OTHER,
  BY_FIND_HOST,
  BY_RECLAIM_FUNC,
  BY_DESTROY,
  BY_MESSAGE, /* a log handler: events fail, so that there are messages; but none inside of
                 another, because GLib ends the process then */
  N_CALLERS
} Caller;

/* A pool, and the allocators below it. */
typedef struct
{
  const gchar *name;
  gboolean has_heap, is_virtual, has_parts, records_all, is_fresh, frees_on_queue, is_debugged;
  gsize limit_bytes;
} Kind;

#define N_QUEUES 4
#define N_EXTRA 16

typedef struct _World World;
typedef void (*Action) (World *world);

struct _World
{
  const Kind *kind;
  Caller caller;
  Action action; /* atomic; NULL: none any more */

  TarnAllocator *direct;
  TarnAllocator *heap; /* what the pool stands on; atomic: an action drops the reference */
  TarnPool *pool;
  TarnReclaimGroup *group;
  gchar queues[N_QUEUES];

  guint n_calls;      /* atomic: that called back */
  guint n_live;       /* atomic: pieces of memory, events, references, mappings */
  gsize n_bytes;      /* atomic: of memory */
  guint n_asked;      /* atomic: whether an event is done */
  gsize last_address; /* atomic: of what is reserved */

  TarnBlock *extra[N_EXTRA]; /* atomic: what an action has left */

  /* The backend's memory, owned.  So memory that a pool has lost, because the queues had no events,
   * ends with the world. */
  TarnMutex lock;
  GHashTable *memory; /* guarded by the lock: a set of pointers */
};

/* Whether this thread calls from inside of a function that has called back: then none does. */
extern _Thread_local gboolean world_is_inside;

/* Runs the action of the world, if this is the function that calls back, and has not done so too
 * often. */
void world_call_back (World *world, Caller caller);

/* Makes the backend: an allocator of @world->kind, whose functions call back. */
TarnAllocator *world_allocator_new (World *world);

/* Gets what an action has left; NULL: nothing. */
TarnBlock *world_take_left (World *world);

/* The actions: what a function calls. */
typedef struct
{
  const gchar *name;
  Action act;
} NamedAction;

extern const NamedAction world_actions[];
extern const guint world_n_actions;

#endif
