/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of the kinds of platforms other than "opencl": "cuda", and kinds that backends add.  A
 * selection, such as 0:0;cuda:0, may have entries for several backends, each of which resolves the
 * whole selection with only its own platforms.  OpenCL's backend, for example, passes over cuda:0
 * because "cuda" is in the list, and does not look for an OpenCL platform of that name. */

#include "select/selection-private.h"

#include <string.h>

#define OPENCL "opencl"

static GSList cuda = { (gpointer) "cuda", NULL };
static GSList *kinds = &cuda; /* atomic; of strings; new ones become the head, none is removed */

gboolean
_tarn_selection_is_of_kind (const TarnSelectionPlatform *platform, const gchar *kind)
{
  return g_ascii_strcasecmp (platform->kind != NULL ? platform->kind : OPENCL, kind) == 0;
}

gboolean
_tarn_selection_is_opencl (const TarnSelectionPlatform *platform)
{
  return _tarn_selection_is_of_kind (platform, OPENCL);
}

gboolean
_tarn_selection_is_kind (const gchar *name)
{
  for (const GSList *link = g_atomic_pointer_get (&kinds); link != NULL; link = link->next)
    if (g_ascii_strcasecmp (link->data, name) == 0)
      return TRUE;
  return FALSE;
}

void
tarn_selection_add_kind (const gchar *kind)
{
  GSList *link;

  g_return_if_fail (kind != NULL && g_ascii_isalpha (kind[0]));
  g_return_if_fail (kind[strspn (kind, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-")] == '\0');

  if (_tarn_selection_is_kind (kind) || g_ascii_strcasecmp (kind, OPENCL) == 0)
    return;
  link = g_slist_prepend (NULL, g_strdup (kind));
  do
    link->next = g_atomic_pointer_get (&kinds);
  while (!g_atomic_pointer_compare_and_exchange (&kinds, link->next, link));
}
