/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Free extents by size, and by address where sizes are the same: a treap.  An extent stands below
 * none of lower priority, and priorities are drawn by lot, so that the tree is as deep as one that
 * was built in any order: 1.4 log2 n on the average, whatever a program does. */

#include "heap/heap-private.h"

static inline gboolean
comes_before (const TarnExtent *a, const TarnExtent *b)
{
  return a->size < b->size || (a->size == b->size && a->start < b->start);
}

/* Adds an extent.  What is below its place is divided into what comes before it and what comes
 * after it. */
void
_tarn_tree_insert (TarnExtent **root, TarnExtent *extent)
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

/* Removes an extent, which is there.  What was below it is put together again. */
void
_tarn_tree_remove (TarnExtent **root, TarnExtent *extent)
{
  TarnExtent **link = root, *less = extent->less, *greater = extent->greater;

  while (*link != extent)
    {
      g_assert (*link != NULL);
      link = comes_before (extent, *link) ? &(*link)->less : &(*link)->greater;
    }
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

/* Finds the first extent of at least so many bytes; NULL: none has as many. */
TarnExtent *
_tarn_tree_find (TarnExtent *root, gsize size)
{
  TarnExtent *found = NULL;

  while (root != NULL)
    if (root->size >= size)
      {
        found = root;
        root = root->less;
      }
    else
      root = root->greater;
  return found;
}
