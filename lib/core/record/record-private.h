/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Records events of allocators, pools and heaps in a file.  common/trace-format-private.h has the
 * format of the file.
 *
 *     recorder.c       starts and stops recording; buffers, and the thread that writes them
 *     stream.c         writes events into the calling thread's buffer
 *     tag.c            tags: names that threads give to their requests
 *     stack.c          call stacks of requests
 *     module.c         the program and library files that contain the code of stacks
 *     follow.c         decides if blocks are traced one by one
 *     environment.c    TARN_TRACE and TARN_SNAPSHOT_ON_OOM
 *     probe-private.h  static probes, for other programs
 *
 * Each thread writes events to its own buffer, without a lock, and takes another buffer when that
 * one is full.  The recorder has one thread that writes the buffers to the file, ten times a second
 * and whenever a buffer is full.  So a thread that records never waits for a disk.  If there is no
 * empty buffer, the thread drops the event, and counts it as lost.
 *
 * Each event has a time.  A thread records an event that gives memory away before it does so, and
 * an event that gets memory after it did so.  So events in the order of their times never say that
 * two owners have the same memory. */

#ifndef TARN_RECORD_PRIVATE_H
#define TARN_RECORD_PRIVATE_H

#include <tarn/error.h>

#include "base/thread-private.h"
#include "common/trace-format-private.h"
#include "record/probe-private.h"

/* A door that is open while events are recorded.  A thread enters it before it writes to a stream.
 */
extern TarnDoor _tarn_record_door __attribute__ ((visibility ("hidden")));

/* A set of TarnFollowReasons for which blocks are traced one by one; 0: they are not.  While they
 * are, pools serve requests and frees only in read sections with a fence, so that each of them sees
 * this. */
extern gint _tarn_is_following __attribute__ ((visibility ("hidden"))); /* atomic */

typedef enum
{
  TARN_FOLLOW_FOR_RECORDING = 1,
  TARN_FOLLOW_FOR_TAGS = 2,          /* the program wants blocks to have tags */
  TARN_FOLLOW_FOR_OUT_OF_MEMORY = 4, /* Tarn writes a snapshot when memory has run out */
  TARN_FOLLOW_FOR_SIGNAL = 8,        /* Tarn writes a snapshot at a signal */
  TARN_FOLLOW_FOR_CHECKS = 16        /* pools check their invariants now and then */
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

/* Adds or removes a reason to trace blocks one by one.  Blocks are traced as long as there is a
 * reason.  Returns TRUE if this was the first reason, or if none is left.  The caller then has to
 * close all pools' doors and open them again. */
gboolean _tarn_follow (TarnFollowReason reason, gboolean follows);
/* Gets the time since which blocks have been traced; G_MAXUINT64: blocks are not traced. */
guint64 _tarn_follow_get_start (void);

/* recorder.c.  The caller sets all options; there are no defaults. */
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

/* Sets a function that the recorder calls before it ends a recording, also when the program ends.
 */
void _tarn_record_set_last_words (void (*func) (void));

/* environment.c */

/* Begins to record if TARN_TRACE says so, and to trace blocks if TARN_SNAPSHOT_ON_OOM is set.  Only
 * the first call of a process does this. */
void _tarn_record_from_environment (void);
/* Gets the value of TARN_SNAPSHOT_ON_OOM: the path of the snapshots that Tarn writes when memory
 * has run out.  Returns NULL if the variable is not set. */
const gchar *_tarn_record_get_snapshot_path (void);
/* Returns a copy of a path that has the number of the process in place of each %p. */
gchar *_tarn_path_expand (const gchar *path);

/* stream.c.  These functions do nothing if no recording has started, or in a child of fork ().  The
 * caller may hold any lock, but it must not be in a read section. */
void _tarn_record (TarnTraceKind kind, guint64 object, const guint64 *numbers);
/* Records the result of a request.  Returns the time of the event; 0: it was not recorded. */
guint64 _tarn_record_request (TarnTraceKind kind, guint64 object, gconstpointer queue,
                              guint32 stack, const guint64 *numbers);
guint32 _tarn_record_get_thread (void); /* the system's number of the calling thread */
void _tarn_record_object (guint64 object, TarnTraceClass class, guint64 upstream, const gchar *kind,
                          const gchar *name, const guint64 *properties, gsize n_properties);
void _tarn_record_stats (guint64 object, const guint64 *properties, gsize n_properties);
guint64 _tarn_record_get_time (void); /* nanoseconds, of the clock of events */
gint64 _tarn_record_get_step_time (void);

/* Call this when a call of the driver begins.  Returns the time, from which TARN_EVENT_SINCE ()
 * computes the duration; 0: no recording has started. */
static inline guint64
_tarn_record_begin_call (void)
{
  TARN_PROBE (call);
  return _tarn_records () ? _tarn_record_get_time () : 0;
}

/* Gets the number that stands for an error in an event; 0 if @error is NULL. */
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

/* Does the same for a call that has ended, and adds its duration to the event.  @start: the result
 * of _tarn_record_begin_call () when the call began; 0: records nothing. */
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

/* Keeps the call stack of the caller.  Returns its number; 0: the depth of stacks is 0, or there
 * are too many stacks. */
guint32 _tarn_stack_take (void);
/* Sets the most frames that stacks have even if no recording asks for more; at first 0. */
void _tarn_stack_set_depth (guint depth);
/* Raises that number to @depth if it is less. */
void _tarn_stack_need_depth (guint depth);
/* Gets the return addresses of a stack, that of the innermost function first.  The addresses stay
 * valid until the program ends. */
const gpointer *_tarn_stack_get_frames (guint32 stack, guint *n_frames);

/* module.c */
#define TARN_MODULE_PATH_BYTES 1024

/* A file whose code the process has loaded.  An address of that code minus load_address is the
 * address in the file. */
typedef struct
{
  guint64 load_address;
  gchar path[TARN_MODULE_PATH_BYTES]; /* "": not known */
  gchar build_id[2 * 64 + 1];         /* hexadecimal digits; "": it has none */
} TarnModule;

/* Finds the file that contains the call before @return_address.  This takes microseconds.  Returns
 * FALSE if the address is in no file. */
gboolean _tarn_module_find (gconstpointer return_address, TarnModule *module);

/* Returns a text that is different for different modules.  The caller frees it with g_free (). */
gchar *_tarn_module_get_key (const TarnModule *module);

#endif
