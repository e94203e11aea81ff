/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "lib/fork-functions.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "lib/in-child.h"

#define N_CHILDREN 10 /* for each function: the locks that a busy thread holds differ */
#define N_QUARKS 200  /* asked for in a row, so that a fork often falls into it */

#define LOCKED 2

static gboolean must_not_lock;

void __real_g_mutex_lock (GMutex *mutex);
void __wrap_g_mutex_lock (GMutex *mutex);

/* The linker sends the libraries' calls of g_mutex_lock () here. */
void
__wrap_g_mutex_lock (GMutex *mutex)
{
  if (must_not_lock)
    _exit (LOCKED);
  __real_g_mutex_lock (mutex);
}

/* Drops a message. */
static void
keep_quiet (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) message;
  (void) unused;
}

/* Log handlers are set in the parent, because GLib takes a lock for that. */
static void
silence (void)
{
  static const gchar *const domains[] = { "Tarn", "Tarn-CUDA", "Tarn-OpenCL", "Tarn-Testing" };
  const guint levels = G_LOG_LEVEL_WARNING | G_LOG_LEVEL_MESSAGE | G_LOG_LEVEL_INFO;

  for (guint i = 0; i < G_N_ELEMENTS (domains); i++)
    g_log_set_handler (domains[i], levels | G_LOG_LEVEL_DEBUG, keep_quiet, NULL);
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL);
}

void
fork_functions_init (int *argc, char ***argv)
{
  if (getenv ("G_SLICE") == NULL)
    {
      setenv ("G_SLICE", "always-malloc", TRUE);
      execv ("/proc/self/exe", *argv);
    }
  g_test_init (argc, argv, NULL);
  silence ();
}

/* A thread that is busy while children are forked. */
typedef struct
{
  GThreadFunc func;
  gpointer data;
  gboolean is_running; /* atomic */
} Busy;

static gpointer
run_busy (gpointer data)
{
  Busy *self = data;
  GThreadFunc func = self->func;
  gpointer func_data = self->data;

  g_atomic_int_set (&self->is_running, TRUE); /* after that self is gone */
  return func (func_data);
}

GThread *
fork_functions_start_busy (GThreadFunc func, gpointer data)
{
  Busy self = { func, data, FALSE };
  GThread *thread = g_thread_new ("busy", run_busy, &self);

  while (!g_atomic_int_get (&self.is_running))
    g_thread_yield ();
  return thread;
}

void
fork_functions_use_glib (void)
{
  for (guint i = 0; i < N_QUARKS; i++)
    g_quark_from_static_string ("fork-functions");
}

static guint
count_calls (const ForkHooks *hooks)
{
  return hooks->count_calls != NULL ? hooks->count_calls () : 0;
}

static void
run_in_child (const ForkFunction *function, gpointer world, const ForkHooks *hooks)
{
  guint before = count_calls (hooks);
  GError *error = NULL;

  if (hooks->enter != NULL)
    hooks->enter (world);
  must_not_lock = !hooks->may_lock;
  function->call (world, &error);
  STEP (FORK_CALLED, count_calls (hooks) == before);
  STEP (3, function->expected == FORKED ? g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED)
                                        : error == NULL);
  _exit (0);
}

/* Says what is wrong with a function; NULL: nothing. */
static const gchar *
try (const ForkFunction *function, gpointer world, const ForkHooks *hooks)
{
  pid_t child = begin_child (5);
  gint status;

  if (child == 0)
    run_in_child (function, world, hooks);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  if (WIFSIGNALED (status))
    return WTERMSIG (status) == SIGALRM ? "hangs" : "crashes";
  return WEXITSTATUS (status) == FORK_CALLED ? "calls the backend"
         : WEXITSTATUS (status) == LOCKED    ? "takes a lock"
         : WEXITSTATUS (status) != 0         ? "has the wrong error, or none"
                                             : NULL;
}

guint
fork_functions_try (const ForkFunction *functions, gsize n_functions, gpointer world,
                    const ForkHooks *hooks)
{
  guint n_wrong = 0;

  for (gsize i = 0; i < n_functions; i++)
    for (guint j = 0; j < N_CHILDREN && functions[i].expected != PARENT_ONLY; j++)
      {
        const gchar *problem = try (&functions[i], world, hooks);

        if (problem == NULL)
          continue;
        g_test_message ("%s %s", functions[i].name, problem);
        n_wrong++;
        break;
      }
  return n_wrong;
}

void
fork_functions_check_map (const gchar *library, const gchar *map, const ForkFunction *functions,
                          gsize n_functions)
{
  g_autofree gchar *path
      = g_test_build_filename (G_TEST_DIST, "..", "..", "lib", library, map, NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      gboolean is_there = FALSE;

      g_strdelimit (g_strstrip (lines[i]), ";", '\0');
      for (gsize j = 0; j < n_functions; j++)
        is_there |= g_str_equal (functions[j].name, lines[i]);
      if (g_str_has_prefix (lines[i], "tarn_") && !is_there)
        g_error ("%s is not tried: add it to the test's table", lines[i]);
    }
}
