/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * All allocators that there are, for those who look at all of them: recordings and snapshots. */

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "record/record-private.h"

/* It is taken before the locks of allocators. */
static TarnMutex lock = TARN_MUTEX_INIT;
static GQueue allocators; /* by registry_link, the oldest first */
static guint64 last_id;

/* One after the other */

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

/* Tells a recording of an allocator, if there is one, and sees to it that its blocks are followed,
 * or not any more. */
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
  allocator->klass->tell_counters (allocator, &_tarn_recording_listener);
  thaw (allocator);
}

/* Records all counters. */
static void
report_all (void)
{
  _tarn_mutex_lock (&lock);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    report (link->data);
  _tarn_mutex_unlock (&lock);
}

/* Adds an allocator that is complete.  In a child of fork (), where somebody may have had the lock,
 * none is added, nor taken out, since none ends there. */
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

/* Takes an allocator out that nobody uses any more.  One that was never published is not there. */
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

/* Tells a recording, if there is one, of all allocators, and has each see whether its blocks are
 * followed.  None ends meanwhile, nor is one made. */
void
_tarn_allocators_describe (void)
{
  _tarn_mutex_lock (&lock);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    describe (link->data);
  _tarn_mutex_unlock (&lock);
}

/* Makes all allocators see whether their blocks are followed. */
void
_tarn_allocators_open_anew (void)
{
  _tarn_mutex_lock (&lock);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      freeze (link->data);
      thaw (link->data);
    }
  _tarn_mutex_unlock (&lock);
}

/* All at one moment */

/* Calls a function for each pool.  It may take the pool's lock, and calls nobody. */
void
_tarn_allocators_foreach_pool (void (*func) (TarnAllocator *pool, gpointer data), gpointer data)
{
  _tarn_mutex_lock (&lock);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = link->data;

      if (allocator->klass->trace_class == TARN_TRACE_POOL)
        func (allocator, data);
    }
  _tarn_mutex_unlock (&lock);
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

/* Tells of all allocators as they are at one moment.  The locks of all are held then: those of
 * pools are taken in the order of their ids, as whoever takes several has to, and those of heaps
 * after them. */
void
_tarn_allocators_tell_frozen (TarnListener *listener)
{
  _tarn_mutex_lock (&lock);
  for_each_of_class (TARN_TRACE_POOL, freeze);
  for_each_of_class (TARN_TRACE_HEAP, freeze);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    {
      TarnAllocator *allocator = link->data;

      allocator->klass->tell (allocator, listener);
      allocator->klass->tell_counters (allocator, listener);
    }
  for_each_of_class (TARN_TRACE_HEAP, thaw);
  for_each_of_class (TARN_TRACE_POOL, thaw);
  _tarn_mutex_unlock (&lock);
}
