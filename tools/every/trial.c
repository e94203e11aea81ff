/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs the program once with one fault.  The OpenCL layer and Tarn's core library write their
 * reports into one file, which belongs to this run alone.  The file is read when the program has
 * ended.  tarn(7) describes its lines. */

#include "trial.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

Trial *
trial_new (const gchar *call, guint64 number, gboolean all)
{
  Trial *trial = g_new0 (Trial, 1);

  g_assert (call == NULL || number >= 1);
  trial->call = g_strdup (call);
  trial->number = number;
  trial->all = all;
  return trial;
}

/* Creates the containers for the results of a trial that starts.  trial_new () does not create
 * them, because there may be a hundred thousand trials, and few run at a time. */
static void
prepare (Trial *trial)
{
  trial->output = g_string_new (NULL);
  trial->errors = g_string_new (NULL);
  trial->calls = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  trial->left = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}

void
trial_drop_output (Trial *trial)
{
  if (trial->output != NULL)
    g_string_free (trial->output, TRUE);
  trial->output = NULL;
}

void
trial_free (Trial *trial)
{
  if (trial->report != NULL)
    g_unlink (trial->report);
  g_free (trial->report);
  g_free (trial->call);
  g_free (trial->error);
  trial_drop_output (trial);
  g_free (trial->difference);
  g_free (trial->mistake);
  g_free (trial->leak);
  if (trial->errors != NULL)
    g_string_free (trial->errors, TRUE);
  g_clear_pointer (&trial->calls, g_hash_table_unref);
  g_clear_pointer (&trial->left, g_hash_table_unref);
  g_free (trial);
}

gchar *
trial_get_fault (const Trial *trial)
{
  return g_strdup_printf ("%s:%" G_GUINT64_FORMAT "%s", trial->call, trial->number,
                          trial->all ? "+" : "");
}

guint64
trial_get_count (GHashTable *counts, const gchar *name)
{
  const guint64 *count = g_hash_table_lookup (counts, name);

  return count != NULL ? *count : 0;
}

static void
set_count (GHashTable *counts, const gchar *name, guint64 value)
{
  guint64 *count = g_new (guint64, 1);

  *count = value;
  g_hash_table_replace (counts, g_strdup (name), count);
}

/* Functions that read the report */

/* Reads a line "found PID KIND TEXT", and keeps the TEXT of the first such line. */
static void
read_finding (gchar **finding, const gchar *line, const gchar *kind)
{
  const gchar *text = strchr (line + strlen ("found "), ' ');

  if (text != NULL && g_str_has_prefix (text + 1, kind) && *finding == NULL)
    *finding = g_strdup (text + 1 + strlen (kind));
}

/* Reads a line of the report.  Each process counts its calls from 1, so only the largest count of a
 * name is kept.  The numbers of objects that the processes leave are added up. */
static void
read_line (Trial *trial, const gchar *line)
{
  gchar name[64];
  guint64 n, bytes, made, served;

  if (g_str_has_prefix (line, "found "))
    {
      read_finding (&trial->mistake, line, "mistake ");
      read_finding (&trial->leak, line, "leak ");
    }
  else if (g_str_has_prefix (line, "loaded "))
    trial->has_layer = TRUE;
  else if (sscanf (line, "buffers %*d %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &made, &served)
           == 2)
    {
      trial->n_buffers += made;
      trial->n_served += served;
      trial->has_pool |= served > 0;
    }
  else if (sscanf (line, "images %*d %*u %" G_GUINT64_FORMAT, &served) == 1)
    trial->has_pool |= served > 0;
  else if (sscanf (line, "calls %*d %63s %" G_GUINT64_FORMAT, name, &n) == 2)
    set_count (trial->calls, name, MAX (n, trial_get_count (trial->calls, name)));
  else if (sscanf (line, "left %*d %63s %" G_GUINT64_FORMAT, name, &n) == 2)
    set_count (trial->left, name, n + trial_get_count (trial->left, name));
  else if (sscanf (line, "requests %*d %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &n, &bytes) == 2)
    {
      set_count (trial->calls, FAULTS_REQUESTS,
                 MAX (n, trial_get_count (trial->calls, FAULTS_REQUESTS)));
      set_count (trial->left, FAULTS_REQUESTS,
                 bytes + trial_get_count (trial->left, FAULTS_REQUESTS));
    }
  else if (sscanf (line, "failed %*d %63s", name) == 1)
    trial->has_failed |= g_strcmp0 (name, trial->call) == 0;
  else if (sscanf (line, "refused %*d %" G_GUINT64_FORMAT, &n) == 1)
    trial->has_failed |= g_strcmp0 (trial->call, FAULTS_REQUESTS) == 0 && n == trial->number;
}

static void
read_report (Trial *trial)
{
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (g_file_get_contents (trial->report, &text, NULL, NULL))
    lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines != NULL && lines[i] != NULL; i++)
    read_line (trial, lines[i]);
  g_unlink (trial->report);
  g_clear_pointer (&trial->report, g_free);
}

/* Functions that run the program */

static void
on_output (gpointer data, gboolean is_error, const gchar *bytes, gsize length, gdouble seconds)
{
  Trial *trial = data;

  (void) seconds;
  if (is_error)
    g_string_append_len (trial->errors, bytes, (gssize) length);
  else
    g_string_append_len (trial->output, bytes, (gssize) length);
}

static void
on_ended (gpointer data, ProcessEnd end, gint code, gdouble seconds)
{
  Trial *trial = data;

  (void) seconds;
  g_assert (!trial->is_done);
  trial->process = NULL;
  trial->end = end;
  trial->code = code;
  trial->is_done = TRUE;
  read_report (trial);
  trial->ended (trial, trial->user_data);
}

static GStrv
set_or_unset (GStrv environment, const gchar *variable, const gchar *value)
{
  return value != NULL ? g_environ_setenv (environment, variable, value, TRUE)
                       : g_environ_unsetenv (environment, variable);
}

/* Gets the environment of the program.  Without --debug there is no pool, so the driver gets
 * exactly the program's own calls.  With --debug there is one, because only buffers from a pool can
 * be debugged. */
static GStrv
environment_for (const Trial *trial, const TrialSettings *settings)
{
  g_autofree gchar *fault = trial->call != NULL ? trial_get_fault (trial) : NULL;
  gchar *calls[] = { fault, NULL };
  const Faults faults = { .calls = calls, .budget = (gchar *) settings->budget, .counts = TRUE };
  g_autofree gchar *layer = faults_for_layer (&faults);
  g_autofree gchar *tarn = faults_for_tarn (&faults);
  GStrv set = g_strdupv (settings->environment);

  set = set_or_unset (set, "TARN_LAYER_POOL", settings->debug != NULL ? NULL : "0");
  if (settings->debug != NULL)
    set = g_environ_setenv (set, "TARN_DEBUG", settings->debug, TRUE);
  set = set_or_unset (set, "TARN_LAYER_FAULTS", layer);
  set = set_or_unset (set, "TARN_LAYER_REPORT", trial->report);
  set = set_or_unset (set, "TARN_FAULTS", tarn);
  return set_or_unset (set, "TARN_FAULTS_REPORT", trial->report);
}

void
trial_start (Trial *trial, const TrialSettings *settings, const gchar *report,
             void (*ended) (Trial *trial, gpointer user_data), gpointer user_data)
{
  static const ProcessFuncs funcs = { on_output, on_ended };
  g_auto (GStrv) own = NULL;
  g_autoptr (GError) error = NULL;

  prepare (trial);
  trial->report = g_strdup (report);
  trial->ended = ended;
  trial->user_data = user_data;
  own = environment_for (trial, settings);
  if (g_file_set_contents (report, "", 0, &error))
    trial->process
        = process_start (settings->program, own, settings->timeout, &funcs, trial, &error);
  if (trial->process != NULL)
    return;
  trial->error = g_strdup (error->message);
  trial->error_code = error->domain == G_SPAWN_ERROR ? error->code : -1;
  trial->is_done = TRUE;
  ended (trial, user_data);
}
