/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Groups, copies and filters lists of lines. */

#include "lines.h"

const gchar *
line_get_key (const Line *line)
{
  return line->key;
}

const gchar *
line_get_skeleton (const Line *line)
{
  return line->skeleton;
}

GPtrArray *
lines_borrow (const GPtrArray *lines)
{
  GPtrArray *copy = g_ptr_array_sized_new (lines->len);

  for (guint i = 0; i < lines->len; i++)
    g_ptr_array_add (copy, lines->pdata[i]);
  return copy;
}

GHashTable *
lines_group (const GPtrArray *lines, LineGetText get)
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

void
lines_remove (GPtrArray *lines, GHashTable *texts, LineGetText get)
{
  guint n = 0;

  for (guint i = 0; i < lines->len; i++)
    if (!g_hash_table_contains (texts, get (lines->pdata[i])))
      lines->pdata[n++] = lines->pdata[i];
  g_ptr_array_set_size (lines, (gint) n);
}
