/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of platforms ("opencl", "cuda" and others).  A selection, a text that chooses devices,
 * may name a kind. */

#ifndef TARN_SELECTION_PRIVATE_H
#define TARN_SELECTION_PRIVATE_H

#include <tarn/selection.h>

/* Returns TRUE if a platform is of the kind @kind.  Ignores the case of letters.  A platform whose
 * kind is NULL counts as an OpenCL platform. */
gboolean _tarn_selection_is_of_kind (const TarnSelectionPlatform *platform, const gchar *kind);
gboolean _tarn_selection_is_opencl (const TarnSelectionPlatform *platform);

/* Returns TRUE if @name is the name of a kind of platform that Tarn or a backend has added to the
 * list of kinds.  Returns FALSE for "opencl".  Ignores the case of letters. */
gboolean _tarn_selection_is_kind (const gchar *name);

/* _tarn_selection_is_almost () returns TRUE if @name seems to be a misspelt @kind.
 * _tarn_selection_find_almost () searches the list of kinds for a kind that @name seems to
 * misspell, and returns NULL if there is none. */
gboolean _tarn_selection_is_almost (const gchar *kind, const gchar *name);
const gchar *_tarn_selection_find_almost (const gchar *name);

#endif
