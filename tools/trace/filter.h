/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A filter: the events of a recording that the options select. */

#ifndef FILTER_H
#define FILTER_H

#include "objects.h"

/* The texts of the options.  A text is NULL if its option was not given. */
typedef struct
{
  gchar *object, *thread, *queue, *tag, *kinds, *from, *to;
} FilterTexts;

/* The options, parsed.
 *
 * Invariant: from <= to. */
typedef struct
{
  gchar *object, *tag; /* nullable */
  guint64 thread, queue;
  gboolean has_thread, has_queue;
  gboolean has_kinds, kinds[TARN_TRACE_N_KINDS];
  guint64 from, to;
} Filter;

/* Parses the texts.  An error names the option. */
gboolean filter_init (Filter *self, const FilterTexts *texts, GError **error);
void filter_clear (Filter *self);
/* Tells whether the filter selects everything. */
gboolean filter_is_empty (const Filter *self);

/* Checks that the recording has an object that the filter selects.  Returns FALSE with an error if
 * it has none. */
gboolean filter_check_objects (const Filter *self, const Objects *objects, GError **error);

/* Tell whether the filter selects an object, or a time. */
gboolean filter_has_object (const Filter *self, const Object *object);
gboolean filter_has_time (const Filter *self, guint64 time);

/* Tells whether the filter selects an event by the event's own values.  With a tag, selects only
 * requests, because other events have no tag. */
gboolean filter_has_event (const Filter *self, const Objects *objects, const Recording *recording,
                           const RecordedEvent *event);

/* Tells whether the filter selects the request that a block serves.  Callers ask this also for
 * the block's later events, which have no tag of their own.  Without --object, the filter
 * selects requests of the program, but no requests of a pool to its upstream. */
gboolean filter_has_block (const Filter *self, const Recording *recording, const Object *object,
                           const Block *block);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Filter, filter_clear)

#endif
