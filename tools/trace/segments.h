/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pieces of memory that blocks are in, by their addresses: none of two begins in the other one. */

#ifndef SEGMENTS_H
#define SEGMENTS_H

#include <glib.h>

typedef struct
{
  guint64 address, size, queue;
  gboolean is_block; /* a block is all that is in it, and goes with it */
} Segment;

typedef struct _Segments Segments;

Segments *segments_new (void);
void segments_free (Segments *self);

/* The one that has this address in it; NULL: none. */
const Segment *segments_find (const Segments *self, guint64 address);

/* FALSE: one that is there has its address. */
gboolean segments_add (Segments *self, const Segment *segment);
void segments_remove (Segments *self, guint64 address);

/* From the lowest address on. */
GArray *segments_list (const Segments *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Segments, segments_free)

#endif
