/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Moments.  A moment is the number of things on each queue that come before it, and so one is
 * before another where no number is greater. */

#include "testing/queues-private.h"

/* A moment at which nothing was put anywhere. */
TarnTestingClock *
_tarn_testing_clock_new (void)
{
  return g_array_new (FALSE, TRUE, sizeof (guint));
}

/* So many of the first things on a queue. */
guint
_tarn_testing_clock_get (const TarnTestingClock *clock, guint number)
{
  return number < clock->len ? g_array_index (clock, guint, number) : 0;
}

/* Has it so many at least. */
void
_tarn_testing_clock_raise (TarnTestingClock *clock, guint number, guint count)
{
  if (clock->len <= number)
    g_array_set_size (clock, number + 1);
  g_array_index (clock, guint, number) = MAX (g_array_index (clock, guint, number), count);
}

/* The later of both, for each queue. */
void
_tarn_testing_clock_join (TarnTestingClock *clock, const TarnTestingClock *other)
{
  const guint *others = (const guint *) (gconstpointer) other->data;
  guint *counts;

  if (clock->len < other->len)
    g_array_set_size (clock, other->len);
  counts = (guint *) (gpointer) clock->data;
  for (guint i = 0; i < other->len; i++)
    if (counts[i] < others[i])
      counts[i] = others[i];
}

/* Finds a queue that has something in a clock which is not in the other one.  FALSE: none has. */
gboolean
_tarn_testing_clock_find (const TarnTestingClock *clock, const TarnTestingClock *other,
                          guint *number)
{
  const guint *counts = (const guint *) (gconstpointer) clock->data;
  const guint *others = (const guint *) (gconstpointer) other->data;
  guint n_common = MIN (clock->len, other->len);

  for (guint i = 0; i < clock->len; i++)
    if (counts[i] > (i < n_common ? others[i] : 0))
      {
        *number = i;
        return TRUE;
      }
  return FALSE;
}

/* Tells whether all that is in a clock is in the other one. */
gboolean
_tarn_testing_clock_is_in (const TarnTestingClock *clock, const TarnTestingClock *other)
{
  guint number;

  return !_tarn_testing_clock_find (clock, other, &number);
}
