/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The files that tarn_trace_start () writes, and tarn-trace, tarn-view and tarn-bench read:
 * doc/guide/trace-format.md describes them. */

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
  guint64 real_time; /* the time of the start: nanoseconds since 1970 began */
  guint64 start;     /* the same time by the clock of events */
  guint64 reserved[4];
} TarnTraceHeader;

G_STATIC_ASSERT (sizeof (TarnTraceHeader) == 64);

/* A flag: the packet is the first one of its stream, so that nothing is known yet. */
#define TARN_TRACE_FIRST 1U

typedef struct
{
  guint32 magic;
  guint32 size; /* bytes of the events that follow */
  guint32 stream;
  guint32 flags;
  guint64 time; /* in a first packet, of the event before it: nanoseconds since the start */
  guint64 reserved;
} TarnTracePacket;

G_STATIC_ASSERT (sizeof (TarnTracePacket) == 32);

/* The kinds of events.  An event is a byte with its kind, the time since the event before it in its
 * stream, and the arguments that are listed behind its name here.  All are numbers in LEB128,
 * except texts: a text is its length in bytes, and the bytes. ~ means a difference from the latest
 * number of that sort in the stream, which is 0 at first.  The difference is modulo 2^64, and its
 * sign is moved into the lowest bit. */
typedef enum
{
  /* Definitions of numbers; they hold for the whole file. */
  TARN_TRACE_STRING = 1, /* string, text */
  TARN_TRACE_FRAME,      /* address, module text, offset in it, symbol text, offset from it */
  TARN_TRACE_STACK,      /* stack, n, n addresses, the innermost first */

  /* The context of the events that follow in the stream */
  TARN_TRACE_THREAD,    /* the system's thread number, name text */
  TARN_TRACE_USE,       /* object: the current one, of the events that follow */
  TARN_TRACE_QUEUE,     /* ~queue of requests; 0: none */
  TARN_TRACE_TAG,       /* string that is the tag of requests; 0: none */
  TARN_TRACE_SET_STACK, /* stack of the next request */

  /* Allocators, pools and heaps */
  TARN_TRACE_OBJECT, /* object, class, upstream object, kind text, name text, n, n properties:
                        TarnTraceProperty and number */
  TARN_TRACE_END,    /* object */
  TARN_TRACE_STATS,  /* n, n counters: TarnTraceProperty and number; of the current object */

  /* Blocks of the current object */
  TARN_TRACE_BLOCK, /* ~block, size, alloc_size, ~address, is in use: a block that was there at the
                       start */
  TARN_TRACE_HIT,   /* ~block, size */
  TARN_TRACE_MISS,  /* ~block, size, alloc_size, ~address */
  TARN_TRACE_LENT,  /* ~block, size, alloc_size, ~address: a hit of a thread-local arena */
  TARN_TRACE_FAIL,  /* size, the code of TarnError plus 1 */
  TARN_TRACE_FREE,  /* ~block */
  TARN_TRACE_GONE,  /* ~block whose memory is returned to upstream */

  /* Calls of the upstream allocator of the current object */
  TARN_TRACE_ALLOCATED, /* size, ~address, the code of TarnError plus 1, or 0: no error; duration */
  TARN_TRACE_FREED,     /* size, ~address, duration */

  /* The order of queues */
  TARN_TRACE_MARK,       /* queue, duration: an event was recorded */
  TARN_TRACE_WAIT,       /* queue (0: the host), duration */
  TARN_TRACE_RECORD_USE, /* ~block, queue */
  TARN_TRACE_MOVE,       /* ~block, queue */
  TARN_TRACE_FORGET,     /* queue */

  /* Actions of a pool that a program asks for, or that too little memory causes */
  TARN_TRACE_TRIM,          /* bytes to keep, is to stop holding */
  TARN_TRACE_LIMIT,         /* bytes */
  TARN_TRACE_RECLAIM,       /* bytes wanted, was memory freed, duration */
  TARN_TRACE_OUT_OF_MEMORY, /* bytes wanted, active, held */

  /* Memory of the current object, a heap.  An extent is the memory of one request. */
  TARN_TRACE_PIECE,       /* ~address, size, queue (0: none) */
  TARN_TRACE_PIECE_GONE,  /* ~address, size */
  TARN_TRACE_PIECE_MOVED, /* ~address, size, new ~address, queue */
  TARN_TRACE_EXTENT,      /* ~address, size */
  TARN_TRACE_EXTENT_FREE, /* ~address, size */
  TARN_TRACE_PART,        /* ~address of an extent, and the different ~address that its user has */

  /* The recorder */
  TARN_TRACE_LOST, /* events of this stream before this one that were lost, because there was no
                      room */
  TARN_TRACE_STOP, /* no arguments: recording was ended, so that nothing is missing at the end */

  /* More of what holds for the whole file */
  TARN_TRACE_MODULE, /* load address, path text, text of the build-id */

  TARN_TRACE_N_KINDS
} TarnTraceKind;

typedef enum
{
  TARN_TRACE_DIRECT = 1,
  TARN_TRACE_HEAP,
  TARN_TRACE_POOL
} TarnTraceClass;

/* The numbers of an object's properties and of STATS.  Readers skip unknown ones. */
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
  TARN_TRACE_IS_VIRTUAL, /* 1: pieces are virtual memory */
  TARN_TRACE_GRANULARITY,
  TARN_TRACE_FOLLOWS_LIMIT,  /* 1: obeys a pool's limit as well */
  TARN_TRACE_HAS_QUEUES,     /* 1: requests may name a queue */
  TARN_TRACE_IDLE_SECONDS,   /* for which a heap keeps idle pieces */
  TARN_TRACE_PART_ALIGNMENT, /* 0: the backend makes no parts of memory */
  TARN_TRACE_RELEASES_PARTS, /* 1: parts have to be released */
  TARN_TRACE_FREES_IN_ORDER, /* 1: memory may be returned while queues still use it */
  TARN_TRACE_RECORDS_ALL,    /* 1: a queue may be gone, so events are recorded on all queues */

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
