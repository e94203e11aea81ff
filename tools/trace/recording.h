/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads what tarn_trace_start () has written (doc/guide/trace-format.md): the events of all threads
 * in one order, that of their times.  Nothing is taken for granted of a file. */

#ifndef RECORDING_H
#define RECORDING_H

#include "common/trace-format-private.h"

typedef struct _Recording Recording;

typedef struct
{
  guint32 property; /* TarnTraceProperty */
  guint64 number;
} RecordedProperty;

/* One event, with what goes for it in its stream.  Texts are the recording's. */
typedef struct
{
  TarnTraceKind kind;
  guint64 time;     /* nanoseconds since the start */
  guint64 duration; /* nanoseconds before that */
  guint32 stream;
  guint64 thread; /* the system's number; 0: not known */
  guint64 object; /* that it is of, or what is made or ended */
  guint64 queue;  /* of a request, or named by the event; 0: none */
  guint64 tag;    /* string; 0: none */
  guint64 stack;  /* of a request; 0: none */
  guint64 block;
  guint64 size;       /* or bytes wanted, or to keep, or lost events */
  guint64 alloc_size; /* or active bytes */
  guint64 address;
  /* The error's code and one more, 0: none; a new address; held bytes; what is TRUE or FALSE. */
  guint64 other;

  /* OBJECT and STATS */
  TarnTraceClass object_class;
  guint64 upstream;
  const gchar *text; /* the kind of an object that is made; else the thread's name; nullable */
  const gchar *name; /* the object's; NULL: it has none */
  const RecordedProperty *properties;
  gsize n_properties;

  goffset place; /* in the file */
} RecordedEvent;

typedef struct
{
  guint64 address;
  const gchar *module; /* "": not known, as the symbol */
  guint64 module_offset;
  const gchar *symbol;
  guint64 symbol_offset;
} RecordedFrame;

/* Opens a file, and looks at all of it.  Errors name the path and the place. */
Recording *recording_open (const gchar *path, GError **error);
/* The same of what is in memory; @name stands for the path. */
Recording *recording_open_bytes (GBytes *bytes, const gchar *name, GError **error);
void recording_free (Recording *self);

/* Whether it is no recording but a snapshot (tarn_snapshot_write ()), whole or not. */
gboolean recording_is_snapshot (GBytes *bytes);

/* Gets the next event, but for those that say what numbers stand for, or what goes for others.
 * FALSE without an error: there is no more.  At equal times events come in the order of their
 * streams, what frees something before what does not.  Its properties last until the next call. */
gboolean recording_next (Recording *self, RecordedEvent *event, GError **error);
void recording_rewind (Recording *self);

guint64 recording_get_n_events (const Recording *self);
guint64 recording_get_n_lost (const Recording *self);
guint64 recording_get_real_time (const Recording *self); /* nanoseconds since 1970 began */
guint32 recording_get_pid (const Recording *self);
/* Whether recording was ended, or else the program, as if it had crashed. */
gboolean recording_is_complete (const Recording *self);
/* Where a file ends in the midst of a packet; 0: it does not. */
goffset recording_get_cut (const Recording *self);

const gchar *recording_get_string (const Recording *self, guint64 string); /* NULL: no such */
const guint64 *recording_get_stack (const Recording *self, guint64 stack, gsize *n_frames);
const RecordedFrame *recording_get_frame (const Recording *self, guint64 address);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recording, recording_free)

#endif
