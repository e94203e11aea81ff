/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The driver under a CUDA test, the fake one or a real one, and what tests have it do. */

#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <tarn/cuda.h>

#include "cuda/driver-private.h"
#include "testing/cuda/fake-cuda.h"

/* More bytes than any device has that a process of this pointer size can use, and a multiple of
 * every granularity. */
#define CUDA_TOO_MANY_BYTES (sizeof (gsize) > 4 ? G_MAXSIZE / 4 + 1 : (G_MAXSIZE / 32 + 1) * 15)

/* NULL: it is a real one.  Each of driver-*.c has it; the rest is in driver.c. */
const TarnTestingCuda *cuda_get_fake (void);

const TarnCudaDriver *cuda_get_driver (void);
CUcontext cuda_get_current (void);

/* A context that is not current in this thread. */
CUcontext cuda_context_new (CUdevice device);
void cuda_context_destroy (CUcontext context);

/* Tells whether the driver can tell a context from a later one at its address.  FALSE: the test is
 * skipped. */
gboolean cuda_can_tell_contexts (void);

/* Gets the number of entries that a memo keeps. */
gsize cuda_memo_count_entries (TarnMemo *memo);

/* One of the three kinds of memory; it may fail. */
TarnAllocator *cuda_allocator_new (TarnTestingCudaKind kind, CUcontext context, GError **error);

/* For a hook, which must call it for each call of the driver.  Tells whether the host waits in this
 * call: for an event, or for all streams, as when memory is freed right after it was allocated. */
gboolean cuda_is_wait (const gchar *function);

/* The error is of the call that was made to fail with this status; it names that one unless others
 * fail for ever after it, of which each can be the reason. */
void cuda_assert_blamed (const GError *error, const gchar *failed, guint status, gboolean for_ever);

#endif
