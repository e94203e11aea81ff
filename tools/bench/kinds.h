/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of memory that are measured, and their sources. */

#ifndef KINDS_H
#define KINDS_H

#include <tarn/tarn.h>

#include "../devices.h"
#include "simulated-queues.h"

/* A backend: functions that all kinds of memory of one driver share. */
typedef struct
{
  const gchar *name; /* the Device.kind of the backend's devices */
  /* Opens a device.  Stores the handle that make () and the other functions get. */
  gboolean (*open) (const Device *device, gpointer *handle, GError **error);
  void (*close) (gpointer handle);
  /* Creates an in-order queue, which never gets work.  Call it in the thread that called open
   * (). */
  gpointer (*queue_new) (gpointer handle, GError **error);
  void (*queue_free) (gpointer handle, gpointer queue);
} Backend;

/* A kind of memory, such as "cuda-device+heap". */
typedef struct
{
  const gchar *name;
  const Backend *backend; /* NULL: the kind needs no device */
  TarnAllocator *(*make) (gpointer handle, GError **error);
  void (*enter) (gpointer handle); /* nullable: called in each thread before it allocates */
  /* The driver has its own pool for this kind, so no pool of Tarn is put over it. */
  gboolean is_pool;
  gboolean has_heap; /* a heap is between the pool and the driver */
} Kind;

/* A source: a kind of memory of a device. */
typedef struct
{
  const Kind *kind;
  const Device *device; /* NULL: the kind needs no device */
  gpointer handle;
  TarnAllocator *driver;
  TarnAllocator *allocator; /* the upstream of pools: the driver, or a heap */
  GPtrArray *queues;        /* the queues that source_get_queue () has created */
  /* The queues of a kind that needs no device.  NULL: the kind has a device, or queues are not
   * used. */
  SimulatedQueues *simulated;
} Source;

extern const Kind kinds[];
extern const gsize n_kinds;

/* Opens a source.  Returns NULL with TARN_ERROR_NOT_SUPPORTED if the device or the driver has no
 * such memory, or with another error.  If @has_queues, a kind that needs no device gets simulated
 * queues.  On these queues, the device is @lag steps (events of a trace or of a recording) behind
 * the host. */
Source *source_open (const Kind *kind, const Device *device, gboolean has_queues, guint64 lag,
                     GError **error);
void source_close (Source *source);
/* Returns Device.place of the source's device, such as "cuda:0", or "none" if the source has no
 * device. */
const gchar *source_get_place (const Source *source);

/* Creates another, empty heap for pools.  If the kind has no heap, returns a new reference to the
 * driver's allocator instead. */
TarnAllocator *source_make_allocator (const Source *source, GError **error);

/* Returns the queue with this index.  The source owns the queue.  Creates the queue if there is
 * none yet.  Call it in the thread that opened the source. */
gpointer source_get_queue (const Source *source, guint index, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Source, source_close)

#endif
