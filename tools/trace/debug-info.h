/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds functions, files and lines of code in a program or library, by libdw.  Without libdw
 * nothing is found. */

#ifndef DEBUG_INFO_H
#define DEBUG_INFO_H

#include <glib.h>

typedef struct _DebugInfo DebugInfo;

/* The place of an instruction.  Texts are allocated. */
typedef struct
{
  gchar *function; /* the name that the linker uses; NULL: not known */
  guint64 offset;  /* bytes from the start of the function to the instruction */
  gchar *file;     /* NULL: not known */
  guint line;      /* 0: not known */
} DebugPlace;

/* Tells whether the program was built with libdw. */
gboolean debug_info_is_supported (void);

/* Opens the file at @path if it has @build_id, in hexadecimal digits.  Otherwise opens a file with
 * @build_id from elsewhere on the system, or from a debuginfod server. */
DebugInfo *debug_info_open (const gchar *path, const gchar *build_id, GError **error);
void debug_info_free (DebugInfo *self);

/* Appends the DebugPlace of the instruction at @address of the file.  Appends several, the
 * innermost first, if functions are inlined there.  Appends none if nothing is known. */
void debug_info_find (DebugInfo *self, guint64 address, GArray *places);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (DebugInfo, debug_info_free)

#endif
