/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * All allocators that there are, for those who look at all of them: recordings and snapshots. */

#include "allocator/allocator-private.h"
#include "base/fork-private.h"
#include "record/record-private.h"

/* It is taken before the locks of allocators. */
static TarnMutex lock = TARN_MUTEX_INIT;
static GQueue allocators; /* by registry_link, the oldest first */
static guint64 last_id;

static void
report (TarnAllocator *allocator, gpointer data)
{
  (void) data;
  allocator->klass->report (allocator);
}

/* Records all counters. */
static void
report_all (void)
{
  _tarn_allocators_for_each (report, NULL);
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
  allocator->klass->describe (allocator);
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
      allocator->klass->report (allocator);
      _tarn_record_numbers (TARN_TRACE_END, allocator->id, allocator->id);
    }
  _tarn_mutex_unlock (&lock);
}

/* Calls a function for each allocator, the oldest first.  None ends meanwhile, nor is one made, so
 * that it must not wait for those who do. */
void
_tarn_allocators_for_each (void (*func) (TarnAllocator *allocator, gpointer data), gpointer data)
{
  _tarn_mutex_lock (&lock);
  for (GList *link = allocators.head; link != NULL; link = link->next)
    func (link->data, data);
  _tarn_mutex_unlock (&lock);
}
