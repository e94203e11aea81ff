/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The page that shows a history: one file, with all that it needs in it. */

#ifndef PAGE_H
#define PAGE_H

#include "history.h"
#include "snapshot.h"

/* Makes the HTML.  snapshot: that the recording was made of, or NULL.  name: what the page is of;
 * any text.  Free it with g_free (). */
gchar *page_make (const History *history, const Recording *recording, const Snapshot *snapshot,
                  const gchar *name, GError **error);

#endif
