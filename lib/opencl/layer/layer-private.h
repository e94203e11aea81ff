/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer between an OpenCL loader and a driver that gives a program's buffers memory of a pool:
 *
 *     layer.c      what the loader calls, the table of functions
 *     settings.c   the environment
 *     faults.c     what is made to fail before all that follows sees it
 *     fault-calls.c
 *                  ... by each call
 *     fault-memory.c
 *                  ... beyond a budget
 *     report.c     what is told to who started the program
 *     table.c      what the layer knows of the driver's objects
 *     context.c    contexts: their pools, and how their queues are ordered
 *     debug.c      what is otherwise where TARN_DEBUG looks at buffers
 *     address.c    where these begin on the device, for drivers that align less than they say
 *     pieces.c     large buffers of the driver's, and the heap and pool over them
 *     queue.c      queues, and what waits for their commands
 *     waiter.c     ... for one command of theirs
 *     spares.c     sub-buffers that buffers had which are gone, for the next ones
 *     buffer.c     buffers, and what is made of them
 *     images.c     images, some of which are made of buffers
 *     image-pool.c ... and others have memory of a pool
 *     idle.c       what pools hold that no request needs
 *     uses.c       which commands use a buffer
 *     describe.c   what is said of buffers
 *     ask.c        what the driver does with buffers of its own, which is what programs are to see
 *     commands.c   commands that use buffers
 *     copies.c     ... of boxes, and of images, which some drivers get wrong with sub-buffers
 *     maps.c       ... which the host can write to or read
 *     native.c     ... functions of the host's
 *     kernel.c     kernels' arguments, and launches
 *
 * A buffer is a sub-buffer of a piece, so that a program has a real handle of the driver's, for
 * functions that the layer does not know, too; and whatever the specification says of buffers but
 * not of sub-buffers, the layer does itself.  References are counted here: the driver has one.
 *
 * Its memory is given back once nobody has a reference and the commands that used it are done.  To
 * know the latter, each command is noted with the buffers that it uses, once the driver has taken
 * it, and a marker is put on the queue some time after the release; of a command out of order, or
 * of a buffer with callbacks, which are not to come late, the event is kept.  As long as a context
 * has had one queue, in order, and no user event, nobody has to wait: what is given to the next
 * buffer is used after what was enqueued before.
 *
 * The layer passes calls that it cannot do right on to the driver untouched: see
 * layer_context_find_pool ().  No lock is held in a call of the driver, or of the program's
 * functions. */

#ifndef TARN_LAYER_PRIVATE_H
#define TARN_LAYER_PRIVATE_H

/* The table has functions up to 3.0; of those deprecated by now, only its members are used. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300

#include <CL/cl_layer.h>
#include <tarn/tarn.h>

#include "common/lock-private.h"
#include "common/whole-private.h"
#include "opencl/image-kinds-private.h"

/* The driver's functions; set before any call, and constant. */
extern const cl_icd_dispatch *_tarn_layer_driver;

typedef struct _LayerContext LayerContext;
typedef struct _LayerQueue LayerQueue;
typedef struct _LayerBuffer LayerBuffer;

/* Until the end of the block that it stands in. */
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

typedef struct
{
  gboolean uses_pool;
  gchar *limit; /* nullable */
  gboolean prints_stats;
  gchar *faults;         /* nullable */
  gchar *report;         /* a file; nullable */
  gboolean may_debug;    /* TARN_DEBUG is set, and may be worth something */
  gboolean rounds_sizes; /* blocks of small buffers may be larger than these */
} LayerSettings;

void _tarn_layer_read_settings (void);
const LayerSettings *_tarn_layer_get_settings (void);

/* report.c */

/* Why a buffer is the driver's own. */
typedef enum
{
  LAYER_OF_HOST,    /* its contents are, or come from there */
  LAYER_OF_DEVICES, /* its context has several, or one that is too old */
  LAYER_FLAGS,      /* or properties: the layer does not know them */
  LAYER_TOO_LARGE,
  LAYER_FOR_IMAGES, /* the program makes images of buffers */
  LAYER_NO_POOL,    /* there was none, or none that could serve it */
  LAYER_N_REASONS
} LayerReason;

/* Adds the first line to the report, if there is one, and sees to the last. */
void _tarn_layer_report_begin (void);

/* Gets a reason in words that go on behind a number of buffers. */
const gchar *_tarn_layer_describe_reason (LayerReason reason);

/* layer.c */

/* Calls of the program's and of the layer's own; atomic. */
typedef struct
{
  gsize created;                  /* buffers that the program asked for */
  gsize served;                   /* those with memory from a pool */
  gsize pieces;                   /* buffers that the layer asked the driver for */
  gsize passed_on;                /* buffers that the driver was asked for instead */
  gsize reasons[LAYER_N_REASONS]; /* ... why */
  gsize sub_buffers;              /* that the layer asked the driver for */

  gsize images_created; /* that the program asked for, except images of buffers */
  gsize images_served;  /* those from a pool */
  gsize images_passed_on;
  gsize pool_images; /* that the layer asked the driver for */

  guint64 buffer_bytes TARN_WHOLE; /* sum over all buffers that the program got */
  guint64 image_bytes TARN_WHOLE;  /* ... over images that are made of no buffer */
} LayerCounts;

extern LayerCounts _tarn_layer_counts;

#define LAYER_COUNT(field)                                                                         \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, 1, __ATOMIC_RELAXED))

#define LAYER_COUNT_BYTES(field, bytes)                                                            \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, bytes, __ATOMIC_RELAXED))

/* A message, once for each @once. */
void _tarn_layer_warn (gboolean *once, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Answers as OpenCL's clGet...Info () do. */
cl_int _tarn_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                           size_t *size_ret);

/* Tells whether the program has asked for a function that may use buffers without the layer's
 * knowledge.  From then on buffers are the driver's, and memory that was used before goes back to
 * the driver. */
gboolean _tarn_layer_is_blind (void);

/* table.c */

typedef enum
{
  LAYER_CONTEXT,
  LAYER_QUEUE,
  LAYER_BUFFER,
  LAYER_KERNEL,
  LAYER_WAITER /* it is in no table */
} LayerKind;

/* The start of every record of an object. */
typedef struct
{
  LayerKind kind;
  guint references; /* atomic: the layer's own to this record */
  guint held;       /* atomic: the program's to the object */
  gpointer handle;  /* the driver's */
  void (*finalize) (gpointer record);
} LayerObject;

/* Gets a reference to the record of a handle; NULL: the layer has none. */
gpointer _tarn_layer_find (LayerKind kind, gconstpointer handle);

/* Gets references to the records of a kind. */
GPtrArray *_tarn_layer_list_all (LayerKind kind);

/* Lists an object, with a reference for the table; an older one with its handle is no more. */
void _tarn_layer_list (gpointer record);

/* Comes before the driver's release: after it, another object may have the handle. */
void _tarn_layer_unlist (gpointer record);

gpointer _tarn_layer_ref (gpointer record);
gboolean _tarn_layer_try_ref (gpointer record); /* FALSE: it is being finalized */
void _tarn_layer_unref (gpointer record);
void _tarn_layer_clear (gpointer record); /* takes a pointer to a record */

/* Adds to the program's references, and takes one away, TRUE if it was the last. */
void _tarn_layer_hold (gpointer record);
gboolean _tarn_layer_try_hold (gpointer record); /* FALSE: the program has none */
gboolean _tarn_layer_let_go (gpointer record);

/* A ticket: the argument of a callback that a driver may never call.  It is a number for a record,
 * with a reference until somebody takes it.  NULL: somebody has. */
gpointer _tarn_layer_ticket_new (gpointer record);
gpointer _tarn_layer_ticket_take (gpointer ticket);

/* Unreferenced at the end of the block. */
#define LAYER_AUTO __attribute__ ((cleanup (_tarn_layer_clear)))

/* context.c */

/* How memory goes from one buffer to the next. */
typedef enum
{
  LAYER_NO_QUEUE,  /* nothing has used it yet */
  LAYER_ONE_QUEUE, /* as soon as it is released: what comes next is behind on the same queue */
  LAYER_BECOMING_MANY,
  LAYER_MANY_QUEUES /* once commands are done */
} LayerOrder;

/* The flags that a sub-buffer may be asked to have. */
#define LAYER_ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
#define LAYER_HOST_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* A kind of memory: buffers of both are parts of different pieces. */
typedef enum
{
  LAYER_PLAIN,
  LAYER_HOST, /* CL_MEM_ALLOC_HOST_PTR, which a sub-buffer inherits and cannot ask for */
  LAYER_N_KINDS
} LayerMemory;

typedef struct
{
  LayerContext *context;
  LayerMemory memory;
} LayerSource;

/* How much a pool holds: see idle.c. */
typedef struct
{
  gint64 look_at TARN_WHOLE; /* atomic: monotonic time */
  gsize least_bytes;         /* behind the context's lock: that were held, */
  gint64 since;              /* ... since then */
} LayerIdle;

struct _LayerContext
{
  LayerObject base;
  cl_device_id device;       /* NULL: of several, or one that the layer cannot serve */
  gsize max_bytes;           /* the most that a buffer can have */
  gsize alignment;           /* that a sub-buffer needs */
  gboolean counts_objects;   /* the driver's references to a context count objects made of it */
  cl_uint own_references;    /* ... the layer's among them, from the start */
  gboolean copies_by_pieces; /* the driver cannot copy boxes of sub-buffers */
  gboolean copies_images_by_pieces; /* ... nor between sub-buffers and images */
  gboolean notes_addresses;         /* ... and makes no images of sub-buffers: see images.c */
  cl_program where;                 /* says where a piece begins; NULL: that is of no use */

  TarnMutex lock; /* guards all below */
  TarnCond changed;
  LayerOrder order;
  LayerQueue *only_queue; /* with LAYER_ONE_QUEUE; borrowed */
  gboolean gave_on;       /* memory went to the next buffer behind the only queue's commands */
  cl_event only_end;      /* with LAYER_MANY_QUEUES: what was put on it before, or NULL */
  gboolean has_user_events;
  GPtrArray *queues;     /* references: those that commands can be put on, or that are not done */
  guint turn;            /* number of the queue that is looked at next */
  GPtrArray *pieces;     /* the driver's buffers by number; NULL: free */
  GHashTable *addresses; /* a piece -> where the host has it, if that is known */
  guint all_used_before; /* no number below is free */
  cl_command_queue own_queue;     /* on which pieces are made ready; NULL: not made yet */
  TarnPool *pools[LAYER_N_KINDS]; /* NULL: not made yet */
  LayerSource sources[LAYER_N_KINDS];
  TarnOpenclImageKinds *image_kinds; /* the next pool's; NULL: not made yet */
  TarnPool *images;                  /* within the limit of the pool of plain buffers; NULL: ... */
  LayerIdle idle[LAYER_N_KINDS];     /* watches how much the pools hold, */
  LayerIdle image_idle;              /* and that of images */
  GHashTable *answers;               /* see ask.c */

  TarnMutex spares_lock; /* guards these: see spares.c */
  GHashTable *spares;    /* a spare's LayerPlace -> LayerSpare, owned */
  GQueue spares_by_age;
  gsize spare_bytes;

  /* Atomic: */
  gint counts_parts;     /* whether a buffer's references count its sub-buffers; -1: unknown */
  gint counts_maps;      /* ... its maps; -1: unknown */
  gint has_images;       /* whether images are made of sub-buffers, too; -1: unknown */
  gint shares_addresses; /* whether what is made of a piece's address shares it; -1: unknown */
  gboolean wants_images; /* images are not made of sub-buffers, but the program wants such */
  gsize piece_bytes;
  guint spare_images;   /* the driver's images in the pool that the program does not have */
  gint64 looked;        /* when the queues were looked at last, monotonic */
  guint pending;        /* buffers that wait for commands */
  guint n_users;        /* allocators of its memory, and one for the context itself */
  gboolean ended;       /* the program has no reference any more */
  gboolean is_debugged; /* TARN_DEBUG looks at its buffers */
};

/* An allocator of a context's memory uses the context until it ends, which may be after the last
 * reference.  The last user frees the context. */
LayerContext *_tarn_layer_context_add_user (LayerContext *self);
void _tarn_layer_context_drop_user (LayerContext *self);

/* Finds out why a buffer, which is not invalid, is not from a pool. */
LayerReason _tarn_layer_context_find_reason (cl_context handle, cl_mem_flags flags, gsize size);

/* Gets a reference to the context of memory for a buffer with such flags, and its pool; NULL: the
 * driver is to make the buffer.  One that is filled from the host's memory is a driver's matter,
 * who may put it there as the memory is made, unless it is to be looked at. */
LayerContext *_tarn_layer_context_find_pool (cl_context handle, cl_mem_flags flags, gsize size,
                                             TarnPool **pool);

/* Tells whether released memory may be used again behind the commands on the queue, and remembers
 * that it was. */
gboolean _tarn_layer_context_gives_on (LayerContext *self);

/* From now on commands may not run in the order in which they are enqueued, if the context has one
 * queue so far, and it is this one; NULL: any. */
void _tarn_layer_context_end_one_queue (LayerContext *self, const LayerQueue *queue);

/* A queue is there; a queue takes no more commands, and nobody waits for those that it has. */
void _tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order);
void _tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue);

/* Looks at a queue or two, if there is anything to wait for; not @now: unless it has just been. */
void _tarn_layer_context_look (LayerContext *self, gboolean now);

/* Tells whether buffers and images may have memory from a pool. */
gboolean _tarn_layer_context_may_serve (LayerContext *self);

/* Gets the pool of a kind of memory, made at the first request; NULL: it could not be. */
TarnPool *_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory);

/* Gives the driver back what no buffer has. */
void _tarn_layer_context_trim (LayerContext *self);

/* Gives the driver back whatever can be, of other contexts, too, waiting for commands of this one
 * unless the program has to end them. */
void _tarn_layer_context_make_room (LayerContext *self);

/* Waits for all commands; but not for long for those that the program has to end. */
void _tarn_layer_context_finish (LayerContext *self);

/* Waits for what buffers wait for; FALSE: there was nothing, or nobody may wait. */
gboolean _tarn_layer_context_wait (LayerContext *self);

/* debug.c */

/* Tells whether buffers are checked as they are released.  Then a release always waits for their
 * commands, and nothing is kept for the next buffer. */
gboolean _tarn_layer_is_debugged (const LayerContext *context);
/* Begins to check them, until the context is gone. */
void _tarn_layer_debug_begin (LayerContext *context);
void _tarn_layer_debug_end (LayerContext *context);
/* Nobody has a reference to a buffer any more; its memory may be given back by another thread. */
void _tarn_layer_debug_note_end (LayerBuffer *buffer);
/* Has a thread do what a callback of the driver's must not, in the order in which it comes. */
void _tarn_layer_debug_defer (void (*func) (gpointer data), gpointer data);
/* Waits while that thread has much to do, but not for long: the caller may be what it waits for. */
void _tarn_layer_debug_keep_up (void);
/* Waits until that thread has nothing to do. */
void _tarn_layer_debug_drain (void);
/* Looks at the guards of all buffers, because commands of a context are done, unless that was just
 * done. */
void _tarn_layer_debug_look (const LayerContext *context);

/* ask.c */

/* Gets what the driver calls these flags of a buffer; otherwise its error. */
cl_int _tarn_layer_ask_flags (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags);

/* The same for a sub-buffer of a buffer with such flags. */
cl_int _tarn_layer_ask_part_flags (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked,
                                   cl_mem_flags *flags);

/* Tells whether a buffer's references count its sub-buffers, or its maps, as some drivers do. */
gboolean _tarn_layer_ask_part_references (LayerContext *context);
gboolean _tarn_layer_ask_map_references (LayerContext *context);

/* Tells whether the driver makes images of sub-buffers, if it does of buffers. */
gboolean _tarn_layer_ask_images (LayerContext *context);

/* Tells whether a buffer over the address at which the host has another one is the same memory. */
gboolean _tarn_layer_ask_addresses (LayerContext *context);

/* Learns what the device of a new context, and its driver, want of buffers; FALSE: the layer cannot
 * serve it. */
gboolean _tarn_layer_ask_device (LayerContext *context, cl_device_id device);

/* address.c */

/* Finds out whether pieces may begin anywhere, before anybody else has the context. */
void _tarn_layer_address_begin (LayerContext *context);

/* Gets how many bytes from the start of a piece the first aligned address is; 0 where it is not
 * known. */
gsize _tarn_layer_find_shift (LayerContext *context, cl_mem piece);

/* idle.c */

/* Gives back what a pool has held for a while without a request that needed it, if it is time to
 * look. */
void _tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self);
gsize _tarn_layer_get_held_bytes (TarnPool *pool);

/* pieces.c */

/* The key of a sub-buffer: its place, and the flags that it was asked for with. */
typedef struct
{
  guint64 address; /* the block's */
  gsize size;
  cl_mem_flags asked;
} LayerPlace;

/* Waits for a command, but not for long, and releases its event: its state. */
cl_int _tarn_layer_wait_briefly (cl_command_queue queue, cl_event event);

/* Waits for a command of the layer's own, if there is a status of CL_SUCCESS for it, and releases
 * its event.  It is for what several threads put on one queue: with rusticl of Mesa 22.3 and calls
 * that block, guards seemed to be overwritten now and then, as if a call had returned early. */
cl_int _tarn_layer_await (cl_int status, const cl_event *event);

/* Gets the layer's own queue, made at the first request; NULL: it could not be. */
cl_command_queue _tarn_layer_context_get_queue (LayerContext *context);

/* Makes the pool of a kind of memory; NULL: it cannot be. */
TarnPool *_tarn_layer_pool_new (LayerSource *source);

/* Gets where a block is: in which of the driver's buffers, and how many bytes from its start. */
cl_mem _tarn_layer_find_piece (LayerContext *context, const TarnBlock *block, gsize *offset);

/* Gets where the host has a piece; NULL: that is not known. */
gpointer _tarn_layer_find_address (LayerContext *context, cl_mem piece);

/* Gets where the host has a buffer that nobody else uses yet; NULL: nowhere, or not in time. */
gpointer _tarn_layer_ask_address (LayerContext *context, cl_mem buffer);

/* Gets the sub-buffer that a buffer of a block has. */
LayerPlace _tarn_layer_get_place (LayerContext *context, const TarnBlock *block,
                                  cl_mem_flags asked);

/* spares.c */

/* A spare: a sub-buffer that is kept for a later buffer of the program's at the same place. */
typedef struct
{
  LayerPlace place;
  cl_mem handle;      /* a reference */
  cl_mem_flags flags; /* as the driver calls them */
  gint64 time;        /* monotonic, when it was put there */
  GList by_age;       /* its link there */
} LayerSpare;

void _tarn_layer_spares_init (LayerContext *context);
void _tarn_layer_spares_clear (LayerContext *context); /* there are none by then */

/* Takes a spare, which the caller is to free with g_free (); NULL: there is none. */
LayerSpare *_tarn_layer_take_spare (LayerContext *context, const LayerPlace *place);

/* Takes over the sub-buffer of a buffer that still has its block. */
void _tarn_layer_keep_spare (LayerContext *context, const LayerBuffer *buffer);

guint _tarn_layer_count_spares (LayerContext *context);

/* Releases the oldest until so many bytes are left, and those that are too old. */
void _tarn_layer_drop_spares (LayerContext *context, gsize most_bytes);

/* Releases those from an address on to another. */
void _tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end);

/* queue.c */

/* Commands of a queue are counted, after the driver took them: what has all up to a number done is
 * done with each of them. */
struct _LayerQueue
{
  LayerObject base;
  LayerContext *context;       /* a reference */
  gboolean in_order;           /* atomic: may become FALSE */
  guint64 enqueued TARN_WHOLE; /* atomic: commands that used buffers */
  guint64 done TARN_WHOLE;     /* atomic: those that are known to be done */
  gboolean finishing;          /* atomic: a marker failed, and a thread waits for all instead */
  guint users; /* atomic: of the driver's queue: the program until it is over, and calls of ours */

  TarnMutex lock;  /* guards all below */
  gboolean closed; /* no command comes any more; there is a mark for all, or they are done */
  GQueue waiting;  /* of LayerWait: in the order of numbers */
  GQueue marks;    /* of LayerMark: in the order of numbers */
  GQueue waiters;  /* of LayerWaiter, references */
};

/* Has a buffer that the command of a number used wait for what the queue has been given; see
 * _tarn_layer_buffer_commands_done ().  FALSE: the command is done. */
gboolean _tarn_layer_queue_add_waiting (LayerQueue *self, LayerBuffer *buffer, guint64 number);

/* Puts a marker on the queue, unless there is one for all that waits.  @notify: the driver is to
 * call when it is reached, because nobody may look. */
void _tarn_layer_queue_mark (LayerQueue *self, gboolean notify);

/* Puts a marker on the queue when much waits for one. */
void _tarn_layer_queue_mark_now_and_then (LayerQueue *self);

/* The driver's queue is needed once less: the last time the driver releases it. */
void _tarn_layer_queue_leave (LayerQueue *self);

/* Releases an event of the driver's. */
void _tarn_layer_release_event (cl_event event);

/* CL_COMPLETE, or less if it has failed, or more. */
cl_int _tarn_layer_get_state (cl_event event);

/* Drops the queue if it is over. */
void _tarn_layer_queue_end_if_over (LayerQueue *self);

/* Looks which markers are reached. */
void _tarn_layer_queue_look (LayerQueue *self);

/* Waits for everything; FALSE: nothing waits. */
gboolean _tarn_layer_queue_wait (LayerQueue *self);

/* The same, and for commands that fail. */
gboolean _tarn_layer_queue_finish (LayerQueue *self);

/* The first @number commands are done. */
void _tarn_layer_queue_set_done (LayerQueue *self, guint64 number);

static inline guint64
_tarn_layer_queue_get_enqueued (LayerQueue *self)
{
  return __atomic_load_n (&self->enqueued, __ATOMIC_ACQUIRE);
}

/* The driver has taken one more command: its number. */
static inline guint64
_tarn_layer_queue_count (LayerQueue *self)
{
  return __atomic_add_fetch (&self->enqueued, 1, __ATOMIC_ACQ_REL);
}

static inline gboolean
_tarn_layer_queue_is_done (LayerQueue *self, guint64 number)
{
  return __atomic_load_n (&self->done, __ATOMIC_ACQUIRE) >= number;
}

/* waiter.c */

/* A buffer that waits for one command; it is in the queue's list until that is done. */
typedef struct
{
  LayerObject base;
  LayerBuffer *buffer; /* references */
  LayerQueue *queue;
  guint64 number;  /* the command's */
  cl_event event;  /* a reference */
  gpointer ticket; /* for the driver's callback; NULL: there is none */
  GList link;      /* in the list, under the queue's lock; without data it is not there */
} LayerWaiter;

/* Has a buffer wait for a command, see _tarn_layer_buffer_commands_done ().  @event: is taken over.
 * @notify: the driver is to call, because nobody may look. */
void _tarn_layer_wait_for_event (LayerBuffer *buffer, LayerQueue *queue, guint64 number,
                                 cl_event event, gboolean notify);

/* With the queue's lock held: takes those out whose commands are among the first @number. */
GSList *_tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number);

/* Tells the buffers of such. */
void _tarn_layer_settle_waiters (GSList *waiters);

/* Asks the driver about them until one or two are not done. */
void _tarn_layer_look_at_waiters (LayerQueue *queue);

/* buffer.c */

/* A use of a buffer: commands on a queue up to a number have used it; if the queue is out of order,
 * only that command has. */
typedef struct
{
  LayerQueue *queue; /* a reference */
  guint64 number;
  cl_event event; /* the command's, a reference; NULL: none is known; the queue is in order then */
} LayerUse;

/* A cl_mem of the program's: a buffer of ours, a sub-buffer or an image made of one, or an image
 * from a pool.  The program's references to it (LayerObject.held) include those of objects that are
 * made of it.
 *
 * It ends in three steps: nobody has a reference; its commands are done, as far as that matters;
 * it is gone from the driver, and its memory is free. */
struct _LayerBuffer
{
  LayerObject base;
  LayerContext *context; /* a reference */
  LayerBuffer *whole; /* the buffer that it is made of, a reference; NULL: it is made of a piece, or
                         is a pooled image */
  TarnBlock *block;   /* its memory; NULL: with a whole */
  gsize offset;       /* from the start of the whole */
  gsize size;         /* as was asked for; 0: of an image that is made of a buffer */
  cl_mem_flags asked; /* by the program, less what a sub-buffer inherits */
  cl_mem_flags flags; /* as the driver calls them */
  gboolean is_image;
  gboolean is_disguised; /* an image that the driver made of a host address: see images.c */
  gboolean was_mapped;   /* when it ended */
  gboolean is_watched;   /* atomic: it has callbacks, which are not to come late */
  guint parts;           /* atomic: what is made of it, and not gone */
  guint waits;           /* atomic: queues that it waits for */

  TarnMutex lock; /* guards all below */
  gboolean ended; /* nobody has a reference: nothing below changes any more */
  LayerUse *uses; /* owned */
  guint n_uses;
  GSList *callbacks; /* of LayerCallback, owned, the latest first */
  GArray *maps; /* of LayerMap: its own and those of objects made of it; NULL: there were none */
};

/* Gets where a buffer is, or a part of one: in which of the driver's buffers. */
cl_mem _tarn_layer_buffer_find_piece (const LayerBuffer *self, gsize *offset);

/* Gets the record of a handle with one more of the program's references, which it keeps while the
 * driver is given a command: the command may run, and what the program had be released, before it
 * is noted.  NULL: there is none. */
LayerBuffer *_tarn_layer_buffer_find_held (cl_mem handle);

/* Ends that. */
void _tarn_layer_buffer_let_go (LayerBuffer *self);

/* One queue is done with all that the buffer waits for there. */
void _tarn_layer_buffer_commands_done (LayerBuffer *self);

/* Makes the record of an image from the pool, whose block it takes over; borrowed. */
LayerBuffer *_tarn_layer_buffer_add_pooled_image (LayerContext *context, TarnBlock *block,
                                                  cl_mem image);

/* Makes the record of an image that was made of a buffer; borrowed. */
LayerBuffer *_tarn_layer_buffer_add_image (LayerBuffer *whole, cl_mem image);

/* Makes room if a status says that the driver had no memory.  TRUE: it may have some now. */
gboolean _tarn_layer_made_room (cl_context handle, cl_int status);

/* image-pool.c */

/* Makes an image from the pool of images, as clCreateImage would; NULL: the driver is to make it,
 * unless *status says that there is to be none. */
cl_mem _tarn_layer_serve_image (cl_context handle, cl_mem_flags flags,
                                const cl_image_format *format, const cl_image_desc *desc,
                                cl_int *status);

/* Gives an image back to its pool, or with @ends to the driver.  Nobody uses it any more, or what
 * comes next is behind those who do. */
void _tarn_layer_image_free (LayerContext *context, TarnBlock *block, gboolean ends);

/* Gives the driver back the images that nobody has. */
void _tarn_layer_trim_images (LayerContext *context);

/* Ends the pool of a context that ends. */
void _tarn_layer_images_clear (LayerContext *context);

/* uses.c */

/* Notes that a command of the queue, the latest with that number, uses a buffer, which the caller
 * holds.  @event: nullable; the command's.  @takes: a reference to it is taken over. */
void _tarn_layer_buffer_use (LayerBuffer *self, LayerQueue *queue, guint64 number, cl_event event,
                             gboolean takes);

/* Ends what was noted, of a buffer that is being finalized. */
void _tarn_layer_buffer_forget_uses (LayerBuffer *self);

/* commands.c */

#define LAYER_FEW 2

/* A command while it is given to the driver. */
typedef struct
{
  LayerQueue *queue;           /* a reference; NULL: not known */
  guint64 number;              /* its latest command's */
  guint n;                     /* objects */
  LayerBuffer *few[LAYER_FEW]; /* the objects that it uses, each with one of the program's
                                  references, or NULL */
  LayerBuffer **many;          /* the same, owned; NULL: they are few */
  cl_event own;                /* where the program wants no event and the layer does */
  cl_event *event;             /* where the driver writes it; NULL: nobody wants one */
} LayerCommand;

/* Keeps what the command uses: it may run, and what the program had be released, before it is
 * noted.
 * @objects: nullable.  @event: where the driver is to write the command's event, or NULL, in which
 * place the layer may put one of its own. */
void _tarn_layer_command_begin (LayerCommand *self, cl_command_queue handle, const cl_mem *objects,
                                guint n, cl_event **event);

/* The same, for buffers that the caller holds, which are taken over. */
void _tarn_layer_command_begin_held (LayerCommand *self, cl_command_queue handle,
                                     LayerBuffer **buffers, guint n, cl_event **event);

/* Tells whether @size bytes from @offset on are within a buffer of ours, or in none of ours. */
gboolean _tarn_layer_is_within (cl_mem object, gsize offset, gsize size);

/* After it, whatever came of it.  @blocking: the host has waited for it, so that it is done, and so
 * is what was before it on a queue in order. */
void _tarn_layer_command_end (LayerCommand *self, cl_int status, gboolean blocking);

/* maps.c */

/* How often a buffer is mapped (CL_MEM_MAP_COUNT). */
cl_uint _tarn_layer_count_maps (LayerBuffer *self);

/* It is to be no more; FALSE: it was not mapped. */
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

/* As layer_clCreateBuffer () and so on, each with its own parameters. */
#define LAYER_DECLARE(name) extern __typeof__ (*((cl_icd_dispatch *) NULL)->name) layer_##name;

LAYER_FUNCTIONS (LAYER_DECLARE)

#endif
