/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays a recorded program: makes its steps (requests, frees and other recorded calls) again. */

#include "recorded-replay.h"

#include "../terminal.h"
#include "crew.h"
#include "play.h"
#include "ring.h"

#define NS_PER_US 1000
#define STEPS_AT_A_TIME 65536 /* number of steps between two updates of the progress line */

static gchar failed_request; /* gives FAILED an address that no block has */
#define FAILED ((gpointer) &failed_request)

/* The time that the library's clock shows during a replay, in microseconds.  It starts at one hour,
 * not at 0, because to the library a time of 0 means "long ago". */
#define FIRST_TIME G_TIME_SPAN_HOUR
static gint64 replay_time;

static gint64
get_replay_time (void)
{
  return __atomic_load_n (&replay_time, __ATOMIC_RELAXED);
}

static const Step *
get_step (const RecordedReplay *self, guint i)
{
  return &g_array_index (self->rebuilt->recorded->steps, Step, i);
}

static RebuiltObject *
get_object (const RecordedReplay *self, const Step *step)
{
  return &self->rebuilt->objects[step->object];
}

static gboolean
has_failed (const RecordedReplay *self)
{
  return __atomic_load_n (&self->has_failed, __ATOMIC_ACQUIRE);
}

/* Ends the replay with an error, and takes over @error.  Keeps only the first error. */
static gboolean
fail (RecordedReplay *self, GError *error)
{
  GError *none = NULL;

  if (!__atomic_compare_exchange_n (&self->error, &none, error, FALSE, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
    g_error_free (error);
  __atomic_store_n (&self->has_failed, TRUE, __ATOMIC_RELEASE);
  return FALSE;
}

static gboolean
has_run_out (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
         || g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT)
         || g_error_matches (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
}

/* Functions that count bytes, only in a replay in the recorded order */

static void
note_peak (RecordedReplay *self)
{
  gsize bytes = self->rebuilt->meter != NULL
                    ? self->rebuilt->meter->peak
                    : rebuilt_get_bytes (self->rebuilt) + self->backend_bytes;

  if (bytes <= self->peak)
    return;
  self->peak = bytes;
  self->active_at_peak = self->active;
}

static void
count_allocation (RecordedReplay *self, const Step *step, gboolean is_backend)
{
  self->active += step->size;
  self->peak_active = MAX (self->peak_active, self->active);
  if (is_backend)
    {
      self->n_backend_blocks++;
      self->backend_bytes += step->size;
    }
  note_peak (self);
}

static void
count_free (RecordedReplay *self, gsize size, gboolean is_backend)
{
  g_assert (size <= self->active);
  self->active -= size;
  if (is_backend)
    self->backend_bytes -= size;
}

/* Functions that make each kind of step */

static gboolean
make_object (RecordedReplay *self, const Step *step)
{
  GError *error = NULL;

  return rebuilt_make (self->rebuilt, step->object, &error) || fail (self, error);
}

static TarnBlock *
request (const RecordedReplay *self, const Step *step, GError **error)
{
  const RebuiltObject *object = get_object (self, step);
  gpointer queue = self->rebuilt->queues[step->queue];
  TarnBlock *block;

  if (object->pool != NULL)
    return tarn_pool_allocate_ordered (object->pool, step->size, queue, error);
  block = tarn_allocator_allocate (object->allocator, step->size, error);
  if (block == NULL || queue == NULL || tarn_block_record_use (block, queue, error))
    return block;
  tarn_block_free (block);
  return NULL;
}

/* Makes the request of a step.  If its object has ended, which happens only if the recording has
 * lost events, the request counts as failed. */
static gboolean
allocate (RecordedReplay *self, const Step *step)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = NULL;

  if (!make_object (self, step))
    return FALSE;
  if (get_object (self, step)->allocator != NULL)
    block = request (self, step, &error);
  if (block == NULL && error != NULL && !has_run_out (error))
    return fail (self, g_steal_pointer (&error));
  if (!self->is_timed)
    {
      self->n_failures += block == NULL;
      if (block != NULL)
        count_allocation (self, step, get_object (self, step)->is_backend);
    }
  if (step->block != RECORDED_NONE)
    __atomic_store_n (&self->blocks[step->block], block != NULL ? block : FAILED, __ATOMIC_RELEASE);
  else if (block != NULL)
    {
      if (!self->is_timed)
        count_free (self, step->size, get_object (self, step)->is_backend);
      tarn_block_free (block);
    }
  return TRUE;
}

/* Waits until a block is allocated, perhaps by another thread.  Returns NULL if a thread has
 * failed. */
static gpointer
await_block (const RecordedReplay *self, const Step *step)
{
  gpointer block;
  guint spins = 0;

  while ((block = __atomic_load_n (&self->blocks[step->block], __ATOMIC_ACQUIRE)) == NULL
         && !has_failed (self))
    ring_wait (&spins);
  return block;
}

static gboolean
free_block (RecordedReplay *self, const Step *step)
{
  gpointer block = await_block (self, step);

  if (block == NULL)
    return FALSE;
  if (block == FAILED)
    return TRUE;
  self->blocks[step->block] = FAILED;
  if (!self->is_timed)
    count_free (self, tarn_block_get_size (block), get_object (self, step)->is_backend);
  tarn_block_free (block);
  return TRUE;
}

/* Uses a block on a queue.  If threads run at the same time, leaves out blocks that several threads
 * share, because another thread may be freeing the block. */
static gboolean
use_block (RecordedReplay *self, const Step *step)
{
  gpointer queue = self->rebuilt->queues[step->queue];
  GError *error = NULL;
  gpointer block;

  if (self->is_timed && step->is_handed_on)
    return TRUE;
  block = self->blocks[step->block];
  if (block == NULL || block == FAILED)
    return TRUE;
  if (step->kind == STEP_RECORD_USE)
    tarn_block_record_use (block, queue, &error);
  else if (queue != NULL)
    tarn_block_move_to_queue (block, queue, &error);
  else
    tarn_block_wait (block, &error);
  return error == NULL || fail (self, error);
}

/* Calls a function of a pool. */
static gboolean
call_pool (RecordedReplay *self, const Step *step)
{
  TarnPool *pool = get_object (self, step)->pool;

  if (pool == NULL)
    return TRUE;
  if (step->kind == STEP_TRIM)
    tarn_pool_trim (pool, (gsize) MIN (step->size, G_MAXSIZE));
  else if (step->kind == STEP_STOP_HOLDING)
    tarn_pool_stop_holding (pool);
  else if (step->kind == STEP_FORGET)
    tarn_pool_forget_queue (pool, self->rebuilt->queues[step->queue], NULL);
  else if (!alternative_has_limit (self->rebuilt->alternative))
    tarn_pool_set_limit_bytes (pool, (gsize) MIN (step->size, G_MAXSIZE));
  return TRUE;
}

static gboolean
make_step (RecordedReplay *self, const Step *step)
{
  if (self->rebuilt->simulated != NULL)
    simulated_queues_step (self->rebuilt->simulated, step->thread);
  g_assert (step->thread < self->rebuilt->recorded->n_threads);
  switch ((StepKind) step->kind)
    {
    case STEP_MAKE:
      return make_object (self, step);
    case STEP_ALLOCATE:
      return allocate (self, step);
    case STEP_FREE:
      return free_block (self, step);
    case STEP_RECORD_USE:
    case STEP_MOVE:
      return use_block (self, step);
    case STEP_END:
      if (!self->is_timed)
        rebuilt_end (self->rebuilt, step->object);
      return TRUE;
    case STEP_FORGET:
    case STEP_TRIM:
    case STEP_STOP_HOLDING:
    case STEP_LIMIT:
      return call_pool (self, step);
    default:
      g_assert_not_reached ();
    }
}

/* Functions that make steps in the recorded order, or only time them */

/* Sets the library's clock to the time of a step.  Unlike other steps, requests were recorded after
 * they were served.  So a request gets the time of the thread's previous step. */
static void
set_time (RecordedReplay *self, const Step *step)
{
  gint64 time = FIRST_TIME + (gint64) (step->time / NS_PER_US);
  gint64 *latest = &self->times[step->thread];

  if (step->kind != STEP_ALLOCATE || *latest == 0)
    __atomic_store_n (&replay_time, time, __ATOMIC_RELAXED);
  else
    __atomic_store_n (&replay_time, *latest, __ATOMIC_RELAXED);
  if (step->kind != STEP_MAKE && step->kind != STEP_END)
    *latest = time;
}

/* Advances the simulated queues as far as the recorded queues were at step @i. */
static void
apply_reaches (RecordedReplay *self, guint i)
{
  const GArray *reaches = self->rebuilt->recorded->reaches;

  for (; self->next_reach < reaches->len; self->next_reach++)
    {
      const Reach *reach = &g_array_index (reaches, Reach, self->next_reach);

      if (reach->step > i)
        return;
      if (self->rebuilt->simulated != NULL)
        simulated_queues_reach (self->rebuilt->queues[reach->queue], reach->reached);
    }
}

static void
apply_rooms (RecordedReplay *self, guint i)
{
  const GArray *rooms = self->rebuilt->recorded->rooms;

  for (; self->next_room < rooms->len && g_array_index (rooms, Room, self->next_room).step <= i;
       self->next_room++)
    rebuilt_set_room (self->rebuilt, &g_array_index (rooms, Room, self->next_room));
}

static void
show_progress (const RecordedReplay *self, guint i)
{
  const Recorded *recorded = self->rebuilt->recorded;
  const gchar *label = self->rebuilt->alternative->label;
  g_autofree gchar *text
      = g_strdup_printf ("%s: %s: %u %%", recorded->name, label != NULL ? label : "as recorded",
                         (guint) (100 * (guint64) i / recorded->steps->len));

  terminal_set_progress (text);
}

static gboolean
make_in_order (gpointer data, guint i)
{
  RecordedReplay *self = data;
  const Step *step = get_step (self, i);

  if (i % STEPS_AT_A_TIME == 0)
    show_progress (self, i);
  set_time (self, step);
  apply_reaches (self, i);
  apply_rooms (self, i);
  return make_step (self, step);
}

static gboolean
make_timed (gpointer data, guint i)
{
  RecordedReplay *self = data;

  return make_step (self, get_step (self, i));
}

/* Functions for both kinds of replay: in the recorded order, and timed */

static guint
get_thread (gconstpointer data, guint i)
{
  return get_step (data, i)->thread;
}

static Play
get_play (RecordedReplay *self, gboolean (*make) (gpointer data, guint step))
{
  const Recorded *recorded = self->rebuilt->recorded;

  return (Play){ recorded->n_threads, recorded->steps->len, get_thread, make, self, TRUE };
}

static void
begin (RecordedReplay *self, Rebuilt *rebuilt)
{
  *self = (RecordedReplay){ .rebuilt = rebuilt };
  self->blocks = g_new0 (gpointer, MAX (rebuilt->recorded->n_blocks, 1));
}

/* Moves the error of the step that failed to @error, and returns FALSE.  If no step failed, a
 * thread could not be created, and @error is set already. */
static gboolean
hand_over_error (RecordedReplay *self, GError **error)
{
  if (self->error != NULL)
    g_propagate_error (error, g_steal_pointer (&self->error));
  return FALSE;
}

gboolean
recorded_replay_in_order (RecordedReplay *self, Rebuilt *rebuilt, GError **error)
{
  gboolean is_played;
  Play play;

  begin (self, rebuilt);
  self->times = g_new0 (gint64, rebuilt->recorded->n_threads);
  play = get_play (self, make_in_order);
  tarn_clock_set (get_replay_time);
  is_played = play_in_turns (&play, error);
  tarn_clock_set (NULL);
  if (!is_played)
    return hand_over_error (self, error);
  rebuilt_count (rebuilt);
  return TRUE;
}

gboolean
recorded_replay_time (RecordedReplay *self, Rebuilt *rebuilt, gdouble *ns, GError **error)
{
  gint64 all;
  Play play;

  begin (self, rebuilt);
  self->is_timed = TRUE;
  play = get_play (self, make_timed);
  if (!rebuilt_make_all (rebuilt, error))
    return FALSE;
  if (!play_together (&play, &all, error))
    return hand_over_error (self, error);
  *ns = (gdouble) all / (gdouble) rebuilt->recorded->steps->len;
  return TRUE;
}

void
recorded_replay_clear (RecordedReplay *self)
{
  guint32 n_blocks = self->blocks != NULL ? self->rebuilt->recorded->n_blocks : 0;

  for (guint32 i = 0; i < n_blocks; i++)
    if (self->blocks[i] != FAILED)
      tarn_block_free (self->blocks[i]);
  g_free (self->blocks);
  g_free (self->times);
  g_clear_error (&self->error);
}
