/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Stores and sorts tables of alternatives (changes to the pools and heaps of a recorded
 * program). */

#include "what-if.h"

#include <math.h>

static void
row_free (gpointer data)
{
  WhatIfRow *row = data;

  g_free (row->label);
  g_free (row->error);
  g_free (row);
}

static void
difference_free (gpointer data)
{
  Difference *difference = data;

  g_free (difference->object);
  g_free (difference->counter);
  g_free (difference);
}

WhatIf *
what_if_new (const Recorded *recorded, const Source *source)
{
  WhatIf *self = g_new0 (WhatIf, 1);

  self->device = g_strdup (source_get_place (source));
  self->name = source->device != NULL ? g_strdup (source->device->name) : NULL;
  self->kind = source->kind->name;
  self->recording = g_strdup (recorded->name);
  self->n_threads = recorded->n_threads;
  self->n_steps = recorded->steps->len;
  self->rows = g_ptr_array_new_with_free_func (row_free);
  self->differences = g_ptr_array_new_with_free_func (difference_free);
  self->notes = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
what_if_free (WhatIf *self)
{
  g_free (self->device);
  g_free (self->name);
  g_free (self->recording);
  g_ptr_array_unref (self->rows);
  g_ptr_array_unref (self->differences);
  g_ptr_array_unref (self->notes);
  g_free (self);
}

WhatIfRow *
what_if_add (WhatIf *self, const gchar *label)
{
  WhatIfRow *row = g_new0 (WhatIfRow, 1);

  row->label = g_strdup (label);
  row->ratio = row->idle_share = row->hit_share = NAN;
  g_ptr_array_add (self->rows, row);
  return row;
}

static gint
compare_numbers (guint64 left, guint64 right)
{
  return left < right ? -1 : left > right;
}

static gint
compare_rows (gconstpointer a, gconstpointer b)
{
  const WhatIfRow *left = *(const WhatIfRow *const *) a, *right = *(const WhatIfRow *const *) b;
  gint result = (left->error != NULL) - (right->error != NULL);

  if (result == 0)
    result = compare_numbers (left->failures, right->failures);
  if (result == 0)
    result = compare_numbers (left->peak_managed, right->peak_managed);
  if (result == 0)
    result = compare_numbers (left->calls, right->calls);
  return result != 0 ? result : g_strcmp0 (left->label, right->label);
}

void
what_if_sort (WhatIf *self)
{
  WhatIfRow *first;

  if (self->rows->len < 2)
    return;
  first = g_ptr_array_steal_index (self->rows, 0);
  g_ptr_array_sort (self->rows, compare_rows);
  g_ptr_array_insert (self->rows, 0, first);
}

gboolean
what_if_has_errors (const WhatIf *self)
{
  for (guint i = 0; i < self->rows->len; i++)
    if (((const WhatIfRow *) self->rows->pdata[i])->error != NULL)
      return TRUE;
  return FALSE;
}
