/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Compares a run's output with an agreement: the lines that several good runs have in common. */

#include <math.h>

#include "agreement-private.h"

/* The comparison works on groups of expected lines:
 * - lines that are compared as a whole, and have the same key (Line.key)
 * - lines that are compared by numbers, and have the same skeleton (Line.skeleton)
 * - lines that are compared by words
 * In each group, it first looks for each expected line at the same index as in the good runs.  If
 * more than MAX_MISSING lines are not there, the comparison of the group ends at the first line
 * that the run did not print.  Otherwise the search for the remaining lines could take a time that
 * grows with the square of their number. */
#define MAX_MISSING 2000

/* If a decimal varied only by rounding in the good runs, a run's value fits if it is in the range
 * of the values of the good runs.  It may also be outside of this range by SLACK times the largest
 * of these values. */
#define SLACK 1e-3

static gboolean
fits_number (const ExpectNumber *expected, const LineNumber *number)
{
  gdouble slack = SLACK * MAX (fabs (expected->min), fabs (expected->max));

  if (expected->text != NULL)
    return g_str_equal (expected->text, number->text);
  if (isnan (number->value) && !isnan (expected->min))
    return FALSE;
  return !expected->is_rounded
         || (number->value >= expected->min - slack && number->value <= expected->max + slack);
}

static gboolean
fits (const Expected *expected, const Line *line)
{
  g_auto (GStrv) words = NULL;

  if (expected->kind == EXPECT_WHOLE)
    return g_str_equal (expected->key, line->key);
  if (expected->kind == EXPECT_NUMBERS)
    {
      if (!g_str_equal (expected->skeleton, line->skeleton))
        return FALSE;
      g_assert (expected->numbers->len == line->numbers->len);
      for (guint i = 0; i < line->numbers->len; i++)
        if (!fits_number (&g_array_index (expected->numbers, ExpectNumber, i),
                          &g_array_index (line->numbers, LineNumber, i)))
          return FALSE;
      return TRUE;
    }
  g_assert (expected->words != NULL);
  words = g_strsplit (line->key, " ", -1);
  if (g_strv_length (words) != g_strv_length (expected->words))
    return FALSE;
  for (gsize i = 0; words[i] != NULL; i++)
    if (expected->words[i][0] != '\0' && !g_str_equal (expected->words[i], words[i]))
      return FALSE;
  return TRUE;
}

/* Removes the lines in @used from @lines. */
static void
keep_unused (GPtrArray *lines, GHashTable *used)
{
  guint n = 0;

  for (guint i = 0; i < lines->len; i++)
    if (!g_hash_table_contains (used, lines->pdata[i]))
      lines->pdata[n++] = lines->pdata[i];
  g_ptr_array_set_size (lines, (gint) n);
}

static gboolean
take (gpointer *line, const Expected *expected, GHashTable *used)
{
  if (*line == NULL || !fits (expected, *line))
    return FALSE;
  g_hash_table_add (used, *line);
  *line = NULL;
  return TRUE;
}

/* Finds a line in @lines that fits @expected.  Adds the line to @used, and replaces it by NULL in
 * @lines.  Returns FALSE if no line fits. */
static gboolean
take_any (GPtrArray *lines, const Expected *expected, GHashTable *used)
{
  for (guint i = 0; i < lines->len; i++)
    if (take (&lines->pdata[i], expected, used))
      return TRUE;
  return FALSE;
}

/* Finds the printed line for each expected line: first the line with the same index, then a line
 * with any index, because threads may print in any order.
 *
 * Removes each expected line that it finds from @expected, adds the printed line to @used, and sets
 * the printed line's element of @lines to NULL.  If more than MAX_MISSING expected lines are not at
 * the same index, stops at the first one that fits no line, and leaves the later ones in
 * @expected. */
static void
match (GPtrArray *expected, GPtrArray *lines, GHashTable *used)
{
  guint n = 0;
  gboolean has_many, is_over = FALSE;

  for (guint i = 0; i < expected->len; i++)
    if (i >= lines->len || !take (&lines->pdata[i], expected->pdata[i], used))
      expected->pdata[n++] = expected->pdata[i];
  g_ptr_array_set_size (expected, (gint) n);
  has_many = n > MAX_MISSING;
  n = 0;
  for (guint i = 0; i < expected->len; i++)
    if (is_over || !take_any (lines, expected->pdata[i], used))
      {
        is_over = has_many;
        expected->pdata[n++] = expected->pdata[i];
      }
  g_ptr_array_set_size (expected, (gint) n);
}

static void
add_all (GPtrArray *array, const GPtrArray *others)
{
  for (guint i = 0; i < others->len; i++)
    g_ptr_array_add (array, others->pdata[i]);
}

/* Finds the expected lines of one kind among @lines, and removes them from @lines.  Adds the
 * expected lines that it does not find to @missing. */
static void
match_kind (const Agreement *self, ExpectKind kind, GPtrArray *lines, GPtrArray *missing)
{
  LineGetText get = kind == EXPECT_WHOLE ? line_get_key : line_get_skeleton;
  g_autoptr (GHashTable) table = lines_group (lines, get);
  g_autoptr (GHashTable) wanted
      = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_ptr_array_unref);
  g_autoptr (GHashTable) used = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) none = g_ptr_array_new ();
  g_autoptr (GPtrArray) all = lines_borrow (lines);
  GHashTableIter iter;
  gpointer text, value;

  for (guint i = 0; i < self->expected->len; i++)
    {
      Expected *expected = self->expected->pdata[i];
      const gchar *name = kind == EXPECT_WHOLE     ? expected->key
                          : kind == EXPECT_NUMBERS ? expected->skeleton
                                                   : "";
      GPtrArray *same = NULL;

      if (expected->kind != kind)
        continue;
      same = g_hash_table_lookup (wanted, name);
      if (same == NULL)
        {
          same = g_ptr_array_new ();
          g_hash_table_insert (wanted, (gpointer) name, same);
        }
      g_ptr_array_add (same, expected);
    }
  g_hash_table_iter_init (&iter, wanted);
  while (g_hash_table_iter_next (&iter, &text, &value))
    {
      GPtrArray *same = kind == EXPECT_WORDS ? all : g_hash_table_lookup (table, text);

      match (value, same != NULL ? same : none, used);
      add_all (missing, value);
    }
  keep_unused (lines, used);
}

/* Finds the printed line that is most like the missing line @expected.  Returns NULL if no line is
 * like it. */
static const Line *
find_similar (const Agreement *self, const Expected *expected, const GPtrArray *lines)
{
  const Line *missed = self->first->pdata[expected->number - 1], *best = NULL;
  gsize n_most = 0;

  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = lines->pdata[i];
      gsize n = agreement_count_alike (line->key, missed->key);

      if (g_str_equal (line->skeleton, missed->skeleton))
        return line;
      if (n > n_most || (n_most == 0 && line->number == missed->number))
        {
          n_most = n;
          best = line;
        }
    }
  return best;
}

static gchar *
find_in_varying (const Agreement *self, const GPtrArray *printed)
{
  g_autoptr (GPtrArray) lines = lines_borrow (printed);
  g_autoptr (GPtrArray) missing = g_ptr_array_new ();
  const Line *line;

  match_kind (self, EXPECT_WHOLE, lines, missing);
  lines_remove (lines, self->free_keys, line_get_key);
  match_kind (self, EXPECT_NUMBERS, lines, missing);
  lines_remove (lines, self->free_skeletons, line_get_skeleton);
  match_kind (self, EXPECT_WORDS, lines, missing);
  if (missing->len > 0)
    {
      g_autofree gchar *text = NULL;

      g_ptr_array_sort (missing, agreement_compare_places);
      text = agreement_format_expected (self, missing->pdata[0]);
      line = find_similar (self, missing->pdata[0], lines);
      return agreement_describe_difference (((Expected *) missing->pdata[0])->number, text,
                                            line != NULL ? line->text : NULL);
    }
  if (lines->len == 0 || self->is_open)
    return NULL;
  line = lines->pdata[0];
  return agreement_describe_difference (line->number, NULL, line->text);
}

static gchar *
find_in_constant (const Agreement *self, const GPtrArray *lines)
{
  for (guint i = 0; i < MAX (self->first->len, lines->len); i++)
    {
      const Line *expected = i < self->first->len ? self->first->pdata[i] : NULL;
      const Line *line = i < lines->len ? lines->pdata[i] : NULL;

      if (expected == NULL || line == NULL || !g_str_equal (expected->key, line->key))
        return agreement_describe_difference (i + 1, expected != NULL ? expected->text : NULL,
                                              line != NULL ? line->text : NULL);
    }
  return NULL;
}

gchar *
agreement_find_difference (const Agreement *self, const GString *output)
{
  g_autoptr (GPtrArray) lines = NULL;

  if (self->is_too_long)
    return NULL;
  lines = lines_new (output);
  if (self->is_complete)
    return find_in_constant (self, lines);
  return find_in_varying (self, lines);
}
