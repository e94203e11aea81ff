/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Maps files, and reports a file that is cut while it is read: the kernel then sends SIGBUS. */

#include "map.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct
{
  const gchar *start;
  gsize size;
  gchar *message; /* the program prints this text if another program cuts the file */
} Map;

static GArray *maps; /* an array of Map; entries stay until the program ends */

static void
print (const gchar *message)
{
  gsize left = strlen (message);
  gssize n;

  while (left > 0 && (n = write (STDERR_FILENO, message, left)) > 0)
    {
      message += n;
      left -= (gsize) n;
    }
}

/* Ends the program with a message if the address is in a mapped file.  Otherwise the access is
 * repeated after this handler, and SIGBUS ends the program. */
static void
on_bus (gint number, siginfo_t *info, gpointer context)
{
  const gchar *address = info->si_addr;

  (void) context;
  for (guint i = 0; i < maps->len; i++)
    {
      const Map *map = &g_array_index (maps, Map, i);

      if (address < map->start || address >= map->start + map->size)
        continue;
      print (map->message);
      _exit (EXIT_FAILURE);
    }
  signal (number, SIG_DFL);
}

static void
add (const gchar *path, gconstpointer start, gsize size)
{
  Map map = { start, size, NULL };

  if (maps == NULL)
    {
      struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

      maps = g_array_new (FALSE, FALSE, sizeof (Map));
      sigaction (SIGBUS, &action, NULL);
    }
  map.message
      = g_strdup_printf ("%s: %s became shorter while it was read\n", g_get_prgname (), path);
  g_array_append_val (maps, map);
}

/* Refuses folders, pipes and devices: g_mapped_file_new () would fail for them without a clear
 * reason. */
static gboolean
check_regular (const gchar *path, GError **error)
{
  GStatBuf info;

  if (g_stat (path, &info) != 0 || S_ISREG (info.st_mode))
    return TRUE; /* if g_stat () failed, g_mapped_file_new () reports the error */
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: %s", path,
               S_ISDIR (info.st_mode) ? "is a folder" : "is not a regular file");
  return FALSE;
}

GBytes *
map_file (const gchar *path, GError **error)
{
  g_autoptr (GMappedFile) file = NULL;
  GBytes *bytes;
  gconstpointer start;
  gsize size;

  if (!check_regular (path, error) || (file = g_mapped_file_new (path, FALSE, error)) == NULL)
    return NULL;
  bytes = g_mapped_file_get_bytes (file);
  start = g_bytes_get_data (bytes, &size);
  if (size > 0)
    add (path, start, size);
  return bytes;
}
