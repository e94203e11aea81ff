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
  guint32 header_size; /* bytes of this */
  guint32 pid;
  guint64 real_time; /* the start's: nanoseconds since 1970 began */
  guint64 start;     /* the time then, by the clock of events */
  guint64 reserved[4];
} TarnTraceHeader;

G_STATIC_ASSERT (sizeof (TarnTraceHeader) == 64);

/* The packet is the first one of its stream: nothing is known yet. */
#define TARN_TRACE_FIRST 1U

typedef struct
{
  guint32 magic;
  guint32 size; /* bytes of the events behind it */
  guint32 stream;
  guint32 flags;
  guint64 time; /* in a first packet, the event's before it: nanoseconds since the start */
  guint64 reserved;
} TarnTracePacket;

G_STATIC_ASSERT (sizeof (TarnTracePacket) == 32);

/* An event is a byte with its kind, the time since the event before in its stream, and the
 * arguments that are listed behind its name here.  All are numbers in LEB128 except texts, which
 * are a length in bytes and the bytes.  ~ is a difference from the latest number of that sort in
 * the stream, at first 0: it is modulo 2^64, and its sign is moved into the lowest bit. */
typedef enum
{
  /* The meanings of numbers; they hold for the whole file. */
  TARN_TRACE_STRING = 1, /* string, text */
  TARN_TRACE_FRAME,      /* address, module text, offset in it, symbol text, offset from it */
  TARN_TRACE_STACK,      /* stack, n, n addresses, the innermost first */

  /* The context of the events that follow in the stream */
  TARN_TRACE_THREAD,    /* the system's number, name text */
  TARN_TRACE_USE,       /* object: that events are of */
  TARN_TRACE_QUEUE,     /* ~queue: of requests; 0: none */
  TARN_TRACE_TAG,       /* string: of requests; 0: none */
  TARN_TRACE_SET_STACK, /* stack: of the next request */

  /* Allocators, pools and heaps */
  TARN_TRACE_OBJECT, /* object, class, upstream object, kind text, name text, n, n properties:
                        TarnTraceProperty and number */
  TARN_TRACE_END,    /* object */
  TARN_TRACE_STATS,  /* n, n counters: TarnTraceProperty and number; of the object that is used */

  /* Blocks of the object that is used */
  TARN_TRACE_BLOCK, /* ~block, size, alloc_size, ~address, is in use: it was there at the start */
  TARN_TRACE_HIT,   /* ~block, size */
  TARN_TRACE_MISS,  /* ~block, size, alloc_size, ~address */
  TARN_TRACE_LENT,  /* ~block, size, alloc_size, ~address: a hit of a thread's scratch */
  TARN_TRACE_FAIL,  /* size, the code of TarnError and one more */
  TARN_TRACE_FREE,  /* ~block */
  TARN_TRACE_GONE,  /* ~block: its memory goes back to upstream */

  /* Calls of what the object that is used is over */
  TARN_TRACE_ALLOCATED, /* size, ~address, the code of TarnError and one more, or 0: none; duration
                         */
  TARN_TRACE_FREED,     /* size, ~address, duration */

  /* The order of queues */
  TARN_TRACE_MARK,       /* queue, duration: an event was recorded */
  TARN_TRACE_WAIT,       /* queue (0: the host), duration */
  TARN_TRACE_RECORD_USE, /* ~block, queue */
  TARN_TRACE_MOVE,       /* ~block, queue */
  TARN_TRACE_FORGET,     /* queue */

  /* Actions of a pool that a program asks for, or too little memory causes */
  TARN_TRACE_TRIM,          /* bytes to keep, is to stop holding */
  TARN_TRACE_LIMIT,         /* bytes */
  TARN_TRACE_RECLAIM,       /* bytes wanted, is something given, duration */
  TARN_TRACE_OUT_OF_MEMORY, /* bytes wanted, active, held */

  /* Memory of the heap that is used.  An extent is what a request of it has. */
  TARN_TRACE_PIECE,       /* ~address, size, queue (0: nobody's) */
  TARN_TRACE_PIECE_GONE,  /* ~address, size */
  TARN_TRACE_PIECE_MOVED, /* ~address, size, new ~address, queue */
  TARN_TRACE_EXTENT,      /* ~address, size */
  TARN_TRACE_EXTENT_FREE, /* ~address, size */
  TARN_TRACE_PART,        /* ~address of an extent, ~address that its user has, another one */

  /* The recorder */
  TARN_TRACE_LOST, /* events of this stream that there was no room for, before this one */
  TARN_TRACE_STOP, /* nothing: recording was ended, so that nothing is missing at the end */

  TARN_TRACE_N_KINDS
} TarnTraceKind;

typedef enum
{
  TARN_TRACE_DIRECT = 1,
  TARN_TRACE_HEAP,
  TARN_TRACE_POOL
} TarnTraceClass;

/* The numbers of an object's properties and of STATS.  Readers skip others than these. */
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
  TARN_TRACE_FOLLOWS_LIMIT,  /* 1: has a pool's limit as well */
  TARN_TRACE_HAS_QUEUES,     /* 1: blocks may be asked for with a queue */
  TARN_TRACE_IDLE_SECONDS,   /* that a heap keeps idle pieces for */
  TARN_TRACE_PART_ALIGNMENT, /* 0: the backend makes no parts of memory */
  TARN_TRACE_RELEASES_PARTS, /* 1: parts have to be released */
  TARN_TRACE_FREES_IN_ORDER, /* 1: memory may be given back while queues still use it */
  TARN_TRACE_RECORDS_ALL,    /* 1: a queue may be gone, so that events are of all queues */

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
