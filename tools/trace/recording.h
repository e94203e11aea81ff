/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads recordings of tarn_trace_start () (doc/guide/trace-format.md): the events of all threads in
 * the order of their times.  Files may be damaged, so the reader checks each number.
 *
 * In a recording, an object is a pool, a heap or a backend's allocator, and a stream is the list
 * of events of one thread (not a CUDA stream).  Strings, stacks and objects have numbers; 0
 * means none. */

#ifndef RECORDING_H
#define RECORDING_H

#include "common/trace-format-private.h"

typedef struct _Recording Recording;

/* A property of an object. */
typedef struct
{
  guint32 property; /* TarnTraceProperty */
  guint64 number;
} RecordedProperty;

/* An event.  Its thread, queue, tag and stack come from earlier events of its stream.  The
 * recording owns the texts. */
typedef struct
{
  TarnTraceKind kind;
  guint64 time;     /* nanoseconds since the start */
  guint64 duration; /* nanoseconds that the event took; it ended at time */
  guint32 stream;
  guint64 thread; /* the system's number of the thread; 0: unknown */
  guint64 object; /* the number of the object that the event is about */
  guint64 queue;  /* the queue that the request or the event names; 0: none */
  guint64 tag;    /* the number of a string; 0: none */
  guint64 stack;  /* the number of the request's stack; 0: none */
  /* TRUE if another allocator made the request, to get memory for its own block.  Both
   * allocators then have a block with the same bytes. */
  gboolean is_nested;
  guint64 block;
  /* A number of bytes: the size of a request, a driver call, a segment or an extent; a limit; or
   * the bytes that a pool needs (RECLAIM, OUT_OF_MEMORY, LIMIT_REACHED) or keeps (TRIM).  For LOST,
   * the number of lost events. */
  guint64 size;
  /* bytes of the block's memory; OUT_OF_MEMORY and LIMIT_REACHED: bytes in use */
  guint64 alloc_size;
  guint64 address;
  /* FAIL and ALLOCATED: an error's code plus one, or 0.  PIECE_MOVED and PART: a second address.
   * OUT_OF_MEMORY and LIMIT_REACHED: bytes of cached blocks.  BLOCK, TRIM and RECLAIM: TRUE or
   * FALSE. */
  guint64 other;

  /* Fields of OBJECT and STATS events.  Other events have only the field text. */
  TarnTraceClass object_class;
  guint64 upstream;
  const gchar *text; /* OBJECT: the kind of the object; other events: the thread's name; nullable */
  const gchar *name; /* the object's name; NULL: it has no name */
  const RecordedProperty *properties;
  gsize n_properties;

  goffset place; /* the offset of the event in the file */
} RecordedEvent;

/* A frame of a stack. */
typedef struct
{
  guint64 address;
  const gchar *module; /* "": the module is unknown, and so is the symbol */
  guint64 module_offset;
  const gchar *symbol;
  guint64 symbol_offset;
} RecordedFrame;

typedef struct
{
  guint64 load_address;  /* a frame's address minus its offset in the module */
  const gchar *path;     /* the path of the module's file */
  const gchar *build_id; /* hexadecimal digits; "": the module has none */
} RecordedModule;

/* Opens a file, and checks all of it.  Errors name the path, and the place in the file. */
Recording *recording_open (const gchar *path, GError **error);
/* Opens a recording in memory.  Errors name @name instead of the path. */
Recording *recording_open_bytes (GBytes *bytes, const gchar *name, GError **error);
void recording_free (Recording *self);

/* Tells whether a file is a snapshot (tarn_snapshot_write ()), complete or not. */
gboolean recording_is_snapshot (GBytes *bytes);

/* Gets the next event.  Leaves out definitions, and events that only set a value for later events,
 * such as the queue or the tag.  Returns FALSE without an error at the end.  If several events have
 * the same time, events that free memory come first; all others follow in the order of their
 * streams.  The event's properties are valid until the next call. */
gboolean recording_next (Recording *self, RecordedEvent *event, GError **error);
void recording_rewind (Recording *self);

guint64 recording_get_n_events (const Recording *self);
guint64 recording_get_n_lost (const Recording *self);
guint64 recording_get_real_time (const Recording *self); /* nanoseconds since 1970 began */
guint32 recording_get_pid (const Recording *self);
/* Tells whether the recording was stopped and the whole file is there.  It was not stopped if the
 * program crashed or was killed. */
gboolean recording_is_complete (const Recording *self);
/* Gets the place of the cut in a file that was cut off inside a packet: the size of the file.
 * Returns 0 if the file is whole. */
goffset recording_get_cut (const Recording *self);

/* These functions return NULL if the recording does not define the number or address. */
const gchar *recording_get_string (const Recording *self, guint64 string);
const guint64 *recording_get_stack (const Recording *self, guint64 stack, gsize *n_frames);
const RecordedFrame *recording_get_frame (const Recording *self, guint64 address);
/* Returns the module of a frame.  Returns NULL if the recording has none.  Older recordings have no
 * modules. */
const RecordedModule *recording_get_module (const Recording *self, const RecordedFrame *frame);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recording, recording_free)

#endif
