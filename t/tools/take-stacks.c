/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program whose functions only the debugging information names, for stacks in tools.
 * Lines that have a request, or a call that leads to one, are marked by a comment. */

#include <stdlib.h>
#include <tarn/testing.h>

#if defined(__clang__)
#define APART __attribute__ ((noinline))
#else
#define APART __attribute__ ((noinline, noclone))
#endif
#define TOGETHER static inline __attribute__ ((always_inline))

#define KIB ((gsize) 1 << 10)

/* Written after each call, so that none becomes a jump. */
static volatile guint n_done;
static TarnBlock *volatile block; /* the latest */

#ifdef REBUILT
/* Moves all that follows. */
static APART void
be_new (void)
{
  n_done += 1000;
}
#endif

static APART void
load_weights (TarnPool *pool)
{
  TARN_TAG_SCOPE ("weights");

  block = tarn_pool_allocate (pool, 4 * KIB, NULL); /* load_weights */
  n_done++;
}

TOGETHER void
make_plan (TarnPool *pool)
{
  TARN_TAG_SCOPE ("plan");

  block = tarn_pool_allocate (pool, 2 * KIB, NULL); /* make_plan */
  n_done++;
}

static APART void
run_network (TarnPool *pool)
{
  n_done++;
  make_plan (pool); /* run_network */
  n_done++;
}

static APART void
ask_for_too_much (TarnPool *pool)
{
  block = tarn_pool_allocate (pool, 1024 * KIB, NULL); /* ask_for_too_much */
  n_done++;
}

static APART G_GNUC_NORETURN void
finish (TarnPool *pool)
{
  TARN_TAG_SCOPE ("last");

  block = tarn_pool_allocate (pool, KIB, NULL); /* finish */
  exit (0);
}

/* Its last instruction is the call, whose return address is not its own. */
static APART G_GNUC_NORETURN void
end_by_call (TarnPool *pool)
{
  n_done++;
  finish (pool); /* end_by_call */
}

gint
main (void)
{
  TarnTestingDevice *device = tarn_testing_device_new (64 * KIB);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = tarn_pool_new (allocator, NULL, NULL);

#ifdef REBUILT
  be_new ();
#endif
  load_weights (pool); /* main */
  run_network (pool);
  ask_for_too_much (pool);
  end_by_call (pool);
}
