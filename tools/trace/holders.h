/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The peak of a recording: who held the memory when most of it was in use. */

#ifndef HOLDERS_H
#define HOLDERS_H

#include "objects.h"

/* A holder: all blocks that were requested with the same tag, or by the same stack. */
typedef struct
{
  guint64 key; /* the tag or stack; 0: blocks without a tag or stack */
  guint64 bytes, n_blocks;
} Holder;

/* The peak with its holders: the moment with the most bytes in use. */
typedef struct
{
  guint64 time, bytes;
  /* Holders, the largest first.  by_stack is empty if the recording has no stacks. */
  GArray *by_tag, *by_stack;
} Peak;

/* The place of the peak in a recording. */
typedef struct
{
  guint64 n_event; /* the event that reached the peak, from 1; 0: nothing was ever in use */
  guint64 time, bytes;
} PeakPlace;

/* Finds the peak: applies all events to @objects, which must be new. */
gboolean peak_find (Recording *recording, Objects *objects, PeakPlace *place, GError **error);

/* Finds the holders: resets @objects and applies the events up to the peak. */
gboolean peak_init (Peak *peak, Recording *recording, Objects *objects, const PeakPlace *place,
                    GError **error);
void peak_clear (Peak *peak);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Peak, peak_clear)

#endif
