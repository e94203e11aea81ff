/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of platforms in selections. */

#ifndef TARN_SELECTION_PRIVATE_H
#define TARN_SELECTION_PRIVATE_H

#include <tarn/selection.h>

/* Returns TRUE if a platform is of a kind, ignoring case.  A kind of NULL is OpenCL's. */
gboolean _tarn_selection_is_of_kind (const TarnSelectionPlatform *platform, const gchar *kind);
gboolean _tarn_selection_is_opencl (const TarnSelectionPlatform *platform);

/* Returns TRUE if a kind other than OpenCL's has that name. */
gboolean _tarn_selection_is_kind (const gchar *name);

#endif
