/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pieces: large buffers of the driver, which a heap divides into blocks.  Each buffer of the
 * program is a sub-buffer of a piece, and lies within one block.  The address of a block is not a
 * device address: its high bits are the number of the block's piece, and its low bits the block's
 * offset in the piece, in bytes. */

#include "layer-private.h"

#include <tarn/debug.h>

#include "common/heap-pool-private.h"
#include "common/limit-private.h"

/* The number of low bits of a block's address that are the block's byte offset in the piece. */
#define OFFSET_BITS 44
#define MAX_PIECES ((guint64) 1 << (64 - OFFSET_BITS))

/* Adds a piece to the context's array of pieces.  Returns the piece's number, which is at
 * least 1.  Returns 0 if there are too many pieces. */
static guint64
add_piece (LayerContext *context, cl_mem piece)
{
  TARN_LOCKED (&context->lock);
  guint i;

  for (i = context->all_used_before; i < context->pieces->len; i++)
    if (g_ptr_array_index (context->pieces, i) == NULL)
      break;
  context->all_used_before = i;
  if (i + 1 >= MAX_PIECES)
    return 0;
  if (i == context->pieces->len)
    g_ptr_array_add (context->pieces, NULL);
  g_ptr_array_index (context->pieces, i) = piece;
  return i + 1;
}

/* Removes the piece with this number from the context's array of pieces, and returns the piece. */
static cl_mem
remove_piece (LayerContext *context, guint64 number)
{
  TARN_LOCKED (&context->lock);
  cl_mem piece = g_ptr_array_index (context->pieces, number - 1);

  g_assert (piece != NULL);
  g_ptr_array_index (context->pieces, number - 1) = NULL;
  context->all_used_before = (guint) MIN (context->all_used_before, number - 1);
  return piece;
}

/* Returns the piece that contains a block's address, and sets *offset to the address's offset in
 * the piece, in bytes. */
static cl_mem
find_at (LayerContext *context, guint64 address, gsize *offset)
{
  TARN_LOCKED (&context->lock);
  guint64 number = address >> OFFSET_BITS;

  g_assert (number > 0 && number <= context->pieces->len);
  *offset = (gsize) (address & (((guint64) 1 << OFFSET_BITS) - 1));
  return g_ptr_array_index (context->pieces, number - 1);
}

cl_mem
_tarn_layer_find_piece (LayerContext *context, const TarnBlock *block, gsize *offset)
{
  return find_at (context, tarn_block_get_memory (block).address, offset);
}

/* Returns the key by which the layer finds the sub-buffer of a block.  The sub-buffer covers the
 * whole block, so buffers of nearly equal sizes can use the same sub-buffer one after another.  The
 * sub-buffer may be larger than the program's buffer: _tarn_layer_is_within () checks the bounds of
 * the program's buffer.  Exception: with TARN_DEBUG the sub-buffer has the size of the program's
 * buffer, and ends before the guard bytes. */
LayerPlace
_tarn_layer_get_place (LayerContext *context, const TarnBlock *block, cl_mem_flags asked)
{
  gsize size = _tarn_layer_is_debugged (context) ? tarn_block_get_size (block)
                                                 : tarn_block_get_alloc_size (block);

  return (LayerPlace){ tarn_block_get_memory (block).address, size, asked };
}

cl_command_queue
_tarn_layer_context_get_queue (LayerContext *context)
{
  cl_int status;
  cl_command_queue queue;

  {
    TARN_LOCKED (&context->lock);

    if (context->own_queue != NULL)
      return context->own_queue;
  }
  queue = _tarn_layer_driver->clCreateCommandQueue (context->base.handle, context->device, 0,
                                                    &status);
  if (queue == NULL)
    return NULL;
  {
    TARN_LOCKED (&context->lock);

    if (context->own_queue == NULL)
      context->own_queue = g_steal_pointer (&queue);
  }
  if (queue != NULL)
    _tarn_layer_driver->clReleaseCommandQueue (queue);
  return context->own_queue;
}

/* Sets an error which says that the driver has no memory for @size bytes.  Returns FALSE. */
static gboolean
fail (cl_int status, gsize size, GError **error)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "OpenCL has no %" G_GSIZE_FORMAT " bytes (%d)", size, status);
  return FALSE;
}

#define MAX_WAIT (G_USEC_PER_SEC / 5)

/* Polls the state of a command until the command is done, until it has failed, or until the
 * monotonic time @end.  If the query of the state fails, waits for the command without a limit. */
static cl_int
poll_until (cl_event event, gint64 end)
{
  cl_int state = CL_QUEUED;

  while (state > CL_COMPLETE && g_get_monotonic_time () < end)
    {
      if (_tarn_layer_driver->clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                              sizeof state, &state, NULL)
          != CL_SUCCESS)
        return _tarn_layer_driver->clWaitForEvents (1, &event) == CL_SUCCESS ? CL_COMPLETE : state;
      if (state > CL_COMPLETE)
        g_usleep (20);
    }
  return state;
}

/* Waits for a command for at most MAX_WAIT microseconds.  The time is limited because
 * clCreateBuffer () calls this function, and a program expects that clCreateBuffer () does not wait
 * for commands.  Some drivers run no command until a callback of the program returns, and that
 * callback may have called clCreateBuffer (). */
cl_int
_tarn_layer_wait_briefly (cl_command_queue queue, cl_event event)
{
  cl_int state;

  _tarn_layer_driver->clFlush (queue);
  state = poll_until (event, g_get_monotonic_time () + MAX_WAIT);
  _tarn_layer_driver->clReleaseEvent (event);
  return state;
}

/* Returns TRUE if the driver says that a command has not ended. */
static gboolean
is_running (cl_event event)
{
  cl_int state = CL_QUEUED;

  return _tarn_layer_driver->clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                             &state, NULL)
             == CL_SUCCESS
         && state > CL_COMPLETE;
}

/* The largest number of times that _tarn_layer_await () repeats a wait that failed.  Before each
 * repetition, it sleeps for a millisecond. */
#define MAX_WAITS 200

cl_int
_tarn_layer_await (cl_int status, const cl_event *event)
{
  if (status != CL_SUCCESS)
    return status;
  status = _tarn_layer_driver->clWaitForEvents (1, event);
  /* If the driver's wait failed although the command has not ended, wait again: the command still
   * uses the caller's memory. */
  for (guint i = 0; status != CL_SUCCESS && i < MAX_WAITS && is_running (*event); i++)
    {
      g_usleep (1000);
      status = _tarn_layer_driver->clWaitForEvents (1, event);
    }
  _tarn_layer_driver->clReleaseEvent (*event);
  return status;
}

void
_tarn_layer_keep_for_ever (gpointer memory)
{
  static TarnMutex lock;
  static GSList *kept;
  TARN_LOCKED (&lock);

  kept = g_slist_prepend (kept, memory);
}

/* Makes the driver allocate the memory of a new piece on the device, by a command that reads a few
 * bytes of the piece.  Some drivers allocate the memory only at the first command, and that command
 * fails if there is no memory.  So the first command must not be one of the program.  The command
 * only reads, because a write that runs late could overwrite the program's data.  Returns FALSE
 * with an error if the command fails. */
static gboolean
make_ready (LayerContext *context, cl_mem piece, gsize size, GError **error)
{
  static guint8 nowhere[4];
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_int status = CL_OUT_OF_RESOURCES;
  cl_event event = NULL;

  if (queue != NULL)
    status = _tarn_layer_driver->clEnqueueReadBuffer (
        queue, piece, CL_FALSE, 0, MIN (size, sizeof nowhere), nowhere, 0, NULL, &event);
  if (status == CL_SUCCESS)
    status = _tarn_layer_wait_briefly (queue, event);
  /* A status above 0 is no error: it says that the read is not done yet. */
  return status >= CL_SUCCESS || fail (status, size, error);
}

/* Unmaps a buffer.  Returns FALSE if the buffer may still be mapped after 0.2 s. */
static gboolean
unmap (cl_command_queue queue, cl_mem buffer, gpointer address)
{
  cl_event event;

  return _tarn_layer_driver->clEnqueueUnmapMemObject (queue, buffer, address, 0, NULL, &event)
             == CL_SUCCESS
         && _tarn_layer_wait_briefly (queue, event) == CL_COMPLETE;
}

gpointer
_tarn_layer_ask_address (LayerContext *context, cl_mem buffer)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_event event = NULL;
  gboolean is_mapped;
  cl_int status;
  gpointer address;

  if (queue == NULL)
    return NULL;
  address = _tarn_layer_driver->clEnqueueMapBuffer (queue, buffer, CL_FALSE, CL_MAP_READ, 0, 1, 0,
                                                    NULL, &event, &status);
  if (address == NULL)
    return NULL;
  is_mapped = _tarn_layer_wait_briefly (queue, event) == CL_COMPLETE;
  return unmap (queue, buffer, address) && is_mapped ? address : NULL;
}

/* Records the host address of a new piece, if images.c needs the address.  To find the address, the
 * layer enqueues a command that maps the piece.  Call this before the program can use the piece,
 * because later the map command could run at the same time as a command of the program. */
static void
note_address (LayerContext *context, cl_mem piece)
{
  gpointer address = context->notes_addresses ? _tarn_layer_ask_address (context, piece) : NULL;
  TARN_LOCKED (&context->lock);

  if (address != NULL)
    g_hash_table_insert (context->addresses, piece, address);
}

/* Removes the record of a piece's host address. */
static void
forget_address (LayerContext *context, cl_mem piece)
{
  TARN_LOCKED (&context->lock);

  g_hash_table_remove (context->addresses, piece);
}

gpointer
_tarn_layer_find_address (LayerContext *context, cl_mem piece)
{
  TARN_LOCKED (&context->lock);

  return g_hash_table_lookup (context->addresses, piece);
}

/* Releases a piece, a large buffer, to the driver, and warns if the driver refuses that. */
static void
release_piece (cl_mem piece)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseMemObject (piece) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: memory may be lost");
}

/* Returns the padding of a piece of @size bytes: the number of bytes to add, so that the first
 * block can begin at an aligned device address.  Returns 0 if the driver already aligns pieces, or
 * if the piece would become too large. */
static gsize
get_padding (const LayerContext *context, gsize size)
{
  return context->address_program != NULL
                 && context->max_bytes - MIN (size, context->max_bytes) >= context->alignment
             ? context->alignment
             : 0;
}

/* Allocates a piece, a large buffer of the driver, for the heap.  See TarnAllocatorOps.allocate. */
static gboolean
piece_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  const LayerSource *source = user_data;
  cl_mem_flags flags = source->memory == LAYER_HOST ? CL_MEM_ALLOC_HOST_PTR : 0;
  cl_int status = CL_SUCCESS;
  gsize padding = get_padding (source->context, size);
  guint64 number;
  cl_mem piece;

  if (size > source->context->max_bytes)
    return fail (CL_INVALID_BUFFER_SIZE, size, error);
  LAYER_COUNT (pieces);
  piece = _tarn_layer_driver->clCreateBuffer (
      source->context->base.handle, CL_MEM_READ_WRITE | flags, size + padding, NULL, &status);
  if (piece == NULL)
    return fail (status, size, error);
  if (!make_ready (source->context, piece, size, error))
    {
      release_piece (piece);
      return FALSE;
    }
  number = add_piece (source->context, piece);
  if (number == 0)
    {
      release_piece (piece);
      return fail (CL_OUT_OF_HOST_MEMORY, size, error);
    }
  note_address (source->context, piece);
  memory->address = number << OFFSET_BITS;
  if (padding > 0)
    memory->address += _tarn_layer_find_shift (source->context, piece);
  return TRUE;
}

/* Releases a piece of the heap to the driver.  See TarnAllocatorOps.free. */
static void
piece_free (gpointer user_data, TarnMemory memory, gsize size)
{
  const LayerSource *source = user_data;
  guint64 number = memory.address >> OFFSET_BITS;
  cl_mem piece;

  (void) size;

  /* Release the piece's spare sub-buffers before remove_piece ().  Afterwards, a new piece may get
   * this piece's number, and the layer would take these spares for the new piece's spares. */
  _tarn_layer_drop_spares_between (source->context, number << OFFSET_BITS,
                                   ((number + 1) << OFFSET_BITS) - 1);
  piece = remove_piece (source->context, number);
  forget_address (source->context, piece);
  release_piece (piece);
}

/* Functions that read and fill memory, for TARN_DEBUG */

/* A byte of a piece (a large buffer of the driver), from which the layer reads or fills memory, and
 * the queue on which it does so. */
typedef struct
{
  cl_command_queue queue;
  cl_mem piece;
  gsize offset; /* bytes from the start of the piece */
} Place;

/* Finds the piece and the offset in it of the byte that is @offset bytes after the start of
 * @memory, and a queue of the layer.  Stores them in *place.  Returns FALSE with an error if the
 * layer has no queue. */
static gboolean
find_place (const LayerSource *source, TarnMemory memory, gsize offset, Place *place,
            GError **error)
{
  place->queue = _tarn_layer_context_get_queue (source->context);
  place->piece = find_at (source->context, memory.address + offset, &place->offset);
  if (place->queue == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "OpenCL has no queue to look at memory");
  return place->queue != NULL;
}

/* Checks the status of a command that reads or fills memory.  If the status is CL_SUCCESS, returns
 * TRUE.  Otherwise sets an error and returns FALSE. */
static gboolean
check_contents (cl_int status, GError **error)
{
  if (status != CL_SUCCESS)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "OpenCL cannot look at memory (%d)", status);
  return status == CL_SUCCESS;
}

/* Reads bytes of a block, and waits until they are read.  See TarnAllocatorOps.read. */
static gboolean
piece_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
            GError **error)
{
  cl_event event;
  Place place;

  return find_place (user_data, memory, offset, &place, error)
         && check_contents (_tarn_layer_await (_tarn_layer_driver->clEnqueueReadBuffer (
                                                   place.queue, place.piece, CL_FALSE, place.offset,
                                                   size, bytes, 0, NULL, &event),
                                               &event),
                            error);
}

/* Fills bytes of a block with @byte, and waits until they are filled.  The wait is needed because
 * the next commands that use the block are on queues of the program, which do not wait for the
 * layer's queue.  See TarnAllocatorOps.fill. */
static gboolean
piece_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
            GError **error)
{
  cl_event event;
  Place place;

  return find_place (user_data, memory, offset, &place, error)
         && check_contents (_tarn_layer_await (_tarn_layer_driver->clEnqueueFillBuffer (
                                                   place.queue, place.piece, &byte, sizeof byte,
                                                   place.offset, size, 0, NULL, &event),
                                               &event),
                            error);
}

/* Returns a host address for reading a block.  To find it, maps and unmaps the block's first byte.
 * A driver for the host's processor maps a buffer in place, so the block's other bytes come after
 * the first byte.  Other drivers map a copy of the first byte alone.  So the caller has to check
 * that the block's other bytes really follow the first byte. */
static gconstpointer
piece_find_host (gpointer user_data, TarnMemory memory, gsize size)
{
  gpointer pointer;
  cl_event event;
  cl_int status;
  Place place;

  (void) size;
  if (!find_place (user_data, memory, 0, &place, NULL))
    return NULL;
  pointer = _tarn_layer_driver->clEnqueueMapBuffer (place.queue, place.piece, CL_FALSE, CL_MAP_READ,
                                                    place.offset, 1, 0, NULL, &event, &status);
  if (_tarn_layer_await (status, &event) != CL_SUCCESS
      || _tarn_layer_await (_tarn_layer_driver->clEnqueueUnmapMemObject (place.queue, place.piece,
                                                                         pointer, 0, NULL, &event),
                            &event)
             != CL_SUCCESS)
    return NULL;
  return pointer;
}

/* Implements TarnAllocatorOps.part_new: computes the address of a block from the address of the
 * block's piece.  Makes no sub-buffer for the block, because get () in buffer.c does that later. */
static gboolean
part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
          GError **error)
{
  (void) user_data;
  (void) size;
  (void) error;
  part->address = memory.address + offset;
  return TRUE;
}

/* Sets *limit to the value of TARN_LAYER_LIMIT, the limit of a context's pool.  If the variable is
 * not set, does not change *limit.  If the value is invalid, prints a message and returns FALSE. */
static gboolean
read_limit (const LayerContext *context, gsize *limit)
{
  const gchar *text = _tarn_layer_get_settings ()->limit;
  g_autoptr (GError) error = NULL;
  static gboolean once;
  cl_ulong bytes = 0;

  if (text == NULL)
    return TRUE;
  _tarn_layer_driver->clGetDeviceInfo (context->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes,
                                       &bytes, NULL);
  if (_tarn_parse_limit ("TARN_LAYER_LIMIT", text, (gsize) bytes, limit, &error))
    return TRUE;
  _tarn_layer_warn (&once, "%s", error->message);
  return FALSE;
}

/* Runs when an allocator of pieces is freed: the allocator no longer counts as a user of its
 * context. */
static void
source_drop (gpointer data)
{
  LayerSource *source = data;

  _tarn_layer_context_drop_user (source->context);
}

/* Makes the allocator that gets pieces (large buffers) from the driver, for the heap. */
static TarnAllocator *
allocator_new (LayerSource *source)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = source->memory == LAYER_HOST ? "layer-host" : "layer";
  ops.allocate = piece_allocate;
  ops.free = piece_free;
  ops.part_alignment = source->context->alignment;
  ops.part_new = part_new;
  ops.read = piece_read;
  ops.fill = piece_fill;
  ops.find_host = piece_find_host;
  ops.is_hidden = TRUE;
  _tarn_layer_context_add_user (source->context);
  return tarn_allocator_new (&ops, source, source_drop);
}

/* Makes a pool whose buffers TARN_DEBUG checks.  In this pool, each buffer has its own piece (a
 * buffer of the driver).  If many buffers shared a piece, a check by the layer could use the piece
 * at the same time as a command of the program that uses another buffer.  PoCL, at least up to 3.1,
 * cannot handle two commands that use the same piece at the same time.  Returns NULL if TARN_DEBUG
 * checks no buffers, or if the pool cannot be made. */
static TarnPool *
debugged_pool_new (LayerSource *source, const TarnPoolOptions *options)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (source);
  TarnPool *pool = tarn_pool_new (allocator, options, NULL);

  if (pool != NULL && tarn_pool_is_debugged (pool))
    return pool;
  tarn_pool_unref (pool);
  return NULL;
}

/* The largest number of bytes that a pool caches.  A cached block serves the next buffer of the
 * block's size, together with the sub-buffer that the layer has kept for the block.  If the block
 * returned to the heap instead, the heap would merge it with its neighbours.  Later the heap would
 * usually split the memory at other offsets, where the driver would have to make new sub-buffers.
 */
#define HELD_BYTES ((gsize) 64 << 20)

TarnPool *
_tarn_layer_pool_new (LayerSource *source)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  static gboolean once;
  TarnPool *pool = NULL;

  options.name = source->memory == LAYER_HOST ? "host buffers" : "buffers";
  /* Cache many bytes only if the layer rounds up sizes.  Otherwise few sizes are equal, so few
   * cached blocks would serve later buffers. */
  if (_tarn_layer_get_settings ()->rounds_sizes)
    options.hold_bytes = HELD_BYTES;
  if (!read_limit (source->context, &options.limit_bytes))
    return NULL;
  if (_tarn_layer_get_settings ()->may_debug)
    pool = debugged_pool_new (source, &options);
  if (pool != NULL)
    {
      _tarn_layer_debug_begin (source->context);
      return pool;
    }
  pool = _tarn_pool_new_over_heap (allocator_new (source), &options, &error);
  if (pool == NULL)
    _tarn_layer_warn (&once, "%s", error->message);
  return pool;
}
