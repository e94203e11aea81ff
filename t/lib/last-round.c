/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "last-round.h"

#include <limits.h>
#include <pthread.h>

#include "common/lock-private.h"

typedef struct
{
  void (*before) (gpointer);
  void (*late) (gpointer);
  gpointer data;
  pthread_key_t key;
  guint n_rounds;
} Late;

/* Sets itself again until the system looks no more. */
static void
end_late (gpointer data)
{
  Late *late = data;

  if (++late->n_rounds == PTHREAD_DESTRUCTOR_ITERATIONS)
    late->late (late->data);
  else
    g_assert_cmpint (pthread_setspecific (late->key, late), ==, 0);
}

/* The key is later than those that the thread needs while it lives: in a round it comes last. */
static gpointer
live (gpointer data)
{
  Late *late = data;

  late->before (late->data);
  g_assert_cmpint (pthread_key_create (&late->key, end_late), ==, 0);
  g_assert_cmpint (pthread_setspecific (late->key, late), ==, 0);
  return NULL;
}

gboolean
in_last_round (void (*before) (gpointer), void (*late) (gpointer), gpointer data)
{
  Late self = { .before = before, .late = late, .data = data };

#ifdef TARN_THREAD_SANITIZER
  g_test_skip ("ThreadSanitizer has left the thread by then");
  return FALSE;
#endif
  g_thread_join (g_thread_new ("late", live, &self));
  g_assert_cmpuint (self.n_rounds, ==, PTHREAD_DESTRUCTOR_ITERATIONS);
  g_assert_cmpint (pthread_key_delete (self.key), ==, 0);
  return TRUE;
}
