/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Names of the functions in the stacks of a recording.  Each address is looked up once, in the file
 * that ran.  A message on standard error reports each file that cannot be used, once. */

#ifndef SYMBOLS_H
#define SYMBOLS_H

#include "recording.h"

typedef struct _Symbols Symbols;

/* A frame of a stack.  Texts live as long as the Symbols; none has control characters. */
typedef struct
{
  guint64 address;
  const gchar *module; /* path; "": not known */
  guint64 module_offset;
  const gchar *function; /* C++ names as in the sources; NULL: not known */
  guint64 offset;        /* bytes from the start of the function to the address */
  const gchar *file;     /* NULL: file and line are not known */
  guint line;
} NamedFrame;

/* Creates the Symbols of a recording.  The recording must live as long as the Symbols.  Messages
 * begin with @program. */
Symbols *symbols_new (const Recording *recording, const gchar *program);
void symbols_free (Symbols *self);

/* Gets the frames of an address: one, or several if functions are inlined there, the innermost
 * first. */
const NamedFrame *symbols_get (Symbols *self, guint64 address, guint *n_frames);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Symbols, symbols_free)

#endif
