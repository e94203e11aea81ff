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

/**
 * Makes a device with a budget.
 *
 * @param bytes  its budget; G_MAXUINT64 never runs out
 * @return (transfer full) the device, for tarn_testing_device_free(); any thread may use it
 * @since 0.1
 */
TarnTestingDevice *tarn_testing_device_new (guint64 bytes) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a device. It ends the test, and says why, if there is a fault that nobody took, memory that
 * was not freed, or an allocator that is still referenced.
 *
 * @param device  the device, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_device_free (TarnTestingDevice *device);

/**
 * Makes an allocator of a device's memory. It is for a pool, or for use without one. What it has
 * is TarnMemory::address, a number that was never handed out before. There may be several.
 *
 * @param device  the device, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *
tarn_testing_device_allocator_new (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Sets the budget of a device. It may be less than is in use.
 *
 * @param device  the device; any thread may call it
 * @param bytes   all that may be in use at a time; G_MAXUINT64 never runs out
 * @since 0.1
 */
void tarn_testing_device_set_budget (TarnTestingDevice *device, guint64 bytes);

/**
 * Sets the most bytes of one allocation. Requests above that fail with #TARN_ERROR_NOT_SUPPORTED,
 * which is not out-of-memory.
 *
 * @param device  the device; any thread may call it
 * @param size    bytes; G_MAXSIZE, as at the start: any
 * @since 0.1
 */
void tarn_testing_device_set_max_size (TarnTestingDevice *device, gsize size);

/**
 * Sets what the allocators' reclaim function does. A request that finds no room calls it.
 *
 * @param device     the device; called before other threads use it
 * @param func       a function; NULL, as at the start: nothing is freed
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_device_set_reclaim (TarnTestingDevice *device, TarnTestingReclaim func,
                                      gpointer user_data);

/**
 * Sets what each free calls first. No lock is held then, and the memory still counts as in use.
 *
 * @param device     the device; called before other threads use it
 * @param func       a function; NULL, as at the start: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_device_set_free_hook (TarnTestingDevice *device, TarnTestingHook func,
                                        gpointer user_data);

/**
 * Has an allocation fail with #TARN_ERROR_OUT_OF_MEMORY. It takes the place of what was asked for
 * by this function before.
 *
 * @param device    the device; any thread may call it
 * @param nth       the call from now on that fails, 1 being the next one; 0: none
 * @param for_ever  whether all that follow fail, too
 * @since 0.1
 */
void tarn_testing_device_fail (TarnTestingDevice *device, guint nth, gboolean for_ever);

/**
 * Has a share of all allocations fail. They are chosen at random, and fail with
 * #TARN_ERROR_OUT_OF_MEMORY: again the same ones with the same seed of GLib's tests, and in a
 * program that has no such tests.
 *
 * @param device  the device; any thread may call it
 * @param share   0, as at the start: none, up to 1: all
 * @since 0.1
 */
void tarn_testing_device_fail_share (TarnTestingDevice *device, gdouble share);

/**
 * Tells whether an allocation failed because it was told to. It counts since the last
 * tarn_testing_device_fail() or tarn_testing_device_fail_share().
 *
 * @param device  the device; any thread may call it
 * @return whether one has
 * @since 0.1
 */
gboolean tarn_testing_device_has_failed (TarnTestingDevice *device);

/**
 * Gets the bytes that are allocated and not freed.
 *
 * @param device  the device; any thread may call it
 * @return bytes, as asked for
 * @since 0.1
 */
guint64 tarn_testing_device_get_used_bytes (TarnTestingDevice *device);

/**
 * Gets the number of allocations that are not freed.
 *
 * @param device  the device; any thread may call it
 * @return how many
 * @since 0.1
 */
guint tarn_testing_device_get_live (TarnTestingDevice *device);

/**
 * Counts the calls that asked the device for memory. Those that failed are included. It is what a
 * pool did not have itself.
 *
 * @param device  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint tarn_testing_device_get_allocate_calls (TarnTestingDevice *device);

/**
 * Counts the calls that gave memory back. Mistaken ones are included.
 *
 * @param device  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint tarn_testing_device_get_free_calls (TarnTestingDevice *device);

/**
 * Gets the size that was asked for last. Whether there was room makes no difference.
 *
 * @param device  the device; any thread may call it
 * @return bytes; 0: it was never asked
 * @since 0.1
 */
gsize tarn_testing_device_get_last_size (TarnTestingDevice *device);

/**
 * Takes the first fault of whoever used a device. It is forgotten then.
 *
 * @param device  the device; any thread may call it
 * @return (transfer full) (nullable) what was done to which memory, for g_free (); NULL: nothing
 * @since 0.1
 */
gchar *tarn_testing_device_steal_fault (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Describes what is allocated and not freed. It says how much, and the memory and size of each,
 * up to ten.
 *
 * @param device  the device; any thread may call it
 * @return (transfer full) (nullable) a line of text, for g_free (); NULL: all is freed
 * @since 0.1
 */
gchar *tarn_testing_device_describe_leaks (TarnTestingDevice *device) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Ends the test unless all that was allocated was freed. A message names memory and sizes; memory
 * that was freed wrongly counts as well. What a pool holds is not freed: tarn_pool_free_held() or
 * tarn_pool_unref() comes first.
 *
 * @param device  the device; any thread may call it
 * @since 0.1
 */
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

/**
 * Makes queues over a device with a budget. There are none at first: tarn_testing_queue_new().
 * What is left to chance goes by the seed of GLib's tests, and is the same each time in a program
 * that has no such tests.
 *
 * @param bytes  the budget of the device, as tarn_testing_device_new() has it
 * @param flags  the allocator's behaviour: TarnTestingQueuesFlags, or 0
 * @return (transfer full) the queues, for tarn_testing_queues_free(); any thread may use them
 * @since 0.1
 */
TarnTestingQueues *tarn_testing_queues_new (guint64 bytes, guint flags) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees queues. It ends the test, and says why, if there is a fault that nobody took, an event, a
 * reference on a queue, memory, or an allocator that is still referenced.
 *
 * @param queues  the queues, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_queues_free (TarnTestingQueues *queues);

/**
 * Makes an allocator of the queues' memory. That goes from queue to queue in order: it is for a
 * pool, and tarn_pool_allocate_ordered(). There may be several.
 *
 * @param queues  the queues, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *
tarn_testing_queues_allocator_new (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the device under the queues. It is for its budget, its ledger, and
 * tarn_testing_assert_no_leaks().
 *
 * @param queues  the queues; any thread may call it
 * @return (transfer none) the device
 * @since 0.1
 */
TarnTestingDevice *tarn_testing_queues_get_device (TarnTestingQueues *queues);

/**
 * Makes a queue. Its pointer may be that of one that is gone, as a driver's may; its number in
 * messages is not.
 *
 * @param queues    the queues that it is one of; any thread may call it
 * @param in_order  whether its commands run one after the other
 * @return (transfer none) the queue, for tarn_testing_queue_destroy(), or else until
 *         tarn_testing_queues_free()
 * @since 0.1
 */
gpointer tarn_testing_queue_new (TarnTestingQueues *queues, gboolean in_order);

/**
 * Destroys a queue: nobody may name it any more. What is on it runs all the same. While something
 * has a reference, as a pool has by queue_ref, the queue lives on; but with
 * #TARN_TESTING_QUEUES_RECORDS_ALL it is gone at once.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue, which is destroyed once
 * @since 0.1
 */
void tarn_testing_queue_destroy (TarnTestingQueues *queues, gpointer queue);

/**
 * Sets whether a queue is being captured. Meanwhile it can be neither recorded nor made to wait,
 * nor be allocated for: these calls fail with #TARN_ERROR_NOT_SUPPORTED, and so does
 * event_record_all.
 *
 * @param queues        the queues; any thread may call it
 * @param queue         a queue
 * @param is_capturing  whether it is; FALSE at the start
 * @since 0.1
 */
void tarn_testing_queue_set_capturing (TarnTestingQueues *queues, gpointer queue,
                                       gboolean is_capturing);

/**
 * Puts a command on a queue, behind what is there. What is wrong with its order is a fault at once,
 * whenever it runs.
 *
 * @param queues   the queues; any thread may call it
 * @param queue    a queue
 * @param memory   memory of the queues' allocator: tarn_block_get_memory()
 * @param command  its effect
 * @param value    the value that it writes, or must find; unused by other commands
 * @since 0.1
 */
void tarn_testing_queue_put (TarnTestingQueues *queues, gpointer queue, TarnMemory memory,
                             TarnTestingCommand command, guint value);

/**
 * Has a queue wait for another one, as its owner does. What is put on it from now on comes after
 * what is on the other one now. Tarn knows nothing of it.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   the queue that waits
 * @param other   the queue that it waits for
 * @since 0.1
 */
void tarn_testing_queue_follow (TarnTestingQueues *queues, gpointer queue, gpointer other);

/**
 * Runs one command or wait of a queue. It is the first, or on an out-of-order queue any that can
 * run, by chance.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return whether one ran; FALSE: none can
 * @since 0.1
 */
gboolean tarn_testing_queue_run_one (TarnTestingQueues *queues, gpointer queue);

/**
 * Runs what is on a queue until nothing can run there.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return how many commands and waits ran
 * @since 0.1
 */
guint tarn_testing_queue_run (TarnTestingQueues *queues, gpointer queue);

/**
 * Counts the commands and waits that are on a queue and not done.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue
 * @return how many
 * @since 0.1
 */
guint tarn_testing_queue_get_pending (TarnTestingQueues *queues, gpointer queue);

/**
 * Has memory be made ready by a command on a queue. The command writes it, as some drivers do.
 *
 * @param queues  the queues; any thread may call it
 * @param queue   a queue; NULL, as at the start: no command does
 * @since 0.1
 */
void tarn_testing_queues_set_fresh (TarnTestingQueues *queues, gpointer queue);

/**
 * Says that memory has another owner from here on. Whatever the owners before have put on queues
 * comes before each command on it, whether it reads or writes. A test says so where it hands
 * memory out again, and need not where it is enough that what reads and what writes do not meet.
 *
 * @param queues  the queues; any thread may call it
 * @param memory  memory of their allocator
 * @since 0.1
 */
void tarn_testing_queues_own (TarnTestingQueues *queues, TarnMemory memory);

/**
 * Uses memory from the host, now. It is a fault if commands may still use it that the host was
 * not told are done.
 *
 * @param queues  the queues; any thread may call it
 * @param memory  memory of their allocator
 * @since 0.1
 */
void tarn_testing_queues_touch (TarnTestingQueues *queues, TarnMemory memory);

/**
 * Runs one command or wait of any queue, by chance. It may be of one that is gone.
 *
 * @param queues  the queues; any thread may call it
 * @return whether one ran; FALSE: none can
 * @since 0.1
 */
gboolean tarn_testing_queues_run_one (TarnTestingQueues *queues);

/**
 * Runs all that is on the queues, in some order that is allowed. It ends the test if queues wait
 * for each other for ever.
 *
 * @param queues  the queues; any thread may call it, and no other puts commands there meanwhile
 * @since 0.1
 */
void tarn_testing_queues_run_all (TarnTestingQueues *queues);

/**
 * Counts the events that were recorded and not released.
 *
 * @param queues  the queues; any thread may call it
 * @return how many
 * @since 0.1
 */
guint tarn_testing_queues_get_events (TarnTestingQueues *queues);

/**
 * Counts the references on queues. queue_ref took them, and queue_unref did not release them.
 *
 * @param queues  the queues; any thread may call it
 * @return how many, of all queues
 * @since 0.1
 */
guint tarn_testing_queues_get_refs (TarnTestingQueues *queues);

/**
 * Counts the calls of one kind, those that failed included.
 *
 * @param queues  the queues; any thread may call it
 * @param call    the call
 * @return how many since the queues were made
 * @since 0.1
 */
guint tarn_testing_queues_get_calls (TarnTestingQueues *queues, TarnTestingCall call);

/**
 * Has calls of one kind fail with #TARN_ERROR_FAILED. It takes the place of what was asked for
 * before.
 *
 * @param queues    the queues; any thread may call it
 * @param call      the call, up to #TARN_TESTING_CALL_ANY
 * @param nth       the call from now on that fails, 1 being the next one; 0: none
 * @param for_ever  whether all that follow fail, too
 * @since 0.1
 */
void tarn_testing_queues_fail (TarnTestingQueues *queues, TarnTestingCall call, guint nth,
                               gboolean for_ever);

/**
 * Counts the calls that have failed because they were told to.
 *
 * @param queues  the queues; any thread may call it
 * @return how many since the last tarn_testing_queues_fail()
 * @since 0.1
 */
guint tarn_testing_queues_get_failed (TarnTestingQueues *queues);

/**
 * Sets what the next call of one kind calls. It is called once, before that does anything and
 * with no lock held: what other threads might do just then.
 *
 * @param queues     the queues; any thread may call it
 * @param call       the call, other than #TARN_TESTING_CALL_ANY
 * @param func       a function; NULL: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_queues_set_hook (TarnTestingQueues *queues, TarnTestingCall call,
                                   TarnTestingHook func, gpointer user_data);

/**
 * Takes the first fault of whoever used queues. It is forgotten then: a hazard, or another of
 * those that TarnTestingQueues lists.
 *
 * @param queues  the queues; any thread may call it
 * @return (transfer full) (nullable) which queue did what to which memory, for g_free (); NULL:
 *         nothing
 * @since 0.1
 */
gchar *tarn_testing_queues_steal_fault (TarnTestingQueues *queues) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Ends the test if there is a fault of the queues. A message names the queue, the memory and its
 * size: see TarnTestingQueues.
 *
 * @param queues  the queues; any thread may call it
 * @since 0.1
 */
void tarn_testing_assert_no_hazards (TarnTestingQueues *queues);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingQueues, tarn_testing_queues_free)

/**
 * A device that has what heaps need, as a table. It has virtual memory, or parts of what it
 * allocates; a budget of bytes, a ledger, and calls that fail on demand. Any thread may use it.
 *
 * These mistakes end the test: to map memory where something is mapped, or outside of reserved
 * addresses; to unmap a part of a mapping; to free memory while it is mapped or has parts, or
 * twice; to make parts that overlap.
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
  TARN_TESTING_PAGES_PARTS = 0,    /**< parts that are made and returned, as OpenCL's sub-buffers */
  TARN_TESTING_PAGES_VIRTUAL = 1,  /**< virtual memory, as CUDA's */
  TARN_TESTING_PAGES_ADDRESSES = 2 /**< parts that are mere addresses */
} TarnTestingPagesKind;

/**
 * Makes a device with virtual memory or parts of memory.
 *
 * @param bytes  its budget; G_MAXUINT64 never runs out
 * @param kind   the memory of which heaps make blocks
 * @return (transfer full) the device, for tarn_testing_pages_free(); any thread may use it
 * @since 0.1
 */
TarnTestingPages *tarn_testing_pages_new (guint64 bytes,
                                          TarnTestingPagesKind kind) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a device. It ends the test if anything is left: memory, parts, mappings, addresses, or an
 * allocator that is still referenced.
 *
 * @param pages  the device, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_pages_free (TarnTestingPages *pages);

/**
 * Makes an allocator of a device's memory, for a heap. There may be several.
 *
 * @param pages  the device, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *tarn_testing_pages_allocator_new (TarnTestingPages *pages) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Sets the budget of a device. It may be less than is in use.
 *
 * @param pages  the device; any thread may call it
 * @param bytes  all that may be in use at a time; G_MAXUINT64 never runs out
 * @since 0.1
 */
void tarn_testing_pages_set_budget (TarnTestingPages *pages, guint64 bytes);

/**
 * Sets the most addresses of one reservation. A larger one is out of memory.
 *
 * @param pages  the device; any thread may call it
 * @param size   bytes; G_MAXSIZE, as at the start: any
 * @since 0.1
 */
void tarn_testing_pages_set_max_addresses (TarnTestingPages *pages, gsize size);

/**
 * Sets what each call of the allocator calls first. No lock is held then.
 *
 * @param pages      the device; called before other threads use it
 * @param func       a function; NULL, as at the start: none
 * @param user_data  for the function
 * @since 0.1
 */
void tarn_testing_pages_set_hook (TarnTestingPages *pages, TarnTestingHook func,
                                  gpointer user_data);

/**
 * Has a call that can fail do so, with #TARN_ERROR_OUT_OF_MEMORY. It takes the place of what was
 * asked for before.
 *
 * @param pages     the device; any thread may call it
 * @param nth       the call from now on that fails, 1 being the next one; 0: none
 * @param for_ever  whether all that follow fail, too
 * @since 0.1
 */
void tarn_testing_pages_fail (TarnTestingPages *pages, guint nth, gboolean for_ever);

/**
 * Tells whether a call failed because it was told to. It counts since the last
 * tarn_testing_pages_fail().
 *
 * @param pages  the device; any thread may call it
 * @return whether one has
 * @since 0.1
 */
gboolean tarn_testing_pages_has_failed (TarnTestingPages *pages);

/**
 * Has a device refuse to map a backing at a second address. From now on such calls fail with
 * #TARN_ERROR_NOT_SUPPORTED, although its allocators say that they can do so
 * (TarnAllocatorOps.backing_aliases).
 *
 * @param pages  the device; any thread may call it
 * @since 0.1
 */
void tarn_testing_pages_refuse_aliases (TarnTestingPages *pages);

/**
 * Tells whether somebody may use memory. Then all of it is mapped, or it is a part of that size
 * at least.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param size    bytes
 * @return whether it is
 * @since 0.1
 */
gboolean tarn_testing_pages_is_usable (TarnTestingPages *pages, TarnMemory memory, gsize size);

/**
 * Gets a number for one byte of memory, wherever it is. No other byte ever has it. It ends the
 * test if nobody may use that byte.
 *
 * @param pages   the device; any thread may call it
 * @param memory  memory of a block, from a heap over the device
 * @param offset  a byte of it
 * @return the number
 * @since 0.1
 */
guint64 tarn_testing_pages_locate (TarnTestingPages *pages, TarnMemory memory, gsize offset);

/**
 * Gets the number of one byte of a piece of memory. Blocks are parts of it. It ends the test if
 * there is no such piece.
 *
 * @param pages   the device; any thread may call it
 * @param piece   memory of the device's own allocator
 * @param offset  a byte of it
 * @return the number that tarn_testing_pages_locate() gets for it in a part
 * @since 0.1
 */
guint64 tarn_testing_pages_locate_in_piece (TarnTestingPages *pages, TarnMemory piece,
                                            gsize offset);

/**
 * Gets the bytes that are allocated and not freed. They may be mapped or not.
 *
 * @param pages  the device; any thread may call it
 * @return bytes
 * @since 0.1
 */
guint64 tarn_testing_pages_get_used_bytes (TarnTestingPages *pages);

/**
 * Counts the calls of functions that can fail, those that did included.
 *
 * @param pages  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint tarn_testing_pages_get_calls (TarnTestingPages *pages);

/**
 * Counts the reservations of addresses that were not freed.
 *
 * @param pages  the device; any thread may call it
 * @return how many
 * @since 0.1
 */
guint tarn_testing_pages_get_reserved (TarnTestingPages *pages);

/**
 * Counts the pieces of memory that were ever allocated.
 *
 * @param pages  the device; any thread may call it
 * @return how many since the device was made
 * @since 0.1
 */
guint tarn_testing_pages_get_allocations (TarnTestingPages *pages);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingPages, tarn_testing_pages_free)

/**
 * A TarnTestingQueues over a TarnTestingPages: an allocator for heaps, with queues. It knows what
 * commands use granule for granule, whatever blocks the memory was split into. It is a fault of the
 * queues if memory is unmapped or returned before the host was told that no command uses it. Any
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

/**
 * Makes queues over a device with virtual memory or parts of memory.
 *
 * @param bytes  the budget, as tarn_testing_pages_new() has it
 * @param kind   the memory of which heaps make blocks
 * @param flags  as tarn_testing_queues_new() has them; with virtual memory not
 * #TARN_TESTING_QUEUES_FREES_IN_ORDER
 * @return (transfer full) both together, for tarn_testing_order_free(); any thread may use them
 * @since 0.1
 */
TarnTestingOrder *tarn_testing_order_new (guint64 bytes, TarnTestingPagesKind kind,
                                          guint flags) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees both, as tarn_testing_pages_free() and tarn_testing_queues_free() do.
 *
 * @param order  both, which no other thread uses any more; NULL is allowed
 * @since 0.1
 */
void tarn_testing_order_free (TarnTestingOrder *order);

/**
 * Makes an allocator for heaps: virtual memory or parts, and queues. A heap over it needs
 * #TARN_TESTING_ORDER_GRANULE for its alignment.
 *
 * @param order  both, which must outlive the allocator; any thread may call it
 * @return (transfer full) the allocator, for tarn_allocator_unref()
 * @since 0.1
 */
TarnAllocator *tarn_testing_order_allocator_new (TarnTestingOrder *order) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the device.
 *
 * @param order  both; any thread may call it
 * @return (transfer none) the device
 * @since 0.1
 */
TarnTestingPages *tarn_testing_order_get_pages (TarnTestingOrder *order);

/**
 * Gets the queues, to make some, run them, and take their faults.
 *
 * @param order  both; any thread may call it
 * @return (transfer none) the queues
 * @since 0.1
 */
TarnTestingQueues *tarn_testing_order_get_queues (TarnTestingOrder *order);

/**
 * Says that memory has another owner from here on. It is tarn_testing_queues_own() for all of it.
 *
 * @param order   both; any thread may call it
 * @param memory  memory of a block, from a heap over the allocator
 * @param size    its bytes
 * @since 0.1
 */
void tarn_testing_order_own (TarnTestingOrder *order, TarnMemory memory, gsize size);

/**
 * Puts a command on a queue that uses all of some memory. It is as tarn_testing_queue_put().
 *
 * @param order    both; any thread may call it
 * @param queue    a queue
 * @param memory   memory of a block, from a heap over the allocator
 * @param size     its bytes
 * @param command  its effect
 * @param value    the value that it writes, or must find; unused by other commands
 * @since 0.1
 */
void tarn_testing_order_put (TarnTestingOrder *order, gpointer queue, TarnMemory memory, gsize size,
                             TarnTestingCommand command, guint value);

/**
 * Uses memory from the host, now, as tarn_testing_queues_touch() does.
 *
 * @param order   both; any thread may call it
 * @param memory  memory of a block, from a heap over the allocator
 * @param size    its bytes
 * @since 0.1
 */
void tarn_testing_order_touch (TarnTestingOrder *order, TarnMemory memory, gsize size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnTestingOrder, tarn_testing_order_free)

G_END_DECLS

#endif
