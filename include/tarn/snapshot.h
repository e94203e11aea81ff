/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Snapshots: files with the memory of all pools and heaps at one moment.
 */

#ifndef TARN_SNAPSHOT_H
#define TARN_SNAPSHOT_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * Writes a snapshot, the memory of all pools and heaps at one moment. The file has the blocks of
 * each pool, with their sizes and queues; the segments of each heap, with the ranges in use;
 * options and counters. tarn-view draws the snapshot. The guide describes the format, which is
 * JSON. While the library reads the blocks, other threads that allocate or free wait: about 0.1
 * microseconds for each block.
 *
 * A block in use has a tag (tarn_tag_push()), a thread and an age if it was allocated while blocks
 * were traced. Tracing begins with tarn_snapshot_set_follow(), tarn_snapshot_on_signal() or
 * tarn_trace_start(), or at the program's start if its environment has TARN_SNAPSHOT_ON_OOM or
 * TARN_TRACE. A block has a stack if the environment has TARN_TRACE_STACKS, or if a recording has
 * stacks.
 *
 * If the environment has TARN_SNAPSHOT_ON_OOM=FILE (%p is the process ID), a program writes a
 * snapshot when a request to a pool fails with TARN_ERROR_OUT_OF_MEMORY or TARN_ERROR_LIMIT, at
 * most once in a second. Each snapshot replaces the one before. A set-user-ID program does not read
 * the variable.
 *
 * @param path   the file, which only its owner may read. It is replaced when the whole snapshot is
 *               written. A device or a pipe is written to directly. A symbolic link is an error.
 * @param error  return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_FORKED in a child
 *               of fork ()
 * @return TRUE if the file was written; any thread may call it, also in a reclaim function
 * @since 0.1
 */
gboolean tarn_snapshot_write (const gchar *path, GError **error);

/**
 * Makes the library handle a signal by writing snapshots. Whenever the process receives the signal,
 * a thread of the library writes one, as tarn_snapshot_write() does. From this call on, blocks are
 * traced. The library handles one signal at a time: unless the new signal is invalid, the library
 * releases the signal of an earlier call. If it cannot write a file, it logs a g_message().
 *
 * @param number  a signal that has no handler, such as SIGUSR2; ignored if @p path is NULL
 * @param path    the file: %p is the process ID, %n the number of the snapshot, from 1 on. NULL:
 *                the library releases its signal, which again has the effect that it had before.
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if there is no such signal,
 *                or it cannot be handled, or it has a handler; G_THREAD_ERROR; TARN_ERROR_FORKED in
 *                a child of fork ()
 * @return TRUE if the signal was set or released; any thread may call it
 * @since 0.1
 */
gboolean tarn_snapshot_on_signal (gint number, const gchar *path, GError **error);

/**
 * Turns tracing of blocks on or off. Traced blocks have the tag of the code that allocated them
 * (tarn_tag_push()). Snapshots (tarn_snapshot_write()) show these tags, and messages of
 * TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT name the tags with the most bytes. With tracing, a
 * request that a thread's cache serves takes about 50 ns more.
 *
 * @param follow  TRUE: blocks are traced from now on. FALSE: they are traced only while a recording
 *                or another function needs it. Any thread may call it; in a child of fork () it
 *                does nothing.
 * @since 0.1
 */
void tarn_snapshot_set_follow (gboolean follow);

G_END_DECLS

#endif
