/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who had the memory when most of it was in use. */

#ifndef HOLDERS_H
#define HOLDERS_H

#include "objects.h"

/* All blocks that were asked for with the same tag, or by the same stack. */
typedef struct
{
  guint64 key; /* the tag or stack; 0: without one */
  guint64 bytes, n_blocks;
} Holder;

typedef struct
{
  guint64 time, bytes;
  GArray *by_tag, *by_stack; /* of Holder, the largest first; by_stack is empty without stacks */
} Peak;

typedef struct
{
  guint64 n_event; /* which one it was, from 1; 0: nothing was ever in use */
  guint64 time, bytes;
} PeakPlace;

/* Applies all events to @objects, which have nothing yet. */
gboolean peak_find (Recording *recording, Objects *objects, PeakPlace *place, GError **error);

/* Applies them once more, up to the peak. */
gboolean peak_init (Peak *peak, Recording *recording, Objects *objects, const PeakPlace *place,
                    GError **error);
void peak_clear (Peak *peak);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Peak, peak_clear)

#endif
