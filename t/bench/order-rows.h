/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the order of queues costs: rows of a table, the same for each backend. */

#ifndef ORDER_ROWS_H
#define ORDER_ROWS_H

#include <tarn/tarn.h>

#define ROUND_PAIRS 64 /* requests of a round, each freed at once; the most queues of a thread */
#define REQUEST_SIZE ((gsize) 64 << 10) /* bytes, where all are the same */

#define EXIT_WRONG 1
#define EXIT_USAGE 2
#define EXIT_SKIP 77 /* there is nothing to measure on */

/* One thread's part of a row. */
typedef struct
{
  TarnPool *pool;
  gpointer queues[ROUND_PAIRS]; /* in turn; the same one again where there are fewer */
  gsize sizes[ROUND_PAIRS];     /* bytes */
  GError *error;                /* that ended it */
} Lane;

/* ROUND_PAIRS requests and frees, or fewer with an error. */
typedef void (*Round) (Lane *lane);

typedef struct
{
  const gchar *program;
  const gchar *summary;        /* of --help: a line */
  const gchar *description;    /* of --help: how the device is chosen */
  const GOptionEntry *options; /* its own; NULL: none */
  const gchar *direct;         /* what the driver's own way is called; NULL: it has none */

  /* Opens the device, or ends the program.  The caller owns what it returns. */
  TarnAllocator *(*open) (void);
  void (*close) (void); /* nullable, as are enter and settle */
  gpointer (*queue_new) (void);
  void (*queue_free) (gpointer queue);
  void (*enter) (void);                 /* in each thread, first */
  void (*settle) (gpointer queue);      /* waits for all that is on it */
  const gchar *(*why_no_direct) (void); /* returns NULL: it can be measured; NULL: always */
  Round use_direct;
  guint (*count_calls) (void); /* of the driver so far; nullable; returns 0: it does not say */
} OrderBackend;

void G_GNUC_NORETURN order_end_with (int status, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* All of main (). */
int order_run (int argc, char **argv, const OrderBackend *backend);

#endif
