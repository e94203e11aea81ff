/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "lib/place.h"

#include <glib/gstdio.h>

void
place_init (Place *place, const gchar *name)
{
  g_autoptr (GError) error = NULL;

  place->folder = g_dir_make_tmp ("tarn-XXXXXX", &error);
  g_assert_no_error (error);
  place->path = g_build_filename (place->folder, name, NULL);
}

void
place_clear (Place *place)
{
  if (place->folder == NULL)
    return;
  g_unlink (place->path);
  g_assert_cmpint (g_rmdir (place->folder), ==, 0);
  g_free (place->path);
  g_free (place->folder);
}
