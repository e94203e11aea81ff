/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Asks Linux for the processor's model. */

#include "machine.h"

#include <string.h>
#include <sys/utsname.h>

/* Reads the model of the processor from /proc/cpuinfo.  Returns NULL if the file does not have
 * it. */
static gchar *
read_model (void)
{
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (!g_file_get_contents ("/proc/cpuinfo", &text, NULL, NULL))
    return NULL;
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const gchar *colon = strchr (lines[i], ':');

      if (colon != NULL && g_str_has_prefix (lines[i], "model name"))
        return g_strstrip (g_strdup (colon + 1));
    }
  return NULL;
}

gchar *
machine_describe (void)
{
  g_autofree gchar *model = read_model ();
  struct utsname names;
  guint n = g_get_num_processors ();

  if (model == NULL)
    model = g_strdup (uname (&names) >= 0 ? names.machine : "unknown processor");
  return g_strdup_printf ("%s, %u processor%s", model, n, n == 1 ? "" : "s");
}
