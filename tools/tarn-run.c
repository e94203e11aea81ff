/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs an unmodified OpenCL program with buffers from a pool.  tarn-run asks the OpenCL loader,
 * through the environment, to put libtarn-layer.so before the driver.  Then tarn-run waits for the
 * program, and prints a message if no buffer was from the pool.
 *
 * tarn-run behaves as if the program had been started without it.  A terminal's signals reach both
 * tarn-run and the program.  A signal that is sent to tarn-run alone is passed on to the program.
 * tarn-run stops when the program stops, and ends as the program ended. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "every/every.h"
#include "every/faults.h"
#include "exit-status.h"
#include "output.h"
#include "tarn-run-options.h"
#include "text.h"

#define PROGRAM "tarn-run"

#define LAYER "libtarn-layer.so"

/* The report: a file in its own folder, to which the layer writes.  Both names are NULL if there is
 * no report. */
typedef struct
{
  gchar *folder;
  gchar *file;
} Report;

/* The layer's reports of all processes, added up. */
typedef struct
{
  guint n_loaded;       /* number of processes that loaded the layer */
  guint n_ended;        /* processes that ended normally, so that their buffers are known */
  guint64 made, images; /* buffers and images that these processes created */
  guint64 served;       /* buffers and images from the pool */
  /* Maps a reason why buffers were not from the pool to a guint64 *: the number of such buffers */
  GHashTable *reasons;
} Findings;

/* The program's process. */
typedef struct
{
  pid_t pid;
  gint error; /* errno of execvp (); 0: the program was executed */
  gint status;
} Child;

static void G_GNUC_PRINTF (1, 2) say (const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  text_complain (PROGRAM, "%s", text);
}

/* Functions that find the layer */

/* Gets the path of the layer in the build tree, for a tarn-run in its folder tools or tools/.libs.
 * Returns NULL if the folder of tarn-run has another name. */
static gchar *
find_built_layer (void)
{
  g_autofree gchar *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree gchar *folder = self != NULL ? g_path_get_dirname (self) : NULL;
  g_autofree gchar *name = folder != NULL ? g_path_get_basename (folder) : NULL;

  if (g_strcmp0 (name, ".libs") == 0)
    return g_build_filename (folder, "../../lib/opencl/layer/.libs", LAYER, NULL);
  if (g_strcmp0 (name, "tools") == 0)
    return g_build_filename (folder, "../lib/opencl/layer/.libs", LAYER, NULL);
  return NULL;
}

/* Gets the path of the layer, or its name alone, which the dynamic loader may find elsewhere. */
static gchar *
find_layer (void)
{
  g_autofree gchar *built = find_built_layer ();
  const gchar *installed = LIBDIR G_DIR_SEPARATOR_S LAYER;

  if (built != NULL && g_file_test (built, G_FILE_TEST_EXISTS))
    return g_canonicalize_filename (built, NULL);
  return g_strdup (g_file_test (installed, G_FILE_TEST_EXISTS) ? installed : LAYER);
}

/* Functions that set the program's environment */

static gboolean
names_layer (const gchar *layers)
{
  g_auto (GStrv) paths = g_strsplit (layers, ":", -1);

  for (gsize i = 0; paths[i] != NULL; i++)
    {
      g_autofree gchar *name = g_path_get_basename (paths[i]);

      if (g_str_equal (name, LAYER))
        return TRUE;
    }
  return FALSE;
}

/* Adds the layer to OPENCL_LAYERS.  If the list already has Tarn's layer, for example from another
 * tarn-run, adds nothing: with two layers, a pool would be over another pool.  Returns FALSE if the
 * path cannot be added. */
static gboolean
set_layers (const gchar *layer)
{
  const gchar *others = g_getenv ("OPENCL_LAYERS");
  g_autofree gchar *both = NULL;

  if (others != NULL && names_layer (others))
    return TRUE;
  if (strchr (layer, ':') != NULL)
    {
      say ("OPENCL_LAYERS cannot name a path with a colon: '%s'", layer);
      return FALSE;
    }
  if (others != NULL && *others != '\0')
    both = g_strconcat (layer, ":", others, NULL);
  return g_setenv ("OPENCL_LAYERS", both != NULL ? both : layer, TRUE);
}

static void
set_faults (const Faults *faults)
{
  g_autofree gchar *layer = faults_for_layer (faults);
  g_autofree gchar *tarn = faults_for_tarn (faults);

  if (layer != NULL)
    g_setenv ("TARN_LAYER_FAULTS", layer, TRUE);
  if (tarn != NULL)
    g_setenv ("TARN_FAULTS", tarn, TRUE);
}

static void
set_settings (const Options *options)
{
  set_faults (&options->faults);
  if (options->limit != NULL)
    g_setenv ("TARN_LAYER_LIMIT", options->limit, TRUE);
  if (options->no_pool)
    g_setenv ("TARN_LAYER_POOL", "0", TRUE);
  if (options->stats)
    g_setenv ("TARN_LAYER_STATS", "1", TRUE);
  if (options->debug != NULL)
    g_setenv ("TARN_DEBUG", options->debug, TRUE);
  if (options->trace != NULL)
    {
      /* The path is made absolute, because the program may change its folder before its first
       * buffer. */
      g_autofree gchar *path = g_canonicalize_filename (options->trace, NULL);

      g_setenv ("TARN_TRACE", path, TRUE);
    }
}

/* Tells whether the layer has a pool, by the same rule as the layer. */
static gboolean
has_pool (void)
{
  return g_strcmp0 (g_getenv ("TARN_LAYER_POOL"), "0") != 0;
}

/* Functions for the report, and messages about it */

/* Creates the report.  The layer writes only to a file that exists, so a process that outlives
 * tarn-run creates no file. */
static gboolean
make_file (const gchar *path)
{
  gint fd = g_open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

  return fd >= 0 && close (fd) == 0;
}

/* Creates the report in a folder with mode 0700, so that no other user can replace it.  Inside
 * another tarn-run, creates no report: the layer keeps reporting to the outer tarn-run, which would
 * otherwise say that it saw nothing. */
static void
report_open (Report *report)
{
  const gchar *outer = g_getenv ("TARN_LAYER_REPORT");
  g_autoptr (GError) error = NULL;
  g_autofree gchar *folder = NULL;

  if (outer != NULL && g_access (outer, W_OK) == 0)
    return;
  folder = g_dir_make_tmp (PROGRAM "-XXXXXX", &error);
  if (folder != NULL)
    {
      report->folder = g_canonicalize_filename (folder, NULL); /* TMPDIR may be relative */
      report->file = g_build_filename (report->folder, "report", NULL);
    }
  if (report->file != NULL && make_file (report->file))
    g_setenv ("TARN_LAYER_REPORT", report->file, TRUE);
  else
    say ("the layer cannot report: %s", error != NULL ? error->message : g_strerror (errno));
}

static void
report_close (Report *report)
{
  if (report->file != NULL)
    g_unlink (report->file);
  if (report->folder != NULL)
    g_rmdir (report->folder);
  g_clear_pointer (&report->file, g_free);
  g_clear_pointer (&report->folder, g_free);
}

static void
add_reason (Findings *findings, const gchar *text, guint64 n)
{
  guint64 *sum = g_hash_table_lookup (findings->reasons, text);

  if (sum == NULL)
    {
      sum = g_new0 (guint64, 1);
      g_hash_table_insert (findings->reasons, g_strdup (text), sum);
    }
  *sum += n;
}

static void
read_line (const gchar *line, Findings *findings)
{
  guint64 made, served;
  gint start = 0;

  if (g_str_has_prefix (line, "loaded "))
    findings->n_loaded++;
  else if (sscanf (line, "buffers %*d %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &made, &served)
           == 2)
    {
      findings->n_ended++;
      findings->made += made;
      findings->served += served;
    }
  else if (sscanf (line, "own %*d %" G_GUINT64_FORMAT " %n", &made, &start) == 1 && start > 0)
    add_reason (findings, line + start, made);
  else if (sscanf (line, "images %*d %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &made, &served)
           == 2)
    {
      findings->images += made;
      findings->served += served;
    }
}

/* Reads the report.  Returns FALSE if there is no report. */
static gboolean
report_read (const Report *report, Findings *findings)
{
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (report->file == NULL || !g_file_get_contents (report->file, &text, NULL, NULL))
    return FALSE;
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    read_line (lines[i], findings);
  return TRUE;
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* Lists the reasons that the layer gives for buffers that are not from the pool. */
static gchar *
describe_reasons (const Findings *findings)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new ();
  GString *all = g_string_new (NULL);
  GHashTableIter iter;
  gpointer text;

  g_hash_table_iter_init (&iter, findings->reasons);
  while (g_hash_table_iter_next (&iter, &text, NULL))
    g_ptr_array_add (texts, text);
  g_ptr_array_sort (texts, compare_texts);
  for (guint i = 0; i < texts->len; i++)
    g_string_append_printf (all, "%s%" G_GUINT64_FORMAT " %s", i > 0 ? "; " : "",
                            *(guint64 *) g_hash_table_lookup (findings->reasons, texts->pdata[i]),
                            (const gchar *) texts->pdata[i]);
  if (all->len == 0)
    g_string_assign (all, "see NOTES in tarn-run(1)");
  return g_string_free (all, FALSE);
}

/* Explains why no buffer was from the pool.  Prints nothing if a process was killed or still runs,
 * because that process's buffers are unknown. */
static void
explain (const gchar *program, const Findings *findings)
{
  g_autofree gchar *name = g_filename_display_name (program);
  g_autofree gchar *reasons = describe_reasons (findings);

  if (findings->n_loaded == 0)
    say ("%s has loaded no OpenCL loader that knows layers: see MESSAGES in tarn-run(1)", name);
  else if (findings->n_ended < findings->n_loaded)
    return;
  else if (findings->made == 0 && findings->images == 0)
    say ("%s created no buffer", name);
  else if (findings->served == 0 && has_pool ())
    say ("none of the %" G_GUINT64_FORMAT " %s of %s was from a pool%s: %s",
         findings->made > 0 ? findings->made : findings->images,
         findings->made > 0 ? "buffers" : "images", name,
         g_getenv ("TARN_DEBUG") != NULL ? ", so nothing was checked" : "", reasons);
}

/* Functions that run the program */

/* The signals that are passed on to the program.  SIGSTOP and SIGKILL cannot be caught.  SIGTTIN
 * and SIGTTOU are here to be blocked: the terminal sends them to the program itself, and tarn-run
 * must not stop before the program does. */
static const gint passed_on[]
    = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU };

/* Blocks the signals that child_wait () takes one by one.  Also blocks SIGPIPE, for good: tarn-run
 * must not end because nobody reads its messages. */
static void
block_signals (sigset_t *awaited, sigset_t *before)
{
  sigset_t blocked;

  sigemptyset (awaited);
  sigaddset (awaited, SIGCHLD);
  for (guint i = 0; i < G_N_ELEMENTS (passed_on); i++)
    sigaddset (awaited, passed_on[i]);
  blocked = *awaited;
  sigaddset (&blocked, SIGPIPE);
  sigprocmask (SIG_BLOCK, &blocked, before);
  /* The caller may have set SIGCHLD to be ignored.  Then the program's end would be lost. */
  signal (SIGCHLD, SIG_DFL);
}

/* Executes the program, in the child.  Signals that were ignored stay ignored, as nohup(1)
 * expects. */
static void G_GNUC_NORETURN
become_program (gchar **program, const sigset_t *mask, gint pipe_end)
{
  gint code;

  sigprocmask (SIG_SETMASK, mask, NULL);
  execvp (program[0], program);
  code = errno;
  if (write (pipe_end, &code, sizeof code) < 0)
    _exit (EXIT_OURS);
  _exit (EXIT_NOT_EXECUTED);
}

/* Reads the child's errno from the pipe.  Returns 0 if execvp () succeeded: it closed the child's
 * end of the pipe, so nothing comes. */
static gint
read_error (gint pipe_end)
{
  gint code = 0;
  gssize n;

  do
    n = read (pipe_end, &code, sizeof code);
  while (n < 0 && errno == EINTR);
  close (pipe_end);
  return n == sizeof code ? code : 0;
}

/* Starts the program.  Returns FALSE, after a message, if a process cannot be created. */
static gboolean
child_start (Child *child, gchar **program, const sigset_t *mask)
{
  gint ends[2];

  if (pipe (ends) == 0 && fcntl (ends[1], F_SETFD, FD_CLOEXEC) == 0)
    {
      child->pid = fork ();
      if (child->pid == 0)
        {
          close (ends[0]);
          become_program (program, mask, ends[1]);
        }
      close (ends[1]);
      child->error = read_error (ends[0]);
    }
  if (child->pid > 0)
    return TRUE;
  say ("cannot start a process: %s", g_strerror (errno));
  return FALSE;
}

/* Tells whether the terminal sent a signal to the whole process group, and so to the program, too.
 * When the terminal goes away, the kernel sends SIGHUP only to the leader of the session. */
static gboolean
is_for_all (const siginfo_t *info)
{
  return info->si_code > 0 && (info->si_signo != SIGHUP || getsid (0) != getpid ());
}

/* Stops tarn-run when the program has stopped, so that the shell sees it.  When tarn-run continues,
 * continues the program, too, because SIGCONT may have been sent to tarn-run alone. */
static void
stop_with (const Child *child)
{
  raise (SIGSTOP);
  kill (child->pid, SIGCONT);
}

/* Gets the state of the program, and stops tarn-run if the program has stopped.  Returns FALSE if
 * the program has ended. */
static gboolean
update_state (Child *child)
{
  pid_t pid = waitpid (child->pid, &child->status, WNOHANG | WUNTRACED);

  if (pid == child->pid && WIFSTOPPED (child->status))
    stop_with (child);
  return pid != child->pid || WIFSTOPPED (child->status);
}

/* Waits for the program's end, and passes signals on.  The process number cannot be reused before
 * update_state () has returned FALSE. */
static void
child_wait (Child *child, const sigset_t *awaited)
{
  gboolean is_there = update_state (child); /* the program may have ended already */
  siginfo_t info;

  while (is_there)
    {
      gint number = sigwaitinfo (awaited, &info);

      if (number == SIGCHLD)
        is_there = update_state (child);
      else if (number > 0 && !is_for_all (&info))
        kill (child->pid, number);
    }
}

static gint
get_exit_status (const Child *child)
{
  if (child->error != 0)
    return child->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTED;
  if (WIFSIGNALED (child->status))
    return EXIT_SIGNALLED + WTERMSIG (child->status);
  return WEXITSTATUS (child->status);
}

/* Says why the program was not executed, or why no buffer was from the pool. */
static void
explain_end (const Options *options, const Child *child, const Report *report)
{
  g_autoptr (GHashTable) reasons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  Findings findings = { .reasons = reasons };

  if (child->error != 0)
    say ("'%s': %s", options->program[0], g_strerror (child->error));
  else if (WIFEXITED (child->status) && report_read (report, &findings))
    explain (options->program[0], &findings);
}

static gint
run_program (const Options *options, Report *report)
{
  Child child = { 0 };
  sigset_t awaited, before;

  block_signals (&awaited, &before);
  report_open (report);
  if (!child_start (&child, options->program, &before))
    return EXIT_OURS;
  child_wait (&child, &awaited);
  explain_end (options, &child, report);
  return get_exit_status (&child);
}

static gint
run_every (Options *options)
{
  gint status;

  output_guard (PROGRAM);
  options->each.environment = g_get_environ ();
  status = every_run (&options->each);
  g_strfreev (options->each.environment);
  return status;
}

static gint
run (Options *options)
{
  g_autofree gchar *layer = find_layer ();
  Report report = { NULL, NULL };
  gint status;

  if (!set_layers (layer))
    return EXIT_OURS;
  if (options_run_every (options))
    return run_every (options);
  set_settings (options);
  status = run_program (options, &report);
  report_close (&report);
  return status;
}

gint
main (gint argc, gchar **argv)
{
  Options options;
  g_autoptr (GError) error = NULL;
  gint status = EXIT_USAGE;

  text_set_locale ();
  g_set_prgname (PROGRAM);
  if (!options_read (&options, &argc, &argv, &error))
    say ("%s", error->message);
  else if (options.help || options.version)
    status = options_print_about (&options);
  else
    status = run (&options);
  options_clear (&options);
  return status;
}
