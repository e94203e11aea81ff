/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The format of recordings: files that tarn_trace_start () writes, and that tarn-trace, tarn-view
 * and tarn-bench read. doc/guide/trace-format.md describes it. */

#ifndef TARN_TRACE_FORMAT_PRIVATE_H
#define TARN_TRACE_FORMAT_PRIVATE_H

#include <glib.h>

/* All numbers of fixed size are little-endian. */

#define TARN_TRACE_MAGIC "TARNTRC1"
#define TARN_TRACE_PACKET_MAGIC 0x544b5054U /* "TPKT" */

typedef struct
{
  gchar magic[8];
  guint32 header_size; /* bytes of this header */
  guint32 pid;
  guint64 real_time; /* time when the recording began: nanoseconds since 1970 began */
  guint64 start;     /* the same time, by the clock of events */
  guint64 reserved[4];
} TarnTraceHeader;

G_STATIC_ASSERT (sizeof (TarnTraceHeader) == 64);

/* A flag: the packet is the first one of its stream, so a reader knows nothing of the stream
 * yet. */
#define TARN_TRACE_FIRST 1U

typedef struct
{
  guint32 magic;
  guint32 size; /* bytes of the events that follow */
  guint32 stream;
  guint32 flags;
  guint64 time; /* only in a stream's first packet: the time to which its first event's time is
                   relative, in nanoseconds since the recording began */
  guint64 reserved;
} TarnTracePacket;

G_STATIC_ASSERT (sizeof (TarnTracePacket) == 32);

/* The kinds of events.  An event consists of a byte with its kind, the time since the previous
 * event of its stream, and the arguments that its comment lists here.  Numbers are in LEB128; a
 * text is its length in bytes, and then the bytes. "~" before an argument: the number is stored as
 * its difference from the latest such number in the stream, which is initially 0.  The difference
 * is modulo 2^64, and its sign is moved into the lowest bit (zigzag). */
typedef enum
{
  /* Definitions of the numbers that other events use.  They hold for the whole file. */
  TARN_TRACE_STRING = 1, /* string, text */
  TARN_TRACE_FRAME,      /* address; text: module; offset in the module; text: symbol; offset
                            from the symbol */
  TARN_TRACE_STACK,      /* stack, n, n addresses, the innermost first */

  /* The context of all later events in the stream */
  TARN_TRACE_THREAD,    /* the system's thread number; text: name */
  TARN_TRACE_USE,       /* object: the current object of the later events */
  TARN_TRACE_QUEUE,     /* ~queue that later requests are for; 0: none */
  TARN_TRACE_TAG,       /* string: the tag of later requests; 0: none */
  TARN_TRACE_SET_STACK, /* stack of the next request */

  /* Allocators, pools and heaps */
  TARN_TRACE_OBJECT, /* object, class, upstream object, text: kind, text: name, n, n properties:
                        TarnTraceProperty and number */
  TARN_TRACE_END,    /* object */
  TARN_TRACE_STATS,  /* n, n counters of the current object: TarnTraceProperty and number */

  /* Blocks of the current object */
  TARN_TRACE_BLOCK, /* ~block, size, alloc_size, ~address, 1 if in use: a block that existed when
                       the recording began */
  TARN_TRACE_HIT,   /* ~block, size */
  TARN_TRACE_MISS,  /* ~block, size, alloc_size, ~address */
  TARN_TRACE_LENT,  /* ~block, size, alloc_size, ~address: a hit of a thread-local arena */
  TARN_TRACE_FAIL,  /* size, code of TarnError plus 1 */
  TARN_TRACE_FREE,  /* ~block */
  TARN_TRACE_GONE,  /* ~block: its memory is returned upstream */

  /* Calls of the upstream allocator of the current object */
  TARN_TRACE_ALLOCATED, /* size, ~address, code of TarnError plus 1 (0: no error), duration */
  TARN_TRACE_FREED,     /* size, ~address, duration */

  /* The order of queues */
  TARN_TRACE_MARK,       /* queue, duration: an event was recorded */
  TARN_TRACE_WAIT,       /* queue (0: the host), duration */
  TARN_TRACE_RECORD_USE, /* ~block, queue */
  TARN_TRACE_MOVE,       /* ~block, queue */
  TARN_TRACE_FORGET,     /* queue */

  /* Actions of a pool, because the program asks for them or memory is short */
  TARN_TRACE_TRIM,          /* bytes to keep, 1 if the pool is to stop caching */
  TARN_TRACE_LIMIT,         /* bytes */
  TARN_TRACE_RECLAIM,       /* bytes wanted, 1 if memory was freed, duration */
  TARN_TRACE_OUT_OF_MEMORY, /* bytes wanted, bytes in use, bytes cached */

  /* Memory of the current object, a heap.  A piece is a segment that the heap got upstream.  An
   * extent is the range of addresses that a request got; it may span several pieces. */
  TARN_TRACE_PIECE,       /* ~address, size, queue (0: none) */
  TARN_TRACE_PIECE_GONE,  /* ~address, size */
  TARN_TRACE_PIECE_MOVED, /* ~address, size, new ~address, queue */
  TARN_TRACE_EXTENT,      /* ~address, size */
  TARN_TRACE_EXTENT_FREE, /* ~address, size */
  TARN_TRACE_PART,        /* ~address of an extent, ~address that the program sees, if another */

  /* The recorder */
  TARN_TRACE_LOST, /* number of events of this stream before this one that found no room */
  TARN_TRACE_STOP, /* no arguments: the recording was stopped properly, so its end is complete */

  /* More definitions that hold for the whole file */
  TARN_TRACE_MODULE, /* load address; text: path; text: build-id */

  TARN_TRACE_N_KINDS
} TarnTraceKind;

typedef enum
{
  TARN_TRACE_DIRECT = 1,
  TARN_TRACE_HEAP,
  TARN_TRACE_POOL
} TarnTraceClass;

/* The numbers of properties in OBJECT events and counters in STATS events.  Readers skip unknown
 * ones. */
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
  TARN_TRACE_IS_VIRTUAL, /* 1: the heap's pieces are virtual memory */
  TARN_TRACE_GRANULARITY,
  TARN_TRACE_FOLLOWS_LIMIT,  /* 1: the heap obeys the limit of a pool above it, too */
  TARN_TRACE_HAS_QUEUES,     /* 1: requests may name a queue */
  TARN_TRACE_IDLE_SECONDS,   /* seconds for which a heap keeps unused pieces */
  TARN_TRACE_PART_ALIGNMENT, /* bytes; 0: the backend makes no sub-buffers */
  TARN_TRACE_RELEASES_PARTS, /* 1: sub-buffers have to be released */
  TARN_TRACE_FREES_IN_ORDER, /* 1: a pool may return memory that queues still use */
  TARN_TRACE_RECORDS_ALL,    /* 1: the program may destroy a queue that a pool still knows, so an
                                event covers all queues unless the call names its queue */

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
