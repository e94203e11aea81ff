/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The page that shows a history: one HTML file without any other file. */

#ifndef PAGE_H
#define PAGE_H

#include "../trace/symbols.h"
#include "history.h"
#include "snapshot.h"

/* Makes the HTML.  @snapshot is the snapshot from which the recording was made, or NULL.  @name is
 * the page's title, and may be any text.  Free it with g_free (). */
gchar *page_make (const History *history, const Recording *recording, Symbols *symbols,
                  const Snapshot *snapshot, const gchar *name, GError **error);

#endif
