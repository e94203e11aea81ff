/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A model of a pool over a device with a budget of bytes.  It is written to be obviously right,
 * however slow, from the description of a pool's behaviour, not from the pool's code.  It calls no
 * device and no pool: a test makes each call on both and compares.  One thread may use it. */

#ifndef TARN_POOL_MODEL_H
#define TARN_POOL_MODEL_H

#include <tarn/tarn.h>

#define POOL_MODEL_MAX_BLOCKS 8192

typedef enum
{
  POOL_MODEL_GONE, /* a later block may stand in its place */
  POOL_MODEL_ACTIVE,
  POOL_MODEL_HELD
} PoolModelState;

typedef struct
{
  PoolModelState state;
  gsize size;       /* bytes of the latest request */
  gsize alloc_size; /* bytes behind it; not its bin's if it is an exact-size block */
  guint64 memory;   /* numbered from 0, in the order in which the device gave it */
  guint64 freed_at; /* greater: later */
} PoolModelBlock;

/* With all zero but the first four fields, that of a new pool. */
typedef struct
{
  guint leading_bits;
  guint64 bytes;     /* the device's budget; G_MAXUINT64, which never runs out */
  gsize max_size;    /* above which the device says TARN_ERROR_NOT_SUPPORTED; G_MAXSIZE: none */
  gsize limit_bytes; /* the pool's; 0: none */

  TarnPoolStats stats; /* after every operation */
  guint device_calls;  /* of the device's allocate, failed ones included */
  gsize last_size;     /* the last one requested from the device */

  gboolean stop_holding;
  guint64 clock;
  guint n_blocks;
  PoolModelBlock blocks[POOL_MODEL_MAX_BLOCKS];
} PoolModel;

/* Rounds a size up to that of its bin. */
gsize pool_model_round (gsize size, guint leading_bits);

/* Makes a request.  Returns a TarnError or POOL_MODEL_NO_ERROR.  A block stays where it is until it
 * is freed. */
gint pool_model_allocate (PoolModel *model, gsize size, PoolModelBlock **block);
void pool_model_free (PoolModel *model, PoolModelBlock *block);
void pool_model_trim (PoolModel *model, gsize keep_bytes);
void pool_model_stop_holding (PoolModel *model);

#define POOL_MODEL_NO_ERROR (-1)

#endif
