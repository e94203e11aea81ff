/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Leaks: the blocks in use when a pool or the program ends.  A message lists them, with one line
 * for each pair of a tag (tarn_tag_push ()) and a call stack, the pair with the most bytes
 * first. */

#include "debug/debug-private.h"

#include <stdlib.h>
#include <tarn/debug.h>

#include "base/fork-private.h"
#include "base/ref-private.h"
#include "record/record-private.h"

static TarnMutex lock = TARN_MUTEX_INIT;
static GQueue all = G_QUEUE_INIT; /* all debugging allocators (TarnGuarded), linked by all_link */

/* All blocks with the same tag that were allocated with the same call stack. */
typedef struct
{
  guint32 tag, stack;
  gsize n, bytes;
} Group;

static guint
hash_group (gconstpointer key)
{
  const Group *group = key;

  return group->tag * 31 + group->stack;
}

static gboolean
equal_groups (gconstpointer a, gconstpointer b)
{
  const Group *left = a, *right = b;

  return left->tag == right->tag && left->stack == right->stack;
}

static gint
compare_groups (gconstpointer a, gconstpointer b)
{
  const Group *left = *(const Group *const *) a, *right = *(const Group *const *) b;

  return left->bytes == right->bytes  ? (gint) left->stack - (gint) right->stack
         : left->bytes < right->bytes ? 1
                                      : -1;
}

/* Returns the blocks in use as an array of groups, one for each pair of tag and call stack, the
 * group with the most bytes first.  Stores the number of these blocks in *n, and the sum of their
 * sizes in *bytes.  Blocks in quarantine do not count. */
static GPtrArray *
collect (TarnGuarded *self, gsize *n, gsize *bytes)
{
  g_autoptr (GHashTable) groups = g_hash_table_new (hash_group, equal_groups);
  GPtrArray *array = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer value;

  *n = *bytes = 0;
  _tarn_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->blocks);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const TarnDebugBlock *block = value;
      const Group key = { .tag = block->tag, .stack = block->stack };
      Group *group = g_hash_table_lookup (groups, &key);

      if (block->is_freed || block->is_stuck || block->is_left)
        continue;
      if (group == NULL)
        {
          group = g_new0 (Group, 1);
          *group = key;
          g_hash_table_add (groups, group);
          g_ptr_array_add (array, group);
        }
      group->n++;
      group->bytes += block->size;
      *n += 1;
      *bytes += block->size;
    }
  _tarn_mutex_unlock (&self->lock);
  g_ptr_array_sort (array, compare_groups);
  return array;
}

void
_tarn_leaks_report (TarnGuarded *self, const gchar *when)
{
  gsize n, bytes;
  g_autoptr (GPtrArray) groups = collect (self, &n, &bytes);
  g_autoptr (GString) text = g_string_new (NULL);

  if (n == 0)
    return;
  g_string_append_printf (text,
                          "%s: %" G_GSIZE_FORMAT " %s in use when %s, %" G_GSIZE_FORMAT " bytes",
                          self->label, n, n == 1 ? "block is" : "blocks are", when, bytes);
  for (guint i = 0; i < groups->len; i++)
    {
      const Group *group = groups->pdata[i];
      g_autofree gchar *tag = _tarn_tag_quote (group->tag);

      g_string_append_printf (text, "\n  %" G_GSIZE_FORMAT " bytes in %" G_GSIZE_FORMAT " %s",
                              group->bytes, group->n, group->n == 1 ? "block" : "blocks");
      if (tag != NULL)
        g_string_append_printf (text, ", tag '%s'", tag);
      _tarn_finding_append_stack (text, group->stack);
    }
  _tarn_finding_count (TRUE, text->str);
  /* Log a message, not a warning: g_test makes warnings fatal, and a leak need not be a mistake. */
  g_message ("%s", text->str);
}

/* Returns a list of the debugging allocators (TarnGuarded) of all debugged pools, with a new
 * reference to each.  Leaves out an allocator whose last reference was released. */
static GPtrArray *
list_all (void)
{
  GPtrArray *list = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_allocator_unref);
  TARN_LOCKED (&lock);

  for (GList *link = all.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = ((const TarnGuarded *) link->data)->self;

      if (_tarn_try_ref (&allocator->ref_count))
        g_ptr_array_add (list, allocator);
    }
  return list;
}

static TarnGuarded *
get_guarded (const GPtrArray *list, guint i)
{
  return ((const TarnAllocator *) g_ptr_array_index (list, i))->user_data;
}

static gboolean
has_ended (TarnGuarded *self)
{
  TARN_LOCKED (&self->lock);

  return self->has_ended;
}

static void
report_at_exit (void)
{
  g_autoptr (GPtrArray) list = NULL;

  if (_tarn_forked ())
    return;
  list = list_all ();
  for (guint i = 0; i < list->len; i++)
    if (!has_ended (get_guarded (list, i)))
      _tarn_leaks_report (get_guarded (list, i), "the program ends");
}

void
_tarn_leaks_watch (TarnGuarded *self)
{
  static gint is_registered; /* atomic: TRUE if report_at_exit () is registered */

  if ((self->settings.flags & TARN_DEBUG_LEAKS) != 0
      && g_atomic_int_compare_and_exchange (&is_registered, FALSE, TRUE))
    atexit (report_at_exit);
  self->all_link.data = self;
  _tarn_mutex_lock (&lock);
  g_queue_push_tail_link (&all, &self->all_link);
  _tarn_mutex_unlock (&lock);
}

void
_tarn_leaks_forget (TarnGuarded *self)
{
  TARN_LOCKED (&lock);

  g_queue_unlink (&all, &self->all_link);
}

gsize
tarn_debug_check (void)
{
  g_autoptr (GPtrArray) list = NULL;
  TarnFindings *findings;

  if (_tarn_forked ())
    return _tarn_findings_get_n ();
  findings = _tarn_findings_new ();
  list = list_all ();
  for (guint i = 0; i < list->len; i++)
    _tarn_guarded_check (get_guarded (list, i), findings);
  _tarn_findings_report (findings);
  return _tarn_findings_get_n ();
}
