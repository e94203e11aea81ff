/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared by the parts of the stress test:
 *
 *     stress.c             options, the threads beside the workers, memory of the process
 *     stress-epoch.c       an epoch: its settings, pools and workers, and its end
 *     stress-checks.c      the checks between two rounds
 *     stress-operations.c  the list of operations, and rounds of them
 *     stress-blocks.c      ... on blocks and streams
 *     stress-captures.c    ... captures
 *     stress-children.c    ... fork () */

#ifndef STRESS_H
#define STRESS_H

#include <tarn/cuda.h>

#include "common/lock-private.h"
#include "testing/cuda/fake-cuda.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define MAX_THREADS 32
#define N_POOLS 2
#define N_SLOTS 12     /* blocks that a thread has for itself */
#define N_SHARED 16    /* blocks that threads hand over to each other */
#define N_STREAMS 4    /* of a thread */
#define ROUNDS 3       /* of an epoch */
#define FIRST_LIMIT 4  /* MiB of a pool */
#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

typedef struct
{
  TarnBlock *block; /* NULL: none */
  gsize size;
  gint pool;
  guint value; /* that all of it was written with; 0: nobody knows */
} Item;

/* A word that a command reads, and the value expected there. */
typedef struct
{
  guint expected, found;
} Check;

typedef struct
{
  guint64 address;
  gsize size;
} Range;

typedef struct _Worker Worker;

typedef enum
{
  NO_HEAP,
  SHARED_HEAP, /* of the pools */
  OWN_HEAPS    /* a pool's each: tarn_cuda_pool_new () */
} Heaps;

typedef enum
{
  FAILS_NEVER,
  FAILS_SOFTLY, /* only calls fail that lose nothing */
  FAILS_HARD    /* any call fails */
} Failing;

/* The settings of an epoch, and what it has. */
typedef struct
{
  gint64 number;
  CUcontext context;
  Heaps heaps;
  Failing failing;
  gboolean is_plain, has_limit, has_budget, captures, may_block;
  const gchar *debug;
  TarnAllocator *allocator;
  gsize lost_bytes; /* of the device, in epochs before */
  TarnPool *pools[N_POOLS];
  gsize hold_bytes[N_POOLS];   /* as in TarnPoolOptions */
  gint max_limit_mib[N_POOLS]; /* atomic: the highest; 0: none */

  TarnMutex lock; /* guards: */
  Item shared[N_SHARED];
  Range ranges[MAX_THREADS * N_SLOTS + N_SHARED + MAX_THREADS];
  guint n_ranges;
} Epoch;

struct _Worker
{
  Epoch *epoch;
  GRand *rand;
  GThread *thread;
  Item items[N_SLOTS];
  CUstream streams[N_STREAMS];
  gboolean captures[N_STREAMS]; /* whether the stream is being captured */
  GSList *checks;               /* of Check */
  guint n_writes, number;

  const gchar *what; /* atomic, as is the next: what it is in the midst of; NULL: nothing */
  gint64 since;
};

/* stress.c */
extern const TarnTestingCuda *fake;
extern gint n_threads;
extern gint64 seed;
extern Worker workers[MAX_THREADS];
extern gint clock_ahead;      /* atomic: seconds */
extern gchar *folder;         /* for recordings and snapshots */
extern gint n_done, n_errors; /* atomic: operations, and requests that failed, */
extern gint n_captures;       /* and captures */

/* stress-epoch.c */
void run_epoch (gint64 number);
gsize count_given (void); /* bytes that the driver has given */

/* stress-checks.c */
void check_quiet (Epoch *epoch, gboolean is_last);

/* stress-operations.c */
gpointer work (gpointer worker); /* a worker's thread */
void wait_for_workers (void);    /* until they all have ended a round */
void begin_next_round (void);
void do_one (Worker *worker); /* an operation at random */
void leave_context (void);    /* a call that failed may have left it behind */
gsize get_highest_limit (Epoch *epoch, gint pool);

/* stress-blocks.c: choices at random; NULL: there is none */
gint below (Worker *worker, gint end);
gboolean one_in (Worker *worker, gint n);
gsize choose_size (Worker *worker);
CUstream *choose_stream (Worker *worker); /* that is not being captured */
Item *choose_item (Worker *worker);

/* ... operations on blocks and streams */
void allocate_item (Worker *worker);
void free_one (Worker *worker);
void exchange_item (Worker *worker);
void use_item (Worker *worker);
void share_item (Worker *worker);
void wait_for_item (Worker *worker);
void make_stream (Worker *worker);
void end_stream (Worker *worker);
void hold_stream_up (Worker *worker);

/* ... for other operations, and for the end of an epoch */
void add_range (Epoch *epoch, const TarnBlock *block, gsize size);
void free_item (Epoch *epoch, Item *item);
void destroy_stream (CUstream *stream);
void note_error (const Worker *worker, GError *error); /* takes it; ends the test if it is wrong */
void end_checks (Worker *worker);                      /* when all commands are done */

/* stress-captures.c */
void capture (Worker *worker);

/* stress-children.c */
void fork_child (Worker *worker);
void run_child (Worker *worker, gboolean has_errors);
gboolean may_make_errors (void);

#endif
