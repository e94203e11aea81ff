/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What vector-expression needs of a driver: a backend is a struct of functions.  None of them knows
 * what is measured, or whether there is a pool. */

#ifndef VECTOR_EXPRESSION_H
#define VECTOR_EXPRESSION_H

#include <tarn/tarn.h>

#define PROGRAM "vector-expression"

/* Each has a kernel on each backend; all kernels take the same arguments, so that one function can
 * launch them. */
typedef enum
{
  RAMP, /* 1 + (i mod c) / 4096 */
  ADD,
  SUBTRACT,
  MULTIPLY,
  SCALE, /* by c */
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
  } id;               /* the backend's own */
  gchar selector[32]; /* what --select takes */
  gchar name[256];
  gboolean is_gpu;
  guint64 max_bytes;   /* of one allocation */
  guint64 total_bytes; /* of all */
} Device;

/* A device that is open: context, queue and kernels; the backend's own. */
typedef struct _Session Session;

struct _Backend
{
  const gchar *name;           /* what --backend takes */
  const gchar *without_device; /* what to say where there is none */

  /* Appends a Device for each of its devices; that there is none is not an error. */
  gboolean (*find_devices) (GArray *devices, GError **error);

  Session *(*open) (const Device *device, GError **error);
  void (*close) (Session *session);

  /* The driver's memory alone, and with a heap and a pool over it. */
  TarnAllocator *(*allocator_new) (Session *session, GError **error);
  TarnPool *(*pool_new) (Session *session, GError **error);

  /* Puts an operator on the queue, which is in order.  What it does not use is NULL or 0. */
  gboolean (*launch) (Session *session, Operator op, const TarnBlock *a, const TarnBlock *b,
                      gfloat c, const TarnBlock *out, guint64 length, GError **error);

  /* Waits for all that is on the queue. */
  gboolean (*finish) (Session *session, GError **error);

  /* Waits, too: bytes from offset on, of a vector. */
  gboolean (*read) (Session *session, const TarnBlock *vector, gsize offset, gsize size,
                    gpointer data, GError **error);
};

/* As far as they are built. */
extern const Backend cuda_backend, opencl_backend;

#endif
