/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * If all runs print the same, another run's lines have to be the same, in the same order.  Else
 * threads may print in any order, and each line is expected in the strictest of these ways:
 *
 *     whole    the line comes equally often in each run, as do those that have other numbers
 *     numbers  lines with the same text between their numbers come equally often: those numbers are
 *              compared that are the same in each run, or nearly
 *     words    of the lines that are left, if there are equally many in each run: those words are
 *              compared that are the same
 *
 * Lines of which one run has more than another are never missed, nor too many.  Numbers that varied
 * are durations, counts, addresses and numbers of processes, of which a run in which a call failed
 * may well have others; only a result that varies by rounding is compared.  See line.h for times,
 * which are not compared even if they were the same. */

#include "agreement.h"

#include <math.h>
#include <string.h>

#include "../text.h"
#include "line.h"

/* Lines of a run: what varies is compared in memory. */
#define MAX_LINES 20000

/* Lines of one kind that came in another order: any may be the one that is looked for, and the work
 * grows as the square.  More are not compared. */
#define MAX_UNORDERED 2000

/* Decimals that differ by less, relative to the largest, are one result with other rounding; what
 * then differs by more than the second is wrong. */
#define ROUNDING 1e-5
#define SLACK 1e-3

#define MAX_QUOTED 100 /* characters of a line in a message */

typedef enum
{
  EXPECT_WHOLE,
  EXPECT_NUMBERS,
  EXPECT_WORDS
} ExpectKind;

typedef struct
{
  gchar *text; /* that it is; NULL: it may vary */
  gboolean is_rounded;
  gboolean rises, falls; /* from run to run, without exception */
  gdouble last, min, max;
} ExpectNumber;

/* A line that each run has. */
typedef struct
{
  ExpectKind kind;
  guint number;    /* of the line in the first run, from 1 */
  gchar *key;      /* EXPECT_WHOLE */
  gchar *skeleton; /* EXPECT_NUMBERS */
  GArray *numbers; /* of ExpectNumber */
  gchar **words;   /* EXPECT_WORDS: "" where it may be any */
} Expected;

struct _Agreement
{
  GPtrArray *first; /* of Line: those of the first run */
  gboolean is_complete;
  gboolean is_too_long;
  gboolean is_open;      /* runs have lines that have nothing in common: others may come */
  GPtrArray *expected;   /* of Expected, in the order of the first run */
  GHashTable *free_keys; /* set of gchar *: lines that come in any number */
  GHashTable *free_skeletons;
};

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

/* Lines by a text of theirs */

typedef const gchar *(*GetText) (const Line *line);

static const gchar *
get_key (const Line *line)
{
  return line->key;
}

static const gchar *
get_skeleton (const Line *line)
{
  return line->skeleton;
}

/* Lines of each text, in their order: a table of GPtrArray with borrowed Lines. */
static GHashTable *
sort_lines (const GPtrArray *lines, GetText get)
{
  GHashTable *table
      = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_ptr_array_unref);

  for (guint i = 0; i < lines->len; i++)
    {
      Line *line = lines->pdata[i];
      GPtrArray *same = g_hash_table_lookup (table, get (line));

      if (same == NULL)
        {
          same = g_ptr_array_new ();
          g_hash_table_insert (table, (gpointer) get (line), same);
        }
      g_ptr_array_add (same, line);
    }
  return table;
}

static guint
count_lines (GHashTable *table, const gchar *text)
{
  const GPtrArray *lines = g_hash_table_lookup (table, text);

  return lines != NULL ? lines->len : 0;
}

/* Finds how often each run has the text: equally often, or at least once. */
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

/* Removes the lines whose texts are in a set. */
static void
remove_lines (GPtrArray *lines, GHashTable *texts, GetText get)
{
  guint n = 0;

  for (guint i = 0; i < lines->len; i++)
    if (!g_hash_table_contains (texts, get (lines->pdata[i])))
      lines->pdata[n++] = lines->pdata[i];
  g_ptr_array_set_size (lines, (gint) n);
}

/* Learning */

static GPtrArray *
sort_runs (const GPtrArray *runs, GetText get)
{
  GPtrArray *tables = g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref);

  for (guint i = 0; i < runs->len; i++)
    g_ptr_array_add (tables, sort_lines (runs->pdata[i], get));
  return tables;
}

static void
remove_from_runs (const GPtrArray *runs, GHashTable *texts, GetText get)
{
  for (guint i = 0; i < runs->len; i++)
    remove_lines (runs->pdata[i], texts, get);
}

static void
learn_whole (Agreement *self, const GPtrArray *runs)
{
  g_autoptr (GPtrArray) tables = sort_runs (runs, get_key);
  g_autoptr (GPtrArray) similar = sort_runs (runs, get_skeleton);
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
  remove_from_runs (runs, known, get_key);
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

/* What only rises is a clock. */
static void
end_number (ExpectNumber *number)
{
  number->is_rounded
      &= number->text == NULL && !number->rises && !number->falls
         && number->max - number->min <= ROUNDING * MAX (fabs (number->max), fabs (number->min));
}

/* Learns from the line that is at one place among those of its skeleton, in each run. */
static GArray *
learn_line (const GPtrArray *tables, const gchar *skeleton, guint place)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (ExpectNumber));

  g_array_set_clear_func (numbers, clear_number);
  for (guint i = 0; i < tables->len; i++)
    {
      const GPtrArray *lines = g_hash_table_lookup (tables->pdata[i], skeleton);
      const Line *line = lines->pdata[place];

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
  g_autoptr (GPtrArray) tables = sort_runs (runs, get_skeleton);
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
  remove_from_runs (runs, known, get_skeleton);
}

/* Clears the words that a line has not; FALSE: it has not as many. */
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

static gint
compare_numbers (gconstpointer a, gconstpointer b)
{
  const Expected *left = *(Expected *const *) a, *right = *(Expected *const *) b;

  return left->number < right->number ? -1 : left->number > right->number;
}

/* All lines are the first run's, in its order. */
static gboolean
are_equal (const GPtrArray *lines, const GPtrArray *others)
{
  gboolean are_equal = lines->len == others->len;

  for (guint i = 0; are_equal && i < lines->len; i++)
    are_equal = g_str_equal (((Line *) lines->pdata[i])->key, ((Line *) others->pdata[i])->key);
  return are_equal;
}

static GPtrArray *
borrow_lines (const GPtrArray *lines)
{
  GPtrArray *copy = g_ptr_array_sized_new (lines->len);

  for (guint i = 0; i < lines->len; i++)
    g_ptr_array_add (copy, lines->pdata[i]);
  return copy;
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
      g_ptr_array_add (runs, borrow_lines (lines));
      self->is_complete &= are_equal (self->first, lines);
      self->is_too_long |= lines->len > MAX_LINES;
    }
  self->is_too_long &= !self->is_complete;
  if (self->is_complete || self->is_too_long)
    return;
  learn_whole (self, runs);
  learn_numbers (self, runs);
  learn_words (self, runs);
  g_ptr_array_sort (self->expected, compare_numbers);
}

Agreement *
agreement_new (const GPtrArray *outputs)
{
  Agreement *self = g_new0 (Agreement, 1);

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

/* Messages */

gboolean
agreement_is_complete (const Agreement *self)
{
  return self->is_complete;
}

gchar *
agreement_describe (const Agreement *self)
{
  guint n_whole = 0, n_part = 0;

  if (self->is_complete)
    return NULL;
  if (self->is_too_long)
    return g_strdup_printf ("standard output varies from run to run, and has more than %d lines: "
                            "it is not compared",
                            MAX_LINES);
  for (guint i = 0; i < self->expected->len; i++)
    {
      const Expected *expected = self->expected->pdata[i];

      n_whole += expected->kind == EXPECT_WHOLE;
      n_part += expected->kind != EXPECT_WHOLE;
    }
  return g_strdup_printf ("standard output varies from run to run; lines compared: %u whole, %u in "
                          "part, of %u",
                          n_whole, n_part, self->first->len);
}

/* For a message: printable, without what is alike and far from the difference. */
static gchar *
quote (const gchar *text, gsize n_alike)
{
  g_autofree gchar *printable = NULL;
  gboolean fits = n_alike <= MAX_QUOTED / 2 || strlen (text) <= MAX_QUOTED;
  gsize skipped = fits ? 0 : n_alike - MAX_QUOTED / 4;
  glong length;

  while (skipped > 0 && ((guchar) text[skipped] & 0xc0) == 0x80)
    skipped--;
  printable = text_make_printable (text + skipped, -1);
  g_strchomp (printable);
  length = g_utf8_strlen (printable, -1);
  if (length > MAX_QUOTED)
    *g_utf8_offset_to_pointer (printable, MAX_QUOTED) = '\0';
  return g_strdup_printf ("'%s%s%s'", skipped > 0 ? "..." : "", printable,
                          length > MAX_QUOTED ? "..." : "");
}

/* Gets a line for people: with "..." where it may be anything. */
static gchar *
format_expected (const Agreement *self, const Expected *expected)
{
  GString *text = g_string_new (NULL);
  guint n = 0;

  if (expected->kind == EXPECT_WHOLE)
    g_string_append (text, ((Line *) self->first->pdata[expected->number - 1])->text);
  for (gsize i = 0; expected->words != NULL && expected->words[i] != NULL; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? " " : "",
                            expected->words[i][0] != '\0' ? expected->words[i] : "...");
  for (const gchar *c = expected->skeleton; c != NULL && *c != '\0'; c++)
    {
      const ExpectNumber *number = NULL;

      if (*c == LINE_NUMBER)
        number = &g_array_index (expected->numbers, ExpectNumber, n++);
      if (number == NULL && *c != LINE_OPAQUE)
        g_string_append_c (text, *c);
      else if (number == NULL || (number->text == NULL && !number->is_rounded))
        g_string_append (text, "...");
      else if (number->text != NULL)
        g_string_append (text, number->text);
      else
        g_string_append_printf (text, "%.9g to %.9g", number->min, number->max);
    }
  for (gchar *c = text->str; *c != '\0'; c++)
    *c = *c == LINE_OPAQUE ? '~' : *c;
  return g_string_free (text, FALSE);
}

static gsize
count_alike (const gchar *a, const gchar *b)
{
  gsize n = 0;

  while (a[n] != '\0' && a[n] == b[n])
    n++;
  return n;
}

/* @line, @printed: nullable. */
static gchar *
describe (guint number, const gchar *line, const gchar *printed)
{
  gsize n_alike = line != NULL && printed != NULL ? count_alike (line, printed) : 0;
  g_autofree gchar *expected = line != NULL ? quote (line, n_alike) : NULL;
  g_autofree gchar *got = printed != NULL ? quote (printed, n_alike) : NULL;

  if (line == NULL)
    return g_strdup_printf ("line %u: nothing expected, %s printed", number, got);
  return g_strdup_printf ("line %u: %s expected, %s printed", number, expected,
                          got != NULL ? got : "nothing");
}

/* Comparing */

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
      for (guint i = 0; i < line->numbers->len; i++)
        if (!fits_number (&g_array_index (expected->numbers, ExpectNumber, i),
                          &g_array_index (line->numbers, LineNumber, i)))
          return FALSE;
      return TRUE;
    }
  if (expected->words == NULL)
    return TRUE;
  words = g_strsplit (line->key, " ", -1);
  if (g_strv_length (words) != g_strv_length (expected->words))
    return FALSE;
  for (gsize i = 0; words[i] != NULL; i++)
    if (expected->words[i][0] != '\0' && !g_str_equal (expected->words[i], words[i]))
      return FALSE;
  return TRUE;
}

/* Moves the lines that are not in a set. */
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

/* Looks for lines of one kind in their order, and then, as threads may print them, in any.  Takes
 * those that come from @expected, and leaves NULL in @lines. */
static void
match (GPtrArray *expected, GPtrArray *lines, GHashTable *used)
{
  guint n = 0;

  for (guint i = 0; i < expected->len; i++)
    if (i >= lines->len || !take (&lines->pdata[i], expected->pdata[i], used))
      expected->pdata[n++] = expected->pdata[i];
  g_ptr_array_set_size (expected, (gint) n);
  if (n > MAX_UNORDERED)
    {
      g_ptr_array_set_size (expected, 0);
      for (guint i = 0; i < lines->len; i++)
        g_hash_table_add (used, lines->pdata[i]);
      return;
    }
  n = 0;
  for (guint i = 0; i < expected->len; i++)
    {
      gboolean is_taken = FALSE;

      for (guint j = 0; !is_taken && j < lines->len; j++)
        is_taken = take (&lines->pdata[j], expected->pdata[i], used);
      if (!is_taken)
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

/* Takes away the lines that one kind expects, and adds what it misses. */
static void
match_kind (const Agreement *self, ExpectKind kind, GPtrArray *lines, GPtrArray *missing)
{
  GetText get = kind == EXPECT_WHOLE ? get_key : get_skeleton;
  g_autoptr (GHashTable) table = sort_lines (lines, get);
  g_autoptr (GHashTable) wanted
      = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_ptr_array_unref);
  g_autoptr (GHashTable) used = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) none = g_ptr_array_new ();
  g_autoptr (GPtrArray) all = borrow_lines (lines);
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

/* Gets the line that came in place of one; NULL: none is like it. */
static const Line *
find_similar (const Agreement *self, const Expected *expected, const GPtrArray *lines)
{
  const Line *missed = self->first->pdata[expected->number - 1], *best = NULL;
  gsize n_most = 0;

  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = lines->pdata[i];
      gsize n = count_alike (line->key, missed->key);

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
  g_autoptr (GPtrArray) lines = borrow_lines (printed);
  g_autoptr (GPtrArray) missing = g_ptr_array_new ();
  const Line *line;

  match_kind (self, EXPECT_WHOLE, lines, missing);
  remove_lines (lines, self->free_keys, get_key);
  match_kind (self, EXPECT_NUMBERS, lines, missing);
  remove_lines (lines, self->free_skeletons, get_skeleton);
  match_kind (self, EXPECT_WORDS, lines, missing);
  if (missing->len > 0)
    {
      g_autofree gchar *text = NULL;

      g_ptr_array_sort (missing, compare_numbers);
      text = format_expected (self, missing->pdata[0]);
      line = find_similar (self, missing->pdata[0], lines);
      return describe (((Expected *) missing->pdata[0])->number, text,
                       line != NULL ? line->text : NULL);
    }
  if (lines->len == 0 || self->is_open)
    return NULL;
  line = lines->pdata[0];
  return describe (line->number, NULL, line->text);
}

static gchar *
find_in_constant (const Agreement *self, const GPtrArray *lines)
{
  for (guint i = 0; i < MAX (self->first->len, lines->len); i++)
    {
      const Line *expected = i < self->first->len ? self->first->pdata[i] : NULL;
      const Line *line = i < lines->len ? lines->pdata[i] : NULL;

      if (expected == NULL || line == NULL || !g_str_equal (expected->key, line->key))
        return describe (i + 1, expected != NULL ? expected->text : NULL,
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
