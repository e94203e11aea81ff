/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Applies events to objects (pools, heaps and allocators): updates their blocks and counters. */

#include "objects.h"

#include <string.h>

#include "decode.h"

#define MAX_DEPTH 16 /* longest chain of upstreams: a damaged recording may have a cycle */

/* The objects of a recording.
 *
 * Invariant: all and by_number have the same Objects.  After objects_new (), all has them in the
 * order of their numbers. */
struct _Objects
{
  GHashTable *by_number; /* Objects; the key is their first member */
  GPtrArray *all;
  guint64 n_lives; /* number of requests so far */
  /* The threads that have called the driver for memory since their latest request to a pool.
   * Such a call belongs to the thread's next request event, because a request is recorded at its
   * end. */
  GHashTable *callers;
  /* The threads whose latest request was nested: another allocator made it, to get memory for
   * its own block.  The next ALLOCATED event of such a thread is that allocator's, and its
   * memory does not come from the driver. */
  GHashTable *nested;
  /* addresses of memory that allocators got by nested requests */
  GHashTable *covered;
  guint64 driver_bytes, peak_driver_bytes; /* bytes that allocators have from the driver */
};

static void
object_free (gpointer data)
{
  Object *object = data;

  if (object == NULL)
    return;
  g_clear_pointer (&object->blocks, g_hash_table_unref);
  object_free (object->own);
  g_free (object);
}

static Object *
objects_add (Objects *self, guint64 number)
{
  Object *object = g_hash_table_lookup (self->by_number, &number);

  if (object != NULL)
    return object;
  object = g_new0 (Object, 1);
  object->number = number;
  object->kind = "";
  g_hash_table_insert (self->by_number, &object->number, object);
  g_ptr_array_add (self->all, object);
  return object;
}

static void
describe (Objects *self, const RecordedEvent *event)
{
  Object *object = objects_add (self, event->object);

  object->object_class = event->object_class;
  object->upstream = event->upstream;
  object->kind = event->text;
  object->name = event->name;
}

/* Tells whether an event belongs to an object.  Then event->object is the number of the object. */
static gboolean
is_of_object (const RecordedEvent *event)
{
  return event->object != 0 && decode_has_object (event->kind);
}

static gint
compare_numbers (gconstpointer a, gconstpointer b)
{
  const Object *const *left = a, *const *right = b;

  return (*left)->number < (*right)->number ? -1 : (*left)->number > (*right)->number;
}

/* Reads the whole recording, because the event that describes an object may be in another stream,
 * and come after other events of the object. */
Objects *
objects_new (Recording *recording, guint64 *end_time, GError **error)
{
  g_autoptr (Objects) self = g_new0 (Objects, 1);
  g_autoptr (GError) read_error = NULL;
  RecordedEvent event = { .time = 0 };

  self->by_number = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, object_free);
  self->callers = g_hash_table_new (NULL, NULL);
  self->nested = g_hash_table_new (NULL, NULL);
  self->covered = g_hash_table_new (NULL, NULL);
  self->all = g_ptr_array_new ();
  recording_rewind (recording);
  while (recording_next (recording, &event, &read_error))
    if (event.kind == TARN_TRACE_OBJECT)
      describe (self, &event);
    else if (is_of_object (&event))
      objects_add (self, event.object)->has_requests
          |= event.kind == TARN_TRACE_MISS || event.kind == TARN_TRACE_BLOCK;
  recording_rewind (recording);
  if (read_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&read_error));
      return NULL;
    }
  g_ptr_array_sort (self->all, compare_numbers);
  if (end_time != NULL)
    *end_time = event.time;
  return g_steal_pointer (&self);
}

void
objects_free (Objects *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->all);
  g_hash_table_unref (self->by_number);
  g_hash_table_unref (self->callers);
  g_hash_table_unref (self->nested);
  g_hash_table_unref (self->covered);
  g_free (self);
}

void
objects_reset (Objects *self)
{
  for (guint i = 0; i < self->all->len; i++)
    {
      Object *object = self->all->pdata[i];

      g_clear_pointer (&object->blocks, g_hash_table_unref);
      g_clear_pointer (&object->own, object_free);
      object->hits = object->misses = object->failures = object->frees = object->extents = 0;
      object->active_bytes = object->peak_active_bytes = object->nested_bytes = 0;
      object->held_bytes = object->managed_bytes = 0;
    }
  self->n_lives = 0;
  g_hash_table_remove_all (self->callers);
  g_hash_table_remove_all (self->nested);
  g_hash_table_remove_all (self->covered);
  self->driver_bytes = self->peak_driver_bytes = 0;
}

Object *
objects_find (const Objects *self, guint64 number)
{
  return g_hash_table_lookup (self->by_number, &number);
}

const GPtrArray *
objects_get_all (const Objects *self)
{
  return self->all;
}

guint64
objects_get_peak_driver_bytes (const Objects *self)
{
  return self->peak_driver_bytes;
}

gboolean
objects_serves_program (const Object *object)
{
  return object->object_class != TARN_TRACE_HEAP || object->has_requests;
}

guint64
objects_get_program_bytes (const Object *object)
{
  if (object->object_class == TARN_TRACE_HEAP)
    object = object->own;
  return object != NULL ? object->active_bytes - object->nested_bytes : 0;
}

gchar *
objects_describe (const Objects *self, const Object *object)
{
  const Object *below = object;

  if (object->name != NULL)
    return g_strdup (object->name);
  for (guint i = 0; below != NULL && i < MAX_DEPTH; i++)
    {
      if (below->name != NULL)
        return g_strdup_printf ("over %s", below->name);
      below = objects_find (self, below->upstream);
    }
  return g_strdup (object->kind);
}

/* Functions that change sums of bytes.  No sum wraps, even if events were lost */

static void
add (guint64 *bytes, guint64 more)
{
  *bytes += MIN (more, G_MAXUINT64 - *bytes);
}

static void
take (guint64 *bytes, guint64 less)
{
  *bytes -= MIN (less, *bytes);
}

static void
add_active (Object *object, guint64 bytes)
{
  add (&object->active_bytes, bytes);
  object->peak_active_bytes = MAX (object->peak_active_bytes, object->active_bytes);
}

/* Functions that apply events to blocks */

static Block *
find_block (const Object *object, guint64 number)
{
  return object->blocks != NULL ? g_hash_table_lookup (object->blocks, &number) : NULL;
}

static Block *
add_block (Object *object, const RecordedEvent *event)
{
  Block *block = g_new0 (Block, 1);

  block->number = event->block;
  block->alloc_size = event->kind == TARN_TRACE_HIT ? event->size : event->alloc_size;
  block->address = event->address;
  if (object->blocks == NULL)
    object->blocks = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  g_hash_table_insert (object->blocks, &block->number, block);
  add (&object->managed_bytes, block->alloc_size);
  add (&object->held_bytes, block->alloc_size);
  return block;
}

static void
remove_block (Object *object, Block *block, Change *change)
{
  take (&object->managed_bytes, block->alloc_size);
  if (!block->is_active)
    take (&object->held_bytes, block->alloc_size);
  change->gone = *block;
  change->has_gone = TRUE;
  g_hash_table_remove (object->blocks, &change->gone.number);
}

/* Frees a block, which the object then caches. */
static void
release (Object *object, Block *block, Change *change)
{
  change->freed = *block;
  block->is_active = FALSE;
  g_assert (change->freed.is_active);
  take (&object->active_bytes, block->size);
  take (&object->nested_bytes, block->is_nested ? block->size : 0);
  add (&object->held_bytes, block->alloc_size);
}

/* Gets the key of an event's thread in Objects.callers and Objects.nested. */
static gpointer
get_thread (const RecordedEvent *event)
{
  return GSIZE_TO_POINTER ((gsize) event->thread);
}

static void
use (Objects *self, Object *object, Block *block, const RecordedEvent *event, Change *change)
{
  gboolean is_old = event->kind == TARN_TRACE_BLOCK;

  g_assert (!block->is_active);
  take (&object->held_bytes, block->alloc_size);
  block->is_active = TRUE;
  block->is_lent = event->kind == TARN_TRACE_LENT;
  block->size = event->size;
  block->time = is_old ? 0 : event->time;
  block->thread = event->thread;
  block->queue = event->queue;
  block->tag = event->tag;
  block->stack = event->stack;
  block->life = ++self->n_lives;
  block->is_marked = FALSE;
  block->is_nested = event->is_nested;
  add_active (object, block->size);
  add (&object->nested_bytes, block->is_nested ? block->size : 0);
  if (block->is_nested)
    g_hash_table_add (self->nested, get_thread (event));
  change->used = block;
}

/* Handles a request.  If the block is in use already, the event that freed it was lost, so frees it
 * first.  If the request got new memory, removes the block with its old memory. */
static void
request (Objects *self, Object *object, const RecordedEvent *event, Change *change)
{
  gboolean is_hit = event->kind == TARN_TRACE_HIT;
  Block *block = find_block (object, event->block);

  if (block != NULL && block->is_active)
    release (object, block, change);
  if (block != NULL && !is_hit)
    {
      remove_block (object, block, change);
      block = NULL;
    }
  change->is_new = block == NULL;
  if (block == NULL)
    block = add_block (object, event);
  if (event->kind != TARN_TRACE_BLOCK || event->other != 0)
    use (self, object, block, event, change);
}

static void
free_block (Object *object, const RecordedEvent *event, Change *change)
{
  Block *block = find_block (object, event->block);

  if (event->kind == TARN_TRACE_FREE)
    object->frees++;
  if (block == NULL)
    return;
  if (block->is_active)
    release (object, block, change);
  if (block->is_lent || event->kind == TARN_TRACE_GONE || object->object_class == TARN_TRACE_DIRECT)
    remove_block (object, block, change);
}

/* Functions that apply events to heaps, and apply any event */

static void
apply_to_heap (Object *object, const RecordedEvent *event)
{
  switch (event->kind)
    {
    case TARN_TRACE_PIECE:
      add (&object->managed_bytes, event->size);
      break;
    case TARN_TRACE_PIECE_GONE:
      take (&object->managed_bytes, event->size);
      break;
    case TARN_TRACE_EXTENT:
      object->extents++;
      add_active (object, event->size);
      break;
    case TARN_TRACE_EXTENT_FREE:
      object->frees++;
      take (&object->active_bytes, event->size);
      break;
    case TARN_TRACE_FAIL:
      object->failures++;
      break;
    default:
      break;
    }
  object->held_bytes = object->managed_bytes - MIN (object->active_bytes, object->managed_bytes);
}

/* Gets the object that stands for the blocks that the program requested from a heap without a
 * pool. */
static Object *
get_own (Object *heap)
{
  if (heap->own == NULL)
    {
      heap->own = g_new0 (Object, 1);
      heap->own->object_class = TARN_TRACE_DIRECT; /* the class of objects that cache no blocks */
    }
  return heap->own;
}

/* Tells whether a pool may get memory from its upstream without a driver call: from a heap, or from
 * another pool. */
static gboolean
can_be_served (const Objects *self, const Object *object)
{
  const Object *upstream = objects_find (self, object->upstream);

  return upstream != NULL && upstream->object_class != TARN_TRACE_DIRECT;
}

/* Counts a request that got memory. */
static void
count_served (Objects *self, Object *object, const RecordedEvent *event)
{
  gboolean has_called = g_hash_table_remove (self->callers, get_thread (event));

  if (event->kind == TARN_TRACE_MISS && (has_called || !can_be_served (self, object)))
    object->misses++;
  else if (event->kind != TARN_TRACE_BLOCK)
    object->hits++;
}

/* Updates driver_bytes, the bytes that allocators have from the driver: adds the memory that an
 * allocator allocated, or subtracts the memory that it freed.  Skips memory that the allocator got
 * from another allocator (by a nested request), because driver_bytes includes the driver calls of
 * that other allocator. */
static void
note_call (Objects *self, const Object *object, const RecordedEvent *event)
{
  gpointer address = GSIZE_TO_POINTER ((gsize) event->address);

  if (object->object_class != TARN_TRACE_DIRECT)
    return;
  if (event->kind == TARN_TRACE_FREED && !g_hash_table_remove (self->covered, address))
    take (&self->driver_bytes, event->size);
  else if (event->kind == TARN_TRACE_ALLOCATED)
    {
      gboolean is_covered = g_hash_table_remove (self->nested, get_thread (event));

      g_hash_table_add (self->callers, get_thread (event));
      if (event->other == 0 && is_covered)
        g_hash_table_add (self->covered, address);
      else
        add (&self->driver_bytes, event->other == 0 ? event->size : 0);
    }
  self->peak_driver_bytes = MAX (self->peak_driver_bytes, self->driver_bytes);
}

static void
apply_to_blocks (Objects *self, Object *object, const RecordedEvent *event, Change *change)
{
  switch (event->kind)
    {
    case TARN_TRACE_BLOCK:
    case TARN_TRACE_HIT:
    case TARN_TRACE_MISS:
    case TARN_TRACE_LENT:
      request (self, object, event, change);
      count_served (self, object, event);
      break;
    case TARN_TRACE_FAIL:
      g_hash_table_remove (self->callers, get_thread (event));
      object->failures++;
      break;
    case TARN_TRACE_FREE:
    case TARN_TRACE_GONE:
      free_block (object, event, change);
      break;
    default:
      break;
    }
}

void
objects_apply (Objects *self, const RecordedEvent *event, Change *change)
{
  *change = (Change){ .object = NULL };
  if (!is_of_object (event))
    return;
  change->object = objects_find (self, event->object);
  if (change->object == NULL)
    return;
  note_call (self, change->object, event);
  if (change->object->object_class == TARN_TRACE_HEAP)
    {
      apply_to_heap (change->object, event);
      if (change->object->has_requests)
        apply_to_blocks (self, get_own (change->object), event, change);
    }
  else
    apply_to_blocks (self, change->object, event, change);
}

static gint
compare_lives (gconstpointer a, gconstpointer b)
{
  const Block *const *left = a, *const *right = b;

  return (*left)->life < (*right)->life ? -1 : (*left)->life > (*right)->life;
}

void
object_for_each_block (Object *object, BlockFunc func, gpointer user_data)
{
  const Object *holder = object->own != NULL ? object->own : object;
  g_autoptr (GPtrArray) blocks = NULL;
  GHashTableIter iter;
  gpointer block;

  if (holder->blocks == NULL)
    return;
  blocks = g_ptr_array_new ();
  g_hash_table_iter_init (&iter, holder->blocks);
  while (g_hash_table_iter_next (&iter, NULL, &block))
    g_ptr_array_add (blocks, block);
  g_ptr_array_sort (blocks, compare_lives);
  for (guint i = 0; i < blocks->len; i++)
    func (object, blocks->pdata[i], user_data);
}

/* A callback that objects_for_each_active () calls only for blocks in use. */
typedef struct
{
  BlockFunc func;
  gpointer user_data;
} ActiveOnly;

static void
call_if_active (Object *object, Block *block, gpointer user_data)
{
  const ActiveOnly *only = user_data;

  if (block->is_active)
    only->func (object, block, only->user_data);
}

void
objects_for_each_active (Objects *self, BlockFunc func, gpointer user_data)
{
  ActiveOnly only = { func, user_data };

  for (guint i = 0; i < self->all->len; i++)
    object_for_each_block (self->all->pdata[i], call_if_active, &only);
}
