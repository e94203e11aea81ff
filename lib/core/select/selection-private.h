/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of platforms ("opencl", "cuda" and others) that a selection may name. */

#ifndef TARN_SELECTION_PRIVATE_H
#define TARN_SELECTION_PRIVATE_H

#include <tarn/selection.h>

/* Returns TRUE if a platform is of a kind, ignoring case.  A platform whose kind is NULL is of the
 * kind "opencl". */
gboolean _tarn_selection_is_of_kind (const TarnSelectionPlatform *platform, const gchar *kind);
gboolean _tarn_selection_is_opencl (const TarnSelectionPlatform *platform);

/* Returns TRUE if a name is a known kind of platforms other than "opencl", ignoring case. */
gboolean _tarn_selection_is_kind (const gchar *name);

/* Find kinds that a name may mean, although it is misspelt. */
gboolean _tarn_selection_is_almost (const gchar *kind, const gchar *name);
const gchar *_tarn_selection_find_almost (const gchar *name);

#endif
