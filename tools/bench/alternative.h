/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Alternatives: changes to the pools and heaps of a recorded program. */

#ifndef ALTERNATIVE_H
#define ALTERNATIVE_H

#include "recorded.h"

/* An alternative: changes to the pools and heaps of a recorded program.  Each field after label is
 * one change.  A field that is FALSE, 0 or -1, as noted below, keeps what the program chose.
 *
 * Invariant: has_heaps and has_no_heaps are not both TRUE; has_no_pools implies has_no_heaps. */
typedef struct
{
  gchar *label;          /* its text on the command line; NULL: the program as recorded */
  gboolean has_heaps;    /* adds a heap below pools that have none */
  gboolean has_no_heaps; /* puts pools directly over the backend, without heaps */
  gboolean has_no_pools;
  gint leading_bits; /* -1: keeps the program's value */
  gint cache_blocks; /* blocks in each thread's cache; -1: keeps the program's value */
  gsize limit_bytes; /* for each pool; 0: keeps the program's limit */
  /* Sets the limit of each pool to this share of the pool's peak of managed bytes; 0: sets none */
  gdouble limit_share;
  gboolean holds_nothing;
  gsize hold_bytes;   /* TarnPoolOptions.hold_bytes; 0: keeps the program's value */
  gsize growth_bytes; /* growth of heaps; 0: keeps the program's value */
} Alternative;

/* Parses a list such as "heap,leading-bits=3+hold=0".  NULL and "all" stand for the default list.
 * Returns an array of Alternatives.  Returns NULL with an error that names the wrong part of the
 * list. */
GPtrArray *alternatives_parse (const gchar *list, GError **error);

/* Creates an alternative that keeps everything as recorded.  If @has_heaps, it adds a heap below
 * each pool that has none. */
Alternative *alternative_new_as_recorded (gboolean has_heaps);
Alternative *alternative_copy_with_heaps (const Alternative *self);
void alternative_free (Alternative *self);

/* Tells whether the alternative replaces the limits that the program set. */
gboolean alternative_has_limit (const Alternative *self);

/* Tells whether the alternative changes any object of the recording. */
gboolean alternative_applies (const Alternative *self, const Recorded *recorded);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Alternative, alternative_free)

#endif
