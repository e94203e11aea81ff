/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The text of a selection as entries of names: what the two syntaxes have in common once they are
 * read. */

#ifndef TARN_ENTRY_PRIVATE_H
#define TARN_ENTRY_PRIVATE_H

#include <tarn/selection.h>

/* A name of a platform or device.  Quotation marks around it are removed. */
typedef struct
{
  gchar *text;
  gboolean is_quoted; /* then only its letters count */
} TarnSelectionName;

/* An entry.
 *
 * Invariants, once it is parsed:
 *
 *     the platform and each device have a text
 *     in the strict syntax no text is empty, or has quotation marks
 *     in PyOpenCL's no name is quoted */
typedef struct
{
  gchar *text; /* all of it, for messages */
  TarnSelectionName platform;
  GArray *devices; /* of TarnSelectionName; NULL: all */
} TarnSelectionEntry;

#define TARN_SELECTION_ENTRY_INIT                                                                  \
  {                                                                                                \
    NULL, { NULL, FALSE }, NULL                                                                    \
  }

GPtrArray *_tarn_selection_split (const gchar *selection, TarnSelectionSyntax syntax,
                                  GError **error);
gboolean _tarn_selection_entry_parse (TarnSelectionEntry *entry, const gchar *selection,
                                      TarnSelectionSyntax syntax, const gchar *text,
                                      GError **error);
void _tarn_selection_entry_clear (TarnSelectionEntry *entry);
gchar *_tarn_selection_strip (const gchar *text);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TarnSelectionEntry, _tarn_selection_entry_clear)

#endif
