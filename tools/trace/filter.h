/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Which events of a recording are meant. */

#ifndef FILTER_H
#define FILTER_H

#include "objects.h"

/* As the options have it: each is NULL where nothing is asked for. */
typedef struct
{
  gchar *object, *thread, *queue, *tag, *kinds, *from, *to;
} FilterTexts;

typedef struct
{
  gchar *object, *tag; /* nullable */
  guint64 thread, queue;
  gboolean has_thread, has_queue;
  gboolean has_kinds, kinds[TARN_TRACE_N_KINDS];
  guint64 from, to;
} Filter;

/* An error names the option. */
gboolean filter_init (Filter *self, const FilterTexts *texts, GError **error);
void filter_clear (Filter *self);
gboolean filter_is_empty (const Filter *self);

/* Whether there is such an object in the recording. */
gboolean filter_check_objects (const Filter *self, const Objects *objects, GError **error);

gboolean filter_has_object (const Filter *self, const Object *object);
gboolean filter_has_time (const Filter *self, guint64 time);

/* Whether an event is meant by all that it has itself: one that is of no request has no tag. */
gboolean filter_has_event (const Filter *self, const Objects *objects, const Recording *recording,
                           const RecordedEvent *event);

/* Whether a block's request was meant; what happens to the block later goes with it.  Without
 * --object those that the program asks for are. */
gboolean filter_has_block (const Filter *self, const Objects *objects, const Recording *recording,
                           const Object *object, const Block *block);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Filter, filter_clear)

#endif
