/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A device that has what heaps need, as a table: virtual memory, or else parts of what it
 * allocates, which it has to make or which are mere addresses; a budget of bytes, a ledger, and
 * calls that fail on demand.  Any thread may use it. Mistakes of whoever uses it end the test: what
 * is mapped where something is, or outside of what was reserved; what is unmapped in part, given
 * back while it is mapped or has parts, or twice; parts that overlap; anything that is left at the
 * end. */

#ifndef TARN_FAKE_PAGES_H
#define TARN_FAKE_PAGES_H

#include <tarn/tarn.h>

typedef struct _FakePages FakePages;

#define FAKE_PAGES_GRANULARITY ((gsize) 2 << 20)
#define FAKE_PAGES_PART_ALIGNMENT 128

typedef enum
{
  FAKE_PAGES_PARTS,
  FAKE_PAGES_VIRTUAL,
  FAKE_PAGES_ADDRESSES
} FakePagesKind;

/* @bytes may be G_MAXUINT64, which never runs out. */
FakePages *fake_pages_new (guint64 bytes, FakePagesKind kind);
void fake_pages_free (FakePages *pages);

/* The device must outlive it. */
TarnAllocator *fake_pages_allocator_new (FakePages *pages);

void fake_pages_set_budget (FakePages *pages, guint64 bytes);

/* The most addresses that one reservation may have. */
void fake_pages_set_max_addresses (FakePages *pages, gsize size);

/* The nth call from now on that can fail does so, 1 being the next one; if @for_ever, so do all
 * that follow.  0: none fails. */
void fake_pages_fail (FakePages *pages, guint nth, gboolean for_ever);
gboolean fake_pages_has_failed (FakePages *pages); /* whether that came to pass */

/* Called by every call, with no lock held; NULL: nothing. */
void fake_pages_set_hook (FakePages *pages, void (*func) (gpointer), gpointer user_data);

/* Whether a user may use memory: all of it is mapped, or it is a part of that size. */
gboolean fake_pages_is_usable (FakePages *pages, TarnMemory memory, gsize size);

/* A number for a byte of memory that a user may use, wherever it is mapped: no other byte ever has
 * it. */
guint64 fake_pages_locate (FakePages *pages, TarnMemory memory, gsize offset);

/* The same for a piece of memory that a user has parts of. */
guint64 fake_pages_locate_in_piece (FakePages *pages, TarnMemory piece, gsize offset);

guint64 fake_pages_get_used_bytes (FakePages *pages);
guint fake_pages_get_calls (FakePages *pages);       /* that can fail */
guint fake_pages_get_reserved (FakePages *pages);    /* reservations */
guint fake_pages_get_allocations (FakePages *pages); /* backings, or pieces, that there ever were */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FakePages, fake_pages_free)

#endif
