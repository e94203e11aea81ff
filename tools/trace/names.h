/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Names of kinds of events, classes of objects, properties and errors. */

#ifndef NAMES_H
#define NAMES_H

#include "common/trace-format-private.h"

const gchar *name_kind (TarnTraceKind kind);
gboolean name_find_kind (const gchar *name, TarnTraceKind *kind);

/* Gets the name of a class, which may be 0: unknown. */
const gchar *name_class (TarnTraceClass object_class);

/* Gets the name of a property.  Returns NULL if it is unknown. */
const gchar *name_property (guint32 property);

/* Gets the name of an error, which is a code of TarnError plus one.  Returns NULL if it is
 * unknown. */
const gchar *name_error (guint64 error);

#endif
