/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The lines that an agreement expects.  agreement.c learns them from several runs,
 * agreement-compare.c looks for them in another run, agreement-message.c prints them. */

#ifndef AGREEMENT_PRIVATE_H
#define AGREEMENT_PRIVATE_H

#include "agreement.h"
#include "lines.h"

/* If output varies, and a run has more lines than this, nothing is compared, because all lines of a
 * run are in memory. */
#define AGREEMENT_MAX_LINES 20000

typedef enum
{
  EXPECT_WHOLE,
  EXPECT_NUMBERS,
  EXPECT_WORDS
} ExpectKind;

/* A number of an expected line.
 *
 * Invariant: min <= max, unless one is NaN.  If text is not NULL, is_rounded is FALSE. */
typedef struct
{
  gchar *text; /* the number, if each run printed the same text; NULL if the number varies */
  gboolean is_rounded; /* TRUE if the number varies only by rounding; its value is then compared */
  gboolean rises, falls;  /* TRUE if the number rises, or falls, from each run to the next */
  gdouble last, min, max; /* value in the last run; least and greatest value in all runs */
} ExpectNumber;

/* A line that each run has.
 *
 * Invariant: exactly one of key, skeleton and words is not NULL; kind says which one. */
typedef struct
{
  ExpectKind kind;
  guint number;    /* the line number in the first run, from 1 */
  gchar *key;      /* only with EXPECT_WHOLE */
  gchar *skeleton; /* only with EXPECT_NUMBERS */
  GArray *numbers; /* ExpectNumbers, one for each LINE_NUMBER of the skeleton */
  gchar **words;   /* only with EXPECT_WORDS; "" for a word that varies */
} Expected;

/* The lines on which several runs agree.
 *
 * Invariant: at most one of is_complete and is_too_long is TRUE.  If one is TRUE, expected,
 * free_keys and free_skeletons are empty. */
struct _Agreement
{
  GPtrArray *first;     /* Lines of the first run */
  gboolean is_complete; /* all runs printed the same lines in the same order */
  gboolean is_too_long; /* output varies and has too many lines: nothing is compared */
  /* TRUE if the good runs have lines in which they do not agree.  Then a printed line that nobody
   * expects is not reported. */
  gboolean is_open;
  GPtrArray *expected; /* Expecteds, in the order of the first run */
  /* A set of keys (Line.key).  The runs have different numbers of lines with such a key, so any
   * number of these lines may come. */
  GHashTable *free_keys;
  /* A set of skeletons (Line.skeleton).  Any number of lines with such a skeleton may come. */
  GHashTable *free_skeletons;
};

/* Compares two pointers to Expected by their lines' numbers in the first run, for sorting. */
gint agreement_compare_places (gconstpointer a, gconstpointer b);

/* Counts the bytes that two texts have in common at the start. */
gsize agreement_count_alike (const gchar *a, const gchar *b);

/* Formats an expected line for people, with "..." where it may vary.  Free it with g_free (). */
gchar *agreement_format_expected (const Agreement *agreement, const Expected *expected);

/* Describes a difference in line @number: @line was expected, and @printed was printed.  @line is
 * NULL if none was expected; @printed is NULL if none was printed.  Free it with g_free (). */
gchar *agreement_describe_difference (guint number, const gchar *line, const gchar *printed);

#endif
