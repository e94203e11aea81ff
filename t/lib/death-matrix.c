/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The ways in which a part dies, each for every part.  Whichever it is, all others follow, and then
 * nothing is left. */

#include "death-matrix.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "in-child.h"

#define PATIENCE (100 * G_TIME_SPAN_MILLISECOND) /* of a test for orders */

/* One test. */
typedef struct
{
  const DeathBackend *backend;
  DeathPart part;
  const struct _Way *way;
  gconstpointer device;
} Case;

typedef struct _Way
{
  const gchar *name;
  void (*run) (const Case *test);
  gboolean needs_threads; /* that use the device at a time */
} Way;

/* Orders */

typedef struct
{
  DeathPart parts[DEATH_N_PARTS];
  guint n;
} Order;

/* That is being gone through: what a failure needs to be seen again. */
static Order current;

static void
say_order (int unused)
{
  (void) unused;
  for (guint i = 0; i < current.n; i++)
    {
      const gchar *name = death_part_get_name (current.parts[i]);

      if (write (STDERR_FILENO, i == 0 ? "order of death: " : ", ", i == 0 ? 16 : 2) < 0
          || write (STDERR_FILENO, name, strlen (name)) < 0)
        return;
    }
  if (current.n > 0 && write (STDERR_FILENO, "\n", 1) < 0)
    return;
}

/* All but one part. */
static Order
list_others (const DeathBackend *backend, DeathPart but)
{
  Order others = { .n = 0 };

  for (DeathPart part = 0; part < DEATH_N_PARTS; part++)
    if (part != but && (part != DEATH_CONTEXT || backend->release_context != NULL))
      others.parts[others.n++] = part;
  return others;
}

static Order
insert (Order order, guint place, DeathPart part)
{
  memmove (&order.parts[place + 1], &order.parts[place], (order.n - place) * sizeof order.parts[0]);
  order.parts[place] = part;
  order.n++;
  return order;
}

/* One of the n! orders of what is in it: the parts that are left are taken by the digits of the
 * number, the last of which has base 1. */
static Order
permute (Order order, guint64 number)
{
  for (guint i = 0; i < order.n; i++)
    {
      guint other = i + (guint) (number % (order.n - i));
      DeathPart part = order.parts[i];

      number /= order.n - i;
      order.parts[i] = order.parts[other];
      order.parts[other] = part;
    }
  return order;
}

static guint64
count_orders (guint n)
{
  return n > 1 ? n * count_orders (n - 1) : 1;
}

/* Every one in a slow test, else so many at random, or as many as there is time for: contexts of
 * GPUs are not made in an instant. */
static void
for_each_order (const Case *test, void (*run) (const Case *test, Order others))
{
  Order others = list_others (test->backend, test->part);
  guint64 n_all = count_orders (others.n);
  guint64 n = g_test_slow () ? n_all : MIN (n_all, test->backend->n_orders);
  gint64 deadline = g_test_slow () ? G_MAXINT64 : g_get_monotonic_time () + PATIENCE;

  for (guint64 i = 0; i < n && (i == 0 || g_get_monotonic_time () < deadline); i++)
    run (test,
         permute (others, n == n_all ? i : (guint64) (g_test_rand_double () * (double) n_all)));
}

/* A few at random: for ways that take their time. */
static Order
choose_others (const Case *test)
{
  Order others = list_others (test->backend, test->part);

  return permute (others, (guint64) g_test_rand_int ());
}

/* First, last */

static void
die (const Case *test, Order order)
{
  DeathWorld *world = death_world_new (test->backend, test->device);

  if (world == NULL)
    return;
  current = order;
  for (guint i = 0; i < order.n; i++)
    {
      death_world_release (world, order.parts[i]);
      death_world_use (world);
    }
  death_world_free (world);
}

static void
die_first (const Case *test, Order others)
{
  die (test, insert (others, 0, test->part));
}

static void
die_last (const Case *test, Order others)
{
  die (test, insert (others, others.n, test->part));
}

static void
run_first (const Case *test)
{
  for_each_order (test, die_first);
}

static void
run_last (const Case *test)
{
  for_each_order (test, die_last);
}

/* From another thread: at each place in an order */

typedef struct
{
  DeathWorld *world;
  DeathPart part;
} Murder;

static gpointer
commit (gpointer data)
{
  const Murder *murder = data;

  death_world_release (murder->world, murder->part);
  return NULL;
}

static void
die_elsewhere (const Case *test, Order order)
{
  DeathWorld *world = death_world_new (test->backend, test->device);
  Murder murder = { world, test->part };

  if (world == NULL)
    return;
  current = order;
  for (guint i = 0; i < order.n; i++)
    {
      if (order.parts[i] == test->part)
        g_thread_join (g_thread_new ("murder", commit, &murder));
      else
        death_world_release (world, order.parts[i]);
      death_world_use (world);
    }
  death_world_free (world);
}

static void
run_thread (const Case *test)
{
  for (guint place = 0; place <= list_others (test->backend, test->part).n; place++)
    die_elsewhere (test, insert (choose_others (test), place, test->part));
}

/* While another thread allocates and frees.  It has references of its own, and drops them in the
 * midst of it, so that the last one is now its own and now the owner's. */

typedef struct
{
  DeathWorld *world;
  TarnPool *pools[2];
  gint n_rounds, is_over; /* atomic */
} Worker;

#define N_ROUNDS 20

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  while (!g_atomic_int_get (&worker->is_over) || g_atomic_int_get (&worker->n_rounds) < N_ROUNDS)
    {
      for (guint i = 0; i < G_N_ELEMENTS (worker->pools); i++)
        death_use_pool (worker->world, worker->pools[i]);
      g_atomic_int_inc (&worker->n_rounds);
      g_thread_yield (); /* valgrind runs one thread at a time */
    }
  for (guint i = 0; i < G_N_ELEMENTS (worker->pools); i++)
    tarn_pool_unref (worker->pools[i]);
  return NULL;
}

static GThread *
worker_start (Worker *worker, DeathWorld *world)
{
  GThread *thread;

  *worker = (Worker){ .world = world,
                      .pools = { tarn_pool_ref (world->pool), tarn_pool_ref (world->upper) } };
  thread = g_thread_new ("worker", work, worker);
  while (g_atomic_int_get (&worker->n_rounds) == 0)
    g_thread_yield ();
  return thread;
}

/* A context that takes its memory with it has to wait for the thread; nothing else has. */
static void
die_meanwhile (const Case *test, Order order)
{
  DeathWorld *world = death_world_new (test->backend, test->device);
  Worker worker;
  GThread *thread;

  if (world == NULL)
    return;
  current = order;
  thread = worker_start (&worker, world);
  for (guint i = 0; i < order.n; i++)
    {
      if (i == order.n / 2)
        g_atomic_int_set (&worker.is_over, TRUE);
      if (order.parts[i] == DEATH_CONTEXT && thread != NULL && test->backend->context_takes_all)
        {
          g_atomic_int_set (&worker.is_over, TRUE);
          g_thread_join (g_steal_pointer (&thread));
        }
      death_world_release (world, order.parts[i]);
    }
  g_atomic_int_set (&worker.is_over, TRUE);
  if (thread != NULL)
    g_thread_join (thread);
  death_world_free (world);
}

static void
run_meanwhile (const Case *test)
{
  for (guint i = 0; i < 5; i++)
    die_meanwhile (test, insert (choose_others (test), 0, test->part));
}

/* What a process still has at its end, and is no leak therefore; nobody reads it. */
static DeathWorld *volatile left;

/* In the child of a fork, which has no business with the driver: what it releases is not freed, as
 * it would be by calls of the driver, and the parent's goes on. */

static void
release_in_child (DeathWorld *world)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint calls = world->backend->get_calls (world);
  TarnPool *upper = world->upper;
  gint refused = death_world_check_forked (world);

  left = g_new (DeathWorld, 1);
  *left = *world;
  STEP (refused, refused == 0);
  for (guint i = 0; i < current.n; i++)
    if (!death_part_is_driver (current.parts[i]))
      death_world_release (world, current.parts[i]);
  tarn_pool_get_stats (upper, &stats);
  STEP (10, stats.ignored_frees == 1 && stats.active_blocks == 1);
  STEP (11, world->hoard.n_destroyed == 0 && world->n_memo_destroyed == 0 && world->n_values == 1);
  STEP (12, world->backend->get_calls (world) == calls);
}

static void
release_in_parent (DeathWorld *world)
{
  death_world_use (world);
  for (guint i = 0; i < current.n; i++)
    {
      death_world_release (world, current.parts[i]);
      death_world_use (world);
    }
  death_world_free (world);
}

static void
run_child (const Case *test)
{
  DeathWorld *world = death_world_new (test->backend, test->device);

  if (world == NULL)
    return;
  current = insert (choose_others (test), 0, test->part);
  in_child ((void (*) (gpointer)) release_in_child, world);
  release_in_parent (world);
}

/* In the parent, before its child does anything. */
static void
run_parent (const Case *test)
{
  DeathWorld *world = death_world_new (test->backend, test->device);
  int ends[2], status = -1;
  pid_t child;
  gchar byte;

  if (world == NULL)
    return;
  current = insert (choose_others (test), 0, test->part);
  g_assert_cmpint (pipe (ends), ==, 0);
  child = begin_child (20);
  if (child == 0)
    {
      close (ends[1]);
      STEP (20, read (ends[0], &byte, 1) == 0); /* until the parent has closed its end */
      release_in_child (world);
      _exit (0);
    }
  close (ends[0]);
  release_in_parent (world);
  close (ends[1]);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

/* At exit: of all, this one part is never released. */

static void
exit_with_part (const Case *test)
{
  DeathWorld *world = left = death_world_new (test->backend, test->device);

  current = choose_others (test);
  for (guint i = 0; i < current.n && world != NULL; i++)
    death_world_release (world, current.parts[i]);
  exit (0);
}

static void
run_exit (const Case *test)
{
  if (g_test_subprocess ())
    exit_with_part (test);
  g_test_trap_subprocess (NULL, 30 * G_USEC_PER_SEC, 0);
  g_test_trap_assert_passed ();
}

/* Tests */

static const Way ways[] = {
  { "first", run_first, FALSE },        { "last", run_last, FALSE },
  { "thread", run_thread, FALSE },      { "meanwhile", run_meanwhile, TRUE },
  { "forked-child", run_child, FALSE }, { "forked-parent", run_parent, FALSE },
  { "exit", run_exit, FALSE },
};

static GSList *cases; /* of Case, until the end of the program, as GLib's list of tests */

void
death_run (gconstpointer data, gconstpointer device)
{
  Case test = *(const Case *) data;
  const gchar *reason = NULL;

  test.device = device;
  signal (SIGABRT, say_order); /* a driver may have taken it since the last test */
  if (test.way->needs_threads && test.backend->no_threads != NULL)
    reason = test.backend->no_threads (device);
  if (reason == NULL)
    test.way->run (&test);
  else
    g_test_skip (reason);
  current.n = 0;
}

void
death_add (const gchar *prefix, const DeathBackend *backend)
{
  Order all = list_others (backend, DEATH_N_PARTS);

  for (guint i = 0; i < all.n; i++)
    for (guint j = 0; j < G_N_ELEMENTS (ways); j++)
      {
        g_autofree gchar *path = g_strdup_printf ("%s/%s/%s/%s", prefix, backend->name,
                                                  death_part_get_name (all.parts[i]), ways[j].name);
        Case *test = g_new (Case, 1);

        *test = (Case){ backend, all.parts[i], &ways[j], NULL };
        cases = g_slist_prepend (cases, test);
        backend->add (path, test);
      }
}

/* What may be said, in as many words: that memory runs out late, and that memory is gone. */
static void
judge_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) level;
  (void) unused;
  if (strstr (message, ", which is deferred: ") == NULL
      && strstr (message, " the CUDA context was destroyed") == NULL)
    g_error ("%s said: %s", domain, message);
}

void
death_init (void)
{
  static const gchar *const domains[] = { "Tarn", "Tarn-OpenCL", "Tarn-CUDA" };

  for (guint i = 0; i < G_N_ELEMENTS (domains); i++)
    g_log_set_handler (domains[i], G_LOG_LEVEL_MESSAGE, judge_message, NULL);
}
