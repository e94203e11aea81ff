/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the peak, and sums up the blocks in use by tag and by stack. */

#include "holders.h"

#include "progress.h"

static guint64
get_active (const Object *object)
{
  return object != NULL ? objects_get_program_bytes (object) : 0;
}

/* Sums up the bytes in use of all objects that serve the program, after each event.  An event
 * changes only one object, so adds to the sum only the difference that the event makes to that
 * object. */
gboolean
peak_find (Recording *recording, Objects *objects, PeakPlace *place, GError **error)
{
  g_autoptr (GError) read_error = NULL;
  guint64 bytes = 0;
  Progress progress;
  RecordedEvent event;
  Change change;

  *place = (PeakPlace){ 0 };
  progress_begin (&progress, recording, "counting");
  while (progress_next (&progress, &event, &read_error))
    {
      guint64 before = get_active (objects_find (objects, event.object));

      objects_apply (objects, &event, &change);
      bytes += get_active (change.object) - before;
      if (bytes > place->bytes)
        *place = (PeakPlace){ progress.n, event.time, bytes };
    }
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}

static void
add_to (GHashTable *holders, guint64 key, guint64 bytes)
{
  Holder *holder = g_hash_table_lookup (holders, &key);

  if (holder == NULL)
    {
      holder = g_new (Holder, 1);
      *holder = (Holder){ .key = key };
      g_hash_table_insert (holders, &holder->key, holder);
    }
  holder->bytes += bytes;
  holder->n_blocks++;
}

/* Sums of the blocks in use: tables from a tag, or a stack, to its Holder. */
typedef struct
{
  GHashTable *by_tag, *by_stack;
  gboolean has_stacks;
} Sums;

static void
add_block (Object *object, Block *block, gpointer user_data)
{
  Sums *sums = user_data;

  if (!objects_serves_program (object) || block->is_nested)
    return;
  add_to (sums->by_tag, block->tag, block->size);
  add_to (sums->by_stack, block->stack, block->size);
  sums->has_stacks |= block->stack != 0;
}

static gint
compare_holders (gconstpointer a, gconstpointer b)
{
  const Holder *left = a, *right = b;

  if (left->bytes != right->bytes)
    return left->bytes > right->bytes ? -1 : 1;
  return left->key < right->key ? -1 : left->key > right->key;
}

static GArray *
sort_holders (GHashTable *holders)
{
  GArray *sorted = g_array_new (FALSE, FALSE, sizeof (Holder));
  GHashTableIter iter;
  gpointer holder;

  g_hash_table_iter_init (&iter, holders);
  while (g_hash_table_iter_next (&iter, NULL, &holder))
    g_array_append_vals (sorted, holder, 1);
  g_array_sort (sorted, compare_holders);
  return sorted;
}

static GHashTable *
holders_new (void)
{
  return g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
}

static void
sum_up (Peak *peak, Objects *objects)
{
  g_autoptr (GHashTable) by_tag = holders_new (), by_stack = holders_new ();
  Sums sums = { by_tag, by_stack, FALSE };

  objects_for_each_active (objects, add_block, &sums);
  if (!sums.has_stacks)
    g_hash_table_remove_all (by_stack);
  peak->by_tag = sort_holders (by_tag);
  peak->by_stack = sort_holders (by_stack);
}

gboolean
peak_init (Peak *peak, Recording *recording, Objects *objects, const PeakPlace *place,
           GError **error)
{
  g_autoptr (GError) read_error = NULL;
  Progress progress;
  RecordedEvent event;
  Change change;

  *peak = (Peak){ .time = place->time, .bytes = place->bytes };
  objects_reset (objects);
  progress_begin (&progress, recording, "summing up");
  while (progress.n < place->n_event && progress_next (&progress, &event, &read_error))
    objects_apply (objects, &event, &change);
  progress_end (&progress);
  sum_up (peak, objects);
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}

void
peak_clear (Peak *peak)
{
  g_clear_pointer (&peak->by_tag, g_array_unref);
  g_clear_pointer (&peak->by_stack, g_array_unref);
}
