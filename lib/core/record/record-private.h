/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Records events of allocators, pools and heaps in a file. common/trace-format-private.h has the
 * format of the file.
 *
 *     recorder.c       starts and stops recording, and writes the buffers to the file in a thread
 *     stream.c         writes events into the calling thread's buffer
 *     tag.c            tags: names that threads give to their requests
 *     stack.c          stores the call stacks of requests
 *     module.c         finds the program and library files that contain the code of stacks
 *     follow.c         keeps the reasons for which pools trace blocks
 *     environment.c    reads TARN_TRACE and TARN_SNAPSHOT_ON_OOM
 *     probe-private.h  static probes, for tools such as perf
 *
 * Each thread writes events to its own buffer without a lock.  When the buffer is full, the thread
 * takes an empty one.  If there is no empty buffer, the thread drops events, and counts them as
 * lost.  A thread of the recorder writes all buffers to the file, ten times a second and whenever a
 * buffer is full.  So the other threads never wait for a disk.
 *
 * Each event has a time.  A thread records a free before it frees the memory, and an allocation
 * after it has allocated the memory.  So in the order of time, no memory has two owners at once. */

#ifndef TARN_RECORD_PRIVATE_H
#define TARN_RECORD_PRIVATE_H

#include <tarn/error.h>
#include <tarn/trace.h>

#include "base/thread-private.h"
#include "common/trace-format-private.h"
#include "record/probe-private.h"

/* The recorder's readers-writer lock (base/thread-private.h).  It is open while a recording is
 * active.  A thread takes it as a reader before it writes an event.  To stop a recording, a thread
 * closes it and waits for the readers. */
extern TarnDoor _tarn_record_door __attribute__ ((visibility ("hidden")));

/* Atomic: the set of reasons (bits of TarnFollowReason) for which pools trace blocks.  A pool that
 * traces blocks stores with each block which request got it.  If the set is 0, pools do not trace
 * blocks.  While pools trace blocks, a thread serves each request and each free in a read section
 * with a full fence, so that this thread sees the current value of this variable. */
extern gint _tarn_is_following __attribute__ ((visibility ("hidden")));

typedef enum
{
  TARN_FOLLOW_FOR_RECORDING = 1,
  TARN_FOLLOW_FOR_TAGS = 2,          /* the program called tarn_snapshot_set_follow () */
  TARN_FOLLOW_FOR_OUT_OF_MEMORY = 4, /* Tarn writes a snapshot when memory has run out */
  TARN_FOLLOW_FOR_SIGNAL = 8,        /* Tarn writes a snapshot at a signal */
  TARN_FOLLOW_FOR_CHECKS = 16        /* TARN_DEBUG checks pools at intervals */
} TarnFollowReason;

static inline gboolean
_tarn_follows (void)
{
  return TARN_UNLIKELY (__atomic_load_n (&_tarn_is_following, __ATOMIC_RELAXED) != 0);
}

static inline gboolean
_tarn_records (void)
{
  return TARN_UNLIKELY (!_tarn_door_is_closed (&_tarn_record_door));
}

/* Functions of follow.c */

/* Adds a reason for which pools trace blocks if @follows is TRUE, otherwise removes the reason.
 * Pools trace blocks as long as there is a reason.  Returns TRUE if pools have to begin or to stop
 * tracing.  The caller then stops the read sections of all pools and allows them again, so that all
 * threads see the change. */
gboolean _tarn_follow (TarnFollowReason reason, gboolean follows);
/* Returns the time when pools began to trace blocks, in ns.  Returns G_MAXUINT64 if
 * pools do not trace blocks. */
guint64 _tarn_follow_get_start (void);

/* Functions of recorder.c */

/* Functions that start and stop a recording, and read its counters.  @options and @stats have all
 * fields that this library knows.  (The program's own structs may have fewer fields.) */
gboolean _tarn_record_start (const gchar *path, const TarnTraceOptions *options, GError **error);
gboolean _tarn_record_stop (GError **error);
void _tarn_record_get_stats (TarnTraceStats *stats);

/* Writes to a file as write () does.  But if the file is a pipe that nobody reads any more, only
 * returns the error EPIPE: the signal SIGPIPE would end the program. */
gssize _tarn_record_write (gint file, gconstpointer bytes, gsize size);

/* Sets the error of a call that failed for the file @path with an errno value.  Returns FALSE. */
gboolean _tarn_record_set_error (GError **error, const gchar *path);

/* Sets a function that _tarn_record_stop () calls just before it ends a recording.  When the
 * process exits, Tarn calls _tarn_record_stop () for an active recording. */
void _tarn_record_set_last_words (void (*func) (void));

/* Functions of environment.c */

/* Starts a recording if TARN_TRACE is set, and makes pools trace blocks if TARN_SNAPSHOT_ON_OOM is
 * set.  If the process has called this function before, does nothing. */
void _tarn_record_from_environment (void);
/* Gets the value of TARN_SNAPSHOT_ON_OOM: the path of the snapshots that Tarn writes when memory
 * has run out.  Returns NULL if the variable is not set. */
const gchar *_tarn_record_get_snapshot_path (void);
/* Returns a copy of @path in which the process ID replaces each "%p". */
gchar *_tarn_path_expand (const gchar *path);

/* Functions of stream.c.  The functions that record an event do nothing if no recording is active,
 * and in a child of fork ().  The caller may hold any lock, but must not be in a read section
 * (base/thread-private.h), because these functions begin a read section of their own. */
void _tarn_record (TarnTraceKind kind, guint64 object, const guint64 *numbers);
/* Records the result of a request.  Returns the event's time, or 0 if the event is not recorded. */
guint64 _tarn_record_request (TarnTraceKind kind, guint64 object, gconstpointer queue,
                              guint32 stack, const guint64 *numbers);
/* Adds @change, 1 or -1, to the number of the thread's running calls to backends for memory.  A
 * request during such a call is recorded as nested: the called backend gets its memory from
 * another allocator of Tarn, so the nested request and the outer request are for the same bytes. */
void _tarn_record_nest (gint change);
guint32 _tarn_record_get_thread (void); /* returns the calling thread's gettid () */
void _tarn_record_object (guint64 object, TarnTraceClass class, guint64 upstream, const gchar *kind,
                          const gchar *name, const guint64 *properties, gsize n_properties);
void _tarn_record_stats (guint64 object, const guint64 *properties, gsize n_properties);
guint64 _tarn_record_get_time (void); /* the current time in ns, on the clock of events */
gint64 _tarn_record_get_step_time (void);

/* Fires the static probe "call".  Returns the current time, or 0 if no recording is active.  The
 * caller uses this just before it calls the driver, or another function whose duration is recorded.
 * After that call, it passes the time to TARN_EVENT_SINCE () as @start. */
static inline guint64
_tarn_record_begin_call (void)
{
  TARN_PROBE (call);
  return _tarn_records () ? _tarn_record_get_time () : 0;
}

/* Returns the number that stands for @error in a recorded event: the TarnError code plus 1, or 0 if
 * @error is NULL. */
static inline guint64
_tarn_record_get_code (const GError *error)
{
  if (error == NULL)
    return 0;
  return (error->domain == TARN_ERROR ? (guint64) error->code : TARN_ERROR_FAILED) + 1;
}

#define _tarn_record_numbers(kind, object, ...)                                                    \
  _tarn_record ((kind), (object), (const guint64[]){ __VA_ARGS__ })

/* Fires the static probe @name with the number @object and the numbers after it.  If a recording is
 * active, records an event with these numbers. */
#define TARN_EVENT(name, kind, object, ...)                                                        \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if (_tarn_records ())                                                                        \
        _tarn_record_numbers (kind, object, __VA_ARGS__);                                          \
    }                                                                                              \
  while (0)

/* Fires the static probe @name for a call that has ended, with the number @object and the numbers
 * after it.  If @start is not 0, records an event with these numbers and the call's duration in
 * nanoseconds.  @start: the result of _tarn_record_begin_call () before the call. */
#define TARN_EVENT_SINCE(start, name, kind, object, ...)                                           \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if ((start) != 0)                                                                            \
        _tarn_record_numbers (kind, object, __VA_ARGS__, _tarn_record_get_time () - (start));      \
    }                                                                                              \
  while (0)

/* Functions of tag.c */
guint32 _tarn_tag_get_current (void); /* the calling thread's tag; 0 if it has none */
const gchar *_tarn_tag_get_text (guint32 tag);
gchar *_tarn_tag_quote (guint32 tag);

/* Functions of stack.c */

/* Stores the caller's call stack if it is new, and returns the number of the stack.  Returns 0 if
 * the depth of stacks is 0, or if the stack is new and too many stacks are stored already. */
guint32 _tarn_stack_take (void);
/* Sets the depth of stacks, the largest number of frames in a stored stack.  The depth is 0 at
 * first.  A recording has a depth of its own.  While a recording is active, stacks are stored with
 * the larger one of the two depths. */
void _tarn_stack_set_depth (guint depth);
/* Raises the depth of stacks to @depth if _tarn_stack_set_depth () has set a lower one. */
void _tarn_stack_need_depth (guint depth);
/* Returns the array of a stack's return addresses, the innermost first.  The array is valid until
 * the process ends. */
const gpointer *_tarn_stack_get_frames (guint32 stack, guint *n_frames);

/* Functions of module.c */
#define TARN_MODULE_PATH_BYTES 1024

/* A program or library file whose code the process has loaded.  The address of an instruction in
 * the process, minus load_address, is the instruction's address in the file. */
typedef struct
{
  guint64 load_address;
  gchar path[TARN_MODULE_PATH_BYTES]; /* the path of the file; "" if it is not known */
  gchar build_id[2 * 64 + 1];         /* in hexadecimal digits; "" if the file has no build-id */
} TarnModule;

/* Finds the file that contains the call instruction just before @return_address.  Takes some
 * microseconds.  Returns FALSE if the address is in no file. */
gboolean _tarn_module_find (gconstpointer return_address, TarnModule *module);

/* Returns a text that identifies a module: different modules have different texts.  The caller
 * frees the text with g_free (). */
gchar *_tarn_module_get_key (const TarnModule *module);

#endif
