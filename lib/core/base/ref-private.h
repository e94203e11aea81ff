/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * References to objects that other threads may be freeing. */

#ifndef TARN_REF_PRIVATE_H
#define TARN_REF_PRIVATE_H

#include <glib.h>

/* Takes a reference to an object.  If the object's last reference was already released, takes none,
 * and returns FALSE.  @ref_count: the number of the object's references, which is atomic. */
static inline gboolean
_tarn_try_ref (gint *ref_count)
{
  gint count = g_atomic_int_get (ref_count);

  while (count > 0 && !g_atomic_int_compare_and_exchange (ref_count, count, count + 1))
    count = g_atomic_int_get (ref_count);
  return count > 0;
}

#endif
