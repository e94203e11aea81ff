/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Judges trials (runs of a program in which one call fails).  In this order it looks for crashes
 * and hangs, reports of sanitizers, mistakes that TARN_DEBUG found, wrong exit statuses or output,
 * and leaks. */

#include "verdict.h"

#include <string.h>

/* The number that shells add to the signal that killed a program. */
#define SHELL_SIGNALLED 128
#define MAX_SIGNAL 64

/* The beginnings of reports by sanitizers, and by valgrind with --error-exitcode. */
static const gchar *const findings[] = {
  "ERROR: AddressSanitizer",   "ERROR: LeakSanitizer",     "WARNING: MemorySanitizer",
  "ERROR: HWAddressSanitizer", "WARNING: ThreadSanitizer", "runtime error: ",
  "ERROR SUMMARY: ",
};

static gchar *
describe_signal (gint number)
{
  const gchar *name = strsignal (number);

  return g_strdup_printf ("killed by signal %d (%s)", number, name != NULL ? name : "unknown");
}

static gboolean
is_expected (const Verdict *verdict, gint status)
{
  for (guint i = 0; verdict->statuses != NULL && i < verdict->statuses->len; i++)
    if (g_array_index (verdict->statuses, gint, i) == status)
      return TRUE;
  return FALSE;
}

/* Gets the exit status as a shell does, because the program may be a script. */
static gint
get_status (const Trial *trial)
{
  return trial->end == PROCESS_SIGNALLED ? SHELL_SIGNALLED + trial->code : trial->code;
}

static gchar *
find_crash (const Verdict *verdict, const Trial *trial)
{
  gint status = get_status (trial);

  switch (trial->end)
    {
    case PROCESS_EXITED:
    case PROCESS_SIGNALLED:
      if (status > SHELL_SIGNALLED && status <= SHELL_SIGNALLED + MAX_SIGNAL
          && !is_expected (verdict, status))
        return describe_signal (status - SHELL_SIGNALLED);
      return NULL;
    case PROCESS_TIMED_OUT:
      return g_strdup_printf ("hung: not at its end after %g s", verdict->timeout);
    case PROCESS_STUCK:
      return g_strdup_printf ("hung after %g s, and could not be killed", verdict->timeout);
    case PROCESS_TOO_LOUD:
    case PROCESS_TOO_MANY_LINES:
    default:
      return g_strdup ("printed without end");
    }
}

/* Finds a sanitizer's report in standard error.  Returns its first line, or NULL. */
static gchar *
find_finding (const Trial *trial)
{
  for (guint i = 0; i < G_N_ELEMENTS (findings); i++)
    {
      const gchar *found = strstr (trial->errors->str, findings[i]);

      if (found != NULL && !g_str_has_prefix (found, "ERROR SUMMARY: 0 "))
        return g_strndup (found, strcspn (found, "\n"));
    }
  return NULL;
}

/* Describes a mistake that TARN_DEBUG found.  Returns NULL if @found is NULL. */
static gchar *
find_mistake (const gchar *found)
{
  return found != NULL ? g_strconcat ("found: ", found, NULL) : NULL;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (a, b);
}

/* Adds @n leaked objects of a kind.  OpenCL objects are counted by their references: two references
 * may be to one object. */
static void
append_leaked (GString *text, const gchar *kind, guint64 n)
{
  const gchar *words = g_str_has_prefix (kind, "cl_") && n > 1 ? "references to " : "";

  g_string_append_printf (text, "%s%" G_GUINT64_FORMAT " %s%s", text->len > 0 ? ", " : "", n, words,
                          g_str_equal (kind, FAULTS_REQUESTS) ? "bytes of Tarn's" : kind);
}

/* Describes the objects that the trial leaked: it left more objects of a kind than a good run
 * leaves.  Returns NULL if there are none. */
static gchar *
find_leak (const Verdict *verdict, const Trial *trial)
{
  g_autoptr (GString) text = g_string_new (NULL);
  GList *kinds = g_list_sort (g_hash_table_get_keys (trial->left), compare_names);

  for (const GList *l = kinds; l != NULL; l = l->next)
    {
      const gchar *kind = l->data;
      guint64 usual = trial_get_count (verdict->good->left, kind);
      guint64 n = trial_get_count (trial->left, kind);

      /* For FAULTS_REQUESTS, n is the number of bytes that Tarn has not returned to the driver at
       * the end.  The layer's pool caches this memory; the program did not leak it. */
      if (trial->has_pool && g_str_equal (kind, FAULTS_REQUESTS))
        continue;
      if (n > usual)
        append_leaked (text, kind, n - usual);
    }
  g_list_free (kinds);
  return text->len > 0 ? g_strconcat ("leaked: ", text->str, NULL) : NULL;
}

gboolean
verdict_compares_output (const Verdict *verdict, const Trial *trial)
{
  return verdict->statuses == NULL && trial->error == NULL && trial->end == PROCESS_EXITED
         && get_status (trial) == 0;
}

static gchar *
find_wrong_end (const Verdict *verdict, const Trial *trial)
{
  gint status = get_status (trial);

  if (verdict->statuses != NULL)
    return is_expected (verdict, status)
               ? NULL
               : g_strdup_printf ("exit status %d, which is not expected", status);
  if (trial->difference != NULL)
    return g_strdup ("ignored: exit status 0, and another output than without a fault");
  return NULL;
}

gchar *
verdict_find (const Verdict *verdict, const Trial *trial)
{
  gchar *problem = trial->error != NULL ? g_strdup (trial->error) : find_crash (verdict, trial);

  if (problem == NULL)
    problem = find_finding (trial);
  if (problem == NULL)
    problem = find_mistake (trial->mistake);
  if (problem == NULL)
    problem = find_wrong_end (verdict, trial);
  if (problem == NULL && !verdict->ignores_leaks)
    problem = find_leak (verdict, trial);
  /* With the layer's pool, ignores leaks that TARN_DEBUG found, because they may not be the
   * program's: if the failed call was to unmap a buffer, the pool keeps the buffer in use after the
   * program has released it.  find_leak () has checked the program's own references. */
  if (problem == NULL && !verdict->ignores_leaks && !trial->has_pool)
    problem = find_mistake (trial->leak);
  return problem;
}

gchar *
verdict_find_in_good (const Verdict *verdict, const Trial *trial)
{
  gchar *problem = trial->error != NULL ? g_strdup (trial->error) : find_crash (verdict, trial);

  if (problem == NULL)
    problem = find_mistake (trial->mistake);
  if (problem == NULL && !verdict->ignores_leaks)
    problem = find_mistake (trial->leak);
  if (problem == NULL && trial->code != 0)
    problem = g_strdup_printf ("exit status %d", trial->code);
  return problem != NULL ? problem : find_finding (trial);
}
