/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The entries of a selection (a text that chooses devices).  An entry consists of the name of a
 * platform and names of devices.  entry.c reads entries in either syntax of selections. */

#ifndef TARN_ENTRY_PRIVATE_H
#define TARN_ENTRY_PRIVATE_H

#include <tarn/selection.h>

/* The name of a platform or device in an entry, without the quotation marks around it. */
typedef struct
{
  gchar *text;
  gboolean is_quoted; /* the name had quotation marks, so "0" or "*" is plain text */
} TarnSelectionName;

/* An entry of a selection.
 *
 * Invariants of an entry that has been parsed:
 *
 *     the text of each name is not NULL
 *     in the strict syntax, no name is empty or contains a quotation mark
 *     in PyOpenCL's syntax, no name has is_quoted */
typedef struct
{
  gchar *text; /* the whole entry as it was written, for messages */
  TarnSelectionName platform;
  GArray *devices; /* of TarnSelectionName; NULL: all devices of the platform */
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
