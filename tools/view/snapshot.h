/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads snapshots of tarn_snapshot_write () (doc/guide/trace-format.md), and checks each value.
 *
 * A snapshot is made into a recording.  Each block in use is a request (MISS) at its time; the
 * oldest one is at 0.  A block whose time is unknown is a BLOCK at 0.  A snapshot has no blocks
 * that were freed before, and no times of segments, extents and held blocks, so these are there
 * from 0 on. */

#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "../trace/recording.h"

/* A snapshot. */
typedef struct
{
  gchar *version, *program, *reason, *message; /* nullable */
  gboolean follows;                            /* blocks were traced when it was written */
  Recording *recording;                        /* its real time is the snapshot's */
} Snapshot;

/* Reads a snapshot from memory.  Errors name the path and the place. */
Snapshot *snapshot_read (const gchar *path, GBytes *bytes, GError **error);
void snapshot_free (Snapshot *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Snapshot, snapshot_free)

#endif
