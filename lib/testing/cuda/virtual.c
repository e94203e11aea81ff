/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Virtual memory of the fake CUDA driver: reserved addresses, backings (memory without an address),
 * and mappings of backings at addresses.  All backings are parts of one file, whose pages the
 * system allocates at the first write, so a test may have more memory than the host.  When a
 * program reserves addresses, the driver reserves the same addresses in the host's address space,
 * without access.  When a program maps a backing, the driver maps the backing's part of the file at
 * the same addresses. */

#define _GNU_SOURCE 1 /* makes the headers declare memfd_create () and fallocate () */

#include "testing/cuda/fake-private.h"

#if FAKE_CUDA_VERSION >= 10020

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PINNED 1
#define ON_DEVICE 1
#define FILE_DESCRIPTOR 1
#define READWRITE 3
#define ATTRIBUTE_VIRTUAL_MEMORY 102
#define ATTRIBUTE_FILE_DESCRIPTOR 103
#define ATTRIBUTE_RDMA 110

typedef struct
{
  CUdeviceptr address;
  gsize size;
} Range;

typedef struct
{
  CUmemAllocationProp properties;
  gsize size;
  guint64 place;    /* offset of the backing's first byte in the file */
  gpointer handle;  /* the program's handle; NULL if the program has no reference any more */
  guint references; /* the number of the program's references */
  guint n_mappings;
} Backing;

typedef struct
{
  Range range; /* must be the first field: compare_ranges () casts a Mapping to a Range */
  Backing *backing;
  guint devices; /* bit N is set if device N can access the mapping */
} Mapping;

/* The lock of the fake driver guards these variables. */
/* a set of all reserved Ranges, owned; ordered by address; no two overlap */
static GTree *reservations;
/* a set of all Mappings, owned; ordered by address; no two overlap */
static GTree *mappings;
static HandleTable handles = { .base = FAKE_HANDLES (8) };
static guint n_backings;
/* for each device, the total size of its backings, in bytes */
static guint64 backed[TARN_TESTING_CUDA_MAX_DEVICES];
static int file;
static guint64 file_size;

/* Functions that find ranges of reserved or mapped addresses.  The caller of each of these
 * functions holds the lock. */

static gint
compare_ranges (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Range *first = a, *second = b;

  (void) unused;
  return (first->address > second->address) - (first->address < second->address);
}

/* For g_tree_search (): returns 0 if the range @key overlaps the range @wanted. */
static gint
compare_overlap (gconstpointer key, gconstpointer wanted)
{
  const Range *range = key, *other = wanted;

  if (other->address < range->address)
    return range->address - other->address < other->size ? 0 : -1;
  return other->address - range->address >= range->size;
}

/* Finds a range that overlaps the wanted range, in a tree of ranges that do not overlap each other.
 * Returns NULL if there is none. */
static gpointer
find_overlap (GTree *ranges, CUdeviceptr address, gsize size)
{
  const Range wanted = { address, size };

  return g_tree_search (ranges, compare_overlap, &wanted);
}

static void __attribute__ ((constructor)) start (void)
{
  reservations = g_tree_new_full (compare_ranges, NULL, NULL, g_free);
  mappings = g_tree_new_full (compare_ranges, NULL, NULL, g_free);
  file = memfd_create ("fake-cuda", MFD_CLOEXEC);
  if (file < 0)
    g_error ("the fake driver has no memory for backings");
}

static Range *
find_reservation (CUdeviceptr address)
{
  return find_overlap (reservations, address, 1);
}

static Mapping *
find_mapping (CUdeviceptr address)
{
  return find_overlap (mappings, address, 1);
}

static gboolean
is_multiple (guint64 number)
{
  return number % FAKE_CUDA_GRANULARITY == 0;
}

static gboolean
is_range (CUdeviceptr address, gsize size)
{
  return size > 0 && is_multiple (address) && is_multiple (size)
         && (CUdeviceptr) (address + size) > address;
}

static gboolean
has_mapping (CUdeviceptr address, gsize size)
{
  return find_overlap (mappings, address, size) != NULL;
}

/* Returns TRUE if a range consists of one or more whole mappings, without a gap. */
static gboolean
is_mapped (CUdeviceptr address, gsize size)
{
  gsize done = 0;

  while (done < size)
    {
      const Mapping *mapping = find_mapping (address + done);

      if (mapping == NULL || mapping->range.address != address + done
          || mapping->range.size > size - done)
        return FALSE;
      done += mapping->range.size;
    }
  return TRUE;
}

/* Functions that other files of the fake driver call.  The caller of each of these functions holds
 * the lock. */

static gboolean
add_size (gpointer key, gpointer unused, gpointer bytes)
{
  (void) unused;
  *(guint64 *) bytes += ((Range *) key)->size;
  return FALSE;
}

guint
fake_count_virtual (TarnTestingCudaKind kind, guint64 *bytes)
{
  GTree *ranges = kind == TARN_TESTING_CUDA_ADDRESSES ? reservations : mappings;

  *bytes = 0;
  if (kind == TARN_TESTING_CUDA_BACKING)
    {
      for (guint i = 0; i < TARN_TESTING_CUDA_MAX_DEVICES; i++)
        *bytes += backed[i];
      return n_backings;
    }
  g_tree_foreach (ranges, add_size, bytes);
  return (guint) g_tree_nnodes (ranges);
}

guint64
fake_count_backed (CUdevice device)
{
  return backed[device];
}

gboolean
fake_find_mapping (CUdeviceptr address, TarnTestingCudaMemory *memory)
{
  const Mapping *mapping = find_mapping (address);

  if (mapping == NULL)
    return FALSE;
  *memory = (TarnTestingCudaMemory){ .kind = TARN_TESTING_CUDA_MAPPING,
                                     .address = mapping->range.address,
                                     .size = mapping->range.size,
                                     .device = mapping->backing->properties.location.id };
  return TRUE;
}

/* Finds the host's address of mapped bytes, which may be in several adjacent mappings.  Returns
 * FALSE if one of the bytes is not mapped, or if @device cannot access one of them. */
gboolean
fake_find_mapped_bytes (CUdeviceptr address, gsize size, CUdevice device, guint8 **bytes)
{
  CUdeviceptr at = address;

  do
    {
      const Mapping *mapping = find_mapping (at);

      if (mapping == NULL || (mapping->devices >> device & 1) == 0)
        return FALSE;
      at = mapping->range.address + mapping->range.size;
    }
  while (at - address < size);
  *bytes = (guint8 *) (guintptr) address;
  return TRUE;
}

/* Functions that reserve and release addresses */

/* Reserves aligned addresses in the host's address space.  Returns MAP_FAILED if no such addresses
 * are left. */
static void *
reserve (gsize size, gsize alignment)
{
  gsize all = size + alignment, before;
  guint8 *start;

  if (all < size)
    return MAP_FAILED;
  start = mmap (NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return MAP_FAILED;
  before = (alignment - (guintptr) start % alignment) % alignment;
  if (before > 0)
    munmap (start, before);
  munmap (start + before + size, alignment - before);
  return start + before;
}

Status
cuMemAddressReserve (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint,
                     unsigned long long flags)
{
  Range *range;
  void *start;
  ENTER (cuMemAddressReserve);
  LOCKED;
  (void) hint;
  REQUIRE (address != NULL && flags == 0 && size > 0 && is_multiple (size)
               && (alignment & (alignment - 1)) == 0,
           FAKE_CUDA_INVALID_VALUE);

  start = reserve (size, MAX (alignment, FAKE_CUDA_GRANULARITY));
  REQUIRE (start != MAP_FAILED, FAKE_CUDA_OUT_OF_MEMORY);
  range = g_new (Range, 1);
  *range = (Range){ (CUdeviceptr) (guintptr) start, size };
  g_tree_insert (reservations, range, range);
  *address = range->address;
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemAddressFree (CUdeviceptr address, size_t size)
{
  Range *range;
  ENTER (cuMemAddressFree);
  LOCKED;

  range = find_reservation (address);
  REQUIRE (range != NULL && range->address == address && range->size == size
               && !has_mapping (address, size),
           FAKE_CUDA_INVALID_VALUE);
  munmap ((void *) (guintptr) address, size);
  g_tree_remove (reservations, range);
  return FAKE_CUDA_SUCCESS;
}

/* Functions that make, find and release backings (memory without an address) */

static gboolean
has_attribute (guint attribute, CUdevice device)
{
  gint value;

  return fake_get_attribute (&value, attribute, device) && value != 0;
}

/* Checks the properties for a new backing.  Returns an error status if they are invalid, or if the
 * device does not support them.  The caller holds the lock. */
static Status
check_properties (const CUmemAllocationProp *properties)
{
  CUdevice device;

  REQUIRE (properties != NULL && properties->type == PINNED
               && properties->location.type == ON_DEVICE && properties->win32HandleMetaData == NULL
               && properties->requestedHandleTypes <= FILE_DESCRIPTOR,
           FAKE_CUDA_INVALID_VALUE);
  device = properties->location.id;
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  REQUIRE (has_attribute (ATTRIBUTE_VIRTUAL_MEMORY, device), FAKE_CUDA_NOT_SUPPORTED);
  REQUIRE (properties->requestedHandleTypes == 0
               || has_attribute (ATTRIBUTE_FILE_DESCRIPTOR, device),
           FAKE_CUDA_NOT_SUPPORTED);
  REQUIRE (properties->allocFlags.gpuDirectRDMACapable == 0
               || has_attribute (ATTRIBUTE_RDMA, device),
           FAKE_CUDA_NOT_SUPPORTED);
  return FAKE_CUDA_SUCCESS;
}

/* Returns the granularity of virtual memory.  Valid options: CU_MEM_ALLOC_GRANULARITY_MINIMUM and
 * _RECOMMENDED, which return the same number. */
Status
cuMemGetAllocationGranularity (size_t *bytes, const CUmemAllocationProp *properties,
                               unsigned int option)
{
  Status status;
  ENTER (cuMemGetAllocationGranularity);
  LOCKED;
  REQUIRE (bytes != NULL && option <= 1, FAKE_CUDA_INVALID_VALUE);

  status = check_properties (properties);
  if (status == FAKE_CUDA_SUCCESS)
    *bytes = FAKE_CUDA_GRANULARITY;
  return status;
}

/* Lengthens the file that has the bytes of all backings by @size bytes for a new backing, and
 * stores the offset of the new bytes in *place.  So a new backing has no bytes of an earlier one.
 * Writes bytes other than zero at the start of each granule: a device does not promise zeros, so no
 * test may rely on zeros. */
static gboolean
take_place (gsize size, guint64 *place)
{
  guint8 page[4096];

  if (ftruncate (file, (off_t) (file_size + size)) != 0)
    return FALSE;
  memset (page, 0xa5, sizeof page);
  for (gsize i = 0; i < size; i += FAKE_CUDA_GRANULARITY)
    if (pwrite (file, page, sizeof page, (off_t) (file_size + i)) != sizeof page)
      return FALSE;
  *place = file_size;
  file_size += size;
  return TRUE;
}

Status
cuMemCreate (CUmemGenericAllocationHandle *handle, size_t size,
             const CUmemAllocationProp *properties, unsigned long long flags)
{
  Backing *backing;
  guint64 place;
  Status status;
  ENTER (cuMemCreate);
  LOCKED;
  REQUIRE (handle != NULL && flags == 0 && size > 0 && is_multiple (size), FAKE_CUDA_INVALID_VALUE);
  status = check_properties (properties);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (size <= fake_count_available (properties->location.id) && take_place (size, &place),
           FAKE_CUDA_OUT_OF_MEMORY);

  backing = g_new (Backing, 1);
  *backing = (Backing){ .properties = *properties, .size = size, .place = place, .references = 1 };
  backing->handle = fake_handle_new (&handles, backing);
  n_backings++;
  backed[properties->location.id] += size;
  *handle = (guintptr) backing->handle;
  return FAKE_CUDA_SUCCESS;
}

/* Finds a backing by its handle.  Returns NULL if no backing has this handle.  The caller holds the
 * lock. */
static Backing *
find_backing (CUmemGenericAllocationHandle handle)
{
  return fake_handle_get (&handles, (gpointer) (guintptr) handle);
}

/* Finds a backing by its handle.  Ends the test if there is none, because a real driver would use
 * the invalid handle as a pointer. */
static Backing *
get_backing (const gchar *function, CUmemGenericAllocationHandle handle)
{
  Backing *backing = find_backing (handle);

  if (backing == NULL)
    g_error ("%s: %#" G_GINT64_MODIFIER "x is no handle of memory: a driver crashes here", function,
             (guint64) handle);
  return backing;
}

/* Frees a backing if the program has no reference to it and the backing has no mapping.  The caller
 * holds the lock. */
static void
free_unused (Backing *backing)
{
  if (backing->references > 0 || backing->n_mappings > 0)
    return;
  fallocate (file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) backing->place,
             (off_t) backing->size);
  n_backings--;
  backed[backing->properties.location.id] -= backing->size;
  g_free (backing);
}

/* Releases a reference to a backing.  The backing's memory stays as long as the backing is
 * mapped. */
Status
cuMemRelease (CUmemGenericAllocationHandle handle)
{
  Backing *backing;
  ENTER (cuMemRelease);
  LOCKED;

  backing = find_backing (handle);
  REQUIRE (backing != NULL, FAKE_CUDA_INVALID_VALUE);
  if (--backing->references == 0)
    {
      fake_handle_free (&handles, backing->handle);
      backing->handle = NULL;
    }
  free_unused (backing);
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemGetAllocationPropertiesFromHandle (CUmemAllocationProp *properties,
                                        CUmemGenericAllocationHandle handle)
{
  ENTER (cuMemGetAllocationPropertiesFromHandle);
  LOCKED;
  REQUIRE (properties != NULL, FAKE_CUDA_INVALID_VALUE);

  *properties = get_backing ("cuMemGetAllocationPropertiesFromHandle", handle)->properties;
  return FAKE_CUDA_SUCCESS;
}

/* Makes a file descriptor for a backing.  The program can do nothing with the descriptor except
 * close it: it refers to the one file that contains all backings, and does not tell which of them
 * the program exported. */
Status
cuMemExportToShareableHandle (void *shared, CUmemGenericAllocationHandle handle, unsigned int type,
                              unsigned long long flags)
{
  const Backing *backing;
  ENTER (cuMemExportToShareableHandle);
  LOCKED;
  REQUIRE (shared != NULL && flags == 0, FAKE_CUDA_INVALID_VALUE);

  backing = get_backing ("cuMemExportToShareableHandle", handle);
  REQUIRE (type == FILE_DESCRIPTOR && backing->properties.requestedHandleTypes == type,
           FAKE_CUDA_INVALID_VALUE);
  *(int *) shared = fcntl (file, F_DUPFD_CLOEXEC, 0);
  return FAKE_CUDA_SUCCESS;
}

/* Functions that map backings at addresses, and unmap them */

/* Maps a backing into the host's address space, at the same address.  If @backing is NULL, makes
 * the addresses inaccessible. */
static void
place_at (CUdeviceptr address, gsize size, const Backing *backing)
{
  void *at = (void *) (guintptr) address, *is;

  if (backing != NULL)
    is = mmap (at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
               (off_t) backing->place);
  else
    is = mmap (at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (is != at)
    g_error ("the fake driver cannot map memory");
}

/* Returns an error status if a range of addresses does not begin in a reservation.  Ends the test
 * if the range begins in a reservation and ends outside of it.  The caller holds the lock. */
static Status
check_reservation (CUdeviceptr address, gsize size)
{
  const Range *range = find_reservation (address);

  REQUIRE (range != NULL, FAKE_CUDA_INVALID_VALUE);
  if (size > range->size - (address - range->address))
    g_error ("cuMemMap: more is mapped than was reserved, which a driver lets pass");
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemMap (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
          unsigned long long flags)
{
  Backing *backing;
  Mapping *mapping;
  Status status;
  ENTER (cuMemMap);
  LOCKED;

  backing = get_backing ("cuMemMap", handle);
  REQUIRE (is_range (address, size) && offset == 0 && flags == 0 && size <= backing->size,
           FAKE_CUDA_INVALID_VALUE);
  REQUIRE (size == backing->size, FAKE_CUDA_NOT_SUPPORTED);
  status = check_reservation (address, size);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (!has_mapping (address, size), FAKE_CUDA_INVALID_VALUE);

  mapping = g_new (Mapping, 1);
  *mapping = (Mapping){ .range = { address, size }, .backing = backing };
  backing->n_mappings++;
  g_tree_insert (mappings, mapping, mapping);
  place_at (address, size, backing);
  return FAKE_CUDA_SUCCESS;
}

/* Removes a mapping.  If nothing else uses the backing, frees the backing, too.  The caller holds
 * the lock. */
static void
unmap (Mapping *mapping)
{
  Backing *backing = mapping->backing;

  place_at (mapping->range.address, mapping->range.size, NULL);
  g_tree_remove (mappings, mapping);
  backing->n_mappings--;
  free_unused (backing);
}

/* Unmaps one or several whole mappings. */
Status
cuMemUnmap (CUdeviceptr address, size_t size)
{
  gsize done = 0;
  ENTER (cuMemUnmap);
  LOCKED;
  REQUIRE (is_range (address, size), FAKE_CUDA_INVALID_VALUE);

  for (gsize i = 0; i < size; i += FAKE_CUDA_GRANULARITY)
    if (find_mapping (address + i) == NULL)
      g_error ("cuMemUnmap: nothing is mapped there, which a driver lets pass");
  REQUIRE (is_mapped (address, size), FAKE_CUDA_INVALID_VALUE);
  while (done < size)
    {
      Mapping *mapping = find_mapping (address + done);

      done += mapping->range.size;
      unmap (mapping);
    }
  return FAKE_CUDA_SUCCESS;
}

/* Functions that allow devices to access mappings */

/* Returns an error status if @access is invalid, or if its device cannot access the mapping.  The
 * caller holds the lock. */
static Status
check_access (const CUmemAccessDesc *access, const Mapping *mapping)
{
  CUdevice device = access->location.id;

  REQUIRE (access->location.type == ON_DEVICE && (access->flags == 0 || access->flags == READWRITE),
           FAKE_CUDA_INVALID_VALUE);
  return fake_is_device (device) && has_attribute (ATTRIBUTE_VIRTUAL_MEMORY, device)
                 && fake_can_access (device, mapping->backing->properties.location.id)
             ? FAKE_CUDA_SUCCESS
             : FAKE_CUDA_INVALID_DEVICE;
}

/* Sets which devices may access a mapping.  Each of the @n elements of @access allows or forbids
 * one device.  Stops with an error status at the first invalid element.  The caller holds the lock.
 */
static Status
set_access (Mapping *mapping, const CUmemAccessDesc *access, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      Status status = check_access (&access[i], mapping);
      guint bit = 1u << access[i].location.id;

      REQUIRE (status == FAKE_CUDA_SUCCESS, status);
      mapping->devices = access[i].flags != 0 ? mapping->devices | bit : mapping->devices & ~bit;
    }
  return FAKE_CUDA_SUCCESS;
}

/* Sets the devices' access to whole mappings.  Fails for read-only access, which the fake driver
 * does not have. */
Status
cuMemSetAccess (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t n)
{
  Status status = FAKE_CUDA_SUCCESS;
  gsize done = 0;
  ENTER (cuMemSetAccess);
  LOCKED;
  REQUIRE (is_range (address, size) && access != NULL && n > 0 && is_mapped (address, size),
           FAKE_CUDA_INVALID_VALUE);

  while (status == FAKE_CUDA_SUCCESS && done < size)
    {
      Mapping *mapping = find_mapping (address + done);

      status = set_access (mapping, access, n);
      done += mapping->range.size;
    }
  return status;
}

Status
cuMemGetAccess (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
  const Mapping *mapping;
  ENTER (cuMemGetAccess);
  LOCKED;
  REQUIRE (flags != NULL && location != NULL && location->type == ON_DEVICE
               && fake_is_device (location->id),
           FAKE_CUDA_INVALID_VALUE);

  mapping = find_mapping (address);
  REQUIRE (mapping != NULL, FAKE_CUDA_INVALID_VALUE);
  *flags = (mapping->devices >> location->id & 1) != 0 ? READWRITE : 0;
  return FAKE_CUDA_SUCCESS;
}

#if FAKE_CUDA_VERSION >= 11000
/* Returns the handle of the backing that is mapped at an address, and adds a reference to the
 * backing. */
Status
cuMemRetainAllocationHandle (CUmemGenericAllocationHandle *handle, void *address)
{
  const Mapping *mapping;
  Backing *backing;
  ENTER (cuMemRetainAllocationHandle);
  LOCKED;
  REQUIRE (handle != NULL, FAKE_CUDA_INVALID_VALUE);

  mapping = find_mapping ((CUdeviceptr) (guintptr) address);
  REQUIRE (mapping != NULL, FAKE_CUDA_INVALID_VALUE);
  backing = mapping->backing;
  if (backing->references++ == 0)
    backing->handle = fake_handle_new (&handles, backing);
  *handle = (guintptr) backing->handle;
  return FAKE_CUDA_SUCCESS;
}
#endif

#endif
