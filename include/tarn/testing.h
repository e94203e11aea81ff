/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * All of libtarn-testing except the CUDA driver: fake devices, pages and queues, for tests of
 * programs, and functions by which tests control them.
 *
 * A fake device has no memory: its addresses are numbers, which nobody may read or write. It is
 * for tests; nothing in it is fast. In a child of fork() only the child's own may be used.
 */

#ifndef TARN_TESTING_H
#define TARN_TESTING_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

/**
 * A function that a test has something call at some moment.
 *
 * @param user_data  as given with the function
 * @since 0.1
 */
typedef void (*TarnTestingHook) (gpointer user_data);

/**
 * A function that frees something for a device that is full.
 *
 * @param user_data  as given to tarn_testing_device_set_reclaim()
 * @return whether anything was freed
 * @since 0.1
 */
typedef gboolean (*TarnTestingReclaim) (gpointer user_data);

/**
 * A device that is a table. It has a budget of bytes, a ledger of what is allocated, and calls
 * that fail on demand. Any thread may use it.
 *
 * Mistakes of whoever allocates from it are faults: memory that is freed twice, or was never
 * allocated, or with another size. The first one is kept for tarn_testing_device_steal_fault(), and
 * the call that makes it does nothing.
 *
 * @since 0.1
 */
typedef struct _TarnTestingDevice TarnTestingDevice;

TarnTestingDevice *tarn_testing_device_new (guint64 bytes) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_device_free (TarnTestingDevice *device);
TarnAllocator *
tarn_testing_device_allocator_new (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

void tarn_testing_device_set_budget (TarnTestingDevice *device, guint64 bytes);
void tarn_testing_device_set_max_size (TarnTestingDevice *device, gsize size);
void tarn_testing_device_set_reclaim (TarnTestingDevice *device, TarnTestingReclaim func,
                                      gpointer user_data);
void tarn_testing_device_set_free_hook (TarnTestingDevice *device, TarnTestingHook func,
                                        gpointer user_data);

void tarn_testing_device_fail (TarnTestingDevice *device, guint nth, gboolean for_ever);
void tarn_testing_device_fail_share (TarnTestingDevice *device, gdouble share);
gboolean tarn_testing_device_has_failed (TarnTestingDevice *device);

guint64 tarn_testing_device_get_used_bytes (TarnTestingDevice *device);
guint tarn_testing_device_get_live (TarnTestingDevice *device);
guint tarn_testing_device_get_allocate_calls (TarnTestingDevice *device);
guint tarn_testing_device_get_free_calls (TarnTestingDevice *device);
gsize tarn_testing_device_get_last_size (TarnTestingDevice *device);

gchar *tarn_testing_device_steal_fault (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;
gchar *tarn_testing_device_describe_leaks (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_assert_no_leaks (TarnTestingDevice *device);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingDevice, tarn_testing_device_free)

/**
 * Queues that are lists, over a TarnTestingDevice. Nothing on them runs until the test says so,
 * and what is ordered before what is known of every command. Any thread may use them. A queue is
 * a pointer, for tarn_pool_allocate_ordered() and the like; messages call queues by their
 * numbers, the first that was made being 0.
 *
 * Mistakes of whoever orders memory are faults, hazards among them. That it would have gone well
 * this time is no excuse. The first fault is kept for tarn_testing_queues_steal_fault(). A fault
 * is:
 *
 * - a command that writes memory and is not ordered after each command before that reads or writes
 *   it, or reads memory and is not ordered after each one before that writes it: on one queue, by a
 *   wait of queues, or because the host was told that it is done
 * - any command on memory that is not ordered after each command of its owners before: see
 *   tarn_testing_queues_own()
 * - a use by the host of memory that commands may still use
 * - a command on memory that was freed, and memory that is freed before the host was told that no
 *   command uses it; but with #TARN_TESTING_QUEUES_FREES_IN_ORDER, and once for each call that was
 *   told to fail
 * - a command that finds other contents than were written
 * - a call for a queue or an event that is no more
 *
 * @since 0.1
 */
typedef struct _TarnTestingQueues TarnTestingQueues;

/**
 * Abilities of the allocator over queues, as TarnAllocatorOps has them.
 *
 * @since 0.1
 */
typedef enum
{
  /** event_record_all is there. A queue that is referenced can be destroyed, and the next one has
   * its handle. */
  TARN_TESTING_QUEUES_RECORDS_ALL = 1 << 0,
  TARN_TESTING_QUEUES_FREES_IN_ORDER = 1 << 1, /**< memory is freed behind what is on its queue */
  TARN_TESTING_QUEUES_CHECKS_QUEUES = 1 << 2,  /**< check_queue is there */
  TARN_TESTING_QUEUES_SAYS_NOTHING = 1 << 3    /**< calls that are told to fail set no error */
} TarnTestingQueuesFlags;

/**
 * A call of the allocator over queues, as TarnAllocatorOps has them.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_CALL_QUEUE_REF = 0,        /**< queue_ref */
  TARN_TESTING_CALL_EVENT_RECORD = 1,     /**< event_record */
  TARN_TESTING_CALL_EVENT_RECORD_ALL = 2, /**< event_record_all */
  TARN_TESTING_CALL_EVENT_WAIT = 3,       /**< event_wait, of a queue */
  /** event_wait, of the host, which has the device do what is needed, and no more */
  TARN_TESTING_CALL_HOST_WAIT = 4,
  TARN_TESTING_CALL_CHECK_QUEUE = 5,   /**< check_queue */
  TARN_TESTING_CALL_ANY = 6,           /**< any of those above, which can fail */
  TARN_TESTING_CALL_QUEUE_UNREF = 7,   /**< queue_unref */
  TARN_TESTING_CALL_EVENT_IS_DONE = 8, /**< event_is_done */
  TARN_TESTING_CALL_EVENT_RELEASE = 9  /**< event_release */
} TarnTestingCall;

/**
 * A command's use of memory.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_COMMAND_USE = 0,   /**< uses it; checked only against earlier owners */
  TARN_TESTING_COMMAND_WRITE = 1, /**< writes a value */
  TARN_TESTING_COMMAND_CHECK = 2, /**< reads, and must find the value */
  TARN_TESTING_COMMAND_READ = 3   /**< reads, whatever is there */
} TarnTestingCommand;

TarnTestingQueues *tarn_testing_queues_new (guint64 bytes, guint flags) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_queues_free (TarnTestingQueues *queues);
TarnAllocator *
tarn_testing_queues_allocator_new (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;
TarnTestingDevice *tarn_testing_queues_get_device (TarnTestingQueues *queues);

gpointer tarn_testing_queue_new (TarnTestingQueues *queues, gboolean in_order);
void tarn_testing_queue_destroy (TarnTestingQueues *queues, gpointer queue);
void tarn_testing_queue_set_capturing (TarnTestingQueues *queues, gpointer queue,
                                       gboolean is_capturing);
void tarn_testing_queue_put (TarnTestingQueues *queues, gpointer queue, TarnMemory memory,
                             TarnTestingCommand command, guint value);
void tarn_testing_queue_follow (TarnTestingQueues *queues, gpointer queue, gpointer other);
gboolean tarn_testing_queue_run_one (TarnTestingQueues *queues, gpointer queue);
guint tarn_testing_queue_run (TarnTestingQueues *queues, gpointer queue);
guint tarn_testing_queue_get_pending (TarnTestingQueues *queues, gpointer queue);

void tarn_testing_queues_set_fresh (TarnTestingQueues *queues, gpointer queue);
void tarn_testing_queues_own (TarnTestingQueues *queues, TarnMemory memory);
void tarn_testing_queues_touch (TarnTestingQueues *queues, TarnMemory memory);
gboolean tarn_testing_queues_run_one (TarnTestingQueues *queues);
void tarn_testing_queues_run_all (TarnTestingQueues *queues);

guint tarn_testing_queues_get_events (TarnTestingQueues *queues);
guint tarn_testing_queues_get_refs (TarnTestingQueues *queues);
guint tarn_testing_queues_get_calls (TarnTestingQueues *queues, TarnTestingCall call);

void tarn_testing_queues_fail (TarnTestingQueues *queues, TarnTestingCall call, guint nth,
                               gboolean for_ever);
guint tarn_testing_queues_get_failed (TarnTestingQueues *queues);
void tarn_testing_queues_set_hook (TarnTestingQueues *queues, TarnTestingCall call,
                                   TarnTestingHook func, gpointer user_data);

gchar *tarn_testing_queues_steal_fault (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_assert_no_hazards (TarnTestingQueues *queues);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingQueues, tarn_testing_queues_free)

/**
 * A device that has what heaps need, as a table. It has virtual memory, or parts of what it
 * allocates; a budget of bytes, a ledger, and calls that fail on demand. Any thread may use it.
 *
 * Mistakes of whoever uses it end the test: what is mapped where something is, or outside of what
 * was reserved; what is unmapped in part, given back while it is mapped or has parts, or twice;
 * parts that overlap.
 *
 * @since 0.1
 */
typedef struct _TarnTestingPages TarnTestingPages;

/**
 * Bytes that virtual memory of pages is a multiple of.
 *
 * @since 0.1
 */
#define TARN_TESTING_PAGES_GRANULARITY ((gsize) 2 << 20)

/**
 * Bytes that offsets of parts of pages are multiples of.
 *
 * @since 0.1
 */
#define TARN_TESTING_PAGES_PART_ALIGNMENT 128

/**
 * The kind of memory that heaps make blocks of.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_PAGES_PARTS = 0, /**< parts that are made and given back, as OpenCL's sub-buffers */
  TARN_TESTING_PAGES_VIRTUAL = 1,  /**< virtual memory, as CUDA's */
  TARN_TESTING_PAGES_ADDRESSES = 2 /**< parts that are mere addresses */
} TarnTestingPagesKind;

TarnTestingPages *tarn_testing_pages_new (guint64 bytes,
                                          TarnTestingPagesKind kind) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_pages_free (TarnTestingPages *pages);
TarnAllocator *tarn_testing_pages_allocator_new (TarnTestingPages *pages) G_GNUC_WARN_UNUSED_RESULT;

void tarn_testing_pages_set_budget (TarnTestingPages *pages, guint64 bytes);
void tarn_testing_pages_set_max_addresses (TarnTestingPages *pages, gsize size);
void tarn_testing_pages_set_hook (TarnTestingPages *pages, TarnTestingHook func,
                                  gpointer user_data);
void tarn_testing_pages_fail (TarnTestingPages *pages, guint nth, gboolean for_ever);
gboolean tarn_testing_pages_has_failed (TarnTestingPages *pages);

void tarn_testing_pages_refuse_aliases (TarnTestingPages *pages);

gboolean tarn_testing_pages_is_usable (TarnTestingPages *pages, TarnMemory memory, gsize size);
guint64 tarn_testing_pages_locate (TarnTestingPages *pages, TarnMemory memory, gsize offset);
guint64 tarn_testing_pages_locate_in_piece (TarnTestingPages *pages, TarnMemory piece,
                                            gsize offset);

guint64 tarn_testing_pages_get_used_bytes (TarnTestingPages *pages);
guint tarn_testing_pages_get_calls (TarnTestingPages *pages);
guint tarn_testing_pages_get_reserved (TarnTestingPages *pages);
guint tarn_testing_pages_get_allocations (TarnTestingPages *pages);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingPages, tarn_testing_pages_free)

/**
 * A TarnTestingQueues over a TarnTestingPages: an allocator for heaps, with queues. It knows what
 * commands use granule for granule, whatever blocks the memory was split into. It is a fault of the
 * queues if memory is unmapped, or goes back, before the host was told that no command uses it. Any
 * thread may use it.
 *
 * @since 0.1
 */
typedef struct _TarnTestingOrder TarnTestingOrder;

/**
 * Bytes that addresses of a TarnTestingOrder's blocks are multiples of. So are offsets, where
 * blocks are parts: it is the alignment of a heap over it, in TarnHeapOptions.
 *
 * @since 0.1
 */
#define TARN_TESTING_ORDER_GRANULE ((gsize) 64 << 10)

TarnTestingOrder *tarn_testing_order_new (guint64 bytes, TarnTestingPagesKind kind,
                                          guint flags) G_GNUC_WARN_UNUSED_RESULT;
void tarn_testing_order_free (TarnTestingOrder *order);
TarnAllocator *tarn_testing_order_allocator_new (TarnTestingOrder *order) G_GNUC_WARN_UNUSED_RESULT;
TarnTestingPages *tarn_testing_order_get_pages (TarnTestingOrder *order);
TarnTestingQueues *tarn_testing_order_get_queues (TarnTestingOrder *order);

void tarn_testing_order_own (TarnTestingOrder *order, TarnMemory memory, gsize size);
void tarn_testing_order_put (TarnTestingOrder *order, gpointer queue, TarnMemory memory, gsize size,
                             TarnTestingCommand command, guint value);
void tarn_testing_order_touch (TarnTestingOrder *order, TarnMemory memory, gsize size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingOrder, tarn_testing_order_free)

G_END_DECLS

#endif
