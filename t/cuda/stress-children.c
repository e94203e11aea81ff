/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Children of fork () in the stress test. */

#include "stress.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/in-child.h"

#define CHILD_SECONDS 60 /* in which a child ends */

/* Tells whether a child may make errors while no other thread of the parent makes any: GLib before
 * 2.76 allocates them with g_slice_alloc (), whose lock a thread may have held for good. */
gboolean
may_make_errors (void)
{
  const gchar *slice = g_getenv ("G_SLICE");

  return glib_check_version (2, 76, 0) == NULL
         || (slice != NULL && strstr (slice, "always-malloc") != NULL);
}

/* Exits with @status unless a call has failed, with an error if it was asked for one. */
static void
exit_unless_refused (gconstpointer made, GError **error, gint status)
{
  if (made != NULL || (error != NULL && !g_error_matches (*error, TARN_ERROR, TARN_ERROR_FORKED)))
    _exit (status);
  if (error != NULL)
    g_clear_error (error);
}

static void
make_in_child (const Epoch *epoch, gboolean has_errors)
{
  GError *error = NULL, **to = has_errors ? &error : NULL;

  exit_unless_refused (tarn_pool_new (epoch->allocator, NULL, to), to, 1);
  exit_unless_refused (tarn_heap_allocator_new (epoch->allocator, NULL, to), to, 2);
  exit_unless_refused (tarn_cuda_pool_new (epoch->context, NULL, to), to, 3);
  exit_unless_refused (tarn_cuda_device_allocator_new (epoch->context, to), to, 4);
  exit_unless_refused (tarn_cuda_pool_allocate (epoch->pools[0], 1000, NULL, to), to, 5);
}

/* Calls functions that free, which do nothing in a child. */
static void
free_in_child (Worker *worker)
{
  const Epoch *epoch = worker->epoch;
  gsize managed[N_POOLS], held[N_POOLS];

  for (guint i = 0; i < N_POOLS; i++)
    {
      managed[i] = tarn_pool_get_managed_bytes (epoch->pools[i]);
      held[i] = tarn_pool_get_held_blocks (epoch->pools[i]);
    }
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (worker->items[i].block);
  for (guint i = 0; i < N_POOLS; i++)
    {
      tarn_pool_free_held (epoch->pools[i]);
      tarn_pool_trim (epoch->pools[i], 0);
      if (managed[i] != tarn_pool_get_managed_bytes (epoch->pools[i])
          || held[i] != tarn_pool_get_held_blocks (epoch->pools[i]))
        _exit (6);
    }
  tarn_pool_unref (epoch->pools[1]);
}

void
run_child (Worker *worker, gboolean has_errors)
{
  gint status = 0;
  pid_t child = begin_child (CHILD_SECONDS);

  if (child == 0)
    {
      make_in_child (worker->epoch, has_errors);
      free_in_child (worker);
      _exit (0);
    }
  while (waitpid (child, &status, 0) < 0)
    g_assert_cmpint (errno, ==, EINTR);
  if (status != 0)
    g_error ("a child of fork () ended with status 0x%x", (guint) status);
}

/* Forks while other threads may be in any call, even in one that makes an error. */
void
fork_child (Worker *worker)
{
  if (one_in (worker, 10))
    run_child (worker, FALSE);
}
