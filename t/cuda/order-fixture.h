/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the tests of CUDA's ordered memory share: the driver's functions that Tarn has no business
 * with, streams that can be held up, and blocks that are written on them. */

#ifndef CUDA_ORDER_FIXTURE_H
#define CUDA_ORDER_FIXTURE_H

#include "common/lock-private.h"
#include "driver.h"
#include "pool/pool-private.h"

/* X (name, "symbol", arguments) */
#define ORDER_FUNCTIONS(X)                                                                         \
  X (cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                    \
  X (cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                     \
  X (cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                \
  X (cuCtxSynchronize, "cuCtxSynchronize", (void) )                                                \
  X (cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, unsigned int mode))        \
  X (cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, unsigned int *capturing))       \
  X (cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                 \
  X (cuGraphDestroy, "cuGraphDestroy", (CUgraph graph))                                            \
  X (cuLaunchHostFunc, "cuLaunchHostFunc",                                                         \
     (CUstream stream, void (*function) (void *), void *data))                                     \
  X (cuMemsetD32Async, "cuMemsetD32Async",                                                         \
     (CUdeviceptr to, unsigned int value, size_t n, CUstream stream))                              \
  X (cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t size))                   \
  X (cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                    \
     (void *to, CUdeviceptr from, size_t size, CUstream stream))

typedef struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  ORDER_FUNCTIONS (X)
#undef X
} OrderDriver;

extern const TarnTestingCuda *fake; /* NULL: it is a real one */
extern OrderDriver cuda;            /* what Tarn does not call */
extern const TarnCudaDriver *tarn;  /* what it does */

#define ASSERT_STATUS(call, status) g_assert_cmpuint (call, ==, status)
#define SUCCEED(call) ASSERT_STATUS (call, FAKE_CUDA_SUCCESS)

#define LEGACY ((CUstream) GUINT_TO_POINTER (1))     /* CU_STREAM_LEGACY */
#define PER_THREAD ((CUstream) GUINT_TO_POINTER (2)) /* CU_STREAM_PER_THREAD */

/* In main (), before the tests run; both drivers above are there for the first fixture. */
void order_init (const TarnTestingCuda *driver);

/* Finds both, for a test without a fixture. */
void order_load (void);

/* NULL where the driver has none of that name. */
gpointer order_find_function (const gchar *symbol);

/* What holds a stream up, from gate_close () to gate_open (); it can be closed again once the
 * stream has gone on. */
typedef struct
{
  TarnMutex lock;
  TarnCond changed;
  gboolean is_open;
} Gate;

void gate_init (Gate *gate);
void gate_close (Gate *gate, CUstream stream);
void gate_open (Gate *gate);
void gate_clear (Gate *gate);

#define SIZE 65536 /* bytes, of blocks in tests */
#define OTHER_SIZE 1000

typedef struct
{
  const TarnCudaTest *test;
  TarnTestingCudaKind kind;
  TarnAllocator *allocator;
  TarnPool *pool;
  CUstream a, b, c; /* of the test's context; none waits for another, nor for the default stream */
  CUstream apart;   /* used for nothing but the next one */
  CUdeviceptr own;  /* SIZE bytes without a pool */
  Gate gate;
} Fixture;

/* Streams that a test destroys it sets to NULL. */
void fixture_init (Fixture *fixture, const TarnCudaTest *test, TarnTestingCudaKind kind);
void fixture_clear (Fixture *fixture);

CUstream order_stream_new (void);
void order_stream_free (CUstream stream);

/* Blocks of the fixture's pool, which have to be there. */
TarnBlock *take (Fixture *fixture, gsize size, CUstream stream);
void use_once (Fixture *fixture, gsize size, CUstream stream);

guint64 get_address (const TarnBlock *block);

/* All of the block's bytes; and the word that it begins with, when nothing is on a stream. */
void put_write (const TarnBlock *block, guint value, CUstream stream);
guint read_word (const Fixture *fixture, const TarnBlock *block);

void assert_valid (TarnPool *pool);
void assert_runs (const Fixture *fixture); /* the device, whatever streams are held up */
void assert_idle (CUstream stream);
void assert_waits (const Fixture *fixture, CUstream stream); /* what is put on it does */
guint64 get_queue_waits (const Fixture *fixture);
guint64 get_misses (const Fixture *fixture);

/* As in lib/conformance.h: frees of a size record events from here on. */
void hand_on (TarnPool *pool, gsize size);

#endif
