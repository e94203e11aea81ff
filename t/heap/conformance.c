/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What every kind of memory must do, over heaps on a device that is a table. */

#include <tarn/testing.h>

#include "lib/conformance.h"

static gpointer
open_parts (gconstpointer unused, gchar **reason)
{
  (void) unused;
  (void) reason;
  return tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_PARTS);
}

static gpointer
open_virtual (gconstpointer unused, gchar **reason)
{
  (void) unused;
  (void) reason;
  return tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_VIRTUAL);
}

static gpointer
open_addresses (gconstpointer unused, gchar **reason)
{
  (void) unused;
  (void) reason;
  return tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_ADDRESSES);
}

static void
close_pages (gpointer state)
{
  tarn_testing_pages_free (state);
}

static TarnAllocator *
pages_allocator_new (gpointer state, GError **error)
{
  (void) error;
  return tarn_testing_pages_allocator_new (state);
}

static void
fail (gpointer state, guint nth, gboolean for_ever)
{
  tarn_testing_pages_fail (state, nth, for_ever);
}

static gboolean
stop_failing (gpointer state)
{
  gboolean failed = tarn_testing_pages_has_failed (state);

  tarn_testing_pages_fail (state, 0, FALSE);
  return failed;
}

static guint
live (gpointer state)
{
  return (guint) (tarn_testing_pages_get_used_bytes (state) > 0)
         + tarn_testing_pages_get_reserved (state);
}

#define BACKEND(open_it)                                                                           \
  {                                                                                                \
    .open = open_it, .close = close_pages, .allocator_new = pages_allocator_new, .fail = fail,     \
    .stop_failing = stop_failing, .live = live,                                                    \
  }

int
main (int argc, char **argv)
{
  static const Backend of_parts = BACKEND (open_parts), of_virtual = BACKEND (open_virtual),
                       of_addresses = BACKEND (open_addresses);

  g_test_init (&argc, &argv, NULL);
  conformance_add_over_heap ("/core/heap/parts/conformance", &of_parts);
  conformance_add_over_heap ("/core/heap/virtual/conformance", &of_virtual);
  conformance_add_over_heap ("/core/heap/addresses/conformance", &of_addresses);
  return g_test_run ();
}
