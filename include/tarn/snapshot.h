/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Snapshots: the memory of all pools and heaps at one moment, and its users.
 */

#ifndef TARN_SNAPSHOT_H
#define TARN_SNAPSHOT_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * Writes a snapshot, the memory of all pools and heaps at one moment. The file has
 * each pool's blocks, with their sizes and the queue that uses them; each heap's pieces, and the
 * extents in use in them; options and counters. tarn-view draws it, and the guide describes the
 * format, which is JSON. Other threads that allocate or free wait while the library reads the
 * blocks: about 0.1 microseconds for each block.
 *
 * Blocks in use have a tag (tarn_tag_push()), a thread and an age if they were allocated while
 * blocks were traced: since tarn_snapshot_set_follow(), tarn_snapshot_on_signal(),
 * tarn_trace_start(), or the program's start if TARN_SNAPSHOT_ON_OOM or TARN_TRACE was in its
 * environment. They have a stack if TARN_TRACE_STACKS was there, or a recording has stacks.
 *
 * With TARN_SNAPSHOT_ON_OOM=FILE in its environment (%p is the process ID) a program writes a
 * snapshot when a pool fails a request with TARN_ERROR_OUT_OF_MEMORY or TARN_ERROR_LIMIT, at most
 * one each second. The file has the latest one. A set-user-ID program does not read the variable.
 *
 * @param path   the file. It is replaced once the whole snapshot is written, and only its owner may
 *               read it then. If it is a device or a pipe, the snapshot is written to that; a
 *               symbolic link is an error.
 * @param error  return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_FORKED in a child
 *               of fork ()
 * @return TRUE if the file was written; any thread may call it, also in a reclaim function
 * @since 0.1
 */
gboolean tarn_snapshot_write (const gchar *path, GError **error);

/**
 * Makes the library handle a signal by writing snapshots. Whenever the process receives the signal,
 * a thread of the library writes one, as tarn_snapshot_write() does. Blocks are traced from now on.
 * The library releases a signal that it handled before, unless it refuses this one. It logs a
 * message (g_message) if it cannot write a file.
 *
 * @param number  a signal that has no handler, such as SIGUSR2
 * @param path    the file: %p is the process ID, %n the number of the snapshot, from 1 on; NULL:
 *                the library releases the signal, which has its default effect again
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if there is no such signal,
 *                or it cannot be handled, or it has a handler already; G_THREAD_ERROR;
 *                TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE if the signal was set or released; any thread may call it
 * @since 0.1
 */
gboolean tarn_snapshot_on_signal (gint number, const gchar *path, GError **error);

/**
 * Turns tracing of blocks on or off, which tells who allocated each. Snapshots
 * (tarn_snapshot_write()) then have the tags (tarn_tag_push()) of blocks in use, and so do the
 * messages of TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT, which name the tags with the most
 * bytes. Meanwhile a request that a thread's cache serves takes about 50 ns more.
 *
 * @param follow  TRUE to trace blocks that are allocated from now on; recordings and other
 *                functions that trace blocks do so in any case. Any thread may call it; in a child
 *                of fork () it does nothing.
 * @since 0.1
 */
void tarn_snapshot_set_follow (gboolean follow);

G_END_DECLS

#endif
