/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recording what allocators do (common/trace-format-private.h).
 *
 *     recorder.c  its beginning and end, buffers, and the thread that writes them
 *     stream.c    events into the buffer of a thread
 *     tag.c       what threads call their requests
 *     stack.c     where requests come from
 *     module.c    the files that their code is from
 *     follow.c    whether blocks are followed, one by one
 *     environment.c  TARN_TRACE and TARN_SNAPSHOT_ON_OOM
 *     probe-private.h  probes for other programs, where events are recorded
 *
 * Each thread writes to a buffer of its own, without a lock, and takes another one when that is
 * full.  One thread of the recorder's writes to the file what buffers have, ten times a second and
 * whenever one is full, so that a thread which records never waits for a disk.  Where no buffer is
 * left events are lost, and counted.
 *
 * Events have the clock's time.  What makes memory somebody else's is recorded before it is done,
 * and what makes it the thread's own afterwards, so that the order of times is one in which it can
 * have happened. */

#ifndef TARN_RECORD_PRIVATE_H
#define TARN_RECORD_PRIVATE_H

#include <tarn/error.h>

#include "base/thread-private.h"
#include "common/trace-format-private.h"
#include "record/probe-private.h"

/* Open while events are recorded.  Behind it is what streams write to. */
extern TarnDoor _tarn_record_door __attribute__ ((visibility ("hidden")));

/* Returns TRUE if blocks are followed, one by one: events are recorded, or blocks are to know their
 * tags.  Pools' doors take fenced visits only, meanwhile, so that no request and no free goes by
 * unseen. */
extern gint _tarn_is_following __attribute__ ((visibility ("hidden"))); /* atomic */

typedef enum
{
  TARN_FOLLOW_FOR_RECORDING = 1,
  TARN_FOLLOW_FOR_TAGS = 2,          /* the program asked for it */
  TARN_FOLLOW_FOR_OUT_OF_MEMORY = 4, /* a snapshot is to be written then */
  TARN_FOLLOW_FOR_SIGNAL = 8,
  TARN_FOLLOW_FOR_CHECKS = 16 /* checks of pools, every so many requests */
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

/* Starts or stops following blocks for one of the reasons.  Blocks are followed as long as there is
 * any reason.  Returns TRUE if this call was the first to start or the last to stop; then the
 * caller has to close and reopen all doors. */
gboolean _tarn_follow (TarnFollowReason reason, gboolean follows);
/* Gets the time from which on blocks have been followed; G_MAXUINT64: they are not. */
guint64 _tarn_follow_get_start (void);

/* recorder.c.  The options are complete. */
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

/* Sets a function that is called before recording ends, also at the program's end. */
void _tarn_record_set_last_words (void (*func) (void));

/* environment.c: begins to record as TARN_TRACE says, and follows blocks for TARN_SNAPSHOT_ON_OOM,
 * once. */
void _tarn_record_from_environment (void);
/* Gets the path of snapshots when memory has run out, as TARN_SNAPSHOT_ON_OOM has it.  Returns NULL
 * if there is none. */
const gchar *_tarn_record_get_snapshot_path (void);
/* Gets a path with the number of the process in place of %p. */
gchar *_tarn_path_expand (const gchar *path);

/* stream.c.  Nothing is done while nothing is recorded, nor in a child of fork ().  Any lock may be
 * held; the calling thread is in no visit. */
void _tarn_record (TarnTraceKind kind, guint64 object, const guint64 *numbers);
/* Gets its time; 0: nothing was recorded. */
guint64 _tarn_record_request (TarnTraceKind kind, guint64 object, gconstpointer queue,
                              guint32 stack, const guint64 *numbers);
guint32 _tarn_record_get_thread (void); /* the system's number of the calling thread */
void _tarn_record_object (guint64 object, TarnTraceClass class, guint64 upstream, const gchar *kind,
                          const gchar *name, const guint64 *properties, gsize n_properties);
void _tarn_record_stats (guint64 object, const guint64 *properties, gsize n_properties);
guint64 _tarn_record_get_time (void); /* nanoseconds, of the clock of events */
gint64 _tarn_record_get_step_time (void);

/* Gets the time at which a call begins whose duration is to be recorded; 0: nothing is. */
static inline guint64
_tarn_record_begin_call (void)
{
  TARN_PROBE (call);
  return _tarn_records () ? _tarn_record_get_time () : 0;
}

/* Gets what an event says of a failure (NULL: of success). */
static inline guint64
_tarn_record_get_code (const GError *error)
{
  if (error == NULL)
    return 0;
  return (error->domain == TARN_ERROR ? (guint64) error->code : TARN_ERROR_FAILED) + 1;
}

#define _tarn_record_numbers(kind, object, ...)                                                    \
  _tarn_record ((kind), (object), (const guint64[]){ __VA_ARGS__ })

/* An event: probes see it, and it is recorded if events are, with the same numbers. */
#define TARN_EVENT(name, kind, object, ...)                                                        \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if (_tarn_records ())                                                                        \
        _tarn_record_numbers (kind, object, __VA_ARGS__);                                          \
    }                                                                                              \
  while (0)

/* Records that a call has ended, and how long it took.  @start: _tarn_record_begin_call () returned
 * it when the call began; 0: nothing is recorded. */
#define TARN_EVENT_SINCE(start, name, kind, object, ...)                                           \
  do                                                                                               \
    {                                                                                              \
      TARN_PROBE (name, (object), __VA_ARGS__);                                                    \
      if ((start) != 0)                                                                            \
        _tarn_record_numbers (kind, object, __VA_ARGS__, _tarn_record_get_time () - (start));      \
    }                                                                                              \
  while (0)

/* tag.c */
guint32 _tarn_tag_get_current (void); /* 0: none */
const gchar *_tarn_tag_get_text (guint32 tag);
gchar *_tarn_tag_quote (guint32 tag);
guint32 _tarn_tags_get_n (void);

/* stack.c */
guint32 _tarn_stack_take (void);          /* the caller's, where stacks are recorded; else 0 */
void _tarn_stack_set_depth (guint depth); /* for snapshots; 0, as at first: that of recordings */
void
_tarn_stack_need_depth (guint depth); /* as deep as that, or deeper if somebody else needs it */
/* Gets a stack's return addresses, the innermost first; they are never freed. */
const gpointer *_tarn_stack_get_frames (guint32 stack, guint *n_frames);

/* module.c */
#define TARN_MODULE_PATH_BYTES 1024

/* A file that code was loaded from.  An address less the load address is one of the file's. */
typedef struct
{
  guint64 load_address;
  gchar path[TARN_MODULE_PATH_BYTES]; /* "": not known */
  gchar build_id[2 * 64 + 1];         /* hexadecimal digits; "": it has none */
} TarnModule;

/* Finds the file of the call that has a return address.  Takes microseconds.  Returns FALSE if it
 * is in no file. */
gboolean _tarn_module_find (gconstpointer return_address, TarnModule *module);

/* Returns a text that tells modules apart; free it with g_free (). */
gchar *_tarn_module_get_key (const TarnModule *module);

#endif
