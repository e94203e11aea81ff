/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The ledger of the fake CUDA driver: all allocations of memory, and their contents.  Device memory
 * has addresses at which the host has no memory.  The fake driver keeps the bytes of device
 * memory on the host, and allocates them at the first access, so that a test may allocate more than
 * the host has.  Host memory and managed memory are ordinary memory of the host.  Allocations are
 * never adjacent, so a write past the end of a block is in no other block. */

#include "testing/cuda/fake-private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 512
#define HOST_ALIGNMENT 4096
#define MAX_NAMED 10

/* TRUE in a 32-bit process */
#define IS_NARROW (sizeof (gpointer) < sizeof (guint64))

typedef struct
{
  TarnTestingCudaMemory memory;
  /* the number of addresses that belong to the block: its size, rounded up to a multiple of
   * ALIGNMENT, or more if the block reuses the addresses of a larger block (take_pending ()) */
  gsize capacity;
  guint8 *bytes; /* owned; NULL for device memory that was never accessed */

  /* Fields for stream-ordered memory */
  guint pool;         /* the pool's number; 0 if the memory is not a pool's */
  guint64 allocation; /* the unique number of the allocation */
  Mark *ready;        /* the point in the stream at which the memory is allocated; owned */
  /* the point in the stream at which the memory is freed; owned; NULL if no free is pending */
  Mark *freed;
  gboolean is_freed; /* TRUE if the program has put a free of the block on a stream */
  /* TRUE if the legacy default stream waits for the stream that allocates the block */
  gboolean is_legacy_safe;
} Block;

/* The address range of a freed block of device memory.  A new block may get this range. */
typedef struct
{
  CUdeviceptr address;
  gsize capacity;
} Place;

/* The lock of the fake driver guards these variables. */
/* a set of all Blocks, owned; ordered by address; no two Blocks overlap */
static GTree *blocks;
static GArray *vacant; /* an array of Place: the addresses of freed blocks, the latest last */
/* an array of TarnTestingCudaMemory: memory that a program freed while a context other than the
 * memory's own was current */
static GArray *strangers;
static CUdeviceptr next_address = FAKE_HANDLES (7);

static gint
compare_blocks (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Block *first = a, *second = b;

  (void) unused;
  return (first->memory.address > second->memory.address)
         - (first->memory.address < second->memory.address);
}

static void
free_block (gpointer data)
{
  Block *block = data;

  free (block->bytes);
  fake_mark_unref (block->ready);
  fake_mark_unref (block->freed);
  g_free (block);
}

static void __attribute__ ((constructor)) make_ledger (void)
{
  blocks = g_tree_new_full (compare_blocks, NULL, NULL, free_block);
  vacant = g_array_new (FALSE, FALSE, sizeof (Place));
  strangers = g_array_new (FALSE, FALSE, sizeof (TarnTestingCudaMemory));
}

/* Functions for the ledger.  The caller of each of these functions holds the lock. */

static gint
compare_address (gconstpointer key, gconstpointer address)
{
  const Block *block = key;
  CUdeviceptr wanted = *(const CUdeviceptr *) address;

  if (wanted < block->memory.address)
    return -1;
  return wanted - block->memory.address >= block->memory.size;
}

/* Finds the block that contains an address, or returns NULL. */
static Block *
find_block (CUdeviceptr address)
{
  return g_tree_search (blocks, compare_address, &address);
}

gboolean
fake_find_memory (CUdeviceptr address, TarnTestingCudaMemory *memory)
{
  const Block *block = find_block (address);

  if (block == NULL)
    return fake_find_mapping (address, memory);
  *memory = block->memory;
  return TRUE;
}

typedef struct
{
  TarnTestingCudaKind kind;
  CUdevice device;    /* the device whose blocks match; -1: any device */
  guint64 context_id; /* the context whose blocks match; 0: any context */
  guint n;
  guint64 bytes;
  /* a list of Block: the blocks that match; empty if context_id is 0 */
  GSList *found;
} Search;

static gboolean
look_at (gpointer key, gpointer value, gpointer data)
{
  Block *block = value;
  Search *search = data;

  (void) key;
  if ((search->kind != FAKE_CUDA_N_KINDS && search->kind != block->memory.kind)
      || (search->device >= 0 && search->device != block->memory.device)
      || (search->context_id != 0 && search->context_id != block->memory.context_id))
    return FALSE;
  search->n++;
  search->bytes += block->memory.size;
  if (search->context_id != 0)
    search->found = g_slist_prepend (search->found, block);
  return FALSE;
}

guint
fake_count_memory (TarnTestingCudaKind kind, guint64 *bytes)
{
  Search search = { .kind = kind, .device = -1 };

  if (kind >= TARN_TESTING_CUDA_ADDRESSES)
    return fake_count_virtual (kind, bytes);
  g_tree_foreach (blocks, look_at, &search);
  *bytes = search.bytes;
  return search.n;
}

typedef struct
{
  GString *text;
  guint n_left; /* the number of blocks still to list */
} Description;

static gboolean
describe_block (gpointer key, gpointer value, gpointer data)
{
  static const gchar *const kinds[] = { "device", "page-locked", "managed" };
  const TarnTestingCudaMemory *memory = &((const Block *) value)->memory;
  Description *description = data;

  (void) key;
  g_string_append_printf (description->text,
                          "%s%s memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT
                          " bytes of device %d",
                          description->text->len > 0 ? ", " : "", kinds[memory->kind],
                          (guint64) memory->address, memory->size, memory->device);
  return --description->n_left == 0;
}

void
fake_describe_memory (GString *text)
{
  Description description = { .text = text, .n_left = MAX_NAMED };

  g_tree_foreach (blocks, describe_block, &description);
  if (g_tree_nnodes (blocks) > MAX_NAMED)
    g_string_append_printf (text, " and %d more", g_tree_nnodes (blocks) - MAX_NAMED);
}

/* Lets new device memory have the addresses of a block that is being freed. */
static void
free_address (const Block *block)
{
  Place place = { block->memory.address, block->capacity };

  if (IS_NARROW)
    munmap ((void *) (guintptr) place.address, place.capacity + ALIGNMENT);
  else
    g_array_append_val (vacant, place);
}

static void
remove_block (Block *block)
{
  if (block->memory.kind == TARN_TESTING_CUDA_DEVICE_MEMORY)
    free_address (block);
  g_tree_remove (blocks, block);
}

void
fake_free_memory_of (guint64 context_id)
{
  Search search = { .kind = FAKE_CUDA_N_KINDS, .device = -1, .context_id = context_id };

  g_tree_foreach (blocks, look_at, &search);
  for (GSList *item = search.found; item != NULL; item = item->next)
    remove_block (item->data);
  g_slist_free (search.found);
}

guint
fake_get_strangers (TarnTestingCudaMemory *memory, guint n)
{
  for (guint i = 0; i < MIN (n, strangers->len); i++)
    memory[i] = g_array_index (strangers, TarnTestingCudaMemory, i);
  return strangers->len;
}

void
fake_forget_strangers (void)
{
  g_array_set_size (strangers, 0);
}

/* Returns the number of a device's bytes that are free.  This is the device's total, or the test's
 * limit if that is lower, minus the bytes of the device memory, managed memory and backings (memory
 * from cuMemCreate ()) in use. */
guint64
fake_count_available (CUdevice device)
{
  const DeviceSettings *settings = fake_get_settings (device);
  guint64 limit = MIN (settings->total_memory, settings->budget), used;
  Search search = { .kind = TARN_TESTING_CUDA_DEVICE_MEMORY, .device = device };

  g_tree_foreach (blocks, look_at, &search);
  search.kind = TARN_TESTING_CUDA_MANAGED_MEMORY;
  g_tree_foreach (blocks, look_at, &search);
  used = search.bytes + fake_count_backed (device);
  return used < limit ? limit - used : 0;
}

static void *
allocate_bytes (gsize capacity)
{
  void *bytes = NULL;

  return posix_memalign (&bytes, HOST_ALIGNMENT, capacity) == 0 ? bytes : NULL;
}

/* Finds an address for new device memory.  Among the freed blocks with the same capacity, takes the
 * address of the one that was freed last.  If there is none, takes an address that was never
 * used.  Returns 0 if no addresses are left, which happens only in a 32-bit process.  Such a
 * process has no addresses but those of the host, so the fake driver reserves some of them. */
static CUdeviceptr
find_address (gsize capacity)
{
  CUdeviceptr address;

  if (IS_NARROW)
    {
      void *start = mmap (NULL, capacity + ALIGNMENT, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

      return start == MAP_FAILED ? 0 : (CUdeviceptr) (guintptr) start;
    }
  for (guint i = vacant->len; i > 0; i--)
    {
      Place place = g_array_index (vacant, Place, i - 1);

      if (place.capacity != capacity)
        continue;
      g_array_remove_index (vacant, i - 1);
      return place.address;
    }
  address = next_address;
  next_address += (CUdeviceptr) capacity + ALIGNMENT;
  return address;
}

static Status
allocate (TarnTestingCudaKind kind, gsize size, CUdevice device, guint64 context_id, Block **made)
{
  Block *block;
  void *bytes = NULL;
  CUdeviceptr address;
  gsize capacity = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

  REQUIRE (size > 0, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (kind == TARN_TESTING_CUDA_HOST_MEMORY || size <= fake_count_available (device),
           FAKE_CUDA_OUT_OF_MEMORY);
  REQUIRE (capacity + ALIGNMENT > size, FAKE_CUDA_OUT_OF_MEMORY);
  if (kind != TARN_TESTING_CUDA_DEVICE_MEMORY)
    bytes = allocate_bytes (capacity);
  address = kind == TARN_TESTING_CUDA_DEVICE_MEMORY ? find_address (capacity)
                                                    : (CUdeviceptr) (guintptr) bytes;
  REQUIRE (address != 0, FAKE_CUDA_OUT_OF_MEMORY);

  block = g_new0 (Block, 1);
  block->bytes = bytes;
  block->capacity = capacity;
  block->memory = (TarnTestingCudaMemory){
    .kind = kind, .address = address, .size = size, .device = device, .context_id = context_id
  };
  g_tree_insert (blocks, block, block);
  *made = block;
  return FAKE_CUDA_SUCCESS;
}

Status
fake_allocate (TarnTestingCudaKind kind, gsize size, CUdeviceptr *address)
{
  Block *block;
  Context *context;
  Status status = fake_get_context (&context);

  if (status == FAKE_CUDA_SUCCESS)
    status = allocate (kind, size, context->device, context->id, &block);
  if (status == FAKE_CUDA_SUCCESS)
    *address = block->memory.address;
  return status;
}

/* Frees the memory at an address, also if another context is current.  Then waits for all streams
 * of the memory's context.  Releases the lock while it waits. */
Status
fake_release (CUdeviceptr address, gboolean is_host)
{
  Block *block;
  Context *context;
  guint64 context_id;
  Status status = fake_get_context (&context);

  REQUIRE (status == FAKE_CUDA_SUCCESS || status == FAKE_CUDA_INVALID_CONTEXT, status);
  status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (address != 0, FAKE_CUDA_SUCCESS);
  block = find_block (address);
  REQUIRE (block != NULL && block->memory.address == address && !block->is_freed
               && (block->memory.kind == TARN_TESTING_CUDA_HOST_MEMORY) == is_host,
           FAKE_CUDA_INVALID_VALUE);
  if (context != NULL && block->memory.context_id != context->id)
    {
      block->memory.freed_by = context->id;
      g_array_append_val (strangers, block->memory);
    }
  context_id = block->memory.context_id;
  remove_block (block);
  fake_wait_for_context (context_id);
  return FAKE_CUDA_SUCCESS;
}

/* Finds the host's address of the @size bytes at a device address.  Returns FALSE if these bytes
 * are neither in one block nor in mappings that the device can access.  Bytes of device memory that
 * were never written have an arbitrary value. */
gboolean
fake_find_bytes (CUdeviceptr address, gsize size, CUdevice device, guint8 **bytes)
{
  Block *block = find_block (address);

  if (block == NULL)
    return fake_find_mapped_bytes (address, size, device, bytes);
  if (size > block->memory.size - (address - block->memory.address))
    return FALSE;
  if (block->bytes == NULL)
    {
      block->bytes = malloc (block->memory.size);
      if (block->bytes == NULL)
        g_error ("the fake driver has no memory to write to");
      memset (block->bytes, 0xa5, block->memory.size);
    }
  *bytes = block->bytes + (address - block->memory.address);
  return TRUE;
}

/* Functions that allocate and free memory in the order of a stream */

static guint64 last_allocation;

guint64
fake_get_allocation (const gchar *function, CUdeviceptr address)
{
  const Block *block = find_block (address);

  if (block != NULL && block->is_freed)
    g_error ("%s: the memory is used after cuMemFreeAsync", function);
  return block != NULL ? block->allocation : 0;
}

/* Ends the test if a command uses memory before the stream that allocates the memory has reached
 * the allocation.  @allocation: the number of the allocation that had the memory when the command
 * was put on its stream.  If a later allocation has the memory now, checks nothing: take_pending ()
 * gives memory away whose free is still pending, and commands of the former owner may use the
 * memory until a stream runs that free. */
void
fake_check_ready (const gchar *function, CUdeviceptr address, guint64 allocation)
{
  const Block *block = find_block (address);

  if (block != NULL && block->allocation == allocation && block->ready != NULL
      && !block->ready->is_reached)
    g_error ("%s: the memory is used before the stream that allocates it comes there", function);
}

/* Makes the host wait until memory is ready, for a call on the legacy default stream.  The legacy
 * default stream waits only for blocking streams and default streams.  So if another stream
 * allocates the memory, and the memory is not ready, ends the test. */
static void
await_ready (CUdeviceptr address)
{
  const Block *block = find_block (address);

  if (block == NULL || block->ready == NULL || block->ready->is_reached)
    return;
  if (!block->is_legacy_safe)
    g_error ("the default stream uses memory before the stream that allocates it comes there");
  fake_mark_wait (block->ready);
}

typedef struct
{
  guint pool;
  gsize size;
  guint64 bytes;
  /* a block that has enough bytes, and whose free is pending; NULL if there is none */
  Block *pending;
} PoolSearch;

static gboolean
look_in_pool (gpointer key, gpointer value, gpointer data)
{
  Block *block = value;
  PoolSearch *search = data;

  (void) key;
  if (block->pool != search->pool)
    return FALSE;
  search->bytes += block->memory.size;
  if (block->is_freed && block->freed != NULL && block->capacity >= search->size)
    search->pending = block;
  return FALSE;
}

guint64
fake_count_pool (guint pool)
{
  PoolSearch search = { .pool = pool, .size = G_MAXSIZE };

  g_tree_foreach (blocks, look_in_pool, &search);
  return search.bytes;
}

/* Takes a block of a pool that has at least @size bytes, and whose free is pending.  Makes @stream
 * wait for that free.  Returns NULL if there is no such block. */
static Block *
take_pending (guint pool, gsize size, Stream *stream)
{
  PoolSearch search = { .pool = pool, .size = size };
  Block *block;

  g_tree_foreach (blocks, look_in_pool, &search);
  block = search.pending;
  if (block == NULL)
    return NULL;
  fake_stream_wait (stream, block->freed);
  g_clear_pointer (&block->freed, fake_mark_unref);
  g_clear_pointer (&block->ready, fake_mark_unref);
  block->is_freed = FALSE;
  block->memory.size = size;
  return block;
}

/* Allocates memory in the order of a stream: the memory is ready when the commands that are on the
 * stream now are done. */
Status
fake_allocate_ordered (guint pool, CUdevice device, gsize size, Stream *stream,
                       CUdeviceptr *address)
{
  Block *block = NULL;
  Status status
      = allocate (TARN_TESTING_CUDA_DEVICE_MEMORY, size, device, stream->context_id, &block);

  if (status == FAKE_CUDA_OUT_OF_MEMORY && (block = take_pending (pool, size, stream)) != NULL)
    status = FAKE_CUDA_SUCCESS;
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  block->pool = pool;
  block->allocation = ++last_allocation;
  block->is_legacy_safe = stream->is_default || stream->is_blocking;
  block->ready = fake_stream_record (stream);
  *address = block->memory.address;
  return FAKE_CUDA_SUCCESS;
}

typedef struct
{
  CUdeviceptr address;
  guint64 allocation;
} Release;

/* Frees the memory of an allocation when a stream reaches the free.  Does nothing if a later
 * allocation has got the memory. */
static void
run_release (gpointer data)
{
  const Release *release = data;
  Block *block = find_block (release->address);

  if (block == NULL || block->allocation != release->allocation)
    return;
  fake_check_ready ("cuMemFreeAsync", release->address, release->allocation);
  remove_block (block);
}

Status
fake_release_ordered (CUdeviceptr address, Stream *stream)
{
  Block *block = find_block (address);
  Release *release;
  guint64 allocation;

  REQUIRE (block != NULL && block->memory.address == address && block->pool != 0
               && !block->is_freed,
           FAKE_CUDA_INVALID_VALUE);
  allocation = block->allocation;
  block->is_freed = TRUE;
  release = g_new (Release, 1);
  *release = (Release){ address, allocation };
  fake_stream_do (stream, run_release, release);
  block = find_block (address); /* NULL if the stream has already run the free */
  if (block != NULL && block->allocation == allocation)
    block->freed = fake_stream_record (stream);
  return FAKE_CUDA_SUCCESS;
}

/* Finds the host's address of the memory at @address, for a call on the legacy default stream of
 * the current context.  Makes the host wait until the memory is ready, even if @size is 0.  If a
 * blocking stream is being captured, fails and invalidates the capture. */
Status
fake_reach (CUdeviceptr address, gsize size, guint8 **bytes)
{
  static guint8 nothing[1];
  Context *context;
  Status status = fake_get_context (&context);

  if (status == FAKE_CUDA_SUCCESS)
    status = fake_end_blocking_captures_of (context->id);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  *bytes = nothing;
  if (fake_get_allocation ("the default stream", address) != 0)
    await_ready (address);
  return size == 0 || fake_find_bytes (address, size, context->device, bytes)
             ? FAKE_CUDA_SUCCESS
             : FAKE_CUDA_INVALID_VALUE;
}
