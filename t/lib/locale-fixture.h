/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Locales that a test needs, and machines usually lack. */

#ifndef LOCALE_FIXTURE_H
#define LOCALE_FIXTURE_H

#include <glib.h>

typedef struct
{
  gchar *folder; /* where locales are built; NULL: none was */
} Locale;

/* Has the process use a locale, which localedef builds if the machine does not have it; FALSE, with
 * a message, where that is not possible.  No other thread may be there. */
gboolean locale_set (Locale *locale, const gchar *name);

/* Goes back to the locale C. */
void locale_clear (Locale *locale);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Locale, locale_clear)

#endif
