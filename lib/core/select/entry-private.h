/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The entries of a selection.  A selection is a text that chooses devices.  For example, the
 * selection 0:0,1;intel:i5 has two entries.  An entry consists of the name of a platform, and
 * usually names of devices. entry.c reads entries in two syntaxes. */

#ifndef TARN_ENTRY_PRIVATE_H
#define TARN_ENTRY_PRIVATE_H

#include <tarn/selection.h>

/* The name of a platform or device in an entry of a selection.  Quotation marks around the name are
 * removed. */
typedef struct
{
  gchar *text;
  /* TRUE if the name had quotation marks.  Then "0" is no index, and "*" does not mean all
   * devices. */
  gboolean is_quoted;
} TarnSelectionName;

/* An entry of a selection: the name of a platform, and names of devices.
 *
 * Invariants of an entry that has been read:
 *
 *     the text of each name is not NULL
 *     in the strict syntax, no name is empty or contains a quotation mark
 *     in PyOpenCL's syntax, is_quoted is FALSE in each name */
typedef struct
{
  gchar *text; /* the whole entry as it was written, for messages */
  TarnSelectionName platform;
  GArray *devices; /* an array of TarnSelectionName; NULL if the entry chooses all devices */
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
