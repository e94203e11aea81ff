/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes a history of events.  A life is a block from its request to its free, or an extent or a
 * segment of a heap.  An extent is a range of a segment that serves one request to the heap.
 *
 * The user of a heap may know an extent by another address, such as a cl_mem.  The recording then
 * has a part: it maps this address to the address in the heap.
 *
 * A request is nested if another allocator makes it, to get memory for its own block.  If events
 * were lost, the recording may free a block that was never requested, or request a block twice.
 * The history handles both cases. */

#include "history.h"

#include <string.h>

/* The sort of a range of memory. */
typedef enum
{
  MEMORY_BLOCK,
  MEMORY_EXTENT,
  MEMORY_PIECE,
  MEMORY_PART /* the address by which the user of a heap knows an extent, such as a cl_mem */
} MemorySort;

/* A range of memory that exists: a block, in use or cached, or a segment, an extent or a part of a
 * heap.
 *
 * Invariant: life <= Builder.n_lives. */
typedef struct
{
  /* The key: these two fields identify a Memory */
  MemorySort sort;
  guint64 place; /* the number of the block, or the address */

  guint64 address, alloc_size;
  /* The bytes of a block that count as managed by its object.  0 if the block is a range of another
   * block (LENT), or was allocated for a nested request. */
  guint64 managed;
  /* The number of the life that the memory has now, from 1.  0 if the memory has no life, because
   * it is a cached block, or because is_nested is TRUE. */
  guint64 life;
  /* TRUE if another allocator requested this block, to get memory for its own block (a nested
   * request).  Both blocks have the same bytes, so only the other allocator's block has a life. */
  gboolean is_nested;
} Memory;

/* A history that is being made. */
typedef struct
{
  History *history;
  GHashTable *memory; /* maps an object's number to a set of its Memories */
  guint64 n_lives;
} Builder;

static const struct
{
  const gchar *name;
  ColumnCode code;
} columns[HISTORY_N_COLUMNS] = {
  [HISTORY_EVENT_TIME] = { "event_time", COLUMN_RISING },
  [HISTORY_EVENT_LIFE] = { "event_life", COLUMN_PLAIN },
  [HISTORY_LIFE_OBJECT] = { "object", COLUMN_PLAIN },
  [HISTORY_LIFE_SORT] = { "sort", COLUMN_PLAIN },
  [HISTORY_LIFE_SIZE] = { "size", COLUMN_PLAIN },
  [HISTORY_LIFE_MORE] = { "more", COLUMN_PLAIN },
  [HISTORY_LIFE_ADDRESS] = { "address", COLUMN_DIFFERENCES },
  [HISTORY_LIFE_SHIFT] = { "shift", COLUMN_SIGNED },
  [HISTORY_LIFE_STACK] = { "stack", COLUMN_PLAIN },
  [HISTORY_LIFE_TAG] = { "tag", COLUMN_PLAIN },
  [HISTORY_LIFE_QUEUE] = { "queue", COLUMN_PLAIN },
  [HISTORY_LIFE_THREAD] = { "thread", COLUMN_PLAIN },
  [HISTORY_MANAGED_TIME] = { "managed_time", COLUMN_RISING },
  [HISTORY_MANAGED_OBJECT] = { "managed_object", COLUMN_PLAIN },
  [HISTORY_MANAGED_BYTES] = { "managed_bytes", COLUMN_SIGNED },
  [HISTORY_CALL_TIME] = { "call_time", COLUMN_RISING },
  [HISTORY_CALL_KIND] = { "call_kind", COLUMN_PLAIN },
  [HISTORY_CALL_OBJECT] = { "call_object", COLUMN_PLAIN },
  [HISTORY_CALL_QUEUE] = { "call_queue", COLUMN_PLAIN },
  [HISTORY_CALL_THREAD] = { "call_thread", COLUMN_PLAIN },
  [HISTORY_CALL_SIZE] = { "call_size", COLUMN_PLAIN },
  [HISTORY_CALL_DURATION] = { "call_duration", COLUMN_PLAIN },
  [HISTORY_CALL_CODE] = { "call_code", COLUMN_PLAIN },
};

static gpointer
copy (gconstpointer data, gsize n_bytes)
{
  return n_bytes > 0 ? memcpy (g_malloc (n_bytes), data, n_bytes) : NULL;
}

/* Functions for lists of numbers */

static void
list_init (HistoryList *list)
{
  const guint64 none = 0;

  list->numbers = g_array_new (FALSE, FALSE, sizeof (guint64));
  list->places = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_array_append_val (list->numbers, none);
}

static void
list_clear (HistoryList *list)
{
  g_array_unref (list->numbers);
  g_hash_table_unref (list->places);
}

/* Gets the index of a number in a list.  Returns 0 if the list does not have the number. */
static guint
list_find_old (const HistoryList *list, guint64 number)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (list->places, &number));
}

/* Gets the index of a number in a list.  Adds the number if the list does not have it. */
static guint
list_find (HistoryList *list, guint64 number)
{
  guint place = list_find_old (list, number);

  if (number == 0 || place != 0)
    return place;
  place = list->numbers->len;
  g_assert (g_hash_table_size (list->places) + 1 == place);
  g_array_append_val (list->numbers, number);
  g_hash_table_insert (list->places, copy (&number, sizeof number), GUINT_TO_POINTER (place));
  return place;
}

/* Functions for objects and threads */

static void
object_free (gpointer data)
{
  HistoryObject *object = data;

  if (object == NULL)
    return;
  g_free (object->kind);
  g_free (object->name);
  g_free (object->properties);
  g_free (object);
}

static void
set_details (History *self, guint place, HistoryObject *object)
{
  if (self->object_details->len <= place)
    g_ptr_array_set_size (self->object_details, (gint) place + 1);
  object_free (g_ptr_array_index (self->object_details, place));
  g_ptr_array_index (self->object_details, place) = object;
}

static void
see_object (History *self, const RecordedEvent *event)
{
  HistoryObject *object;

  if (event->object == 0)
    return;
  object = g_new0 (HistoryObject, 1);
  object->number = event->object;
  object->upstream = list_find (&self->objects, event->upstream);
  object->class = event->object_class;
  object->kind = g_strdup (event->text);
  object->name = g_strdup (event->name);
  object->n_properties = event->n_properties;
  object->properties = copy (event->properties, event->n_properties * sizeof *event->properties);
  set_details (self, list_find (&self->objects, event->object), object);
}

/* Gets the index of an event's thread in the list of threads.  Keeps the thread's name if the event
 * has it. */
static guint
find_thread (History *self, const RecordedEvent *event)
{
  guint place = list_find (&self->threads, event->thread);

  if (self->thread_names->len <= place)
    g_ptr_array_set_size (self->thread_names, (gint) place + 1);
  if (place != 0 && event->text != NULL && g_ptr_array_index (self->thread_names, place) == NULL)
    g_ptr_array_index (self->thread_names, place) = g_strdup (event->text);
  return place;
}

/* Functions for ranges of memory */

static guint
memory_hash (gconstpointer key)
{
  const Memory *memory = key;
  guint64 mixed
      = (memory->place >> 4) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + (guint64) memory->sort;

  return (guint) (mixed ^ mixed >> 32);
}

static gboolean
memory_equal (gconstpointer a, gconstpointer b)
{
  const Memory *left = a, *right = b;

  return left->place == right->place && left->sort == right->sort;
}

static Memory *
find_memory (Builder *builder, MemorySort sort, guint64 object, guint64 place)
{
  const Memory key = { .sort = sort, .place = place };
  GHashTable *memory = g_hash_table_lookup (builder->memory, &object);

  return memory != NULL ? g_hash_table_lookup (memory, &key) : NULL;
}

static Memory *
add_memory (Builder *builder, MemorySort sort, guint64 object, guint64 place)
{
  GHashTable *of_object = g_hash_table_lookup (builder->memory, &object);
  Memory *memory = g_new0 (Memory, 1);

  if (of_object == NULL)
    {
      of_object = g_hash_table_new_full (memory_hash, memory_equal, g_free, NULL);
      g_hash_table_insert (builder->memory, copy (&object, sizeof object), of_object);
    }
  *memory = (Memory){ .sort = sort, .place = place };
  g_hash_table_add (of_object, memory);
  return memory;
}

static void
add (Builder *builder, gint column, guint64 number)
{
  column_add (&builder->history->columns[column], number);
}

static TarnTraceClass
get_class (const History *self, guint64 number)
{
  guint place = list_find_old (&self->objects, number);
  const HistoryObject *object
      = place < self->object_details->len ? g_ptr_array_index (self->object_details, place) : NULL;

  return object != NULL ? object->class : TARN_TRACE_POOL;
}

/* Gets the index, in the list of objects, of the owner of a range of memory.  Blocks that a heap
 * serves without a pool have a separate owner, so that the page does not mix them with the heap's
 * extents. */
static guint
find_owner (History *self, MemorySort sort, guint64 object)
{
  gboolean is_direct = sort == MEMORY_BLOCK && get_class (self, object) == TARN_TRACE_HEAP;

  return list_find (&self->objects, is_direct ? object | HISTORY_BLOCKS_OF_HEAP : object);
}

/* Sets the number of bytes of a block that count as managed, and records the change.  Does nothing
 * for a heap's segments, extents and parts: segments have lives, which show their bytes. */
static void
set_managed (Builder *builder, const RecordedEvent *event, Memory *memory, guint64 bytes)
{
  if (memory->sort != MEMORY_BLOCK || bytes == memory->managed)
    return;
  add (builder, HISTORY_MANAGED_TIME, event->time);
  add (builder, HISTORY_MANAGED_OBJECT, find_owner (builder->history, MEMORY_BLOCK, event->object));
  add (builder, HISTORY_MANAGED_BYTES, bytes - memory->managed);
  memory->managed = bytes;
}

static void
end_life (Builder *builder, const RecordedEvent *event, Memory *memory)
{
  if (memory->life == 0)
    return;
  g_assert (memory->life <= builder->n_lives);
  add (builder, HISTORY_EVENT_TIME, event->time);
  add (builder, HISTORY_EVENT_LIFE, builder->n_lives - memory->life + 1);
  memory->life = 0;
}

/* Gets the shift of a block: its address in the heap minus the address by which the user knows it.
 * Returns 0 if the heap has no part with the user's address, because both addresses are the same
 * then.  Parts stay until their heap ends; if several parts have the user's address, the latest one
 * counts. */
static guint64
get_shift (Builder *builder, guint64 number, const Memory *memory)
{
  const History *history = builder->history;
  guint place = list_find_old (&history->objects, number);
  const HistoryObject *object = place < history->object_details->len
                                    ? g_ptr_array_index (history->object_details, place)
                                    : NULL;
  const Memory *part = NULL;

  if (memory->sort == MEMORY_BLOCK && object != NULL)
    part = find_memory (builder, MEMORY_PART,
                        object->class == TARN_TRACE_HEAP
                            ? object->number
                            : g_array_index (history->objects.numbers, guint64, object->upstream),
                        memory->address);
  return part != NULL ? part->address - memory->address : 0;
}

static void
begin_life (Builder *builder, const RecordedEvent *event, Memory *memory, LifeSort sort)
{
  History *history = builder->history;

  end_life (builder, event, memory);
  memory->is_nested = FALSE;
  add (builder, HISTORY_EVENT_TIME, event->time);
  add (builder, HISTORY_EVENT_LIFE, 0);
  add (builder, HISTORY_LIFE_OBJECT, find_owner (history, memory->sort, event->object));
  add (builder, HISTORY_LIFE_SORT, (guint64) sort);
  add (builder, HISTORY_LIFE_SIZE, event->size);
  add (builder, HISTORY_LIFE_MORE,
       memory->alloc_size > event->size ? memory->alloc_size - event->size : 0);
  add (builder, HISTORY_LIFE_ADDRESS, memory->address);
  add (builder, HISTORY_LIFE_SHIFT, get_shift (builder, event->object, memory));
  add (builder, HISTORY_LIFE_STACK, list_find (&history->stacks, event->stack));
  add (builder, HISTORY_LIFE_TAG, list_find (&history->tags, event->tag));
  add (builder, HISTORY_LIFE_QUEUE, list_find (&history->queues, event->queue));
  add (builder, HISTORY_LIFE_THREAD, find_thread (history, event));
  memory->life = ++builder->n_lives;
}

/* Finds the Memory of an event, or adds one, and sets its address and size. */
static Memory *
put_memory (Builder *builder, MemorySort sort, const RecordedEvent *event, guint64 place,
            guint64 address, guint64 alloc_size)
{
  Memory *memory = find_memory (builder, sort, event->object, place);

  if (memory == NULL)
    memory = add_memory (builder, sort, event->object, place);
  if (event->kind != TARN_TRACE_LENT && !event->is_nested)
    set_managed (builder, event, memory, alloc_size);
  memory->address = address;
  memory->alloc_size = alloc_size;
  return memory;
}

static void
take_memory (Builder *builder, MemorySort sort, const RecordedEvent *event, guint64 place)
{
  Memory *memory = find_memory (builder, sort, event->object, place);

  if (memory == NULL)
    {
      builder->history->n_unknown++;
      return;
    }
  end_life (builder, event, memory);
  set_managed (builder, event, memory, 0);
  g_hash_table_remove (g_hash_table_lookup (builder->memory, &event->object), memory);
}

/* Ends an object: removes its memory. */
static void
end_object (Builder *builder, const RecordedEvent *event)
{
  GHashTable *memory = g_hash_table_lookup (builder->memory, &event->object);
  GHashTableIter iter;
  gpointer each;

  if (memory == NULL)
    return;
  g_hash_table_iter_init (&iter, memory);
  while (g_hash_table_iter_next (&iter, &each, NULL))
    {
      end_life (builder, event, each);
      set_managed (builder, event, each, 0);
    }
  g_hash_table_remove (builder->memory, &event->object);
}

/* Functions that read events */

/* Reads a block that was there at the start.  A request for this block, from another thread, may
 * have come before this event. */
static void
see_old_block (Builder *builder, const RecordedEvent *event)
{
  Memory *memory
      = put_memory (builder, MEMORY_BLOCK, event, event->block, event->address, event->alloc_size);

  if (event->other != 0 && memory->life == 0)
    begin_life (builder, event, memory, LIFE_AT_START);
}

/* Reads a nested request.  The block of the other allocator has the same bytes and a life, so this
 * block gets no life. */
static void
see_nested (Builder *builder, const RecordedEvent *event, Memory *memory)
{
  if (memory == NULL || event->kind == TARN_TRACE_MISS)
    memory = put_memory (builder, MEMORY_BLOCK, event, event->block, event->address,
                         MAX (event->alloc_size, event->size));
  end_life (builder, event, memory);
  memory->is_nested = TRUE;
}

static void
see_request (Builder *builder, const RecordedEvent *event)
{
  Memory *memory = find_memory (builder, MEMORY_BLOCK, event->object, event->block);

  if (event->is_nested)
    {
      see_nested (builder, event, memory);
      return;
    }
  if (event->kind == TARN_TRACE_HIT)
    {
      if (memory == NULL)
        {
          builder->history->n_unknown++;
          memory = put_memory (builder, MEMORY_BLOCK, event, event->block, 0, event->size);
        }
      begin_life (builder, event, memory, LIFE_HIT);
      return;
    }
  memory
      = put_memory (builder, MEMORY_BLOCK, event, event->block, event->address, event->alloc_size);
  begin_life (builder, event, memory, event->kind == TARN_TRACE_MISS ? LIFE_MISS : LIFE_LENT);
}

/* Reads a free.  A pool then caches the block.  An allocator or a heap without a pool caches
 * nothing, so the block is removed. */
static void
see_free (Builder *builder, const RecordedEvent *event)
{
  Memory *memory = find_memory (builder, MEMORY_BLOCK, event->object, event->block);

  if (get_class (builder->history, event->object) != TARN_TRACE_POOL)
    take_memory (builder, MEMORY_BLOCK, event, event->block);
  else if (memory != NULL && memory->life != 0)
    end_life (builder, event, memory);
  else if (memory == NULL || !memory->is_nested)
    builder->history->n_unknown++;
}

static void
see_heap_memory (Builder *builder, const RecordedEvent *event, guint64 address)
{
  gboolean is_extent = event->kind == TARN_TRACE_EXTENT;
  Memory *memory = put_memory (builder, is_extent ? MEMORY_EXTENT : MEMORY_PIECE, event, address,
                               address, event->size);

  begin_life (builder, event, memory, is_extent ? LIFE_EXTENT : LIFE_PIECE);
}

static void
see_call (Builder *builder, const RecordedEvent *event)
{
  History *history = builder->history;

  add (builder, HISTORY_CALL_TIME, event->time);
  add (builder, HISTORY_CALL_KIND, event->kind);
  add (builder, HISTORY_CALL_OBJECT, list_find (&history->objects, event->object));
  add (builder, HISTORY_CALL_QUEUE, list_find (&history->queues, event->queue));
  add (builder, HISTORY_CALL_THREAD, find_thread (history, event));
  add (builder, HISTORY_CALL_SIZE, event->size);
  add (builder, HISTORY_CALL_DURATION, event->duration);
  add (builder, HISTORY_CALL_CODE, event->other);
}

static void
see_block_event (Builder *builder, const RecordedEvent *event)
{
  if (event->kind == TARN_TRACE_BLOCK)
    see_old_block (builder, event);
  else if (event->kind == TARN_TRACE_GONE)
    take_memory (builder, MEMORY_BLOCK, event, event->block);
  else if (event->kind == TARN_TRACE_FREE)
    see_free (builder, event);
  else
    see_request (builder, event);
}

/* Reads a move of a segment to another address.  Tarn's heaps record three events: the removal of
 * the segment at its old address, the move, and a new segment at the new address.  If a recording
 * has only the move, this function also removes the old segment and adds the new one. */
static void
see_move (Builder *builder, const RecordedEvent *event)
{
  if (find_memory (builder, MEMORY_PIECE, event->object, event->address) != NULL)
    {
      take_memory (builder, MEMORY_PIECE, event, event->address);
      see_heap_memory (builder, event, event->other);
    }
  see_call (builder, event);
}

static void
see_heap_event (Builder *builder, const RecordedEvent *event)
{
  if (event->kind == TARN_TRACE_PIECE_MOVED)
    see_move (builder, event);
  else if (event->kind == TARN_TRACE_EXTENT || event->kind == TARN_TRACE_PIECE)
    see_heap_memory (builder, event, event->address);
  else if (event->kind == TARN_TRACE_PART)
    put_memory (builder, MEMORY_PART, event, event->other, event->address, 0);
  else
    take_memory (builder, event->kind == TARN_TRACE_EXTENT_FREE ? MEMORY_EXTENT : MEMORY_PIECE,
                 event, event->address);
}

static void
see (Builder *builder, const RecordedEvent *event)
{
  switch (event->kind)
    {
    case TARN_TRACE_OBJECT:
      see_object (builder->history, event);
      break;
    case TARN_TRACE_END:
      end_object (builder, event);
      break;
    case TARN_TRACE_BLOCK:
    case TARN_TRACE_HIT:
    case TARN_TRACE_MISS:
    case TARN_TRACE_LENT:
    case TARN_TRACE_FREE:
    case TARN_TRACE_GONE:
      see_block_event (builder, event);
      break;
    case TARN_TRACE_PIECE:
    case TARN_TRACE_PIECE_GONE:
    case TARN_TRACE_PIECE_MOVED:
    case TARN_TRACE_EXTENT:
    case TARN_TRACE_EXTENT_FREE:
    case TARN_TRACE_PART:
      see_heap_event (builder, event);
      break;
    case TARN_TRACE_FAIL:
    case TARN_TRACE_ALLOCATED:
    case TARN_TRACE_FREED:
    case TARN_TRACE_MARK:
    case TARN_TRACE_WAIT:
    case TARN_TRACE_RECORD_USE:
    case TARN_TRACE_MOVE:
    case TARN_TRACE_FORGET:
    case TARN_TRACE_TRIM:
    case TARN_TRACE_LIMIT:
    case TARN_TRACE_RECLAIM:
    case TARN_TRACE_OUT_OF_MEMORY:
    case TARN_TRACE_LIMIT_REACHED:
    case TARN_TRACE_LOST:
      see_call (builder, event);
      break;
    default: /* definitions, and the end of the recording, change nothing */
      break;
    }
}

static History *
history_alloc (void)
{
  History *self = g_new0 (History, 1);

  for (guint i = 0; i < HISTORY_N_COLUMNS; i++)
    column_init (&self->columns[i], columns[i].name, columns[i].code);
  list_init (&self->objects);
  list_init (&self->stacks);
  list_init (&self->tags);
  list_init (&self->queues);
  list_init (&self->threads);
  self->object_details = g_ptr_array_new_with_free_func (object_free);
  self->thread_names = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
history_free (History *self)
{
  for (guint i = 0; i < HISTORY_N_COLUMNS; i++)
    column_clear (&self->columns[i]);
  list_clear (&self->objects);
  list_clear (&self->stacks);
  list_clear (&self->tags);
  list_clear (&self->queues);
  list_clear (&self->threads);
  g_ptr_array_unref (self->object_details);
  g_ptr_array_unref (self->thread_names);
  g_free (self);
}

History *
history_new (Recording *recording, GError **error)
{
  g_autoptr (History) history = history_alloc ();
  g_autoptr (GHashTable) memory = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free,
                                                         (GDestroyNotify) g_hash_table_unref);
  Builder builder = { .history = history, .memory = memory };
  GError *read_error = NULL;
  RecordedEvent event;

  while (recording_next (recording, &event, &read_error))
    {
      history->duration = MAX (history->duration, event.time);
      event.time = history->duration; /* times never decrease, even if the file is damaged */
      see (&builder, &event);
    }
  if (read_error != NULL)
    {
      g_propagate_error (error, read_error);
      return NULL;
    }
  return g_steal_pointer (&history);
}
