/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots: files with the memory of all allocators at one moment (doc/guide/trace-format.md).
 *
 *     snapshot.c  writes a snapshot to a file
 *     occasion.c  starts snapshots when memory has run out, and when a signal arrives
 *     holders.c   finds the tags whose blocks take most of a pool, for messages */

#ifndef TARN_SNAPSHOT_PRIVATE_H
#define TARN_SNAPSHOT_PRIVATE_H

#include <tarn/snapshot.h>

#include "allocator/allocator-private.h"

/* Writes a snapshot to the file @path.  The snapshot contains @reason ("asked", "signal" or
 * "out-of-memory") and @message, the error of the failed request (NULL if no request failed).  The
 * caller holds neither an allocator's lock nor the lock of the registry, the list of all
 * allocators. */
gboolean _tarn_snapshot_write (const gchar *path, const gchar *reason, const gchar *message,
                               GError **error);

/* Writes a snapshot to the file that the environment variable TARN_SNAPSHOT_ON_OOM names, at most
 * once a second.  @message: the error of the failed request.  The caller holds no lock. */
void _tarn_snapshot_note_out_of_memory (const gchar *message);

/* Adds to an error's message the tags with the most bytes in use in a pool.  A tag is a text that
 * the program gives its blocks with tarn_tag_push ().  Does nothing if no block has a tag.  The
 * caller does not hold the pool's lock. */
void _tarn_holders_append (TarnAllocator *pool, GError *error);

#endif
