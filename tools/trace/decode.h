/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The events of one stream, one after the other, from the bytes of a packet. */

#ifndef DECODE_H
#define DECODE_H

#include "definitions.h"
#include "recording.h"

/* Sorts of numbers that are written as differences. */
typedef enum
{
  SORT_BLOCK,
  SORT_ADDRESS,
  SORT_QUEUE,
  N_SORTS
} Sort;

typedef enum
{
  FIELD_NONE, /* there are no more */
  FIELD_NUMBER,
  FIELD_TRUTH,      /* 0 or 1 */
  FIELD_ERROR,      /* of TarnError, and one more; 0: none */
  FIELD_HANDLE,     /* of a queue */
  FIELD_DIFFERENCE, /* and these: of a sort each */
  FIELD_BLOCK = FIELD_DIFFERENCE + SORT_BLOCK,
  FIELD_ADDRESS = FIELD_DIFFERENCE + SORT_ADDRESS,
  FIELD_QUEUE = FIELD_DIFFERENCE + SORT_QUEUE
} FieldType;

/* A number of an event. */
typedef struct
{
  FieldType type;
  gsize offset; /* of a guint64 in RecordedEvent */
  const gchar *name;
} Field;

/* What goes for the events that follow. */
typedef struct
{
  guint64 time;
  guint64 thread;
  const gchar *thread_name; /* of the definitions; nullable */
  guint64 object, queue, tag;
  guint64 stack;           /* of the next request; 0: none */
  guint64 latest[N_SORTS]; /* of those that are differences */
} StreamState;

/* What is left of a packet's events. */
typedef struct
{
  const guchar *file; /* where it begins: places count from there */
  const guchar *at, *end;
  guint64 n_missing; /* bytes of the packet behind the end, which is the file's then */
} Cursor;

typedef enum
{
  DECODE_DONE,
  DECODE_CUT, /* the event is not whole, because the file is not */
  DECODE_FAILED
} DecodeResult;

/* Gets what the events of a kind have, in the order in which it is written, and FIELD_NONE behind
 * it. */
const Field *decode_get_fields (TarnTraceKind kind);

/* Whether recording_next () gives events of this kind. */
gboolean decode_is_told (TarnTraceKind kind);

/* Whether it is a request, which has a queue, a tag and a stack. */
gboolean decode_is_request (TarnTraceKind kind);

/* Gets the event at @cursor, of which something is left, and moves on.  What it defines is added to
 * @definitions if @is_first, which is when texts are checked; @properties is overwritten. */
DecodeResult decode_event (Cursor *cursor, StreamState *state, Definitions *definitions,
                           gboolean is_first, GArray *properties, RecordedEvent *event,
                           GError **error);

#endif
