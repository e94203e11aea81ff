/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "pool/slab-private.h"

#include "base/aligned-private.h"

static gboolean
is_full (const TarnSlab *slab)
{
  return slab->vacant == NULL;
}

static TarnSlab *
slab_new (void)
{
  TarnSlab *slab = _tarn_aligned_new0 (TarnSlab);

  slab->link.data = slab;
  for (guint i = TARN_SLAB_BLOCKS; i-- > 0;)
    {
      slab->blocks[i].number = (guint16) i;
      slab->blocks[i].below = slab->vacant;
      slab->vacant = &slab->blocks[i];
    }
  return slab;
}

static TarnSlab *
slab_of (const TarnBlock *block)
{
  const TarnBlock *first = block - block->number;
  gpointer slab = (gchar *) first - G_STRUCT_OFFSET (TarnSlab, blocks);

  return slab;
}

/* Whether a thread that needs one may have it. */
static gboolean
is_open (const TarnSlab *slab)
{
  return slab != NULL && !slab->is_taken && !is_full (slab);
}

/* In place of the one that is full.  Full ones are at the end, until a block of theirs is put
 * back, and so are those that are taken. */
static TarnSlab *
take_slab (GQueue *slabs, TarnSlab *full)
{
  TarnSlab *slab = g_queue_peek_head (slabs);

  if (full != NULL)
    full->is_taken = FALSE;
  if (is_open (slab))
    g_queue_unlink (slabs, &slab->link);
  else
    slab = slab_new ();
  slab->is_taken = TRUE;
  g_queue_push_tail_link (slabs, &slab->link);
  return slab;
}

/* A block that is zero but for its number. */
TarnBlock *
_tarn_slabs_take (GQueue *slabs, TarnSlab **own)
{
  TarnBlock *block;
  guint16 number;

  if (*own == NULL || is_full (*own))
    *own = take_slab (slabs, *own);
  block = (*own)->vacant;
  number = block->number;
  (*own)->vacant = block->below;
  (*own)->n_used++;
  *block = (TarnBlock){ .number = number };
  return block;
}

/* A retired block's struct.  What the block was can still be told from its state, until it is taken
 * again. */
void
_tarn_slabs_put (GQueue *slabs, TarnBlock *block)
{
  TarnSlab *slab = slab_of (block);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses == 0);
  g_clear_pointer (&block->uses, g_free);
  block->below = slab->vacant;
  slab->vacant = block;
  slab->n_used--;
  if (slab->is_taken)
    return;
  g_queue_unlink (slabs, &slab->link);
  if (slab->n_used == 0 && is_open (g_queue_peek_head (slabs)))
    free (slab);
  else
    g_queue_push_head_link (slabs, &slab->link);
}

TarnBlock *
_tarn_slabs_next (const GQueue *slabs, const TarnBlock *block)
{
  GList *link = block != NULL ? &slab_of (block)->link : slabs->head;
  guint number = block != NULL ? block->number + 1 : 0;

  for (; link != NULL; link = link->next, number = 0)
    for (TarnSlab *slab = link->data; number < TARN_SLAB_BLOCKS; number++)
      if (slab->blocks[number].state != TARN_BLOCK_VACANT
          && slab->blocks[number].state != TARN_BLOCK_RETIRED)
        return &slab->blocks[number];
  return NULL;
}

/* All are vacant. */
void
_tarn_slabs_clear (GQueue *slabs)
{
  TarnSlab *slab;

  while ((slab = g_queue_peek_head (slabs)) != NULL)
    {
      g_assert (slab->n_used == 0);
      g_queue_unlink (slabs, &slab->link);
      free (slab);
    }
}
