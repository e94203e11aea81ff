/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Locales for tests, which machines usually do not have. */

#ifndef LOCALE_FIXTURE_H
#define LOCALE_FIXTURE_H

#include <glib.h>

typedef struct
{
  gchar *folder; /* where locales are built; NULL: none was */
} Locale;

/* Sets the process's locale, which localedef builds if the machine does not have it.  Returns
 * FALSE, with a message, if that is not possible.  There must be no other thread. */
gboolean locale_set (Locale *locale, const gchar *name);

/* Sets the locale C again. */
void locale_clear (Locale *locale);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Locale, locale_clear)

#endif
