/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What kinds of events, classes of objects, their properties and errors are called. */

#ifndef NAMES_H
#define NAMES_H

#include "common/trace-format-private.h"

const gchar *name_kind (TarnTraceKind kind);
gboolean name_find_kind (const gchar *name, TarnTraceKind *kind);

/* 0: it is not known what it is. */
const gchar *name_class (TarnTraceClass object_class);

/* NULL: there is none that is known. */
const gchar *name_property (guint32 property);

/* Of a code of TarnError and one more; NULL: there is none that is known. */
const gchar *name_error (guint64 error);

#endif
