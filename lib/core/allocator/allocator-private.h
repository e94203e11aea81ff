/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators: their struct, and the listeners that receive their state.  A backend is a set of
 * functions (TarnAllocatorOps) from the program or from a driver's library.  A direct allocator
 * calls its backend for every block.  Pools and heaps keep freed memory for reuse, and allocate
 * memory from the allocator below them, their upstream. */

#ifndef TARN_ALLOCATOR_PRIVATE_H
#define TARN_ALLOCATOR_PRIVATE_H

#include <tarn/allocator.h>

#include "base/thread-private.h"
#include "common/trace-format-private.h"

/* The format of a number of bytes in a message, and its arguments: "1 byte" or "5 bytes". */
#define TARN_BYTES_FORMAT "%" G_GSIZE_FORMAT " byte%s"
#define TARN_BYTES(n) (gsize) (n), (n) == 1 ? "" : "s"

/* A listener: functions that receive the state of allocators, in order to write it to a recording
 * or a snapshot.  The caller of these functions holds the allocator's lock.  @properties: pairs of
 * a TarnTraceProperty and a number. */
typedef struct _TarnListener TarnListener;
/* The time, thread, stack and tag of the request that got a block (block-private.h). */
typedef struct _TarnOrigin TarnOrigin;
struct _TarnListener
{
  void (*object) (TarnListener *self, const TarnAllocator *allocator,
                  const TarnAllocator *upstream /* NULL: none */, const guint64 *properties,
                  gsize n_properties);
  void (*counters) (TarnListener *self, const TarnAllocator *allocator, const guint64 *properties,
                    gsize n_properties);
  void (*block) (TarnListener *self, const TarnBlock *block, gboolean is_active);
  void (*piece) (TarnListener *self, const TarnAllocator *heap, guint64 start, gsize size,
                 gconstpointer queue /* the queue that owns the segment; NULL: none */);
  void (*extent) (TarnListener *self, const TarnAllocator *heap, guint64 start, gsize size,
                  guint64 address /* the address that the program sees */);
};

/* The functions that one kind of allocator implements.  There are three kinds: direct allocators,
 * heaps and pools. */
typedef struct
{
  const gchar *kind; /* the kind's name in messages, such as "pool" */
  TarnTraceClass trace_class;
  TarnBlock *(*allocate_block) (TarnAllocator *allocator, gsize size, GError **error);
  void (*free_block) (TarnBlock *block);
  void (*ref_block) (TarnBlock *block); /* adds a reference to a block; free_block () drops one */
  gboolean (*allocate_memory) (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                               GError **error);
  void (*free_memory) (TarnAllocator *allocator, TarnMemory memory, gsize size);
  /* Tells the allocator that memory is lost: nobody will free the memory, because the driver cannot
   * tell when the commands that use it are done.  Nullable. */
  void (*lose_memory) (TarnAllocator *allocator, TarnMemory memory, gsize size);
  /* Runs after the last reference to the allocator was released. */
  void (*dispose) (TarnAllocator *allocator);
  gboolean (*record_use) (TarnBlock *block, gpointer queue, GError **error);
  gboolean (*move_to_queue) (TarnBlock *block, gpointer queue, GError **error);

  /* Takes the allocator's lock, so that nothing changes the allocator until thaw ().  Also makes
   * each thread take this lock to change its own cache.  This function is NULL if the allocator has
   * no lock. */
  void (*freeze) (TarnAllocator *allocator);
  /* Releases the allocator's lock after freeze ().  Turns tracing of blocks on if something needs
   * tracing now, such as a recording.  Otherwise turns tracing off. */
  void (*thaw) (TarnAllocator *allocator);
  /* Calls the functions of @listener with the allocator, its blocks and its memory.  The caller has
   * called freeze (). */
  void (*tell) (TarnAllocator *allocator, TarnListener *listener);
  /* Calls @listener->counters () with the allocator's counters.  The caller has called freeze ().
   * Nullable, for allocators without counters. */
  void (*tell_counters) (TarnAllocator *allocator, TarnListener *listener);

  /* The next five functions are for pools only.  In record_returning () and give_back_used (),
   * @is_wanted is TRUE if a request needs the memory now: the host then waits for commands that
   * still use the memory.  If @is_wanted is FALSE, the driver may free the memory later. */

  /* Frees the pool.  Runs after dispose (), when no block is left and no call returns blocks of the
   * pool to upstream any more. */
  void (*finalize) (TarnAllocator *allocator);
  /* Gets the origin of a block in use: which request got the block.  The caller has called
   * freeze ().  Returns FALSE if the origin is unknown. */
  gboolean (*get_origin) (const TarnBlock *block, TarnOrigin *origin);

  /* Returns TRUE if all commands that use a cached block are known to be done. */
  gboolean (*is_done) (const TarnBlock *block);
  /* Records the events for which the host must wait before the pool returns the blocks in the
   * linked list @blocks upstream.  Records none if the host need not wait. */
  void (*record_returning) (TarnAllocator *allocator, TarnBlock *blocks, gboolean is_wanted);
  /* Returns the memory of a block upstream although commands may still use the memory.  The block
   * is in state RETIRED, so no request can get it.  Returns FALSE with an error, and does nothing,
   * if the driver cannot tell when these commands are done. */
  gboolean (*give_back_used) (TarnBlock *block, gboolean is_wanted, GError **error);

  /* The next two functions are for heaps only.  The first returns the alignment in bytes that all
   * memory of the heap has.  The second allocates memory with the alignment @alignment, a power of
   * two. */
  gsize (*get_alignment) (const TarnAllocator *allocator);
  gboolean (*allocate_aligned) (TarnAllocator *allocator, gsize size, gsize alignment,
                                TarnMemory *memory, GError **error);

  /* Frees unused memory, by returning it upstream, until at most @keep_bytes bytes are unused.
   * Returns the number of bytes freed.  Nullable, for allocators that return freed memory at
   * once. */
  gsize (*trim) (TarnAllocator *allocator, gsize keep_bytes);
} TarnAllocatorClass;

/* An allocator.  Every field except the reference count is constant after the allocator is made. */
struct _TarnAllocator
{
  const TarnAllocatorClass *klass;
  /* The backend's functions.  The string ops.name is the allocator's own copy, or NULL. */
  TarnAllocatorOps ops;
  gchar *label; /* the name in messages, such as "pool 'temporaries'", "an unnamed allocator" */
  /* The first argument of the functions in ops, except the functions for queues and events. */
  gpointer user_data;
  GDestroyNotify destroy; /* a function that frees user_data; nullable */
  /* The first argument of the functions in ops for queues and events.  Usually this is user_data.
   * An allocator of the folder debug/ uses the functions of the backend below it, so its queue_data
   * is the user_data of that backend. */
  gpointer queue_data;
  /* The direct allocator below this one, found through upstream (the allocator directly below).  A
   * direct allocator points to itself. */
  TarnAllocator *direct;
  /* This allocator's level in the stack of allocators: 0 if no allocator is below, else one more
   * than the level of the allocator below (base/duty-private.h). */
  guint level;
  guint64 id; /* a number, unique in the process; 0 if the allocator is not in the registry */
  GList registry_link; /* the link in the registry's list; the registry's lock guards it */
  /* The upstream that the program gave a pool, if TARN_DEBUG has put this allocator between the
   * pool and that upstream.  NULL in all other allocators. */
  TarnAllocator *given;
  /* A direct allocator's own function to free unused memory; klass->trim calls it.  Nullable. */
  gsize (*trim) (gpointer user_data, gsize keep_bytes);
  gint ref_count; /* atomic: the number of references; each block of a direct allocator has one */
};

/* Calls a function of an allocator's backend.  The calling thread must hold no lock, and be in no
 * read section of a pool (see TarnAllocatorOps). */
#define _tarn_call(allocator, function, ...)                                                       \
  (_tarn_assert_may_call (), (allocator)->ops.function ((allocator)->user_data, __VA_ARGS__))
#define _tarn_call_plain(allocator, function)                                                      \
  (_tarn_assert_may_call (), (allocator)->ops.function ((allocator)->user_data))
/* Calls a function of an allocator's backend for queues or events.  See _tarn_call (). */
#define _tarn_call_queue(allocator, function, ...)                                                 \
  (_tarn_assert_may_call (), (allocator)->ops.function ((allocator)->queue_data, __VA_ARGS__))

static inline void
_tarn_assert_may_call (void)
{
  _tarn_assert_no_locks ();
  g_assert (_tarn_current_thread->visits % 2 == 0);
}

/* Makes a label for messages: "pool 'NAME'", or "an unnamed pool" if @name is NULL.  The second
 * form has no quotes, so that nobody takes "unnamed" for the pool's name. */
gchar *_tarn_allocator_make_label (const gchar *kind, const gchar *name);
void _tarn_allocator_init (TarnAllocator *allocator, const TarnAllocatorClass *klass,
                           const TarnAllocatorOps *ops, gpointer user_data, GDestroyNotify destroy,
                           TarnAllocator *direct);
TarnAllocator *_tarn_allocator_new_between (const TarnAllocatorOps *ops, gpointer user_data,
                                            GDestroyNotify destroy, TarnAllocator *given);
/* Sets the error of a request that asks for more bytes than any memory can have. */
void _tarn_allocator_refuse_size (const TarnAllocator *allocator, gsize size, GError **error);
void _tarn_allocator_clear (TarnAllocator *allocator);

/* Functions of registry.c, which lists all allocators. */
void _tarn_allocator_publish (TarnAllocator *allocator);
void _tarn_allocator_withdraw (TarnAllocator *allocator);
void _tarn_allocators_describe (void);
void _tarn_allocators_foreach_pool (void (*func) (TarnAllocator *pool, gpointer data),
                                    gpointer data);
void _tarn_allocators_open_anew (void);
void _tarn_allocators_tell_frozen (TarnListener *listener);

/* The listener that writes the state of allocators to a recording (recording-listener.c). */
extern TarnListener _tarn_recording_listener __attribute__ ((visibility ("hidden")));

/* Functions of allocator.c for direct allocators, which call a backend for every block. */
TarnBlock *_tarn_direct_allocate_block (TarnAllocator *allocator, gsize size, GError **error);
void _tarn_direct_free_block (TarnBlock *block);
gboolean _tarn_direct_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                                       GError **error);
void _tarn_direct_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size);

void _tarn_direct_count_call (const TarnAllocator *allocator);
guint64 _tarn_direct_get_calls (void);
gboolean _tarn_direct_take_backing (const TarnAllocator *allocator, gsize size, TarnMemory *backing,
                                    GError **error);
void _tarn_direct_release_backing (const TarnAllocator *allocator, gsize size, TarnMemory backing);
gboolean _tarn_allocator_try (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                              GError **error);
void _tarn_direct_call_free (TarnAllocator *allocator, TarnMemory memory, gsize size);
gboolean _tarn_direct_call_free_on_queue (TarnAllocator *allocator, TarnMemory memory, gsize size,
                                          gpointer queue);
gboolean _tarn_allocator_reclaim (TarnAllocator *allocator);

gpointer _tarn_allocator_get_default_queue (TarnAllocator *direct);

/* Functions of allocator-order.c.  @direct is a direct allocator. */
gboolean _tarn_allocator_ref_queue (const TarnAllocator *direct, gpointer queue, gboolean *in_order,
                                    GError **error);
void _tarn_allocator_unref_queue (const TarnAllocator *direct, gpointer queue);
gboolean _tarn_allocator_check_queue (const TarnAllocator *direct, gpointer queue, GError **error);
gpointer _tarn_allocator_get_fresh_queue (const TarnAllocator *direct);
gpointer _tarn_allocator_record_event (const TarnAllocator *direct, gpointer queue,
                                       gboolean is_named, GError **error);
gboolean _tarn_allocator_wait (const TarnAllocator *direct, gpointer event, gpointer queue,
                               GError **error);

gboolean _tarn_reclaim_begin (void);
void _tarn_reclaim_end (void);

/* Returns TRUE if TARN_DEBUG checks the blocks of an allocator for mistakes of the program. */
static inline gboolean
_tarn_allocator_is_debugged (const TarnAllocator *allocator)
{
  return allocator->direct->given != NULL;
}

/* Returns the allocator that the program gave a pool as its upstream.  @upstream: the allocator
 * from which the pool really allocates.  With TARN_DEBUG, @upstream is an allocator of the folder
 * debug/, which allocates from the program's allocator.  Without TARN_DEBUG, @upstream is the
 * program's allocator itself. */
static inline TarnAllocator *
_tarn_allocator_get_given (TarnAllocator *upstream)
{
  return upstream->given != NULL ? upstream->given : upstream;
}

/* Returns the direct allocator (an allocator that calls the driver) at the bottom of the stack of
 * allocators on which @allocator is built.  With TARN_DEBUG, Tarn inserts another direct allocator
 * into the stack, to check blocks (folder debug/).  This function skips the inserted allocator. */
static inline TarnAllocator *
_tarn_allocator_get_backend (const TarnAllocator *allocator)
{
  return _tarn_allocator_is_debugged (allocator) ? allocator->direct->given->direct
                                                 : allocator->direct;
}

static inline gsize
_tarn_allocator_trim (TarnAllocator *allocator, gsize keep_bytes)
{
  return allocator->klass->trim != NULL ? allocator->klass->trim (allocator, keep_bytes) : 0;
}

/* Tells an allocator that memory is lost: nobody will free the memory, because the driver cannot
 * tell when the commands that use it are done. */
static inline void
_tarn_allocator_lose (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  if (allocator->klass->lose_memory != NULL)
    allocator->klass->lose_memory (allocator, memory, size);
}

/* Rounds @size up to a multiple of @unit, a power of two. */
static inline gsize
_tarn_round_up (gsize size, gsize unit)
{
  return (size + unit - 1) & ~(unit - 1);
}

static inline gboolean
_tarn_is_power_of_two (gsize number)
{
  return number != 0 && (number & (number - 1)) == 0;
}

/* Returns TRUE if memory of @size bytes can exist.  Returns FALSE for a negative number that the
 * program converted to gsize, because the result is too large.  Tarn calls this function first in
 * each request.  A heap calls it again after it has rounded a size up. */
static inline gboolean
_tarn_size_is_valid (gsize size)
{
  return size <= G_MAXSSIZE;
}

static inline gboolean
_tarn_is_out_of_memory (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
}

#endif
