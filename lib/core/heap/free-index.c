/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The free extents of a range, by their sizes: the smallest one that is large enough for a request
 * is found in a few steps, however many there are.
 *
 * Sizes are divided into classes, 16 between one power of two and the next.  A bit for each class
 * says whether it has an extent, and a bit for each word of these bits whether any is set there. So
 * the class that serves a request is known at once, unless it is the request's own, of which not
 * every extent is large enough.  In a class a treap has the extents by size, and by address where
 * sizes are the same.  An extent stands below none of lower priority, and priorities are drawn by
 * lot, so that it is as deep as a tree that was built in any order. */

#include "heap/heap-private.h"

static inline gboolean
comes_before (const TarnExtent *a, const TarnExtent *b)
{
  return a->size < b->size || (a->size == b->size && a->start < b->start);
}

/* Classes that have extents */

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

/* Finds the first class from one on that has an extent; TARN_FREE_CLASSES: there is none. */
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

/* Treaps */

/* Puts an extent where its priority belongs.  The subtree that was there is split in two: the
 * extents that come before the new one, and those that come after it. */
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

/* Takes out the extent at the end of a link, and joins its two subtrees in its place. */
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

/* Takes an extent out. */
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

/* Finds the link to the first extent of a treap that has @size bytes.  Returns NULL if none has as
 * many. */
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

/* The index */

/* Adds a free extent, which is not there. */
void
_tarn_free_index_add (TarnFreeIndex *self, TarnExtent *extent)
{
  guint class = _tarn_free_index_get_class (extent->size);

  treap_insert (&self->roots[class], extent);
  set_bit (self, class);
}

/* Removes an extent, which is there. */
void
_tarn_free_index_remove (TarnFreeIndex *self, TarnExtent *extent)
{
  guint class = _tarn_free_index_get_class (extent->size);

  treap_remove (&self->roots[class], extent);
  if (self->roots[class] == NULL)
    clear_bit (self, class);
}

/* Finds the class of the smallest extent of at least @size bytes, at the lowest address where
 * several have the same size, and the link to it.  Returns NULL if none has as many. */
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

/* Finds the smallest extent of at least @size bytes, at the lowest address where several have the
 * same size.  Returns NULL if none has as many. */
TarnExtent *
_tarn_free_index_find (TarnFreeIndex *self, gsize size)
{
  guint class;
  TarnExtent **link = find (self, size, &class);

  return link != NULL ? *link : NULL;
}

/* Finds it, and removes it. */
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

/* Returns TRUE if there may be an extent of at least @size bytes, for those who have no lock:
 * others may add or remove extents meanwhile. */
gboolean
_tarn_free_index_may_have (const TarnFreeIndex *self, gsize size)
{
  guint class = _tarn_free_index_get_class (size), word = class / 64;
  guint64 bits = __atomic_load_n (&self->bits[word], __ATOMIC_RELAXED);
  guint64 words = __atomic_load_n (&self->words, __ATOMIC_RELAXED);

  return (bits & G_MAXUINT64 << class % 64) != 0 || (words & G_MAXUINT64 << word << 1) != 0;
}

/* Gets the largest extent.  Returns NULL if there is none. */
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
