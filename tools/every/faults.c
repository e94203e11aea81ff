/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks faults that the command line names, and formats them for TARN_LAYER_FAULTS and
 * TARN_FAULTS. */

#include "faults.h"

#include <string.h>

#include "common/call-range-private.h"
#include "common/fault-calls-private.h"
#include "common/limit-private.h"

#define NAME(name, ...) #name,

static const gchar *const names[] = { FAULT_CALLS (NAME) FAULTS_REQUESTS };

static gboolean G_GNUC_PRINTF (2, 3) refuse (GError **error, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    *error = g_error_new_valist (G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, format, args);
  va_end (args);
  return FALSE;
}

guint
faults_get_rank (const gchar *name)
{
  guint i = 0;

  while (i < G_N_ELEMENTS (names) && !g_str_equal (names[i], name))
    i++;
  return i;
}

gboolean
faults_check_name (const gchar *option, const gchar *name, GError **error)
{
  if (faults_get_rank (name) < G_N_ELEMENTS (names))
    return TRUE;
  return refuse (error, "%s: '%s' is none of the calls that can fail: see tarn-run(1)", option,
                 name);
}

static gboolean
check_call (const gchar *text, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", 2);
  TarnCallRange range;

  if (parts[0] == NULL || parts[0][0] == '\0' || parts[1] == NULL
      || !_tarn_parse_call_range (parts[1], &range))
    return refuse (error, "--fail: '%s' is not CALL:N, such as clCreateBuffer:3, :3-5 or :3+",
                   text);
  return faults_check_name ("--fail", parts[0], error);
}

gboolean
faults_check (const Faults *faults, GError **error)
{
  gsize bytes;
  guint64 number;

  for (gsize i = 0; faults->calls != NULL && faults->calls[i] != NULL; i++)
    if (!check_call (faults->calls[i], error))
      return FALSE;
  if (faults->budget != NULL && !_tarn_parse_bytes (faults->budget, &bytes))
    return refuse (error, "--budget: '%s' is not bytes, such as 256M", faults->budget);
  if (faults->loss != NULL
      && !g_ascii_string_to_unsigned (faults->loss, 10, 1, G_MAXUINT64, &number, NULL))
    return refuse (error, "--device-loss: '%s' is not a number from 1 on", faults->loss);
  return TRUE;
}

/* Joins words with commas, and frees their list.  Returns NULL if there are none. */
static gchar *
join (GPtrArray *words)
{
  gchar *value = NULL;

  g_ptr_array_add (words, NULL);
  if (words->len > 1)
    value = g_strjoinv (",", (gchar **) words->pdata);
  g_ptr_array_unref (words);
  return value;
}

/* Adds a word for each call that fails.  If @is_requests is FALSE, these are OpenCL calls of the
 * program, such as "clCreateBuffer=3".  If it is TRUE, they are requests of the program to Tarn,
 * such as "nth=3".  Also adds the memory budget. */
static void
add_calls (const Faults *faults, gboolean is_requests, GPtrArray *words)
{
  for (gsize i = 0; faults->calls != NULL && faults->calls[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (faults->calls[i], ":", 2);

      if (g_str_equal (parts[0], FAULTS_REQUESTS) != is_requests)
        continue;
      if (faults->all)
        parts[1][strcspn (parts[1], "-+")] = '\0';
      g_ptr_array_add (words, g_strconcat (is_requests ? "nth" : parts[0], "=", parts[1],
                                           faults->all ? "+" : NULL, NULL));
    }
  if (faults->budget != NULL)
    g_ptr_array_add (words, g_strconcat ("budget=", faults->budget, NULL));
}

gchar *
faults_for_layer (const Faults *faults)
{
  GPtrArray *words = g_ptr_array_new_with_free_func (g_free);

  if (faults->counts)
    g_ptr_array_add (words, g_strdup ("count"));
  add_calls (faults, FALSE, words);
  if (faults->loss != NULL)
    g_ptr_array_add (words, g_strconcat ("loss=", faults->loss, NULL));
  return join (words);
}

gchar *
faults_for_tarn (const Faults *faults)
{
  GPtrArray *words = g_ptr_array_new_with_free_func (g_free);

  add_calls (faults, TRUE, words);
  return join (words);
}
