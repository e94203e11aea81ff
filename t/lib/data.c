/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "data.h"

guint
data_for_each_row (const gchar *name, void (*func) (const gchar *row, gpointer), gpointer user_data)
{
  g_autofree gchar *path = g_test_build_filename (G_TEST_DIST, "..", "data", name, NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;
  g_autoptr (GError) error = NULL;
  guint rows = 0;

  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    if (lines[i][0] != '#' && lines[i][0] != '\0')
      {
        func (lines[i], user_data);
        rows++;
      }
  return rows;
}
