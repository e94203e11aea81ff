/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Definitions of a recording: the strings, stacks and frames that numbers stand for, and the
 * modules of frames. */

#ifndef DEFINITIONS_H
#define DEFINITIONS_H

#include "recording.h"

typedef struct _Definitions Definitions;

Definitions *definitions_new (void);
void definitions_free (Definitions *self);

/* Interns a text: equal bytes give the same pointer, which is valid as long as @self. */
const gchar *definitions_intern (Definitions *self, const gchar *bytes, gsize length);

/* Add a definition.  If the number has a definition already, the new one is ignored. */
void definitions_add_string (Definitions *self, guint64 string, const gchar *text);
void definitions_add_frame (Definitions *self, const RecordedFrame *frame);
void definitions_add_module (Definitions *self, const RecordedModule *module);
/* Adds a stack, and takes over @addresses. */
void definitions_add_stack (Definitions *self, guint64 stack, GArray *addresses);

/* Functions that get a definition.  They return NULL if the number has no definition. */
const gchar *definitions_get_string (const Definitions *self, guint64 string);
const RecordedFrame *definitions_get_frame (const Definitions *self, guint64 address);
/* Returns the module of a frame, or NULL.  The frame's texts must be interned, because paths are
 * compared as pointers. */
const RecordedModule *definitions_get_module (const Definitions *self, const RecordedFrame *frame);
const guint64 *definitions_get_stack (const Definitions *self, guint64 stack, gsize *n_frames);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Definitions, definitions_free)

#endif
