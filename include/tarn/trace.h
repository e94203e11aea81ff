/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Recordings: requests, frees and other events, written to a file while a program runs.
 */

#ifndef TARN_TRACE_H
#define TARN_TRACE_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * The most stack frames of a request that a recording can have.
 *
 * @since 0.1
 */
#define TARN_TRACE_MAX_STACK_DEPTH 64

/**
 * The options of a recording. tarn_trace_start() copies them.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnTraceOptions), as TARN_TRACE_OPTIONS_INIT sets it */

  /**
   * The number of stack frames recorded for each request, up to TARN_TRACE_MAX_STACK_DEPTH; 0, the
   * default: none. They cost far more than all other events: about 0.2 microseconds for each frame
   * of a request.
   */
  guint stack_depth;

  /**
   * The most bytes of events that may wait to be written to the file, for all threads together; the
   * default is 64 MiB. A thread that finds no room does not wait: its events are lost, and counted.
   */
  gsize buffer_bytes;
} TarnTraceOptions;

/**
 * A TarnTraceOptions to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_TRACE_OPTIONS_INIT                                                                    \
  {                                                                                                \
    sizeof (TarnTraceOptions), /* struct_size */                                                   \
        0,                     /* stack_depth */                                                   \
        64 * 1024 * 1024       /* buffer_bytes */                                                  \
  }

/**
 * The counters of a recording.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnTraceStats), as TARN_TRACE_STATS_INIT sets it */

  guint64 events;      /**< events in the file */
  guint64 lost_events; /**< events that are lost, because the buffer was full or the write failed */
  guint64 written_bytes; /**< the size of the file */
} TarnTraceStats;

/**
 * A TarnTraceStats for tarn_trace_get_stats(), with all counters 0.
 *
 * @since 0.1
 */
#define TARN_TRACE_STATS_INIT                                                                      \
  {                                                                                                \
    sizeof (TarnTraceStats), /* struct_size */                                                     \
        0,                   /* events */                                                          \
        0,                   /* lost_events */                                                     \
        0                    /* written_bytes */                                                   \
  }

/**
 * Begins to record the actions of all pools, heaps and allocators of the process. The file first
 * has the blocks and segments that exist already. Then it has requests and frees, with their times,
 * threads, queues and tags; driver calls and waits, with their durations; and the segments of
 * heaps, with the ranges in use. tarn-trace prints the recording, tarn-view draws it, and
 * tarn-bench replays it on other pools. The guide describes the format.
 *
 * Threads write events to memory, and a thread of the library writes them to the file, at least ten
 * times a second. So a program that crashes loses at most the last tenth of a second. During the
 * recording, a request that a thread's cache serves takes about 50 ns more. The recording ends with
 * tarn_trace_stop(), or with the program. A child of fork () does not continue it.
 *
 * To record a program without a call in it, set TARN_TRACE=FILE in its environment, where %p is the
 * process ID, and optionally TARN_TRACE_STACKS=DEPTH. A set-user-ID program does not read them.
 *
 * @param path     the file. If it exists, it is emptied; if not, it is made, and only its owner may
 *                 read it. It must not be a symbolic link.
 * @param options  nullable: the defaults; start from TARN_TRACE_OPTIONS_INIT
 * @param error    return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_INVALID_ARGUMENT
 *                 if this process is recording, or another process is recording to the same file,
 *                 or for an option outside its range or of a later version of the library;
 *                 TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE if the recording has begun; any thread may call it
 * @since 0.1
 */
gboolean tarn_trace_start (const gchar *path, const TarnTraceOptions *options, GError **error);

/**
 * Ends the recording that tarn_trace_start(), or TARN_TRACE, began. The file is then complete, with
 * the counters of all pools and heaps at the end.
 *
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if no recording is in
 *               progress; G_FILE_ERROR if something could not be written; TARN_ERROR_FORKED in a
 *               child of fork ()
 * @return TRUE if all recorded events are in the file; tarn_trace_get_stats() tells how many were
 *         lost. Any thread may call it.
 * @since 0.1
 */
gboolean tarn_trace_stop (GError **error);

/**
 * Stores the counters of the recording in progress, or else of the last one.
 *
 * @param stats  out: start from TARN_TRACE_STATS_INIT, whose struct_size says how many bytes are
 *               filled. Any thread may call it; in a child of fork () nothing is stored.
 * @since 0.1
 */
void tarn_trace_get_stats (TarnTraceStats *stats);

/**
 * Tags the blocks that the calling thread allocates from now on, until tarn_tag_pop(). A block has
 * the tag that was pushed last when it was allocated. Recordings (tarn_trace_start()), snapshots
 * (tarn_snapshot_write()) and messages name blocks by their tags. Each distinct text is kept until
 * the process ends, so do not use too many.
 *
 * @param tag  text in UTF-8; copied; any thread may call it
 * @since 0.1
 */
void tarn_tag_push (const gchar *tag);

/**
 * Removes the calling thread's latest tag. Earlier tags stay. To call this without a tag is a
 * programming error, which Tarn reports by g_critical ().
 *
 * @since 0.1
 */
void tarn_tag_pop (void);

/** @cond */ /* for TARN_TAG_SCOPE() */
static inline void
_tarn_tag_end (gint *scope)
{
  (void) scope;
  tarn_tag_pop ();
}

#define _TARN_TAG_NAME(line) _tarn_tag_scope_##line
#define _TARN_TAG_SCOPE(tag, line)                                                                 \
  __attribute__ ((cleanup (_tarn_tag_end), unused)) gint _TARN_TAG_NAME (line)                     \
      = (tarn_tag_push (tag), 0)

/** @endcond */

/**
 * Tags the blocks that the calling thread allocates until the enclosing block ends. The macro is a
 * declaration: it calls tarn_tag_push() at once, and tarn_tag_pop() whenever control leaves the
 * enclosing block. It needs a compiler with GNU C's cleanup attribute, such as GCC or Clang, also
 * in C++.
 *
 * @since 0.1
 */
#define TARN_TAG_SCOPE(tag) _TARN_TAG_SCOPE (tag, __LINE__)

G_END_DECLS

#endif
