/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of the kinds of platforms that a selection can name: "cuda", and kinds that backends
 * add.  The kind "opencl" is not in the list.
 *
 * A selection is a text that chooses devices, such as 0:0;cuda:0.  It may have entries for several
 * backends.  Each backend resolves the whole selection with its own platforms only, and skips
 * entries for other backends.  OpenCL's backend, for example, skips cuda:0 because "cuda" is in the
 * list, and does not look for an OpenCL platform of that name. */

#include "select/selection-private.h"

#include <string.h>

#define OPENCL "opencl"

static GSList cuda = { (gpointer) "cuda", NULL };
/* Atomic: the list of the kinds of platforms, except "opencl".  A kind is a string, for example
 * "cuda".  A new kind becomes the head of the list.  No kind is ever removed. */
static GSList *kinds = &cuda;

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

/* Returns TRUE if a name is nearly equal to a kind: one character is missing, added or different,
 * or two neighbouring characters have changed places.  Ignores case.  Returns FALSE for kinds of
 * one or two letters, because many names of platforms would be nearly equal to such a short
 * kind. */
gboolean
_tarn_selection_is_almost (const gchar *kind, const gchar *name)
{
  g_autofree gchar *left = g_ascii_strdown (kind, -1), *right = g_ascii_strdown (name, -1);
  const gchar *a = left, *b = right;
  gsize n_a, n_b;

  if (strlen (a) < 3)
    return FALSE;
  for (; *a != '\0' && *a == *b; a++)
    b++;
  n_a = strlen (a);
  n_b = strlen (b);
  for (; n_a > 0 && n_b > 0 && a[n_a - 1] == b[n_b - 1]; n_a--)
    n_b--;
  if (n_a == 2 && n_b == 2)
    return a[0] == b[1] && a[1] == b[0];
  return n_a <= 1 && n_b <= 1 && n_a + n_b > 0;
}

/* Returns a kind in the list to which a name is nearly equal, as _tarn_selection_is_almost () says.
 * Returns NULL if the list has no such kind. */
const gchar *
_tarn_selection_find_almost (const gchar *name)
{
  for (const GSList *link = g_atomic_pointer_get (&kinds); link != NULL; link = link->next)
    if (_tarn_selection_is_almost (link->data, name))
      return link->data;
  return NULL;
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
