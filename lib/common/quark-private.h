/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gets the quarks of error domains. */

#ifndef TARN_QUARK_PRIVATE_H
#define TARN_QUARK_PRIVATE_H

#include <glib.h>

/* Returns the quark of an error domain, and caches it in @known, which is initially 0.  GLib takes
 * a lock to look up a quark, and in a child of fork () that lock may stay locked for ever.  So a
 * process gets each quark once before its first driver call, and a child uses the cached quark. */
static inline GQuark
_tarn_quark (GQuark *known, const gchar *name)
{
  GQuark quark = __atomic_load_n (known, __ATOMIC_RELAXED);

  if (G_LIKELY (quark != 0))
    return quark;
  quark = g_quark_from_static_string (name);
  __atomic_store_n (known, quark, __ATOMIC_RELAXED);
  return quark;
}

#endif
