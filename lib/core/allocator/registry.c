/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The registry: a list of all allocators of the process.  Recordings and snapshots describe these
 * allocators. */

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "record/record-private.h"

/* Guards the registry, the list of all allocators.  A thread takes this lock before the lock of any
 * allocator. */
static TarnMutex lock = TARN_MUTEX_INIT;
static GQueue allocators; /* the registry, linked by TarnAllocator.registry_link; oldest first */
static guint64 last_id;

/* Functions that hold the lock of only one allocator at a time */

static void
freeze (TarnAllocator *allocator)
{
  if (allocator->klass->freeze != NULL)
    allocator->klass->freeze (allocator);
}

static void
thaw (TarnAllocator *allocator)
{
  if (allocator->klass->thaw != NULL)
    allocator->klass->thaw (allocator);
}

/* Writes an allocator's state to the recording, if one is running.  Turns tracing of the
 * allocator's blocks on if something needs tracing now, such as the recording.  Otherwise turns
 * tracing off. */
static void
describe (TarnAllocator *allocator)
{
  freeze (allocator);
  if (_tarn_records ())
    allocator->klass->tell (allocator, &_tarn_recording_listener);
  thaw (allocator);
}

static void
report (TarnAllocator *allocator)
{
  freeze (allocator);
  if (allocator->klass->tell_counters != NULL)
    allocator->klass->tell_counters (allocator, &_tarn_recording_listener);
  thaw (allocator);
}

/* Records the counters of all allocators in the registry. */
static void
report_all (void)
{
  TARN_LOCKED (&lock);

  for (GList *link = allocators.head; link != NULL; link = link->next)
    report (link->data);
}

/* Adds an allocator to the registry.  The caller has set all fields except id and registry_link.
 * Does nothing in a child of fork (), because another thread may have held the registry's lock when
 * the process forked.  A child frees no allocator, so it also never removes one from the
 * registry. */
void
_tarn_allocator_publish (TarnAllocator *allocator)
{
  if (_tarn_forked ())
    return;
  _tarn_record_set_last_words (report_all);
  _tarn_record_from_environment ();
  _tarn_mutex_lock (&lock);
  allocator->id = ++last_id;
  allocator->registry_link.data = allocator;
  g_queue_push_tail_link (&allocators, &allocator->registry_link);
  TARN_PROBE (object, allocator->id, allocator->klass->kind, allocator->ops.name);
  if (_tarn_follows ())
    describe (allocator);
  _tarn_mutex_unlock (&lock);
}

/* Removes an allocator from the registry, if it is there.  The caller makes sure that no thread
 * uses the allocator any more. */
void
_tarn_allocator_withdraw (TarnAllocator *allocator)
{
  if (allocator->id == 0)
    return;
  _tarn_mutex_lock (&lock);
  g_queue_unlink (&allocators, &allocator->registry_link);
  TARN_PROBE (end, allocator->id);
  if (_tarn_records ())
    {
      report (allocator);
      _tarn_record_numbers (TARN_TRACE_END, allocator->id, allocator->id);
    }
  _tarn_mutex_unlock (&lock);
}

/* Writes the state of all allocators to the recording, if one is running.  Turns tracing of blocks
 * on or off in each allocator, as needed now.  Holds the registry's lock, so that no allocator is
 * made or freed meanwhile. */
void
_tarn_allocators_describe (void)
{
  TARN_LOCKED (&lock);

  for (GList *link = allocators.head; link != NULL; link = link->next)
    describe (link->data);
}

/* Turns tracing of blocks in all allocators on if something needs tracing now, such as a
 * recording.  Otherwise turns tracing off. */
void
_tarn_allocators_open_anew (void)
{
  TARN_LOCKED (&lock);

  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      freeze (link->data);
      thaw (link->data);
    }
}

/* Functions that hold the registry's lock while they go through all allocators, so that no thread
 * adds or removes one */

/* Calls @func for each pool, and holds the registry's lock meanwhile.  @func may take the pool's
 * lock, but must call neither a backend nor a function of the program. */
void
_tarn_allocators_foreach_pool (void (*func) (TarnAllocator *pool, gpointer data), gpointer data)
{
  TARN_LOCKED (&lock);

  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = link->data;

      if (allocator->klass->trace_class == TARN_TRACE_POOL)
        func (allocator, data);
    }
}

static void
for_each_of_class (TarnTraceClass class, void (*func) (TarnAllocator *allocator))
{
  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = link->data;

      if (allocator->klass->trace_class == class)
        func (allocator);
    }
}

/* Calls the functions of @listener with the state of all allocators at one moment: holds
 * the locks of all allocators during the calls.  Takes the locks of pools first, in the order of
 * the pools' ids, and then the locks of heaps.  Any function that takes several of these locks must
 * take them in this order. */
void
_tarn_allocators_tell_frozen (TarnListener *listener)
{
  TARN_LOCKED (&lock);

  for_each_of_class (TARN_TRACE_POOL, freeze);
  for_each_of_class (TARN_TRACE_HEAP, freeze);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = link->data;

      allocator->klass->tell (allocator, listener);
      if (allocator->klass->tell_counters != NULL)
        allocator->klass->tell_counters (allocator, listener);
    }
  for_each_of_class (TARN_TRACE_HEAP, thaw);
  for_each_of_class (TARN_TRACE_POOL, thaw);
}
