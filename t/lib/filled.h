/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A device that is full, in random states: pools over heaps, of one group.  Whatever the heaps have
 * besides the pieces that a block in use lies in can go back, so a request that fits into that, and
 * what the device has left, has to succeed. */

#ifndef FILLED_H
#define FILLED_H

#include <tarn/testing.h>

/* The granularity of a device's memory. */
#define FILLED_GRANULE ((gsize) 2 << 20)

/* A pool over a heap, what is in use of it, and the largest request that its driver does not
 * refuse. */
typedef struct
{
  TarnPool *pool;
  GPtrArray *blocks;
  gsize max_size;
  TarnTestingPages *tight; /* or NULL: there are no more addresses in one stretch than the latest
                              request needs */
} FilledPart;

/* Takes the allocator over, which becomes the heap's upstream. */
void filled_part_init (FilledPart *part, TarnAllocator *upstream, TarnReclaimGroup *group,
                       gsize max_size);
void filled_part_clear (FilledPart *part);

/* Makes so many requests of the parts in turn by chance, where so many granules are there in all.
 * Ends the test if one fails that fits, or for another reason than that there is no memory. */
void filled_run (FilledPart *parts, guint n_parts, gsize there, guint n_requests);

#endif
