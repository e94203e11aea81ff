/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the settings for debugging: the environment variable TARN_DEBUG, and the option
 * TarnPoolOptions.debug of a pool.  A set-user-ID program ignores the variable. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "debug/debug-private.h"

#include "base/message-private.h"
#include "common/variable-private.h"
#include "record/record-private.h"

static TarnDebugSettings program = TARN_DEBUG_SETTINGS_INIT;

/* Reads the words in TARN_DEBUG.  Prints a message about each wrong word, and returns FALSE if
 * there is one. */
static gboolean
read_words (const gchar *text)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  gboolean is_right = TRUE;

  for (gsize i = 0; words[i] != NULL; i++)
    {
      g_autofree gchar *quoted = NULL;

      if (_tarn_debug_read_word (&program, words[i]))
        continue;
      quoted = _tarn_shorten (g_strstrip (words[i]));
      _tarn_message ("TARN_DEBUG: '%s' is none of these: " TARN_DEBUG_WORDS, quoted);
      is_right = FALSE;
    }
  return is_right;
}

/* An upper bound for the number of Tarn's own frames on top of a call stack that Tarn records
 * during a request.  Messages leave these frames out.  A request of the OpenCL layer has 21 such
 * frames if the compiler inlines no function; a sanitizer adds one more. */
#define OWN_FRAMES 24

/* Prepares Tarn for debug settings: sets how many frames of each call stack Tarn stores, and makes
 * pools count requests if they have to check their invariants at intervals. */
static void
prepare (const TarnDebugSettings *settings)
{
  if (settings->flags != 0 && settings->stack_depth > 0)
    _tarn_stack_need_depth (settings->stack_depth + OWN_FRAMES);
  if ((settings->flags & TARN_DEBUG_CHECK) != 0)
    _tarn_follow (TARN_FOLLOW_FOR_CHECKS, TRUE); /* makes pools count each request */
}

static void
read_environment (void)
{
  const gchar *text = _tarn_get_variable ("TARN_DEBUG");
  gboolean is_right;

  if (text == NULL)
    return;
  is_right = read_words (text);
  if (!is_right)
    _tarn_finding_fail_at_exit ();
  else if (program.flags == 0)
    _tarn_message ("TARN_DEBUG names nothing to look for, such as all");
  prepare (&program);
  if ((program.flags != 0 || !is_right) && program.exit_status != 0)
    _tarn_finding_watch_exit ();
}

const TarnDebugSettings *
_tarn_debug_get_settings (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once_with_messages (&once, read_environment);
  return &program;
}

/* Returns TRUE for a word that TARN_DEBUG may contain but the option of a single pool may not,
 * because the word sets something for the whole program. */
static gboolean
is_of_program (const gchar *word)
{
  return g_str_has_prefix (word, "exit=") || g_str_has_prefix (word, "stacks=");
}

gboolean
_tarn_debug_read (const gchar *text, TarnDebugSettings *settings, GError **error)
{
  g_auto (GStrv) words = g_strsplit (text != NULL ? text : "", ",", -1);

  *settings = *_tarn_debug_get_settings ();
  if (text == NULL)
    return TRUE;
  settings->flags = 0;
  for (gsize i = 0; words[i] != NULL; i++)
    {
      g_autofree gchar *quoted = NULL;

      g_strstrip (words[i]);
      if (!is_of_program (words[i]) && _tarn_debug_read_word (settings, words[i]))
        continue;
      quoted = _tarn_shorten (words[i]);
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "debug: '%s' is none of these: guards, gaps, poison, quarantine[=BYTES], leaks, "
                   "check[=N] or all",
                   quoted);
      return FALSE;
    }
  prepare (settings);
  return TRUE;
}
