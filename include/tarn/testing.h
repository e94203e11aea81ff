/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * The API of libtarn-testing except the CUDA driver: fake devices, pages and queues.
 *
 * Tests of programs use the fakes in place of a driver, and control them with these functions. A
 * fake device has no memory: its addresses are numbers, which must not be read or written. The
 * fakes are for tests, and not fast. A child of fork () may use only the fakes that it makes
 * itself.
 */

#ifndef TARN_TESTING_H
#define TARN_TESTING_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

/**
 * A hook: a function of the test, which a fake calls at a certain moment.
 *
 * @param user_data  the data that was given with the hook
 * @since 0.1
 */
typedef void (*TarnTestingHook) (gpointer user_data);

/**
 * A function of the test that frees memory when a device is full.
 *
 * @param user_data  the data that tarn_testing_device_set_reclaim() got
 * @return TRUE if it has freed memory
 * @since 0.1
 */
typedef gboolean (*TarnTestingReclaim) (gpointer user_data);

/**
 * A fake device: a table of allocations, with a budget of bytes. A test can make its allocations
 * fail. Any thread may use it.
 *
 * Mistakes in the use of the device are faults: a double free, a free of memory that was never
 * allocated, or a free with another size. A call with such a mistake does nothing. The device keeps
 * the first fault for tarn_testing_device_steal_fault().
 *
 * @since 0.1
 */
typedef struct _TarnTestingDevice TarnTestingDevice;

/**
 * Makes a device with a budget.
 *
 * @param bytes  the budget: the most bytes in use at a time; G_MAXUINT64: no limit
 * @return (transfer full) the device, for tarn_testing_device_free(); any thread may use it
 * @since 0.1
 */
TarnTestingDevice *tarn_testing_device_new (guint64 bytes) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a device. This ends the test, with a message, in three cases: there is a fault that
 * tarn_testing_device_steal_fault() did not take, memory is still allocated, or an allocator of the
 * device is still referenced.
 *
 * @param device  the device, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_device_free (TarnTestingDevice *device);

/**
 * Makes an allocator of a device's memory. Use it with a pool, or without one. Its memory has a
 * TarnMemory::address, a number that was never used before. A device may have several allocators.
 *
 * @param device  the device, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *
tarn_testing_device_allocator_new (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Sets the budget of a device. The budget may be less than the bytes in use.
 *
 * @param device  the device; any thread may call it
 * @param bytes   the most bytes in use at a time; G_MAXUINT64: no limit
 * @since 0.1
 */
void tarn_testing_device_set_budget (TarnTestingDevice *device, guint64 bytes);

/**
 * Sets the most bytes of one allocation. A larger request fails with #TARN_ERROR_NOT_SUPPORTED,
 * which does not count as out of memory.
 *
 * @param device  the device; any thread may call it
 * @param size    bytes; G_MAXSIZE, the default: no limit
 * @since 0.1
 */
void tarn_testing_device_set_max_size (TarnTestingDevice *device, gsize size);

/**
 * Sets the reclaim function of a device's allocators. The allocators call it when a request finds
 * no room.
 *
 * @param device     the device; set the function before other threads use the device
 * @param func       a function; NULL, the default: nothing is freed
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_device_set_reclaim (TarnTestingDevice *device, TarnTestingReclaim func,
                                      gpointer user_data);

/**
 * Sets a hook that each free runs first. The hook may use the device: the free does not hold the
 * device's lock meanwhile, and its memory still counts as in use.
 *
 * @param device     the device; set the hook before other threads use the device
 * @param func       a hook; NULL, the default: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_device_set_free_hook (TarnTestingDevice *device, TarnTestingHook func,
                                        gpointer user_data);

/**
 * Makes one allocation fail, with #TARN_ERROR_OUT_OF_MEMORY. A new call of this function replaces
 * the earlier one.
 *
 * @param device    the device; any thread may call it
 * @param nth       the call that fails, counted from now: 1 is the next one; 0: no call fails
 * @param for_ever  TRUE: all later calls fail, too
 * @since 0.1
 */
void tarn_testing_device_fail (TarnTestingDevice *device, guint nth, gboolean for_ever);

/**
 * Makes a share of all allocations fail. Their error is #TARN_ERROR_OUT_OF_MEMORY. The device
 * chooses the allocations at random. In each run with the same seed of g_test, or without g_test,
 * the same allocations fail.
 *
 * @param device  the device; any thread may call it
 * @param share   from 0, the default: none, to 1: all
 * @since 0.1
 */
void tarn_testing_device_fail_share (TarnTestingDevice *device, gdouble share);

/**
 * Tells whether an allocation has failed on request. Only failures since the last call of
 * tarn_testing_device_fail() or tarn_testing_device_fail_share() count.
 *
 * @param device  the device; any thread may call it
 * @return TRUE if one has failed
 * @since 0.1
 */
gboolean tarn_testing_device_has_failed (TarnTestingDevice *device);

/**
 * Gets the bytes that are allocated and not freed.
 *
 * @param device  the device; any thread may call it
 * @return bytes: the sum of the requested sizes
 * @since 0.1
 */
guint64 tarn_testing_device_get_used_bytes (TarnTestingDevice *device);

/**
 * Gets the number of allocations that are not freed.
 *
 * @param device  the device; any thread may call it
 * @return the number of allocations
 * @since 0.1
 */
guint tarn_testing_device_get_live (TarnTestingDevice *device);

/**
 * Counts the calls that requested memory from the device. Failed calls count, too. A request that a
 * pool serves from its cache makes no such call.
 *
 * @param device  the device; any thread may call it
 * @return the number of calls since the device was made
 * @since 0.1
 */
guint tarn_testing_device_get_allocate_calls (TarnTestingDevice *device);

/**
 * Counts the calls that free memory of the device. Calls with a mistake count, too.
 *
 * @param device  the device; any thread may call it
 * @return the number of calls since the device was made
 * @since 0.1
 */
guint tarn_testing_device_get_free_calls (TarnTestingDevice *device);

/**
 * Gets the size of the latest request. The request may have failed.
 *
 * @param device  the device; any thread may call it
 * @return bytes; 0: there was no request
 * @since 0.1
 */
gsize tarn_testing_device_get_last_size (TarnTestingDevice *device);

/**
 * Takes the first fault of a device. Afterwards the device has no fault.
 *
 * @param device  the device; any thread may call it
 * @return (transfer full) (nullable) a text that says what the mistake was, and with which memory,
 *         for g_free (); NULL: there is no fault
 * @since 0.1
 */
gchar *tarn_testing_device_steal_fault (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Describes the memory that is allocated and not freed. The text has the number of allocations, the
 * sum of their bytes, and the address and size of up to ten.
 *
 * @param device  the device; any thread may call it
 * @return (transfer full) (nullable) a line of text, for g_free (); NULL: all memory is freed
 * @since 0.1
 */
gchar *tarn_testing_device_describe_leaks (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Ends the test unless all memory was freed, without a fault. The message has the addresses and
 * sizes, or the fault. Memory that a pool holds is not freed: before this, call
 * tarn_pool_free_held() or release the pool with tarn_pool_unref().
 *
 * @param device  the device; any thread may call it
 * @since 0.1
 */
void tarn_testing_assert_no_leaks (TarnTestingDevice *device);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingDevice, tarn_testing_device_free)

/**
 * Fake queues, over a TarnTestingDevice. Commands on them run only when the test asks for it. For
 * each command, the queues know which commands come before it. Any thread may use them. A queue is
 * a pointer, for tarn_pool_allocate_ordered() and similar functions. Messages number the queues,
 * from 0 on, in the order in which they were made.
 *
 * Mistakes in the order of commands are faults (hazards), and so are other mistakes in the use of
 * memory. Such a mistake is a fault even if the commands happen to run in a harmless order. The
 * queues keep the first fault for tarn_testing_queues_steal_fault(). One command comes after
 * another if both are on one in-order queue, if its queue waits for the other command, or if the
 * host knew that the other command was done. The faults are:
 *
 * - a command writes memory, and does not come after each earlier command that reads or writes this
 *   memory; or it reads memory, and does not come after each earlier command that writes it
 * - a command uses memory, and does not come after each command of an earlier owner of the memory:
 *   see tarn_testing_queues_own()
 * - the host uses memory that commands may still use
 * - a command uses memory that was freed
 * - memory is freed before the host knows that no command uses it. This is no fault with
 *   #TARN_TESTING_QUEUES_FREES_IN_ORDER. Each call that fails on request excuses one such free.
 * - a command finds other contents than those that were written
 * - a call names a queue or an event that does not exist any more
 *
 * @since 0.1
 */
typedef struct _TarnTestingQueues TarnTestingQueues;

/**
 * The abilities of allocators over queues. The functions named here are members of
 * TarnAllocatorOps.
 *
 * @since 0.1
 */
typedef enum
{
  /** The allocator has event_record_all. References then do not keep a destroyed queue alive, so
   * the next queue gets its handle at once. */
  TARN_TESTING_QUEUES_RECORDS_ALL = 1 << 0,
  TARN_TESTING_QUEUES_FREES_IN_ORDER = 1 << 1, /**< frees_in_order is TRUE: frees need not wait */
  TARN_TESTING_QUEUES_CHECKS_QUEUES = 1 << 2,  /**< the allocator has check_queue */
  TARN_TESTING_QUEUES_SAYS_NOTHING = 1 << 3    /**< calls that fail on request set no error */
} TarnTestingQueuesFlags;

/**
 * A kind of call of allocators over queues. The functions named here are members of
 * TarnAllocatorOps.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_CALL_QUEUE_REF = 0,        /**< queue_ref */
  TARN_TESTING_CALL_EVENT_RECORD = 1,     /**< event_record */
  TARN_TESTING_CALL_EVENT_RECORD_ALL = 2, /**< event_record_all */
  TARN_TESTING_CALL_EVENT_WAIT = 3,       /**< event_wait, if a queue waits */
  /** event_wait, if the host waits: runs only the commands that come before the event */
  TARN_TESTING_CALL_HOST_WAIT = 4,
  TARN_TESTING_CALL_CHECK_QUEUE = 5,   /**< check_queue */
  TARN_TESTING_CALL_ANY = 6,           /**< any of the calls above, which can fail */
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
  TARN_TESTING_COMMAND_USE = 0,   /**< uses memory; checked only against earlier owners */
  TARN_TESTING_COMMAND_WRITE = 1, /**< writes a value */
  TARN_TESTING_COMMAND_CHECK = 2, /**< reads, and must find the given value */
  TARN_TESTING_COMMAND_READ = 3   /**< reads any value */
} TarnTestingCommand;

/**
 * Makes a set of queues over a device with a budget. The set is empty at first:
 * tarn_testing_queue_new() adds a queue. Random choices depend on the seed of g_test. Without
 * g_test, they are the same in each run.
 *
 * @param bytes  the budget of the device, as for tarn_testing_device_new()
 * @param flags  TarnTestingQueuesFlags for the allocators, or 0
 * @return (transfer full) the queues, for tarn_testing_queues_free(); any thread may use them
 * @since 0.1
 */
TarnTestingQueues *tarn_testing_queues_new (guint64 bytes, guint flags) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a set of queues. This ends the test, with a message, if there is a fault that
 * tarn_testing_queues_steal_fault() did not take, an event, a reference to a queue, allocated
 * memory, or an allocator that is still referenced.
 *
 * @param queues  the queues, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_queues_free (TarnTestingQueues *queues);

/**
 * Makes an allocator of the queues' memory. The allocator can order the use of memory by queue, so
 * it suits a pool with tarn_pool_allocate_ordered(). There may be several allocators.
 *
 * @param queues  the queues, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *
tarn_testing_queues_allocator_new (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the device under the queues. Use it to set the budget, to look at allocations, or for
 * tarn_testing_assert_no_leaks().
 *
 * @param queues  the queues; any thread may call it
 * @return (transfer none) the device
 * @since 0.1
 */
TarnTestingDevice *tarn_testing_queues_get_device (TarnTestingQueues *queues);

/**
 * Makes a queue. The new queue may have the handle of a destroyed queue, as with a real driver. Its
 * number in messages is always new.
 *
 * @param queues    the set to which the queue is added; any thread may call it
 * @param in_order  TRUE: its commands run one after the other
 * @return (transfer none) the queue, for tarn_testing_queue_destroy(); otherwise
 *         tarn_testing_queues_free() frees it
 * @since 0.1
 */
gpointer tarn_testing_queue_new (TarnTestingQueues *queues, gboolean in_order);

/**
 * Destroys a queue: no later call may name it. Its commands still run. If the allocator holds a
 * reference to the queue (queue_ref), the queue lives until the reference is released. With
 * #TARN_TESTING_QUEUES_RECORDS_ALL, the queue ends at once.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue, which is not destroyed yet
 * @since 0.1
 */
void tarn_testing_queue_destroy (TarnTestingQueues *queues, gpointer queue);

/**
 * Sets whether a queue is being captured. Meanwhile event_record, event_wait and check_queue fail
 * for this queue, with #TARN_ERROR_NOT_SUPPORTED. So does event_record_all, for all queues.
 *
 * @param queues        the queues; any thread may call it
 * @param queue         a queue
 * @param is_capturing  TRUE: the queue is being captured; FALSE is the default
 * @since 0.1
 */
void tarn_testing_queue_set_capturing (TarnTestingQueues *queues, gpointer queue,
                                       gboolean is_capturing);

/**
 * Puts a command on a queue, behind its earlier commands. If the command's order is wrong, this is
 * a fault at once, no matter when the command runs.
 *
 * @param queues   the queues; any thread may call it
 * @param queue    a queue
 * @param memory   memory of the queues' allocator: tarn_block_get_memory()
 * @param command  the command's effect on the memory
 * @param value    the value that it writes, or must find; unused by other commands
 * @since 0.1
 */
void tarn_testing_queue_put (TarnTestingQueues *queues, gpointer queue, TarnMemory memory,
                             TarnTestingCommand command, guint value);

/**
 * Makes a queue wait for another one. Later commands on the queue come after the commands that are
 * on the other queue now. A program can order its own queues like this, without the library's
 * knowledge.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   the queue that waits
 * @param other   the queue that it waits for
 * @since 0.1
 */
void tarn_testing_queue_follow (TarnTestingQueues *queues, gpointer queue, gpointer other);

/**
 * Runs one command or wait of a queue. On an in-order queue, it is the first one. On an
 * out-of-order queue, it is a random one of those that can run.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return TRUE if one has run; FALSE: none can run
 * @since 0.1
 */
gboolean tarn_testing_queue_run_one (TarnTestingQueues *queues, gpointer queue);

/**
 * Runs the commands and waits of a queue until none can run.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return the number of commands and waits that have run
 * @since 0.1
 */
guint tarn_testing_queue_run (TarnTestingQueues *queues, gpointer queue);

/**
 * Counts the commands and waits on a queue that are not done.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return the number of commands and waits
 * @since 0.1
 */
guint tarn_testing_queue_get_pending (TarnTestingQueues *queues, gpointer queue);

/**
 * Sets the queue on which a command writes to new memory. Some drivers make new memory ready in
 * this way.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue; NULL, the default: no command writes to new memory
 * @since 0.1
 */
void tarn_testing_queues_set_fresh (TarnTestingQueues *queues, gpointer queue);

/**
 * Says that memory gets another owner. All later commands on the memory, reads and writes, must
 * come after all commands of earlier owners. A test calls this when it hands memory out again. It
 * need not call it if the checks of reads against writes are enough.
 *
 * @param queues  the queues; any thread may call it
 * @param memory  memory of the queues' allocator
 * @since 0.1
 */
void tarn_testing_queues_own (TarnTestingQueues *queues, TarnMemory memory);

/**
 * Uses memory from the host now. It is a fault if commands may still use the memory: the host must
 * know that they are done.
 *
 * @param queues  the queues; any thread may call it
 * @param memory  memory of the queues' allocator
 * @since 0.1
 */
void tarn_testing_queues_touch (TarnTestingQueues *queues, TarnMemory memory);

/**
 * Runs one command or wait of a random queue. The queue may be destroyed.
 *
 * @param queues  the queues; any thread may call it
 * @return TRUE if one has run; FALSE: none can run
 * @since 0.1
 */
gboolean tarn_testing_queues_run_one (TarnTestingQueues *queues);

/**
 * Runs all commands on all queues. Their order is random, as far as the waits allow. The function
 * ends the test if queues wait for each other for ever.
 *
 * @param queues  the queues; any thread may call it, while no other thread puts commands on them
 * @since 0.1
 */
void tarn_testing_queues_run_all (TarnTestingQueues *queues);

/**
 * Counts the events that were recorded and not released.
 *
 * @param queues  the queues; any thread may call it
 * @return the number of events
 * @since 0.1
 */
guint tarn_testing_queues_get_events (TarnTestingQueues *queues);

/**
 * Counts the references to queues. These are the references that queue_ref has taken and
 * queue_unref has not released.
 *
 * @param queues  the queues; any thread may call it
 * @return the number of references to all queues
 * @since 0.1
 */
guint tarn_testing_queues_get_refs (TarnTestingQueues *queues);

/**
 * Counts the calls of one kind, including failed ones.
 *
 * @param queues  the queues; any thread may call it
 * @param call    the kind of call
 * @return the number of calls since the queues were made
 * @since 0.1
 */
guint tarn_testing_queues_get_calls (TarnTestingQueues *queues, TarnTestingCall call);

/**
 * Makes a call of one kind fail, with #TARN_ERROR_FAILED. A new call of this function replaces the
 * earlier one.
 *
 * @param queues    the queues; any thread may call it
 * @param call      the kind of call, up to #TARN_TESTING_CALL_ANY
 * @param nth       the call that fails, counted from now: 1 is the next one; 0: no call fails
 * @param for_ever  TRUE: all later calls fail, too
 * @since 0.1
 */
void tarn_testing_queues_fail (TarnTestingQueues *queues, TarnTestingCall call, guint nth,
                               gboolean for_ever);

/**
 * Counts the calls that have failed on request.
 *
 * @param queues  the queues; any thread may call it
 * @return the number of calls since the last tarn_testing_queues_fail()
 * @since 0.1
 */
guint tarn_testing_queues_get_failed (TarnTestingQueues *queues);

/**
 * Sets a hook that the next call of one kind runs first. The call runs the hook once, with no lock
 * held, before it does anything else. The hook can do what another thread might do at this moment.
 *
 * @param queues     the queues; any thread may call it
 * @param call       the kind of call
 * @param func       a hook; NULL: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_queues_set_hook (TarnTestingQueues *queues, TarnTestingCall call,
                                   TarnTestingHook func, gpointer user_data);

/**
 * Takes the first fault of the queues. Afterwards the queues have no fault. TarnTestingQueues lists
 * the kinds of faults.
 *
 * @param queues  the queues; any thread may call it
 * @return (transfer full) (nullable) a text that says which queue did what to which memory, for
 *         g_free (); NULL: there is no fault
 * @since 0.1
 */
gchar *tarn_testing_queues_steal_fault (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Ends the test if the queues have a fault. The message names the queue, the memory and its size.
 * See TarnTestingQueues.
 *
 * @param queues  the queues; any thread may call it
 * @since 0.1
 */
void tarn_testing_assert_no_hazards (TarnTestingQueues *queues);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingQueues, tarn_testing_queues_free)

/**
 * A fake device for heaps: a table of allocations, with a budget of bytes. It has virtual memory,
 * or memory that can be divided into parts. A test can make calls fail. Any thread may use it.
 *
 * These mistakes end the test:
 *
 * - mapping memory where other memory is mapped, or at addresses that are not reserved
 * - unmapping a range that is not a whole mapping
 * - freeing memory that is mapped, has parts, or was freed before
 * - making parts that overlap (#TARN_TESTING_PAGES_PARTS)
 *
 * @since 0.1
 */
typedef struct _TarnTestingPages TarnTestingPages;

/**
 * The granularity of virtual memory of TarnTestingPages, in bytes.
 *
 * @since 0.1
 */
#define TARN_TESTING_PAGES_GRANULARITY ((gsize) 2 << 20)

/**
 * The alignment of parts of TarnTestingPages, in bytes. The offset of a part is a multiple of it.
 *
 * @since 0.1
 */
#define TARN_TESTING_PAGES_PART_ALIGNMENT 128

/**
 * The kind of memory of which heaps make blocks.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_PAGES_PARTS = 0,    /**< parts that are made and released, as OpenCL's sub-buffers */
  TARN_TESTING_PAGES_VIRTUAL = 1,  /**< virtual memory, as CUDA's */
  TARN_TESTING_PAGES_ADDRESSES = 2 /**< parts that are only addresses, and need no release */
} TarnTestingPagesKind;

/**
 * Makes a device with virtual memory or with parts of memory.
 *
 * @param bytes  the budget: the most bytes in use at a time; G_MAXUINT64: no limit
 * @param kind   the memory of which heaps make blocks
 * @return (transfer full) the device, for tarn_testing_pages_free(); any thread may use it
 * @since 0.1
 */
TarnTestingPages *tarn_testing_pages_new (guint64 bytes,
                                          TarnTestingPagesKind kind) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a device. This ends the test if memory, parts, mappings or addresses are left, or an
 * allocator is still referenced.
 *
 * @param pages  the device, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_pages_free (TarnTestingPages *pages);

/**
 * Makes an allocator of a device's memory, for a heap. A device may have several allocators.
 *
 * @param pages  the device, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *tarn_testing_pages_allocator_new (TarnTestingPages *pages) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Sets the budget of a device. The budget may be less than the bytes in use.
 *
 * @param pages  the device; any thread may call it
 * @param bytes  the most bytes in use at a time; G_MAXUINT64: no limit
 * @since 0.1
 */
void tarn_testing_pages_set_budget (TarnTestingPages *pages, guint64 bytes);

/**
 * Sets the most bytes of one reservation of addresses. A larger reservation fails with
 * #TARN_ERROR_OUT_OF_MEMORY.
 *
 * @param pages  the device; any thread may call it
 * @param size   bytes; G_MAXSIZE, the default: no limit
 * @since 0.1
 */
void tarn_testing_pages_set_max_addresses (TarnTestingPages *pages, gsize size);

/**
 * Sets a hook that each call of the allocators runs first. The device's lock is not held then.
 *
 * @param pages      the device; set the hook before other threads use the device
 * @param func       a hook; NULL, the default: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_pages_set_hook (TarnTestingPages *pages, TarnTestingHook func,
                                  gpointer user_data);

/**
 * Makes one call fail, with #TARN_ERROR_OUT_OF_MEMORY. Only calls that can fail count. A new call
 * of this function replaces the earlier one.
 *
 * @param pages     the device; any thread may call it
 * @param nth       the call that fails, counted from now: 1 is the next one; 0: no call fails
 * @param for_ever  TRUE: all later calls fail, too
 * @since 0.1
 */
void tarn_testing_pages_fail (TarnTestingPages *pages, guint nth, gboolean for_ever);

/**
 * Tells whether a call has failed on request. Only failures since the last
 * tarn_testing_pages_fail() count.
 *
 * @param pages  the device; any thread may call it
 * @return TRUE if one has failed
 * @since 0.1
 */
gboolean tarn_testing_pages_has_failed (TarnTestingPages *pages);

/**
 * Makes a device refuse to map a backing at a second address. From now on such calls fail with
 * #TARN_ERROR_NOT_SUPPORTED, although the allocators claim to support them
 * (TarnAllocatorOps.backing_aliases).
 *
 * @param pages  the device; any thread may call it
 * @since 0.1
 */
void tarn_testing_pages_refuse_aliases (TarnTestingPages *pages);

/**
 * Tells whether memory may be used. It may if all its bytes are mapped, or if it is a part with at
 * least @p size bytes.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param size    bytes
 * @return TRUE if it may be used
 * @since 0.1
 */
gboolean tarn_testing_pages_is_usable (TarnTestingPages *pages, TarnMemory memory, gsize size);

/**
 * Gets the number of one byte of memory. The number identifies the device's byte, at whichever
 * address it is mapped; no other byte ever has it. The function ends the test if the byte may not
 * be used.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param offset  the offset of the byte
 * @return the number
 * @since 0.1
 */
guint64 tarn_testing_pages_locate (TarnTestingPages *pages, TarnMemory memory, gsize offset);

/**
 * Gets the number of one byte of allocated memory. For blocks, which are parts of allocated memory,
 * use tarn_testing_pages_locate(). The function ends the test if there is no such memory.
 *
 * @param pages   the device; any thread may call it
 * @param piece   memory that the device's own allocator allocated
 * @param offset  the offset of the byte
 * @return the number that tarn_testing_pages_locate() gets for the same byte in a part
 * @since 0.1
 */
guint64 tarn_testing_pages_locate_in_piece (TarnTestingPages *pages, TarnMemory piece,
                                            gsize offset);

/**
 * Gets the bytes that are allocated and not freed. Unmapped memory counts, too.
 *
 * @param pages  the device; any thread may call it
 * @return bytes
 * @since 0.1
 */
guint64 tarn_testing_pages_get_used_bytes (TarnTestingPages *pages);

/**
 * Counts the calls that can fail, including failed ones.
 *
 * @param pages  the device; any thread may call it
 * @return the number of calls since the device was made
 * @since 0.1
 */
guint tarn_testing_pages_get_calls (TarnTestingPages *pages);

/**
 * Counts the reservations of addresses that were not freed.
 *
 * @param pages  the device; any thread may call it
 * @return the number of reservations
 * @since 0.1
 */
guint tarn_testing_pages_get_reserved (TarnTestingPages *pages);

/**
 * Counts the successful allocations. Freed ones count, too.
 *
 * @param pages  the device; any thread may call it
 * @return the number of allocations since the device was made
 * @since 0.1
 */
guint tarn_testing_pages_get_allocations (TarnTestingPages *pages);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingPages, tarn_testing_pages_free)

/**
 * A TarnTestingQueues over a TarnTestingPages: queues, and an allocator for heaps. For each granule
 * (#TARN_TESTING_ORDER_GRANULE bytes) of the device's memory, the queues know the commands that use
 * it, however a heap splits the memory into blocks. It is a fault of the queues if memory is
 * unmapped or freed before the host knows that no command uses it. Any thread may use it.
 *
 * @since 0.1
 */
typedef struct _TarnTestingOrder TarnTestingOrder;

/**
 * The alignment of blocks of a TarnTestingOrder, in bytes. Use it as the alignment of a heap over
 * the allocator, in TarnHeapOptions. Then the address of a block, or its offset if blocks are
 * parts, is a multiple of it.
 *
 * @since 0.1
 */
#define TARN_TESTING_ORDER_GRANULE ((gsize) 64 << 10)

/**
 * Makes queues over a device with virtual memory or parts of memory.
 *
 * @param bytes  the budget, as for tarn_testing_pages_new()
 * @param kind   the memory of which heaps make blocks
 * @param flags  as for tarn_testing_queues_new(); with virtual memory not
 *               #TARN_TESTING_QUEUES_FREES_IN_ORDER
 * @return (transfer full) a TarnTestingOrder, for tarn_testing_order_free(); any thread may use it
 * @since 0.1
 */
TarnTestingOrder *tarn_testing_order_new (guint64 bytes, TarnTestingPagesKind kind,
                                          guint flags) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a TarnTestingOrder. It makes the checks of tarn_testing_pages_free() and
 * tarn_testing_queues_free().
 *
 * @param order  a TarnTestingOrder, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_order_free (TarnTestingOrder *order);

/**
 * Makes an allocator for heaps. It has the device's memory and the queues' order. A heap over it
 * needs the alignment #TARN_TESTING_ORDER_GRANULE.
 *
 * @param order  a TarnTestingOrder, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *tarn_testing_order_allocator_new (TarnTestingOrder *order) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the device of a TarnTestingOrder.
 *
 * @param order  a TarnTestingOrder; any thread may call it
 * @return (transfer none) the device
 * @since 0.1
 */
TarnTestingPages *tarn_testing_order_get_pages (TarnTestingOrder *order);

/**
 * Gets the queues of a TarnTestingOrder. Use them to make queues, to run commands, and to take
 * faults.
 *
 * @param order  a TarnTestingOrder; any thread may call it
 * @return (transfer none) the queues
 * @since 0.1
 */
TarnTestingQueues *tarn_testing_order_get_queues (TarnTestingOrder *order);

/**
 * Says that memory gets another owner, as tarn_testing_queues_own() does. It applies to all
 * granules of the memory.
 *
 * @param order   a TarnTestingOrder; any thread may call it
 * @param memory  memory of a block, from a heap over the allocator
 * @param size    the bytes of the memory
 * @since 0.1
 */
void tarn_testing_order_own (TarnTestingOrder *order, TarnMemory memory, gsize size);

/**
 * Puts a command that uses all bytes of some memory on a queue. For the order of commands, the
 * rules of tarn_testing_queue_put() hold.
 *
 * @param order    a TarnTestingOrder; any thread may call it
 * @param queue    a queue
 * @param memory   memory of a block, from a heap over the allocator
 * @param size     the bytes of the memory
 * @param command  the command's effect on the memory
 * @param value    the value that it writes, or must find; unused by other commands
 * @since 0.1
 */
void tarn_testing_order_put (TarnTestingOrder *order, gpointer queue, TarnMemory memory, gsize size,
                             TarnTestingCommand command, guint value);

/**
 * Uses memory from the host now, as tarn_testing_queues_touch() does.
 *
 * @param order   a TarnTestingOrder; any thread may call it
 * @param memory  memory of a block, from a heap over the allocator
 * @param size    the bytes of the memory
 * @since 0.1
 */
void tarn_testing_order_touch (TarnTestingOrder *order, TarnMemory memory, gsize size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingOrder, tarn_testing_order_free)

G_END_DECLS

#endif
