/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Decodes the events of a stream, one after the other, from the bytes of a packet. */

#ifndef DECODE_H
#define DECODE_H

#include "definitions.h"
#include "recording.h"

/* The sorts of numbers that are written as differences: each as the difference from the previous
 * number of the same sort. */
typedef enum
{
  SORT_BLOCK,
  SORT_ADDRESS,
  SORT_QUEUE,
  N_SORTS
} Sort;

/* The type of a field. */
typedef enum
{
  FIELD_NONE, /* ends the list */
  FIELD_NUMBER,
  FIELD_TRUTH,  /* 0 or 1 */
  FIELD_ERROR,  /* a code of TarnError plus one; 0: none */
  FIELD_HANDLE, /* a queue's handle */
  /* The first type for a number that is written as a difference.  Each Sort has one such type. */
  FIELD_DIFFERENCE,
  FIELD_BLOCK = FIELD_DIFFERENCE + SORT_BLOCK,
  FIELD_ADDRESS = FIELD_DIFFERENCE + SORT_ADDRESS,
  FIELD_QUEUE = FIELD_DIFFERENCE + SORT_QUEUE
} FieldType;

/* A field of an event: a number. */
typedef struct
{
  FieldType type;
  gsize offset; /* offset of a guint64 in RecordedEvent */
  const gchar *name;
} Field;

/* The state of a stream: values that hold for the events that follow. */
typedef struct
{
  guint64 time;
  guint64 thread;
  const gchar *thread_name; /* owned by the definitions; nullable */
  guint64 object, queue, tag;
  guint64 stack; /* stack of the next request; 0: none */
  /* the next request is nested: another allocator makes it, to get memory for its own block */
  gboolean is_nested;
  guint64 latest[N_SORTS]; /* for each Sort, the number to which the next one is relative */
} StreamState;

/* A cursor: the events of a packet that are not decoded yet.
 *
 * Invariant: file <= at <= end. */
typedef struct
{
  const guchar *file; /* the first byte of the file; error messages state offsets from this byte */
  const guchar *at, *end;
  guint64 n_missing; /* bytes of the packet beyond the end of the file */
} Cursor;

/* The result of decoding. */
typedef enum
{
  DECODE_DONE,
  DECODE_CUT, /* the file ends inside the event */
  DECODE_FAILED
} DecodeResult;

/* Gets the fields of a kind of events in the order in which they are written.  FIELD_NONE ends
 * them. */
const Field *decode_get_fields (TarnTraceKind kind);

/* Tells whether events of this kind are about the object that the latest USE event of their
 * stream names. */
gboolean decode_has_object (TarnTraceKind kind);

/* Tells whether recording_next () returns events of this kind. */
gboolean decode_is_returned (TarnTraceKind kind);

/* Tells whether events of this kind are requests, which have a queue, a tag and a stack. */
gboolean decode_is_request (TarnTraceKind kind);

/* Decodes the event at @cursor, and moves the cursor to the next event.  The cursor must not be
 * at its end.  @is_first: this is the first pass over the file, which stores definitions in
 * @definitions and checks texts.  Overwrites @properties. */
DecodeResult decode_event (Cursor *cursor, StreamState *state, Definitions *definitions,
                           gboolean is_first, GArray *properties, RecordedEvent *event,
                           GError **error);

#endif
