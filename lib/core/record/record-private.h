/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Records events of allocators, pools and heaps in a file.  common/trace-format-private.h has the
 * format of the file.
 *
 *     recorder.c       starts and stops recording, and writes the buffers to the file in a thread
 *     stream.c         writes events into the calling thread's buffer
 *     tag.c            tags: names that threads give to their requests
 *     stack.c          stores the call stacks of requests
 *     module.c         finds the program and library files that contain the code of stacks
 *     follow.c         keeps the reasons to trace blocks one by one
 *     environment.c    reads TARN_TRACE and TARN_SNAPSHOT_ON_OOM
 *     probe-private.h  static probes, for tools such as perf
 *
 * Each thread writes events to its own buffer without a lock, and takes an empty buffer when the
 * old one is full.  If there is no empty buffer, the thread drops events, and counts them as lost.
 * One thread of the recorder writes all buffers to the file, ten times a second and whenever a
 * buffer is full.  So the other threads never wait for a disk.
 *
 * Each event has a time.  A thread records a free before it frees the memory, and an allocation
 * after it has allocated the memory.  So in the order of the events' times, no memory has two
 * owners at once. */

#ifndef TARN_RECORD_PRIVATE_H
#define TARN_RECORD_PRIVATE_H

#include <tarn/error.h>

#include "base/thread-private.h"
#include "common/trace-format-private.h"
#include "record/probe-private.h"

/* The recorder's door, a readers-writer lock (base/thread-private.h), which is open while events
 * are recorded.  A thread enters it as a reader before it writes an event. */
extern TarnDoor _tarn_record_door __attribute__ ((visibility ("hidden")));

/* The set of TarnFollowReason bits for which pools trace blocks one by one, that is, store with
 * each block which request got it; 0: pools do not trace blocks.  While pools trace blocks, they
 * serve each request and free in a read section with a full fence, so that the thread sees the
 * current value of this variable. */
extern gint _tarn_is_following __attribute__ ((visibility ("hidden"))); /* atomic */

typedef enum
{
  TARN_FOLLOW_FOR_RECORDING = 1,
  TARN_FOLLOW_FOR_TAGS = 2,          /* the program called tarn_snapshot_set_follow () */
  TARN_FOLLOW_FOR_OUT_OF_MEMORY = 4, /* Tarn writes a snapshot when memory has run out */
  TARN_FOLLOW_FOR_SIGNAL = 8,        /* Tarn writes a snapshot at a signal */
  TARN_FOLLOW_FOR_CHECKS = 16        /* pools check their invariants at intervals */
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

/* follow.c */

/* Adds a reason to trace blocks one by one if @follows, otherwise removes it.  Pools trace blocks
 * as long as there is a reason.  Returns TRUE if this was the first reason, or if no reason is
 * left.  The caller then closes the doors of all pools and opens them again. */
gboolean _tarn_follow (TarnFollowReason reason, gboolean follows);
/* Returns the time when pools began to trace blocks, in nanoseconds; G_MAXUINT64: pools do not. */
guint64 _tarn_follow_get_start (void);

/* recorder.c */

/* The options of a recording.  The caller sets all fields; there are no defaults. */
typedef struct
{
  gsize buffer_bytes;
  guint stack_depth;
} TarnRecordOptions;

typedef struct
{
  guint64 events;
  guint64 lost;
  guint64 written_bytes;
} TarnRecordStats;

gboolean _tarn_record_start (const gchar *path, const TarnRecordOptions *options, GError **error);
gboolean _tarn_record_stop (GError **error);
void _tarn_record_get_stats (TarnRecordStats *stats);

/* Sets a function that the recorder calls before a recording ends.  A recording ends when
 * _tarn_record_stop () is called, or when the process exits. */
void _tarn_record_set_last_words (void (*func) (void));

/* environment.c */

/* Begins to record if TARN_TRACE is set, and to trace blocks if TARN_SNAPSHOT_ON_OOM is set.  Only
 * the first call in a process does this; later calls do nothing. */
void _tarn_record_from_environment (void);
/* Gets the value of TARN_SNAPSHOT_ON_OOM: the path of the snapshots that Tarn writes when memory
 * has run out.  Returns NULL if the variable is not set. */
const gchar *_tarn_record_get_snapshot_path (void);
/* Returns a copy of @path in which the process ID replaces each "%p". */
gchar *_tarn_path_expand (const gchar *path);

/* stream.c.  The functions that record do nothing while no recording is active, and in a child of
 * fork ().  The caller may hold any lock, but must not be in a read section
 * (base/thread-private.h), because the functions begin a read section of their own. */
void _tarn_record (TarnTraceKind kind, guint64 object, const guint64 *numbers);
/* Records the result of a request.  Returns the event's time, or 0 if the event is not recorded. */
guint64 _tarn_record_request (TarnTraceKind kind, guint64 object, gconstpointer queue,
                              guint32 stack, const guint64 *numbers);
guint32 _tarn_record_get_thread (void); /* the system's number of the calling thread */
void _tarn_record_object (guint64 object, TarnTraceClass class, guint64 upstream, const gchar *kind,
                          const gchar *name, const guint64 *properties, gsize n_properties);
void _tarn_record_stats (guint64 object, const guint64 *properties, gsize n_properties);
guint64 _tarn_record_get_time (void); /* the current time of the events' clock, in nanoseconds */
gint64 _tarn_record_get_step_time (void);

/* Call this before a call whose duration is recorded, such as a call of the driver.  Fires the
 * probe "call".  Returns the current time, which the caller passes to TARN_EVENT_SINCE () as
 * @start; 0: no recording is active. */
static inline guint64
_tarn_record_begin_call (void)
{
  TARN_PROBE (call);
  return _tarn_records () ? _tarn_record_get_time () : 0;
}

/* Returns the number that an event stores for an error: its TarnError code plus 1, or 0 if @error
 * is NULL. */
static inline guint64
_tarn_record_get_code (const GError *error)
{
  if (error == NULL)
    return 0;
  return (error->domain == TARN_ERROR ? (guint64) error->code : TARN_ERROR_FAILED) + 1;
}

#define _tarn_record_numbers(kind, object, ...)                                                    \
  _tarn_record ((kind), (object), (const guint64[]){ __VA_ARGS__ })

/* Fires the probe @name, and records an event with the same numbers if a recording has started. */
#define TARN_EVENT(name, kind, object, ...)                                                        \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if (_tarn_records ())                                                                        \
        _tarn_record_numbers (kind, object, __VA_ARGS__);                                          \
    }                                                                                              \
  while (0)

/* Fires the probe @name for a call that has ended, and records an event with the same numbers and
 * the call's duration in nanoseconds.  @start: the result of _tarn_record_begin_call () before the
 * call; if it is 0, no event is recorded. */
#define TARN_EVENT_SINCE(start, name, kind, object, ...)                                           \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if ((start) != 0)                                                                            \
        _tarn_record_numbers (kind, object, __VA_ARGS__, _tarn_record_get_time () - (start));      \
    }                                                                                              \
  while (0)

/* tag.c */
guint32 _tarn_tag_get_current (void); /* the calling thread's tag; 0: none */
const gchar *_tarn_tag_get_text (guint32 tag);
gchar *_tarn_tag_quote (guint32 tag);
guint32 _tarn_tags_get_n (void);

/* stack.c */

/* Stores the call stack of the caller.  Returns the stack's number.  Returns 0 if it stores no
 * stack, because the depth of stacks is 0 or too many stacks are stored already. */
guint32 _tarn_stack_take (void);
/* Sets the depth of stacks, which is the most frames of a stored stack.  The depth is initially 0.
 * While a recording is active, the recording's depth is used instead if it is larger. */
void _tarn_stack_set_depth (guint depth);
/* Raises the depth set by _tarn_stack_set_depth () to @depth if it is less. */
void _tarn_stack_need_depth (guint depth);
/* Returns the array of a stack's return addresses, the innermost function's first.  The array stays
 * valid until the process ends. */
const gpointer *_tarn_stack_get_frames (guint32 stack, guint *n_frames);

/* module.c */
#define TARN_MODULE_PATH_BYTES 1024

/* A program or library file whose code the process has loaded.  The address of an instruction in
 * the process, minus load_address, is the instruction's address in the file. */
typedef struct
{
  guint64 load_address;
  gchar path[TARN_MODULE_PATH_BYTES]; /* "": not known */
  gchar build_id[2 * 64 + 1];         /* hexadecimal digits; "": the file has no build-id */
} TarnModule;

/* Finds the file that contains the call instruction just before @return_address.  Takes some
 * microseconds.  Returns FALSE if the address is in no file. */
gboolean _tarn_module_find (gconstpointer return_address, TarnModule *module);

/* Returns a text that is different for different modules.  The caller frees it with g_free (). */
gchar *_tarn_module_get_key (const TarnModule *module);

#endif
