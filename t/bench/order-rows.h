/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of ordering by queue, as rows of a table that are the same for each backend. */

#ifndef ORDER_ROWS_H
#define ORDER_ROWS_H

#include <tarn/tarn.h>

#define ROUND_PAIRS                                                                                \
  64 /* requests in a round, each freed at once; also the most queues of a thread */
#define REQUEST_SIZE ((gsize) 64 << 10) /* bytes, if all requests have the same size */

#define EXIT_WRONG 1
#define EXIT_USAGE 2
#define EXIT_SKIP 77 /* there is no device */

/* A thread's part of a row. */
typedef struct
{
  TarnPool *pool;
  gpointer queues[ROUND_PAIRS]; /* used in turn; repeated if there are fewer */
  gsize sizes[ROUND_PAIRS];     /* bytes */
  GError *error;                /* the one that ended it; nullable */
} Lane;

/* Makes ROUND_PAIRS requests and frees, or fewer with an error. */
typedef void (*Round) (Lane *lane);

typedef struct
{
  const gchar *program;
  const gchar *summary;        /* a line for --help */
  const gchar *description;    /* for --help: how the device is selected */
  const GOptionEntry *options; /* its own; NULL: none */
  const gchar *direct;         /* the name of the driver's own way; NULL: it has none */

  /* Opens the device, or ends the program.  The caller owns what it returns. */
  TarnAllocator *(*open) (void);
  void (*close) (void); /* nullable, as are enter and settle */
  gpointer (*queue_new) (void);
  void (*queue_free) (gpointer queue);
  void (*enter) (void);                 /* in each thread, first */
  void (*settle) (gpointer queue);      /* waits for all work on it */
  const gchar *(*why_no_direct) (void); /* returns why it cannot be measured, or NULL; nullable */
  Round use_direct;
  guint (*count_calls) (
      void); /* driver calls so far; nullable; returns 0 if they are not counted */
} OrderBackend;

void G_GNUC_NORETURN order_end_with (int status, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Does everything that main () does. */
int order_run (int argc, char **argv, const OrderBackend *backend);

#endif
