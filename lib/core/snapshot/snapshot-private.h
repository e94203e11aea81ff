/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots: what all allocators have at one moment, as JSON (doc/guide/trace-format.md).
 *
 *     snapshot.c  the file
 *     occasion.c  when one is written without being asked for: out of memory, and on a signal
 *     holders.c   who has most of a pool, for messages */

#ifndef TARN_SNAPSHOT_PRIVATE_H
#define TARN_SNAPSHOT_PRIVATE_H

#include <tarn/snapshot.h>

#include "allocator/allocator-private.h"

/* Writes a snapshot.  @reason: "asked", "signal" or "out-of-memory".  @message: more about it;
 * nullable.  No lock of an allocator is held. */
gboolean _tarn_snapshot_write (const gchar *path, const gchar *reason, const gchar *message,
                               GError **error);

/* Writes a snapshot if TARN_SNAPSHOT_ON_OOM asks for it. */
void _tarn_snapshot_note_out_of_memory (const gchar *message);

/* Adds the largest holders of a pool's blocks to a message, if they are known.  The pool's lock is
 * not held. */
void _tarn_holders_append (TarnAllocator *pool, GError *error);

#endif
