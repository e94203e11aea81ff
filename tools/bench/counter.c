/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A counter: a fake allocator that only counts bytes, and makes up addresses. */

#include "counter.h"

#define PART_ALIGNMENT 128 /* the alignment of sub-buffers in bytes, if the options set none */
#define MAX_PART_ALIGNMENT 4096
#define MAX_METERED (G_MAXSIZE / 4) /* the most bytes that a meter counts (meter_add ()) */

/* The most bytes of virtual memory that a counter without a budget has: 16 TiB, more than any
 * device.  For a huge request, a heap maps one segment after another until the counter refuses
 * one.  With a limit of 2^59 bytes, that would take for ever. */
#define MAX_VIRTUAL ((gsize) MIN ((guint64) 1 << 44, G_MAXSIZE / 4))

/* A counter: a fake allocator that only counts bytes.  Several counters can share a meter, which
 * then counts the bytes of all of them.  The field all_queues has the queues on which
 * TarnAllocatorOps.event_record_all records an event. */
typedef struct
{
  gsize budget; /* the most bytes that may be allocated; 0: no limit; atomic */
  gsize used;   /* bytes that are allocated; atomic */
  /* Atomic: the size of the address range that has been used up so far.  Addresses are never
   * reused. */
  guint64 reserved;
  gsize granularity;
  Meter *meter;                /* nullable */
  SimulatedQueues *all_queues; /* nullable */
} Counter;

/* Adds bytes to a meter, and returns TRUE.  Returns FALSE if the meter would then have more than
 * MAX_METERED bytes: a damaged recording may ask for any number of bytes, but sums of the bytes in
 * use must not overflow. */
static gboolean
meter_add (Meter *meter, gsize size)
{
  gsize used = __atomic_load_n (&meter->used, __ATOMIC_RELAXED);
  gsize peak = __atomic_load_n (&meter->peak, __ATOMIC_RELAXED);

  do
    if (size > MAX_METERED - used)
      return FALSE;
  while (!__atomic_compare_exchange_n (&meter->used, &used, used + size, FALSE, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED));
  used += size;
  while (peak < used
         && !__atomic_compare_exchange_n (&meter->peak, &peak, used, FALSE, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
    ;
  return TRUE;
}

/* Makes up an address for @size bytes of new memory, and returns it.  Leaves unused addresses after
 * the memory, so that no memory begins where other memory ends. */
static guint64
take_addresses (Counter *counter, gsize size)
{
  gsize unit = MAX (counter->granularity, MAX_PART_ALIGNMENT);
  guint64 rounded = (size + unit) & ~(guint64) (unit - 1);

  return unit + __atomic_fetch_add (&counter->reserved, rounded, __ATOMIC_RELAXED);
}

static gboolean
refuse (gsize size, GError **error)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "there are fewer than %" G_GSIZE_FORMAT " bytes left", size);
  return FALSE;
}

static gboolean
counter_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  Counter *counter = user_data;
  gsize used = __atomic_add_fetch (&counter->used, size, __ATOMIC_RELAXED);
  gsize budget = __atomic_load_n (&counter->budget, __ATOMIC_RELAXED);

  if ((budget == 0 || used <= budget)
      && (counter->meter == NULL || meter_add (counter->meter, size)))
    {
      memory->address = take_addresses (counter, size);
      return TRUE;
    }
  __atomic_sub_fetch (&counter->used, size, __ATOMIC_RELAXED);
  return refuse (size, error);
}

static void
counter_free (gpointer user_data, TarnMemory memory, gsize size)
{
  Counter *counter = user_data;

  (void) memory;
  __atomic_sub_fetch (&counter->used, size, __ATOMIC_RELAXED);
  if (counter->meter != NULL)
    __atomic_sub_fetch (&counter->meter->used, size, __ATOMIC_RELAXED);
}

static gboolean
counter_part_new (gpointer unused, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                  GError **error)
{
  (void) unused;
  (void) size;
  (void) error;
  part->address = memory.address + offset;
  return TRUE;
}

static void
counter_part_release (gpointer unused, TarnMemory part, gsize size)
{
  (void) unused;
  (void) part;
  (void) size;
}

static gboolean
counter_new_backing (gpointer user_data, gsize size, TarnMemory *backing, GError **error)
{
  Counter *counter = user_data;
  gsize used = __atomic_load_n (&counter->used, __ATOMIC_RELAXED);

  if (size > MAX_VIRTUAL || used > MAX_VIRTUAL - size)
    return refuse (size, error);
  return counter_allocate (counter, size, backing, error);
}

static gboolean
counter_reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  (void) error;
  addresses->address = take_addresses (user_data, size);
  return TRUE;
}

static void
counter_release (gpointer user_data, TarnMemory addresses, gsize size)
{
  (void) user_data;
  (void) addresses;
  (void) size;
}

static gboolean
counter_map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  (void) user_data;
  (void) backing;
  (void) size;
  (void) address;
  (void) error;
  return TRUE;
}

static void
set_virtual_ops (TarnAllocatorOps *ops, gsize granularity)
{
  ops->virtual_granularity = granularity;
  ops->addresses_reserve = counter_reserve;
  ops->addresses_release = counter_release;
  ops->backing_new = counter_new_backing;
  ops->backing_release = counter_free;
  ops->backing_map = counter_map;
  ops->backing_aliases = TRUE;
  ops->backing_unmap = counter_release;
}

static void
set_part_ops (TarnAllocatorOps *ops, const CounterOptions *options)
{
  ops->part_alignment = options->part_alignment != 0 ? options->part_alignment : PART_ALIGNMENT;
  ops->part_new = counter_part_new;
  ops->part_release = options->releases_parts ? counter_part_release : NULL;
}

static gpointer
counter_record_all (gpointer user_data, GError **error)
{
  const Counter *counter = user_data;

  (void) error;
  return simulated_queues_record_all (counter->all_queues);
}

TarnAllocator *
counter_new (const CounterOptions *options)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  Counter *counter = g_new0 (Counter, 1);

  counter->budget = options->budget;
  counter->granularity = options->granularity;
  counter->meter = options->meter;
  counter->all_queues = options->all_queues;
  ops.name = "null";
  ops.allocate = counter_allocate;
  ops.free = counter_free;
  ops.frees_in_order = options->frees_in_order;
  if (options->granularity > 0)
    set_virtual_ops (&ops, options->granularity);
  else
    set_part_ops (&ops, options);
  if (options->has_queues)
    simulated_queues_set_ops (&ops);
  if (options->has_queues && options->all_queues != NULL)
    ops.event_record_all = counter_record_all;
  return tarn_allocator_new (&ops, counter, g_free);
}

void
counter_set_budget (TarnAllocator *allocator, gsize budget)
{
  Counter *counter = tarn_allocator_get_user_data (allocator);

  __atomic_store_n (&counter->budget, budget, __ATOMIC_RELAXED);
}
