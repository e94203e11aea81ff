/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of memory that are measured, and where it comes from. */

#ifndef KINDS_H
#define KINDS_H

#include <tarn/tarn.h>

#include "../devices.h"
#include "simulated-queues.h"

/* What the kinds of one driver share. */
typedef struct
{
  const gchar *name; /* as Device.kind has it */
  /* Stores what make() takes. */
  gboolean (*open) (const Device *device, gpointer *handle, GError **error);
  void (*close) (gpointer handle);
  /* In the thread that called open (): an in-order queue, on which nothing is ever put. */
  gpointer (*queue_new) (gpointer handle, GError **error);
  void (*queue_free) (gpointer handle, gpointer queue);
} Backend;

typedef struct
{
  const gchar *name;
  const Backend *backend; /* NULL: it needs no device */
  TarnAllocator *(*make) (gpointer handle, GError **error);
  void (*enter) (gpointer handle); /* nullable: called in each thread before it allocates */
  gboolean is_pool;  /* the driver's own pool: measured by itself, and not below Tarn's */
  gboolean has_heap; /* a heap is between the pool and the driver */
} Kind;

/* A kind of memory of a device. */
typedef struct
{
  const Kind *kind;
  const Device *device; /* NULL: it needs none */
  gpointer handle;
  TarnAllocator *driver;
  TarnAllocator *allocator;   /* what pools are made over */
  GPtrArray *queues;          /* as far as they were asked for */
  SimulatedQueues *simulated; /* for memory that needs no device; NULL: it has no queues */
} Source;

extern const Kind kinds[];
extern const gsize n_kinds;

/* NULL with an error: TARN_ERROR_NOT_SUPPORTED where the device or the driver has no such memory.
 * Memory that needs no device has simulated queues if @has_queues, which are @lag steps late. */
Source *source_open (const Kind *kind, const Device *device, gboolean has_queues, guint64 lag,
                     GError **error);
void source_close (Source *source);
const gchar *source_get_place (const Source *source);

/* Another allocator for pools, which has nothing as yet; a reference. */
TarnAllocator *source_make_allocator (const Source *source, GError **error);

/* The queue of this index, which the source keeps: the same one each time.  In the thread that
 * opened the source. */
gpointer source_get_queue (const Source *source, guint index, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Source, source_close)

#endif
