/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * All sequences of a few steps on a few queues and blocks, on backends of each kind, and all
 * answers that the device could give meanwhile: nobody may use memory too early, wait for what may
 * never be, call what is gone, or lose anything.  explore.h says what is known of the device.
 *
 *     --depth N               sequences of so many steps (5; TARN_EXPLORE_DEPTH says the same)
 *     --allow-late            let queues wait for what came after a free
 *     --sequence TEXT         one of them again, as a failure prints it, with each call
 *
 * A sequence is the steps "alloc A; free 1", each with what was chosen inside of it: "[0 1]". */

#include "explore.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 5
#define SECONDS 60 /* that no sequence takes */

Path path;

static guint depth = DEPTH;

/* What a sequence that is run again chooses next. */
static struct
{
  guint8 taken[N_CHOICES];
  guint n, next;
  gboolean is_used;
} script;

/* What was found in a configuration, each with the shortest sequence. */
typedef struct
{
  const gchar *fault[N_FOUND];
  const gchar *failed[N_FOUND];
  gchar *sequence[N_FOUND];
  guint n;
  guint64 n_sequences;
} Found;

/* Choosing */

/* Chooses one of n: the first one first, the next one when all that follows has been tried. */
guint
explore_choose (guint n)
{
  guint i = path.n;

  if (script.is_used)
    return script.next < script.n ? MIN (script.taken[script.next++], n - 1) : 0;
  if (world.is_fixed || n <= 1)
    return 0;
  g_assert_cmpuint (i, <, N_CHOICES);
  if (i == path.n_known)
    {
      path.taken[i] = 0;
      path.options[i] = (guint8) n;
      path.n_known++;
    }
  if (path.options[i] != n) /* a thread had been idle for so long that it makes a difference */
    {
      g_assert_true (world.config->has_threads);
      path.options[i] = (guint8) n;
      path.taken[i] = (guint8) MIN (path.taken[i], n - 1);
    }
  path.step[i] = (guint8) world.n_steps;
  path.n++;
  return path.taken[i];
}

/* Chooses a step, which is not something inside of one. */
static guint
choose_step (guint n)
{
  guint i = path.n, chosen = explore_choose (n);

  if (path.n > i)
    path.step[i] = G_MAXUINT8;
  return chosen;
}

/* Goes to the next sequence of choices; FALSE: that was the last. */
static gboolean
go_on (void)
{
  while (path.n_known > 0 && path.taken[path.n_known - 1] + 1 == path.options[path.n_known - 1])
    path.n_known--;
  if (path.n_known == 0)
    return FALSE;
  path.taken[path.n_known - 1]++;
  return TRUE;
}

/* Sequences as text */

/* Appends what was chosen inside of a step, but for the zeros at its end. */
static void
append_choices (GString *text, guint step)
{
  guint end = 0;

  for (guint i = 0; i < path.n; i++)
    if (path.step[i] == step + 1 && path.taken[i] != 0)
      end = i + 1;
  if (end == 0)
    return;
  g_string_append (text, " [");
  for (guint i = 0; i < end; i++)
    if (path.step[i] == step + 1)
      g_string_append_printf (text, "%u ", path.taken[i]);
  text->str[text->len - 1] = ']';
}

static gchar *
name_sequence (void)
{
  GString *text = g_string_new (NULL);
  gchar name[32];

  g_string_printf (text, "%s:", world.config->name);
  for (guint i = world.n_preamble; i < world.n_steps; i++)
    {
      g_string_append_printf (text, "%s %s", i > world.n_preamble ? ";" : "",
                              name_step (world.steps[i], name, sizeof name));
      append_choices (text, i);
    }
  return g_string_free (text, FALSE);
}

/* Running */

static void
take_step (Step step)
{
  g_assert_cmpuint (world.n_steps, <, N_STEPS);
  world.steps[world.n_steps++] = step;
  do_step (step);
}

/* Takes the step of a name; FALSE: it cannot be taken now. */
static gboolean
take_named_step (const gchar *name)
{
  Step steps[256];
  guint n = list_steps (steps, FALSE, FALSE);
  gchar text[32];

  for (guint i = 0; i < n; i++)
    if (g_str_equal (name_step (steps[i], text, sizeof text), name))
      {
        take_step (steps[i]);
        return TRUE;
      }
  return FALSE;
}

/* Takes each step of a text "alloc A; free 1 [0 1]". */
static void
take_named_steps (const gchar *text)
{
  g_auto (GStrv) names = g_strsplit (text, ";", -1);

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (names[i], "[", 2);

      script.n = script.next = 0;
      for (gchar *number = parts[1]; number != NULL && g_ascii_isdigit (*number);)
        {
          script.taken[script.n++] = (guint8) g_ascii_strtoull (number, &number, 10);
          number += *number == ' ';
        }
      if (!take_named_step (g_strstrip (parts[0])))
        g_error ("\"%s\" cannot be done there", parts[0]);
    }
}

static void
begin (const Config *config)
{
  begin_world (config);
  if (config->preamble != NULL)
    take_named_steps (config->preamble);
  world.n_preamble = world.n_steps;
  world.is_fixed = FALSE;
  world.n_failures = config->n_failures;
  world.n_nested = config->n_nested;
}

/* Runs a sequence that the path chooses. */
static void
run (const Config *config, guint length)
{
  path.n = 0;
  alarm (SECONDS);
  begin (config);
  for (guint i = 0; i < length && world.fault == NULL; i++)
    {
      Step steps[256];
      guint n = list_steps (steps, i + 1 == length, TRUE);

      g_assert_cmpuint (n, <=, G_N_ELEMENTS (steps));
      if (n == 0)
        break;
      take_step (steps[choose_step (n)]);
    }
  end_world ();
}

/* Faults */

static void
note_fault (Found *found)
{
  for (guint i = 0; i < found->n; i++)
    if (found->fault[i] == world.fault && found->failed[i] == world.failed)
      return;
  if (found->n == N_FOUND)
    return;
  found->fault[found->n] = world.fault;
  found->failed[found->n] = world.failed;
  found->sequence[found->n++] = name_sequence ();
}

/* Prints the sequence in which an assertion failed, or that does not end: nothing is run after it.
 */
static void
print_at_end (int number)
{
  g_autofree gchar *sequence = NULL;

  signal (number, SIG_DFL);
  if (world.config != NULL)
    {
      sequence = name_sequence ();
      printf ("# it ends in: --sequence \"%s\"\n", sequence);
      fflush (stdout);
    }
  raise (number);
}

/* Messages are of calls that fail; what the library calls critical is a fault. */
static void
take_log (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain, (void) unused;
  if ((level & (G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING)) != 0)
    fault ("the library is critical of a call");
  tell ("%s", message);
  if ((level & G_LOG_LEVEL_ERROR) != 0)
    fprintf (stderr, "%s\n", message);
}

/* Exploring */

/* Shorter ones first, so that what is printed is the shortest. */
static void
explore (const Config *config, Found *found)
{
  const guint end = (guint) MAX ((gint) depth + config->more, 1);

  for (guint length = 1; length <= end; length++)
    {
      path.n_known = 0;
      do
        {
          run (config, length);
          found->n_sequences++;
          if (world.fault != NULL)
            note_fault (found);
        }
      while (go_on ());
    }
}

/* Prints what was found. */
static void
tell_found (const Found *found, gdouble seconds)
{
  g_test_message ("%" G_GUINT64_FORMAT " sequences in %.1f s", found->n_sequences, seconds);
  for (guint i = 0; i < found->n; i++)
    {
      g_test_message ("%s%s%s: --sequence \"%s\"", found->fault[i],
                      found->failed[i] != NULL ? ", after a failure of " : "",
                      found->failed[i] != NULL ? found->failed[i] : "", found->sequence[i]);
      g_free (found->sequence[i]);
    }
}

static void
test_config (gconstpointer data)
{
  const Config *config = data;
  const gboolean is_broken = (config->flags & (BROKEN_WAIT | BROKEN_EVENT)) != 0;
  Found found = { .n = 0 };

  g_test_timer_start ();
  explore (config, &found);
  alarm (0);
  world.config = NULL;
  tell_found (&found, g_test_timer_elapsed ());
  if (found.n > 0 && !is_broken)
    g_test_fail ();
  if (is_broken)
    g_assert_cmpuint (found.n, >, 0);
}

/* Runs one sequence, "CONFIGURATION: STEPS", and tells each call. */
static int
run_again (const gchar *text)
{
  const gchar *colon = strchr (text, ':');

  for (guint i = 0; colon != NULL && i < n_configs; i++)
    if (strlen (configs[i].name) == (gsize) (colon - text)
        && strncmp (configs[i].name, text, (gsize) (colon - text)) == 0)
      {
        script.is_used = world.is_told = TRUE;
        begin (&configs[i]);
        take_named_steps (colon + 1);
        script.n = script.next = 0;
        end_world ();
        printf ("# %s\n", world.fault != NULL ? world.fault : "no fault");
        return world.fault != NULL;
      }
  fprintf (stderr, "there is no such configuration: %s\n", text);
  return 2;
}

/* The depth unless an option says another one.  With a sanitizer each step takes some times as
 * long, with that for threads 30 times. */
static gint
get_default_depth (void)
{
  const gchar *steps = g_getenv ("TARN_EXPLORE_DEPTH");
  const gchar *sanitizer = g_getenv ("SANITIZER");

  if (steps != NULL)
    return atoi (steps);
  if (sanitizer == NULL || *sanitizer == '\0' || g_str_equal (sanitizer, "no"))
    return DEPTH;
  return strstr (sanitizer, "thread") != NULL ? DEPTH - 2 : DEPTH - 1;
}

/* Takes this program's own options away. */
static void
parse_options (int *argc, char ***argv, gchar **sequence)
{
  gboolean allows_late = FALSE;
  gint steps = get_default_depth ();
  const GOptionEntry entries[]
      = { { "depth", 0, 0, G_OPTION_ARG_INT, &steps, "Steps of a sequence (5)", "N" },
          { "allow-late", 0, 0, G_OPTION_ARG_NONE, &allows_late,
            "Queues may wait for what came after a free", NULL },
          { "sequence", 0, 0, G_OPTION_ARG_STRING, sequence, "Run one sequence, and tell each call",
            "TEXT" },
          { NULL, 0, 0, 0, NULL, NULL, NULL } };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_ignore_unknown_options (context, TRUE);
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_parse (context, argc, argv, NULL);
  g_option_context_free (context);
  depth = (guint) MAX (steps, 1);
  world.allows_late = allows_late;
}

/* Begins the tests, all of which are run although one fails. */
static void
begin_tests (int argc, char **argv)
{
  gchar **all = g_new0 (gchar *, argc + 2);

  memcpy (all, argv, sizeof *argv * (gsize) argc);
  all[argc++] = (gchar *) "-k";
  g_test_init (&argc, &all, NULL);
  g_free (all);
  g_log_set_always_fatal (G_LOG_FATAL_MASK);
  g_log_set_default_handler (take_log, NULL);
  signal (SIGABRT, print_at_end);
  signal (SIGALRM, print_at_end);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *sequence = NULL;
  int status;

  parse_options (&argc, &argv, &sequence);
  begin_tests (argc, argv);
  if (sequence != NULL)
    return run_again (sequence);
  for (guint i = 0; i < n_configs; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("/core/explore/%s", configs[i].name);

      g_test_add_data_func (name, &configs[i], test_config);
    }
  status = g_test_run ();
  end_helpers ();
  return status;
}
