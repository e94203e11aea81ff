/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads snapshots of tarn_snapshot_write () (doc/guide/trace-format.md), and checks each value.
 *
 * The reader converts a snapshot to a recording.  A block in use becomes a request (MISS) at its
 * time; the oldest one is at time 0.  If its time is unknown, it becomes a BLOCK at time 0.  A
 * snapshot has no blocks that were freed before.  It has no times of segments, extents and cached
 * blocks, so these exist from time 0 on. */

#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "../trace/recording.h"

/* A snapshot. */
typedef struct
{
  gchar *version, *program, *reason, *message; /* nullable */
  gboolean follows; /* blocks were traced when the snapshot was written */
  /* The recording.  Its recording_get_real_time () is the time at which the snapshot was
   * written. */
  Recording *recording;
} Snapshot;

/* Reads a snapshot from memory.  Errors name the path, and the place in the text. */
Snapshot *snapshot_read (const gchar *path, GBytes *bytes, GError **error);
void snapshot_free (Snapshot *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Snapshot, snapshot_free)

#endif
