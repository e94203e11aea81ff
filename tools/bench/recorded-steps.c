/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the steps of a recording: the events that a replay repeats, such as requests and frees.
 * Events that only show how a pool served a request are not steps.  Also reads the reaches, which
 * tell how much work a queue had completed when a step began, and the rooms, which tell how many
 * bytes a backend had. */

#include "recorded-private.h"

#include <tarn/tarn.h>

#include "../trace/progress.h"

/* A block of an object, in use or cached. */
typedef struct
{
  guint64 number; /* the block's number in the recording */
  guint32 block;  /* the index of the block's latest use: the Step.block of its latest request */
  guint32 freed;  /* the step that freed the block */
  guint16 thread; /* the thread that allocated the block */
  guint16 queue;  /* the last queue that used the block, as recorded */
  gboolean is_active;
} KnownBlock;

/* Functions that number threads and queues */

/* Returns the index that @places has for a number, such as that of a thread.  Adds the number if it
 * is new.  Indices count from 0, in the order in which the numbers first appear. */
static guint
get_place (GHashTable *places, guint64 number)
{
  gpointer place;
  guint64 *key;

  if (g_hash_table_lookup_extended (places, &number, NULL, &place))
    return GPOINTER_TO_UINT (place);
  key = g_new (guint64, 1);
  *key = number;
  place = GUINT_TO_POINTER (g_hash_table_size (places));
  g_hash_table_insert (places, key, place);
  return GPOINTER_TO_UINT (place);
}

static gboolean
get_thread (Reader *reader, const RecordedEvent *event, guint *thread, GError **error)
{
  *thread = get_place (reader->threads, event->thread);
  return *thread < RECORDED_MAX_THREADS
         || recorded_refuse (error, "it has more than %d threads", RECORDED_MAX_THREADS);
}

/* Stores the index of an event's queue.  Indices count from 1; 0 means that the event has no
 * queue. */
static gboolean
get_queue (Reader *reader, const RecordedEvent *event, guint *queue, GError **error)
{
  *queue = event->queue != 0 ? get_place (reader->queues, event->queue) + 1 : 0;
  return *queue <= RECORDED_MAX_QUEUES
         || recorded_refuse (error, "it has more than %d queues", RECORDED_MAX_QUEUES);
}

/* Functions that read steps */

static guint32
get_n_steps (const Reader *reader)
{
  return reader->recorded->steps->len;
}

static gboolean
add_step (Reader *reader, const RecordedEvent *event, StepKind kind, guint object, guint32 block,
          GError **error)
{
  guint thread, queue;
  Step step;

  if (!get_thread (reader, event, &thread, error) || !get_queue (reader, event, &queue, error))
    return FALSE;
  if (get_n_steps (reader) == G_MAXUINT32 / sizeof (Step))
    return recorded_refuse (error, "it has more than %u steps",
                            G_MAXUINT32 / (guint) sizeof (Step));
  step = (Step){ event->time,      event->size,     block,         (guint16) object,
                 (guint16) thread, (guint16) queue, (guint8) kind, FALSE };
  g_array_append_val (reader->recorded->steps, step);
  reader->has_waited[thread] = FALSE;
  return TRUE;
}

static Step *
get_step (const Reader *reader, guint32 i)
{
  return &g_array_index (reader->recorded->steps, Step, i);
}

static GHashTable *
get_blocks (const Reader *reader, guint object)
{
  GPtrArray *blocks = reader->blocks;

  if (object >= blocks->len)
    g_ptr_array_set_size (blocks, (gint) object + 1);
  if (blocks->pdata[object] == NULL)
    blocks->pdata[object] = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  return blocks->pdata[object];
}

/* Handles a request (@step) that got a cached block without a wait.  If another queue had used the
 * block, that queue had completed its work with the block.  So adds a Reach of that queue. */
static void
note_reach (Reader *reader, const KnownBlock *known, const Step *step)
{
  guint32 now = get_n_steps (reader) - 1;
  Reach reach = { now, 0, known->queue };

  if (known->queue == 0 || known->queue == step->queue)
    return;
  reach.reached = recorded_queues_get_reached (reader->progress, known->queue, known->freed + 1);
  if (reach.reached <= now)
    g_array_append_val (reader->recorded->reaches, reach);
}

static gboolean
read_request (Reader *reader, const RecordedEvent *event, guint object, GError **error)
{
  Recorded *recorded = reader->recorded;
  GHashTable *blocks = get_blocks (reader, object);
  KnownBlock *known = g_hash_table_lookup (blocks, &event->block);
  gboolean has_waited;
  guint thread;
  Step *step;

  if (!get_thread (reader, event, &thread, error))
    return FALSE;
  has_waited = reader->has_waited[thread];
  if (event->size > G_MAXSIZE || recorded->n_blocks == RECORDED_NONE - 1)
    return recorded_refuse (
        error, "it has a request for %" G_GUINT64_FORMAT " bytes, or too many blocks", event->size);
  if (!add_step (reader, event, STEP_ALLOCATE, object, recorded->n_blocks, error))
    return FALSE;
  step = get_step (reader, get_n_steps (reader) - 1);
  if (known != NULL && !known->is_active && event->kind == TARN_TRACE_HIT && !has_waited)
    note_reach (reader, known, step);
  if (known == NULL)
    {
      known = g_new0 (KnownBlock, 1);
      known->number = event->block;
      g_hash_table_insert (blocks, &known->number, known);
    }
  known->block = recorded->n_blocks++;
  known->thread = step->thread;
  known->queue = step->queue;
  known->is_active = TRUE;
  recorded->n_requests++;
  return TRUE;
}

/* Reads a failed request.  Adds a step if the request failed for lack of memory, at a limit, or
 * because of its size.  Other failures are only counted in n_skipped. */
static gboolean
read_failure (Reader *reader, const RecordedEvent *event, guint object, GError **error)
{
  guint64 code = event->other - 1;

  if (code != TARN_ERROR_OUT_OF_MEMORY && code != TARN_ERROR_LIMIT
      && code != TARN_ERROR_INVALID_SIZE)
    {
      reader_get_object (reader->recorded, object)->n_skipped++;
      return TRUE;
    }
  if (event->size > G_MAXSIZE)
    return TRUE;
  reader->recorded->n_requests++;
  return add_step (reader, event, STEP_ALLOCATE, object, RECORDED_NONE, error);
}

/* Reads an event that frees a block in use, or uses it on a queue, and adds its step. */
static gboolean
read_use (Reader *reader, const RecordedEvent *event, guint object, StepKind kind, GError **error)
{
  KnownBlock *known = g_hash_table_lookup (get_blocks (reader, object), &event->block);
  Step *step;

  if (known == NULL || !known->is_active || (kind == STEP_RECORD_USE && event->queue == 0))
    return TRUE;
  if (!add_step (reader, event, kind, object, known->block, error))
    return FALSE;
  step = get_step (reader, get_n_steps (reader) - 1);
  step->is_handed_on = step->thread != known->thread;
  if (kind == STEP_FREE)
    {
      step->queue = 0;
      known->is_active = FALSE;
      known->freed = get_n_steps (reader) - 1;
    }
  else
    known->queue = step->queue;
  return TRUE;
}

/* Reads a block that was there before recording began. */
static gboolean
read_old_block (Reader *reader, const RecordedEvent *event, guint object, GError **error)
{
  reader_get_object (reader->recorded, object)->was_there = TRUE;
  return event->other == 0 || read_request (reader, event, object, error);
}

static void
count_request (RecordedObject *object, const RecordedEvent *event)
{
  object->hits += event->kind == TARN_TRACE_HIT || event->kind == TARN_TRACE_LENT;
  object->misses += event->kind == TARN_TRACE_MISS;
  object->failures += event->kind == TARN_TRACE_FAIL;
}

static void
set_room (Reader *reader, guint index, guint64 bytes)
{
  RecordedObject *object = reader_get_object (reader->recorded, index);
  const Room room = { get_n_steps (reader), (guint16) index, bytes };

  if (object->room == bytes)
    return;
  object->room = bytes;
  g_array_append_val (reader->recorded->rooms, room);
}

/* Reads a driver call that allocated or freed memory of a backend, to find out how many bytes the
 * backend had.  A request is recorded at its end, so its driver call comes before its step.
 * Ignores calls of heaps and pools, which only a damaged recording has. */
static void
read_call (Reader *reader, const RecordedEvent *event, guint index)
{
  RecordedObject *object = reader_get_object (reader->recorded, index);
  gboolean has_run_out
      = event->other == TARN_ERROR_OUT_OF_MEMORY + 1 || event->other == TARN_ERROR_LIMIT + 1;

  if (object->object_class != TARN_TRACE_DIRECT)
    return;
  if (event->kind == TARN_TRACE_FREED)
    object->given -= MIN (event->size, object->given);
  else if (event->size > G_MAXUINT64 - object->given || event->size == 0)
    return;
  else if (event->other == 0)
    object->given += event->size;
  else if (has_run_out)
    {
      object->least_refused = MIN (object->least_refused, object->given + event->size);
      set_room (reader, index, object->given + event->size - 1);
    }
  object->most_given = MAX (object->most_given, object->given);
  if (object->room > 0 && object->given > object->room)
    set_room (reader, index, object->given);
}

static gboolean
read_order (Reader *reader, const RecordedEvent *event, GError **error)
{
  guint thread, queue;

  if (!get_thread (reader, event, &thread, error) || !get_queue (reader, event, &queue, error))
    return FALSE;
  if (event->kind == TARN_TRACE_MARK)
    recorded_queues_mark (reader->progress, queue, get_n_steps (reader) + 1);
  else
    {
      reader->has_waited[thread] = TRUE;
      reader->recorded->n_waits++;
    }
  return TRUE;
}

static void
forget_block (Reader *reader, const RecordedEvent *event, guint object)
{
  g_hash_table_remove (get_blocks (reader, object), &event->block);
}

static gboolean
read_event (Reader *reader, const RecordedEvent *event, GError **error)
{
  guint index = reader_find_object (reader, event->object);
  RecordedObject *object
      = index != RECORDED_NONE ? reader_get_object (reader->recorded, index) : NULL;

  if (object == NULL)
    return TRUE;
  count_request (object, event);
  switch (event->kind)
    {
    case TARN_TRACE_OBJECT:
      return add_step (reader, event, STEP_MAKE, index, RECORDED_NONE, error);
    case TARN_TRACE_HIT:
    case TARN_TRACE_MISS:
    case TARN_TRACE_LENT:
      return read_request (reader, event, index, error);
    case TARN_TRACE_BLOCK:
      return read_old_block (reader, event, index, error);
    case TARN_TRACE_FAIL:
      return read_failure (reader, event, index, error);
    case TARN_TRACE_FREE:
      return read_use (reader, event, index, STEP_FREE, error);
    case TARN_TRACE_GONE:
      forget_block (reader, event, index);
      return TRUE;
    case TARN_TRACE_RECORD_USE:
      return read_use (reader, event, index, STEP_RECORD_USE, error);
    case TARN_TRACE_MOVE:
      return read_use (reader, event, index, STEP_MOVE, error);
    case TARN_TRACE_FORGET:
      return event->queue == 0
             || add_step (reader, event, STEP_FORGET, index, RECORDED_NONE, error);
    case TARN_TRACE_TRIM:
      return add_step (reader, event, event->other != 0 ? STEP_STOP_HOLDING : STEP_TRIM, index,
                       RECORDED_NONE, error);
    case TARN_TRACE_LIMIT:
      return add_step (reader, event, STEP_LIMIT, index, RECORDED_NONE, error);
    case TARN_TRACE_MARK:
    case TARN_TRACE_WAIT:
      return read_order (reader, event, error);
    case TARN_TRACE_ALLOCATED:
    case TARN_TRACE_FREED:
      read_call (reader, event, index);
      return TRUE;
    case TARN_TRACE_STATS:
      recorded_read_numbers (&object->counters, event);
      return TRUE;
    case TARN_TRACE_END:
      object->has_ended = TRUE;
      return add_step (reader, event, STEP_END, index, RECORDED_NONE, error);
    default:
      return TRUE;
    }
}

/* Marks all steps of the blocks that one thread allocates and another one uses.  When a step is
 * read, it is not known yet whether another thread uses its block later. */
static void
mark_handed_on (const Reader *reader)
{
  g_autofree guint8 *is_handed_on = g_new0 (guint8, MAX (reader->recorded->n_blocks, 1));

  for (guint32 i = 0; i < get_n_steps (reader); i++)
    if (get_step (reader, i)->block != RECORDED_NONE)
      is_handed_on[get_step (reader, i)->block] |= get_step (reader, i)->is_handed_on;
  for (guint32 i = 0; i < get_n_steps (reader); i++)
    if (get_step (reader, i)->block != RECORDED_NONE)
      get_step (reader, i)->is_handed_on = is_handed_on[get_step (reader, i)->block];
}

gboolean
reader_read_steps (Reader *reader, Recording *recording, GError **error)
{
  g_autoptr (GError) local = NULL;
  RecordedEvent event;
  Progress progress;

  progress_begin (&progress, recording, "reading steps");
  while (progress_next (&progress, &event, &local))
    if (!read_event (reader, &event, &local))
      break;
  progress_end (&progress);
  mark_handed_on (reader);
  if (local == NULL)
    return reader->recorded->n_requests > 0
           || recorded_refuse (error, "it has no request to the objects that it describes");
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}
