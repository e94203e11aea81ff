/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the words in the value of TARN_DEBUG, an environment variable that makes Tarn look for
 * mistakes that programs make with memory. */

#ifndef TARN_DEBUG_WORDS_PRIVATE_H
#define TARN_DEBUG_WORDS_PRIVATE_H

#include <tarn/trace.h>

#include "common/limit-private.h"

#define TARN_DEBUG_WORDS                                                                           \
  "guards, gaps, poison, quarantine[=BYTES], leaks, check[=N], exit=STATUS, stacks=N or all"

typedef enum
{
  TARN_DEBUG_GUARDS = 1,
  TARN_DEBUG_POISON = 2,
  TARN_DEBUG_LEAKS = 4,
  TARN_DEBUG_CHECK = 8,
  /* The word "gaps": Tarn puts unmapped addresses after blocks.  The word also sets
   * TARN_DEBUG_GUARDS. */
  TARN_DEBUG_GAPS = 16
} TarnDebugFlags;

typedef struct
{
  guint flags; /* a combination of TarnDebugFlags */
  /* The largest number of bytes in an allocator's quarantine, where freed blocks are kept. */
  gsize quarantine_bytes;
  /* The number of requests from one check of a pool's invariants to the next check. */
  guint check_interval;
  /* The exit status of a program in which Tarn has found mistakes.  0: the program keeps its own
   * exit status. */
  guint exit_status;
  guint stack_depth; /* the largest number of frames of a call stack in a message */
} TarnDebugSettings;

/* The default settings: no checks, 64 MiB of quarantine, a check of invariants every 1,000 requests
 * (if the flag for these checks is set), the program's own exit status, and 16 stack frames. */
#define TARN_DEBUG_SETTINGS_INIT                                                                   \
  {                                                                                                \
    0, (gsize) 64 << 20, 1000, 0, 16                                                               \
  }

/* Reads the number of a setting, such as "0", "3" or, with a unit of bytes, "64M".  If @text is not
 * such a number, returns FALSE. */
static inline gboolean
_tarn_debug_read_number (const gchar *text, gsize *number)
{
  *number = 0;
  return g_str_equal (text, "0") || _tarn_parse_bytes (text, number);
}

/* Applies a word that has no number, such as "leaks".  Returns FALSE if the word is unknown. */
static inline gboolean
_tarn_debug_read_flag (TarnDebugSettings *settings, const gchar *word)
{
  if (g_str_equal (word, "guards"))
    settings->flags |= TARN_DEBUG_GUARDS;
  else if (g_str_equal (word, "gaps"))
    settings->flags |= TARN_DEBUG_GUARDS | TARN_DEBUG_GAPS;
  else if (g_str_equal (word, "poison"))
    settings->flags |= TARN_DEBUG_POISON;
  else if (g_str_equal (word, "leaks"))
    settings->flags |= TARN_DEBUG_LEAKS;
  else if (g_str_equal (word, "check"))
    settings->flags |= TARN_DEBUG_CHECK;
  else if (g_str_equal (word, "all"))
    settings->flags |= TARN_DEBUG_GUARDS | TARN_DEBUG_POISON | TARN_DEBUG_LEAKS | TARN_DEBUG_CHECK;
  else if (g_str_equal (word, "quarantine"))
    {
      settings->flags |= TARN_DEBUG_POISON;
      settings->quarantine_bytes = (gsize) 1 << 30;
    }
  else
    return FALSE;
  return TRUE;
}

/* Applies a setting of the form NAME=NUMBER.  @word: NAME.  Returns FALSE if no setting has this
 * name, or if the number is invalid for the setting. */
static inline gboolean
_tarn_debug_read_setting (TarnDebugSettings *settings, const gchar *word, gsize number)
{
  if (g_str_equal (word, "quarantine"))
    {
      settings->flags |= TARN_DEBUG_POISON;
      settings->quarantine_bytes = number;
    }
  else if (g_str_equal (word, "check") && number > 0 && number <= G_MAXUINT)
    {
      settings->flags |= TARN_DEBUG_CHECK;
      settings->check_interval = (guint) number;
    }
  else if (g_str_equal (word, "exit") && number <= 255)
    settings->exit_status = (guint) number;
  else if (g_str_equal (word, "stacks") && number <= TARN_TRACE_MAX_STACK_DEPTH)
    settings->stack_depth = (guint) number;
  else
    return FALSE;
  return TRUE;
}

/* Applies one of the comma-separated words of TARN_DEBUG, for example "check=100".  Does nothing if
 * @text is empty.  Returns FALSE if TARN_DEBUG_WORDS lacks the word, or if the word's number is
 * invalid. */
static inline gboolean
_tarn_debug_read_word (TarnDebugSettings *settings, const gchar *text)
{
  g_autofree gchar *copy = g_strdup (text);
  g_auto (GStrv) parts = g_strsplit (g_strstrip (copy), "=", 2);
  gsize number;

  if (parts[0] == NULL || (parts[1] == NULL && parts[0][0] == '\0'))
    return TRUE;
  if (parts[1] == NULL)
    return _tarn_debug_read_flag (settings, parts[0]);
  return _tarn_debug_read_number (parts[1], &number)
         && _tarn_debug_read_setting (settings, parts[0], number);
}

#endif
