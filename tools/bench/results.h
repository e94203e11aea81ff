/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results: a row for each kind of memory, measure, number of threads and parameter. */

#ifndef RESULTS_H
#define RESULTS_H

#include "kinds.h"
#include "spread.h"
#include "what-if.h"

/* A row.
 *
 * Invariant: not both has_value and error. */
typedef struct
{
  gchar *device; /* its place, or "none" */
  gchar *name;   /* the device's; nullable */
  const gchar *kind, *measure;
  guint threads;
  gchar *parameter;
  const gchar *unit;
  gboolean has_value, has_yardstick;
  Spread value;
  Spread yardstick; /* malloc (64) + free in the same run */
  gdouble ratio;    /* the median of the repetitions' ratios; NAN: none */
  gdouble gain;     /* blocks a second relative to one thread; NAN: not measured */
  gdouble yardstick_gain;
  gdouble hit_share;       /* after the first repetition; NAN: not counted */
  gchar *error;            /* why there is no value; nullable */
  gboolean is_unsupported; /* the error is no failure: the device has no such memory */
} Result;

/* A moment of a replayed trace. */
typedef struct
{
  gdouble time;            /* nanoseconds since its start */
  gdouble managed, active; /* bytes */
} TracePoint;

/* The bytes of a replayed trace. */
typedef struct
{
  gchar *device;
  const gchar *kind;
  gchar *name;
  guint64 n_allocations;
  gsize peak_managed, peak_active; /* bytes */
  GArray *points;                  /* TracePoints; a sample */
} TraceResult;

/* All results. */
typedef struct
{
  GPtrArray *rows;   /* Results */
  GPtrArray *traces; /* TraceResults */
  GPtrArray *tables; /* WhatIfs */
} Results;

Results *results_new (void);
void results_free (Results *results);

/* Add a row, or a trace, which the caller fills.  They own it.  Takes over @parameter. */
Result *results_add (Results *results, const Source *source, const gchar *measure, guint threads,
                     gchar *parameter, const gchar *unit);
TraceResult *results_add_trace (Results *results, const Source *source, const gchar *name);

/* Adds a row with the error for which a kind of memory could not be measured at all.  Takes over
 * @error. */
void results_add_failure (Results *results, const Kind *kind, const Device *device, GError *error);

/* Sets the value. */
void result_set (Result *result, Spread value);

/* Sets the values of @n repetitions, and their yardsticks.  The ratio is the median of the
 * repetitions' own ratios, because value and yardstick of one repetition were measured under the
 * same conditions.  Sorts both arrays. */
void result_set_beside (Result *result, gdouble *values, gdouble *yardsticks, guint n);

/* Sets an error, and takes it over. */
void result_fail (Result *result, GError *error);

/* Computes the gains, when all rows of a measure are there. */
void results_compute_gains (Results *results);
gboolean results_have_errors (const Results *results);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Results, results_free)

#endif
