/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Rebuilds the objects of a recording: its pools, heaps and allocators (backends).  A counter may
 * stand for a backend: a fake allocator that only counts bytes. */

#include "rebuilt.h"

static const RecordedObject *
get_recorded (const Rebuilt *self, guint i)
{
  return self->recorded->objects->pdata[i];
}

/* Functions that make counters for recorded backends */

/* Computes the budget for the counter that stands for a recorded backend.  It is one byte less than
 * least_refused, the smallest total of bytes that the backend refused to reach.  Returns 0, which
 * means no limit, if the backend refused no request.  Also returns 0 if the backend reached at
 * least this total at another time (recorded_has_varying_room ()); rebuilt_set_room () then sets
 * the budget during the replay. */
static gsize
get_budget (const RecordedObject *object)
{
  if (object->least_refused == G_MAXUINT64 || recorded_has_varying_room (object))
    return 0;
  return (gsize) MIN (object->least_refused - 1, G_MAXSIZE);
}

/* Creates a counter that imitates a recorded backend.  If the kind of memory is "null-plain", the
 * counter makes sub-buffers even if the backend had virtual memory. */
static TarnAllocator *
imitate (const Rebuilt *self, const RecordedObject *object)
{
  gboolean is_plain = g_str_has_prefix (self->source->kind->name, "null-plain");
  const CounterOptions options = {
    .budget = get_budget (object),
    .granularity = is_plain ? 0 : (gsize) recorded_get_option (object, TARN_TRACE_GRANULARITY, 0),
    .part_alignment = (gsize) recorded_get_option (object, TARN_TRACE_PART_ALIGNMENT, 0),
    .releases_parts = recorded_get_option (object, TARN_TRACE_RELEASES_PARTS, 0) != 0,
    .frees_in_order = recorded_get_option (object, TARN_TRACE_FREES_IN_ORDER, 0) != 0,
    .has_queues = self->recorded->n_queues > 0,
    .all_queues
    = recorded_get_option (object, TARN_TRACE_RECORDS_ALL, 0) != 0 ? self->simulated : NULL,
    .meter = self->meter,
  };

  return counter_new (&options);
}

static void
make_backend (Rebuilt *self, RebuiltObject *made, const RecordedObject *object)
{
  made->allocator
      = self->meter != NULL ? imitate (self, object) : tarn_allocator_ref (self->source->driver);
  made->is_backend = TRUE;
}

/* The function that makes heaps, for recorded heaps and for alternatives that add heaps */

static TarnAllocator *
make_heap (const Rebuilt *self, TarnAllocator *upstream, const RecordedObject *object,
           GError **error)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  gsize growth = self->alternative->growth_bytes;

  if (object != NULL)
    {
      options.name = object->name;
      options.limit_bytes = (gsize) recorded_get_option (object, TARN_TRACE_LIMIT_BYTES, 0);
      options.follows_pool_limit = recorded_get_option (object, TARN_TRACE_FOLLOWS_LIMIT, 0) != 0;
      options.growth_bytes = (gsize) recorded_get_option (object, TARN_TRACE_GROWTH_BYTES, 0);
      options.alignment = (gsize) recorded_get_option (object, TARN_TRACE_ALIGNMENT, 0);
      options.idle_seconds = (gsize) recorded_get_option (object, TARN_TRACE_IDLE_SECONDS, 0);
    }
  if (growth != 0)
    options.growth_bytes = growth;
  if (alternative_has_limit (self->alternative))
    options.follows_pool_limit = TRUE;
  return tarn_heap_allocator_new (upstream, &options, error);
}

/* Functions that make pools */

static gsize
get_limit (const Rebuilt *self, const RecordedObject *object, guint i)
{
  const Alternative *alternative = self->alternative;

  if (alternative->limit_share > 0 && self->peaks != NULL)
    return (gsize) MAX (alternative->limit_share * (gdouble) self->peaks[i], 1);
  if (alternative->limit_bytes > 0)
    return alternative->limit_bytes;
  return (gsize) recorded_get_option (object, TARN_TRACE_LIMIT_BYTES, 0);
}

/* Returns the options of a rebuilt pool: the recorded ones, with the changes of the alternative.
 * If the recorded pool was over a heap, ignores its recorded leading bits, because the program did
 * not choose them. */
static TarnPoolOptions
get_pool_options (const Rebuilt *self, const RecordedObject *object, guint i)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  const Alternative *alternative = self->alternative;
  gboolean was_over_heap
      = object->upstream != RECORDED_NONE
        && get_recorded (self, object->upstream)->object_class == TARN_TRACE_HEAP;

  options.name = object->name;
  if (!was_over_heap)
    options.leading_bits_in_bin_id = (guint) recorded_get_option (object, TARN_TRACE_LEADING_BITS,
                                                                  options.leading_bits_in_bin_id);
  options.limit_bytes = get_limit (self, object, i);
  options.thread_cache_blocks = (guint) recorded_get_option (object, TARN_TRACE_THREAD_CACHE_BLOCKS,
                                                             options.thread_cache_blocks);
  options.thread_cache_bytes = (gsize) recorded_get_option (object, TARN_TRACE_THREAD_CACHE_BYTES,
                                                            options.thread_cache_bytes);
  options.hold_bytes = (gsize) recorded_get_option (object, TARN_TRACE_HOLD_BYTES, 0);
  if (alternative->leading_bits >= 0)
    options.leading_bits_in_bin_id = (guint) alternative->leading_bits;
  if (alternative->cache_blocks >= 0)
    options.thread_cache_blocks = (guint) alternative->cache_blocks;
  if (alternative->hold_bytes > 0)
    options.hold_bytes = alternative->hold_bytes;
  return options;
}

static gboolean
make_pool (Rebuilt *self, guint i, const RebuiltObject *below, GError **error)
{
  const RecordedObject *object = get_recorded (self, i);
  const TarnPoolOptions options = get_pool_options (self, object, i);
  RebuiltObject *made = &self->objects[i];
  TarnAllocator *upstream = below->allocator;

  made->is_backend = self->alternative->has_no_pools && below->is_backend;
  if (self->alternative->has_heaps && below->is_backend)
    {
      upstream = made->heap = make_heap (self, upstream, NULL, error);
      if (upstream == NULL)
        return FALSE;
    }
  made->allocator = tarn_allocator_ref (upstream);
  if (!self->alternative->has_no_pools)
    made->pool = tarn_pool_new (upstream, &options, error);
  if (made->pool != NULL && self->alternative->holds_nothing)
    tarn_pool_stop_holding (made->pool);
  return made->pool != NULL || self->alternative->has_no_pools;
}

/* Functions that make any object, and queues */

static gboolean
make_object (Rebuilt *self, guint i, GError **error)
{
  const RecordedObject *object = get_recorded (self, i);
  RebuiltObject *made = &self->objects[i];
  static const RecordedObject unknown = { .least_refused = G_MAXUINT64 };
  RebuiltObject alone = { .allocator = NULL };
  const RebuiltObject *below
      = object->upstream != RECORDED_NONE ? &self->objects[object->upstream] : &alone;
  gboolean is_made = TRUE;

  if (object->object_class != TARN_TRACE_HEAP && object->object_class != TARN_TRACE_POOL)
    {
      make_backend (self, made, object);
      return TRUE;
    }
  /* If events were lost, the upstream may be unknown, or have ended already. */
  if (below->allocator == NULL)
    {
      make_backend (self, &alone, &unknown);
      below = &alone;
    }
  if (object->object_class == TARN_TRACE_POOL)
    is_made = make_pool (self, i, below, error);
  else if (self->alternative->has_no_heaps)
    {
      made->allocator = tarn_allocator_ref (below->allocator);
      made->is_backend = below->is_backend;
    }
  else if ((made->heap = make_heap (self, below->allocator, object, error)) != NULL)
    made->allocator = tarn_allocator_ref (made->heap);
  else
    is_made = FALSE;
  g_clear_pointer (&alone.allocator, tarn_allocator_unref);
  return is_made;
}

gboolean
rebuilt_make (Rebuilt *self, guint i, GError **error)
{
  guint upstream = get_recorded (self, i)->upstream;

  if (self->objects[i].is_made)
    return TRUE;
  g_assert (upstream == RECORDED_NONE || upstream < i);
  if (upstream != RECORDED_NONE && !rebuilt_make (self, upstream, error))
    return FALSE;
  self->objects[i].is_made = TRUE;
  return make_object (self, i, error);
}

gboolean
rebuilt_make_all (Rebuilt *self, GError **error)
{
  for (guint i = 0; i < self->recorded->objects->len; i++)
    if (!rebuilt_make (self, i, error))
      return FALSE;
  return TRUE;
}

void
rebuilt_set_room (Rebuilt *self, const Room *room)
{
  const RebuiltObject *object = &self->objects[room->object];

  if (self->meter != NULL && object->allocator != NULL
      && recorded_has_varying_room (get_recorded (self, room->object)))
    counter_set_budget (object->allocator, (gsize) MIN (room->bytes, G_MAXSIZE));
}

static gboolean
make_queues (Rebuilt *self, GError **error)
{
  guint n = self->recorded->n_queues;

  self->queues = g_new0 (gpointer, n + 1);
  if (self->meter != NULL)
    {
      self->simulated = simulated_queues_new (SIMULATED_LAG);
      simulated_queues_begin (self->simulated, MAX (self->recorded->n_threads, 1));
    }
  for (guint i = 1; i <= n; i++)
    {
      self->queues[i] = self->simulated != NULL ? simulated_queues_add (self->simulated)
                                                : source_get_queue (self->source, i - 1, error);
      if (self->queues[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

gboolean
rebuilt_init (Rebuilt *self, const Recorded *recorded, const Source *source,
              const Alternative *alternative, const gsize *peaks, GError **error)
{
  *self = (Rebuilt){
    .recorded = recorded, .source = source, .alternative = alternative, .peaks = peaks
  };
  self->objects = g_new0 (RebuiltObject, recorded->objects->len);
  if (source->kind->backend == NULL)
    self->meter = g_new0 (Meter, 1);
  return make_queues (self, error);
}

/* Functions that save and sum up counters */

static void
count (RebuiltObject *object)
{
  if (object->pool != NULL)
    {
      object->pool_stats = (TarnPoolStats) TARN_POOL_STATS_INIT;
      tarn_pool_get_stats (object->pool, &object->pool_stats);
    }
  if (object->heap != NULL)
    {
      object->heap_stats = (TarnHeapStats) TARN_HEAP_STATS_INIT;
      tarn_heap_get_stats (object->heap, &object->heap_stats);
    }
}

void
rebuilt_end (Rebuilt *self, guint i)
{
  RebuiltObject *object = &self->objects[i];

  if (object->allocator == NULL)
    return;
  count (object);
  g_clear_pointer (&object->pool, tarn_pool_unref);
  g_clear_pointer (&object->heap, tarn_allocator_unref);
  g_clear_pointer (&object->allocator, tarn_allocator_unref);
}

void
rebuilt_count (Rebuilt *self)
{
  for (guint i = 0; i < self->recorded->objects->len; i++)
    count (&self->objects[i]);
}

void
rebuilt_clear (Rebuilt *self)
{
  if (self->objects == NULL)
    return;
  for (guint i = self->recorded->objects->len; i-- > 0;)
    rebuilt_end (self, i);
  g_free (self->objects);
  g_free (self->queues);
  g_clear_pointer (&self->simulated, simulated_queues_free);
  g_free (self->meter);
}

/* Tells whether an object is a pool directly over the backend. */
static gboolean
is_pool_over_backend (const RebuiltObject *object)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  return object->pool != NULL && object->heap == NULL
         && !tarn_heap_get_stats (object->allocator, &stats);
}

gsize
rebuilt_get_bytes (const Rebuilt *self)
{
  gsize bytes = 0;

  if (self->meter != NULL)
    return self->meter->used;
  for (guint i = 0; i < self->recorded->objects->len; i++)
    {
      const RebuiltObject *object = &self->objects[i];
      TarnHeapStats heap = TARN_HEAP_STATS_INIT;

      if (object->heap != NULL && tarn_heap_get_stats (object->heap, &heap))
        bytes += heap.upstream_bytes;
      else if (object->allocator != NULL && is_pool_over_backend (object))
        bytes += tarn_pool_get_managed_bytes (object->pool);
    }
  return bytes;
}

/* Tells whether the upstream of an object is a heap or a pool.  If so, the counters of the upstream
 * include the driver calls of the object. */
static gboolean
is_over_another (const Rebuilt *self, guint i)
{
  guint upstream = get_recorded (self, i)->upstream;
  const RebuiltObject *below = upstream != RECORDED_NONE ? &self->objects[upstream] : NULL;

  return below != NULL && (below->heap_stats.struct_size > 0 || below->pool_stats.struct_size > 0);
}

guint64
rebuilt_get_calls (const Rebuilt *self)
{
  guint64 n = 0;

  for (guint i = 0; i < self->recorded->objects->len; i++)
    {
      const RebuiltObject *object = &self->objects[i];

      n += object->heap_stats.moves;
      if (is_over_another (self, i))
        continue;
      /* A pool's counter includes the calls of a heap that the alternative has put below it, so
       * only one of the two is added. */
      n += object->pool_stats.struct_size > 0 ? object->pool_stats.driver_calls
                                              : object->heap_stats.driver_calls;
    }
  return n;
}
