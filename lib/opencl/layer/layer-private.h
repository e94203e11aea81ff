/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer between an OpenCL loader and a driver.  It gives a program's buffers memory from a
 * pool:
 *
 *     layer.c         the functions that the loader calls, and the table of functions
 *     settings.c      the environment
 *     faults.c        fault injection, in front of all that follows:
 *     fault-calls.c   ... by each call
 *     fault-memory.c  ... beyond a budget
 *     report.c        reports to the program that started this one
 *     table.c         the layer's records of the driver's objects, by handle
 *     context.c       contexts: their pools, and how their queues are ordered
 *     user-event.c    events that the program completes itself
 *     debug.c         checks of buffers with TARN_DEBUG
 *     address.c       addresses of pieces, for drivers that align less than they state
 *     pieces.c        pieces: large buffers of the driver, with the heap and pool over them
 *     queue.c         queues, and which of their commands are done
 *     waiter.c        waits for single commands
 *     subs.c          the driver's sub-buffers for blocks, some of them kept for the next buffers
 *     buffer.c        buffers and sub-buffers, from their beginning to their end
 *     images.c        images, also those that are made of buffers
 *     image-pool.c    the pool of images
 *     idle.c          memory that pools cache without need
 *     uses.c          the commands that use a buffer
 *     describe.c      queries about buffers
 *     ask.c           how the driver treats buffers of its own, for the program to see the same
 *     commands.c      commands that use buffers
 *     copies.c        ... of boxes, and of images, where some drivers fail with sub-buffers
 *     maps.c          ... that map buffers
 *     native.c        ... that call functions of the host
 *     kernel.c        kernels' arguments, and launches
 *
 * A buffer of the program is a sub-buffer of a piece, which is a large buffer that the layer got
 * from the driver.  So the program has a real handle of the driver, which works with functions that
 * the layer does not know.  Where the specification treats sub-buffers unlike buffers, the layer
 * makes the program's buffers behave as buffers.  The layer also counts the program's references to
 * each buffer; the driver sees only one reference.
 *
 * A buffer's memory is free when the program has no reference to it and the commands that used it
 * are done.  To know these, the layer records each command with the buffers that it uses, after the
 * driver has accepted the command.  Some time after the program released the buffer, the layer puts
 * a marker command on the queue and polls the marker's event.  In two cases the layer keeps the
 * command's own event instead: if its queue is out of order, and if a buffer has destructor
 * callbacks, which must not come late.  Memory need not wait for commands as long as its context
 * has only one queue, in order, and no user event that is not complete: the queue runs the next
 * buffer's commands after the released buffer's.
 *
 * Calls that the layer cannot do right are passed on to the driver unchanged: see
 * _tarn_layer_context_find_pool ().  A thread holds no lock while it calls the driver or a function
 * of the program; debug builds check that at each call of the driver. */

#ifndef TARN_LAYER_PRIVATE_H
#define TARN_LAYER_PRIVATE_H

/* cl_icd_dispatch has the functions up to OpenCL 3.0.  The layer calls deprecated functions only
 * through that table. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300

#include <CL/cl_layer.h>
#include <tarn/tarn.h>

#include "common/lock-private.h"
#include "common/whole-private.h"
#include "opencl/image-kinds-private.h"

/* The driver's functions.  The layer sets this pointer before any other call, and never changes
 * it. */
extern const cl_icd_dispatch *_tarn_layer_functions;

/* Returns the driver's functions.  The caller must hold no lock while it calls one of them, because
 * a driver may wait for other threads, or call functions of the program or of the layer. */
static inline const cl_icd_dispatch *
_tarn_layer_get_driver (void)
{
  _tarn_assert_no_locks ();
  return _tarn_layer_functions;
}

#define _tarn_layer_driver (_tarn_layer_get_driver ())

typedef struct _LayerContext LayerContext;
typedef struct _LayerQueue LayerQueue;
typedef struct _LayerBuffer LayerBuffer;
typedef struct _LayerSub LayerSub;
typedef struct _LayerUse LayerUse;

/* LAYER_LOCKED holds a mutex until the end of the enclosing block. */
static inline void
layer_unlock (TarnMutex **mutex)
{
  _tarn_mutex_unlock (*mutex);
}

static inline TarnMutex *
layer_lock (TarnMutex *mutex)
{
  _tarn_mutex_lock (mutex);
  return mutex;
}

#define LAYER_LOCKED(mutex)                                                                        \
  __attribute__ ((cleanup (layer_unlock), unused)) TarnMutex *locked = layer_lock (mutex)

/* settings.c */

/* The settings.  They are constant after _tarn_layer_read_settings (). */
typedef struct
{
  gboolean uses_pool;
  gchar *limit; /* nullable */
  gboolean prints_stats;
  gchar *faults;         /* nullable */
  gchar *report;         /* path of a file; nullable */
  gboolean may_debug;    /* TARN_DEBUG is set, though perhaps to a value that checks no buffers */
  gboolean rounds_sizes; /* the layer rounds up the sizes of small buffers */
} LayerSettings;

void _tarn_layer_read_settings (void);
const LayerSettings *_tarn_layer_get_settings (void);

/* report.c */

/* The reason why a buffer of the program is not from a pool, but made by the driver. */
typedef enum
{
  LAYER_OF_HOST,    /* the buffer's memory is the host's, or is filled from the host's */
  LAYER_OF_DEVICES, /* its context has several devices, or a device older than OpenCL 1.2 */
  LAYER_FLAGS,      /* the layer does not know the buffer's flags or properties */
  LAYER_TOO_LARGE,
  LAYER_FOR_IMAGES, /* the program makes images of buffers */
  LAYER_NO_POOL,    /* the context had no pool, or the pool had no memory */
  LAYER_N_REASONS
} LayerReason;

/* Begins the report if TARN_LAYER_REPORT is set: adds the first line, and registers a function that
 * adds the other lines at exit. */
void _tarn_layer_report_begin (void);

/* Returns a text for a reason, which fits after "NUMBER buffers". */
const gchar *_tarn_layer_describe_reason (LayerReason reason);

/* layer.c */

/* Numbers of calls, made by the program or by the layer.  Every field is atomic. */
typedef struct
{
  gsize created;                  /* buffers that the program asked for */
  gsize served;                   /* buffers in @created with memory from a pool */
  gsize pieces;                   /* pieces: buffers that the layer asked the driver for */
  gsize passed_on;                /* requests in @created that were passed on to the driver */
  gsize reasons[LAYER_N_REASONS]; /* buffers in @passed_on that the driver made, by reason */
  gsize sub_buffers;              /* sub-buffers that the driver made for the program's buffers */

  gsize images_created;   /* images that the program asked for, except images made of buffers */
  gsize images_served;    /* images in @images_created from a pool */
  gsize images_passed_on; /* requests in @images_created that were passed on to the driver */
  gsize pool_images;      /* images that the pool asked the driver for */

  guint64 buffer_bytes TARN_WHOLE; /* total size of the buffers that the program got */
  guint64 image_bytes TARN_WHOLE;  /* total size of the images that are made of no buffer */
} LayerCounts;

extern LayerCounts _tarn_layer_counts;

#define LAYER_COUNT(field)                                                                         \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, 1, __ATOMIC_RELAXED))

#define LAYER_COUNT_BYTES(field, bytes)                                                            \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, bytes, __ATOMIC_RELAXED))

/* Prints a message to standard error, unless *once is TRUE, and sets *once to TRUE. */
void _tarn_layer_warn (gboolean *once, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Answers a query as OpenCL's clGet...Info () functions do: copies the @from_size bytes at @from to
 * @value, which has @size bytes. */
cl_int _tarn_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                           size_t *size_ret);

/* Returns TRUE if the program has asked for an extension's function that may use buffers unseen by
 * the layer.  From then on the driver makes all new buffers, and pools return their memory to the
 * driver. */
gboolean _tarn_layer_is_blind (void);

/* table.c */

typedef enum
{
  LAYER_CONTEXT,
  LAYER_QUEUE,
  LAYER_BUFFER,
  LAYER_KERNEL,
  LAYER_N_OBJECT_KINDS
} LayerKind;

/* The record that the layer keeps of an object of the program's.  It is the first member of the
 * struct of each kind of object. */
typedef struct
{
  LayerKind kind;
  guint references;         /* atomic: references to this record */
  guint program_references; /* atomic: references to the object, as the program counts them */
  gpointer handle;          /* the driver's handle of the object */
  void (*finalize) (gpointer record);
} LayerObject;

/* Finds the record of a handle, and returns a reference to the record.  Returns NULL if the handle
 * has no record of this kind. */
gpointer _tarn_layer_find (LayerKind kind, gconstpointer handle);

/* Returns references to all records of a kind.  The caller frees the array. */
GPtrArray *_tarn_layer_list_all (LayerKind kind);

/* Adds a record to the table, which takes a reference of its own.  Replaces an older record with
 * the same handle, whose object is gone. */
void _tarn_layer_list (gpointer record);

/* Removes a record from the table.  Call this before the driver releases the object, because after
 * that another object may have the same handle. */
void _tarn_layer_unlist (gpointer record);

gpointer _tarn_layer_ref (gpointer record);
gboolean _tarn_layer_try_ref (gpointer record); /* returns FALSE if the record is being finalized */
void _tarn_layer_unref (gpointer record);
void _tarn_layer_clear (gpointer record); /* takes a pointer to a record */

/* Add to the program's references of an object, and drop one of them.  _tarn_layer_release ()
 * returns TRUE if it dropped the last reference. */
void _tarn_layer_retain (gpointer record);
gboolean _tarn_layer_try_retain (gpointer record); /* returns FALSE if the program has none */
gboolean _tarn_layer_release (gpointer record);

/* A ticket is a number that stands for a record in the argument of a callback.  A driver may never
 * call a callback, so the table of tickets, not the callback, has the reference to the record.
 * _tarn_layer_ticket_take () returns that reference, or NULL if another thread took the ticket
 * before. */
gpointer _tarn_layer_ticket_new (gpointer record);
gpointer _tarn_layer_ticket_take (gpointer ticket);

/* LAYER_AUTO marks a variable whose reference is dropped at the end of the enclosing block. */
#define LAYER_AUTO __attribute__ ((cleanup (_tarn_layer_clear)))

/* ended-contexts.c */

/* Add a context that the program is releasing to the list of ended contexts, and remove a context
 * that is being finalized.  The list has no reference to the context. */
void _tarn_layer_list_ended (LayerContext *self);
void _tarn_layer_unlist_ended (LayerContext *self);

/* Finds the record of a context as _tarn_layer_find () does, and also after the program has
 * released the context. */
LayerContext *_tarn_layer_find_context (cl_context handle);

/* context.c */

/* The time when the memory of a released buffer may be reused. */
typedef enum
{
  LAYER_NO_QUEUE,  /* at once: no command has used the memory */
  LAYER_ONE_QUEUE, /* at once: on the one in-order queue, later commands run after earlier ones */
  LAYER_BECOMING_MANY, /* as for LAYER_MANY_QUEUES; a thread is putting a marker on the only queue,
                          and threads that add a queue wait for that thread */
  LAYER_MANY_QUEUES    /* when the commands that used the memory are done */
} LayerOrder;

/* The flags that the layer may pass to clCreateSubBuffer (). */
#define LAYER_ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
#define LAYER_HOST_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* A kind of memory.  Each kind has its own pool and its own pieces. */
typedef enum
{
  LAYER_PLAIN,
  LAYER_HOST, /* CL_MEM_ALLOC_HOST_PTR: a sub-buffer inherits this flag from its piece, and cannot
                 ask for it */
  LAYER_N_KINDS
} LayerMemory;

/* The user data of the allocator that gets pieces from the driver. */
typedef struct
{
  LayerContext *context;
  LayerMemory memory;
} LayerSource;

/* Tracks how many bytes a pool caches without need: see idle.c. */
typedef struct
{
  gint64 look_at TARN_WHOLE; /* atomic: monotonic time of the next look at the cached bytes */
  gsize least_bytes; /* under the context's lock: the fewest bytes that looks found cached */
  gint64 since;      /* under the context's lock: monotonic time from which least_bytes counts */
} LayerIdle;

/* A context of the program's.
 *
 * Invariant, under the lock: only_queue is set exactly if order is LAYER_ONE_QUEUE.  A thread that
 * adds a queue or a user event ends LAYER_ONE_QUEUE before the program gets the object.  A pool,
 * after it is set, stays as long as the context. */
struct _LayerContext
{
  LayerObject base;
  cl_device_id device; /* the only device; NULL: there are several, or the layer cannot serve it */
  gsize max_bytes;     /* the largest size that a buffer may have, in bytes */
  gsize alignment;     /* alignment of sub-buffers, in bytes; a power of two */
  gboolean counts_objects;   /* the driver counts objects in CL_CONTEXT_REFERENCE_COUNT */
  cl_uint own_references;    /* number of those references that belong to address_program */
  gboolean copies_by_pieces; /* the driver cannot do clEnqueueCopyBufferRect () on sub-buffers */
  gboolean copies_images_by_pieces; /* the driver cannot copy between sub-buffers and images */
  gboolean notes_addresses;   /* the layer keeps the host addresses of pieces, because the driver
                                 makes no images of sub-buffers: see images.c */
  cl_program address_program; /* has the kernel that reads addresses of pieces; NULL: not needed */

  TarnMutex lock; /* guards all fields from here up to answers */
  TarnCond changed;
  LayerOrder order;                 /* atomic */
  LayerQueue *only_queue;           /* borrowed; NULL: order is not LAYER_ONE_QUEUE */
  guint64 reused_number TARN_WHOLE; /* number of the latest command on only_queue when memory was
                                       last reused early */
  gboolean has_reused_early; /* memory was reused before the queue's commands on it were done */
  cl_event only_event;       /* done when the commands are done whose memory may have been reused
                                while the context had only one queue; new queues wait for it; NULL:
                                those commands are done, or there are none */
  guint n_joining;           /* threads that wait for only_event, or are making a new queue wait */
  guint n_user_events;       /* atomic: the program's user events that are not complete */
  gboolean has_lost_queue;   /* a queue was dropped, and its commands are not known to be done */
  GPtrArray *queues; /* references to the queues that take commands, or have unfinished commands */
  guint turn;        /* index of the queue that was polled last */
  GPtrArray *pieces; /* the driver's buffers: piece N is at index N - 1; NULL: N is free */
  GHashTable *addresses;          /* piece -> its host address, for pieces whose address is known */
  guint all_used_before;          /* all indexes of @pieces below this one have a piece */
  cl_command_queue own_queue;     /* the queue for the layer's own commands; NULL: not made yet */
  TarnPool *pools[LAYER_N_KINDS]; /* NULL: not made yet */
  LayerSource sources[LAYER_N_KINDS];
  TarnOpenclImageKinds *image_kinds; /* sizes for the pool of images; NULL: not made yet */
  TarnPool *images; /* pool of images, charged to the pool of plain buffers; NULL: not made yet */
  LayerIdle idle[LAYER_N_KINDS]; /* cached bytes of each of @pools */
  LayerIdle image_idle;          /* cached bytes of the pool of images */
  GHashTable *answers;           /* answers of the driver about flags: see ask.c */

  TarnMutex subs_lock; /* guards the next three fields: see subs.c */
  GTree *subs;         /* the sub-buffers for blocks: LayerPlace -> LayerSub */
  GQueue spares;       /* those that no buffer of the program has, the youngest first, owned */
  gint64 spares_time;  /* monotonic time of the last look at the spares' age */

  /* Atomic: */
  gint counts_parts;     /* sub-buffers add to the reference count of their buffer; -1: unknown */
  gint counts_maps;      /* maps add to the reference count of their buffer; -1: unknown */
  gint has_images;       /* the result of _tarn_layer_ask_images (); -1: unknown */
  gint shares_addresses; /* a buffer over a piece's host address shares the piece's memory; -1:
                            unknown */
  gboolean wants_images; /* the program wants images of buffers, and the driver makes none of
                            sub-buffers; so the driver makes all new buffers */
  guint spare_images;    /* driver's images in the pool of images that the program does not have */
  gint64 polled_at;      /* monotonic time of the last poll by _tarn_layer_context_poll_if_due () */
  guint pending;         /* number of released buffers that wait for commands */
  guint n_users;  /* number of allocators that use the context, plus 1 for the context itself */
  gboolean ended; /* the program has no reference to the context any more */
  gboolean is_debugged; /* TARN_DEBUG checks the context's buffers */
};

/* Add a user of a context, and drop one.  The users are the context itself and the allocators of
 * its memory, which may outlive the context's last reference.  The last user to be dropped frees
 * the context. */
LayerContext *_tarn_layer_context_add_user (LayerContext *self);
void _tarn_layer_context_drop_user (LayerContext *self);

/* Returns the reason why the driver made a buffer that the program asked for with these arguments.
 * The arguments are valid, and the buffer is not from a pool. */
LayerReason _tarn_layer_context_find_reason (cl_context handle, cl_mem_flags flags, gsize size);

/* Finds the pool for a buffer with these flags and this size.  Returns a reference to the context,
 * or NULL if the driver is to make the buffer.  The driver makes the buffers with
 * CL_MEM_COPY_HOST_PTR, because it may fill them as it allocates them.  If the context's buffers
 * are debugged, those with that flag come from a pool, too. */
LayerContext *_tarn_layer_context_find_pool (cl_context handle, cl_mem_flags flags, gsize size,
                                             TarnPool **pool);

/* Returns TRUE if memory that is released now may be reused at once, because only one queue, in
 * order, can have commands on it.  If there is a queue, sets has_reused_early. */
gboolean _tarn_layer_context_try_early_reuse (LayerContext *self);

/* Ends the state LAYER_ONE_QUEUE: from now on commands may run in another order than that in which
 * the program enqueues them.  @queue: NULL; or a queue that takes no more commands soon, or will
 * run them out of order, and so never is the only queue again.  If it is not the only queue, the
 * state does not end. */
void _tarn_layer_context_end_one_queue (LayerContext *self, LayerQueue *queue);

/* _tarn_layer_context_add_queue () adds a new queue.  _tarn_layer_context_drop_queue () drops a
 * queue that takes no more commands; call it when no buffer waits for the queue's commands any
 * more. */
void _tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order);
void _tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue);

/* _tarn_layer_context_add_user_event () counts a user event, before the driver makes it, and ends
 * the state LAYER_ONE_QUEUE.  _tarn_layer_context_drop_user_event () stops counting one, after it
 * is complete. */
void _tarn_layer_context_add_user_event (LayerContext *self);
void _tarn_layer_context_drop_user_event (LayerContext *self);

/* Returns only_event, which stays as it is until the caller calls _tarn_layer_context_end_await ().
 * Returns NULL if there is no event to wait for; the caller calls that function in either case. */
cl_event _tarn_layer_context_begin_await (LayerContext *self);
void _tarn_layer_context_end_await (LayerContext *self);

/* Poll one or two queues if buffers wait for commands.  _tarn_layer_context_poll_if_due () does
 * nothing if its last poll was less than 0.1 ms ago.  @now: monotonic time. */
void _tarn_layer_context_poll (LayerContext *self);
void _tarn_layer_context_poll_if_due (LayerContext *self, gint64 now);

/* Returns TRUE if the layer may serve this context's buffers and images from pools. */
gboolean _tarn_layer_context_may_serve (LayerContext *self);

/* Makes the driver serve the context's buffers from now on, if the program has asked a device about
 * images of buffers, and the driver makes no such images of a pool's buffers. */
void _tarn_layer_expect_images_if_asked (LayerContext *context);

/* Returns the context's pool for a kind of memory.  The first request makes the pool.  Returns NULL
 * if it cannot be made. */
TarnPool *_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory);

/* Returns to the driver all memory that the context's pools cache. */
void _tarn_layer_context_trim (LayerContext *self);

/* Returns to the driver all memory that the pools of all contexts cache.  Before that, waits for
 * the commands of this context, unless a user event of the context is not complete. */
void _tarn_layer_context_make_room (LayerContext *self);

/* Waits for all commands of the context.  If a user event is not complete, does not block in the
 * driver, but polls until no buffer waits for commands, for at most a second. */
void _tarn_layer_context_finish (LayerContext *self);

/* Waits for the commands that released buffers wait for.  Returns FALSE if there are none, if they
 * failed, or if a user event of the context is not complete. */
gboolean _tarn_layer_context_wait (LayerContext *self);

/* Returns TRUE if the host may wait for the commands that queues have at this moment.  It may not
 * if a user event is not complete, because a command may wait for an event that the waiting thread
 * itself would complete. */
gboolean _tarn_layer_context_may_wait (LayerContext *self);

/* debug.c */

/* Returns TRUE if TARN_DEBUG checks the context's buffers when they are freed.  In that case each
 * released buffer waits for its commands, and no sub-buffers are kept as spares. */
gboolean _tarn_layer_is_debugged (const LayerContext *context);
/* Begin and end the TARN_DEBUG checks of a context. */
void _tarn_layer_debug_begin (LayerContext *context);
void _tarn_layer_debug_end (LayerContext *context);
/* Tells TARN_DEBUG that the calling thread released a buffer's last reference.  Another thread may
 * free the buffer's memory later. */
void _tarn_layer_debug_note_end (LayerBuffer *buffer);
/* Makes the layer's debug thread call a function, after those of earlier calls.  The function may
 * wait, which a callback from the driver must not. */
void _tarn_layer_debug_defer (void (*func) (gpointer data), gpointer data);
/* Waits while the debug thread has more than 32 functions to call, but at most 0.1 s, because one
 * of them may depend on the calling thread. */
void _tarn_layer_debug_keep_up (void);
/* Waits until the debug thread has no function to call.  Returns FALSE if it still has one after
 * @max_wait microseconds. */
gboolean _tarn_layer_debug_drain (gint64 max_wait);
/* Checks the guard bytes of all buffers.  Call it when commands of the context have just been done.
 * Does nothing if the context is not debugged, or if the last check was too recent. */
void _tarn_layer_debug_check_guards (const LayerContext *context);

/* ask.c */

/* Finds the flags that the driver reports for a buffer that is made with the flags @asked.  Returns
 * the driver's error if the driver refuses @asked. */
cl_int _tarn_layer_ask_flags (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags);

/* Finds the flags that the driver reports for a sub-buffer that is made with @asked, of a buffer
 * that is made with @whole.  Returns the driver's error if the driver refuses them. */
cl_int _tarn_layer_ask_part_flags (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked,
                                   cl_mem_flags *flags);

/* Return TRUE if the driver's reference count of a buffer includes its sub-buffers, or its maps. */
gboolean _tarn_layer_ask_part_references (LayerContext *context);
gboolean _tarn_layer_ask_map_references (LayerContext *context);

/* Returns TRUE if the driver makes images of sub-buffers, or if it makes no images of buffers at
 * all. */
gboolean _tarn_layer_ask_images (LayerContext *context);

/* Returns TRUE if a CL_MEM_USE_HOST_PTR buffer at the host address of another buffer shares the
 * other buffer's memory. */
gboolean _tarn_layer_ask_addresses (LayerContext *context);

/* Finds out the requirements of a context's device and driver.  No other thread may know the
 * context yet.  Returns FALSE if the layer cannot serve the context. */
gboolean _tarn_layer_ask_device (LayerContext *context, cl_device_id device);

/* address.c */

/* Finds out whether the driver's buffers may be less aligned than the device states.  No other
 * thread may know the context yet. */
void _tarn_layer_address_begin (LayerContext *context);

/* Returns the offset of the first aligned device address in a piece, in bytes, or 0 if the layer
 * does not know the piece's address. */
gsize _tarn_layer_find_shift (LayerContext *context, cl_mem piece);

/* idle.c */

/* Returns to the driver the cached memory that no request has needed for ten seconds.  Does nothing
 * if the next look at the pool's cached bytes is not due yet.  @now: monotonic time. */
void _tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self, gint64 now);

/* Returns the number of bytes that a pool caches. */
gsize _tarn_layer_get_held_bytes (TarnPool *pool);

/* pieces.c */

/* The key of a sub-buffer: its place, and the flags that clCreateSubBuffer () got. */
typedef struct
{
  guint64 address; /* the address of the pool's block: see pieces.c */
  gsize size;
  cl_mem_flags asked;
} LayerPlace;

/* Waits for a command for at most 0.2 s, and releases its event.  Returns the command's state. */
cl_int _tarn_layer_wait_briefly (cl_command_queue queue, cl_event event);

/* Waits for one of the layer's own commands, and releases the command's event.  @status: the result
 * of the call that enqueued the command; if it is an error, returns it at once.
 *
 * Threads that share a queue use this instead of blocking calls.  With blocking calls, on rusticl
 * of Mesa 22.3, TARN_DEBUG sometimes saw guard bytes overwritten, as if a call had returned
 * early. */
cl_int _tarn_layer_await (cl_int status, const cl_event *event);

/* Returns the queue for the layer's own commands, which the first call makes.  Returns NULL if the
 * driver cannot make one. */
cl_command_queue _tarn_layer_context_get_queue (LayerContext *context);

/* Makes the pool for a kind of memory.  Returns NULL if it fails. */
TarnPool *_tarn_layer_pool_new (LayerSource *source);

/* Returns the piece that a block is in, and the block's offset from the start of the piece, in
 * bytes. */
cl_mem _tarn_layer_find_piece (LayerContext *context, const TarnBlock *block, gsize *offset);

/* Returns the recorded host address of a piece.  Returns NULL if none is recorded. */
gpointer _tarn_layer_find_address (LayerContext *context, cl_mem piece);

/* Asks the driver for the host address of a buffer, by mapping it.  No command may use the buffer
 * yet.  Returns NULL if the driver fails, or does not answer in time. */
gpointer _tarn_layer_ask_address (LayerContext *context, cl_mem buffer);

/* Returns the key of the sub-buffer for a block.  @asked: the flags for clCreateSubBuffer (). */
LayerPlace _tarn_layer_get_place (LayerContext *context, const TarnBlock *block,
                                  cl_mem_flags asked);

/* subs.c */

/* A sub-buffer that the driver made for a block.  Either a buffer of the program has it, or it is a
 * spare: the layer keeps it for a later buffer with the same key. */
struct _LayerSub
{
  LayerPlace place;   /* the key */
  cl_mem handle;      /* the driver's handle, a reference */
  cl_mem_flags flags; /* the flags that the driver reports for a buffer of the program */
  gboolean is_spare;
  gint64 time;  /* monotonic time at which it became a spare */
  GList by_age; /* link of a spare in the list of spares */
};

void _tarn_layer_subs_init (LayerContext *context);
void _tarn_layer_subs_clear (LayerContext *context); /* call it when no sub-buffer is left */

/* Returns the sub-buffer for a block: a spare, or else a new one.  Returns NULL in three cases: the
 * driver refuses it; another thread is releasing a spare of the block's memory; the layer is blind:
 * the program may use buffers by functions of extensions that the layer does not know. */
LayerSub *_tarn_layer_sub_get (LayerContext *context, const TarnBlock *block, cl_mem_flags asked);

/* End a sub-buffer of the program, and take @self over: one makes it a spare, the other releases
 * it.  Call them before the buffer's block is freed. */
void _tarn_layer_sub_keep (LayerContext *context, LayerSub *self);
void _tarn_layer_sub_free (LayerContext *context, LayerSub *self);

/* Returns the number of the context's spares. */
guint _tarn_layer_count_spares (LayerContext *context);

/* Release spares: all; those that no buffer has taken for ten seconds (@now: monotonic time); those
 * whose address is at least @start and less than @end. */
void _tarn_layer_drop_spares (LayerContext *context);
void _tarn_layer_drop_old_spares (LayerContext *context, gint64 now);
void _tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end);

/* Releases one of the driver's buffers or images, and warns if the driver refuses that. */
void _tarn_layer_release_object (cl_mem handle);

/* uses.c */

/* A use records that commands of a queue use a buffer.  A use with an event stands for one command.
 * A use without an event stands for all commands of the queue up to the use's number.  After the
 * program has released the buffer, each use is in a list of its queue until its commands are
 * done. */
struct _LayerUse
{
  LayerQueue *queue; /* a reference; NULL: this is no use */
  guint64 number;
  cl_event event; /* the command's event, a reference; NULL: the buffer waits for the queue */

  /* Set when the buffer begins to wait: */
  LayerBuffer *buffer; /* the buffer that has the use, which is not destroyed while a use waits */
  gpointer ticket;     /* the argument of the driver's callback; NULL: there is no callback */
  gboolean is_waiter;  /* under the queue's lock: the use is in LayerQueue.waiters */
  GList link; /* under the queue's lock: in LayerQueue.waiting or .waiters; its data is the use */
};

/* Records that a command uses a buffer.  The caller has a reference to the buffer.  @number: the
 * command's number, the latest on the queue.  @event: the command's event; nullable.  @takes: the
 * function takes over the caller's reference to @event. */
void _tarn_layer_buffer_use (LayerBuffer *self, LayerQueue *queue, guint64 number, cl_event event,
                             gboolean takes);

/* Releases the uses of a buffer whose record is being freed. */
void _tarn_layer_buffer_forget_uses (LayerBuffer *self);

/* queue.c */

/* A queue of the program's.
 *
 * The layer numbers the commands that use buffers, in the order in which it counts them, which it
 * does after the driver has accepted each.  @done is a number such that all commands up to it are
 * done.
 *
 * While a released buffer waits for commands, each of its uses is in a list of a queue: @waiting or
 * @waiters.
 *
 * Invariants, under the lock: done <= enqueued.  In @waiting and in @markers, numbers do not
 * decrease from head to tail.  The use at the head of @waiting is not done.  n_behind and
 * bytes_behind count the uses in @waiting whose number is larger than the last marker's, or all
 * uses there if the queue has no marker.  A use is in @waiters exactly if is_waiter is TRUE.  A
 * closed queue stays closed. */
struct _LayerQueue
{
  LayerObject base;
  LayerContext *context; /* a reference */
  gboolean in_order;     /* atomic: the driver runs commands in order; may become FALSE */
  gboolean leaves;       /* guarded by the context's lock: the queue takes no more commands soon,
                            or will run them out of order */
  guint64 enqueued TARN_WHOLE; /* atomic: number of the latest command that uses buffers */
  guint64 done TARN_WHOLE;     /* atomic: all commands up to this number are done */
  gboolean finishing;          /* atomic: a marker failed, and a thread waits in clFinish () */
  gboolean
      is_stuck; /* atomic: the last wait of a request for memory ended before the commands did */
  guint users;  /* atomic: users of the driver's queue: calls in progress, and 1 for the context
                   until it drops the queue */

  TarnMutex lock;     /* guards all fields below */
  gboolean closed;    /* atomic: the queue takes no more commands; all are done, or a marker comes
                         after them */
  GQueue waiting;     /* of LayerUse, by number: each waits for all commands up to its number */
  guint n_behind;     /* atomic: number of uses in @waiting that come after the last marker */
  gsize bytes_behind; /* atomic: size of those uses' buffers, in bytes */
  GQueue markers;     /* of LayerMarker, by number: markers that are not known to be done */
  GQueue waiters;     /* of LayerUse: each waits for its own command, by its event */
};

/* Makes a use's buffer wait for all commands that its queue has had so far.  When they are done,
 * the layer calls _tarn_layer_buffer_commands_done ().  Returns FALSE, and does not make the buffer
 * wait, if the use's command is done already. */
gboolean _tarn_layer_queue_add_waiting (LayerUse *use);

/* Puts a marker on the queue, unless a marker comes after all commands that buffers wait for.
 * @notify: the driver shall call back when the marker is done, because no thread may poll any
 * more. */
void _tarn_layer_queue_put_marker (LayerQueue *self, gboolean notify);

/* Puts a marker on the queue if at least 16 uses, or 16 MiB of buffers, come after the last
 * marker. */
void _tarn_layer_queue_put_marker_if_many (LayerQueue *self);

/* Drops a user of the driver's queue.  When it was the last, releases the queue to the driver. */
void _tarn_layer_queue_drop_user (LayerQueue *self);

/* Releases an event. */
void _tarn_layer_release_event (cl_event event);

/* Returns the state of an event: CL_COMPLETE if its command is done, less if the command failed,
 * more if it has not ended yet. */
cl_int _tarn_layer_get_state (cl_event event);

/* Makes the context drop the queue, if the queue is closed and nothing waits for its commands. */
void _tarn_layer_queue_end_if_over (LayerQueue *self);

/* Asks the driver which markers of the queue are done, and which commands of the uses in @waiters,
 * and ends the waits of buffers for them. */
void _tarn_layer_queue_poll (LayerQueue *self);

/* Waits for the commands that buffers wait for.  Returns FALSE if there are none, if a command
 * failed, or if no command got done for 10 s. */
gboolean _tarn_layer_queue_wait (LayerQueue *self);

/* Waits for all commands, also after one has failed.  Returns FALSE if it had nothing to wait for,
 * or if clFinish () failed. */
gboolean _tarn_layer_queue_finish (LayerQueue *self);

/* Records that all commands up to @number are done, and ends the waits of buffers for them. */
void _tarn_layer_queue_set_done (LayerQueue *self, guint64 number);

/* Returns the number of the queue's latest command. */
static inline guint64
_tarn_layer_queue_get_enqueued (LayerQueue *self)
{
  return __atomic_load_n (&self->enqueued, __ATOMIC_ACQUIRE);
}

/* Counts a command that the driver has accepted.  Returns the command's number. */
static inline guint64
_tarn_layer_queue_count (LayerQueue *self)
{
  return __atomic_add_fetch (&self->enqueued, 1, __ATOMIC_ACQ_REL);
}

/* Returns TRUE if the command with a number is known to be done. */
static inline gboolean
_tarn_layer_queue_is_done (LayerQueue *self, guint64 number)
{
  return __atomic_load_n (&self->done, __ATOMIC_ACQUIRE) >= number;
}

/* waiter.c */

/* Makes a use's buffer wait for the one command of the use, by its event.  When the command is
 * done, the layer calls _tarn_layer_buffer_commands_done ().  @notify: the driver shall call back,
 * because no thread may poll any more.  The caller has a reference to the buffer, because another
 * thread may end the wait at once. */
void _tarn_layer_wait_for_event (LayerUse *use, gboolean notify);

/* Takes the waiters with numbers up to @number out of their list, and adds their links to @taken.
 * The caller holds the queue's lock. */
void _tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number, GQueue *taken);

/* Ends the wait of a use.  The caller has taken the use out of its queue's lists.  This may free
 * the use's buffer, and the use with it. */
void _tarn_layer_use_end_wait (LayerUse *self);

/* Asks the driver about the commands of waiters, in turn, until it has found two that are not
 * done. */
void _tarn_layer_poll_waiters (LayerQueue *queue);

/* buffer.c */

/* The record of a cl_mem of the program's: a buffer from a pool, a sub-buffer or an image that is
 * made of such a buffer, or an image from a pool.  An object that is made of a buffer counts as one
 * of the program's references to the buffer.
 *
 * A buffer's end has three steps.  First, the program releases its last reference: the buffer has
 * ended.  Second, the commands that use it are done, or need not be waited for.  Third, the layer
 * destroys it: it releases or keeps the driver's object, and frees the memory.
 *
 * Invariants: block is set exactly if whole is not.  A buffer is destroyed once, after it has
 * ended, and when it waits for no command. */
struct _LayerBuffer
{
  LayerObject base;
  LayerContext *context; /* a reference */
  LayerBuffer *whole; /* the buffer that this is made of, a reference; NULL: this is a buffer or an
                         image from a pool */
  TarnBlock *block;   /* the memory; NULL: this is made of a buffer */
  LayerSub *sub; /* the driver's sub-buffer for the block, owned; NULL: this is an image, or made of
                    a buffer */
  gsize offset;  /* bytes from the start of @whole */
  gsize size;    /* bytes that the program asked for; 0: this is an image made of a buffer */
  cl_mem_flags asked; /* flags that the program gave, without those that a sub-buffer inherits */
  cl_mem_flags flags; /* flags that the driver reports */
  gboolean is_image;
  gboolean is_disguised; /* this is an image made of a host address: see images.c */
  gboolean was_mapped;   /* set as the buffer ends: a map of it was left */
  gboolean is_watched;   /* atomic: the buffer has destructor callbacks, which must not come late */
  guint parts;           /* atomic: number of objects that are made of this one and not destroyed */
  guint waits; /* atomic: number of uses that this waits for, plus 1 while the waits begin */

  TarnMutex lock; /* guards all fields below */
  gboolean ended; /* the program has no reference: no field below changes any more */
  guint n_uses;
  LayerUse use;      /* the use, if there is only one */
  LayerUse *uses;    /* all uses, owned; NULL: there is at most one */
  GSList *callbacks; /* of LayerCallback, owned, the latest first */
  GArray *maps;      /* of LayerMap: maps of this and of objects made of it; NULL: none yet */
};

/* Returns the array of a buffer's uses. */
static inline LayerUse *
_tarn_layer_buffer_get_uses (LayerBuffer *self)
{
  return self->uses != NULL ? self->uses : &self->use;
}

/* Returns the piece that a buffer or sub-buffer is in, and its offset there in bytes. */
cl_mem _tarn_layer_buffer_find_piece (const LayerBuffer *self, gsize *offset);

/* Returns a reference to the record of a handle, and adds one to the program's references, so that
 * the object lives during a call of the driver: a command may run, and the program may release the
 * command's objects, before the layer has recorded the command.  Returns NULL if there is no
 * record. */
LayerBuffer *_tarn_layer_buffer_find_retained (cl_mem handle);

/* Drops both references that _tarn_layer_buffer_find_retained () added. */
void _tarn_layer_buffer_release (LayerBuffer *self);

/* Ends one of the waits of a buffer.  After the last wait, destroys the buffer. */
void _tarn_layer_buffer_commands_done (LayerBuffer *self);

/* Makes the record of an image from the pool of images, and takes over @block.  Returns a borrowed
 * record. */
LayerBuffer *_tarn_layer_buffer_add_pooled_image (LayerContext *context, TarnBlock *block,
                                                  cl_mem image);

/* Makes the record of an image that was made of a buffer.  Returns a borrowed record. */
LayerBuffer *_tarn_layer_buffer_add_image (LayerBuffer *whole, cl_mem image);

/* If @status, the result of a call of the driver, says that the driver had no memory, returns
 * cached memory to the driver, and returns TRUE: the caller should repeat the call.  Otherwise
 * returns FALSE. */
gboolean _tarn_layer_try_make_room (cl_context handle, cl_int status);

/* image-pool.c */

/* Serves an image from the pool of images.  If it returns NULL and leaves *status as CL_SUCCESS,
 * the driver is to make the image.  If it returns NULL and sets *status to an error, the program
 * gets that error. */
cl_mem _tarn_layer_serve_image (cl_context handle, cl_mem_flags flags,
                                const cl_image_format *format, const cl_image_desc *desc,
                                cl_int *status);

/* Returns an image's block to the pool of images.  The caller makes sure that the image's commands
 * are done, or that later commands run after them.  @ends: the driver's image is released, not
 * cached. */
void _tarn_layer_image_free (LayerContext *context, TarnBlock *block, gboolean ends);

/* Returns all cached images to the driver. */
void _tarn_layer_trim_images (LayerContext *context);

/* Drops the pool of a context that is being freed. */
void _tarn_layer_images_clear (LayerContext *context);

/* commands.c */

#define LAYER_FEW 2 /* most commands use at most this number of objects */

/* The state of a command from before the driver's call until after it. */
typedef struct
{
  LayerQueue *queue; /* the command's queue, a reference; NULL: the layer does not know it */
  guint64 number;    /* the queue's latest number before the call */
  guint n;           /* number of objects that the command uses */
  LayerBuffer *few[LAYER_FEW]; /* the objects, retained; NULL: not the layer's */
  LayerBuffer **many; /* the objects if more than LAYER_FEW, owned; NULL: they are in @few */
  cl_event own;       /* the command's event, if the layer wants it and the program does not */
  cl_event *event;    /* place to which the driver writes the event; NULL: nobody wants it */
} LayerCommand;

/* Begins a command: retains its objects, because the command may run, and the program may release
 * the objects, before the layer has recorded the command.
 *
 * @objects: nullable.  @event: the address of the driver call's argument that says where to write
 * the command's event.  If that argument is NULL, the layer may replace it. */
void _tarn_layer_command_begin (LayerCommand *self, cl_command_queue handle, const cl_mem *objects,
                                guint n, cl_event **event);

/* Begins a command for buffers that the caller has retained.  Takes over @buffers. */
void _tarn_layer_command_begin_retained (LayerCommand *self, cl_command_queue handle,
                                         LayerBuffer **buffers, guint n, cl_event **event);

/* Returns a command's object by its index.  Returns NULL if the layer has no record of the
 * object. */
static inline LayerBuffer *
_tarn_layer_command_get (const LayerCommand *self, guint i)
{
  return self->many != NULL ? self->many[i] : self->few[i];
}

/* Returns FALSE if @size bytes from @offset on do not end within a buffer from a pool, or, if
 * @buffer is a sub-buffer of the program's, within the buffer that it is made of.  Returns TRUE for
 * an image and for NULL, which stands for an object that is not from a pool: the driver checks
 * these. */
gboolean _tarn_layer_is_within (const LayerBuffer *buffer, gsize offset, gsize size);

/* Ends a command, whether the driver accepted it or not: records its uses and releases its objects.
 * @status: the result of the driver's call.  @blocking: the call has waited for the command, so the
 * command is done; on an in-order queue, the commands before it are done as well. */
void _tarn_layer_command_end (LayerCommand *self, cl_int status, gboolean blocking);

/* maps.c */

/* Returns the number of a buffer's maps (CL_MEM_MAP_COUNT). */
cl_uint _tarn_layer_count_maps (LayerBuffer *self);

/* Forgets all maps of a buffer that ends.  Returns FALSE if the buffer had none. */
gboolean _tarn_layer_forget_maps (LayerBuffer *self);

/* The functions that the layer intercepts, by the file that defines them */

#define LAYER_FUNCTIONS(F)                                                                         \
  F (clCreateContext) /* context.c */                                                              \
  F (clCreateContextFromType)                                                                      \
  F (clRetainContext)                                                                              \
  F (clReleaseContext)                                                                             \
  F (clGetContextInfo)                                                                             \
  F (clCreateUserEvent) /* user-event.c */                                                         \
  F (clSetUserEventStatus)                                                                         \
  F (clCreateCommandQueue) /* queue.c */                                                           \
  F (clCreateCommandQueueWithProperties)                                                           \
  F (clSetCommandQueueProperty)                                                                    \
  F (clRetainCommandQueue)                                                                         \
  F (clReleaseCommandQueue)                                                                        \
  F (clFinish)                                                                                     \
  F (clCreateBuffer) /* buffer.c */                                                                \
  F (clCreateBufferWithProperties)                                                                 \
  F (clCreateSubBuffer)                                                                            \
  F (clSVMAlloc)                                                                                   \
  F (clRetainMemObject)                                                                            \
  F (clReleaseMemObject)                                                                           \
  F (clSetMemObjectDestructorCallback)                                                             \
  F (clCreateImage) /* images.c */                                                                 \
  F (clCreateImage2D)                                                                              \
  F (clCreateImage3D)                                                                              \
  F (clCreateImageWithProperties)                                                                  \
  F (clGetDeviceInfo)                                                                              \
  F (clGetSupportedImageFormats)                                                                   \
  F (clGetImageInfo)                                                                               \
  F (clGetMemObjectInfo)  /* describe.c */                                                         \
  F (clEnqueueReadBuffer) /* commands.c */                                                         \
  F (clEnqueueWriteBuffer)                                                                         \
  F (clEnqueueFillBuffer)                                                                          \
  F (clEnqueueCopyBuffer)                                                                          \
  F (clEnqueueReadImage)                                                                           \
  F (clEnqueueWriteImage)                                                                          \
  F (clEnqueueFillImage)                                                                           \
  F (clEnqueueCopyImage)                                                                           \
  F (clEnqueueMigrateMemObjects)                                                                   \
  F (clEnqueueReadBufferRect) /* copies.c */                                                       \
  F (clEnqueueWriteBufferRect)                                                                     \
  F (clEnqueueCopyBufferRect)                                                                      \
  F (clEnqueueCopyImageToBuffer)                                                                   \
  F (clEnqueueCopyBufferToImage)                                                                   \
  F (clEnqueueMapBuffer) /* maps.c */                                                              \
  F (clEnqueueMapImage)                                                                            \
  F (clEnqueueUnmapMemObject)                                                                      \
  F (clEnqueueNativeKernel)     /* native.c */                                                     \
  F (clCreateProgramWithSource) /* kernel.c */                                                     \
  F (clCreateKernel)                                                                               \
  F (clCreateKernelsInProgram)                                                                     \
  F (clCloneKernel)                                                                                \
  F (clRetainKernel)                                                                               \
  F (clReleaseKernel)                                                                              \
  F (clSetKernelArg)                                                                               \
  F (clEnqueueNDRangeKernel)                                                                       \
  F (clEnqueueTask)                                                                                \
  F (clGetExtensionFunctionAddressForPlatform) /* layer.c */

/* Declares layer_clCreateBuffer () and so on, with the parameters of the driver's functions. */
#define LAYER_DECLARE(name) extern __typeof__ (*((cl_icd_dispatch *) NULL)->name) layer_##name;

LAYER_FUNCTIONS (LAYER_DECLARE)

#endif
