/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks and writes result files. */

#include "file.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static gboolean
refuse (GError **error, const gchar *option, const gchar *path, const gchar *why)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s %s: %s", option, path, why);
  return FALSE;
}

gboolean
file_is_same (const gchar *left, const gchar *right)
{
  GStatBuf left_status, right_status;

  return g_stat (left, &left_status) == 0 && g_stat (right, &right_status) == 0
         && left_status.st_dev == right_status.st_dev && left_status.st_ino == right_status.st_ino;
}

gboolean
file_check_writable (const gchar *option, const gchar *path, GError **error)
{
  g_autofree gchar *folder = g_path_get_dirname (path);
  g_autofree gchar *no_folder = g_strdup_printf ("there is no folder '%s'", folder);

  if (path[0] == '\0')
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s: there is no name", option);
      return FALSE;
    }
  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return refuse (error, option, path, "is a folder");
  if (g_file_test (path, G_FILE_TEST_EXISTS) && access (path, W_OK) != 0)
    return refuse (error, option, path, g_strerror (errno));
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE;
  if (!g_file_test (folder, G_FILE_TEST_IS_DIR))
    return refuse (error, option, path, no_folder);
  if (access (folder, W_OK | X_OK) != 0)
    return refuse (error, option, path, g_strerror (errno));
  return TRUE;
}

/* Writes a file without a temporary file.  This is for pipes and terminals, and for folders in
 * which no file can be created. */
static gboolean
write_in_place (const gchar *path, const gchar *text, GError **error)
{
  FILE *file = fopen (path, "w");
  gboolean is_written = file != NULL && fputs (text, file) >= 0;
  gint saved_errno = errno;

  if (file != NULL && fclose (file) != 0 && is_written)
    {
      is_written = FALSE;
      saved_errno = errno;
    }
  if (is_written)
    return TRUE;
  g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (saved_errno), "%s: %s", path,
               g_strerror (saved_errno));
  return FALSE;
}

gboolean
file_write (const gchar *path, const gchar *text, GError **error)
{
  g_autofree gchar *target = realpath (path, NULL); /* NULL: the file does not exist yet */
  g_autofree gchar *folder = g_path_get_dirname (target != NULL ? target : path);
  struct stat info;
  gint mode = 0666;

  if (target != NULL && stat (target, &info) == 0)
    {
      if (!S_ISREG (info.st_mode) || access (folder, W_OK) != 0)
        return write_in_place (target, text, error);
      mode = info.st_mode & 0777;
    }
  return g_file_set_contents_full (target != NULL ? target : path, text, -1,
                                   G_FILE_SET_CONTENTS_CONSISTENT, mode, error);
}
