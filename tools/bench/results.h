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
 * Invariant: if has_value is TRUE, error is NULL. */
typedef struct
{
  gchar *device; /* Device.place, such as "cuda:0", or "none" */
  gchar *name;   /* the device's name; nullable */
  const gchar *kind, *measure;
  guint threads;
  gchar *parameter;
  const gchar *unit;
  gboolean has_value, has_yardstick;
  Spread value;
  Spread yardstick; /* malloc (64) + free in the same run */
  /* The median of value / yardstick over the repetitions.  NAN: no yardstick was measured. */
  gdouble ratio;
  /* Blocks per second of all threads, divided by those of one thread.  NAN: not measured. */
  gdouble gain;
  gdouble yardstick_gain;
  /* The share of requests that the pool served without a driver call, from the second repetition
   * on.  NAN: not counted. */
  gdouble hit_share;
  gchar *error; /* why there is no value; nullable */
  /* The error only says that the device or the system does not support this; it is no failure. */
  gboolean is_unsupported;
} Result;

/* The bytes at a moment of a replayed trace: the bytes that the heap or pool manages, and the
 * requested bytes of the blocks in use. */
typedef struct
{
  gdouble time; /* nanoseconds since the start of the trace */
  gdouble managed, active;
} TracePoint;

/* The bytes of a replayed trace: their peaks, and a sample of moments. */
typedef struct
{
  gchar *device;
  const gchar *kind;
  gchar *name;
  guint64 n_allocations;
  gsize peak_managed, peak_active;
  GArray *points; /* a sample of the trace's moments, as TracePoints */
} TraceResult;

/* All results. */
typedef struct
{
  GPtrArray *rows;   /* Results: the rows */
  GPtrArray *traces; /* elements of type TraceResult */
  GPtrArray *tables; /* elements of type WhatIf */
} Results;

Results *results_new (void);
void results_free (Results *results);

/* Add a row, or a trace, and return it for the caller to fill in.  @results owns it.
 * results_add () takes over @parameter. */
Result *results_add (Results *results, const Source *source, const gchar *measure, guint threads,
                     gchar *parameter, const gchar *unit);
TraceResult *results_add_trace (Results *results, const Source *source, const gchar *name);

/* Adds a row for a kind of memory that could not be measured at all.  Takes over @error, which says
 * why. */
void results_add_failure (Results *results, const Kind *kind, const Device *device, GError *error);

/* Sets the value of a result that has neither a value nor an error yet. */
void result_set (Result *result, Spread value);

/* Sets value, yardstick and ratio from @n repetitions, each with a value and a yardstick.  Divides
 * value by yardstick in each repetition, because the two were measured under the same conditions,
 * and takes the median of these ratios.  Sorts both arrays. */
void result_set_beside (Result *result, gdouble *values, gdouble *yardsticks, guint n);

/* Stores the message of @error, which says why the result has no value.  Takes over @error. */
void result_fail (Result *result, GError *error);

/* Computes the gains: compares each row of several threads with the row of one thread.  Call it
 * when @results has all rows of a measure. */
void results_compute_gains (Results *results);
gboolean results_have_errors (const Results *results);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Results, results_free)

#endif
