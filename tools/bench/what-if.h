/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recorded program's memory took, and would have taken: a table of alternatives. */

#ifndef WHAT_IF_H
#define WHAT_IF_H

#include "rebuilt.h"
#include "spread.h"

typedef struct
{
  gchar *label;
  gsize peak_managed; /* bytes of the backend */
  gsize peak_active;  /* bytes that were asked for and in use */
  gdouble ratio;      /* of these; NAN: nothing was in use */
  gdouble idle_share; /* of the backend's bytes when they were most: not in use; or NAN */
  gdouble hit_share;  /* of requests that pools served; NAN: there were none */
  guint64 calls;      /* of the backend for memory, and pieces that moved */
  guint64 failures;   /* requests */
  gboolean has_time;
  Spread ns;    /* of a step */
  gchar *error; /* why it could not be tried; nullable */
} WhatIfRow;

/* A counter of an object that the replay had otherwise. */
typedef struct
{
  gchar *object, *counter;
  guint64 recorded, replayed;
} Difference;

typedef struct
{
  gchar *device; /* its place; "none" */
  gchar *name;   /* of the device; nullable */
  const gchar *kind;
  gchar *recording;
  guint n_threads;
  guint n_steps;
  GPtrArray *rows;        /* of WhatIfRow: as recorded, and then the best first */
  guint n_compared;       /* counters */
  GPtrArray *differences; /* of Difference */
  GPtrArray *notes;       /* texts: what cannot be equal, and why */
} WhatIf;

WhatIf *what_if_new (const Recorded *recorded, const Source *source);
void what_if_free (WhatIf *self);

/* A row to fill, behind the others. */
WhatIfRow *what_if_add (WhatIf *self, const gchar *label);

/* Puts those behind the first row in order: fewest failures, least peak of managed bytes, fewest
 * calls; what could not be tried comes last. */
void what_if_sort (WhatIf *self);

gboolean what_if_has_errors (const WhatIf *self);

/* In compare.c: adds where counters of a replay as recorded are not those of the recording. */
void what_if_compare (WhatIf *self, const Rebuilt *rebuilt);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WhatIf, what_if_free)

#endif
