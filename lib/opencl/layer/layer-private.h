/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer is a library between an OpenCL loader and a driver.  It allocates a program's buffers
 * from a pool.  Its files:
 *
 *     layer.c           the functions that the loader calls, and the table of functions
 *     settings.c        the settings, from the environment
 *     faults.c          fault injection, between the program and the rest of the layer:
 *     fault-calls.c     ... makes single calls fail
 *     fault-wait.c      ... lets calls that fail wait for commands
 *     fault-memory.c    ... makes calls fail that exceed a budget
 *     report.c          reports to the program that started this one
 *     table.c           tables that find the layer's record of an object by the driver's handle
 *     context.c         contexts: their pools, and the waits of released buffers for commands
 *     context-order.c   contexts: may a context reuse released memory at once?
 *     ended-contexts.c  contexts that the program has released, but that are still in use
 *     user-event.c      events that the program completes itself
 *     debug.c           checks of buffers with TARN_DEBUG
 *     pieces.c          pieces: the driver's large buffers, divided into blocks by a heap
 *     address.c         addresses of pieces, for drivers that align buffers less than they state
 *     queue.c           which commands of a queue are done
 *     queue-calls.c     the program's calls that create, retain, release and finish queues
 *     waiter.c          waits for single commands
 *     subs.c            the driver's sub-buffers for blocks, and a cache of them
 *     buffer.c          buffers and sub-buffers, from creation to destruction
 *     images.c          images, also those that are made of buffers
 *     image-pool.c      the pool of images
 *     idle.c            returns to the driver the memory that pools cache without need
 *     uses.c            the uses of a buffer: records of the commands that use it
 *     describe.c        queries about buffers
 *     ask.c             questions to the driver: how does it treat its own buffers?
 *     device.c          ... facts about the device, and about what its driver can do
 *     commands.c        commands that use buffers
 *     copies.c          commands that copy boxes, and some that copy images
 *     maps.c            commands that map buffers
 *     native.c          commands that call functions of the host
 *     kernel.c          kernels' arguments, and launches
 *
 * A piece is a large buffer that the layer got from the driver.  A buffer of the program is a
 * sub-buffer of a piece, so the driver made its handle.  Functions of the driver that the layer
 * does not know accept this handle, too.  Where the specification treats sub-buffers unlike
 * buffers, the layer makes the program's buffers behave as buffers.  The layer also counts the
 * program's references to each buffer; the driver sees only one reference.
 *
 * The layer may reuse the memory of a buffer when the program has no reference to the buffer and
 * the commands that use it are done.  So the layer records each command with its buffers, after the
 * driver has accepted the command.  Such a record is called a use.  The layer decides in one of
 * three ways that the memory of a released buffer may be reused:
 *
 * - Usually, it puts a marker command on the queue some time after the release, and polls the
 *   marker's event.
 * - It polls the command's own event if the queue is out of order, or if the buffer has destructor
 *   callbacks, which must not come late.
 * - It reuses the memory at once while the context has only one queue, in order, and all user
 *   events are complete.  Then the queue runs the commands of the next buffer in the same memory
 *   after those of the released buffer.
 *
 * If the layer cannot serve a call correctly, it passes the call on to the driver unchanged: see
 * _tarn_layer_context_find_pool ().  A thread holds no lock while it calls the driver or a function
 * of the program.  Debug builds check this at each call of the driver. */

#ifndef TARN_LAYER_PRIVATE_H
#define TARN_LAYER_PRIVATE_H

/* Selects OpenCL 3.0, so that cl_icd_dispatch, the table of a driver's functions, has all functions
 * up to that version.  The layer calls deprecated functions only through this table. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300

#include <CL/cl_layer.h>
#include <tarn/tarn.h>

#include "common/lock-private.h"
#include "common/whole-private.h"
#include "opencl/image-kinds-private.h"

/* The driver's functions.  The layer sets this pointer when the loader starts the layer, before it
 * calls any of these functions, and never changes the pointer later. */
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

/* Types and functions of settings.c */

/* The settings.  They are constant after _tarn_layer_read_settings (). */
typedef struct
{
  gboolean uses_pool;
  gchar *limit; /* the value of TARN_LAYER_LIMIT; NULL if it is not set */
  gboolean prints_stats;
  gchar *faults; /* the value of TARN_LAYER_FAULTS; NULL if it is not set */
  gchar *report; /* the file that TARN_LAYER_REPORT names; NULL if it is not set */
  /* TRUE if TARN_DEBUG is set, even if its value turns on no check of buffers. */
  gboolean may_debug;
  gboolean rounds_sizes; /* TRUE if the layer rounds up the sizes of small buffers */
} LayerSettings;

void _tarn_layer_read_settings (void);
const LayerSettings *_tarn_layer_get_settings (void);

/* Types and functions of report.c */

/* The reason why the driver, not a pool, made a buffer that the program asked for. */
typedef enum
{
  LAYER_OF_HOST, /* the program asked for CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR */
  /* The buffer's context has several devices, or a device older than OpenCL 1.2. */
  LAYER_OF_DEVICES,
  LAYER_FLAGS, /* the buffer has flags or properties that the layer does not support */
  LAYER_TOO_LARGE,
  /* The program makes images of buffers, but the driver cannot make images of sub-buffers, and a
   * pool's buffers are sub-buffers. */
  LAYER_FOR_IMAGES,
  LAYER_NO_POOL, /* the buffer's context had no pool, or its pool had no memory */
  LAYER_N_REASONS
} LayerReason;

/* Begins the report if TARN_LAYER_REPORT is set: adds the first line to the file, and registers a
 * function that adds the other lines at exit. */
void _tarn_layer_report_begin (void);

/* Returns a text that describes a reason.  The text fits after "NUMBER buffers", as in "3 buffers
 * larger than the device's largest buffer". */
const gchar *_tarn_layer_describe_reason (LayerReason reason);

/* Types and functions of layer.c */

/* Counters for the table of TARN_LAYER_STATS and for reports.  Every field is atomic. */
typedef struct
{
  gsize created;   /* number of buffers that the program asked for */
  gsize served;    /* number of buffers in @created that got their memory from a pool */
  gsize pieces;    /* number of pieces, large buffers, that the layer asked the driver for */
  gsize passed_on; /* number of requests in @created that the layer passed on to the driver */
  /* For each LayerReason, the number of buffers in @passed_on that the driver made for this
   * reason. */
  gsize reasons[LAYER_N_REASONS];
  gsize sub_buffers; /* number of sub-buffers that the driver made for blocks of a pool */
  gsize failed;      /* number of buffers for which the program got an error for lack of memory */
  gsize svm_failed;  /* number of calls of clSVMAlloc () for which the program got no memory */

  gsize images_created;   /* number of images asked for, except images that are made of buffers */
  gsize images_served;    /* number of images in @images_created that came from a pool */
  gsize images_passed_on; /* number of requests in @images_created passed on to the driver */
  gsize pool_images;      /* number of images that the pool asked the driver for */
  /* Number of images for which the program got an error for lack of memory.  Also counts images
   * that are made of buffers. */
  gsize images_failed;

  guint64 buffer_bytes TARN_WHOLE; /* total size of the buffers that the program got, in bytes */
  /* Total size of the images that are not made of a buffer, in bytes. */
  guint64 image_bytes TARN_WHOLE;
} LayerCounts;

extern LayerCounts _tarn_layer_counts;

#define LAYER_COUNT(field)                                                                         \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, 1, __ATOMIC_RELAXED))

#define LAYER_COUNT_BYTES(field, bytes)                                                            \
  ((void) __atomic_add_fetch (&_tarn_layer_counts.field, bytes, __ATOMIC_RELAXED))

/* Prints a message to standard error, and sets *once to TRUE.  Does nothing if *once is TRUE. */
void _tarn_layer_warn (gboolean *once, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Answers a query as OpenCL's clGet...Info () functions do: copies the @from_size bytes at @from to
 * @value, which has room for @size bytes, and sets *size_ret to @from_size. */
cl_int _tarn_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                           size_t *size_ret);

/* Returns TRUE if the layer is blind: the program has asked for the address of an extension's
 * function that may use buffers, and the layer does not intercept this function.  From then on the
 * driver makes all new buffers, and pools return their memory to the driver. */
gboolean _tarn_layer_is_blind (void);

/* Types and functions of table.c */

typedef enum
{
  LAYER_CONTEXT,
  LAYER_QUEUE,
  LAYER_BUFFER,
  LAYER_KERNEL,
  LAYER_N_OBJECT_KINDS
} LayerKind;

/* The common part of the layer's records.  The layer keeps a record of each context, queue, buffer
 * and kernel of the program.  This struct is the first member of each kind of record. */
typedef struct
{
  LayerKind kind;
  guint references;         /* atomic: references to this record */
  guint program_references; /* atomic: the program's references to the object */
  gpointer handle;          /* the driver's handle of the object */
  void (*finalize) (gpointer record);
} LayerObject;

/* Finds the record of an object by the driver's handle, and returns a reference to the record.
 * Returns NULL if no record of this kind has the handle. */
gpointer _tarn_layer_find (LayerKind kind, gconstpointer handle);

/* Returns an array of references to all records of a kind.  The caller frees the array. */
GPtrArray *_tarn_layer_list_all (LayerKind kind);

/* Adds a record to the table of its kind.  The table takes a reference of its own.  If the table
 * has an older record with the same handle, the new record replaces it: the older record's object
 * is gone, and the driver has reused the handle. */
void _tarn_layer_list (gpointer record);

/* Removes a record from the table of its kind.  Call this before the driver releases the object,
 * because afterwards the driver may give the same handle to another object. */
void _tarn_layer_unlist (gpointer record);

gpointer _tarn_layer_ref (gpointer record);
/* Adds a reference to a record, and returns TRUE.  Returns FALSE if the record has no reference any
 * more, because it is being finalized. */
gboolean _tarn_layer_try_ref (gpointer record);
void _tarn_layer_unref (gpointer record);
/* Drops the reference to a record that a variable contains.  @record: the variable's address. */
void _tarn_layer_clear (gpointer record);

/* These functions count the program's references to an object.  _tarn_layer_retain () adds a
 * reference.  _tarn_layer_release () subtracts a reference that the program drops, and returns TRUE
 * if the program has no reference left. */
void _tarn_layer_retain (gpointer record);
/* Adds 1 to the number of references that the program has to an object, and returns TRUE.  If the
 * number is 0, does not change it and returns FALSE. */
gboolean _tarn_layer_try_retain (gpointer record);
gboolean _tarn_layer_release (gpointer record);

/* A ticket is a number that stands for a record.  The layer passes a ticket, not the record, to a
 * driver that will call back.  The table of tickets has a reference to the record, so the layer can
 * drop this reference even if the driver never calls back.  _tarn_layer_ticket_take () removes the
 * ticket from the table, and returns that reference, or NULL if another thread took the ticket
 * before. */
gpointer _tarn_layer_ticket_new (gpointer record);
gpointer _tarn_layer_ticket_take (gpointer ticket);

/* Marks a variable that holds a reference to a record.  The compiler drops the reference when the
 * variable goes out of scope. */
#define LAYER_AUTO __attribute__ ((cleanup (_tarn_layer_clear)))

/* Functions of ended-contexts.c */

/* The list of ended contexts has the contexts that the program has released, until their records
 * are freed.  _tarn_layer_list_ended () adds a context when the program releases it.
 * _tarn_layer_unlist_ended () removes a context whose record is being freed.  The list has no
 * references to contexts. */
void _tarn_layer_list_ended (LayerContext *self);
void _tarn_layer_unlist_ended (LayerContext *self);

/* Finds the record of a context as _tarn_layer_find () does, but also finds a context that the
 * program has released. */
LayerContext *_tarn_layer_find_context (cl_context handle);

/* Types and functions for contexts, of context.c and context-order.c */

/* The state of a context's queues.  It decides when the context may reuse the memory of a released
 * buffer. */
typedef enum
{
  LAYER_NO_QUEUE, /* there is no queue: memory is reused at once, because no command has used it */
  /* There is one queue, which runs commands in order: memory is reused at once. */
  LAYER_ONE_QUEUE,
  /* A thread is putting a marker on the only queue, and threads that add a queue wait for that
   * thread.  Memory is reused as in the state LAYER_MANY_QUEUES. */
  LAYER_BECOMING_MANY,
  LAYER_MANY_QUEUES /* memory is reused only after the commands that used it are done */
} LayerOrder;

/* The flags that the layer may pass to clCreateSubBuffer (). */
#define LAYER_ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
#define LAYER_HOST_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* A kind of memory.  Each kind has its own pool and its own pieces (the driver's large buffers). */
typedef enum
{
  LAYER_PLAIN,
  /* Memory with CL_MEM_ALLOC_HOST_PTR.  A sub-buffer inherits this flag from its piece, and must
   * not be created with the flag, so these pieces are a kind of their own. */
  LAYER_HOST,
  LAYER_N_KINDS
} LayerMemory;

/* The user data of an allocator that gets pieces, large buffers, from the driver. */
typedef struct
{
  LayerContext *context;
  LayerMemory memory;
} LayerSource;

/* A pool's record of how many of its cached bytes no request has needed lately: see idle.c. */
typedef struct
{
  /* Atomic: monotonic time of the next look at the cached bytes.  0 until the pool's first request,
   * and again after the layer has trimmed the pool because of a long time without requests. */
  gint64 look_at TARN_WHOLE;
  /* The least number of cached bytes since the time @since.  Guarded by the context's lock. */
  gsize least_bytes;
  gint64 since; /* guarded by the context's lock: monotonic time at which @least_bytes was reset */
} LayerIdle;

/* The record of a context of the program.
 *
 * Invariant, under the lock: only_queue is not NULL exactly if order is LAYER_ONE_QUEUE.  Before
 * the program gets a second queue or a user event, the thread that adds it ends the state
 * LAYER_ONE_QUEUE.  A pool, after it is set in @pools, stays there as long as the context
 * exists. */
struct _LayerContext
{
  LayerObject base;
  /* The context's only device.  NULL if the context has several devices, or if the layer cannot
   * serve the context. */
  cl_device_id device;
  gboolean is_processor;   /* TRUE if the device is the host's processor */
  gsize max_bytes;         /* the largest size that a buffer may have, in bytes */
  gsize alignment;         /* alignment of sub-buffers, in bytes; a power of two */
  gboolean counts_objects; /* TRUE if CL_CONTEXT_REFERENCE_COUNT includes the context's objects */
  /* The number of references to the context that the driver counts for address_program, a program
   * of the layer.  The layer subtracts it from the CL_CONTEXT_REFERENCE_COUNT that it reports. */
  cl_uint own_references;
  /* TRUE if the driver's clEnqueueCopyBufferRect () fails with sub-buffers.  Then the layer passes
   * the pieces, the large buffers, instead of their sub-buffers. */
  gboolean copies_by_pieces;
  /* TRUE if the driver cannot copy between sub-buffers and images.  Then the layer passes the
   * pieces instead of their sub-buffers. */
  gboolean copies_images_by_pieces;
  gboolean notes_addresses; /* TRUE if the layer records the host addresses of pieces, because the
                               driver makes no images of sub-buffers: see images.c */
  /* The program with the kernel that reads the device addresses of pieces (address.c).  NULL if the
   * layer does not need these addresses, or if the driver cannot build the program. */
  cl_program address_program;

  TarnMutex lock; /* guards the fields from here up to @answers */
  TarnCond changed;
  LayerOrder order;       /* atomic */
  LayerQueue *only_queue; /* the only queue, borrowed; NULL if @order is not LAYER_ONE_QUEUE */
  /* Describes the last time that memory was reused early (see @has_reused_early): the number of the
   * command on only_queue that was the latest one at that time. */
  guint64 reused_number TARN_WHOLE;
  gboolean has_reused_early; /* TRUE if memory was reused early: before the commands on only_queue
                                that used the memory were done */
  /* The event for which new queues wait.  It completes when all commands are done whose memory was
   * reused early, that is, before they were done.  NULL if there are no such commands, or if the
   * layer knows that they are done. */
  cl_event only_event;
  guint n_joining;     /* number of threads that wait, or make a queue wait, for @only_event */
  guint n_user_events; /* atomic: number of the program's user events that are not complete */
  /* TRUE if the context dropped a queue whose commands may not be done. */
  gboolean has_lost_queue;
  /* References to the queues that still take commands, or that have unfinished commands. */
  GPtrArray *queues;
  guint turn; /* index in @queues of the queue that was polled last */
  /* The pieces, the driver's large buffers: piece number N is at index N - 1.  An element is NULL
   * if no piece has this number. */
  GPtrArray *pieces;
  GHashTable *addresses; /* maps each piece to its host address, if the address is known */
  /* an index in @pieces: no element below it is NULL, so the search for a free piece number begins
   * there */
  guint all_used_before;
  cl_command_queue own_queue; /* the queue for the layer's own commands; NULL until it is made */
  TarnPool *pools[LAYER_N_KINDS]; /* the pool for each kind of memory; NULL until it is made */
  LayerSource sources[LAYER_N_KINDS];
  /* The kinds of the pooled images, each with its size in bytes; NULL until they are made. */
  TarnOpenclImageKinds *image_kinds;
  /* The pool of images; NULL until it is made.  Its bytes also count as bytes of the pool of plain
   * buffers. */
  TarnPool *images;
  LayerIdle idle[LAYER_N_KINDS]; /* the record of cached bytes of each of @pools */
  LayerIdle image_idle;          /* the record of cached bytes of the pool of images */
  GHashTable *answers;           /* the driver's answers to questions about flags: see ask.c */

  TarnMutex subs_lock; /* guards @subs, @spares and @spares_time: see subs.c */
  GTree *subs;         /* maps the key (LayerPlace) of a sub-buffer to its LayerSub */
  /* The spares: the sub-buffers in @subs that are no buffer of the program at present, and that the
   * layer keeps for later buffers.  Owned, the youngest first. */
  GQueue spares;
  gint64 spares_time; /* monotonic time at which the layer last looked at the age of the spares */

  /* All fields below are atomic. */

  /* TRUE if CL_MEM_REFERENCE_COUNT includes a buffer's sub-buffers; -1 if that is unknown. */
  gint counts_parts;
  gint counts_maps; /* TRUE if CL_MEM_REFERENCE_COUNT includes a buffer's maps; -1 if unknown */
  gint has_images;  /* the result of _tarn_layer_ask_images (); -1 if it is unknown */
  /* TRUE if a CL_MEM_USE_HOST_PTR buffer at a piece's host address shares the piece's memory; -1 if
   * that is unknown. */
  gint shares_addresses;
  gboolean wants_images; /* TRUE if the program wants images of buffers, but the driver makes no
                            images of sub-buffers.  So the driver makes all new buffers. */
  guint spare_images;    /* number of the driver's images that the pool of images caches */
  gint64 polled_at;      /* monotonic time of the last poll by _tarn_layer_context_poll_if_due () */
  guint pending;         /* number of released buffers that wait for commands */
  gsize pending_bytes;   /* total size, in bytes, of the buffers that @pending counts */
  guint n_users;  /* number of allocators that use the context, plus 1 for the context itself until
                     its record is freed */
  gboolean ended; /* TRUE if the program has released the context */
  /* TRUE if the program has made a user event fail.  After that, a marker may complete before
   * earlier commands are done: with PoCL 3.1 it does.  clFinish () and the blocking commands of
   * PoCL 3.1 still wait for these earlier commands. */
  gboolean has_failed;
  gboolean is_debugged; /* TRUE if TARN_DEBUG checks the context's buffers */
};

/* These functions add a user of a context's record, and drop a user.  The users are the context
 * itself, and the allocators of its memory, which may be in use after the last reference to the
 * record is gone.  When the last user is dropped, the record is freed. */
LayerContext *_tarn_layer_context_add_user (LayerContext *self);
void _tarn_layer_context_drop_user (LayerContext *self);

/* Returns the reason why the driver, not a pool, made a buffer for the program.  The parameters are
 * the arguments of the program's call, which were valid. */
LayerReason _tarn_layer_context_find_reason (cl_context handle, cl_mem_flags flags, gsize size);

/* Finds the context whose pool serves a buffer with these flags and this size.  Sets *pool to the
 * pool, and returns a reference to the context.  Returns NULL if the driver shall make the buffer,
 * for example because @flags have CL_MEM_COPY_HOST_PTR: the driver may copy the host's bytes while
 * it allocates the buffer.  Exception: if TARN_DEBUG checks the context's buffers, a pool serves a
 * buffer with this flag, too. */
LayerContext *_tarn_layer_context_find_pool (cl_context handle, cl_mem_flags flags, gsize size,
                                             TarnPool **pool);

/* Returns TRUE if the context may reuse memory early: before the commands that use the memory are
 * done.  This is so in the states LAYER_NO_QUEUE and LAYER_ONE_QUEUE (one queue, in order), unless
 * TARN_DEBUG checks the context's buffers.  In the state LAYER_ONE_QUEUE, also records that memory
 * is being reused early. */
gboolean _tarn_layer_context_try_early_reuse (LayerContext *self);

/* Ends the state LAYER_ONE_QUEUE, in which a context reuses memory before the commands that use the
 * memory are done.  Call this when the driver may begin to run the context's commands in an order
 * other than that in which the program enqueues them.
 *
 * @queue: NULL, or a queue that will soon take no more commands or run commands out of order.  Such
 * a queue can never be the only queue again.  If @queue is not the only queue, the state does not
 * end, because the order of the only queue's commands does not change. */
void _tarn_layer_context_end_one_queue (LayerContext *self, LayerQueue *queue);

/* These functions add a new queue to the context, and drop a queue that takes no more commands.
 * Drop a queue only when no released buffer waits for the queue's commands any more. */
void _tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order);
void _tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue);

/* These functions count the user events that are not complete.  Call
 * _tarn_layer_context_add_user_event () before the driver makes a user event.  This function also
 * ends the state LAYER_ONE_QUEUE, in which memory is reused before commands are done.  Call
 * _tarn_layer_context_drop_user_event () after a user event is complete. */
void _tarn_layer_context_add_user_event (LayerContext *self);
void _tarn_layer_context_drop_user_event (LayerContext *self);

/* _tarn_layer_context_begin_await () returns only_event, the event for which the context's new
 * queues wait, or NULL if there is no such event.  The caller may wait for the event, too.  The
 * context keeps the event until the caller calls _tarn_layer_context_end_await ().  The caller must
 * call that function in any case, even if it got NULL. */
cl_event _tarn_layer_context_begin_await (LayerContext *self);
void _tarn_layer_context_end_await (LayerContext *self);

/* These functions poll one or two of the context's queues (ask the driver which commands are done)
 * if released buffers wait for commands.  _tarn_layer_context_poll_if_due () polls only if many of
 * them wait (has_many_pending ()), and at most every 0.1 ms.  @now: monotonic time. */
void _tarn_layer_context_poll (LayerContext *self);
void _tarn_layer_context_poll_if_due (LayerContext *self, gint64 now);

/* Returns TRUE if the context's pools may serve images.  Whether they may serve a buffer depends
 * also on the buffer's flags and size. */
gboolean _tarn_layer_context_may_serve (LayerContext *self);

/* Leaves all new buffers of the context to the driver if the program has asked a device about
 * images of buffers, but the driver cannot make such images of a pool's buffers. */
void _tarn_layer_expect_images_if_asked (LayerContext *context);

/* Returns the context's pool for a kind of memory.  The first call for a kind makes the pool.
 * Returns NULL if the pool cannot be made. */
TarnPool *_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory);

/* Returns to the driver all memory that the context's pools cache. */
void _tarn_layer_context_trim (LayerContext *self);

/* Waits for the commands that use this context's released buffers, but does not wait if a user
 * event of the context is not complete.  Afterwards, in either case, returns to the driver all
 * memory that the pools of all contexts cache. */
void _tarn_layer_context_make_room (LayerContext *self);

/* Waits for all commands of the context.  While a user event of the context is not complete, the
 * function does not block in the driver, but polls until no released buffer waits for commands, for
 * at most a second. */
void _tarn_layer_context_finish (LayerContext *self);

/* Waits for the commands of released buffers, so that the buffers' memory becomes free.  Returns
 * FALSE if there are no such commands, if they failed, if they took too long (see
 * _tarn_layer_queue_wait ()), or if a user event of the context is not complete. */
gboolean _tarn_layer_context_wait (LayerContext *self);

/* Returns TRUE if the host may wait for the commands that are on the context's queues now.  The
 * host may not wait if a user event is not complete: a command may depend on a user event that the
 * waiting thread itself would complete. */
gboolean _tarn_layer_context_may_wait (LayerContext *self);

/* Functions of debug.c */

/* Returns TRUE if TARN_DEBUG checks each of the context's buffers when the buffer is freed.  Then
 * the layer frees no buffer before its commands are done, and keeps no spare sub-buffers. */
gboolean _tarn_layer_is_debugged (const LayerContext *context);
/* These functions begin and end the checks of a context's buffers by TARN_DEBUG. */
void _tarn_layer_debug_begin (LayerContext *context);
void _tarn_layer_debug_end (LayerContext *context);
/* If TARN_DEBUG checks the context's buffers, _tarn_layer_debug_note_end () records that the
 * program has released its last reference to a buffer.  Before a thread frees the buffer's memory,
 * it calls _tarn_layer_debug_forget_end (), which removes the record, and waits until no other
 * thread is writing a report about the buffer. */
void _tarn_layer_debug_note_end (LayerBuffer *buffer);
void _tarn_layer_debug_forget_end (LayerBuffer *buffer);
/* Call this if the program uses a handle that is not in the layer's table.  If it is the handle of
 * a released buffer whose memory is not freed yet, reports the use as a mistake of the program, and
 * returns TRUE.  The driver would accept the handle, because the layer still has a reference. */
gboolean _tarn_layer_debug_report_use (cl_mem handle);
/* Makes the layer's debug thread call a function.  The thread calls such functions one after the
 * other.  They may wait, but a callback from the driver must not wait.  If the thread cannot be
 * started, the calling thread calls the function.  Does nothing in a child of fork (). */
void _tarn_layer_debug_defer (void (*func) (gpointer data), gpointer data);
/* Waits while the debug thread has more than 32 functions to call.  Waits at most 0.1 s, because
 * one of these functions may depend on the calling thread. */
void _tarn_layer_debug_keep_up (void);
/* Waits until the debug thread has no function to call, or for @max_wait microseconds.  Returns
 * FALSE if the debug thread still has a function to call. */
gboolean _tarn_layer_debug_drain (gint64 max_wait);
/* Checks the guard bytes of all buffers.  Call this after commands of the context have completed.
 * Does nothing if TARN_DEBUG does not check the context's buffers, or if the last check was too
 * recent. */
void _tarn_layer_debug_check_guards (const LayerContext *context);

/* Functions of ask.c */

/* Finds the flags that the driver reports for a buffer that was created with the flags @asked.
 * Returns the driver's error if the driver refuses these flags. */
cl_int _tarn_layer_ask_flags (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags);

/* Finds the flags that the driver reports for a sub-buffer.  @whole: the flags with which the
 * buffer was created.  @asked: the flags with which the sub-buffer was created.  Returns the
 * driver's error if the driver refuses these flags. */
cl_int _tarn_layer_ask_part_flags (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked,
                                   cl_mem_flags *flags);

/* These functions tell what the driver's reference count of a buffer includes.  The first returns
 * TRUE if it includes the buffer's sub-buffers, the second if it includes the buffer's maps. */
gboolean _tarn_layer_ask_part_references (LayerContext *context);
gboolean _tarn_layer_ask_map_references (LayerContext *context);

/* Returns FALSE if the driver makes images of buffers, but not of sub-buffers. */
gboolean _tarn_layer_ask_images (LayerContext *context);

/* Returns TRUE if a CL_MEM_USE_HOST_PTR buffer at the host address of another buffer shares the
 * other buffer's memory. */
gboolean _tarn_layer_ask_addresses (LayerContext *context);

/* Functions of device.c */

/* Finds out what a context's device and driver require, for example the alignment of sub-buffers.
 * Call this before other threads know the context.  Returns FALSE if the layer cannot serve the
 * context. */
gboolean _tarn_layer_ask_device (LayerContext *context, cl_device_id device);

/* Returns a number of 32 or 64 bits that the device reports, or 0 if the query fails. */
cl_ulong _tarn_layer_get_number (cl_device_id device, cl_device_info name);

/* Functions of address.c */

/* If the driver's buffers may be less aligned than the device states, builds the program that reads
 * the addresses of pieces.  Call this before other threads know the context. */
void _tarn_layer_address_begin (LayerContext *context);

/* Returns the offset of the first aligned device address in a piece (a large buffer of the driver),
 * in bytes.  Returns 0 if the layer does not know the piece's address. */
gsize _tarn_layer_find_shift (LayerContext *context, cl_mem piece);

/* Functions of idle.c */

/* Returns to the driver the memory that the pool has cached for ten seconds and that no request has
 * needed.  Also returns all cached memory of the other contexts in which the program has requested
 * no memory for ten seconds.  Does nothing if it is too early to look at the pool's cached bytes
 * again.  @now: monotonic time. */
void _tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self, gint64 now);

/* Returns the number of bytes that a pool caches. */
gsize _tarn_layer_get_held_bytes (TarnPool *pool);

/* Types and functions of pieces.c */

/* The key by which the layer finds a sub-buffer: the sub-buffer's address and size, that is, its
 * range of bytes in a piece (a large buffer), and its flags. */
typedef struct
{
  /* The address of the sub-buffer's block.  It consists of the piece's number and the block's
   * offset in the piece: see pieces.c. */
  guint64 address;
  gsize size;
  cl_mem_flags asked;
} LayerPlace;

/* Waits for a command for at most 0.2 s, and releases the command's event.  Returns the command's
 * state. */
cl_int _tarn_layer_wait_briefly (cl_command_queue queue, cl_event event);

/* Waits for one of the layer's own commands, and releases the command's event.  @status is the
 * result of the call that enqueued the command.  If @status is an error, returns @status at once.
 *
 * Threads that share a queue use this function instead of blocking calls.  With blocking calls, on
 * rusticl of Mesa 22.3, TARN_DEBUG sometimes saw guard bytes overwritten, as if a blocking call had
 * returned before its command was done. */
cl_int _tarn_layer_await (cl_int status, const cl_event *event);

/* Keeps allocated memory for ever, because a command that is perhaps not done may still write to
 * it. */
void _tarn_layer_keep_for_ever (gpointer memory);

/* Returns the context's queue for the layer's own commands.  The first call makes the queue.
 * Returns NULL if the driver cannot make one. */
cl_command_queue _tarn_layer_context_get_queue (LayerContext *context);

/* Makes the pool for a kind of memory.  The pool gets pieces, large buffers, from the driver.
 * Returns NULL if the pool cannot be made. */
TarnPool *_tarn_layer_pool_new (LayerSource *source);

/* Returns the piece (the driver's large buffer) that contains a block.  Sets *offset to the block's
 * offset from the start of the piece, in bytes. */
cl_mem _tarn_layer_find_piece (LayerContext *context, const TarnBlock *block, gsize *offset);

/* Returns the host address that the layer recorded for a piece, a large buffer of the driver.
 * Returns NULL if none is recorded. */
gpointer _tarn_layer_find_address (LayerContext *context, cl_mem piece);

/* Finds the host address of a buffer by mapping the buffer.  Call this before any other command
 * uses the buffer.  Returns NULL if the driver fails, or does not answer in time. */
gpointer _tarn_layer_ask_address (LayerContext *context, cl_mem buffer);

/* Returns the key by which the layer finds the sub-buffer of a block.  @asked: the flags for
 * clCreateSubBuffer (). */
LayerPlace _tarn_layer_get_place (LayerContext *context, const TarnBlock *block,
                                  cl_mem_flags asked);

/* Types and functions of subs.c */

/* A sub-buffer that the driver made for a block of a pool.  Either it is a buffer of the program,
 * or it is a spare: the layer keeps it for a later buffer with the same key. */
struct _LayerSub
{
  LayerPlace place; /* the key by which the layer finds this sub-buffer */
  cl_mem handle;    /* the driver's handle; the struct owns a reference */
  /* The flags that the driver reports for a buffer that is made with the flags place.asked.  If the
   * sub-buffer is a buffer of the program, queries report these flags. */
  cl_mem_flags flags;
  gboolean is_spare;
  gint64 time;  /* monotonic time from which a spare's age counts: see subs.c */
  GList by_age; /* the link of a spare in LayerContext.spares */
};

void _tarn_layer_subs_init (LayerContext *context);
void _tarn_layer_subs_clear (LayerContext *context); /* call this when no sub-buffer is left */

/* Returns the sub-buffer for a block: a spare that the layer has kept, or else a new one.  Returns
 * NULL in three cases:
 *
 * - The driver refuses to make the sub-buffer.
 * - Another thread has yet to release an older sub-buffer of the block's memory.
 * - There is no spare, and the layer is blind: the program may use buffers by functions of
 *   extensions that the layer does not know. */
LayerSub *_tarn_layer_sub_get (LayerContext *context, const TarnBlock *block, cl_mem_flags asked);

/* These functions take over a sub-buffer that was a buffer of the program.  Call them before the
 * buffer's block is freed.  _tarn_layer_sub_keep () makes the sub-buffer a spare, which the layer
 * keeps for a later buffer.  _tarn_layer_sub_free () releases the sub-buffer. */
void _tarn_layer_sub_keep (LayerContext *context, LayerSub *self);
void _tarn_layer_sub_free (LayerContext *context, LayerSub *self);

/* Returns the number of the context's spares, the sub-buffers kept for later buffers. */
guint _tarn_layer_count_spares (LayerContext *context);

/* These functions release spares, the sub-buffers that the layer keeps for later buffers:
 *
 * - _tarn_layer_drop_spares () releases all spares.
 * - _tarn_layer_drop_old_spares () releases those that no buffer has taken for ten seconds.  @now:
 *   monotonic time.
 * - _tarn_layer_drop_spares_between () releases those whose address is at least @start and less
 *   than @end. */
void _tarn_layer_drop_spares (LayerContext *context);
void _tarn_layer_drop_old_spares (LayerContext *context, gint64 now);
void _tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end);

/* Releases one of the driver's buffers or images, and warns if the driver refuses that. */
void _tarn_layer_release_object (cl_mem handle);

/* Types and functions of uses.c */

/* A use: the record of one or more commands of a queue that use a buffer.  A use with an event
 * stands for one command.  A use without an event stands for all commands of the queue up to the
 * use's number.  After the program has released the buffer, each use is in a list of its queue
 * until the commands are done. */
struct _LayerUse
{
  LayerQueue *queue; /* a reference to the commands' queue; NULL if this struct records no use */
  guint64 number;
  /* A reference to the command's event; NULL if the use stands for all commands up to @number. */
  cl_event event;

  /* The layer sets the fields below when the released buffer begins to wait for the commands. */
  LayerBuffer *buffer; /* the buffer; not destroyed before the commands of its uses are done */
  /* The argument of the driver's callback; NULL if the layer asked for no callback. */
  gpointer ticket;
  gboolean is_waiter; /* guarded by the queue's lock: TRUE if the use is in LayerQueue.waiters */
  /* Guarded by the queue's lock: the link in LayerQueue.waiting or LayerQueue.waiters; the link's
   * data is this use. */
  GList link;
};

/* Records that a command uses a buffer.  The caller has a reference to the buffer's record.
 * @number: the command's number on the queue.  @event: the command's event, or NULL.
 * @takes: TRUE if the function takes over the caller's reference to @event. */
void _tarn_layer_buffer_use (LayerBuffer *self, LayerQueue *queue, guint64 number, cl_event event,
                             gboolean takes);

/* Releases a buffer's uses (records of its commands), when the buffer's record is being freed. */
void _tarn_layer_buffer_forget_uses (LayerBuffer *self);

/* Types and functions of queue.c */

/* The record of a queue of the program.
 *
 * The layer counts the commands that use buffers, each after the driver has accepted the command.
 * A command's number is its place in this count.  All commands up to the number @done are done.
 *
 * While a released buffer waits for the commands of one of its uses (records of commands that use
 * the buffer), the use is in a list of its queue: in @waiting if the buffer waits for all commands
 * up to the use's number, or in @waiters if the buffer waits for one command.
 *
 * Invariants, under the lock:
 *
 * - done <= enqueued.  In @waiting and in @markers, numbers do not decrease from head to tail.  The
 *   commands of the use at the head of @waiting are not known to be done.
 * - n_behind is the number of uses in @waiting that come after the last marker: uses whose number
 *   is larger than the marker's.  bytes_behind is the size of these uses' buffers.  If the
 *   queue has no marker, all uses in @waiting count.
 * - A use is in @waiters exactly if its is_waiter is TRUE.
 * - A closed queue stays closed. */
struct _LayerQueue
{
  LayerObject base;
  LayerContext *context; /* a reference to the record of the queue's context */
  gboolean in_order; /* atomic: TRUE if the driver runs the commands in order; may become FALSE */
  gboolean leaves;   /* guarded by the context's lock: TRUE if the queue will soon be closed, or
                        will soon run its commands out of order */
  guint64 enqueued TARN_WHOLE; /* atomic: number of the latest command that uses buffers */
  guint64 done TARN_WHOLE;     /* atomic: all commands up to this number are done */
  /* Atomic: TRUE while a thread waits in clFinish () for the queue's commands, because a marker
   * failed or the driver refused it. */
  gboolean finishing;
  gboolean is_stuck; /* atomic: TRUE if the last wait for the queue gave up (await_patiently ()) */
  guint users; /* atomic: number of users of the driver's queue: calls in progress, and 1 for the
                  context until the context drops the queue */

  TarnMutex lock; /* guards all fields below */
  /* Atomic: TRUE if the queue takes no more commands.  Then all its commands are done, or a marker
   * comes after them. */
  gboolean closed;
  /* The uses (LayerUse) of released buffers by commands of this queue, ordered by the commands'
   * numbers.  Each of these buffers waits until all commands up to its use's number are done. */
  GQueue waiting;
  guint n_behind; /* atomic: number of uses in @waiting that come after the last marker */
  /* Atomic: the total size, in bytes, of the buffers in the uses that come after the last marker.
   * @n_behind is the number of these uses. */
  gsize bytes_behind;
  /* The records (LayerMarker) of the markers that are not known to be done, ordered by number. */
  GQueue markers;
  /* The uses (LayerUse) whose buffer waits for the event of one command, not for all commands up to
   * a number. */
  GQueue waiters;
};

/* Makes a released buffer wait for commands.  @use is the record of a command that uses the buffer.
 * The buffer waits for all commands that the queue of @use has had so far.  When these commands
 * are done, the layer calls _tarn_layer_buffer_commands_done ().  Returns FALSE, and does nothing,
 * if the command of @use is done already. */
gboolean _tarn_layer_queue_add_waiting (LayerUse *use);

/* Puts a marker on the queue if released buffers wait for its commands.  Set @notify to TRUE if the
 * driver shall call back when the marker is done, because perhaps no thread polls any more.
 *
 * - If @notify is FALSE, and no buffer waits for commands after the last marker, does nothing.
 * - If @notify is TRUE and the queue is closed, puts no marker.  Instead, asks the driver to call
 *   back when the queue's last marker is done. */
void _tarn_layer_queue_put_marker (LayerQueue *self, gboolean notify);

/* Puts a marker on the queue if many released buffers wait for commands that come after the last
 * marker: at least 64 uses (records of commands), or buffers of at least 16 MiB. */
void _tarn_layer_queue_put_marker_if_many (LayerQueue *self);

/* Puts the last marker on a queue that is about to be closed, after all its commands.  If that
 * fails, starts a thread that waits for the commands. */
void _tarn_layer_queue_put_last_marker (LayerQueue *self);

/* Drops the queue's references to its markers.  Call it when no thread uses the queue any more. */
void _tarn_layer_queue_clear_markers (LayerQueue *self);

/* Drops a user of the driver's queue.  If it was the last user, releases the queue to the driver.
 */
void _tarn_layer_queue_drop_user (LayerQueue *self);

/* Releases an event, and warns if the driver refuses that. */
void _tarn_layer_release_event (cl_event event);

/* Returns the state of an event: CL_COMPLETE if the event's command is done, less than CL_COMPLETE
 * if the command failed, more if the command has not ended yet. */
cl_int _tarn_layer_get_state (cl_event event);

/* Makes the context drop the queue if the queue is closed (takes no more commands), the queue's
 * markers are done, and no released buffer waits for the queue's commands. */
void _tarn_layer_queue_end_if_over (LayerQueue *self);

/* Asks the driver which of the queue's markers are done, and which of the commands in @waiters are
 * done.  No released buffer waits any longer for a command that is done.  The layer destroys each
 * released buffer that now waits for no command. */
void _tarn_layer_queue_poll (LayerQueue *self);

/* Waits for those commands of the queue for which released buffers wait.  Returns FALSE if there
 * are no such commands, if a command failed, if a user event of the context is not complete, or if
 * no command completed for 10 s.  If the last wait for this queue gave up for this last reason,
 * the function already gives up if no command completes in the first 10 ms. */
gboolean _tarn_layer_queue_wait (LayerQueue *self);

/* Waits for all commands of the queue, even if a command has failed.  Returns FALSE if there was
 * nothing to wait for, or if clFinish () failed. */
gboolean _tarn_layer_queue_finish (LayerQueue *self);

/* Records that all commands up to @number are done.  Released buffers no longer wait for these
 * commands, and the layer destroys each buffer that waits for no other command. */
void _tarn_layer_queue_set_done (LayerQueue *self, guint64 number);

/* Returns the number of the queue's latest command. */
static inline guint64
_tarn_layer_queue_get_enqueued (LayerQueue *self)
{
  return __atomic_load_n (&self->enqueued, __ATOMIC_ACQUIRE);
}

/* Counts a command that the driver has accepted, and returns the command's number. */
static inline guint64
_tarn_layer_queue_count (LayerQueue *self)
{
  return __atomic_add_fetch (&self->enqueued, 1, __ATOMIC_ACQ_REL);
}

/* Returns TRUE if the queue's command with this number is known to be done. */
static inline gboolean
_tarn_layer_queue_is_done (LayerQueue *self, guint64 number)
{
  return __atomic_load_n (&self->done, __ATOMIC_ACQUIRE) >= number;
}

/* Functions of waiter.c */

/* Makes a released buffer wait until the event of one command completes.  @use is the record of the
 * command.  When the command is done, the layer calls _tarn_layer_buffer_commands_done ().
 * @notify: TRUE if the driver shall call back, because perhaps no thread polls any more.
 *
 * The caller must have a reference to the buffer's record.  If the command is done soon,
 * another thread ends the wait, and without this reference it could free the record during the
 * call. */
void _tarn_layer_wait_for_event (LayerUse *use, gboolean notify);

/* Removes from the queue's @waiters each use whose number is at most @number, and appends the use's
 * link to @taken.  The caller holds the queue's lock. */
void _tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number, GQueue *taken);

/* Ends the wait of a released buffer for one of its uses (records of commands).  The layer destroys
 * the buffer when it waits for none of its uses.  The caller has removed the use from its queue's
 * lists.  This function may free the buffer's record, and with it the use, which is in that record.
 */
void _tarn_layer_use_end_wait (LayerUse *self);

/* Asks the driver which commands of the uses in @waiters are done, one command after the other.
 * Stops at the second command that is not done, so that a call asks about few such commands. */
void _tarn_layer_poll_waiters (LayerQueue *queue);

/* Types and functions of buffer.c */

/* The record of a memory object of the program.  The object is one of:
 *
 * - a buffer from a pool
 * - a sub-buffer of such a buffer, or an image that is made of such a buffer
 * - an image from a pool
 *
 * An object that is made of a buffer counts as one of the program's references to the buffer.
 *
 * A buffer's life ends in three steps:
 *
 * - The program releases its last reference.  From then on the buffer is called ended.
 * - The commands that use the buffer complete, or the layer finds that it need not wait for them.
 * - The layer destroys the buffer: releases the driver's object or keeps it for a later buffer, and
 *   frees the memory.
 *
 * Invariants: exactly one of @block and @whole is NULL.  The layer destroys a buffer once, after
 * the buffer has ended, when the buffer waits for no command. */
struct _LayerBuffer
{
  LayerObject base;
  LayerContext *context; /* a reference to the record of the object's context */
  /* The buffer whose memory this object uses, if this object is a sub-buffer or an image of a
   * buffer.  This field has a reference to the buffer's record.  NULL if this object has its own
   * memory from a pool. */
  LayerBuffer *whole;
  TarnBlock *block; /* this object's own memory; NULL if this object uses the memory of @whole */
  /* The driver's sub-buffer for the block, owned by this struct.  NULL if this object is an image,
   * or if it uses the memory of @whole. */
  LayerSub *sub;
  gsize offset; /* the offset in @whole, in bytes; not used if @whole is NULL */
  /* Size in bytes: the size that the program asked for, or the size of a pooled image.  0 if this
   * is an image made of a buffer. */
  gsize size;
  /* The flags that the program passed, without those that a sub-buffer inherits. */
  cl_mem_flags asked;
  cl_mem_flags flags; /* the flags that the program's queries get (CL_MEM_FLAGS) */
  gboolean is_image;
  gboolean is_disguised; /* TRUE if the image is over a buffer's host address: see images.c */
  gboolean was_mapped;   /* TRUE if the program released the buffer while it was mapped */
  /* Atomic: TRUE if the buffer has destructor callbacks, which must not come late. */
  gboolean is_watched;
  guint parts; /* atomic: number of objects that are made of this buffer and not destroyed yet */
  /* Atomic: the number of uses (records of commands) for which the released buffer still waits.
   * The layer destroys the buffer when this number becomes 0.  While destroy_after_commands () adds
   * the uses one by one, the number is 1 higher, so that it does not become 0 too early. */
  guint waits;

  guint n_reports; /* guarded by the lock of debug.c: number of threads that report a use of this
                      ended buffer; the buffer's block is not freed until this number is 0 */

  TarnMutex lock; /* guards all fields below */
  /* TRUE if the program has no reference any more; then no LayerUse is added any more */
  gboolean ended;
  guint n_uses;
  LayerUse use;      /* the only use, if n_uses is 1 and @uses is NULL */
  LayerUse *uses;    /* all uses, owned; NULL if there is at most one, in @use */
  GSList *callbacks; /* a list of LayerCallback that the struct owns, the latest first */
  /* An array of LayerMap: the maps of this buffer, and of objects that are made of this buffer.
   * NULL if there is no map. */
  GArray *maps;
};

/* Returns the array of a buffer's uses, the records of its commands. */
static inline LayerUse *
_tarn_layer_buffer_get_uses (LayerBuffer *self)
{
  return self->uses != NULL ? self->uses : &self->use;
}

/* Returns the piece (the driver's large buffer) that contains a buffer or sub-buffer.  Sets *offset
 * to the buffer's or sub-buffer's offset from the start of the piece, in bytes. */
cl_mem _tarn_layer_buffer_find_piece (const LayerBuffer *self, gsize *offset);

/* Finds the record of a memory object.  Adds a reference to the record, and also a reference of the
 * program to the object.  Returns NULL if the handle has no record.  The program's reference keeps
 * the object alive during a call of the driver.  Without it, a command could run, and the program
 * could release the command's objects, before the layer has recorded the command. */
LayerBuffer *_tarn_layer_buffer_find_retained (cl_mem handle);

/* Drops the two references that _tarn_layer_buffer_find_retained () added: one to the record, and
 * one of the program to the object. */
void _tarn_layer_buffer_release (LayerBuffer *self);

/* Ends a released buffer's wait for the commands of a use.  After its last wait, destroys the
 * buffer. */
void _tarn_layer_buffer_commands_done (LayerBuffer *self);

/* Makes the record of an image from the pool of images.  The record takes over @block.  Returns a
 * borrowed record. */
LayerBuffer *_tarn_layer_buffer_add_pooled_image (LayerContext *context, TarnBlock *block,
                                                  cl_mem image);

/* Makes the record of an image that was made of a buffer.  Returns a borrowed record. */
LayerBuffer *_tarn_layer_buffer_add_image (LayerBuffer *whole, cl_mem image);

/* Returns TRUE if a status may be due to a lack of memory. */
static inline gboolean
_tarn_layer_is_no_memory (cl_int status)
{
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES
         || status == CL_OUT_OF_HOST_MEMORY;
}

/* If a call of the driver failed for lack of memory, returns cached memory to the driver, and
 * returns TRUE, so that the caller repeats the call.  Otherwise returns FALSE.  @status: the call's
 * result. */
gboolean _tarn_layer_try_make_room (cl_context handle, cl_int status);

/* Functions of image-pool.c */

/* Serves an image from the pool of images.  If the driver shall make the image, returns NULL and
 * does not change *status, which is CL_SUCCESS.  If the program must get an error, returns NULL and
 * sets *status to the error. */
cl_mem _tarn_layer_serve_image (cl_context handle, cl_mem_flags flags,
                                const cl_image_format *format, const cl_image_desc *desc,
                                cl_int *status);

/* Returns an image's block to the pool of images.  The caller makes sure that the image's commands
 * are done, or that later commands run after them.  @ends: TRUE if the driver's image shall be
 * released, not cached. */
void _tarn_layer_image_free (LayerContext *context, TarnBlock *block, gboolean ends);

/* Releases the pool of images of a context that is being freed. */
void _tarn_layer_images_clear (LayerContext *context);

/* Types and functions of commands.c */

#define LAYER_FEW 2 /* most commands use at most this number of objects */

/* The layer's data about one command.  The layer fills this struct in before the driver's call that
 * enqueues the command, and needs it until that call has returned. */
typedef struct
{
  /* A reference to the command's queue.  NULL if the layer has no record of the queue. */
  LayerQueue *queue;
  guint64 number;              /* the number of the queue's latest command before the call */
  guint n;                     /* number of objects that the command uses */
  LayerBuffer *few[LAYER_FEW]; /* the objects, retained; an entry is NULL if the layer has no record
                                  of the object */
  /* All objects if there are more than LAYER_FEW, in an array that the struct owns.  NULL if the
   * objects are in @few. */
  LayerBuffer **many;
  cl_event own; /* the command's event, if the layer needs the event and the program does not */
  /* The address to which the driver writes the command's event; NULL if neither the layer nor the
   * program needs the event. */
  cl_event *event;
} LayerCommand;

/* Begins a command: retains the command's objects, because the command may run, and the program may
 * release the objects, before the layer has recorded the command.
 *
 * @objects may be NULL.  @event: the address of the argument that tells the driver where to write
 * the command's event.  If this argument is NULL and the layer needs the event, the layer makes the
 * argument point to a variable of its own. */
void _tarn_layer_command_begin (LayerCommand *self, cl_command_queue handle, const cl_mem *objects,
                                guint n, cl_event **event);

/* Begins a command whose buffers the caller has retained.  Takes over the array @buffers, and the
 * references in it. */
void _tarn_layer_command_begin_retained (LayerCommand *self, cl_command_queue handle,
                                         LayerBuffer **buffers, guint n, cl_event **event);

/* Returns a command's object by its index, or NULL if the layer has no record of the object. */
static inline LayerBuffer *
_tarn_layer_command_get (const LayerCommand *self, guint i)
{
  return self->many != NULL ? self->many[i] : self->few[i];
}

/* Returns TRUE if a command may access the @size bytes that begin @offset bytes after the start of
 * @buffer.
 *
 * - For a buffer from a pool, returns FALSE if the bytes exceed the buffer.
 * - For a sub-buffer of the program, returns FALSE if the bytes exceed the buffer that it is made
 *   of.
 * - For an image, or for NULL, which stands for an object without a record, returns TRUE, because
 *   the driver checks these itself. */
gboolean _tarn_layer_is_within (const LayerBuffer *buffer, gsize offset, gsize size);

/* Ends a command after the driver's call.  If the driver has accepted the command, and the command
 * may not be done yet, records the command as a use of each of its objects.  Releases the objects.
 * @status: the result of the driver's call.  @blocking: TRUE if the call has waited for the
 * command, so that the command is done.  Then the earlier commands of an in-order queue are done as
 * well. */
void _tarn_layer_command_end (LayerCommand *self, cl_int status, gboolean blocking);

/* Functions of maps.c */

/* Returns the number of a buffer's maps (CL_MEM_MAP_COUNT). */
cl_uint _tarn_layer_count_maps (LayerBuffer *self);

/* Removes the records of all maps of a buffer, when the buffer ends.  Returns FALSE if it had
 * none. */
gboolean _tarn_layer_forget_maps (LayerBuffer *self);

/* The functions that the layer intercepts, grouped by the file that defines them */

#define LAYER_FUNCTIONS(F)                                                                         \
  F (clCreateContext) /* context.c */                                                              \
  F (clCreateContextFromType)                                                                      \
  F (clRetainContext)                                                                              \
  F (clReleaseContext)                                                                             \
  F (clGetContextInfo)                                                                             \
  F (clCreateUserEvent) /* user-event.c */                                                         \
  F (clSetUserEventStatus)                                                                         \
  F (clCreateCommandQueue) /* queue-calls.c */                                                     \
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
  F (clGetExtensionFunctionAddressForPlatform) /* layer.c */                                       \
  F (clGetExtensionFunctionAddress)

/* Declares the layer's functions, such as layer_clCreateBuffer (), with the parameters of the
 * driver's functions. */
#define LAYER_DECLARE(name) extern __typeof__ (*((cl_icd_dispatch *) NULL)->name) layer_##name;

LAYER_FUNCTIONS (LAYER_DECLARE)

#endif
