/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of memory that are measured, and where it comes from. */

#ifndef KINDS_H
#define KINDS_H

#include <tarn/tarn.h>

#include "../devices.h"

/* What the kinds of one driver share. */
typedef struct
{
  const gchar *name; /* as Device.kind has it */
  /* Stores what make() takes. */
  gboolean (*open) (const Device *device, gpointer *handle, GError **error);
  void (*close) (gpointer handle);
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
  TarnAllocator *allocator; /* what pools are made over */
} Source;

extern const Kind kinds[];
extern const gsize n_kinds;

/* NULL with an error: TARN_ERROR_NOT_SUPPORTED where the device or the driver has no such memory.
 */
Source *source_open (const Kind *kind, const Device *device, GError **error);
void source_close (Source *source);
const gchar *source_get_place (const Source *source);

/* Another allocator for pools, which has nothing as yet; a reference. */
TarnAllocator *source_make_allocator (const Source *source, GError **error);

/* Memory that is a counter: what a pool over it costs is the pool's own.  It has that many bytes,
 * 0: as many as are asked for; and virtual memory, or else parts. */
TarnAllocator *counter_new (gsize budget, gboolean is_virtual);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Source, source_close)

#endif
