/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_SELECTION_PRIVATE_H
#define TARN_SELECTION_PRIVATE_H

#include <tarn/selection.h>

/* Without regard to case; a kind of NULL is OpenCL's. */
gboolean _tarn_selection_is_of_kind (const TarnSelectionPlatform *platform, const gchar *kind);
gboolean _tarn_selection_is_opencl (const TarnSelectionPlatform *platform);

/* Whether a kind other than OpenCL's has that name. */
gboolean _tarn_selection_is_kind (const gchar *name);

#endif
