/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Steps of other threads, one at a time: what they keep of a pool is what makes a difference. */

#include "explore.h"

#include "common/lock-private.h"

typedef struct
{
  GThread *thread; /* NULL: it has yet to begin */
  TarnMutex lock;  /* guards what stands below it */
  TarnCond changed;
  void (*func) (Step step); /* NULL: nothing is to be done */
  Step step;
  gboolean is_to_end;
} Helper;

static Helper helpers[N_HELPERS];

static gpointer
help (gpointer data)
{
  Helper *helper = data;

  _tarn_mutex_lock (&helper->lock);
  while (!helper->is_to_end)
    {
      if (helper->func == NULL)
        {
          _tarn_cond_wait (&helper->changed, &helper->lock);
          continue;
        }
      /* Without the lock, as the backend is called with none. */
      _tarn_mutex_unlock (&helper->lock);
      helper->func (helper->step);
      _tarn_mutex_lock (&helper->lock);
      helper->func = NULL;
      _tarn_cond_broadcast (&helper->changed);
    }
  _tarn_mutex_unlock (&helper->lock);
  return NULL;
}

/* Has another thread do a step, and waits for it. */
void
do_elsewhere (guint i, void (*func) (Step step), Step step)
{
  Helper *helper = &helpers[i];

  if (helper->thread == NULL)
    {
      _tarn_mutex_init (&helper->lock);
      _tarn_cond_init (&helper->changed);
      helper->thread = g_thread_new ("helper", help, helper);
    }
  _tarn_mutex_lock (&helper->lock);
  helper->func = func;
  helper->step = step;
  _tarn_cond_broadcast (&helper->changed);
  while (helper->func != NULL)
    _tarn_cond_wait (&helper->changed, &helper->lock);
  _tarn_mutex_unlock (&helper->lock);
}

void
end_helpers (void)
{
  for (guint i = 0; i < N_HELPERS; i++)
    if (helpers[i].thread != NULL)
      {
        _tarn_mutex_lock (&helpers[i].lock);
        helpers[i].is_to_end = TRUE;
        _tarn_cond_broadcast (&helpers[i].changed);
        _tarn_mutex_unlock (&helpers[i].lock);
        g_thread_join (helpers[i].thread);
        _tarn_cond_clear (&helpers[i].changed);
        _tarn_mutex_clear (&helpers[i].lock);
      }
}
