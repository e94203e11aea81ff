/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is measured of each kind of memory. */

#ifndef MEASURES_H
#define MEASURES_H

#include "crew.h"
#include "report.h"

typedef enum
{
  THREADS_ONE,
  THREADS_ALL,  /* each number that was asked for */
  THREADS_PAIRS /* ... made even */
} ThreadRule;

/* How to measure. */
typedef struct
{
  gdouble seconds; /* of each repetition */
  guint n_repetitions;
  const GArray *threads;         /* of guint */
  const GPtrArray *made_traces;  /* of Trace: for memory that needs no device */
  const GPtrArray *read_traces;  /* of Trace: for every kind */
  const GPtrArray *recordings;   /* of Recorded: for every kind */
  const GPtrArray *alternatives; /* of Alternative: for these; nullable */
  gboolean has_all_alternatives; /* also those that change nothing */
  gboolean has_queues;    /* threads have one each; traces are replayed with theirs, and threads */
  gboolean has_one_queue; /* ... which is the same for all threads */
  guint64 lag;            /* steps that simulated ones are late */
  Results *results;       /* of what is being measured */
  Report *report;         /* ... and where they go then */
  const gchar *step;      /* for the line of progress */
} Bench;

typedef struct _Measure Measure;
struct _Measure
{
  const gchar *name; /* may be that of several, which are then chosen together */
  void (*run) (const Bench *bench, const Source *source, const Measure *measure);
  gboolean needs_pool;    /* Tarn's */
  gboolean needs_counter; /* for memory that needs no device only */

  /* Of those whose cost is taken by a crew */
  Pattern pattern;
  Subject subject;
  Sizes sizes;
  ThreadRule threads;
};

extern const Measure measures[];
extern const gsize n_measures;

gboolean measure_applies (const Measure *measure, const Kind *kind);

void bench_show_progress (const Bench *bench, guint repetition);

/* Prints the rows that there are: they are complete. */
void bench_hand_over (const Bench *bench);

/* In measure-*.c */
void measure_recovery (const Bench *bench, const Source *source, const Measure *measure);
void measure_memory (const Bench *bench, const Source *source, const Measure *measure);
void measure_taken (const Bench *bench, const Source *source, const Measure *measure);
void measure_overhead (const Bench *bench, const Source *source, const Measure *measure);
void measure_calls (const Bench *bench, const Source *source, const Measure *measure);
void measure_what_if (const Bench *bench, const Source *source, const Measure *measure);
void measure_replay (const Bench *bench, const Source *source, const Measure *measure);

#endif
