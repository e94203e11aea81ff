/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes up traces, the same ones in every run.  Except in the trace of the language model, the
 * logarithms of the sizes are drawn from an even distribution.  Sizes are not chosen among powers
 * of two: a power of two is the smallest size in its bin, so a pool would round every request up by
 * the largest share. */

#include <math.h>

#include "trace.h"

/* The limits of sizes.  A gsize must hold the bytes of a thousand blocks and of a pool's cache. */
#define MIN_SIZE 256
#define MAX_SIZE (sizeof (gsize) > 4 ? 256 << 20 : 8 << 20)
#define SECONDS_APART 1e-6

#define STEP_BLOCKS 64
#define N_STEPS 20
#define WINDOW_ALLOCATIONS 20000

static gsize
draw_size (GRand *random)
{
  return (gsize) (MIN_SIZE * exp2 (g_rand_double (random) * log2 ((gdouble) MAX_SIZE / MIN_SIZE)));
}

static void
add_event (GArray *events, gboolean is_free, guint64 id, gsize size)
{
  TraceEvent event = { .time = (guint64) (events->len * SECONDS_APART * 1e9),
                       .id = id,
                       .size = size,
                       .is_free = is_free };

  g_array_append_val (events, event);
}

/* Makes up a program that repeats the same step, as a simulation does: a step allocates blocks, and
 * frees them all at its end. */
static Trace *
make_steps (void)
{
  GArray *events = g_array_new (FALSE, FALSE, sizeof (TraceEvent));
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  gsize sizes[STEP_BLOCKS];

  for (guint i = 0; i < STEP_BLOCKS; i++)
    sizes[i] = draw_size (random);
  for (guint step = 0; step < N_STEPS; step++)
    {
      for (guint i = 0; i < STEP_BLOCKS; i++)
        add_event (events, FALSE, i, sizes[i]);
      for (guint i = 0; i < STEP_BLOCKS; i++)
        add_event (events, TRUE, i, 0);
    }
  return trace_new ("step", events, NULL);
}

/* Invents a program that keeps @n_blocks blocks: it frees the oldest one before it allocates the
 * next one. */
static Trace *
make_window (guint n_blocks)
{
  g_autofree gchar *name = g_strdup_printf ("window-%u", n_blocks);
  GArray *events = g_array_new (FALSE, FALSE, sizeof (TraceEvent));
  g_autoptr (GRand) random = g_rand_new_with_seed (n_blocks);

  for (guint i = 0; i < WINDOW_ALLOCATIONS; i++)
    {
      if (i >= n_blocks)
        add_event (events, TRUE, i - n_blocks, 0);
      add_event (events, FALSE, i, draw_size (random));
    }
  return trace_new (name, events, NULL);
}

GPtrArray *
traces_make (void)
{
  GPtrArray *traces = g_ptr_array_new_with_free_func ((GDestroyNotify) trace_free);

  g_ptr_array_add (traces, make_steps ());
  for (guint n_blocks = 10; n_blocks <= 1000; n_blocks *= 10)
    g_ptr_array_add (traces, make_window (n_blocks));
  g_ptr_array_add (traces, trace_make_model ());
  return traces;
}
