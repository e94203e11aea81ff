/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An index of the free extents (contiguous free addresses) of a range by size.  It finds the
 * smallest extent that is large enough for a request in a few steps, however many extents there
 * are.
 *
 * Sizes are divided into classes: 16 classes between one power of two and the next.  A bitmap has a
 * bit for each class that has an extent.  A second bitmap has a bit for each word of the first
 * bitmap that is not 0.  So two bit scans find the class that serves a request.  In the request's
 * own class an extent may be too small, but in each higher class all extents are large enough.  The
 * extents of a class form a treap (a search tree), ordered by size, and by address if sizes are
 * equal.  No extent has a higher priority than its parent, and priorities are pseudo-random, so the
 * treap's expected depth is logarithmic. */

#include "heap/heap-private.h"

static inline gboolean
comes_before (const TarnExtent *a, const TarnExtent *b)
{
  return a->size < b->size || (a->size == b->size && a->start < b->start);
}

/* Functions for the bitmaps, which tell which size classes have extents */

static inline void
set_bit (TarnFreeIndex *self, guint class)
{
  guint64 *bits = &self->bits[class / 64];

  __atomic_store_n (bits, *bits | (guint64) 1 << class % 64, __ATOMIC_RELAXED);
  __atomic_store_n (&self->words, self->words | (guint64) 1 << class / 64, __ATOMIC_RELAXED);
}

static inline void
clear_bit (TarnFreeIndex *self, guint class)
{
  guint64 *bits = &self->bits[class / 64];

  __atomic_store_n (bits, *bits & ~((guint64) 1 << class % 64), __ATOMIC_RELAXED);
  if (*bits == 0)
    __atomic_store_n (&self->words, self->words & ~((guint64) 1 << class / 64), __ATOMIC_RELAXED);
}

/* Finds the first class at or above @class that has an extent.  Returns TARN_FREE_CLASSES if there
 * is none. */
static inline guint
find_class (const TarnFreeIndex *self, guint class)
{
  guint word = class / 64;
  guint64 bits, words;

  if (class >= TARN_FREE_CLASSES)
    return TARN_FREE_CLASSES;
  bits = self->bits[word] & G_MAXUINT64 << class % 64;
  if (bits == 0)
    {
      words = self->words & G_MAXUINT64 << word << 1;
      if (words == 0)
        return TARN_FREE_CLASSES;
      word = (guint) __builtin_ctzll (words);
      bits = self->bits[word];
    }
  return word * 64 + (guint) __builtin_ctzll (bits);
}

/* Functions for treaps, the search trees of the extents of one size class */

/* Inserts an extent into a treap, at the depth that its priority demands.  Splits the subtree at
 * that place into the extents before the new extent and the extents after it.  These become the two
 * subtrees of the new extent. */
static inline void
treap_insert (TarnExtent **root, TarnExtent *extent)
{
  TarnExtent **link = root, **less = &extent->less, **greater = &extent->greater;
  TarnExtent *rest;

  while (*link != NULL && (*link)->priority >= extent->priority)
    link = comes_before (extent, *link) ? &(*link)->less : &(*link)->greater;
  rest = *link;
  *link = extent;
  while (rest != NULL)
    if (comes_before (rest, extent))
      {
        *less = rest;
        less = &rest->greater;
        rest = *less;
      }
    else
      {
        *greater = rest;
        greater = &rest->less;
        rest = *greater;
      }
  *less = *greater = NULL;
}

/* Removes the extent *@link from a treap, and puts the extent's merged subtrees in its place. */
static inline void
treap_unlink (TarnExtent **link)
{
  TarnExtent *less = (*link)->less, *greater = (*link)->greater;

  while (less != NULL && greater != NULL)
    if (less->priority >= greater->priority)
      {
        *link = less;
        link = &less->greater;
        less = *link;
      }
    else
      {
        *link = greater;
        link = &greater->less;
        greater = *link;
      }
  *link = less != NULL ? less : greater;
}

static inline void
treap_remove (TarnExtent **root, TarnExtent *extent)
{
  TarnExtent **link = root;

  while (*link != extent)
    {
      g_assert (*link != NULL);
      link = comes_before (extent, *link) ? &(*link)->less : &(*link)->greater;
    }
  treap_unlink (link);
}

/* Finds the smallest extent of at least @size bytes in a treap.  Returns the address of the treap's
 * pointer to that extent, or NULL if there is none. */
static inline TarnExtent **
treap_find (TarnExtent **link, gsize size)
{
  TarnExtent **found = NULL;

  while (*link != NULL)
    if ((*link)->size >= size)
      {
        found = link;
        link = &(*link)->less;
      }
    else
      link = &(*link)->greater;
  return found;
}

/* Functions for an index of free extents */

/* Adds a free extent to the index.  The extent must not be in the index yet. */
void
_tarn_free_index_add (TarnFreeIndex *self, TarnExtent *extent)
{
  guint class = _tarn_free_index_get_class (extent->size);

  treap_insert (&self->roots[class], extent);
  set_bit (self, class);
}

/* Removes an extent from the index.  The extent must be in the index. */
void
_tarn_free_index_remove (TarnFreeIndex *self, TarnExtent *extent)
{
  guint class = _tarn_free_index_get_class (extent->size);

  treap_remove (&self->roots[class], extent);
  if (self->roots[class] == NULL)
    clear_bit (self, class);
}

/* Finds the smallest extent of at least @size bytes.  If several extents have that size, finds the
 * one at the lowest address.  Sets *class to the extent's class.  Returns the address of the
 * treap's pointer to the extent, or NULL if there is none. */
static inline TarnExtent **
find (TarnFreeIndex *self, gsize size, guint *class)
{
  TarnExtent **link;

  *class = _tarn_free_index_get_class (size);
  link = treap_find (&self->roots[*class], size);
  if (link != NULL)
    return link;
  *class = find_class (self, *class + 1);
  return *class < TARN_FREE_CLASSES ? treap_find (&self->roots[*class], size) : NULL;
}

/* Removes the smallest extent of at least @size bytes from the index, and returns it.  If several
 * extents have that size, takes the one at the lowest address.  Returns NULL if there is none. */
TarnExtent *
_tarn_free_index_take (TarnFreeIndex *self, gsize size)
{
  guint class;
  TarnExtent **link = find (self, size, &class);
  TarnExtent *extent;

  if (link == NULL)
    return NULL;
  extent = *link;
  treap_unlink (link);
  if (self->roots[class] == NULL)
    clear_bit (self, class);
  return extent;
}

/* Finds the smallest extent of a treap in which @size bytes begin at a multiple of @alignment.
 * Returns NULL if there is no such extent. */
static TarnExtent *
treap_find_aligned (TarnExtent *root, gsize size, gsize alignment)
{
  TarnExtent *found = NULL;
  gsize gap;

  if (root == NULL)
    return NULL;
  if (root->size >= size)
    {
      gap = _tarn_extent_get_gap (root, alignment);
      found = treap_find_aligned (root->less, size, alignment);
      if (found == NULL && gap <= root->size - size)
        found = root;
    }
  return found != NULL ? found : treap_find_aligned (root->greater, size, alignment);
}

/* Removes from the index the smallest extent in which @size bytes begin at a multiple of
 * @alignment, and returns the extent.  Returns NULL if there is no such extent.  May have to look
 * at every extent of at least @size bytes. */
TarnExtent *
_tarn_free_index_take_aligned (TarnFreeIndex *self, gsize size, gsize alignment)
{
  TarnExtent *found = NULL;

  for (guint class = find_class (self, _tarn_free_index_get_class (size));
       class < TARN_FREE_CLASSES && found == NULL; class = find_class (self, class + 1))
    found = treap_find_aligned (self->roots[class], size, alignment);
  if (found != NULL)
    _tarn_free_index_remove (self, found);
  return found;
}

/* Returns TRUE if the index seems to have an extent of at least @size bytes.  The answer may be
 * wrong: an extent in the class of @size may be smaller than @size, and the caller need not hold a
 * lock, so another thread may be changing the index. */
gboolean
_tarn_free_index_may_have (const TarnFreeIndex *self, gsize size)
{
  guint class = _tarn_free_index_get_class (size), word = class / 64;
  guint64 bits = __atomic_load_n (&self->bits[word], __ATOMIC_RELAXED);
  guint64 words = __atomic_load_n (&self->words, __ATOMIC_RELAXED);

  return (bits & G_MAXUINT64 << class % 64) != 0 || (words & G_MAXUINT64 << word << 1) != 0;
}

/* Gets the largest extent of the index.  Returns NULL if there is none. */
const TarnExtent *
_tarn_free_index_get_largest (const TarnFreeIndex *self)
{
  const TarnExtent *extent;
  guint word, bit;

  if (self->words == 0)
    return NULL;
  word = 63 - (guint) __builtin_clzll (self->words);
  bit = 63 - (guint) __builtin_clzll (self->bits[word]);
  extent = self->roots[word * 64 + bit];
  while (extent->greater != NULL)
    extent = extent->greater;
  return extent;
}
