/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer between an OpenCL loader and a driver, which gives a program's buffers memory from a
 * pool:
 *
 *     layer.c         the functions that the loader calls, and the table of functions
 *     settings.c      the environment
 *     faults.c        fault injection, in front of all that follows:
 *     fault-calls.c   ... by each call
 *     fault-memory.c  ... beyond a budget
 *     report.c        reports to the program that started this one
 *     table.c         records of the driver's objects
 *     context.c       contexts: their pools, and how their queues are ordered
 *     debug.c         checks of buffers with TARN_DEBUG
 *     address.c       addresses of pieces, for drivers that align less than they state
 *     pieces.c        pieces: large buffers of the driver, with the heap and pool over them
 *     queue.c         queues, and which of their commands are done
 *     waiter.c        waits for single commands
 *     spares.c        sub-buffers kept for the next buffers
 *     buffer.c        buffers and sub-buffers, from their beginning to their end
 *     images.c        images, also those that are made of buffers
 *     image-pool.c    the pool of images
 *     idle.c          memory that pools cache without need
 *     uses.c          the commands that use a buffer
 *     describe.c      queries about buffers
 *     ask.c           what the driver does with buffers of its own, as programs are to see it
 *     commands.c      commands that use buffers
 *     copies.c        ... of boxes, and of images, where some drivers fail with sub-buffers
 *     maps.c          ... that map buffers
 *     native.c        ... that call functions of the host
 *     kernel.c        kernels' arguments, and launches
 *
 * A buffer of the program is a sub-buffer of a piece.  So the program has a real handle of the
 * driver, which works with functions that the layer does not know.  The layer itself does what the
 * specification defines for buffers but not for sub-buffers.  It also counts the program's
 * references: the driver sees one.
 *
 * A buffer's memory is free once the program has no reference and the commands that used it are
 * done.  For that, the layer records each command with the buffers that it uses, once the driver
 * has taken it.  Some time after the release it puts a marker on the queue.  For a command out of
 * order it keeps the event instead; also for a buffer with callbacks, which must not come late.  As
 * long as a context has had one queue, in order, and no user event, memory need not wait: the next
 * buffer's commands are enqueued behind those of the released one.
 *
 * Calls that the layer cannot do right are passed on to the driver unchanged: see
 * _tarn_layer_context_find_pool ().  No lock is held while the driver or a function of the
 * program's is called; debug builds check it at each call of the driver. */

#ifndef TARN_LAYER_PRIVATE_H
#define TARN_LAYER_PRIVATE_H

/* cl_icd_dispatch has the functions up to OpenCL 3.0.  Deprecated functions are reached only
 * through it. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300

#include <CL/cl_layer.h>
#include <tarn/tarn.h>

#include "common/lock-private.h"
#include "common/whole-private.h"
#include "opencl/image-kinds-private.h"

/* The driver's functions.  They are set before any call, and constant. */
extern const cl_icd_dispatch *_tarn_layer_functions;

/* Returns the driver's functions, for a call of one.  The caller must hold no lock: a driver may
 * wait for other threads, or call functions of the program or of the layer. */
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

/* The settings, constant once they are read. */
typedef struct
{
  gboolean uses_pool;
  gchar *limit; /* nullable */
  gboolean prints_stats;
  gchar *faults;         /* nullable */
  gchar *report;         /* a file; nullable */
  gboolean may_debug;    /* TARN_DEBUG is set, perhaps to something that checks buffers */
  gboolean rounds_sizes; /* the sizes of small buffers are rounded up */
} LayerSettings;

void _tarn_layer_read_settings (void);
const LayerSettings *_tarn_layer_get_settings (void);

/* report.c */

/* Why a buffer is the driver's own. */
typedef enum
{
  LAYER_OF_HOST,    /* its memory is the host's, or is filled from there */
  LAYER_OF_DEVICES, /* its context has several, or one older than OpenCL 1.2 */
  LAYER_FLAGS,      /* or properties: the layer does not know them */
  LAYER_TOO_LARGE,
  LAYER_FOR_IMAGES, /* the program makes images of buffers */
  LAYER_NO_POOL,    /* there was none, or it had no memory */
  LAYER_N_REASONS
} LayerReason;

/* Begins the report, if there is one: adds the first line, and registers a function that adds the
 * last ones. */
void _tarn_layer_report_begin (void);

/* Returns a reason in words that fit behind "NUMBER buffers". */
const gchar *_tarn_layer_describe_reason (LayerReason reason);

/* layer.c */

/* Numbers of calls, the program's and the layer's own; atomic. */
typedef struct
{
  gsize created;                  /* buffers that the program asked for */
  gsize served;                   /* those with memory from a pool */
  gsize pieces;                   /* buffers that the layer asked the driver for */
  gsize passed_on;                /* ... passed on to the driver instead */
  gsize reasons[LAYER_N_REASONS]; /* ... by reason */
  gsize sub_buffers;              /* the same for sub-buffers */

  gsize images_created; /* images that the program asked for, except those of buffers */
  gsize images_served;  /* those from a pool */
  gsize images_passed_on;
  gsize pool_images; /* images that the layer asked the driver for */

  guint64 buffer_bytes TARN_WHOLE; /* sum over all buffers that the program got */
  guint64 image_bytes TARN_WHOLE;  /* ... over images that are made of no buffer */
} LayerCounts;

extern LayerCounts _tarn_layer_counts;

#define LAYER_COUNT(field)                                                                         \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, 1, __ATOMIC_RELAXED))

#define LAYER_COUNT_BYTES(field, bytes)                                                            \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, bytes, __ATOMIC_RELAXED))

/* Prints a message, once for each @once. */
void _tarn_layer_warn (gboolean *once, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Returns a value as OpenCL's clGet...Info () do. */
cl_int _tarn_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                           size_t *size_ret);

/* Returns TRUE if the program has asked for an extension's function that may use buffers unseen by
 * the layer.  From then on new buffers are the driver's, and memory of the pools returns to the
 * driver. */
gboolean _tarn_layer_is_blind (void);

/* table.c */

typedef enum
{
  LAYER_CONTEXT,
  LAYER_QUEUE,
  LAYER_BUFFER,
  LAYER_KERNEL
} LayerKind;

/* The record of an object of the program's; the first member of each kind's struct. */
typedef struct
{
  LayerKind kind;
  guint references;         /* atomic: to this record */
  guint program_references; /* atomic: to the object, as the program counts them */
  gpointer handle;          /* the driver's */
  void (*finalize) (gpointer record);
} LayerObject;

/* Returns a reference to the record of a handle.  Returns NULL if there is none of that kind. */
gpointer _tarn_layer_find (LayerKind kind, gconstpointer handle);

/* Returns references to all records of a kind. */
GPtrArray *_tarn_layer_list_all (LayerKind kind);

/* Adds a record to the table, with a reference.  It replaces an older one with its handle, whose
 * object is gone. */
void _tarn_layer_list (gpointer record);

/* Removes a record from the table.  Call it before the driver's release: after that, another object
 * may have the handle. */
void _tarn_layer_unlist (gpointer record);

gpointer _tarn_layer_ref (gpointer record);
gboolean _tarn_layer_try_ref (gpointer record); /* returns FALSE if it is being finalized */
void _tarn_layer_unref (gpointer record);
void _tarn_layer_clear (gpointer record); /* takes a pointer to a record */

/* Add to the program's references of an object, and drop one.  _tarn_layer_release () returns TRUE
 * if it was the last. */
void _tarn_layer_retain (gpointer record);
gboolean _tarn_layer_try_retain (gpointer record); /* returns FALSE if the program has none */
gboolean _tarn_layer_release (gpointer record);

/* A ticket is the argument of a callback that a driver may never call: a number for a record, which
 * has a reference until a thread takes the ticket.  _take () returns NULL if that has happened. */
gpointer _tarn_layer_ticket_new (gpointer record);
gpointer _tarn_layer_ticket_take (gpointer ticket);

/* LAYER_AUTO drops a reference at the end of the enclosing block. */
#define LAYER_AUTO __attribute__ ((cleanup (_tarn_layer_clear)))

/* context.c */

/* When memory of a released buffer may be reused. */
typedef enum
{
  LAYER_NO_QUEUE,      /* at once: nothing has used it */
  LAYER_ONE_QUEUE,     /* at once: the next use is behind the earlier ones on the same queue */
  LAYER_BECOMING_MANY, /* a thread puts a marker on the only queue; others wait for it */
  LAYER_MANY_QUEUES    /* when the commands that used it are done */
} LayerOrder;

/* The flags with which a sub-buffer can be made. */
#define LAYER_ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
#define LAYER_HOST_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* A kind of memory.  Each has its own pieces. */
typedef enum
{
  LAYER_PLAIN,
  LAYER_HOST, /* CL_MEM_ALLOC_HOST_PTR, which a sub-buffer inherits and cannot ask for */
  LAYER_N_KINDS
} LayerMemory;

/* The user data of an allocator of pieces. */
typedef struct
{
  LayerContext *context;
  LayerMemory memory;
} LayerSource;

/* The bytes that a pool caches over time: see idle.c. */
typedef struct
{
  gint64 look_at TARN_WHOLE; /* atomic: monotonic time of the next look */
  gsize least_bytes;         /* under the context's lock: the least bytes that were cached, */
  gint64 since;              /* ... since this time */
} LayerIdle;

/* A context of the program's.
 *
 * Invariants, under the lock: only_queue is set exactly with LAYER_ONE_QUEUE; order only advances;
 * only_event is set at most once, as order becomes LAYER_MANY_QUEUES.  A pool, once set, stays as
 * long as the context. */
struct _LayerContext
{
  LayerObject base;
  cl_device_id device;              /* NULL: there are several, or the layer cannot serve it */
  gsize max_bytes;                  /* the most bytes of a buffer */
  gsize alignment;                  /* bytes, for sub-buffers; a power of two */
  gboolean counts_objects;          /* in the driver, objects add to a context's references */
  cl_uint own_references;           /* ... as many are the layer's own from the start */
  gboolean copies_by_pieces;        /* the driver cannot copy boxes of sub-buffers */
  gboolean copies_images_by_pieces; /* ... nor between sub-buffers and images */
  gboolean notes_addresses;         /* ... and makes no images of sub-buffers: see images.c */
  cl_program address_program; /* has the kernel that reads addresses of pieces; NULL: not needed */

  TarnMutex lock; /* guards all below, up to answers */
  TarnCond changed;
  LayerOrder order;
  LayerQueue *only_queue;     /* with LAYER_ONE_QUEUE; borrowed */
  gboolean has_reused_early;  /* memory was reused behind the only queue's commands */
  cl_event only_event;        /* nullable; done when all commands of the only queue are */
  gboolean has_user_events;   /* atomic */
  GPtrArray *queues;          /* references: queues that take commands, or have unfinished ones */
  guint turn;                 /* index of the queue that was polled last */
  GPtrArray *pieces;          /* the driver's buffers by number; NULL: free */
  GHashTable *addresses;      /* piece -> its host address, if it is known */
  guint all_used_before;      /* no number below is free */
  cl_command_queue own_queue; /* the layer's own; NULL: not made yet */
  TarnPool *pools[LAYER_N_KINDS]; /* NULL: not made yet */
  LayerSource sources[LAYER_N_KINDS];
  TarnOpenclImageKinds *image_kinds; /* for the pool of images; NULL: not made yet */
  TarnPool *images;                  /* charged to the pool of plain buffers; NULL: not made yet */
  LayerIdle idle[LAYER_N_KINDS];     /* for each of the pools */
  LayerIdle image_idle;              /* for the pool of images */
  GHashTable *answers;               /* see ask.c */

  TarnMutex spares_lock; /* guards the next three: see spares.c */
  GHashTable *spares;    /* a spare's LayerPlace -> LayerSub, owned */
  GQueue spares_by_age;
  gsize spare_bytes;
  gint64 spares_time; /* when their age was last looked at, monotonic */

  /* Atomic: */
  gint counts_parts;     /* sub-buffers add to a buffer's references; -1: unknown */
  gint counts_maps;      /* maps add to a buffer's references; -1: unknown */
  gint has_images;       /* the driver makes images of sub-buffers, too; -1: unknown */
  gint shares_addresses; /* a buffer over a piece's address shares its memory; -1: unknown */
  gboolean wants_images; /* the program wants images of buffers, and the driver makes none of
                            sub-buffers */
  gsize piece_bytes;
  guint spare_images;   /* images of the pool that the program does not have */
  gint64 polled_at;     /* time of the last poll, monotonic */
  guint pending;        /* buffers that wait for commands */
  guint n_users;        /* allocators of its memory, and one for the context itself */
  gboolean ended;       /* the program has no reference any more */
  gboolean is_debugged; /* TARN_DEBUG checks its buffers */
};

/* Add a user of a context: an allocator of its memory, which may end after the context's last
 * reference.  Drop a user; the last one frees the context. */
LayerContext *_tarn_layer_context_add_user (LayerContext *self);
void _tarn_layer_context_drop_user (LayerContext *self);

/* Returns the reason why a valid buffer is not from a pool. */
LayerReason _tarn_layer_context_find_reason (cl_context handle, cl_mem_flags flags, gsize size);

/* Returns a reference to the context, and the pool, of a buffer with such flags.  Returns NULL if
 * the driver is to make the buffer.  Buffers that are filled from the host's memory are the
 * driver's, which may fill them as it allocates them; if buffers are debugged they are from a pool,
 * too. */
LayerContext *_tarn_layer_context_find_pool (cl_context handle, cl_mem_flags flags, gsize size,
                                             TarnPool **pool);

/* Returns TRUE if released memory may be reused at once, behind the commands on the only queue, and
 * records that it was. */
gboolean _tarn_layer_context_try_early_reuse (LayerContext *self);

/* Notes that from now on commands may run in another order than that in which they are enqueued.
 * @queue: nullable; does nothing if it is not the context's only queue. */
void _tarn_layer_context_end_one_queue (LayerContext *self, const LayerQueue *queue);

/* Add a new queue; drop a queue that takes no more commands, once nothing waits for those that it
 * had. */
void _tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order);
void _tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue);

/* Poll a queue or two if buffers wait for commands; the second does nothing if the last poll was
 * just before.  @now: monotonic time. */
void _tarn_layer_context_poll (LayerContext *self);
void _tarn_layer_context_poll_if_due (LayerContext *self, gint64 now);

/* Returns TRUE if buffers and images may come from pools. */
gboolean _tarn_layer_context_may_serve (LayerContext *self);

/* Leaves a context's buffers to the driver from now on, if images of buffers require that and the
 * program has asked a device about such images. */
void _tarn_layer_expect_images_if_asked (LayerContext *context);

/* Returns the pool of a kind of memory, which the first request makes.  Returns NULL if there can
 * be none. */
TarnPool *_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory);

/* Returns cached memory to the driver. */
void _tarn_layer_context_trim (LayerContext *self);

/* Returns to the driver all memory that can be, other contexts' as well.  Waits for commands of
 * this context, unless it has user events. */
void _tarn_layer_context_make_room (LayerContext *self);

/* Waits for all commands; for a limited time if the context has user events. */
void _tarn_layer_context_finish (LayerContext *self);

/* Waits for the commands that buffers wait for.  Returns FALSE if there are none, or if the context
 * has user events. */
gboolean _tarn_layer_context_wait (LayerContext *self);

/* debug.c */

/* Returns TRUE if the context's buffers are checked when they are freed.  Then each release waits
 * for the buffer's commands, and no spares are kept. */
gboolean _tarn_layer_is_debugged (const LayerContext *context);
/* Begin and end the checks of a context. */
void _tarn_layer_debug_begin (LayerContext *context);
void _tarn_layer_debug_end (LayerContext *context);
/* Notes the thread that released a buffer's last reference; another one may free its memory. */
void _tarn_layer_debug_note_end (LayerBuffer *buffer);
/* Makes the layer's thread call a function, in the order of these calls.  It may wait, which a
 * callback of the driver's must not. */
void _tarn_layer_debug_defer (void (*func) (gpointer data), gpointer data);
/* Waits while that thread has many tasks, for a limited time, because a task may depend on the
 * caller. */
void _tarn_layer_debug_keep_up (void);
/* Waits until that thread has no task. */
void _tarn_layer_debug_drain (void);
/* Checks the guard bytes of all buffers, after commands of a context are done.  Does nothing if
 * that was just done. */
void _tarn_layer_debug_check_guards (const LayerContext *context);

/* ask.c */

/* Finds the flags that the driver reports for a buffer made with @asked.  Returns the driver's
 * error if it refuses them. */
cl_int _tarn_layer_ask_flags (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags);

/* Finds the flags of a sub-buffer, made with @asked of a buffer made with @whole, in the same
 * way. */
cl_int _tarn_layer_ask_part_flags (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked,
                                   cl_mem_flags *flags);

/* Return TRUE if sub-buffers, or maps, add to a buffer's references, as they do with some
 * drivers. */
gboolean _tarn_layer_ask_part_references (LayerContext *context);
gboolean _tarn_layer_ask_map_references (LayerContext *context);

/* Returns TRUE if the driver makes images of sub-buffers, or none of buffers either. */
gboolean _tarn_layer_ask_images (LayerContext *context);

/* Returns TRUE if a buffer made over the host address of another one shares its memory. */
gboolean _tarn_layer_ask_addresses (LayerContext *context);

/* Finds out the requirements of a new context's device and driver.  Returns FALSE if the layer
 * cannot serve it. */
gboolean _tarn_layer_ask_device (LayerContext *context, cl_device_id device);

/* address.c */

/* Finds out whether the driver's buffers may be less aligned than stated.  The context is new: no
 * other thread has it. */
void _tarn_layer_address_begin (LayerContext *context);

/* Returns the offset of the first aligned address in a piece, in bytes; 0 if it is not known. */
gsize _tarn_layer_find_shift (LayerContext *context, cl_mem piece);

/* idle.c */

/* Returns memory to the driver that the pool has cached for a while without need, if it is time for
 * a look. */
void _tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self, gint64 now);

/* Returns the number of bytes that a pool caches. */
gsize _tarn_layer_get_held_bytes (TarnPool *pool);

/* pieces.c */

/* The key of a sub-buffer: its place, and the flags that it was asked for with. */
typedef struct
{
  guint64 address; /* the block's */
  gsize size;
  cl_mem_flags asked;
} LayerPlace;

/* Waits for a command for a limited time, and releases its event.  Returns the command's state. */
cl_int _tarn_layer_wait_briefly (cl_command_queue queue, cl_event event);

/* Waits for a command of the layer's own, and releases its event.  Returns @status, of the call
 * that enqueued it, if that is an error.  Threads that share a queue use this instead of blocking
 * calls: with those and rusticl of Mesa 22.3, guard bytes seemed to be overwritten now and then, as
 * if a call had returned early. */
cl_int _tarn_layer_await (cl_int status, const cl_event *event);

/* Returns the layer's own queue, which the first call makes.  Returns NULL if there can be none. */
cl_command_queue _tarn_layer_context_get_queue (LayerContext *context);

/* Makes the pool of a kind of memory.  Returns NULL if there can be none. */
TarnPool *_tarn_layer_pool_new (LayerSource *source);

/* Returns the piece of a block, and its offset there in bytes. */
cl_mem _tarn_layer_find_piece (LayerContext *context, const TarnBlock *block, gsize *offset);

/* Returns the host address of a piece.  Returns NULL if it is not known. */
gpointer _tarn_layer_find_address (LayerContext *context, cl_mem piece);

/* Asks the driver for the host address of a buffer that is not used yet.  Returns NULL if it has
 * none, or does not answer in time. */
gpointer _tarn_layer_ask_address (LayerContext *context, cl_mem buffer);

/* Returns the key of a block's sub-buffer. */
LayerPlace _tarn_layer_get_place (LayerContext *context, const TarnBlock *block,
                                  cl_mem_flags asked);

/* spares.c */

/* A sub-buffer of the driver.  It is a buffer's of the program, or a spare: kept for a later buffer
 * at the same place. */
struct _LayerSub
{
  LayerPlace place;
  cl_mem handle;      /* a reference */
  cl_mem_flags flags; /* as the driver reports them */
  gint64 time;        /* when it became a spare, monotonic */
  GList by_age;       /* the spare's link in spares_by_age */
};

void _tarn_layer_spares_init (LayerContext *context);
void _tarn_layer_spares_clear (LayerContext *context); /* call it when there are none left */

/* Takes the spare of a place.  Returns NULL if there is none. */
LayerSub *_tarn_layer_take_spare (LayerContext *context, const LayerPlace *place);

/* Makes a sub-buffer a spare, and takes it over.  The memory is still that of its buffer. */
void _tarn_layer_keep_spare (LayerContext *context, LayerSub *sub);

/* Returns the number of spares. */
guint _tarn_layer_count_spares (LayerContext *context);

/* Releases the oldest spares until @most_bytes are left. */
void _tarn_layer_drop_spares (LayerContext *context, gsize most_bytes);

/* Releases the spares that are too old.  @now: monotonic time. */
void _tarn_layer_drop_old_spares (LayerContext *context, gint64 now);

/* Releases the spares from one address up to another. */
void _tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end);

/* uses.c */

/* A use of a buffer by a queue.  Without an event it stands for all commands of the queue up to the
 * use's number, with an event for one command.  When the program has released the buffer, each use
 * stays in a list of its queue until its commands are done. */
struct _LayerUse
{
  LayerQueue *queue; /* a reference */
  guint64 number;
  cl_event event; /* the command's, a reference; NULL: not known, so the queue is waited for */

  /* For the wait: */
  LayerBuffer *buffer; /* has the use; it is not destroyed while one waits */
  gpointer ticket;     /* for the driver's callback; NULL: there is none */
  gboolean is_waiter;  /* under the queue's lock: it is in waiters */
  GList link;          /* under the queue's lock: in waiting or waiters; its data is the use */
};

/* Records that a command uses a buffer, to which the caller has a reference.  @number: the
 * command's, the latest on its queue.  @event: nullable; the command's.  @takes: takes over a
 * reference to the event. */
void _tarn_layer_buffer_use (LayerBuffer *self, LayerQueue *queue, guint64 number, cl_event event,
                             gboolean takes);

/* Releases the uses of a buffer that is being freed. */
void _tarn_layer_buffer_forget_uses (LayerBuffer *self);

/* queue.c */

/* A queue of the program's.
 *
 * Commands that use buffers have numbers, in the order in which they were counted, after the driver
 * took them.  When all up to a number are done, so is each with such a number.
 *
 * Buffers that have ended wait for commands with their uses, which are in one of two lists here.
 *
 * Invariants, under the lock: done <= enqueued.  The numbers of waiting uses and of markers do not
 * decrease from head to tail.  The waiting use at the head is not done.  n_behind and bytes_behind
 * are of the waiting uses behind the last marker; they are all of them if there is none.  A use is
 * in waiters exactly if is_waiter says so.  A closed queue stays closed. */
struct _LayerQueue
{
  LayerObject base;
  LayerContext *context;       /* a reference */
  gboolean in_order;           /* atomic: may become FALSE */
  guint64 enqueued TARN_WHOLE; /* atomic: number of the latest command that uses buffers */
  guint64 done TARN_WHOLE;     /* atomic: the commands up to it are done */
  gboolean finishing;          /* atomic: a marker failed, and a thread waits for all commands */
  guint users; /* atomic: of the driver's queue: 1 until it is dropped, and calls that use it */

  TarnMutex lock;  /* guards all below */
  gboolean closed; /* atomic: it takes no more commands; all are done, or a marker is behind them */
  GQueue waiting;  /* of LayerUse, by number: each waits for all commands up to its number */
  guint n_behind;  /* atomic: how many of these wait for commands behind the last marker, */
  gsize bytes_behind; /* atomic: ... and the bytes of their buffers */
  GQueue markers;     /* of LayerMarker, by number */
  GQueue waiters;     /* of LayerUse: each waits for its own command */
};

/* Makes a use's buffer wait for all commands of the queue so far.  Then it calls
 * _tarn_layer_buffer_commands_done ().  Returns FALSE if the use's command is done. */
gboolean _tarn_layer_queue_add_waiting (LayerUse *use);

/* Puts a marker on the queue, unless one is behind all commands for which buffers wait.  @notify:
 * the driver is to call back when the marker is done, because no thread may poll any more. */
void _tarn_layer_queue_put_marker (LayerQueue *self, gboolean notify);

/* Puts a marker on the queue if many buffers wait behind the last one. */
void _tarn_layer_queue_put_marker_if_many (LayerQueue *self);

/* Drops a user of the driver's queue, which the driver releases after the last one. */
void _tarn_layer_queue_drop_user (LayerQueue *self);

/* Releases an event. */
void _tarn_layer_release_event (cl_event event);

/* Returns an event's state: CL_COMPLETE if its command is done, less if that failed, more
 * before. */
cl_int _tarn_layer_get_state (cl_event event);

/* Drops the queue if it is closed and nothing waits for its commands. */
void _tarn_layer_queue_end_if_over (LayerQueue *self);

/* Asks the driver which markers and waiters are done. */
void _tarn_layer_queue_poll (LayerQueue *self);

/* Waits for the commands for which buffers wait.  Returns FALSE if there are none, or if one
 * failed. */
gboolean _tarn_layer_queue_wait (LayerQueue *self);

/* Waits for all commands, those as well that fail.  Returns FALSE if all were done, or if it cannot
 * wait. */
gboolean _tarn_layer_queue_finish (LayerQueue *self);

/* Notes that the commands up to @number are done, and frees what waited for nothing else. */
void _tarn_layer_queue_set_done (LayerQueue *self, guint64 number);

/* Returns the number of the latest command. */
static inline guint64
_tarn_layer_queue_get_enqueued (LayerQueue *self)
{
  return __atomic_load_n (&self->enqueued, __ATOMIC_ACQUIRE);
}

/* Counts a command that the driver has taken.  Returns its number. */
static inline guint64
_tarn_layer_queue_count (LayerQueue *self)
{
  return __atomic_add_fetch (&self->enqueued, 1, __ATOMIC_ACQ_REL);
}

/* Returns TRUE if the command of a number is done. */
static inline gboolean
_tarn_layer_queue_is_done (LayerQueue *self, guint64 number)
{
  return __atomic_load_n (&self->done, __ATOMIC_ACQUIRE) >= number;
}

/* waiter.c */

/* Makes a use's buffer wait for its command, by its event; then it calls
 * _tarn_layer_buffer_commands_done ().  @notify: the driver is to call back, because no thread may
 * poll any more. */
void _tarn_layer_wait_for_event (LayerUse *use, gboolean notify);

/* Takes out the waiters for commands up to @number, with the queue's lock held, and adds their
 * links to @taken. */
void _tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number, GQueue *taken);

/* Ends the wait of a use that was taken out of its queue's lists.  Its buffer may be freed, and the
 * use with it. */
void _tarn_layer_use_end_wait (LayerUse *self);

/* Asks the driver about waiters, until two are not done. */
void _tarn_layer_poll_waiters (LayerQueue *queue);

/* buffer.c */

/* A cl_mem of the program's: a buffer from a pool, a sub-buffer or an image that is made of one, or
 * an image from a pool.  The program's references to it include those of objects that are made of
 * it.
 *
 * Its end has three steps: the program has no reference (it has ended); its commands are done, or
 * need not be waited for; the driver has released it, and its memory is free.
 *
 * Invariants: block is set exactly if whole is not.  A buffer is destroyed once, after it has
 * ended, and when it waits for no queue. */
struct _LayerBuffer
{
  LayerObject base;
  LayerContext *context; /* a reference */
  LayerBuffer *whole; /* the buffer that it is made of, a reference; NULL: none, it is a buffer or
                         an image from a pool */
  TarnBlock *block;   /* its memory; NULL: it is made of a buffer */
  LayerSub *sub;      /* the driver's sub-buffer for the block, owned; NULL: it is an image, or made
                         of a buffer */
  gsize offset;       /* from the start of the whole */
  gsize size;         /* bytes that the program asked for; 0: an image made of a buffer */
  cl_mem_flags asked; /* flags that the program gave, without those that a sub-buffer inherits */
  cl_mem_flags flags; /* as the driver reports them */
  gboolean is_image;
  gboolean is_disguised; /* an image that was made of a host address: see images.c */
  gboolean was_mapped;   /* set as it ends */
  gboolean is_watched;   /* atomic: it has callbacks, which must not come late */
  guint parts;           /* atomic: objects that are made of it, and not yet destroyed */
  guint waits;           /* atomic: commands and queues that it waits for */

  TarnMutex lock; /* guards all below */
  gboolean ended; /* the program has no reference: nothing below changes any more */
  guint n_uses;
  LayerUse use;      /* the only one */
  LayerUse *uses;    /* owned; NULL: there is at most one */
  GSList *callbacks; /* of LayerCallback, owned, the latest first */
  GArray *maps;      /* of LayerMap: its own and those of objects made of it; NULL: none yet */
};

/* Returns the uses of a buffer. */
static inline LayerUse *
_tarn_layer_buffer_get_uses (LayerBuffer *self)
{
  return self->uses != NULL ? self->uses : &self->use;
}

/* Returns the piece of a buffer or sub-buffer, and its offset there in bytes. */
cl_mem _tarn_layer_buffer_find_piece (const LayerBuffer *self, gsize *offset);

/* Returns a reference to the record of a handle, and adds one of the program's references, which
 * keeps the object during a call of the driver: a command may run, and the program may release its
 * objects, before the layer has recorded the command.  Returns NULL if there is no such record. */
LayerBuffer *_tarn_layer_buffer_find_retained (cl_mem handle);

/* Drops both references. */
void _tarn_layer_buffer_release (LayerBuffer *self);

/* Ends one of the waits of a buffer, and destroys it after the last. */
void _tarn_layer_buffer_commands_done (LayerBuffer *self);

/* Makes the record of an image from the pool, and takes over its block.  Returns a borrowed
 * record. */
LayerBuffer *_tarn_layer_buffer_add_pooled_image (LayerContext *context, TarnBlock *block,
                                                  cl_mem image);

/* Makes the record of an image that was made of a buffer.  Returns a borrowed record. */
LayerBuffer *_tarn_layer_buffer_add_image (LayerBuffer *whole, cl_mem image);

/* Returns cached memory to the driver if a status says that it had none.  Returns TRUE if a retry
 * is worth it. */
gboolean _tarn_layer_try_make_room (cl_context handle, cl_int status);

/* image-pool.c */

/* Makes an image from the pool of images.  Returns NULL if the driver is to make it, or, with
 * another *status than CL_SUCCESS, if there is to be none. */
cl_mem _tarn_layer_serve_image (cl_context handle, cl_mem_flags flags,
                                const cl_image_format *format, const cl_image_desc *desc,
                                cl_int *status);

/* Frees an image to its pool; with @ends the driver releases it.  Its commands are done, or the
 * next ones are behind them. */
void _tarn_layer_image_free (LayerContext *context, TarnBlock *block, gboolean ends);

/* Returns cached images to the driver. */
void _tarn_layer_trim_images (LayerContext *context);

/* Drops the pool of a context that is being freed. */
void _tarn_layer_images_clear (LayerContext *context);

/* commands.c */

#define LAYER_FEW 2 /* objects that most commands use at most */

/* A command during the driver's call. */
typedef struct
{
  LayerQueue *queue;           /* a reference; NULL: not known */
  guint64 number;              /* the queue's latest at the beginning */
  guint n;                     /* number of objects */
  LayerBuffer *few[LAYER_FEW]; /* the objects that it uses, retained, or NULL */
  LayerBuffer **many;          /* the same if there are more, owned; NULL: they are few */
  cl_event own;                /* the layer's event, if the program wants none */
  cl_event *event;             /* where the driver writes the event; NULL: none is wanted */
} LayerCommand;

/* Begins a command: retains its objects, because the command may run, and the program may release
 * the objects, before the layer has recorded the command.
 *
 * @objects: nullable.  @event: the address of the argument by which the driver is told where to
 * write the event.  If that argument is NULL, the layer may replace it. */
void _tarn_layer_command_begin (LayerCommand *self, cl_command_queue handle, const cl_mem *objects,
                                guint n, cl_event **event);

/* Begins a command for buffers that are retained already.  Takes over @buffers. */
void _tarn_layer_command_begin_retained (LayerCommand *self, cl_command_queue handle,
                                         LayerBuffer **buffers, guint n, cl_event **event);

/* Returns an object of a command by its index.  Returns NULL if it is not the layer's. */
static inline LayerBuffer *
_tarn_layer_command_get (const LayerCommand *self, guint i)
{
  return self->many != NULL ? self->many[i] : self->few[i];
}

/* Returns TRUE if @size bytes from @offset on are within a buffer from a pool.  @buffer: nullable;
 * the driver checks other buffers. */
gboolean _tarn_layer_is_within (const LayerBuffer *buffer, gsize offset, gsize size);

/* Ends a command, whether it was enqueued or not: records its uses and releases its objects.
 * @blocking: the host has waited for it, so it is done, and so are those before it on a queue in
 * order. */
void _tarn_layer_command_end (LayerCommand *self, cl_int status, gboolean blocking);

/* maps.c */

/* Returns the number of a buffer's maps (CL_MEM_MAP_COUNT). */
cl_uint _tarn_layer_count_maps (LayerBuffer *self);

/* Forgets all maps of a buffer that ends.  Returns FALSE if there were none. */
gboolean _tarn_layer_forget_maps (LayerBuffer *self);

/* The functions that are intercepted, by file */

#define LAYER_FUNCTIONS(F)                                                                         \
  F (clCreateContext) /* context.c */                                                              \
  F (clCreateContextFromType)                                                                      \
  F (clRetainContext)                                                                              \
  F (clReleaseContext)                                                                             \
  F (clGetContextInfo)                                                                             \
  F (clCreateUserEvent)                                                                            \
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

/* Declares layer_clCreateBuffer () and so on, each with the parameters of the driver's function. */
#define LAYER_DECLARE(name) extern __typeof__ (*((cl_icd_dispatch *) NULL)->name) layer_##name;

LAYER_FUNCTIONS (LAYER_DECLARE)

#endif
