/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_DEBUG, which is not read in a set-user-ID program. */

#define _GNU_SOURCE 1 /* secure_getenv () */

#include "debug/debug-private.h"

#include <stdlib.h>
#include <tarn/trace.h>

#include "common/limit-private.h"
#include "record/record-private.h"

#define EXPECTED                                                                                   \
  "guards, poison, quarantine[=BYTES], leaks, check[=N], exit=STATUS, stacks=N or all"

#define USUAL_QUARANTINE ((gsize) 64 << 20)
#define LARGE_QUARANTINE ((gsize) 1 << 30)
#define USUAL_INTERVAL 1000
#define USUAL_DEPTH 16

static TarnDebugSettings settings;
static guint depth = USUAL_DEPTH;

/* Reads a number, or one of bytes. */
static gboolean
read_number (const gchar *text, gsize *number)
{
  *number = 0;
  return g_str_equal (text, "0") || _tarn_parse_bytes (text, number);
}

static gboolean
read_word (const gchar *word, const gchar *value)
{
  gsize number = 0;
  gboolean has_value = value != NULL;

  if (has_value && !read_number (value, &number))
    return FALSE;
  if (g_str_equal (word, "guards") && !has_value)
    settings.flags |= TARN_DEBUG_GUARDS;
  else if (g_str_equal (word, "poison") && !has_value)
    settings.flags |= TARN_DEBUG_POISON;
  else if (g_str_equal (word, "leaks") && !has_value)
    settings.flags |= TARN_DEBUG_LEAKS;
  else if (g_str_equal (word, "all") && !has_value)
    settings.flags |= TARN_DEBUG_GUARDS | TARN_DEBUG_POISON | TARN_DEBUG_LEAKS | TARN_DEBUG_CHECK;
  else if (g_str_equal (word, "quarantine"))
    {
      settings.flags |= TARN_DEBUG_POISON;
      settings.quarantine_bytes = has_value ? number : LARGE_QUARANTINE;
    }
  else if (g_str_equal (word, "check") && number <= G_MAXUINT && (!has_value || number > 0))
    {
      settings.flags |= TARN_DEBUG_CHECK;
      settings.check_interval = has_value ? (guint) number : USUAL_INTERVAL;
    }
  else if (g_str_equal (word, "exit") && has_value && number <= 255)
    settings.exit_status = (guint) number;
  else if (g_str_equal (word, "stacks") && has_value && number <= TARN_TRACE_MAX_STACK_DEPTH)
    depth = (guint) number;
  else
    return FALSE;
  return TRUE;
}

/* FALSE: a word is wrong, and was said so. */
static gboolean
read_words (const gchar *text)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  gboolean is_right = TRUE;

  for (gsize i = 0; words[i] != NULL; i++)
    {
      g_autofree gchar *quoted = _tarn_shorten (g_strstrip (words[i]));
      g_auto (GStrv) parts = g_strsplit (words[i], "=", 2);

      if (parts[0] == NULL || parts[0][0] == '\0' || read_word (parts[0], parts[1]))
        continue;
      g_message ("TARN_DEBUG: '%s' is none of these: " EXPECTED, quoted);
      is_right = FALSE;
    }
  return is_right;
}

static void
read_settings (void)
{
  const gchar *text = secure_getenv ("TARN_DEBUG");
  gboolean is_right;

  if (text == NULL || text[0] == '\0')
    return;
  settings.quarantine_bytes = USUAL_QUARANTINE;
  settings.check_interval = USUAL_INTERVAL;
  is_right = read_words (text);
  if (settings.flags == 0)
    {
      if (is_right)
        g_message ("TARN_DEBUG names nothing to look for, such as all");
      return;
    }
  _tarn_stack_set_depth (depth);
  if ((settings.flags & TARN_DEBUG_CHECK) != 0)
    _tarn_follow (TARN_FOLLOW_FOR_CHECKS, TRUE); /* so that no request goes by uncounted */
  if (settings.exit_status != 0)
    _tarn_finding_watch_exit ();
}

const TarnDebugSettings *
_tarn_debug_get_settings (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once (&once, read_settings);
  return settings.flags != 0 ? &settings : NULL;
}
