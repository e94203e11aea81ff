/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Quarks of error domains. */

#ifndef TARN_QUARK_PRIVATE_H
#define TARN_QUARK_PRIVATE_H

#include <glib.h>

/* Gets a quark, and caches it in @known, which is 0 at first.  GLib takes a lock each time that it
 * looks up a quark, and in a child of fork () that lock may be held for ever.  So the process looks
 * it up once, before it first calls a driver. */
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
