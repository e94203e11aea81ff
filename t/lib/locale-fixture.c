/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "lib/locale-fixture.h"

#include <locale.h>
#include <string.h>

/* Builds "tr_TR.UTF-8" in a folder of its own. */
static gboolean
build (Locale *locale, const gchar *name)
{
  g_autofree gchar *source = g_strndup (name, strcspn (name, "."));
  g_autofree gchar *path = NULL;
  const gchar *argv[] = { "localedef", "-i", source, "-f", "UTF-8", NULL, NULL };
  gint status;

  locale->folder = g_dir_make_tmp ("tarn-locale-XXXXXX", NULL);
  g_assert_nonnull (locale->folder);
  argv[5] = path = g_build_filename (locale->folder, name, NULL);
  return g_spawn_sync (NULL, (gchar **) argv, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL
                           | G_SPAWN_STDERR_TO_DEV_NULL,
                       NULL, NULL, NULL, NULL, &status, NULL)
         && status == 0;
}

gboolean
locale_set (Locale *locale, const gchar *name)
{
  if (setlocale (LC_ALL, name) != NULL)
    return TRUE;
  if (build (locale, name))
    {
      g_setenv ("LOCPATH", locale->folder, TRUE);
      if (setlocale (LC_ALL, name) != NULL)
        return TRUE;
    }
  g_test_message ("there is no locale %s, and none can be built", name);
  return FALSE;
}

void
locale_clear (Locale *locale)
{
  const gchar *argv[] = { "rm", "-rf", locale->folder, NULL };

  setlocale (LC_ALL, "C");
  if (locale->folder == NULL)
    return;
  g_unsetenv ("LOCPATH");
  g_spawn_sync (NULL, (gchar **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL,
                NULL);
  g_clear_pointer (&locale->folder, g_free);
}
