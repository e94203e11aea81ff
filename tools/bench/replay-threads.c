/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays by a thread for each of a trace's, from the first event to the last: what threads keep of
 * a pool is theirs as long as it would be in the program. */

#include <pthread.h>
#include <stdlib.h>

#include "crew.h"
#include "replay.h"

typedef struct _Player Player;

typedef struct
{
  Replay *replay;
  Player *players;
  guint n_players;

  /* Where all go at once */
  pthread_barrier_t barrier;

  /* In turns, under the lock, which is held by the thread whose turn it is */
  pthread_mutex_t lock;
  guint next; /* event */
  gboolean is_over;
  ReplayFunc func; /* nullable */
  gpointer data;
} Stage;

/* A thread. */
struct _Player
{
  Stage *stage;
  guint index;
  GThread *thread;
  pthread_cond_t turn;          /* it is this one's, or it is over; with the lock */
  GPtrArray *events;            /* of TraceEvent: its own, where all go at once */
  gint64 start, end;            /* nanoseconds */
  gchar apart[CACHE_LINE_PAIR]; /* the next one's is in no cache line of this one's */
};

/* Events */

static const TraceEvent *
get_event (const Stage *stage, guint i)
{
  return &g_array_index (stage->replay->trace->events, TraceEvent, i);
}

static gboolean
has_failed (const Replay *replay)
{
  return __atomic_load_n (&replay->error, __ATOMIC_RELAXED) != NULL;
}

/* Takes it over. */
static gboolean
fail (Replay *replay, GError *error)
{
  GError *none = NULL;

  if (!__atomic_compare_exchange_n (&replay->error, &none, error, FALSE, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
    g_error_free (error);
  return FALSE;
}

static gboolean
allocate (Replay *replay, const TraceEvent *event)
{
  gpointer *place = &replay->blocks[event->block], block;
  GError *error = NULL;

  if (replay->pool == NULL)
    block = malloc (64);
  else
    block = tarn_pool_allocate_ordered (replay->pool, event->size,
                                        replay->queues[event->queue_index], &error);
  if (error != NULL)
    return fail (replay, error);
  if (event->is_handed_on)
    __atomic_store_n (place, block, __ATOMIC_RELEASE);
  else
    *place = block;
  return TRUE;
}

/* What another thread allocates, once it is there; NULL: a thread has failed. */
static gpointer
await_block (const Replay *replay, const TraceEvent *event)
{
  gpointer block;
  guint spins = 0;

  while ((block = __atomic_load_n (&replay->blocks[event->block], __ATOMIC_ACQUIRE)) == NULL
         && !has_failed (replay))
    ring_wait (&spins);
  return block;
}

static gboolean
free_block (Replay *replay, const TraceEvent *event)
{
  gpointer block = event->is_handed_on ? await_block (replay, event) : replay->blocks[event->block];
  GError *error = NULL;

  if (block == NULL)
    return FALSE;
  replay->blocks[event->block] = NULL;
  if (replay->pool == NULL)
    {
      free (block);
      return TRUE;
    }
  if (event->has_other_queue)
    tarn_block_record_use (block, replay->queues[event->queue_index], &error);
  tarn_block_free (block);
  return error == NULL || fail (replay, error);
}

/* FALSE: this thread or another one has failed. */
static gboolean
make_event (Replay *replay, const TraceEvent *event)
{
  if (replay->pool != NULL && replay->source->simulated != NULL)
    simulated_queues_step (replay->source->simulated, event->thread_index);
  return event->is_free ? free_block (replay, event) : allocate (replay, event);
}

/* Threads */

static void
stage_init (Stage *stage, Replay *replay)
{
  guint n_threads = replay->trace->n_threads;

  *stage = (Stage){ .replay = replay, .n_players = n_threads };
  pthread_mutex_init (&stage->lock, NULL);
  pthread_barrier_init (&stage->barrier, NULL, n_threads);
  stage->players = g_new0 (Player, n_threads);
  for (guint i = 0; i < n_threads; i++)
    {
      Player *player = &stage->players[i];

      player->stage = stage;
      player->index = i;
      player->events = g_ptr_array_new ();
      pthread_cond_init (&player->turn, NULL);
    }
}

static void
stage_clear (Stage *stage)
{
  for (guint i = 0; i < stage->n_players; i++)
    {
      g_ptr_array_unref (stage->players[i].events);
      pthread_cond_destroy (&stage->players[i].turn);
    }
  g_free (stage->players);
  pthread_barrier_destroy (&stage->barrier);
  pthread_mutex_destroy (&stage->lock);
}

/* Runs the threads to their end. */
static gboolean
stage_run (Stage *stage, GThreadFunc func, GError **error)
{
  for (guint i = 0; i < stage->n_players; i++)
    stage->players[i].thread = g_thread_new ("replay", func, &stage->players[i]);
  for (guint i = 0; i < stage->n_players; i++)
    g_thread_join (stage->players[i].thread);
  if (!has_failed (stage->replay))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&stage->replay->error));
  return FALSE;
}

/* In turns */

/* Makes events until the next one is another thread's, or there is none. */
static void
take_turn (Stage *stage, guint index)
{
  guint n_events = stage->replay->trace->events->len;

  while (!stage->is_over && get_event (stage, stage->next)->thread_index == index)
    {
      if (!make_event (stage->replay, get_event (stage, stage->next)))
        stage->is_over = TRUE;
      else if (stage->func != NULL)
        stage->func (stage->replay, stage->next, stage->data);
      if (++stage->next == n_events)
        stage->is_over = TRUE;
    }
}

static gpointer
play_in_turn (gpointer data)
{
  Player *player = data;
  Stage *stage = player->stage;

  pthread_mutex_lock (&stage->lock);
  while (!stage->is_over)
    {
      take_turn (stage, player->index);
      if (stage->is_over)
        break;
      pthread_cond_signal (&stage->players[get_event (stage, stage->next)->thread_index].turn);
      while (!stage->is_over && get_event (stage, stage->next)->thread_index != player->index)
        pthread_cond_wait (&player->turn, &stage->lock);
    }
  for (guint i = 0; i < stage->n_players; i++)
    pthread_cond_signal (&stage->players[i].turn);
  pthread_mutex_unlock (&stage->lock);
  return NULL;
}

gboolean
replay_take_turns (Replay *replay, ReplayFunc func, gpointer data, GError **error)
{
  Stage stage;
  gboolean is_done;

  stage_init (&stage, replay);
  stage.func = func;
  stage.data = data;
  is_done = stage_run (&stage, play_in_turn, error);
  stage_clear (&stage);
  return is_done;
}

/* All at once */

static gpointer
play_all (gpointer data)
{
  Player *player = data;
  Replay *replay = player->stage->replay;

  pthread_barrier_wait (&player->stage->barrier);
  player->start = clock_now ();
  for (guint i = 0; i < player->events->len && !has_failed (replay); i++)
    make_event (replay, g_ptr_array_index (player->events, i));
  player->end = clock_now ();
  return NULL;
}

gboolean
replay_together (Replay *replay, gint64 *ns, GError **error)
{
  gint64 start = G_MAXINT64, end = G_MININT64;
  GArray *events = replay->trace->events;
  gboolean is_done;
  Stage stage;

  stage_init (&stage, replay);
  for (guint i = 0; i < events->len; i++)
    g_ptr_array_add (stage.players[get_event (&stage, i)->thread_index].events,
                     &g_array_index (events, TraceEvent, i));
  is_done = stage_run (&stage, play_all, error);
  for (guint i = 0; i < stage.n_players; i++)
    {
      start = MIN (start, stage.players[i].start);
      end = MAX (end, stage.players[i].end);
    }
  stage_clear (&stage);
  if (is_done)
    *ns = end - start;
  return is_done;
}
