/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The ledger of memory, and what lies in it.  Device memory has addresses that no host address
 * equals, and bytes on the host that it gets when something is first written into it: a test may
 * allocate more than the host has.  Host and managed memory is the host's.
 *
 * Addresses are never near: what is written past a block's end is in no other. */

#include "fake-private.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 512
#define HOST_ALIGNMENT 4096

/* Above every address that a process can have on machines of today; on a 32-bit one there is no
 * such place. */
#if GLIB_SIZEOF_VOID_P == 8
#define FIRST_ADDRESS G_GUINT64_CONSTANT (0x10000000000000)
#else
#define FIRST_ADDRESS 0xe0000000u
#endif

#define ATTRIBUTE_CONTEXT 1
#define ATTRIBUTE_MEMORY_TYPE 2
#define ATTRIBUTE_IS_MANAGED 8
#define ATTRIBUTE_DEVICE_ORDINAL 9

typedef struct
{
  FakeCudaMemory memory;
  gsize capacity; /* bytes to the next address that may be another's */
  guint8 *bytes;  /* owned; for device memory NULL until it is first written */
} Block;

/* Where a block was, and one may be again. */
typedef struct
{
  CUdeviceptr address;
  gsize capacity;
} Place;

/* Guarded by the lock. */
static GTree *blocks;     /* Block -> the same, owned, by address: no two overlap */
static GArray *vacant;    /* of Place, last in, first out */
static GArray *strangers; /* of FakeCudaMemory */
static CUdeviceptr next_address = FIRST_ADDRESS;

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
  g_free (block);
}

static void __attribute__ ((constructor)) make_ledger (void)
{
  blocks = g_tree_new_full (compare_blocks, NULL, NULL, free_block);
  vacant = g_array_new (FALSE, FALSE, sizeof (Place));
  strangers = g_array_new (FALSE, FALSE, sizeof (FakeCudaMemory));
}

/* The ledger; all is called locked. */

static gint
compare_address (gconstpointer key, gconstpointer address)
{
  const Block *block = key;
  CUdeviceptr wanted = *(const CUdeviceptr *) address;

  if (wanted < block->memory.address)
    return -1;
  return wanted - block->memory.address >= block->memory.size;
}

/* That an address lies in; NULL: none. */
static Block *
find_block (CUdeviceptr address)
{
  return g_tree_search (blocks, compare_address, &address);
}

gboolean
fake_find_memory (CUdeviceptr address, FakeCudaMemory *memory)
{
  const Block *block = find_block (address);

  if (block != NULL)
    *memory = block->memory;
  return block != NULL;
}

typedef struct
{
  FakeCudaKind kind;
  CUdevice device;    /* -1: any */
  guint64 context_id; /* 0: any */
  guint n;
  guint64 bytes;
  GSList *found; /* of Block */
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
  search->found = g_slist_prepend (search->found, block);
  return FALSE;
}

guint
fake_count_memory (FakeCudaKind kind, guint64 *bytes)
{
  Search search = { .kind = kind, .device = -1 };

  g_tree_foreach (blocks, look_at, &search);
  g_slist_free (search.found);
  *bytes = search.bytes;
  return search.n;
}

static void
remove_block (Block *block)
{
  Place place = { block->memory.address, block->capacity };

  if (block->memory.kind == FAKE_CUDA_DEVICE_MEMORY)
    g_array_append_val (vacant, place);
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
fake_get_strangers (FakeCudaMemory *memory, guint n)
{
  for (guint i = 0; i < MIN (n, strangers->len); i++)
    memory[i] = g_array_index (strangers, FakeCudaMemory, i);
  return strangers->len;
}

void
fake_forget_strangers (void)
{
  g_array_set_size (strangers, 0);
}

/* Bytes of device and managed memory that a device has left. */
static guint64
count_available (CUdevice device)
{
  const DeviceSettings *settings = fake_get_settings (device);
  guint64 limit = MIN (settings->total_memory, settings->budget), used;
  Search search = { .kind = FAKE_CUDA_DEVICE_MEMORY, .device = device };

  g_tree_foreach (blocks, look_at, &search);
  search.kind = FAKE_CUDA_MANAGED_MEMORY;
  g_tree_foreach (blocks, look_at, &search);
  g_slist_free (search.found);
  used = search.bytes;
  return used < limit ? limit - used : 0;
}

/* The place that was left last of those that are as large. */
static CUdeviceptr
find_address (gsize capacity)
{
  CUdeviceptr address = next_address;

  for (guint i = vacant->len; i > 0; i--)
    {
      Place place = g_array_index (vacant, Place, i - 1);

      if (place.capacity != capacity)
        continue;
      g_array_remove_index (vacant, i - 1);
      return place.address;
    }
  next_address += (CUdeviceptr) capacity + ALIGNMENT;
  return address;
}

static Status
allocate (FakeCudaKind kind, gsize size, CUdeviceptr *address)
{
  Block *block;
  Context *context;
  void *bytes = NULL;
  gsize capacity = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  Status status = fake_get_context (&context);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (size > 0, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (kind == FAKE_CUDA_HOST_MEMORY || size <= count_available (context->device),
           FAKE_CUDA_OUT_OF_MEMORY);
  REQUIRE (capacity >= size, FAKE_CUDA_OUT_OF_MEMORY);
  REQUIRE (kind == FAKE_CUDA_DEVICE_MEMORY
               || posix_memalign (&bytes, HOST_ALIGNMENT, capacity) == 0,
           FAKE_CUDA_OUT_OF_MEMORY);

  block = g_new0 (Block, 1);
  block->bytes = bytes;
  block->capacity = capacity;
  block->memory = (FakeCudaMemory){ .kind = kind,
                                    .address = bytes == NULL ? find_address (capacity)
                                                             : (CUdeviceptr) (guintptr) bytes,
                                    .size = size,
                                    .device = context->device,
                                    .context_id = context->id };
  g_tree_insert (blocks, block, block);
  *address = block->memory.address;
  return FAKE_CUDA_SUCCESS;
}

/* Memory is found by its address alone, whatever context is current. */
static Status
release (CUdeviceptr address, gboolean is_host)
{
  Block *block;
  Context *context;
  Status status = fake_get_context (&context);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  block = find_block (address);
  REQUIRE (block != NULL && block->memory.address == address
               && (block->memory.kind == FAKE_CUDA_HOST_MEMORY) == is_host,
           FAKE_CUDA_INVALID_VALUE);
  if (block->memory.context_id != context->id)
    {
      block->memory.freed_by = context->id;
      g_array_append_val (strangers, block->memory);
    }
  remove_block (block);
  return FAKE_CUDA_SUCCESS;
}

/* The host's address of @size bytes from @address on; they must be in one block.  Device memory
 * that nothing was written to has no bytes that mean something. */
static Status
reach (CUdeviceptr address, gsize size, guint8 **bytes)
{
  Context *context;
  Block *block = find_block (address);
  Status status = fake_get_context (&context);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (block != NULL && size <= block->memory.size - (address - block->memory.address),
           FAKE_CUDA_INVALID_VALUE);
  if (block->bytes == NULL)
    {
      block->bytes = malloc (block->memory.size);
      REQUIRE (block->bytes != NULL, FAKE_CUDA_OUT_OF_MEMORY);
      memset (block->bytes, 0xa5, block->memory.size);
    }
  *bytes = block->bytes + (address - block->memory.address);
  return FAKE_CUDA_SUCCESS;
}

/* The driver's functions */

Status
cuMemGetInfo_v2 (size_t *available, size_t *total)
{
  Context *context;
  Status status;
  ENTER (cuMemGetInfo);
  LOCKED;
  REQUIRE (available != NULL && total != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  *available = (size_t) count_available (context->device);
  *total = (size_t) fake_get_settings (context->device)->total_memory;
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemAlloc_v2 (CUdeviceptr *address, size_t size)
{
  ENTER (cuMemAlloc);
  LOCKED;
  REQUIRE (address != NULL, FAKE_CUDA_INVALID_VALUE);

  return allocate (FAKE_CUDA_DEVICE_MEMORY, size, address);
}

Status
cuMemFree_v2 (CUdeviceptr address)
{
  ENTER (cuMemFree);
  LOCKED;

  return release (address, FALSE);
}

/* CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP, _WRITECOMBINED */
Status
cuMemHostAlloc (void **pointer, size_t size, unsigned int flags)
{
  CUdeviceptr address;
  Status status;
  ENTER (cuMemHostAlloc);
  LOCKED;
  REQUIRE (pointer != NULL && (flags & ~7u) == 0, FAKE_CUDA_INVALID_VALUE);

  status = allocate (FAKE_CUDA_HOST_MEMORY, size, &address);
  if (status == FAKE_CUDA_SUCCESS)
    *pointer = (void *) (guintptr) address;
  return status;
}

Status
cuMemFreeHost (void *pointer)
{
  ENTER (cuMemFreeHost);
  LOCKED;

  return release ((CUdeviceptr) (guintptr) pointer, TRUE);
}

/* Addresses are unified. */
Status
cuMemHostGetDevicePointer_v2 (CUdeviceptr *address, void *pointer, unsigned int flags)
{
  Block *block;
  Context *context;
  Status status;
  ENTER (cuMemHostGetDevicePointer);
  LOCKED;
  REQUIRE (address != NULL && flags == 0, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  block = find_block ((CUdeviceptr) (guintptr) pointer);
  REQUIRE (block != NULL && block->memory.kind == FAKE_CUDA_HOST_MEMORY, FAKE_CUDA_INVALID_VALUE);
  *address = (CUdeviceptr) (guintptr) pointer;
  return FAKE_CUDA_SUCCESS;
}

/* CU_MEM_ATTACH_GLOBAL or _HOST */
Status
cuMemAllocManaged (CUdeviceptr *address, size_t size, unsigned int flags)
{
  ENTER (cuMemAllocManaged);
  LOCKED;
  REQUIRE (address != NULL && (flags == 1 || flags == 2), FAKE_CUDA_INVALID_VALUE);

  return allocate (FAKE_CUDA_MANAGED_MEMORY, size, address);
}

Status
cuMemcpyHtoD_v2 (CUdeviceptr to, const void *from, size_t size)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemcpyHtoD);
  LOCKED;

  status = reach (to, size, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memcpy (bytes, from, size);
  return status;
}

Status
cuMemcpyDtoH_v2 (void *to, CUdeviceptr from, size_t size)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemcpyDtoH);
  LOCKED;

  status = reach (from, size, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memcpy (to, bytes, size);
  return status;
}

Status
cuMemcpyDtoD_v2 (CUdeviceptr to, CUdeviceptr from, size_t size)
{
  guint8 *to_bytes, *from_bytes;
  Status status;
  ENTER (cuMemcpyDtoD);
  LOCKED;

  status = reach (to, size, &to_bytes);
  if (status == FAKE_CUDA_SUCCESS)
    status = reach (from, size, &from_bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memmove (to_bytes, from_bytes, size);
  return status;
}

Status
cuMemsetD8_v2 (CUdeviceptr to, unsigned char value, size_t n)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemsetD8);
  LOCKED;

  status = reach (to, n, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memset (bytes, value, n);
  return status;
}

Status
cuMemsetD32_v2 (CUdeviceptr to, unsigned int value, size_t n)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemsetD32);
  LOCKED;
  REQUIRE (to % sizeof value == 0 && n <= G_MAXSIZE / sizeof value, FAKE_CUDA_INVALID_VALUE);

  status = reach (to, n * sizeof value, &bytes);
  for (size_t i = 0; status == FAKE_CUDA_SUCCESS && i < n; i++)
    memcpy (bytes + i * sizeof value, &value, sizeof value);
  return status;
}

/* The types are CU_MEMORYTYPE_HOST and _DEVICE, which managed memory is, too. */
Status
cuPointerGetAttribute (void *value, unsigned int attribute, CUdeviceptr address)
{
  const Block *block;
  Context *context;
  ENTER (cuPointerGetAttribute);
  LOCKED;
  REQUIRE (value != NULL, FAKE_CUDA_INVALID_VALUE);
  block = find_block (address);
  REQUIRE (block != NULL, FAKE_CUDA_INVALID_VALUE);

  context = fake_find_context (block->memory.context_id);
  g_assert (context != NULL);
  switch (attribute)
    {
    case ATTRIBUTE_CONTEXT:
      *(CUcontext *) value = context->handle;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_MEMORY_TYPE:
      *(guint *) value = block->memory.kind == FAKE_CUDA_HOST_MEMORY ? 1 : 2;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_IS_MANAGED:
      *(guint *) value = block->memory.kind == FAKE_CUDA_MANAGED_MEMORY;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
      *(gint *) value = block->memory.device;
      return FAKE_CUDA_SUCCESS;
    default:
      return FAKE_CUDA_INVALID_VALUE;
    }
}
