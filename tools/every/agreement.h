/* Tarn: memory pools for OpenCL and CUDA.
 *
 * The output on which several runs of a program agree, and where another run's differs. */

#ifndef AGREEMENT_H
#define AGREEMENT_H

#include <glib.h>

typedef struct _Agreement Agreement;

/* Learns from outputs, in the order of the runs: two at least, of GString. */
Agreement *agreement_new (const GPtrArray *outputs);
void agreement_free (Agreement *agreement);

/* Whether all runs printed the same, except for times. */
gboolean agreement_is_complete (const Agreement *agreement);

/* Says how much of output that varies is compared; NULL: it does not vary.  Free it with
 * g_free (). */
gchar *agreement_describe (const Agreement *agreement);

/* Gets the first line that differs, with what was expected and what was printed; NULL: none does.
 * Free it with g_free (). */
gchar *agreement_find_difference (const Agreement *agreement, const GString *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Agreement, agreement_free)

#endif
