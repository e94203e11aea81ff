/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Segments of memory that contain blocks, by their addresses.  No segment begins inside another
 * one. */

#ifndef SEGMENTS_H
#define SEGMENTS_H

#include <glib.h>

/* A segment: a range of memory that contains blocks. */
typedef struct
{
  guint64 address, size, queue;
  gboolean is_block; /* the segment is the memory of one block, and is removed with the block */
} Segment;

typedef struct _Segments Segments;

Segments *segments_new (void);
void segments_free (Segments *self);

/* Finds the segment that contains an address.  Returns NULL if there is none. */
const Segment *segments_find (const Segments *self, guint64 address);

/* Adds a segment.  Returns FALSE if its address is in another segment. */
gboolean segments_add (Segments *self, const Segment *segment);
void segments_remove (Segments *self, guint64 address);

/* Lists the Segments, the lowest address first. */
GArray *segments_list (const Segments *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Segments, segments_free)

#endif
