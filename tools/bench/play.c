/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays traces with several threads, which take turns or run at the same time. */

#include "play.h"

#include <pthread.h>

#include "crew.h"
#include "ring.h"

typedef struct _Player Player;

/* A running play: steps that several threads make. */
typedef struct
{
  const Play *play;
  Player *players;

  /* Only for threads that run at the same time */
  pthread_barrier_t barrier;

  /* Only for threads that take turns: the thread whose turn it is holds the lock */
  pthread_mutex_t lock;
  pthread_cond_t over;
  guint next; /* index of the next step */
  gboolean is_over;
  /* A thread that is about to end; the thread of the next turn joins it; nullable */
  GThread *ended;

  gboolean has_failed; /* atomic: a step has failed, or a thread could not be created */
} Stage;

/* A thread that makes steps of a play. */
struct _Player
{
  Stage *stage;
  guint index;
  GThread *thread; /* NULL if the thread was joined */
  guint last;      /* index of the thread's last step */
  /* Signalled under Stage.lock when the turn of this thread comes, or the play is over */
  pthread_cond_t turn;
  GArray *steps;                /* guints: the steps of this thread; only for play_together () */
  gint64 start, end;            /* times of the clock, in nanoseconds */
  gchar apart[CACHE_LINE_PAIR]; /* the next Player shares no cache line with this one */
};

static guint
get_thread (const Stage *stage, guint step)
{
  return stage->play->get_thread (stage->play->data, step);
}

static gboolean
has_failed (const Stage *stage)
{
  return __atomic_load_n (&stage->has_failed, __ATOMIC_RELAXED);
}

static gboolean
make_step (Stage *stage, guint step)
{
  if (stage->play->make (stage->play->data, step))
    return TRUE;
  __atomic_store_n (&stage->has_failed, TRUE, __ATOMIC_RELAXED);
  return FALSE;
}

static void
stage_init (Stage *stage, const Play *play)
{
  *stage = (Stage){ .play = play, .is_over = play->n_steps == 0 };
  pthread_mutex_init (&stage->lock, NULL);
  pthread_cond_init (&stage->over, NULL);
  pthread_barrier_init (&stage->barrier, NULL, play->n_threads);
  stage->players = g_new0 (Player, play->n_threads);
  for (guint i = 0; i < play->n_threads; i++)
    {
      Player *player = &stage->players[i];

      player->stage = stage;
      player->index = i;
      player->steps = g_array_new (FALSE, FALSE, sizeof (guint));
      pthread_cond_init (&player->turn, NULL);
    }
}

static void
stage_clear (Stage *stage)
{
  for (guint i = 0; i < stage->play->n_threads; i++)
    {
      g_array_unref (stage->players[i].steps);
      pthread_cond_destroy (&stage->players[i].turn);
    }
  g_free (stage->players);
  pthread_barrier_destroy (&stage->barrier);
  pthread_cond_destroy (&stage->over);
  pthread_mutex_destroy (&stage->lock);
}

/* Starts the threads.  Holds the lock meanwhile, so that no thread begins before all are created.
 * If a thread cannot be created, the play is over before its first step. */
static void
start_threads (Stage *stage, GThreadFunc func, GError **error)
{
  gboolean are_made = TRUE;

  pthread_mutex_lock (&stage->lock);
  for (guint i = 0; i < stage->play->n_threads && are_made; i++)
    {
      stage->players[i].thread = g_thread_try_new ("replay", func, &stage->players[i], error);
      are_made = stage->players[i].thread != NULL;
    }
  if (!are_made)
    {
      __atomic_store_n (&stage->has_failed, TRUE, __ATOMIC_RELAXED);
      stage->is_over = TRUE;
    }
  pthread_mutex_unlock (&stage->lock);
}

/* Waits until all threads were created.  Returns FALSE if a thread could not be created. */
static gboolean
await_start (Stage *stage)
{
  gboolean have_started;

  pthread_mutex_lock (&stage->lock);
  have_started = !has_failed (stage);
  pthread_mutex_unlock (&stage->lock);
  if (have_started)
    pthread_barrier_wait (&stage->barrier);
  return have_started;
}

static gboolean
join_threads (Stage *stage)
{
  for (guint i = 0; i < stage->play->n_threads; i++)
    if (stage->players[i].thread != NULL)
      g_thread_join (stage->players[i].thread);
  return !has_failed (stage);
}

/* Functions for threads that take turns */

static void
find_last_steps (Stage *stage)
{
  for (guint i = 0; i < stage->play->n_steps; i++)
    stage->players[get_thread (stage, i)].last = i;
}

/* Joins the thread of the previous turn if it is about to end.  Then the blocks in its thread cache
 * are available to other threads. */
static void
join_ended (Stage *stage)
{
  for (guint i = 0; i < stage->play->n_threads && stage->ended != NULL; i++)
    if (stage->players[i].thread == stage->ended)
      {
        stage->players[i].thread = NULL;
        g_thread_join (g_steal_pointer (&stage->ended));
      }
}

/* Makes steps until the next one belongs to another thread, or the play is over. */
static void
take_turn (Stage *stage, guint index)
{
  join_ended (stage);
  g_assert (stage->ended == NULL);
  while (!stage->is_over && get_thread (stage, stage->next) == index)
    {
      stage->is_over = !make_step (stage, stage->next);
      if (++stage->next == stage->play->n_steps)
        stage->is_over = TRUE;
    }
}

/* Tells whether a thread must end now, because it has made its last step and play->has_ends.  If
 * the play is over, returns FALSE: then all threads end anyway. */
static gboolean
has_to_end (const Player *player)
{
  const Stage *stage = player->stage;

  return stage->play->has_ends && !stage->is_over && player->last < stage->next;
}

static gpointer
play_in_turn (gpointer data)
{
  Player *player = data;
  Stage *stage = player->stage;

  pthread_mutex_lock (&stage->lock);
  while (!stage->is_over && get_thread (stage, stage->next) != player->index)
    pthread_cond_wait (&player->turn, &stage->lock);
  while (!stage->is_over)
    {
      take_turn (stage, player->index);
      if (stage->is_over)
        break;
      if (has_to_end (player))
        stage->ended = player->thread;
      pthread_cond_signal (&stage->players[get_thread (stage, stage->next)].turn);
      if (stage->ended == player->thread)
        {
          pthread_mutex_unlock (&stage->lock);
          return NULL;
        }
      while (!stage->is_over && get_thread (stage, stage->next) != player->index)
        pthread_cond_wait (&player->turn, &stage->lock);
    }
  for (guint i = 0; i < stage->play->n_threads; i++)
    pthread_cond_signal (&stage->players[i].turn);
  pthread_cond_signal (&stage->over);
  pthread_mutex_unlock (&stage->lock);
  return NULL;
}

/* Waits until the play is over.  Meanwhile the thread of each turn joins the threads that end. */
static void
await_end (Stage *stage)
{
  pthread_mutex_lock (&stage->lock);
  while (!stage->is_over)
    pthread_cond_wait (&stage->over, &stage->lock);
  pthread_mutex_unlock (&stage->lock);
}

gboolean
play_in_turns (const Play *play, GError **error)
{
  Stage stage;
  gboolean is_done;

  stage_init (&stage, play);
  find_last_steps (&stage);
  start_threads (&stage, play_in_turn, error);
  await_end (&stage);
  is_done = join_threads (&stage);
  stage_clear (&stage);
  return is_done;
}

/* Functions for threads that run at the same time */

static gpointer
play_all (gpointer data)
{
  Player *player = data;
  Stage *stage = player->stage;

  if (!await_start (stage))
    return NULL;
  player->start = clock_now ();
  for (guint i = 0; i < player->steps->len && !has_failed (stage); i++)
    make_step (stage, g_array_index (player->steps, guint, i));
  player->end = clock_now ();
  return NULL;
}

gboolean
play_together (const Play *play, gint64 *ns, GError **error)
{
  gint64 start = G_MAXINT64, end = G_MININT64;
  gboolean is_done;
  Stage stage;

  stage_init (&stage, play);
  for (guint i = 0; i < play->n_steps; i++)
    g_array_append_val (stage.players[get_thread (&stage, i)].steps, i);
  start_threads (&stage, play_all, error);
  is_done = join_threads (&stage);
  for (guint i = 0; i < play->n_threads; i++)
    {
      start = MIN (start, stage.players[i].start);
      end = MAX (end, stage.players[i].end);
    }
  stage_clear (&stage);
  if (is_done)
    *ns = end - start;
  return is_done;
}
