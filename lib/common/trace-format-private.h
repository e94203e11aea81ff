/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The format of recordings: files that tarn_trace_start () writes, and that tarn-trace, tarn-view
 * and tarn-bench read.  doc/guide/trace-format.md describes it. */

#ifndef TARN_TRACE_FORMAT_PRIVATE_H
#define TARN_TRACE_FORMAT_PRIVATE_H

#include <glib.h>

/* All numbers of fixed size in a recording are little-endian. */

#define TARN_TRACE_MAGIC "TARNTRC1"
#define TARN_TRACE_PACKET_MAGIC 0x544b5054U /* the characters "TPKT" */

typedef struct
{
  gchar magic[8];
  guint32 header_size; /* the size of this header in bytes */
  guint32 pid;
  guint64 real_time; /* the time when the recording began: nanoseconds since 1970 began */
  guint64 start;     /* the time when the recording began, by the events' clock: nanoseconds */
  guint64 reserved[4];
} TarnTraceHeader;

G_STATIC_ASSERT (sizeof (TarnTraceHeader) == 64);

/* A flag of a packet (a TarnTracePacket, and the events of one stream that follow it).  A packet
 * with this flag does not continue the previous packet of its stream, so a reader resets the state
 * that it has stored for the stream. */
#define TARN_TRACE_FIRST 1U

typedef struct
{
  guint32 magic;
  guint32 size; /* the size in bytes of the events that follow the struct */
  guint32 stream;
  guint32 flags;
  /* In a packet with the flag TARN_TRACE_FIRST: the time from which the packet's first event counts
   * its own time, in nanoseconds since the recording began.  In other packets: 0. */
  guint64 time;
  guint64 reserved;
} TarnTracePacket;

G_STATIC_ASSERT (sizeof (TarnTracePacket) == 32);

/* The kinds of events.  An event consists of a byte with its kind, the time since the previous
 * event of its stream in nanoseconds, and its arguments.  The comment at each kind lists the
 * arguments.
 *
 * - Numbers are stored in LEB128.
 * - A text is stored as its length in bytes, and then the bytes.
 * - "~" marks a number (a block, an address or a queue) that is stored as its difference from the
 *   latest number of the same sort in the stream, or from 0 if there is none.  The difference is
 *   modulo 2^64, and its sign is moved into the lowest bit (zigzag). */
typedef enum
{
  /* Events that define which text, code address or call stack a number means in the whole file */

  TARN_TRACE_STRING = 1, /* a text; arguments: string (its number), text */
  /* A code address.  Arguments: address, module (a text), offset in the module, symbol (a text),
   * offset from the symbol. */
  TARN_TRACE_FRAME,
  /* A call stack.  Arguments: stack (its number), n, n addresses, the innermost first. */
  TARN_TRACE_STACK,

  /* Events that set the context of all later events in their stream */

  /* The thread whose events follow.  Arguments: its number in the system, its name (a text). */
  TARN_TRACE_THREAD,
  TARN_TRACE_USE,       /* argument: the object that later events are about (the current object) */
  TARN_TRACE_QUEUE,     /* argument: ~the queue that later requests name; 0 if none */
  TARN_TRACE_TAG,       /* argument: the string that is the tag of later requests; 0 if none */
  TARN_TRACE_SET_STACK, /* argument: the stack of the next request */

  /* Events about allocators, pools and heaps */

  /* An allocator.  Arguments: object, class (TarnTraceClass), upstream object, kind (a text), name
   * (a text), n, n pairs of a property (TarnTraceProperty) and its value. */
  TARN_TRACE_OBJECT,
  TARN_TRACE_END, /* an allocator was freed; argument: object */
  /* Counters of the current object.  Arguments: n, n pairs of a counter (TarnTraceProperty) and its
   * value. */
  TARN_TRACE_STATS,

  /* Events about blocks of the current object */

  /* A block that existed when the recording began.  Arguments: ~block, size, alloc_size, ~address,
   * 1 if the block is in use. */
  TARN_TRACE_BLOCK,
  TARN_TRACE_HIT,  /* a cached block served a request; arguments: ~block, size */
  TARN_TRACE_MISS, /* a new block served a request; arguments: ~block, size, alloc_size, ~address */
  /* Only in older recordings: a thread-local arena served a request.  Arguments: ~block, size,
   * alloc_size, ~address. */
  TARN_TRACE_LENT,
  TARN_TRACE_FAIL, /* a request failed; arguments: size, code of TarnError plus 1 */
  TARN_TRACE_FREE, /* a block was freed; argument: ~block */
  TARN_TRACE_GONE, /* a block's memory was returned upstream; argument: ~block */

  /* Events about calls that the current object made to its upstream allocator or to the driver */

  /* A call that allocates.  Arguments: size, ~address, code of TarnError plus 1 (0 if there was no
   * error), duration. */
  TARN_TRACE_ALLOCATED,
  TARN_TRACE_FREED, /* a call that frees; arguments: size, ~address, duration */

  /* Events about the order of queues: recorded events, waits, and blocks that queues use */
  TARN_TRACE_MARK,       /* an event was recorded; arguments: queue, duration */
  TARN_TRACE_WAIT,       /* a queue (0: the host) waits for an event; arguments: queue, duration */
  TARN_TRACE_RECORD_USE, /* a queue uses a block; arguments: ~block, queue */
  TARN_TRACE_MOVE,       /* a block moves to a queue (0: to none); arguments: ~block, queue */
  TARN_TRACE_FORGET,     /* a pool forgets a queue; argument: queue */

  /* Events about actions that a pool takes because the program asks for them, or because memory is
   * short */

  /* The pool frees unused memory.  Arguments: bytes to keep, 1 if the pool is to stop caching. */
  TARN_TRACE_TRIM,
  TARN_TRACE_LIMIT, /* the program sets the pool's limit; argument: the limit in bytes */
  /* Reclaim functions ran.  Arguments: bytes wanted, 1 if memory was freed, duration. */
  TARN_TRACE_RECLAIM,
  /* Memory has run out.  Arguments: bytes wanted, bytes in use, bytes cached. */
  TARN_TRACE_OUT_OF_MEMORY,

  /* Events about memory of the current object, which is a heap.  PIECE stands for a segment: memory
   * that the heap got upstream.  An extent is the range of addresses that a request got; it may
   * span several segments. */
  TARN_TRACE_PIECE, /* the heap got a segment; arguments: ~address, size, queue (0: none) */
  /* The heap removed an idle segment, to return or to move it.  Arguments: ~address, size. */
  TARN_TRACE_PIECE_GONE,
  TARN_TRACE_PIECE_MOVED, /* a segment moved; arguments: ~address, size, ~new address, queue */
  TARN_TRACE_EXTENT,      /* a request got an extent; arguments: ~address, size */
  TARN_TRACE_EXTENT_FREE, /* an extent was freed; arguments: ~address, size */
  /* Records the address or handle by which the program knows an extent, if it is not the extent's
   * own address.  Arguments: ~the extent's own address, ~the program's address or handle. */
  TARN_TRACE_PART,

  /* Events about the recording itself */
  TARN_TRACE_LOST, /* argument: the number of events of this stream that are missing before this
                      one */
  TARN_TRACE_STOP, /* the recording's end; no arguments.  A file without this event is cut off. */

  /* An event that defines a code module (the program or a library) for the whole file */
  TARN_TRACE_MODULE, /* arguments: load address, path (a text), build-id (a text) */

  /* A request of the current object, a pool, would exceed the limit of the pool, or of the heap
   * below it.  Arguments: bytes wanted, bytes in use, bytes cached.  Older recordings have
   * OUT_OF_MEMORY here, too. */
  TARN_TRACE_LIMIT_REACHED,

  /* The next request comes from another allocator, whose backend gets its memory from the current
   * object.  So both allocators count the same bytes.  No arguments. */
  TARN_TRACE_NESTED,

  TARN_TRACE_N_KINDS
} TarnTraceKind;

typedef enum
{
  TARN_TRACE_DIRECT = 1,
  TARN_TRACE_HEAP,
  TARN_TRACE_POOL
} TarnTraceClass;

/* The numbers that stand for properties in OBJECT events, and for counters in STATS events.  A
 * reader skips numbers that it does not know. */
typedef enum
{
  /* Options of pools and heaps */
  TARN_TRACE_LEADING_BITS = 1,
  TARN_TRACE_LIMIT_BYTES,
  TARN_TRACE_THREAD_CACHE_BLOCKS,
  TARN_TRACE_THREAD_CACHE_BYTES,
  TARN_TRACE_HOLD_BYTES,
  TARN_TRACE_GROWTH_BYTES,
  TARN_TRACE_ALIGNMENT,
  TARN_TRACE_IS_VIRTUAL, /* 1 if the heap's segments are virtual memory */
  TARN_TRACE_GRANULARITY,
  TARN_TRACE_FOLLOWS_LIMIT,  /* 1 if the limit of the pool over a heap also limits the heap */
  TARN_TRACE_HAS_QUEUES,     /* 1 if requests may name a queue */
  TARN_TRACE_IDLE_SECONDS,   /* seconds for which a heap keeps unused segments */
  TARN_TRACE_PART_ALIGNMENT, /* the alignment of sub-buffers in bytes; 0 if there are none */
  TARN_TRACE_RELEASES_PARTS, /* 1 if sub-buffers have to be released */
  /* 1 if the backend frees memory in the order of commands, so that the host need not wait before a
   * free. */
  TARN_TRACE_FREES_IN_ORDER,
  /* 0: an event that a pool records (TARN_TRACE_MARK) waits for the earlier commands of one queue.
   * 1: the event waits for the earlier commands of all queues, because the program may destroy a
   * queue that a pool still knows.  Even then, if the program names a queue in the call that
   * records the event, the event waits for that queue alone. */
  TARN_TRACE_RECORDS_ALL,

  /* Counters of pools (TarnPoolStats) and heaps (TarnHeapStats) */
  TARN_TRACE_HITS = 32,
  TARN_TRACE_MISSES,
  TARN_TRACE_FAILURES,
  TARN_TRACE_DRIVER_CALLS,
  TARN_TRACE_UPSTREAM_FAILURES,
  TARN_TRACE_HELD_BLOCKS,
  TARN_TRACE_ACTIVE_BLOCKS,
  TARN_TRACE_MANAGED_BYTES,
  TARN_TRACE_ACTIVE_BYTES,
  TARN_TRACE_HELD_BYTES,
  TARN_TRACE_PEAK_MANAGED_BYTES,
  TARN_TRACE_PEAK_ACTIVE_BYTES,
  TARN_TRACE_UPSTREAM_BYTES,
  TARN_TRACE_PEAK_UPSTREAM_BYTES,
  TARN_TRACE_USED_BYTES,
  TARN_TRACE_PEAK_USED_BYTES,
  TARN_TRACE_FREE_BYTES,
  TARN_TRACE_PIECES,
  TARN_TRACE_MOVES,
  TARN_TRACE_UPSTREAM_FREES
} TarnTraceProperty;

#endif
