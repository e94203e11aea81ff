/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fake device with virtual memory or sub-buffers ("pages"), for tests of heaps.  A test chooses
 * its kind.
 *
 *     pages.c      the device, its settings, and questions that a test can ask
 *     pages-ops.c  the allocator of the device
 *
 * In virtual memory, a backing is memory without an address, and a mapping gives it one.  Otherwise
 * a piece is memory that the allocator has allocated, and a part is a sub-buffer of a piece. */

#ifndef TARN_TESTING_PAGES_PRIVATE_H
#define TARN_TESTING_PAGES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"

/* A range: a reservation of addresses, a mapping, a piece, a part, or a backing (start is 0). */
typedef struct
{
  guint64 start, size;
  guint64 of;      /* address of a part's piece */
  guint64 backing; /* key of a mapping's backing */
  guint64 number;  /* allocation number of a backing or piece */
  guint n_uses;    /* number of mappings of a backing, or of parts of a piece */
} TarnTestingStretch;

struct _TarnTestingPages
{
  TarnMutex lock; /* guards all fields below */
  guint64 bytes, used_bytes;
  gsize max_addresses;
  gboolean refuses_aliases;
  TarnTestingPagesKind kind;
  guint64 last_number;
  /* Tables of TarnTestingStretch, by start, or by number if there is none; pieces are in
   * backings. */
  GHashTable *reservations, *mappings;
  GHashTable *backings, *parts;
  guint allocators, allocations;
  guint calls, fail_at; /* value of calls at which a call fails; 0: none */
  gboolean fail_for_ever, has_failed;
  TarnTestingHook hook; /* nullable */
  gpointer hook_data;
};

/* pages.c.  The caller of these functions holds the lock.  _tarn_testing_find_stretch () and
 * _tarn_testing_pages_find_mapped () end the test if they find nothing. */
TarnTestingStretch *_tarn_testing_find_stretch (GHashTable *table, guint64 key);
/* Finds a stretch in a table that overlaps a range, by looking at each one.  Returns NULL if there
 * is none.  @of: for parts, the address of their piece; otherwise 0. */
const TarnTestingStretch *_tarn_testing_find_overlap (GHashTable *table, guint64 start,
                                                      guint64 size, guint64 of);
/* Finds the backing whose mapping begins at an address. */
TarnTestingStretch *_tarn_testing_pages_find_mapped (TarnTestingPages *pages, guint64 address);

/* pages-ops.c.  Sets the functions of the allocator, whose user_data is @pages. */
void _tarn_testing_pages_ops_init (TarnTestingPages *pages, TarnAllocatorOps *ops);

#endif
