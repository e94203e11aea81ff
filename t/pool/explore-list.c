/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Which steps the explorer's program can take. */

#include "explore.h"

#include <string.h>

static gboolean lists_all;

typedef struct
{
  Step *steps;
  guint n;
} List;

/* All kinds of steps can be named. */
static gboolean
has (guint kind)
{
  return (world.config->steps & kind) != 0 || lists_all;
}

static void
add (List *list, guint kind, guint number, guint queue, guint pool)
{
  list->steps[list->n++] = (Step){ (guint8) g_bit_nth_lsf (kind, -1), (guint8) number,
                                   (guint8) queue, (guint8) pool, FALSE };
}

/* Queues of a kind are named in the order of their letters, since it makes no difference. */
static gboolean
can_name (guint letter)
{
  const gchar *letters = world.config->queues;

  for (guint i = 0; i < letter; i++)
    if ((world.met & BIT (i)) == 0
        && g_ascii_isupper (letters[i]) == g_ascii_isupper (letters[letter])
        && ((world.config->flags & IS_FRESH) == 0 || i > 0))
      return FALSE;
  return TRUE;
}

static void
list_allocations (List *list, guint pool)
{
  const guint n_letters = (guint) strlen (world.config->queues);

  for (guint i = 0; i < n_letters; i++)
    {
      if (has (STEP_ALLOCATE) && can_name (i))
        add (list, STEP_ALLOCATE, NO_QUEUE, i, pool);
      if (has (STEP_BIG) && can_name (i))
        add (list, STEP_BIG, NO_QUEUE, i, pool);
    }
  if (has (STEP_NONE))
    add (list, STEP_ALLOCATE, NO_QUEUE, NO_LETTER, pool);
}

/* Steps of a block that name a queue. */
static void
list_moves (List *list, guint i)
{
  const Block *block = &world.blocks[i];
  const guint n_letters = (guint) strlen (world.config->queues);
  const gboolean is_unready
      = block->first == NO_QUEUE
        && (world.config->flags & (IS_FRESH | FREES_IN_ORDER)) == (IS_FRESH | FREES_IN_ORDER);

  for (guint letter = 0; letter < n_letters; letter++)
    {
      const guint32 bit = BIT (world.letters[letter]);

      if (!can_name (letter))
        continue;
      if (has (STEP_RECORD) && !block->is_orphan && !is_unready && (block->users & bit) == 0)
        add (list, STEP_RECORD, i, letter, 0);
      if (has (STEP_MOVE) && (block->is_orphan || block->users != bit))
        add (list, STEP_MOVE, i, letter, 0);
    }
}

static void
list_of_block (List *list, guint i, gboolean is_last, gboolean prunes)
{
  const Block *block = &world.blocks[i];

  if (block->block == NULL)
    return;
  if (has (STEP_FREE))
    add (list, STEP_FREE, i, NO_QUEUE, 0);
  if (has (STEP_USE) && block->first != NO_QUEUE && !is_last && !(prunes && block->is_recent))
    add (list, STEP_USE, i, NO_QUEUE, 0);
  if (has (STEP_WAIT) && (block->users != 0 || block->is_orphan))
    add (list, STEP_WAIT, i, NO_QUEUE, 0);
  list_moves (list, i);
}

/* Tells whether a queue can be destroyed once it is forgotten, or else once it is idle. */
static gboolean
can_end (guint8 queue, gboolean is_forgotten)
{
  if (((world.config->flags & IS_FRESH) != 0 && queue == 0) || world.queues[queue].is_capturing
      || world.n_queues == N_QUEUES)
    return FALSE;
  if ((world.config->flags & RECORDS_ALL) == 0)
    return TRUE;
  for (guint i = 0; i < N_BLOCKS; i++)
    if (world.blocks[i].block != NULL && (world.blocks[i].users & BIT (queue)) != 0
        && (!is_forgotten || world.blocks[i].pool < 0))
      return FALSE;
  return TRUE;
}

static void
list_of_queue (List *list, guint letter, gboolean is_last)
{
  const guint8 queue = world.letters[letter];
  const Clock now = { { 0 } };
  Clock own = now;

  if ((world.met & BIT (letter)) == 0)
    return;
  own.at[queue] = world.queues[queue].count;
  if (has (STEP_SYNC) && !is_last && !world.queues[queue].is_capturing
      && !clock_is_in (&own, &world.host))
    add (list, STEP_SYNC, NO_QUEUE, letter, 0);
  if (has (STEP_FORGET) && !world.has_dropped)
    add (list, STEP_FORGET, NO_QUEUE, letter, 0);
  if (has (STEP_RENEW) && !world.has_dropped && can_end (queue, TRUE))
    add (list, STEP_RENEW, NO_QUEUE, letter, 0);
  if (has (STEP_REPLACE) && can_end (queue, FALSE))
    add (list, STEP_REPLACE, NO_QUEUE, letter, 0);
  if (has (STEP_CAPTURE) && !is_last)
    add (list, STEP_CAPTURE, NO_QUEUE, letter, 0);
}

static void
list_of_pools (List *list, gboolean is_last)
{
  static const guint kinds[] = { STEP_FREE_HELD, STEP_TRIM, STEP_STOP, STEP_LIMIT, STEP_DROP };

  if (has (STEP_FULL) && !is_last)
    add (list, STEP_FULL, NO_QUEUE, NO_QUEUE, 0);
  if (world.has_dropped)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (has (kinds[i]))
      add (list, kinds[i], NO_QUEUE, NO_QUEUE, 0);
}

/* Another thread may do the same, but for the first step: one of them has to begin. */
static void
list_elsewhere (List *list)
{
  const guint n = world.n_steps > 0 || lists_all ? list->n : 0;

  for (guint i = 0; i < n; i++)
    {
      Step step = list->steps[i];

      if ((BIT (step.kind) & (STEP_ALLOCATE | STEP_BIG | STEP_FREE | STEP_FREE_HELD)) == 0)
        continue;
      step.is_elsewhere = TRUE;
      list->steps[list->n++] = step;
    }
}

/* Lists what the program may do next; @is_last: that might show something.  @prunes: not what is
 * the same as something else. */
guint
list_steps (Step *steps, gboolean is_last, gboolean prunes)
{
  const guint n_letters = (guint) strlen (world.config->queues);
  guint n_blocks = 0;
  List list = { steps, 0 };

  lists_all = !prunes;
  for (guint i = 0; i < N_BLOCKS; i++)
    n_blocks += world.blocks[i].block != NULL;
  if (n_blocks < world.config->n_blocks && !world.has_dropped)
    list_allocations (&list, 0);
  if (n_blocks < world.config->n_blocks && has (STEP_SECOND) && world.pools[1] != NULL)
    list_allocations (&list, 1);
  if (n_blocks < world.config->n_blocks && has (STEP_DIRECT))
    add (&list, STEP_DIRECT, NO_QUEUE, NO_QUEUE, 0);
  for (guint i = 0; i < N_BLOCKS; i++)
    list_of_block (&list, i, is_last, prunes);
  for (guint i = 0; i < n_letters; i++)
    list_of_queue (&list, i, is_last);
  list_of_pools (&list, is_last);
  if (world.config->has_threads)
    list_elsewhere (&list);
  return list.n;
}

/* Inside of calls: what another thread might do just then */

/* Does a step that is chosen, or none, inside of a backend's call: a block is freed, one is
 * allocated, a queue ends, or what is held goes. */
void
nest_step (void)
{
  Step steps[N_BLOCKS + 2 * N_LETTERS + 1];
  List list = { steps, 0 };
  guint chosen;

  if (world.n_nested == 0 || world.call->outer != NULL)
    return;
  for (guint i = 0; i < N_BLOCKS; i++)
    if (world.blocks[i].block != NULL && world.call->memory != (gint) world.blocks[i].memory
        && (world.call->forgotten == NO_QUEUE || world.blocks[i].first != world.call->forgotten))
      add (&list, STEP_FREE, i, NO_QUEUE, 0);
  for (guint i = 0; world.config->queues[i] != '\0'; i++)
    if ((world.met & BIT (i)) != 0 && !world.has_dropped
        && world.letters[i] != world.call->forgotten)
      add (&list, STEP_ALLOCATE, NO_QUEUE, i, 0);
  for (guint i = 0; has (STEP_RENEW) && world.config->queues[i] != '\0'; i++)
    if ((world.met & BIT (i)) != 0 && !world.has_dropped
        && (world.call->named & BIT (world.letters[i])) == 0 && can_end (world.letters[i], TRUE))
      add (&list, STEP_RENEW, NO_QUEUE, i, 0);
  if (!world.has_dropped)
    add (&list, STEP_FREE_HELD, NO_QUEUE, NO_QUEUE, 0);
  chosen = explore_choose (list.n + 1);
  if (chosen == 0)
    return;
  world.n_nested--;
  if (world.config->has_threads)
    do_elsewhere (1, do_nested_step, steps[chosen - 1]);
  else
    do_nested_step (steps[chosen - 1]);
}
