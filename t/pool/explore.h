/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The world of the explorer: a device of which all is known but how far it has got, the program
 * that uses it, and the pools in between, of which nothing is known but what they say and call.
 *
 * Whatever is put on a queue has a number there.  A clock has of each queue how many of the first
 * things on it it stands for, so one moment is before another where no number is greater.  How far
 * the device has got is decided when somebody asks: wherever both answers are possible, the
 * explorer chooses, and tries the other one later.  So there is nothing to run.
 *
 *     explore.c          exploring, and what is said of it
 *     explore-configs.c  what is explored
 *     explore-steps.c    what the program can do, and what it expects of it
 *     explore-list.c     which of it can be done next
 *     explore-threads.c  who does it
 *     explore-device.c   the device, as a backend: clocks, and who breaks the rules */

#ifndef TARN_EXPLORE_H
#define TARN_EXPLORE_H

#include <tarn/tarn.h>

#define N_QUEUES 16 /* that ever are, in one sequence */
#define N_LETTERS 4 /* at a time */
#define N_HANDLES 16
#define N_MEMORIES 64
#define N_EVENTS 256
#define N_BLOCKS 4
#define N_POOLS 2
#define N_WAITS 64
#define N_STEPS 32
#define N_CHOICES 512
#define N_HELPERS 2 /* one for steps, one for those inside of calls */
#define N_FOUND 16

#define NO_QUEUE G_MAXUINT8
#define NO_LETTER N_LETTERS
#define BIT(i) (1u << (i))

/* What the backend is, and what is wrong with the device. */
typedef enum
{
  RECORDS_ALL = 1 << 0, /* event_record_all; a queue that is referenced can be destroyed */
  FREES_IN_ORDER = 1 << 1,
  FREES_ON_QUEUE = 1 << 2,
  IS_FRESH = 1 << 3,      /* memory is made ready on the first queue, which stays */
  CHECKS_QUEUES = 1 << 4, /* check_queue */
  POOL_OVER = 1 << 5,     /* the second pool is over the first one */
  POOL_GROUP = 1 << 6,    /* the second pool is in one reclaim group with it */
  BROKEN_WAIT = 1 << 7,   /* queues do not wait: has to be found */
  BROKEN_EVENT = 1 << 8   /* events do not stand for the latest command: has to be found */
} ExploreFlags;

/* What the program may do. */
typedef enum
{
  STEP_ALLOCATE = 1 << 0, /* for a queue, or none, where STEP_NONE is set */
  STEP_BIG = 1 << 1,      /* ... of another bin */
  STEP_NONE = 1 << 2,     /* requests that name no queue */
  STEP_SECOND = 1 << 3,   /* ... of the second pool */
  STEP_DIRECT = 1 << 4,   /* blocks without a pool */
  STEP_FREE = 1 << 5,     /* a block */
  STEP_USE = 1 << 6,      /* puts another command for it on its first queue */
  STEP_RECORD = 1 << 7,   /* record_use, and a command on that queue after those of the first */
  STEP_MOVE = 1 << 8,     /* move_to_queue, and a command there */
  STEP_WAIT = 1 << 9,     /* tarn_block_wait () */
  STEP_SYNC = 1 << 10,    /* the program waits for a queue */
  STEP_FORGET = 1 << 11,  /* forget_queue */
  STEP_RENEW = 1 << 12,   /* ..., and the next queue has its handle */
  STEP_REPLACE = 1 << 13, /* the same for an idle or retained queue, without forget_queue */
  STEP_CAPTURE = 1 << 14, /* a queue's capture begins or ends */
  STEP_FREE_HELD = 1 << 15,
  STEP_TRIM = 1 << 16,
  STEP_STOP = 1 << 17,  /* stop_holding */
  STEP_LIMIT = 1 << 18, /* set_limit_bytes, lower or back */
  STEP_FULL = 1 << 19,  /* the device has no room left, or room again */
  STEP_DROP = 1 << 20   /* the last reference on the pools */
} StepKind;

typedef struct
{
  const gchar *name;
  const gchar *queues;   /* a letter each; small ones are out of order */
  guint flags;           /* of ExploreFlags */
  guint steps;           /* of StepKind */
  guint n_blocks;        /* that there are at a time */
  gint more;             /* by how much sequences are longer than asked for */
  guint n_failures;      /* of the backend's calls, in a sequence */
  guint n_nested;        /* steps inside of the backend's calls */
  gboolean has_threads;  /* another one does some of the steps, and those inside of calls */
  guint cache_blocks;    /* thread_cache_blocks, and one more; 0: the default */
  gsize limit;           /* 0: none */
  const gchar *preamble; /* nullable: what comes before each sequence */
} Config;

typedef struct
{
  guint8 at[N_QUEUES];
} Clock;

typedef struct
{
  gboolean is_in_order, is_alive, is_destroyed, is_capturing;
  guint handle;
  gchar letter;
  Clock start; /* before whatever is put there now */
  guint8 count;
} Queue;

typedef struct
{
  gboolean is_live, is_active, may_be_lost;
  gsize size;
  Clock past;    /* what the owners before have put on queues */
  Clock present; /* what this one has */
  Clock fill;    /* what made it ready */
  Clock freed;   /* all there was when its block was freed last, or it was allocated */
  Clock gone;    /* after that it is no more, where it was freed on a queue */
  guint8 sole;   /* the in-order queue that alone used the block that was freed last */
  guint pool;
} Memory;

typedef struct
{
  gboolean is_live;
  Clock clock;
  guint asked_in; /* the call that was last told that it is not done */
} Event;

typedef struct
{
  guint8 kind; /* log2 of a StepKind */
  guint8 number, queue, pool;
  guint8 is_elsewhere; /* another thread does it */
} Step;

typedef struct
{
  TarnBlock *block; /* NULL: none */
  guint memory;
  gint pool;          /* -1: none */
  guint8 first;       /* queue that the owner puts commands on; NO_QUEUE */
  guint32 users;      /* queues, as bits, that live as long as the block */
  gboolean is_orphan; /* a queue that has used it is gone, or forgotten */
  gboolean is_recent; /* nothing has happened since its last command */
} Block;

/* A public call that is going on. */
typedef struct _Call Call;
struct _Call
{
  Call *outer;
  guint32 named; /* queues, as bits */
  guint number;
  guint n_calls; /* of the driver, but for those that record or release */
  guint n_host_waits;
  gboolean has_failed, was_full, has_nested;
  Clock waits[N_WAITS]; /* that queues were made to wait for */
  guint n_waits;
  gint memory;      /* that the call is about; -1: none yet */
  gint pool;        /* that is asked for memory; -1: none */
  guint8 forgotten; /* the queue that it forgets, which others leave alone meanwhile */
};

typedef struct
{
  guint8 taken[N_CHOICES], options[N_CHOICES], step[N_CHOICES];
  guint n_known, n;
} Path;

typedef struct
{
  const Config *config;
  TarnAllocator *allocator;
  gboolean is_allocator_gone;
  TarnPool *pools[N_POOLS];
  TarnReclaimGroup *group;

  Queue queues[N_QUEUES];
  guint n_queues;
  guint8 letters[N_LETTERS]; /* which queue it is now */
  guint32 met;               /* letters that were named */
  guint handles[N_HANDLES];  /* which queue it leads to, and one more */
  guint refs[N_HANDLES];
  Memory memories[N_MEMORIES];
  guint n_memories;
  Event events[N_EVENTS];
  guint n_events;
  Block blocks[N_BLOCKS];
  guint n_served[N_POOLS], n_refused[N_POOLS];
  gsize peak[N_POOLS]; /* bytes of blocks in use */
  Clock host;          /* what is known to be done, as the host knows it */
  guint64 budget;
  gsize limit;
  gboolean has_stopped, has_dropped, has_failed, has_captured;

  Call *call;
  guint n_calls, n_failures, n_nested;
  gboolean is_fixed;    /* nothing is to be chosen */
  gboolean is_told;     /* calls are printed */
  gboolean allows_late; /* queues may be made to wait for what came after the free */
  const gchar *fault;
  const gchar *failed; /* the call that was told to fail last */

  Step steps[N_STEPS]; /* that were done */
  guint n_steps, n_preamble;
} World;

extern World world;
extern Path path;

/* explore-configs.c */
extern const Config configs[];
extern const guint n_configs;

/* explore.c */
guint explore_choose (guint n);

/* explore-device.c */
void fault (const gchar *what);
void tell (const gchar *format, ...) G_GNUC_PRINTF (1, 2);
TarnAllocator *device_allocator_new (void);
guint8 device_add_queue (gchar letter);
void device_destroy_queue (guint8 queue);
gpointer device_get_handle (guint8 queue);
gsize device_get_used (void);
Clock device_now (void);
void device_command (guint8 queue, guint memory);
void device_touch (guint memory);
void device_follow (guint8 queue, guint8 other);
void device_sync (guint8 queue);
void clock_join (Clock *clock, const Clock *other);
gboolean clock_is_in (const Clock *clock, const Clock *other);

/* explore-list.c */
guint list_steps (Step *steps, gboolean is_last, gboolean prunes);
void nest_step (void);

/* explore-threads.c */
void do_elsewhere (guint helper, void (*func) (Step step), Step step);
void end_helpers (void);

/* explore-steps.c */
void do_step (Step step);
void do_nested_step (Step step);
const gchar *name_step (Step step, gchar *text, gsize size);
void begin_world (const Config *config);
void end_world (void);

#endif
