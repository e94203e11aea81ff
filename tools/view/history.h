/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A history: a recording as a page shows it.  It has lives, managed bytes and calls.  A life is a
 * block from its request to its free, or an extent or a segment of a heap.  An extent is a range of
 * a segment that serves one request to the heap.
 *
 * The history has lists of objects, stacks, tags, queues and threads.  A column stores each of them
 * as an index into its list; 0 means none. */

#ifndef HISTORY_H
#define HISTORY_H

#include "../trace/recording.h"
#include "column.h"

/* A flag in an object's number.  The number then stands for blocks that a heap serves without a
 * pool over it. */
#define HISTORY_BLOCKS_OF_HEAP ((guint64) 1 << 63)

/* How a life began. */
typedef enum
{
  LIFE_AT_START, /* before recording began */
  LIFE_HIT,
  LIFE_MISS,
  LIFE_LENT,
  LIFE_EXTENT,
  LIFE_PIECE
} LifeSort;

/* An object of the recording. */
typedef struct
{
  guint64 number; /* the object's number in the recording */
  guint upstream; /* the upstream's index in the list of objects */
  TarnTraceClass class;
  gchar *kind, *name; /* nullable */
  RecordedProperty *properties;
  gsize n_properties;
} HistoryObject;

/* A list: numbers of a recording, in the order in which they first came.
 *
 * Invariant: places has the index of each number except the first. */
typedef struct
{
  GArray *numbers; /* guint64s; the first one is 0 */
  GHashTable *places;
} HistoryList;

enum
{
  /* Begins and ends of lives.  HISTORY_EVENT_LIFE is 0 where a life begins.  Where a life ends, it
   * is the life's number counted back: 1 is the life that began last, 2 the life that began before
   * it, and so on. */
  HISTORY_EVENT_TIME,
  HISTORY_EVENT_LIFE,
  /* Lives, in the order in which they begin */
  HISTORY_LIFE_OBJECT,
  HISTORY_LIFE_SORT,
  HISTORY_LIFE_SIZE, /* requested bytes */
  HISTORY_LIFE_MORE, /* bytes of the memory beyond the requested bytes */
  HISTORY_LIFE_ADDRESS,
  /* the address in the heap minus the address by which the user knows the block (a cl_mem) */
  HISTORY_LIFE_SHIFT,
  HISTORY_LIFE_STACK,
  HISTORY_LIFE_TAG,
  HISTORY_LIFE_QUEUE,
  HISTORY_LIFE_THREAD,
  /* Changes of the bytes of an object's blocks, in use or cached */
  HISTORY_MANAGED_TIME,
  HISTORY_MANAGED_OBJECT,
  HISTORY_MANAGED_BYTES,
  /* Events that belong to no block: calls to the driver, waits, and others */
  HISTORY_CALL_TIME, /* the end of the call */
  HISTORY_CALL_KIND, /* TarnTraceKind */
  HISTORY_CALL_OBJECT,
  HISTORY_CALL_QUEUE,
  HISTORY_CALL_THREAD,
  HISTORY_CALL_SIZE,
  HISTORY_CALL_DURATION,
  HISTORY_CALL_CODE,
  HISTORY_N_COLUMNS
};

/* A history: the data of a recording, as a page needs them to draw the recording. */
typedef struct
{
  Column columns[HISTORY_N_COLUMNS];
  HistoryList objects, stacks, tags, queues, threads;
  GPtrArray *object_details; /* HistoryObjects by their indices; nullable elements */
  GPtrArray *thread_names;   /* texts by the threads' indices; nullable elements */
  guint64 duration;          /* nanoseconds from the start to the last event */
  guint64 n_unknown;         /* events of unknown blocks: earlier events were lost */
} History;

/* Reads a whole recording.  Returns NULL with an error if it cannot be read any more. */
History *history_new (Recording *recording, GError **error);
void history_free (History *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (History, history_free)

#endif
