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

gboolean tarn_snapshot_write (const gchar *path, GError **error);
gboolean tarn_snapshot_on_signal (gint number, const gchar *path, GError **error);
void tarn_snapshot_set_follow (gboolean follow);

G_END_DECLS

#endif
