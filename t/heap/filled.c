/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools over heaps of one device, which is full (pool/reclaim-group-gpu.c does so on a GPU). */

#include "lib/filled.h"
#include "heap-fixture.h"

#define N_REQUESTS 2000
#define N_GRANULES 700

static void
test_requests_that_fit (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  FilledPart parts[3];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    filled_part_init (&parts[i], tarn_testing_pages_allocator_new (fixture->pages), group,
                      N_GRANULES * FILLED_GRANULE);
  tarn_testing_pages_set_budget (fixture->pages, N_GRANULES * FILLED_GRANULE);
  filled_run (parts, G_N_ELEMENTS (parts), N_GRANULES, N_REQUESTS);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    filled_part_clear (&parts[i]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("filled", test_requests_that_fit);
  return g_test_run ();
}
