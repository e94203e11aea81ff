/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A table of alternatives: the memory that a recorded program took, and the memory that it would
 * have taken with each alternative. */

#ifndef WHAT_IF_H
#define WHAT_IF_H

#include "rebuilt.h"
#include "spread.h"

/* A row: one alternative. */
typedef struct
{
  gchar *label;
  gsize peak_managed; /* bytes that the backend had allocated at its peak */
  gsize peak_active;  /* most requested bytes that were in use at a time */
  gdouble ratio;      /* peak_managed / peak_active; NAN: nothing was in use */
  /* The share of the backend's bytes that were not in use at the moment when the backend had
   * allocated the most bytes.  NAN: the backend allocated nothing. */
  gdouble idle_share;
  /* The share of served requests that needed no driver call.  NAN: pools served no request. */
  gdouble hit_share;
  guint64 calls;    /* calls that asked the backend for memory, plus moves of segments */
  guint64 failures; /* number of requests that failed */
  gboolean has_time;
  Spread ns;    /* nanoseconds of a step */
  gchar *error; /* why the alternative could not be tried; nullable */
} WhatIfRow;

/* A difference: a counter whose replayed value is not the recorded one. */
typedef struct
{
  gchar *object, *counter;
  guint64 recorded, replayed;
} Difference;

/* A table: the alternatives for one recording on one kind of memory. */
typedef struct
{
  gchar *device; /* Device.place, such as "cuda:0", or "none" */
  gchar *name;   /* the device's name; nullable */
  const gchar *kind;
  gchar *recording;
  guint n_threads;
  guint n_steps;
  /* WhatIfRows: first the program as recorded, then the alternatives, from the best to the worst */
  GPtrArray *rows;
  guint n_compared;       /* number of counters that were compared */
  GPtrArray *differences; /* elements of type Difference */
  GPtrArray *notes;       /* texts: why counters may differ, or are not compared */
} WhatIf;

WhatIf *what_if_new (const Recorded *recorded, const Source *source);
void what_if_free (WhatIf *self);

/* Adds a row at the end, which the caller fills. */
WhatIfRow *what_if_add (WhatIf *self, const gchar *label);

/* Sorts the rows, except the first one, from the best to the worst alternative.  Compares first the
 * number of failures, then the peak of managed bytes, and then the number of calls; less is better.
 * Alternatives that could not be tried come last. */
void what_if_sort (WhatIf *self);

/* Tells whether any alternative could not be tried. */
gboolean what_if_has_errors (const WhatIf *self);

/* Compares the recording's counters with those of a replay without changes, and adds the
 * differences; in compare.c. */
void what_if_compare (WhatIf *self, const Rebuilt *rebuilt);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WhatIf, what_if_free)

#endif
