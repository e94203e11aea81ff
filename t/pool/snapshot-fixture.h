/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A snapshot, read as JSON. */

#ifndef SNAPSHOT_FIXTURE_H
#define SNAPSHOT_FIXTURE_H

#include <json-glib/json-glib.h>
#include <tarn/testing.h>

#include "lib/place.h"

JsonNode *snapshot_read (const gchar *path);

/* Writes a snapshot, and reads it. */
JsonNode *snapshot_take (const Place *place);

/* Gets an allocator by its name. */
JsonObject *snapshot_find (JsonNode *snapshot, const gchar *name);

/* Adds up a member of all items of a list, or counts them if @member is NULL.  @active: 1 or 0, for
 * items in use or cached; -1: for all.  The list may be missing. */
guint64 snapshot_sum (JsonObject *allocator, const gchar *list, const gchar *member, gint active);

guint64 snapshot_get_counter (JsonObject *allocator, const gchar *counter);

/* The counters of a pool are those of its blocks. */
void snapshot_check_pool (JsonObject *pool);

/* Gets the block in use of a size, of which there is one. */
JsonObject *snapshot_find_block (JsonObject *pool, gsize size);

/* Allocates a block while the thread has this tag. */
TarnBlock *pool_take_tagged (TarnPool *pool, gsize size, const gchar *tag);

#endif
