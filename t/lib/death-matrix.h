/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death: a matrix of what a program holds on to, its parts, by the ways in which one
 * of them can be given up.  A backend says how its own parts are made and released; all others are
 * the same everywhere: death-world.c makes them, and death-matrix.c has them die. */

#ifndef TARN_DEATH_MATRIX_H
#define TARN_DEATH_MATRIX_H

#include <tarn/tarn.h>

typedef struct _DeathBackend DeathBackend;

/* What a reclaim function owns. */
typedef struct
{
  TarnBlock *blocks[2]; /* of the pool that has the function */
  gint n_destroyed;     /* atomic: how often the function's data was */
} DeathHoard;

/* What is NULL or 0 was released, or never was there. */
typedef struct
{
  const DeathBackend *backend;
  gconstpointer device; /* as death_run () has it */
  gpointer own;         /* the backend's */

  gpointer context;
  gpointer a; /* a queue that each block is used on */
  gpointer b; /* another, which is there from the start to the end */

  TarnAllocator *allocator;
  TarnPool *pool;
  TarnPool *upper;   /* a pool over the pool, in one group with it */
  TarnBlock *block;  /* of the upper pool, used on both queues */
  TarnBlock *direct; /* of the allocator itself */
  gboolean is_held;  /* both pools hold blocks that were used on queue a */
  guint reclaim_id;  /* a function of the pool */
  TarnMemo *memo;    /* whose values are blocks of the pool */

  DeathHoard hoard;
  gint n_values;         /* atomic: that the memo has computed and not given back */
  gint n_memo_destroyed; /* atomic */
  TarnPool *mourners[2]; /* see forgets_queues */
} DeathWorld;

struct _DeathBackend
{
  const gchar *name;
  gconstpointer kind;

  /* Registers a test that calls death_run () with this data, maybe once for each device. */
  void (*add) (const gchar *path, gconstpointer data);

  /* Why threads cannot use the device; nullable, and so is the reason. */
  const gchar *(*no_threads) (gconstpointer device);

  /* The queues and, if it has any, the context; FALSE: the test was skipped. */
  gboolean (*open) (DeathWorld *world);

  /* When all is released, but for what only open () knows of: ends the test if anything is left. */
  void (*close) (DeathWorld *world);

  TarnAllocator *(*allocator_new) (DeathWorld *world, GError **error);

  /* Of the context, or, where there is none, of what is the backend's own. */
  TarnMemo *(*memo_new) (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                         GDestroyNotify destroy);

  /* In any thread. */
  void (*release_context) (DeathWorld *world); /* nullable: there is no such part */
  void (*release_queue) (DeathWorld *world);   /* queue a */

  /* A block was just handed out; nullable.  This one and the next in any thread. */
  void (*own) (DeathWorld *world, TarnBlock *block);

  /* Puts something on a queue that uses a block. */
  void (*use) (DeathWorld *world, TarnBlock *block, gpointer queue);

  /* Ends the test if the memory of a block in use is not there. */
  void (*check) (DeathWorld *world, TarnBlock *block);

  /* How often the driver was called so far. */
  guint (*get_calls) (DeathWorld *world);

  /* Nothing keeps a queue alive: whoever destroys one keeps a reference on each pool that has met
   * it, to have them forget it before, and blocks without a pool are not used on it. */
  gboolean forgets_queues;

  /* Memory dies with its context, which must not be released while another thread is in a call. */
  gboolean context_takes_all;

  guint n_orders; /* for each path, unless it is a slow test, which takes all */
};

/* In main (), after g_test_init (): what the libraries say is an error unless a test expects it. */
void death_init (void);

/* Adds PREFIX/NAME/PART/WAY. */
void death_add (const gchar *prefix, const DeathBackend *backend);
void death_run (gconstpointer data, gconstpointer device);

/* death-world.c */

typedef enum
{
  DEATH_CONTEXT,
  DEATH_QUEUE,
  DEATH_ALLOCATOR,
  DEATH_POOL,
  DEATH_UPPER,
  DEATH_BLOCK,
  DEATH_DIRECT,
  DEATH_HELD,
  DEATH_RECLAIM,
  DEATH_MEMO,
  DEATH_N_PARTS
} DeathPart;

const gchar *death_part_get_name (DeathPart part);
gboolean death_part_is_driver (DeathPart part); /* none of Tarn's */

DeathWorld *death_world_new (const DeathBackend *backend, gconstpointer device); /* nullable */
void death_world_release (DeathWorld *world, DeathPart part);

/* What is there still works. */
void death_world_use (DeathWorld *world);

/* Ends the test unless all was released, and is gone. */
void death_world_free (DeathWorld *world);

/* Allocates for queue b and frees, from pools that the caller has a reference on. */
void death_use_pool (DeathWorld *world, TarnPool *pool);

/* In a child of fork (), where nothing was released yet: 0, or the number of the check that fails.
 */
gint death_world_check_forked (DeathWorld *world);

#endif
