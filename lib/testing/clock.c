/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Moments (vector clocks), which order the items (commands and waits) on the fake queues.  For each
 * queue, a moment has the number of the queue's items that come before the moment.  So moment A
 * comes before moment B if, for each queue, A's number is not greater than B's. */

#include "testing/queues-private.h"

/* Makes the moment that comes before all items of all queues. */
TarnTestingClock *
_tarn_testing_clock_new (void)
{
  return g_array_new (FALSE, TRUE, sizeof (guint));
}

/* Returns the number of items of a queue that come before a moment.  @number: the queue's number,
 * which is the queue's index in the array of the moment. */
guint
_tarn_testing_clock_get (const TarnTestingClock *clock, guint number)
{
  return number < clock->len ? g_array_index (clock, guint, number) : 0;
}

/* Makes at least the first @count items of a queue come before the moment @clock.  @number: the
 * queue's number, which is the queue's index in the array @clock. */
void
_tarn_testing_clock_raise (TarnTestingClock *clock, guint number, guint count)
{
  if (clock->len <= number)
    g_array_set_size (clock, number + 1);
  g_array_index (clock, guint, number) = MAX (g_array_index (clock, guint, number), count);
}

/* Raises each number of @clock to at least the number that @other has for the same queue. */
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

/* Finds a queue for which the moment @clock has a greater number than the moment @other.  A moment
 * has, for each queue, the number of the queue's items that come before the moment.  Returns FALSE
 * if there is no such queue. */
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

/* Returns TRUE if each item (a command or wait on a queue) that comes before the moment @clock also
 * comes before the moment @other. */
gboolean
_tarn_testing_clock_is_in (const TarnTestingClock *clock, const TarnTestingClock *other)
{
  guint number;

  return !_tarn_testing_clock_find (clock, other, &number);
}
