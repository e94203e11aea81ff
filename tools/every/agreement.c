/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Learns which lines another run must print.  If all runs print the same, another run must print
 * the same lines in the same order.  Otherwise threads may print in any order, and each line is
 * expected in the first of these ways that fits it:
 *
 *     whole    the line comes equally often in each run, and so do the lines that differ from it
 *              only in numbers
 *
 *     numbers  lines with the same text between their numbers come equally often in each run; the
 *              numbers that are the same in each run, or nearly the same, are compared
 *
 *     words    each run has equally many lines left; they are compared in their order, and only by
 *              the words that are the same in each run
 *
 * A line that one run has more often than another is never reported, neither as missing nor as
 * surplus.  Numbers that vary are durations, counts, addresses and process numbers.  They are not
 * compared, because a run with a fault may print any of them.  The exception is a result that
 * varies only by rounding, which is compared.  Times are not compared even if they were the same
 * (line.h). */

#include "agreement.h"

#include <math.h>

#include "agreement-private.h"

/* If a decimal varies only by rounding, its values in all runs differ by no more than this share of
 * the largest value. */
#define ROUNDING 1e-5

static void
clear_number (gpointer data)
{
  g_free (((ExpectNumber *) data)->text);
}

static void
expected_free (gpointer data)
{
  Expected *self = data;

  g_free (self->key);
  g_free (self->skeleton);
  g_clear_pointer (&self->numbers, g_array_unref);
  g_strfreev (self->words);
  g_free (self);
}

static Expected *
expect (Agreement *self, ExpectKind kind, guint number)
{
  Expected *expected = g_new0 (Expected, 1);

  expected->kind = kind;
  expected->number = number;
  g_ptr_array_add (self->expected, expected);
  return expected;
}

static guint
count_lines (GHashTable *table, const gchar *text)
{
  const GPtrArray *lines = g_hash_table_lookup (table, text);

  return lines != NULL ? lines->len : 0;
}

/* Counts how many times each run has a text.  Stores the least and the greatest of these counts. */
static void
count_in_runs (const GPtrArray *tables, const gchar *text, guint *min, guint *max)
{
  *min = G_MAXUINT;
  *max = 0;
  for (guint i = 0; i < tables->len; i++)
    {
      guint n = count_lines (tables->pdata[i], text);

      *min = MIN (*min, n);
      *max = MAX (*max, n);
    }
}

/* Functions that learn which lines to expect */

static GPtrArray *
sort_runs (const GPtrArray *runs, LineGetText get)
{
  GPtrArray *tables = g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref);

  for (guint i = 0; i < runs->len; i++)
    g_ptr_array_add (tables, lines_group (runs->pdata[i], get));
  return tables;
}

static void
remove_from_runs (const GPtrArray *runs, GHashTable *texts, LineGetText get)
{
  for (guint i = 0; i < runs->len; i++)
    lines_remove (runs->pdata[i], texts, get);
}

static void
learn_whole (Agreement *self, const GPtrArray *runs)
{
  g_autoptr (GPtrArray) tables = sort_runs (runs, line_get_key);
  g_autoptr (GPtrArray) similar = sort_runs (runs, line_get_skeleton);
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  const GPtrArray *lines = runs->pdata[0];

  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = lines->pdata[i];
      guint min, max;

      count_in_runs (tables, line->key, &min, &max);
      if (min == 0)
        continue;
      g_hash_table_add (known, line->key);
      if (min == max && line->numbers->len > 0)
        count_in_runs (similar, line->skeleton, &min, &max);
      if (min < max)
        g_hash_table_add (self->free_keys, g_strdup (line->key));
      else
        expect (self, EXPECT_WHOLE, line->number)->key = g_strdup (line->key);
    }
  remove_from_runs (runs, known, line_get_key);
}

static void
add_value (ExpectNumber *number, const LineNumber *value)
{
  if (g_strcmp0 (number->text, value->text) != 0)
    g_clear_pointer (&number->text, g_free);
  number->rises &= value->value > number->last;
  number->falls &= value->value < number->last;
  number->last = value->value;
  number->min = MIN (number->min, value->value);
  number->max = MAX (number->max, value->value);
  number->is_rounded &= value->is_decimal;
}

/* Finds out if a number varies only by rounding.  A number that rises from each run to the next, or
 * falls from each run to the next, is taken for a time, not for a rounded result. */
static void
end_number (ExpectNumber *number)
{
  number->is_rounded
      &= number->text == NULL && !number->rises && !number->falls
         && number->max - number->min <= ROUNDING * MAX (fabs (number->max), fabs (number->min));
}

/* Learns the numbers of one line from all runs.  In each run, this line has the index @place among
 * the lines with @skeleton. */
static GArray *
learn_line (const GPtrArray *tables, const gchar *skeleton, guint place)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (ExpectNumber));

  g_array_set_clear_func (numbers, clear_number);
  for (guint i = 0; i < tables->len; i++)
    {
      const GPtrArray *lines = g_hash_table_lookup (tables->pdata[i], skeleton);
      const Line *line = lines->pdata[place];

      g_assert (i == 0 || line->numbers->len == numbers->len);
      for (guint j = 0; j < line->numbers->len; j++)
        {
          const LineNumber *value = &g_array_index (line->numbers, LineNumber, j);
          const ExpectNumber start = { .text = g_strdup (i == 0 ? value->text : NULL),
                                       .is_rounded = value->is_decimal,
                                       .rises = TRUE,
                                       .falls = TRUE,
                                       .last = value->value,
                                       .min = value->value,
                                       .max = value->value };

          if (i == 0)
            g_array_append_val (numbers, start);
          else
            add_value (&g_array_index (numbers, ExpectNumber, j), value);
        }
    }
  for (guint j = 0; j < numbers->len; j++)
    end_number (&g_array_index (numbers, ExpectNumber, j));
  return numbers;
}

static void
learn_numbers (Agreement *self, const GPtrArray *runs)
{
  g_autoptr (GPtrArray) tables = sort_runs (runs, line_get_skeleton);
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  GHashTableIter iter;
  gpointer skeleton, same;

  g_hash_table_iter_init (&iter, tables->pdata[0]);
  while (g_hash_table_iter_next (&iter, &skeleton, &same))
    {
      guint min, max;

      count_in_runs (tables, skeleton, &min, &max);
      if (min == 0)
        continue;
      g_hash_table_add (known, skeleton);
      if (min < max)
        g_hash_table_add (self->free_skeletons, g_strdup (skeleton));
      for (guint i = 0; min == max && i < min; i++)
        {
          const Line *line = ((GPtrArray *) same)->pdata[i];
          Expected *expected = expect (self, EXPECT_NUMBERS, line->number);

          expected->skeleton = g_strdup (skeleton);
          expected->numbers = learn_line (tables, skeleton, i);
        }
    }
  remove_from_runs (runs, known, line_get_skeleton);
}

/* Sets the elements of @words that differ from the words of @line to "".  Returns FALSE if @line
 * has another number of words. */
static gboolean
agree_on_words (gchar **words, const Line *line)
{
  g_auto (GStrv) others = g_strsplit (line->key, " ", -1);

  if (g_strv_length (words) != g_strv_length (others))
    return FALSE;
  for (gsize i = 0; words[i] != NULL; i++)
    if (!g_str_equal (words[i], others[i]))
      words[i][0] = '\0';
  return TRUE;
}

static gboolean
has_any_word (gchar **words)
{
  for (gsize i = 0; words[i] != NULL; i++)
    if (words[i][0] != '\0' && words[i][0] != LINE_OPAQUE)
      return TRUE;
  return FALSE;
}

static void
learn_words (Agreement *self, const GPtrArray *runs)
{
  const GPtrArray *lines = runs->pdata[0];

  for (guint i = 1; i < runs->len; i++)
    self->is_open |= ((GPtrArray *) runs->pdata[i])->len != lines->len;
  if (self->is_open)
    return;
  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = lines->pdata[i];
      g_auto (GStrv) words = g_strsplit (line->key, " ", -1);
      gboolean agrees = TRUE;

      for (guint j = 1; agrees && j < runs->len; j++)
        agrees = agree_on_words (words, ((GPtrArray *) runs->pdata[j])->pdata[i]);
      if (agrees && has_any_word (words))
        expect (self, EXPECT_WORDS, line->number)->words = g_steal_pointer (&words);
      else
        self->is_open = TRUE;
    }
}

gint
agreement_compare_places (gconstpointer a, gconstpointer b)
{
  const Expected *left = *(Expected *const *) a, *right = *(Expected *const *) b;

  return left->number < right->number ? -1 : left->number > right->number;
}

/* Tells whether two runs printed the same lines in the same order. */
static gboolean
are_equal (const GPtrArray *lines, const GPtrArray *others)
{
  gboolean are_equal = lines->len == others->len;

  for (guint i = 0; are_equal && i < lines->len; i++)
    are_equal = g_str_equal (((Line *) lines->pdata[i])->key, ((Line *) others->pdata[i])->key);
  return are_equal;
}

static void
learn (Agreement *self, const GPtrArray *outputs)
{
  g_autoptr (GPtrArray) owned = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);

  self->is_complete = TRUE;
  self->first = lines_new (outputs->pdata[0]);
  for (guint i = 0; i < outputs->len; i++)
    {
      GPtrArray *lines = i > 0 ? lines_new (outputs->pdata[i]) : g_ptr_array_ref (self->first);

      g_ptr_array_add (owned, lines);
      g_ptr_array_add (runs, lines_borrow (lines));
      self->is_complete &= are_equal (self->first, lines);
      self->is_too_long |= lines->len > AGREEMENT_MAX_LINES;
    }
  self->is_too_long &= !self->is_complete;
  g_assert (self->expected->len == 0);
  if (self->is_complete || self->is_too_long)
    return;
  learn_whole (self, runs);
  learn_numbers (self, runs);
  learn_words (self, runs);
  g_ptr_array_sort (self->expected, agreement_compare_places);
}

Agreement *
agreement_new (const GPtrArray *outputs)
{
  Agreement *self = g_new0 (Agreement, 1);

  g_assert (outputs->len >= 2);
  self->expected = g_ptr_array_new_with_free_func (expected_free);
  self->free_keys = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->free_skeletons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  learn (self, outputs);
  return self;
}

void
agreement_free (Agreement *self)
{
  g_ptr_array_unref (self->first);
  g_ptr_array_unref (self->expected);
  g_hash_table_unref (self->free_keys);
  g_hash_table_unref (self->free_skeletons);
  g_free (self);
}

gboolean
agreement_is_complete (const Agreement *self)
{
  return self->is_complete;
}
