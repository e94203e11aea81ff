/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads what tarn_snapshot_write () has written (doc/guide/trace-format.md).  Nothing is taken for
 * granted of a file.
 *
 * It becomes a recording of what is there: each block in use is a request (MISS) at the moment at
 * which it was asked for, counted from when the oldest was, or a BLOCK at 0 if nobody knows.  What
 * was freed before is in no snapshot; when pieces, extents and held blocks came neither: they are
 * there from 0 on. */

#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "../trace/recording.h"

typedef struct
{
  gchar *version, *program, *reason, *message; /* nullable */
  gboolean follows;                            /* blocks were followed when it was written */
  Recording *recording;                        /* its real time is the snapshot's */
} Snapshot;

/* Errors name the path, and the place. */
Snapshot *snapshot_read (const gchar *path, GBytes *bytes, GError **error);
void snapshot_free (Snapshot *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Snapshot, snapshot_free)

#endif
