/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What numbers stand for in a recording: strings, stacks and their frames. */

#ifndef DEFINITIONS_H
#define DEFINITIONS_H

#include "recording.h"

typedef struct _Definitions Definitions;

Definitions *definitions_new (void);
void definitions_free (Definitions *self);

/* The same text for the same bytes, which lives as long as @self. */
const gchar *definitions_intern (Definitions *self, const gchar *bytes, gsize length);

/* What has been said of a number holds, whatever is said of it later. */
void definitions_add_string (Definitions *self, guint64 string, const gchar *text);
void definitions_add_frame (Definitions *self, const RecordedFrame *frame);
/* Addresses are taken over. */
void definitions_add_stack (Definitions *self, guint64 stack, GArray *addresses);

const gchar *definitions_get_string (const Definitions *self, guint64 string);
const RecordedFrame *definitions_get_frame (const Definitions *self, guint64 address);
const guint64 *definitions_get_stack (const Definitions *self, guint64 stack, gsize *n_frames);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Definitions, definitions_free)

#endif
