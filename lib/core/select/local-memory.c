/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Computes bank conflicts in local memory (CUDA: shared memory).  Neighbouring work items access
 * neighbouring elements of an array at the same time.  If several of these elements are in the same
 * bank of the memory, these accesses run one after the other. */

#include <string.h>
#include <tarn/local-memory.h>

#include "common/struct-private.h"

/* An array in local memory, in C order.  The array @shape has the number of elements along each
 * axis.  The array @stored_shape has these numbers with padding: it also counts unused elements at
 * the end of each row, plane and so on. */
typedef struct
{
  gsize item_size;
  guint rank;
  const gsize *shape;
  const gsize *stored_shape;
} Array;

/* A bank conflict: several work items access different elements of the array in the same bank at
 * the same time. */
typedef struct
{
  /* The number of work items that access the bank at the same time; 1 if there is no conflict. */
  guint multiplicity;
  /* The axis of the array along which successive work items access successive elements.  The
   * rightmost axis is 0, the axis to its left is 1, and so on.  -1 if there is no conflict. */
  gint axis;
  gint bank; /* the index of the bank; -1 if there is no conflict */
  /* A description of the conflict, owned by this struct; NULL if there is no conflict. */
  gchar *text;
} Conflict;

/* Finds the element of an array that a work item accesses.  Axis 0 is the rightmost axis.
 * Successive work items access successive elements along @axis.  After the last index along
 * @axis, this index starts at 0 again, and the index along the next axis to the left increases by
 * 1, like the digits of a number.  The index along each axis to the right of @axis is always 0.
 * Stores the element's offset in bytes in *offset.  If @place is not NULL, stores the element's
 * index along each axis there.  Returns FALSE if the array has no element for this work item. */
static gboolean
find_element (const Array *array, guint axis, guint work_item, guint64 *offset, gsize *place)
{
  guint64 stride = array->item_size;
  gsize rest = work_item;

  *offset = 0;
  for (guint from_right = 0; from_right < array->rank; from_right++)
    {
      guint i = array->rank - 1 - from_right;
      gsize at = 0;

      if (from_right >= axis)
        {
          at = rest % array->shape[i];
          rest /= array->shape[i];
        }
      *offset += stride * at;
      stride *= array->stored_shape[i];
      if (place != NULL)
        place[i] = at;
    }
  return rest == 0;
}

static gboolean
find_bank (const TarnLocalMemory *memory, const Array *array, guint axis, guint work_item,
           guint *bank)
{
  guint64 offset;

  if (!find_element (array, axis, work_item, &offset, NULL))
    return FALSE;
  *bank = (guint) (offset / memory->bank_bytes % memory->bank_count);
  return TRUE;
}

/* Returns a text that describes a bank conflict.  The text lists each work item that accesses the
 * bank, and the indices of the element that the work item accesses, such as "w.item 1 -> [1, 0]".
 * The caller frees the text. */
static gchar *
write_explanation (const TarnLocalMemory *memory, const Array *array, guint axis, guint bank,
                   guint multiplicity)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree gsize *place = g_new (gsize, array->rank);
  const gchar *separator = "";

  g_string_printf (text, "%ux conflict on axis %u (from right, 0-based): ", multiplicity, axis);
  for (guint item = 0; item < memory->work_items; item++)
    {
      guint64 offset;
      guint item_bank;

      if (!find_bank (memory, array, axis, item, &item_bank) || item_bank != bank)
        continue;
      find_element (array, axis, item, &offset, place);
      g_string_append_printf (text, "%sw.item %u -> [", separator, item);
      for (guint i = 0; i < array->rank; i++)
        g_string_append_printf (text, "%s%" G_GSIZE_FORMAT, i > 0 ? ", " : "", place[i]);
      g_string_append_c (text, ']');
      separator = ", ";
    }
  g_string_append_printf (text, " access bank %u", bank);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Compares a conflict of @multiplicity work items in @bank with @worst, the worst conflict found so
 * far.  Replaces @worst if the new conflict has more work items.  If it has as many, replaces
 * @worst if the new conflict's text is greater by strcmp (), as PyOpenCL does. */
static void
consider_conflict (Conflict *worst, const TarnLocalMemory *memory, const Array *array, guint axis,
                   guint bank, guint multiplicity)
{
  g_autofree gchar *text = NULL;

  if (multiplicity < 2 || multiplicity < worst->multiplicity)
    return;
  text = write_explanation (memory, array, axis, bank, multiplicity);
  if (multiplicity == worst->multiplicity && strcmp (text, worst->text) <= 0)
    return;
  g_free (worst->text);
  *worst = (Conflict){ multiplicity, (gint) axis, (gint) bank, g_steal_pointer (&text) };
}

/* Finds the worst bank conflict for work items that access successive elements along @axis (see
 * find_element ()).  Stores this conflict in @worst if it is worse than the one in @worst. */
static void
check_axis (Conflict *worst, const TarnLocalMemory *memory, const Array *array, guint axis)
{
  /* Maps the index of a bank to the number of work items that access the bank. */
  g_autoptr (GHashTable) counts = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  gpointer bank, count;

  for (guint item = 0; item < memory->work_items; item++)
    {
      guint at;

      if (!find_bank (memory, array, axis, item, &at))
        break; /* this work item and all later ones are outside the array */
      count = g_hash_table_lookup (counts, GUINT_TO_POINTER (at));
      g_hash_table_insert (counts, GUINT_TO_POINTER (at),
                           GUINT_TO_POINTER (GPOINTER_TO_UINT (count) + 1));
    }
  g_hash_table_iter_init (&iter, counts);
  while (g_hash_table_iter_next (&iter, &bank, &count))
    consider_conflict (worst, memory, array, axis, GPOINTER_TO_UINT (bank),
                       GPOINTER_TO_UINT (count));
}

guint
tarn_local_memory_conflict (const TarnLocalMemory *memory, gsize item_size, guint rank,
                            const gsize *shape, const gsize *stored_shape, gint *axis, gint *bank,
                            gchar **explanation)
{
  TarnLocalMemory known = TARN_LOCAL_MEMORY_INIT;
  Array array = { item_size, rank, shape, stored_shape != NULL ? stored_shape : shape };
  Conflict worst = { 1, -1, -1, NULL };
  gboolean is_read;

  g_return_val_if_fail (memory != NULL, 0);
  is_read = _tarn_struct_read (&known, sizeof known, memory);
  g_return_val_if_fail (is_read, 0);
  g_return_val_if_fail (known.reserved == 0, 0);
  g_return_val_if_fail (known.bank_count > 0 && known.bank_bytes > 0, 0);
  g_return_val_if_fail (rank > 0 && shape != NULL, 0);
  for (guint i = 0; i < rank; i++)
    g_return_val_if_fail (shape[i] > 0, 0);

  for (guint i = 0; i < rank; i++)
    check_axis (&worst, &known, &array, i);
  if (axis != NULL)
    *axis = worst.axis;
  if (bank != NULL)
    *bank = worst.bank;
  if (explanation != NULL)
    *explanation = g_steal_pointer (&worst.text);
  g_free (worst.text);
  return worst.multiplicity;
}
