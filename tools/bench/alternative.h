/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recorded program's memory might have been like instead. */

#ifndef ALTERNATIVE_H
#define ALTERNATIVE_H

#include "recorded.h"

/* What the program had holds where nothing else is said. */
typedef struct
{
  gchar *label;          /* as it was given; NULL: as recorded */
  gboolean has_heaps;    /* pools that have none have one */
  gboolean has_no_heaps; /* pools are straight over the backend */
  gboolean has_no_pools;
  gint leading_bits;   /* -1: the program's */
  gint cache_blocks;   /* of each thread; -1: the program's */
  gsize limit_bytes;   /* of each pool; 0: the program's */
  gdouble limit_share; /* of what each pool managed at most; 0: none */
  gboolean holds_nothing;
  gsize hold_bytes;   /* as TarnPoolOptions has it; 0: the program's */
  gsize growth_bytes; /* 0: the program's */
} Alternative;

/* Those of a list such as "heap,leading-bits=3+hold=0"; NULL and "all" are those that are tried
 * when nothing is said.  An array of Alternative; an error names what is wrong. */
GPtrArray *alternatives_parse (const gchar *list, GError **error);

/* As the program was, but for a heap below each pool if @has_heaps. */
Alternative *alternative_new_as_recorded (gboolean has_heaps);
Alternative *alternative_copy_with_heaps (const Alternative *self);
void alternative_free (Alternative *self);

/* Whether it has limits in the place of those that the program set. */
gboolean alternative_has_limit (const Alternative *self);

/* Whether it is something else than what the program had. */
gboolean alternative_applies (const Alternative *self, const Recorded *recorded);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Alternative, alternative_free)

#endif
