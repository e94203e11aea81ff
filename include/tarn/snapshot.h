/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Snapshots: what memory there is at one moment, and who has it.
 */

#ifndef TARN_SNAPSHOT_H
#define TARN_SNAPSHOT_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * Writes what memory all pools and heaps of the process have at one moment. In the file are each
 * pool's blocks, with their sizes and the queue that uses them; each heap's pieces, and what is in
 * use in them; options and counters. tarn-view draws it, and the guide describes its form, which is
 * JSON. Other threads that allocate or free wait while they are looked at: some 0.1 microseconds
 * for each block there is.
 *
 * Blocks in use have a tag (tarn_tag_push()), a thread and an age if they were asked for while
 * blocks were followed: since tarn_snapshot_set_follow(), tarn_snapshot_on_signal(),
 * tarn_trace_start(), or the program's start where TARN_SNAPSHOT_ON_OOM or TARN_TRACE was in its
 * environment; and the stack if TARN_TRACE_STACKS was there, or a recording asks for it.
 *
 * With TARN_SNAPSHOT_ON_OOM=FILE in its environment (%p is the number of the process) a program
 * leaves one when a pool fails a request with TARN_ERROR_OUT_OF_MEMORY or TARN_ERROR_LIMIT: the
 * latest, but none within a second of another. It is not read in a set-user-ID program.
 *
 * @param path   the file. It is replaced once all is written, and only its owner may read it then.
 *               A device or a pipe is written to instead; a symbolic link is an error.
 * @param error  return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_FORKED in a child
 *               of fork ()
 * @return whether the file is written; any thread may call it, also in a reclaim function
 * @since 0.1
 */
gboolean tarn_snapshot_write (const gchar *path, GError **error);

/**
 * Gives a signal over to the library, which then writes snapshots. Whenever the process receives
 * the signal, a thread of the library's writes one, as tarn_snapshot_write() does. Blocks are
 * followed from now on. A signal that was given over before is given back, unless this one is
 * refused. What goes wrong with a file is a message (g_message).
 *
 * @param number  a signal that has no handler, such as SIGUSR2
 * @param path    the file: %p is the number of the process, %n that of the snapshot, from 1 on;
 *                NULL: the signal is given back, and does what it does by default
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if there is no such signal,
 *                it cannot be handled, or has a handler already; G_THREAD_ERROR;
 *                TARN_ERROR_FORKED in a child of fork ()
 * @return whether that is done; any thread may call it
 * @since 0.1
 */
gboolean tarn_snapshot_on_signal (gint number, const gchar *path, GError **error);

/**
 * Has blocks be followed, so that it is known who asked for each. Snapshots (tarn_snapshot_write())
 * then say what blocks in use have as tags (tarn_tag_push()), and so do the messages of
 * TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT, which name the largest holders. Meanwhile a
 * request that a thread's own blocks serve takes some 50 ns more.
 *
 * @param follow  whether to follow those that are asked for from now on; recordings, and what else
 *                follows blocks, do so in any case. Any thread may call it; in a child of fork ()
 * it does nothing.
 * @since 0.1
 */
void tarn_snapshot_set_follow (gboolean follow);

G_END_DECLS

#endif
