/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared by the tests of memory of CUDA graphs (graphs.c, graphs-*.c): a pool with two streams,
 * captures and their memory, blocks. */

#ifndef CUDA_GRAPHS_FIXTURE_H
#define CUDA_GRAPHS_FIXTURE_H

#include <tarn/heap.h>

#include "order-fixture.h"

#define MIB ((gsize) 1 << 20)
#define N_BLOCKS 16
#define GLOBAL_MODE 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL; 1 is _THREAD_LOCAL */
#define THREAD_LOCAL_MODE 1

/* Where a pool has its memory from. */
typedef enum
{
  HEAP,  /* as tarn_cuda_pool_new () makes it */
  WHOLE, /* the driver, block for block */
  HOST,  /* page-locked memory, over a heap */
  N_WAYS
} Way;

typedef struct
{
  const TarnCudaTest *test;
  Way way;
  TarnPool *pool; /* with TARN_POOL_FINDABLE; NULL: it was dropped */
  CUstream a, b;  /* neither waits for the default stream */
  guint
      live[TARN_TESTING_CUDA_MAPPING + 1]; /* what there was before, as failing calls leave some */
} World;

/* The world has a pool of its own; clearing it checks that nothing is left in the driver. */
void world_init (World *world, const TarnCudaTest *test, Way way);
void world_clear (World *world);

TarnPool *host_pool_new (const TarnCudaTest *test, const TarnPoolOptions *options, GError **error);

/* Gets the bytes that are in use: those of graphs, too, which a heap may have lent. */
gsize get_used (TarnPool *pool);

/* Memory of a graph.  These three end the test if they fail. */
guint64 begin_memory (TarnPool *pool, CUstream stream);
void end_memory (TarnPool *pool, guint64 graph);
void release_memory (TarnPool *pool, guint64 graph);

/* Begins memory and capture, in the global mode; ends the capture, which nothing has ended before;
 * ends both. */
guint64 begin_graph (TarnPool *pool, CUstream stream);
void end_capture (CUstream stream);
void end_graph (TarnPool *pool, guint64 graph, CUstream stream);

/* Has a stream wait for another, which puts it into the capture of that one. */
void follow (CUstream stream, CUstream other);

TarnBlock *take_block (TarnPool *pool, gsize size, CUstream stream);
gboolean overlap (guint64 a, gsize a_size, guint64 b, gsize b_size);

/* Takes and gives back memory of many sizes on a stream; none of it is at these addresses. */
void assert_apart (TarnPool *pool, CUstream stream, const guint64 *addresses, guint n, gsize size);

/* Adds a test graphs/PATH/WAY for each way before @end; the test is given the way. */
void add_ways (const gchar *path, TarnCudaTestFunc func, Way end);

#endif
