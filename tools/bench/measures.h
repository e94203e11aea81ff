/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The measures: what is measured for each kind of memory. */

#ifndef MEASURES_H
#define MEASURES_H

#include "crew.h"
#include "report.h"

/* The numbers of threads with which a measure runs. */
typedef enum
{
  THREADS_ONE,
  THREADS_ALL,  /* each number of --threads */
  THREADS_PAIRS /* each number of --threads, made even */
} ThreadRule;

/* Settings, and the results so far. */
typedef struct
{
  gdouble seconds; /* the duration of each repetition */
  guint n_repetitions;
  const GArray *threads;         /* guints: the numbers of threads of --threads */
  const GPtrArray *made_traces;  /* made-up Traces, only for memory that needs no device */
  const GPtrArray *read_traces;  /* Traces from files, for every kind of memory */
  const GPtrArray *recordings;   /* recorded programs (Recorded), for every kind of memory */
  const GPtrArray *alternatives; /* Alternatives for the recordings; nullable */
  gboolean has_all_alternatives; /* tries also alternatives that change nothing */
  /* Each thread that runs a loop has its own queue, and each trace is replayed with its own queues
   * and threads. */
  gboolean has_queues;
  gboolean has_one_queue; /* all threads share one queue */
  guint64 lag;            /* number of steps by which simulated queues are behind the host */
  Results *results;       /* results of the current measure */
  Report *report;         /* the report that gets the results of each measure */
  const gchar *step;      /* the present step, for the progress line */
} Bench;

typedef struct _Measure Measure;

/* A measure: a kind of measurement.  The benchmark runs it for each source: a source is a kind of
 * memory of one device. */
struct _Measure
{
  const gchar *name; /* the name for --measure, which selects all measures of this name */
  void (*run) (const Bench *bench, const Source *source, const Measure *measure);
  gboolean needs_pool;    /* needs a Tarn pool, not a pool of the driver */
  gboolean needs_counter; /* runs only on a counter: memory that needs no device */

  /* Only for measures of loops, which a crew of threads runs */
  Pattern pattern;
  Subject subject;
  Sizes sizes;
  ThreadRule threads;
  guint n_queues; /* number of queues of SUBJECT_TURNS (--queues); 0: another subject */
};

extern const Measure measures[];
extern const gsize n_measures;

/* Tells whether a measure can run on a kind of memory with the settings in @bench. */
gboolean measure_applies (const Measure *measure, const Bench *bench, const Kind *kind);

/* Shows the progress on a terminal. */
void bench_show_progress (const Bench *bench, guint repetition);

/* Prints the results of the current measure, which are complete, and empties bench->results. */
void bench_hand_over (const Bench *bench);

/* Run a measure and add its results.  These functions are in the files measure-*.c. */
void measure_recovery (const Bench *bench, const Source *source, const Measure *measure);
void measure_memory (const Bench *bench, const Source *source, const Measure *measure);
void measure_taken (const Bench *bench, const Source *source, const Measure *measure);
void measure_overhead (const Bench *bench, const Source *source, const Measure *measure);
void measure_calls (const Bench *bench, const Source *source, const Measure *measure);
void measure_what_if (const Bench *bench, const Source *source, const Measure *measure);
void measure_replay (const Bench *bench, const Source *source, const Measure *measure);

#endif
