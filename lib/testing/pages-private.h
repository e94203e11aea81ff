/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 *     pages.c      the device, with a test's settings and questions
 *     pages-ops.c  the allocator over it */

#ifndef TARN_TESTING_PAGES_PRIVATE_H
#define TARN_TESTING_PAGES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"

/* A stretch of addresses, or of a piece; or a backing, which has no start. */
typedef struct
{
  guint64 start, size;
  guint64 of;      /* a part's piece */
  guint64 backing; /* a mapping's */
  guint64 number;  /* a backing's or a piece's */
  guint n_uses;    /* a backing's or a piece's: its mappings, or parts */
} TarnTestingStretch;

struct _TarnTestingPages
{
  TarnMutex lock; /* guards all below */
  guint64 bytes, used_bytes;
  gsize max_addresses;
  gboolean refuses_aliases;
  TarnTestingPagesKind kind;
  guint64 last_number;
  /* TarnTestingStretches, by their starts or numbers; a piece is a backing that is not mapped */
  GHashTable *reservations, *mappings;
  GHashTable *backings, *parts;
  guint allocators, allocations;
  guint calls, fail_at; /* the value of calls at which to fail; 0: never */
  gboolean fail_for_ever, has_failed;
  TarnTestingHook hook; /* nullable */
  gpointer hook_data;
};

/* pages.c.  The lock is held in these functions. find_stretch () and find_mapped () end the test if
 * there is none. */
TarnTestingStretch *_tarn_testing_find_stretch (GHashTable *table, guint64 key);
/* Finds an entry that overlaps a stretch, for tables with few entries.  Returns NULL if there is
 * none. */
const TarnTestingStretch *_tarn_testing_find_overlap (GHashTable *table, guint64 start,
                                                      guint64 size, guint64 of);
/* Finds the backing that is mapped at an address. */
TarnTestingStretch *_tarn_testing_pages_find_mapped (TarnTestingPages *pages, guint64 address);

/* pages-ops.c: sets the allocator's functions, whose user_data is the pages. */
void _tarn_testing_pages_ops_init (TarnTestingPages *pages, TarnAllocatorOps *ops);

#endif
