/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fake device with virtual memory or sub-buffers ("pages"), for tests of heaps.  A test chooses
 * the kind of device.
 *
 *     pages.c      the device, its settings, and questions that a test can ask
 *     pages-ops.c  the allocator of the device
 *
 * On a device with virtual memory, a backing is memory without an address, and a mapping gives a
 * backing an address.  On other devices, a segment ("piece") is memory that the allocator has
 * allocated, and a sub-buffer ("part") is a range of a segment. */

#ifndef TARN_TESTING_PAGES_PRIVATE_H
#define TARN_TESTING_PAGES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"

/* A stretch, a range of one of these kinds: reserved addresses, a mapping, a segment (allocated
 * memory), a sub-buffer of a segment, or a backing (memory without an address; start is 0). */
typedef struct
{
  guint64 start, size;
  guint64 of;      /* for a sub-buffer, the address of its segment; otherwise 0 */
  guint64 backing; /* for a mapping, the key of its backing in the table backings */
  guint64 number;  /* for a backing or segment, a number that no other one gets */
  guint n_uses;    /* the number of a backing's mappings, or of a segment's sub-buffers */
} TarnTestingStretch;

struct _TarnTestingPages
{
  TarnMutex lock; /* guards all fields below, except kind, hook and hook_data */
  guint64 bytes, used_bytes;
  gsize max_addresses;
  gboolean refuses_aliases;
  TarnTestingPagesKind kind;
  guint64 last_number;
  /* Tables of TarnTestingStretch.  The key of a stretch is its address.  A stretch without an
   * address has a unique number as its key.  Segments are in the table backings, sub-buffers in the
   * table parts. */
  GHashTable *reservations, *mappings;
  GHashTable *backings, *parts;
  guint allocators, allocations;
  /* calls: the number of calls so far; fail_at: the number of the call that fails, counted from 1,
   * or 0 if none fails */
  guint calls, fail_at;
  gboolean fail_for_ever, has_failed;
  TarnTestingHook hook; /* a function that each call on the device calls first; NULL if none */
  gpointer hook_data;
};

/* Functions of pages.c.  The caller of each of these functions holds the lock.
 * _tarn_testing_find_stretch () and _tarn_testing_pages_find_mapped () end the test if they find
 * nothing. */
TarnTestingStretch *_tarn_testing_find_stretch (GHashTable *table, guint64 key);
/* Among the stretches in a table, finds one that overlaps the range of @size bytes from @start on.
 * Compares all stretches with this range, one after the other.  Returns NULL if none overlaps it.
 * @of: for sub-buffers (the table parts), the address of their segment; for other tables 0. */
const TarnTestingStretch *_tarn_testing_find_overlap (GHashTable *table, guint64 start,
                                                      guint64 size, guint64 of);
/* Finds the backing whose mapping begins at an address. */
TarnTestingStretch *_tarn_testing_pages_find_mapped (TarnTestingPages *pages, guint64 address);

/* Sets the functions of an allocator whose user data is @pages (pages-ops.c). */
void _tarn_testing_pages_ops_init (TarnTestingPages *pages, TarnAllocatorOps *ops);

#endif
