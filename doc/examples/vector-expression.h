/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The driver interface of vector-expression: a backend is a struct of functions.  None of them
 * knows what is measured, or whether there is a pool. */

#ifndef VECTOR_EXPRESSION_H
#define VECTOR_EXPRESSION_H

#include <tarn/tarn.h>

#define PROGRAM "vector-expression"

/* The operators.  Each has a kernel on each backend.  All kernels take the same arguments, so that
 * one function can launch them. */
typedef enum
{
  RAMP, /* 1 + (i mod c) / 4096 */
  ADD,
  SUBTRACT,
  MULTIPLY,
  SCALE, /* c x */
  SQUARE_ROOT,
  N_OPERATORS
} Operator;

typedef struct _Backend Backend;

typedef struct
{
  const Backend *backend;
  union
  {
    gpointer pointer;
    guint number;
  } id;               /* known to the backend only */
  gchar selector[32]; /* the argument of --select */
  gchar name[256];
  gboolean is_gpu;
  guint64 max_bytes;   /* the most for one allocation */
  guint64 total_bytes; /* the most for all allocations */
} Device;

/* An open device: context, queue and kernels.  Each backend defines it. */
typedef struct _Session Session;

struct _Backend
{
  const gchar *name;           /* the argument of --backend */
  const gchar *without_device; /* the message if there is none */

  /* Appends a Device for each device of the backend; none is not an error. */
  gboolean (*find_devices) (GArray *devices, GError **error);

  Session *(*open) (const Device *device, GError **error);
  void (*close) (Session *session);

  /* Make an allocator of the driver's memory, and a pool over a heap over it. */
  TarnAllocator *(*allocator_new) (Session *session, GError **error);
  TarnPool *(*pool_new) (Session *session, GError **error);

  /* Enqueues an operator on the in-order queue.  Arguments that it does not use are NULL or 0. */
  gboolean (*launch) (Session *session, Operator op, const TarnBlock *a, const TarnBlock *b,
                      gfloat c, const TarnBlock *out, guint64 length, GError **error);

  /* Waits for all commands on the queue. */
  gboolean (*finish) (Session *session, GError **error);

  /* Reads bytes of a vector from an offset on, and waits for them. */
  gboolean (*read) (Session *session, const TarnBlock *vector, gsize offset, gsize size,
                    gpointer data, GError **error);
};

/* Only those that are built. */
extern const Backend cuda_backend, opencl_backend;

#endif
