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

#define BLOCKS (STEP_ALLOCATE | STEP_FREE)
#define ORDER (BLOCKS | STEP_USE | STEP_RECORD | STEP_MOVE)

/* Two queues are met, and each has work and a held block. */
#define MET "alloc A; alloc B; use 1; free 1; use 2; free 2"

static const Config configs[] = {
  /* Blocks and queues, on each kind of backend. */
  { .name = "retained", .queues = "AB", .steps = ORDER | STEP_NONE | STEP_WAIT, .n_blocks = 3 },
  { .name = "events-all",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = ORDER | STEP_NONE | STEP_WAIT,
    .n_blocks = 3 },
  { .name = "frees-in-order",
    .queues = "AB",
    .flags = FREES_IN_ORDER,
    .steps = ORDER | STEP_FREE_HELD | STEP_STOP,
    .n_blocks = 2 },
  { .name = "met",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = ORDER,
    .n_blocks = 3,
    .preamble = MET },
  { .name = "met/retained", .queues = "AB", .steps = ORDER, .n_blocks = 3, .preamble = MET },
  { .name = "three",
    .queues = "ABC",
    .flags = RECORDS_ALL,
    .steps = ORDER,
    .n_blocks = 3,
    .preamble = MET },
  { .name = "out-of-order", .queues = "Ab", .steps = ORDER | STEP_NONE, .n_blocks = 2 },
  { .name = "out-of-order/alone",
    .queues = "ab",
    .flags = RECORDS_ALL,
    .steps = ORDER | STEP_FREE_HELD,
    .n_blocks = 2 },
  { .name = "no-caches", .queues = "AB", .steps = ORDER, .n_blocks = 3, .cache_blocks = 1 },
  { .name = "small-caches",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_USE | STEP_TRIM,
    .n_blocks = 4,
    .cache_blocks = 2 },

  /* What the allocator makes ready itself. */
  { .name = "fresh", .queues = "AB", .flags = IS_FRESH, .steps = ORDER | STEP_NONE, .n_blocks = 2 },
  { .name = "fresh/frees-in-order",
    .queues = "ABC",
    .flags = IS_FRESH | FREES_IN_ORDER,
    .steps = ORDER | STEP_NONE,
    .n_blocks = 2 },
  { .name = "fresh/direct",
    .queues = "AB",
    .flags = IS_FRESH | FREES_IN_ORDER,
    .steps = STEP_DIRECT | STEP_FREE | STEP_MOVE | STEP_RECORD | STEP_WAIT,
    .n_blocks = 2 },

  /* Queues that end, and handles that come again. */
  { .name = "forget",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_USE | STEP_RECORD | STEP_FORGET | STEP_RENEW | STEP_FREE_HELD,
    .n_blocks = 2 },
  { .name = "forget/met",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_USE | STEP_RENEW | STEP_REPLACE | STEP_MOVE,
    .n_blocks = 2,
    .preamble = MET },
  { .name = "replace",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_USE | STEP_REPLACE | STEP_SYNC | STEP_FREE_HELD,
    .n_blocks = 2 },
  { .name = "replace/retained",
    .queues = "Ab",
    .steps = BLOCKS | STEP_MOVE | STEP_REPLACE | STEP_RENEW | STEP_FREE_HELD,
    .n_blocks = 2 },
  { .name = "drop",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_RECORD | STEP_MOVE | STEP_DROP | STEP_REPLACE,
    .n_blocks = 2 },

  /* Calls that fail, and such as cannot be made. */
  { .name = "failures",
    .queues = "AB",
    .steps = ORDER | STEP_FREE_HELD,
    .n_blocks = 2,
    .n_failures = 1 },
  { .name = "failures/met",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_USE | STEP_MOVE | STEP_FREE_HELD | STEP_FORGET,
    .n_blocks = 2,
    .n_failures = 2,
    .less = 1,
    .preamble = MET },
  { .name = "capture",
    .queues = "AB",
    .flags = RECORDS_ALL | CHECKS_QUEUES,
    .steps = BLOCKS | STEP_CAPTURE | STEP_FREE_HELD | STEP_STOP,
    .n_blocks = 2 },
  { .name = "capture/met",
    .queues = "AB",
    .flags = RECORDS_ALL | CHECKS_QUEUES,
    .steps = BLOCKS | STEP_CAPTURE | STEP_FREE_HELD | STEP_FORGET | STEP_NONE,
    .n_blocks = 2,
    .preamble = MET },
  { .name = "capture/over",
    .queues = "AB",
    .flags = RECORDS_ALL | CHECKS_QUEUES | POOL_OVER | FREES_IN_ORDER,
    .steps = BLOCKS | STEP_SECOND | STEP_CAPTURE | STEP_FREE_HELD,
    .n_blocks = 2 },

  /* Memory that runs out. */
  { .name = "full",
    .queues = "AB",
    .steps = BLOCKS | STEP_BIG | STEP_USE | STEP_FULL | STEP_TRIM,
    .n_blocks = 2 },
  { .name = "full/events-all",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_BIG | STEP_NONE | STEP_FULL | STEP_FREE_HELD,
    .n_blocks = 3 },
  { .name = "full/met",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_BIG | STEP_FULL | STEP_FORGET | STEP_USE,
    .n_blocks = 2,
    .preamble = MET },
  { .name = "limit",
    .queues = "AB",
    .steps = BLOCKS | STEP_BIG | STEP_USE | STEP_LIMIT,
    .n_blocks = 3,
    .limit = 2047 },
  { .name = "limit/on-queue",
    .queues = "AB",
    .flags = FREES_ON_QUEUE,
    .steps = BLOCKS | STEP_BIG | STEP_USE | STEP_TRIM | STEP_FREE_HELD,
    .n_blocks = 3,
    .limit = 2047 },
  { .name = "on-queue",
    .queues = "AB",
    .flags = FREES_ON_QUEUE,
    .steps = ORDER | STEP_TRIM | STEP_STOP,
    .n_blocks = 2 },
  { .name = "on-queue/failures",
    .queues = "AB",
    .flags = FREES_ON_QUEUE,
    .steps = BLOCKS | STEP_USE | STEP_RECORD | STEP_FREE_HELD | STEP_STOP,
    .n_blocks = 2,
    .n_failures = 1 },

  /* Several pools, and blocks without one. */
  { .name = "over",
    .queues = "AB",
    .flags = POOL_OVER,
    .steps = BLOCKS | STEP_SECOND | STEP_USE | STEP_FREE_HELD,
    .n_blocks = 2 },
  { .name = "over/full",
    .queues = "AB",
    .flags = POOL_OVER | RECORDS_ALL,
    .steps = BLOCKS | STEP_SECOND | STEP_BIG | STEP_FULL,
    .n_blocks = 2,
    .less = 1,
    .preamble = "alloc A; free 1; alloc2 B; free 1" },
  { .name = "over/limit",
    .queues = "A",
    .flags = POOL_OVER,
    .steps = BLOCKS | STEP_SECOND | STEP_BIG,
    .n_blocks = 3,
    .limit = 2047 },
  { .name = "over/failures",
    .queues = "AB",
    .flags = POOL_OVER | FREES_IN_ORDER,
    .steps = BLOCKS | STEP_SECOND | STEP_FREE_HELD,
    .n_blocks = 2,
    .n_failures = 1 },
  { .name = "group",
    .queues = "AB",
    .flags = POOL_GROUP,
    .steps = BLOCKS | STEP_SECOND | STEP_FULL,
    .n_blocks = 2 },
  { .name = "direct",
    .queues = "ABC",
    .steps = STEP_DIRECT | STEP_FREE | STEP_USE | STEP_RECORD | STEP_MOVE | STEP_WAIT,
    .n_blocks = 1 },
  { .name = "direct/failures",
    .queues = "ABC",
    .steps = STEP_DIRECT | STEP_FREE | STEP_RECORD | STEP_MOVE | STEP_WAIT,
    .n_blocks = 1,
    .n_failures = 2 },
  { .name = "direct/capture",
    .queues = "AB",
    .flags = RECORDS_ALL | FREES_ON_QUEUE,
    .steps = STEP_DIRECT | STEP_FREE | STEP_RECORD | STEP_MOVE | STEP_WAIT | STEP_CAPTURE,
    .n_blocks = 1 },

  /* What others do inside of the backend's calls. */
  { .name = "inside", .queues = "AB", .steps = BLOCKS | STEP_USE, .n_blocks = 3, .n_nested = 1 },
  { .name = "inside/events-all",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_MOVE | STEP_FORGET,
    .n_blocks = 3,
    .less = 1,
    .n_nested = 1,
    .preamble = MET },
  { .name = "inside/failures",
    .queues = "AB",
    .steps = BLOCKS,
    .n_blocks = 3,
    .n_nested = 1,
    .n_failures = 1,
    .preamble = MET },
  { .name = "inside/held",
    .queues = "AB",
    .flags = RECORDS_ALL,
    .steps = BLOCKS | STEP_FREE_HELD | STEP_STOP,
    .n_blocks = 2,
    .less = 1,
    .n_nested = 1,
    .preamble = "alloc A; free 1; alloc A; alloc B; free 2" },

  /* What has to be found. */
  { .name = "broken/wait",
    .queues = "AB",
    .flags = BROKEN_WAIT,
    .steps = BLOCKS,
    .n_blocks = 2,
    .preamble = MET },
  { .name = "broken/event",
    .queues = "AB",
    .flags = BROKEN_EVENT,
    .steps = BLOCKS,
    .n_blocks = 2,
    .preamble = MET },
};

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
  g_assert_cmpuint (path.options[i], ==, n); /* else something is at random */
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
  Step steps[128];
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
  begin (config);
  for (guint i = 0; i < length && world.fault == NULL; i++)
    {
      Step steps[128];
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

/* Prints the sequence in which an assertion failed: nothing is run after it. */
static void
print_at_abort (int number)
{
  g_autofree gchar *sequence = NULL;

  signal (number, SIG_DFL);
  if (world.config != NULL)
    {
      sequence = name_sequence ();
      printf ("# it ends in: %s\n", sequence);
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
  const guint end = depth - MIN (depth - 1, config->less);

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

  for (guint i = 0; colon != NULL && i < G_N_ELEMENTS (configs); i++)
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

int
main (int argc, char **argv)
{
  const gchar *environment = g_getenv ("TARN_EXPLORE_DEPTH");
  g_autofree gchar *sequence = NULL;
  gboolean allows_late = FALSE;
  gint deep = environment != NULL ? atoi (environment) : DEPTH;
  const GOptionEntry entries[]
      = { { "depth", 0, 0, G_OPTION_ARG_INT, &deep, "Steps of a sequence (5)", "N" },
          { "allow-late", 0, 0, G_OPTION_ARG_NONE, &allows_late, "Late waits are no fault", NULL },
          { "sequence", 0, 0, G_OPTION_ARG_STRING, &sequence, "Run one again", "TEXT" },
          { NULL, 0, 0, 0, NULL, NULL, NULL } };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_ignore_unknown_options (context, TRUE);
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_parse (context, &argc, &argv, NULL);
  g_option_context_free (context);
  g_test_init (&argc, &argv, NULL);
  g_log_set_always_fatal (G_LOG_FATAL_MASK);
  g_log_set_default_handler (take_log, NULL);
  signal (SIGABRT, print_at_abort);
  depth = (guint) MAX (deep, 1);
  world.allows_late = allows_late;
  if (sequence != NULL)
    return run_again (sequence);
  for (guint i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autofree gchar *name = g_strdup_printf ("/core/explore/%s", configs[i].name);

      g_test_add_data_func (name, &configs[i], test_config);
    }
  return g_test_run ();
}
