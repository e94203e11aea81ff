/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bank conflicts, as PyOpenCL finds them. */

#include <string.h>
#include <tarn/tarn.h>

#include "lib/data.h"

#define MAX_RANK 8

/* "16,17" */
static guint
parse_shape (const gchar *text, gsize *shape)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);
  guint rank = g_strv_length (parts);

  g_assert_cmpuint (rank, <=, MAX_RANK);
  for (guint i = 0; i < rank; i++)
    shape[i] = (gsize) g_ascii_strtoull (parts[i], NULL, 10);
  return rank;
}

static gint
parse_number (const gchar *text)
{
  return strcmp (text, "-") == 0 ? -1 : (gint) g_ascii_strtoll (text, NULL, 10);
}

/* Work items and banks by compute capability: 16 below 2.0, else 32. */
static void
check_row (const gchar *line, gpointer unused)
{
  g_auto (GStrv) fields = g_strsplit (line, "\t", -1);
  TarnLocalMemory memory = TARN_LOCAL_MEMORY_INIT;
  gsize shape[MAX_RANK], stored_shape[MAX_RANK];
  gboolean is_stored_otherwise = strcmp (fields[3], "-") != 0;
  g_autofree gchar *explanation = NULL;
  gint axis = -2, bank = -2;
  guint rank = parse_shape (fields[2], shape);
  guint multiplicity;

  (void) unused;
  memory.bank_bytes = 4;
  memory.bank_count = memory.work_items = fields[0][0] < '2' ? 16 : 32;
  if (is_stored_otherwise)
    g_assert_cmpuint (parse_shape (fields[3], stored_shape), ==, rank);
  multiplicity = tarn_local_memory_conflict (
      &memory, (gsize) g_ascii_strtoull (fields[1], NULL, 10), rank, shape,
      is_stored_otherwise ? stored_shape : NULL, &axis, &bank, &explanation);
  g_test_message ("%s: %s", line, explanation != NULL ? explanation : "no conflict");
  g_assert_cmpint ((gint) multiplicity, ==, parse_number (fields[4]));
  g_assert_cmpint (axis, ==, parse_number (fields[5]));
  g_assert_cmpint (bank, ==, parse_number (fields[6]));
  g_assert_true ((explanation == NULL) == (multiplicity == 1));
}

static void
test_data (void)
{
  g_assert_cmpuint (data_for_each_row ("bank-conflicts.tsv", check_row, NULL), ==, 84);
}

static void
test_explanation (void)
{
  static const gsize shape[] = { 2, 2 };
  TarnLocalMemory memory = TARN_LOCAL_MEMORY_INIT;
  g_autofree gchar *explanation = NULL;

  memory.bank_count = 2;
  memory.bank_bytes = 4;
  memory.work_items = 2;
  g_assert_cmpuint (
      tarn_local_memory_conflict (&memory, 4, 2, shape, NULL, NULL, NULL, &explanation), ==, 2);
  g_assert_cmpstr (explanation, ==,
                   "2x conflict on axis 1 (from right, 0-based): w.item 0 -> [0, 0], w.item 1 -> "
                   "[1, 0] access bank 0");
  g_assert_cmpuint (tarn_local_memory_conflict (&memory, 4, 2, shape, NULL, NULL, NULL, NULL), ==,
                    2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/local-memory/data", test_data);
  g_test_add_func ("/core/local-memory/explanation", test_explanation);
  return g_test_run ();
}
