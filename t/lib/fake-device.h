/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A device that is a table: a budget of bytes, a ledger of what is allocated, and calls that fail
 * on demand.  Any thread may use it.  Mistakes of whoever allocates from it end the test: a free of
 * what is not allocated, or with another size; a leak, when the device is freed. */

#ifndef TARN_FAKE_DEVICE_H
#define TARN_FAKE_DEVICE_H

#include <tarn/tarn.h>

typedef struct _FakeDevice FakeDevice;

/* @bytes may be G_MAXUINT64, which never runs out. */
FakeDevice *fake_device_new (guint64 bytes);
void fake_device_free (FakeDevice *device);

/* The device must outlive it.  Memory is an address that was never handed out before. */
TarnAllocator *fake_device_allocator_new (FakeDevice *device);

void fake_device_set_budget (FakeDevice *device, guint64 bytes);

/* Requests above @size fail with TARN_ERROR_NOT_SUPPORTED, which is not out-of-memory. */
void fake_device_set_max_size (FakeDevice *device, gsize size);

/* What the allocator's own reclaim function does. */
void fake_device_set_reclaim (FakeDevice *device, gboolean (*func) (gpointer), gpointer user_data);

/* The nth call from now on that allocates fails with out-of-memory, 1 being the next one; if
 * @for_ever, so do all that follow.  0: none fails. */
void fake_device_fail (FakeDevice *device, guint nth, gboolean for_ever);
gboolean fake_device_has_failed (FakeDevice *device); /* whether that came to pass */

/* Called by every free, with no lock held, before the memory counts as free; NULL: nothing. */
void fake_device_set_free_hook (FakeDevice *device, void (*func) (gpointer), gpointer user_data);

guint64 fake_device_get_used_bytes (FakeDevice *device);
guint fake_device_get_live (FakeDevice *device);           /* allocations not freed */
guint fake_device_get_allocate_calls (FakeDevice *device); /* failing ones included */
guint fake_device_get_free_calls (FakeDevice *device);
gsize fake_device_get_last_size (FakeDevice *device); /* that allocate was called with */

/* An allocator whose memory is always NULL, in as far as its functions go. */
void nothing_ops_init (TarnAllocatorOps *ops);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FakeDevice, fake_device_free)

#endif
