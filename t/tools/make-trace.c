/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes a recorded trace of which everything is known: make-trace known FILE, which tarn-view.t
 * checks pages against; make-trace lossy FILE, which has lost events and no end; make-trace empty
 * FILE and make-trace odd FILE; make-trace damaged FILE, with events that no program has;
 * make-trace huge FILE, a request that no device can serve; make-trace nested FILE, a pool below
 * another one's backend; make-trace handed FILE, a thread that frees the blocks of another one;
 * make-trace pools FILE, a program that makes and ends many pools; make-trace N FILE, a program
 * that trains a network, in about N events. */

#include <stdlib.h>

#include "lib/trace-writer.h"

#define KIB ((guint64) 1 << 10)
#define MIB ((guint64) 1 << 20)
#define MS ((guint64) 1000000) /* nanoseconds */

enum
{
  DRIVER = 1,
  HEAP,
  WEIGHTS, /* pools */
  SCRATCH
};

#define TAG_WEIGHTS 1
#define TAG_ACTIVATIONS 2
#define TAG_HOSTILE 3

#define STACK_LOAD 1
#define STACK_FORWARD 2

#define QUEUE G_GUINT64_CONSTANT (0xbeef)

#define FIRST_PIECE G_GUINT64_CONSTANT (0x7f0000000000)
#define SECOND_PIECE G_GUINT64_CONSTANT (0x7f0010000000)

/* A stream's state, beside what the writer knows. */
typedef struct
{
  guint64 time, object, tag, queue;
  gboolean is_known; /* it has a packet */
} Stream;

typedef struct
{
  TraceWriter *writer;
  Stream streams[3]; /* from 1 on */
  guint stream;
  guint64 n_events;
} Trace;

/* Goes on in a stream, with a new packet. */
static void
go_on (Trace *trace, guint stream)
{
  Stream *self = &trace->streams[stream];

  trace->stream = stream;
  trace_writer_packet (trace->writer, stream, self->is_known ? 0 : TARN_TRACE_FIRST, self->time);
  self->is_known = TRUE;
}

static Stream *
get_stream (Trace *trace)
{
  return &trace->streams[trace->stream];
}

/* The time since the event before; packets do not get too large. */
static guint64
pass_time (Trace *trace, guint64 time)
{
  Stream *stream = get_stream (trace);
  guint64 delay = time - stream->time;

  g_assert (time >= stream->time);
  if (++trace->n_events % 10000 == 0)
    go_on (trace, trace->stream);
  stream->time = time;
  return delay;
}

#define put(trace, time, kind, ...)                                                                \
  trace_writer_add ((trace)->writer, kind, pass_time (trace, time), __VA_ARGS__)

static void
use (Trace *trace, guint64 object)
{
  Stream *stream = get_stream (trace);

  if (stream->object != object)
    put (trace, stream->time, TARN_TRACE_USE, object);
  stream->object = object;
}

#define put_of(trace, time, object, kind, ...)                                                     \
  (use (trace, object), put (trace, time, kind, __VA_ARGS__))

static void
set (Trace *trace, guint64 tag, guint64 queue)
{
  Stream *stream = get_stream (trace);

  if (stream->tag != tag)
    put (trace, stream->time, TARN_TRACE_TAG, tag);
  if (stream->queue != queue)
    put (trace, stream->time, TARN_TRACE_QUEUE, queue);
  stream->tag = tag;
  stream->queue = queue;
}

/* What stands for what, and the objects, in the first stream. */
static void
put_start (Trace *trace)
{
  TraceWriter *writer = trace->writer;

  go_on (trace, 1);
  trace_writer_add_string (writer, TAG_WEIGHTS, "weights");
  trace_writer_add_string (writer, TAG_ACTIVATIONS, "activations");
  trace_writer_add_string (writer, TAG_HOSTILE, "</script><img src=x onerror=alert(1)>");
  trace_writer_add_frame (writer, 0x400000, "/usr/lib/libtarn.so.0", 0x1000, "tarn_pool_allocate",
                          16);
  trace_writer_add_frame (writer, 0x400001, "/opt/app/train", 0x2000, "_ZN3app12load_weightsEv",
                          32);
  trace_writer_add_frame (writer, 0x400002, "/opt/app/train", 0x3000, "forward<float>", 48);
  trace_writer_add_stack (writer, STACK_LOAD, 0x400000, 0x400001);
  trace_writer_add_stack (writer, STACK_FORWARD, 0x400000, 0x400002);
  trace_writer_add_thread (writer, 1001, "main");
  trace_writer_add_object (writer, DRIVER, TARN_TRACE_DIRECT, 0, "cuda", "", TARN_TRACE_ALIGNMENT,
                           1);
  trace_writer_add_object (writer, HEAP, TARN_TRACE_HEAP, DRIVER, "heap", "device",
                           TARN_TRACE_IS_VIRTUAL, 0);
  trace_writer_add_object (writer, WEIGHTS, TARN_TRACE_POOL, HEAP, "pool", "weights & co",
                           TARN_TRACE_LIMIT_BYTES, 512 * MIB);
  trace_writer_add_object (writer, SCRATCH, TARN_TRACE_POOL, HEAP, "pool", "scratch",
                           TARN_TRACE_LIMIT_BYTES, 512 * MIB);
}

/* A request that upstream serves, of the heap's memory; it asks for 1 KiB less than it gets. */
static void
put_miss (Trace *trace, guint64 time, guint64 pool, guint64 stack, guint64 block, guint64 size,
          guint64 address)
{
  put_of (trace, time, HEAP, TARN_TRACE_EXTENT, address, size);
  put (trace, time, TARN_TRACE_SET_STACK, stack);
  put_of (trace, time, pool, TARN_TRACE_MISS, block, size - KIB, size, address);
}

/* Three weights of 16 MiB, from 4 ms on. */
static void
put_weights (Trace *trace)
{
  put_of (trace, 3 * MS, HEAP, TARN_TRACE_ALLOCATED, 64 * MIB, FIRST_PIECE, 0, 2 * MS);
  put (trace, 3 * MS, TARN_TRACE_PIECE, FIRST_PIECE, 64 * MIB, 0);
  set (trace, TAG_WEIGHTS, 0);
  for (guint i = 0; i < 3; i++)
    put_miss (trace, (4 + i) * MS, WEIGHTS, STACK_LOAD, 0x1000 + i * 64, 16 * MIB,
              FIRST_PIECE + i * 16 * MIB);
}

/* Four activations of 8 MiB each, from 10 ms on and again from 50 ms on; all but the last one are
 * freed.  The first and the third go back: two holes, beside what is free of the first piece. */
static void
put_activations (Trace *trace)
{
  trace_writer_add_thread (trace->writer, 1002, "worker");
  put_of (trace, 9 * MS, HEAP, TARN_TRACE_ALLOCATED, 32 * MIB, SECOND_PIECE, 0, 1 * MS);
  put (trace, 9 * MS, TARN_TRACE_PIECE, SECOND_PIECE, 32 * MIB, 0);
  set (trace, TAG_ACTIVATIONS, QUEUE);
  for (guint i = 0; i < 4; i++)
    put_miss (trace, (10 + i) * MS, SCRATCH, STACK_FORWARD, 0x8000 + i * 64, 8 * MIB,
              SECOND_PIECE + i * 8 * MIB);
  for (guint i = 0; i < 4; i++)
    put_of (trace, (20 + i) * MS, SCRATCH, TARN_TRACE_FREE, 0x8000 + i * 64);
  put (trace, 25 * MS, TARN_TRACE_MARK, QUEUE, 10000);
  put (trace, 27 * MS, TARN_TRACE_WAIT, QUEUE, 1 * MS);
  put (trace, 30 * MS, TARN_TRACE_WAIT, QUEUE, 2 * MS);
  put (trace, 40 * MS, TARN_TRACE_WAIT, 0, 5 * MS);
  put (trace, 41 * MS, TARN_TRACE_MARK, QUEUE, 20000);
  for (guint i = 0; i < 4; i++)
    {
      put (trace, (50 + i) * MS, TARN_TRACE_SET_STACK, STACK_FORWARD);
      put (trace, (50 + i) * MS, TARN_TRACE_HIT, 0x8000 + i * 64, 8 * MIB - KIB);
    }
  for (guint i = 0; i < 3; i++)
    put (trace, (60 + i) * MS, TARN_TRACE_FREE, 0x8000 + i * 64);
  for (guint i = 0; i < 3; i += 2)
    {
      put_of (trace, (65 + i) * MS, SCRATCH, TARN_TRACE_GONE, 0x8000 + i * 64);
      put_of (trace, (65 + i) * MS, HEAP, TARN_TRACE_EXTENT_FREE, SECOND_PIECE + i * 8 * MIB,
              8 * MIB);
    }
}

/* One request fails; the second activation and the first and third weight are never freed.  At the
 * peak, from 13 ms on, 7 blocks have 80 MiB - 7 KiB; at the end 4 have 48 MiB - 4 KiB. */
static void
put_known (Trace *trace)
{
  put_start (trace);
  put_weights (trace);
  go_on (trace, 2);
  put_activations (trace);
  put_of (trace, 70 * MS, HEAP, TARN_TRACE_ALLOCATED, 256 * MIB, 0, 1, 4 * MS);
  put_of (trace, 71 * MS, SCRATCH, TARN_TRACE_OUT_OF_MEMORY, 256 * MIB, 8 * MIB - KIB, 8 * MIB);
  put (trace, 71 * MS, TARN_TRACE_FAIL, 256 * MIB, 1);
  go_on (trace, 1);
  set (trace, TAG_HOSTILE, 0);
  put_of (trace, 80 * MS, SCRATCH, TARN_TRACE_HIT, 0x8040, 8 * MIB - KIB);
  put_of (trace, 90 * MS, WEIGHTS, TARN_TRACE_FREE, 0x1040);
  put (trace, 100 * MS, TARN_TRACE_STOP, 0);
}

/* Of a block that is freed nobody knows; another one is asked for twice. */
static void
put_lossy (Trace *trace)
{
  put_start (trace);
  put_weights (trace);
  put_of (trace, 20 * MS, WEIGHTS, TARN_TRACE_FREE, 0x9000);
  put (trace, 21 * MS, TARN_TRACE_LOST, 12345);
  put (trace, 22 * MS, TARN_TRACE_HIT, 0x1000, MIB);
  put (trace, 23 * MS, TARN_TRACE_HIT, 0x9040, 2 * MIB);
  put (trace, 24 * MS, TARN_TRACE_GONE, 0x1040);
}

/* Nothing but an end. */
static void
put_empty (Trace *trace)
{
  go_on (trace, 1);
  put (trace, 5, TARN_TRACE_STOP, 0);
}

/* A pool lends out what a block has that it holds, of which nothing more is managed. */
static void
put_lent (Trace *trace)
{
  trace_writer_add_object (trace->writer, SCRATCH, TARN_TRACE_POOL, HEAP, "pool", "lender",
                           TARN_TRACE_HOLD_BYTES, 0);
  put_of (trace, 140, SCRATCH, TARN_TRACE_MISS, 0x8000, 64 * KIB, 64 * KIB, SECOND_PIECE);
  put (trace, 141, TARN_TRACE_FREE, 0x8000);
  put (trace, 142, TARN_TRACE_LENT, 0x8040, 15 * KIB, 16 * KIB, SECOND_PIECE);
  put (trace, 143, TARN_TRACE_LENT, 0x8080, 15 * KIB, 16 * KIB, SECOND_PIECE + 16 * KIB);
  put (trace, 144, TARN_TRACE_FREE, 0x8080);
  put (trace, 145, TARN_TRACE_LENT, 0x8080, 8 * KIB, 8 * KIB, SECOND_PIECE + 16 * KIB);
  put (trace, 146, TARN_TRACE_FREE, 0x8080);
}

/* A heap with blocks of its own; a piece that moves, as heaps say it; and numbers that no memory
 * has. */
static void
put_odd (Trace *trace)
{
  go_on (trace, 1);
  trace_writer_add_object (trace->writer, HEAP, TARN_TRACE_HEAP, DRIVER, "heap", "",
                           TARN_TRACE_GROWTH_BYTES, G_MAXUINT64);
  put_of (trace, 10, HEAP, TARN_TRACE_PIECE, FIRST_PIECE, 64 * MIB, 0);
  for (guint i = 0; i < 100; i++)
    put (trace, 20 + i, TARN_TRACE_EXTENT, FIRST_PIECE + i * 3 * KIB, 2 * KIB);
  for (guint i = 0; i < 4; i++)
    put (trace, 130, TARN_TRACE_MISS, 0x1000 + i * 64, KIB, 2 * KIB, FIRST_PIECE + i * 3 * KIB);
  put (trace, 131, TARN_TRACE_FREE, 0x1000);
  put_lent (trace);
  put_of (trace, 190, HEAP, TARN_TRACE_PIECE, SECOND_PIECE, MIB, 0);
  put (trace, 191, TARN_TRACE_PIECE_GONE, SECOND_PIECE, MIB);
  put (trace, 192, TARN_TRACE_PIECE_MOVED, SECOND_PIECE, MIB, SECOND_PIECE + MIB, 0);
  put (trace, 193, TARN_TRACE_PIECE, SECOND_PIECE + MIB, MIB, 0);
  put (trace, 200, TARN_TRACE_PIECE, SECOND_PIECE, G_MAXUINT64, 0);
  put (trace, 201, TARN_TRACE_EXTENT, G_MAXUINT64, G_MAXUINT64);
  put (trace, 202, TARN_TRACE_PIECE_MOVED, SECOND_PIECE, G_MAXUINT64, 0, 7);
  put (trace, 203, TARN_TRACE_WAIT, G_MAXUINT64, G_MAXUINT64);
  put (trace, 204, TARN_TRACE_ALLOCATED, G_MAXUINT64, 0, 99, 1);
  put (trace, G_MAXINT64, TARN_TRACE_EXTENT_FREE, FIRST_PIECE, 2 * KIB);
}

/* The heap has calls to the driver, which fail at one time and succeed at another; it ends before a
 * pool over it is made; and the driver has blocks in use with more bytes than can be counted. */
static void
put_damaged (Trace *trace)
{
  put_start (trace);
  put_of (trace, 10, HEAP, TARN_TRACE_ALLOCATED, MIB, FIRST_PIECE, 1, 1);
  put (trace, 11, TARN_TRACE_ALLOCATED, 2 * MIB, FIRST_PIECE, 0, 1);
  put (trace, 12, TARN_TRACE_ALLOCATED, MIB, FIRST_PIECE, 1, 1);
  put_of (trace, 13, WEIGHTS, TARN_TRACE_MISS, 0x1000, KIB, KIB, FIRST_PIECE);
  put (trace, 14, TARN_TRACE_END, HEAP);
  trace_writer_add_object (trace->writer, SCRATCH + 1, TARN_TRACE_POOL, HEAP, "pool", "late",
                           TARN_TRACE_LIMIT_BYTES, 0);
  put_of (trace, 20, SCRATCH + 1, TARN_TRACE_MISS, 0x2000, KIB, KIB, FIRST_PIECE);
  for (guint i = 0; i < 4; i++)
    put_of (trace, 30 + i, DRIVER, TARN_TRACE_MISS, 0x3000 + i * 64, (guint64) 1 << 62,
            (guint64) 1 << 62, SECOND_PIECE);
  for (guint i = 0; i < 4; i++)
    put (trace, 40 + i, TARN_TRACE_FREE, 0x3000 + i * 64);
  put (trace, 50, TARN_TRACE_STOP, 0);
}

/* A request of 2^59 bytes is served by a heap that maps memory in pieces of at most 32 MiB.  Times
 * are as late as they can be. */
static void
put_huge (Trace *trace)
{
  const guint64 huge = (guint64) 1 << 59;

  go_on (trace, 1);
  trace_writer_add_object (trace->writer, DRIVER, TARN_TRACE_DIRECT, 0, "cuda", "",
                           TARN_TRACE_GRANULARITY, 2 * MIB);
  trace_writer_add_object (trace->writer, HEAP, TARN_TRACE_HEAP, DRIVER, "heap", "",
                           TARN_TRACE_IS_VIRTUAL, 1);
  trace_writer_add_object (trace->writer, WEIGHTS, TARN_TRACE_POOL, HEAP, "pool", "weights",
                           TARN_TRACE_LIMIT_BYTES, 0);
  put_of (trace, 10, HEAP, TARN_TRACE_PIECE, FIRST_PIECE, huge, 0);
  put_miss (trace, 11, WEIGHTS, STACK_LOAD, 0x1000, huge, FIRST_PIECE);
  put_miss (trace, 12, WEIGHTS, STACK_LOAD, 0x1040, MIB, FIRST_PIECE + huge);
  put (trace, G_MAXINT64 - 2, TARN_TRACE_FREE, 0x1000);
  put (trace, G_MAXINT64 - 1, TARN_TRACE_FREE, 0x1040);
  put (trace, G_MAXINT64, TARN_TRACE_STOP, 0);
}

/* The backend of a pool gets its memory from another pool. */
static void
put_nested (Trace *trace)
{
  go_on (trace, 1);
  trace_writer_add_object (trace->writer, SCRATCH, TARN_TRACE_POOL, 0, "pool", "below",
                           TARN_TRACE_LIMIT_BYTES, 0);
  trace_writer_add_object (trace->writer, DRIVER, TARN_TRACE_DIRECT, 0, "adaptor", "",
                           TARN_TRACE_ALIGNMENT, 1);
  trace_writer_add_object (trace->writer, WEIGHTS, TARN_TRACE_POOL, DRIVER, "pool", "above",
                           TARN_TRACE_LIMIT_BYTES, 0);
  use (trace, SCRATCH);
  put (trace, 10, TARN_TRACE_NESTED, 0);
  put (trace, 10, TARN_TRACE_MISS, 0x1000, MIB, MIB, FIRST_PIECE);
  put_of (trace, 11, DRIVER, TARN_TRACE_ALLOCATED, MIB, FIRST_PIECE, 0, 2);
  put_of (trace, 12, WEIGHTS, TARN_TRACE_MISS, 0x2000, MIB, MIB, FIRST_PIECE);
  put (trace, 20, TARN_TRACE_FREE, 0x2000);
  put_of (trace, 21, SCRATCH, TARN_TRACE_FREE, 0x1000);
  put (trace, 30, TARN_TRACE_STOP, 0);
}

/* A thread allocates blocks, which two queues use in turn; another thread frees them. */
static void
put_handed (Trace *trace)
{
  const guint64 n_blocks = 1000;

  put_start (trace);
  for (guint64 i = 1; i <= n_blocks; i++)
    {
      put_of (trace, 10 * i, SCRATCH, TARN_TRACE_MISS, i, KIB, KIB, i * KIB);
      for (guint64 k = 0; k < 50; k++)
        put (trace, 10 * i + 1, TARN_TRACE_RECORD_USE, i, QUEUE + k % 2);
    }
  go_on (trace, 2);
  trace_writer_add_thread (trace->writer, 1002, "worker");
  for (guint64 i = 1; i <= n_blocks; i++)
    put_of (trace, 10 * i + 2, SCRATCH, TARN_TRACE_FREE, i);
  put (trace, 10 * n_blocks + 3, TARN_TRACE_STOP, 0);
}

/* A program that trains */

#define N_LAYERS 48
#define N_KEPT (N_LAYERS * 8)
#define BIG_PIECE (256 * MIB)

/* A block that a pool holds, or that is in use. */
typedef struct
{
  guint64 block, size, address;
} Slot;

/* A thread, with a pool of its own; what that holds, by size. */
typedef struct
{
  Trace *trace;
  guint stream;
  guint64 pool, time, next_block;
  GHashTable *held; /* size -> GArray of Slot */
} Crew;

/* Of all pieces: where the last one is filled up to, and ends. */
static guint64 next_address, piece_end;

static guint64
take_address (Crew *crew, guint64 size)
{
  if (next_address + size > piece_end)
    {
      next_address = MAX (piece_end, FIRST_PIECE) + BIG_PIECE;
      piece_end = next_address + MAX (BIG_PIECE, size);
      crew->time += MS;
      put_of (crew->trace, crew->time, HEAP, TARN_TRACE_ALLOCATED, piece_end - next_address,
              next_address, 0, 880000);
      put (crew->trace, crew->time, TARN_TRACE_PIECE, next_address, piece_end - next_address, 0);
    }
  next_address += size;
  return next_address - size;
}

static void
free_slots (gpointer slots)
{
  g_array_unref (slots);
}

static GArray *
get_held (Crew *crew, guint64 size)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) size);
  GArray *slots = g_hash_table_lookup (crew->held, key);

  if (slots == NULL)
    {
      slots = g_array_new (FALSE, FALSE, sizeof (Slot));
      g_hash_table_insert (crew->held, key, slots);
    }
  return slots;
}

static Slot
crew_request (Crew *crew, guint64 size, guint64 stack)
{
  GArray *slots = get_held (crew, size);
  Slot slot = { .size = size };

  crew->time += (guint64) g_random_int_range (300, 4000);
  if (slots->len > 0)
    {
      slot = g_array_index (slots, Slot, slots->len - 1);
      g_array_set_size (slots, slots->len - 1);
      put (crew->trace, crew->time, TARN_TRACE_SET_STACK, stack);
      put_of (crew->trace, crew->time, crew->pool, TARN_TRACE_HIT, slot.block, size - 8);
      return slot;
    }
  slot.block = 0x10000 + (crew->next_block++ * 2 + crew->stream) * 64;
  slot.address = take_address (crew, size);
  put_miss (crew->trace, crew->time, crew->pool, stack, slot.block, size, slot.address);
  return slot;
}

static void
crew_free (Crew *crew, Slot slot)
{
  crew->time += (guint64) g_random_int_range (200, 3000);
  put_of (crew->trace, crew->time, crew->pool, TARN_TRACE_FREE, slot.block);
  g_array_append_val (get_held (crew, slot.size), slot);
}

/* One step: forward, with a temporary block in each layer, and backward. */
static void
crew_step (Crew *crew, guint step, guint n_layers)
{
  guint64 queue = 0xbee0 + step % 3;
  Slot kept[N_KEPT];
  guint n = 0;

  go_on (crew->trace, crew->stream);
  set (crew->trace, TAG_ACTIVATIONS, queue);
  for (guint i = 0; i < n_layers; i++)
    {
      guint64 size = (64 * KIB) << (i % 7);
      Slot workspace = crew_request (crew, size / 2 + 512 * KIB, STACK_FORWARD);

      kept[n++] = crew_request (crew, size, STACK_FORWARD);
      for (guint j = 0; j < 6; j++)
        kept[n++] = crew_request (crew, (2 * KIB) << (g_random_int () & 7), STACK_LOAD);
      crew_free (crew, workspace);
      crew->time += 20000;
    }
  put (crew->trace, crew->time, TARN_TRACE_MARK, queue, 4000);
  while (n > 0)
    {
      crew_free (crew, kept[--n]);
      crew->time += 4000;
    }
  crew->time += 250000;
  put (crew->trace, crew->time, TARN_TRACE_WAIT, step % 5 == 0 ? 0 : queue,
       90000 + step % 100 * 1000);
  set (crew->trace, TAG_HOSTILE, 0);
  if (step % 8 == 0)
    crew_request (crew, 96 * KIB, STACK_LOAD); /* and nobody frees it */
}

/* Batches differ, so that memory does. */
static void
put_training (Trace *trace, guint64 n_events)
{
  Crew crews[2];

  g_random_set_seed (20260721);
  for (guint i = 0; i < 2; i++)
    crews[i] = (Crew){ .trace = trace,
                       .stream = i + 1,
                       .pool = i == 0 ? WEIGHTS : SCRATCH,
                       .held = g_hash_table_new_full (NULL, NULL, NULL, free_slots) };
  put_start (trace);
  set (trace, TAG_WEIGHTS, 0);
  for (guint i = 0; i < 2 * N_LAYERS; i++)
    crew_request (&crews[0], (256 * KIB) << (i % 5), STACK_LOAD);
  go_on (trace, 2);
  trace_writer_add_thread (trace->writer, 1002, "worker");
  for (guint step = 0; trace->n_events < n_events; step++)
    for (guint i = 0; i < 2; i++)
      crew_step (&crews[i], step, N_LAYERS / 3 + step / 16 * 7 % (N_LAYERS * 2 / 3));
  put (trace, crews[1].time + MS, TARN_TRACE_STOP, 0);
  for (guint i = 0; i < 2; i++)
    g_hash_table_unref (crews[i].held);
}

/* A pool with many blocks in use, beside which many pools come and go. */
static void
put_pools (Trace *trace)
{
  const guint64 n_blocks = 100000, n_pools = 100000;

  go_on (trace, 1);
  trace_writer_add_object (trace->writer, WEIGHTS, TARN_TRACE_POOL, 0, "pool", "",
                           TARN_TRACE_LIMIT_BYTES, 0);
  for (guint64 i = 1; i <= n_blocks; i++)
    put_of (trace, i, WEIGHTS, TARN_TRACE_MISS, i, KIB, KIB, i * KIB);
  for (guint64 i = 1; i <= n_pools; i++)
    {
      trace_writer_add_object (trace->writer, SCRATCH + i, TARN_TRACE_POOL, 0, "pool", "",
                               TARN_TRACE_LIMIT_BYTES, 0);
      put_of (trace, n_blocks, SCRATCH + i, TARN_TRACE_MISS, n_blocks + i, KIB, KIB, i);
      put (trace, n_blocks, TARN_TRACE_END, SCRATCH + i);
    }
  put (trace, n_blocks, TARN_TRACE_STOP, 0);
}

gint
main (gint argc, gchar **argv)
{
  Trace trace = { .writer = trace_writer_new () };
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;

  if (argc != 3)
    g_error ("usage: make-trace known|lossy|empty|odd|damaged|huge|nested|handed|pools|N FILE");
  if (g_str_equal (argv[1], "known"))
    put_known (&trace);
  else if (g_str_equal (argv[1], "lossy"))
    put_lossy (&trace);
  else if (g_str_equal (argv[1], "empty"))
    put_empty (&trace);
  else if (g_str_equal (argv[1], "odd"))
    put_odd (&trace);
  else if (g_str_equal (argv[1], "damaged"))
    put_damaged (&trace);
  else if (g_str_equal (argv[1], "huge"))
    put_huge (&trace);
  else if (g_str_equal (argv[1], "nested"))
    put_nested (&trace);
  else if (g_str_equal (argv[1], "handed"))
    put_handed (&trace);
  else if (g_str_equal (argv[1], "pools"))
    put_pools (&trace);
  else
    put_training (&trace, g_ascii_strtoull (argv[1], NULL, 10));
  bytes = trace_writer_end (trace.writer);
  if (!g_file_set_contents (argv[2], g_bytes_get_data (bytes, NULL),
                            (gssize) g_bytes_get_size (bytes), &error))
    g_error ("%s", error->message);
  return EXIT_SUCCESS;
}
