/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What was measured: a row for each kind of memory, measure, number of threads and parameter. */

#ifndef RESULTS_H
#define RESULTS_H

#include "kinds.h"
#include "spread.h"
#include "what-if.h"

typedef struct
{
  gchar *device; /* its place; "none" */
  gchar *name;   /* of the device; nullable */
  const gchar *kind, *measure;
  guint threads;
  gchar *parameter;
  const gchar *unit;
  gboolean has_value, has_yardstick;
  Spread value;
  Spread yardstick; /* malloc (64) + free in its place, in the same run */
  gdouble ratio;    /* the median of each repetition's; NAN: there is none */
  gdouble gain;     /* in pairs a second over one thread; NAN: it was not measured */
  gdouble yardstick_gain;
  gdouble hit_share;       /* of all requests but the first repetition's; NAN: it was not counted */
  gchar *error;            /* why there is no value; nullable */
  gboolean is_unsupported; /* ... because there is no such thing here, which is no fault */
} Result;

/* A moment of a replayed trace */
typedef struct
{
  gdouble time;            /* nanoseconds since its start */
  gdouble managed, active; /* bytes */
} TracePoint;

typedef struct
{
  gchar *device;
  const gchar *kind;
  gchar *name;
  guint64 n_allocations;
  gsize peak_managed, peak_active; /* bytes */
  GArray *points;                  /* of TracePoint; not all there are */
} TraceResult;

typedef struct
{
  GPtrArray *rows;   /* of Result */
  GPtrArray *traces; /* of TraceResult */
  GPtrArray *tables; /* of WhatIf */
} Results;

Results *results_new (void);
void results_free (Results *results);

/* A row to fill.  Takes over @parameter. */
Result *results_add (Results *results, const Source *source, const gchar *measure, guint threads,
                     gchar *parameter, const gchar *unit);
TraceResult *results_add_trace (Results *results, const Source *source, const gchar *name);

/* Why a kind of memory of a device could not be measured at all. Takes over @error. */
void results_add_failure (Results *results, const Kind *kind, const Device *device, GError *error);

void result_set (Result *result, Spread value);

/* Of so many repetitions, each with its yardstick.  A ratio is of one repetition, whose two
 * measurements saw most nearly the same machine.  It sorts both. */
void result_set_beside (Result *result, gdouble *values, gdouble *yardsticks, guint n);

void result_fail (Result *result, GError *error); /* takes it over */

/* Once all rows of a measure are there. */
void results_reckon_gains (Results *results);
gboolean results_have_errors (const Results *results);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Results, results_free)

#endif
