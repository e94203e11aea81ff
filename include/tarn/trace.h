/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Recordings: what memory does, written to a file while a program runs.
 */

#ifndef TARN_TRACE_H
#define TARN_TRACE_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * The most frames of a stack that a recording has.
 *
 * @since 0.1
 */
#define TARN_TRACE_MAX_STACK_DEPTH 64

/**
 * The options of a recording, for tarn_trace_start(). They are copied.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnTraceOptions), as TARN_TRACE_OPTIONS_INIT sets it */

  /**
   * How many frames of the stack of each request are recorded, up to TARN_TRACE_MAX_STACK_DEPTH; 0,
   * the default: none. They cost far more than all else: some 0.2 microseconds for each frame of
   * a request.
   */
  guint stack_depth;

  /**
   * The most bytes of events that wait for the file, of all threads; 64 MiB by default. A thread
   * that finds no room does not wait: its events are lost, and counted.
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

  guint64 events;        /**< in the file */
  guint64 lost_events;   /**< dropped: there was no room, or they could not be written */
  guint64 written_bytes; /**< the size of the file */
} TarnTraceStats;

/**
 * A TarnTraceStats for tarn_trace_get_stats(): every counter 0.
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
 * Begins to record what all pools, heaps and allocators of the process do. In the file are requests
 * and frees, with their times, threads, queues and tags; calls of drivers and waits, with how long
 * they took; what heaps do with their memory; and first what there is already. tarn-trace prints
 * it, tarn-view draws it, and tarn-bench tries it on other pools; the guide describes its form.
 *
 * Threads write to memory, and one thread of the library's to the file, ten times a second at
 * least, so that a program which crashes leaves all but the last tenth of a second. While events
 * are recorded, a request that a thread's own blocks serve takes about 50 ns more. The recording
 * ends with tarn_trace_stop(), or with the program. A child of fork () does not go on with it.
 *
 * Without a call in the program: TARN_TRACE=FILE in its environment, where %p is the number of the
 * process; and TARN_TRACE_STACKS=DEPTH. They are not read in a set-user-ID program.
 *
 * @param path     the file, which is made empty if it is there, and which only its owner may read
 *                 if it is not; no symbolic link
 * @param options  nullable: the defaults; start from TARN_TRACE_OPTIONS_INIT
 * @param error    return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_INVALID_ARGUMENT
 *                 if something is recorded already, by another process if it is to the same file,
 *                 or for an option outside its range or one that this version of the library does
 *                 not have; TARN_ERROR_FORKED in a child of fork ()
 * @return whether it has begun; any thread may call it
 * @since 0.1
 */
gboolean tarn_trace_start (const gchar *path, const TarnTraceOptions *options, GError **error);

/**
 * Ends what tarn_trace_start(), or TARN_TRACE, began. All is in the file then, with the counters of
 * all pools and heaps at the end.
 *
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if nothing is recorded;
 *               G_FILE_ERROR if something could not be written; TARN_ERROR_FORKED in a child of
 *               fork ()
 * @return whether all that was recorded is in the file; tarn_trace_get_stats() tells what was lost.
 *         Any thread may call it.
 * @since 0.1
 */
gboolean tarn_trace_stop (GError **error);

/**
 * Stores the counters of the recording that goes on, or else of the last one.
 *
 * @param stats  out: start from TARN_TRACE_STATS_INIT, whose struct_size says how much is filled.
 *               Any thread may call it; in a child of fork () nothing is stored.
 * @since 0.1
 */
void tarn_trace_get_stats (TarnTraceStats *stats);

/**
 * Calls what the calling thread asks for from now on by a name, until tarn_tag_pop(). Tags are what
 * recordings (tarn_trace_start()), snapshots (tarn_snapshot_write()) and messages say of blocks. A
 * block has the tag that was pushed last when it was asked for. Each text is kept for the rest of
 * the process: there should not be too many.
 *
 * @param tag  text in UTF-8; copied; any thread may call it
 * @since 0.1
 */
void tarn_tag_push (const gchar *tag);

/**
 * Ends the latest tag of the calling thread. Without one it is a programming error, and reported as
 * g_critical.
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
 * Calls what the calling thread asks for by a name, until the program's block ends. It is a
 * declaration: tarn_tag_push(), and tarn_tag_pop() at the end of the enclosing block, however that
 * is left. It needs a compiler that has GNU C's cleanup attribute, as GCC and Clang do, also in
 * C++.
 *
 * @since 0.1
 */
#define TARN_TAG_SCOPE(tag) _TARN_TAG_SCOPE (tag, __LINE__)

G_END_DECLS

#endif
