/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recording says of memory, as a page shows it: lives, which are blocks of pools from their
 * request to their free, and extents and pieces of heaps; what pools manage; calls.  A number in a
 * column that stands for something is its place in a list here; 0: nothing. */

#ifndef HISTORY_H
#define HISTORY_H

#include "../trace/recording.h"
#include "column.h"

/* In an object's number: stands for the blocks of a heap that no pool is between. */
#define HISTORY_BLOCKS_OF_HEAP ((guint64) 1 << 63)

/* How a life began. */
typedef enum
{
  LIFE_AT_START, /* before recording */
  LIFE_HIT,
  LIFE_MISS,
  LIFE_LENT,
  LIFE_EXTENT,
  LIFE_PIECE
} LifeSort;

typedef struct
{
  guint64 number; /* the recording's */
  guint upstream; /* in the list */
  TarnTraceClass class;
  gchar *kind, *name; /* nullable */
  RecordedProperty *properties;
  gsize n_properties;
} HistoryObject;

/* Numbers of a recording, in the order in which they came. */
typedef struct
{
  GArray *numbers; /* guint64; the first is 0 */
  GHashTable *places;
} HistoryList;

enum
{
  /* When lives begin and end: the time; 0: the next one begins, else how many lives ago that one
   * began that ends, with 1 for the latest. */
  HISTORY_EVENT_TIME,
  HISTORY_EVENT_LIFE,
  /* Lives, in the order in which they begin */
  HISTORY_LIFE_OBJECT,
  HISTORY_LIFE_SORT,
  HISTORY_LIFE_SIZE, /* bytes asked for */
  HISTORY_LIFE_MORE, /* bytes of the memory beyond these */
  HISTORY_LIFE_ADDRESS,
  HISTORY_LIFE_SHIFT, /* by how much it lies elsewhere in the heap's own addresses */
  HISTORY_LIFE_STACK,
  HISTORY_LIFE_TAG,
  HISTORY_LIFE_QUEUE,
  HISTORY_LIFE_THREAD,
  /* What pools manage: by how many bytes it becomes more */
  HISTORY_MANAGED_TIME,
  HISTORY_MANAGED_OBJECT,
  HISTORY_MANAGED_BYTES,
  /* Calls of the driver, waits, and what else is of interest by itself */
  HISTORY_CALL_TIME, /* of the end */
  HISTORY_CALL_KIND, /* TarnTraceKind */
  HISTORY_CALL_OBJECT,
  HISTORY_CALL_QUEUE,
  HISTORY_CALL_THREAD,
  HISTORY_CALL_SIZE,
  HISTORY_CALL_DURATION,
  HISTORY_CALL_CODE,
  HISTORY_N_COLUMNS
};

typedef struct
{
  Column columns[HISTORY_N_COLUMNS];
  HistoryList objects, stacks, tags, queues, threads;
  GPtrArray *object_details; /* of HistoryObject, nullable, by their places */
  GPtrArray *thread_names;   /* of texts, nullable, by their places */
  guint64 duration;          /* nanoseconds */
  guint64 n_unknown;         /* events of blocks that had no life: something was lost */
} History;

/* Reads all of a recording. */
History *history_new (Recording *recording, GError **error);
void history_free (History *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (History, history_free)

#endif
