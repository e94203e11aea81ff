/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An agreement: the output that several runs of a program have in common.  It finds where the
 * output of another run differs. */

#ifndef AGREEMENT_H
#define AGREEMENT_H

#include <glib.h>

typedef struct _Agreement Agreement;

/* Learns which lines at least two runs have in common, from their outputs (GStrings) in the order
 * of the runs. */
Agreement *agreement_new (const GPtrArray *outputs);
void agreement_free (Agreement *agreement);

/* Tells whether all runs printed the same output, except for times. */
gboolean agreement_is_complete (const Agreement *agreement);

/* Describes how much of the output is compared.  Returns NULL if the output does not vary.  Free it
 * with g_free (). */
gchar *agreement_describe (const Agreement *agreement);

/* Describes the first line that differs: the line that was expected, and the one that was printed.
 * Returns NULL if none differs.  Free it with g_free (). */
gchar *agreement_find_difference (const Agreement *agreement, const GString *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Agreement, agreement_free)

#endif
