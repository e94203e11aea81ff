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

gboolean tarn_trace_start (const gchar *path, const TarnTraceOptions *options, GError **error);
gboolean tarn_trace_stop (GError **error);
void tarn_trace_get_stats (TarnTraceStats *stats);

void tarn_tag_push (const gchar *tag);
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
