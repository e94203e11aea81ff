/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions for virtual memory: they reserve addresses, create memory of the device, and map the
 * memory at the addresses.
 *
 * The driver's functions for virtual memory need no context: their documentation names none, and on
 * an H200 they work without a current context, or with a destroyed one.  The memory does not depend
 * on a context either: it still exists after its context was destroyed or reset.  If the context is
 * gone, Tarn refuses to make new memory, as with other kinds of memory, but still releases existing
 * memory.  No function here ends the capture of a stream. */

#include "common/struct-private.h"
#include "memory-private.h"

/* Functions that ask the driver about a device */

/* Finds the value of a device's attribute.  The value is 0 if the driver does not know the
 * attribute. */
static gboolean
get_attribute (const TarnCudaDriver *driver, unsigned int attribute, CUdevice device, int *value,
               GError **error)
{
  unsigned int status = TARN_CUDA_ERROR_INVALID_VALUE;

  *value = 0;
  if (driver->cuDeviceGetAttribute != NULL)
    status = driver->cuDeviceGetAttribute (value, attribute, device);
  return status == TARN_CUDA_ERROR_INVALID_VALUE
         || _tarn_cuda_check (driver, "cuDeviceGetAttribute", status, error);
}

static gboolean
has_functions (const TarnCudaDriver *driver)
{
  return driver->cuMemGetAllocationGranularity != NULL && driver->cuMemAddressReserve != NULL
         && driver->cuMemAddressFree != NULL && driver->cuMemCreate != NULL
         && driver->cuMemRelease != NULL && driver->cuMemMap != NULL && driver->cuMemUnmap != NULL
         && driver->cuMemSetAccess != NULL;
}

static TarnCudaProperties
make_properties (const TarnCudaVirtual *self, CUdevice device, gboolean has_rdma)
{
  return (TarnCudaProperties){ .type = TARN_CUDA_MEM_ALLOCATION_TYPE_PINNED,
                               .handle_types = self->handle_types,
                               .location = { TARN_CUDA_MEM_LOCATION_TYPE_DEVICE, device },
                               .rdma = has_rdma != FALSE };
}

/* Finds the granularity of a device's virtual memory: all sizes and addresses must be multiples of
 * this number of bytes.  The device's attribute may wrongly say that the device has virtual memory.
 * Then the driver returns CUDA_ERROR_NOT_SUPPORTED, or a granularity that is no power of two, which
 * no heap could use.  In these cases, sets the granularity to 0. */
static gboolean
get_granularity (const TarnCudaVirtual *self, const TarnCudaDriver *driver, CUdevice device,
                 gsize *granularity, GError **error)
{
  TarnCudaProperties properties = make_properties (self, device, self->has_rdma);
  gsize bytes = 0;
  unsigned int status = driver->cuMemGetAllocationGranularity (
      &bytes, &properties, TARN_CUDA_MEM_ALLOC_GRANULARITY_MINIMUM);

  if (status == TARN_CUDA_ERROR_NOT_SUPPORTED)
    bytes = 0;
  else if (!_tarn_cuda_check (driver, "cuMemGetAllocationGranularity", status, error))
    return FALSE;
  *granularity = (bytes & (bytes - 1)) == 0 ? bytes : 0;
  return TRUE;
}

/* Sets *is_supported to TRUE if the driver has the functions for virtual memory, and the device
 * supports virtual memory. */
static gboolean
find_support (const TarnCudaContext *context, gboolean *is_supported, GError **error)
{
  int value = 0;

  if (has_functions (context->driver)
      && !get_attribute (context->driver,
                         TARN_CUDA_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                         context->device, &value, error))
    return FALSE;
  *is_supported = value != 0;
  return TRUE;
}

static gboolean
find_rdma (TarnCudaVirtual *self, const TarnCudaContext *context, GError **error)
{
  int value;

  if (!get_attribute (context->driver,
                      TARN_CUDA_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                      context->device, &value, error))
    return FALSE;
  self->has_rdma = value != 0;
  return TRUE;
}

/* Functions that apply the program's options */

static gboolean
set_not_supported (GError **error, CUdevice device, const gchar *what)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "CUDA device %d %s", device, what);
  return FALSE;
}

static gboolean
check_options (const TarnCudaDeviceOptions *options, GError **error)
{
  const gchar *wrong = NULL;

  if (options->n_peers > 0 && options->peers == NULL)
    wrong = "n_peers without peers";
  else if (options->plain_memory && (options->exportable || options->n_peers > 0))
    wrong = "plain_memory cannot be exportable, nor be mapped for peers";
  if (wrong == NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "TarnCudaDeviceOptions: %s", wrong);
  return FALSE;
}

static gboolean
check_exportable (const TarnCudaContext *context, GError **error)
{
  int is_supported;

  if (!get_attribute (context->driver,
                      TARN_CUDA_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                      context->device, &is_supported, error))
    return FALSE;
  return is_supported || set_not_supported (error, context->device, "cannot export memory");
}

/* Fails if the device @peer cannot access memory of the context's device.  Without this check, the
 * error would come only when Tarn maps the first memory. */
static gboolean
check_peer (const TarnCudaContext *context, CUdevice peer, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  int can_access = FALSE;

  if (driver->cuDeviceCanAccessPeer != NULL
      && !_tarn_cuda_check (driver, "cuDeviceCanAccessPeer",
                            driver->cuDeviceCanAccessPeer (&can_access, peer, context->device),
                            error))
    return FALSE;
  if (can_access)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "CUDA device %d cannot use memory of device %d", peer, context->device);
  return FALSE;
}

/* Adds @peer to the devices that can access the memory.  Sizes of memory must be multiples of each
 * of these devices' granularities, which are powers of two.  So if the granularity of @peer is
 * larger than @self->granularity, raises @self->granularity to it. */
static gboolean
add_peer (TarnCudaVirtual *self, const TarnCudaContext *context, CUdevice peer, GError **error)
{
  gsize granularity;

  if (peer == context->device)
    return TRUE;
  if (!check_peer (context, peer, error)
      || !get_granularity (self, context->driver, peer, &granularity, error))
    return FALSE;
  if (granularity == 0)
    return set_not_supported (error, peer, "has no virtual memory");
  self->granularity = MAX (self->granularity, granularity);
  self->access[self->n_access++]
      = (TarnCudaAccess){ .location = { TARN_CUDA_MEM_LOCATION_TYPE_DEVICE, peer },
                          .flags = TARN_CUDA_MEM_ACCESS_FLAGS_PROT_READWRITE };
  return TRUE;
}

static gboolean
add_all_access (TarnCudaVirtual *self, const TarnCudaContext *context,
                const TarnCudaDeviceOptions *options, GError **error)
{
  self->access = g_new (TarnCudaAccess, options->n_peers + 1);
  self->access[0]
      = (TarnCudaAccess){ .location = { TARN_CUDA_MEM_LOCATION_TYPE_DEVICE, context->device },
                          .flags = TARN_CUDA_MEM_ACCESS_FLAGS_PROT_READWRITE };
  self->n_access = 1;
  for (gsize i = 0; i < options->n_peers; i++)
    if (!add_peer (self, context, options->peers[i], error))
      return FALSE;
  return TRUE;
}

/* Finds the properties of a device's virtual memory.  If the device has no virtual memory, leaves
 * the granularity 0. */
static gboolean
find_virtual_memory (TarnCudaVirtual *self, const TarnCudaContext *context,
                     const TarnCudaDeviceOptions *options, GError **error)
{
  gboolean is_supported;

  if (!find_support (context, &is_supported, error))
    return FALSE;
  if (is_supported && options->exportable)
    {
      if (!check_exportable (context, error))
        return FALSE;
      self->handle_types = TARN_CUDA_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
  if (is_supported
      && (!find_rdma (self, context, error)
          || !get_granularity (self, context->driver, context->device, &self->granularity, error)))
    return FALSE;
  if (self->granularity > 0)
    return add_all_access (self, context, options, error);
  return (!options->exportable && options->n_peers == 0)
         || set_not_supported (error, context->device,
                               "has no virtual memory, without which memory can neither be "
                               "exported nor be mapped for peers");
}

gboolean
_tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                         const TarnCudaDeviceOptions *options, GError **error)
{
  TarnCudaDeviceOptions known = TARN_CUDA_DEVICE_OPTIONS_INIT;

  *self = (TarnCudaVirtual){ .granularity = 0 };
  if (options != NULL
      && !_tarn_struct_read_or_set_error (&known, sizeof known, options, "TarnCudaDeviceOptions",
                                          error))
    return FALSE;
  return check_options (&known, error)
         && (known.plain_memory || find_virtual_memory (self, context, &known, error));
}

void
_tarn_cuda_virtual_clear (TarnCudaVirtual *self)
{
  g_free (self->access);
}

/* Functions that a heap calls for virtual memory */

/* Returns TRUE if a call of the driver succeeded.  Otherwise returns FALSE with an error whose
 * message contains @size. */
static gboolean
check_size (const TarnCudaMemoryAllocator *self, const gchar *call, unsigned int status, gsize size,
            GError **error)
{
  if (status == TARN_CUDA_SUCCESS)
    return TRUE;
  _tarn_cuda_set_error_for_size (error, self->home.context.driver, call, status, size);
  return FALSE;
}

/* Logs a message if a call that releases memory failed. */
static void
report (const TarnCudaMemoryAllocator *self, const gchar *call, unsigned int status, gsize size)
{
  g_autoptr (GError) error = NULL;

  /* At exit the driver may be gone already, and all memory with it.  In this case this function
   * logs no message. */
  if (status == TARN_CUDA_ERROR_DEINITIALIZED || check_size (self, call, status, size, &error))
    return;
  g_message ("%s: they may be lost", error->message);
}

static gboolean
addresses_reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  CUdeviceptr pointer = 0;
  unsigned int status;

  if (!_tarn_cuda_context_check (&self->home.context, error))
    return FALSE;
  status = self->home.context.driver->cuMemAddressReserve (&pointer, size,
                                                           self->virtual_memory.granularity, 0, 0);
  if (!check_size (self, "cuMemAddressReserve", status, size, error))
    return FALSE;
  addresses->address = pointer;
  return TRUE;
}

static void
addresses_release (gpointer user_data, TarnMemory addresses, gsize size)
{
  const TarnCudaMemoryAllocator *self = user_data;

  report (self, "cuMemAddressFree",
          self->home.context.driver->cuMemAddressFree ((CUdeviceptr) addresses.address, size),
          size);
}

static unsigned int
create (const TarnCudaMemoryAllocator *self, gsize size, gboolean has_rdma,
        unsigned long long *handle)
{
  TarnCudaProperties properties
      = make_properties (&self->virtual_memory, self->home.context.device, has_rdma);

  return self->home.context.driver->cuMemCreate (handle, size, &properties, 0);
}

/* Returns TRUE if a status means that the driver does not support a call with these arguments. */
static gboolean
is_refusal (unsigned int status)
{
  return status == TARN_CUDA_ERROR_INVALID_VALUE || status == TARN_CUDA_ERROR_NOT_PERMITTED
         || status == TARN_CUDA_ERROR_NOT_SUPPORTED;
}

/* Makes memory, for GPUDirect RDMA if possible.  The device's attribute says only that the device
 * supports RDMA; a container or a virtual machine may lack other things that RDMA needs.  So if the
 * driver refuses memory with RDMA, but makes memory without it, this function logs a message, and
 * never asks for RDMA again. */
static unsigned int
create_as_can_be (TarnCudaMemoryAllocator *self, gsize size, unsigned long long *handle)
{
  gint *has_rdma = &self->virtual_memory.has_rdma;
  unsigned int status, with_rdma = TARN_CUDA_SUCCESS;

  if (g_atomic_int_get (has_rdma))
    {
      with_rdma = create (self, size, TRUE, handle);
      if (!is_refusal (with_rdma))
        return with_rdma;
    }
  status = create (self, size, FALSE, handle);
  if (status == TARN_CUDA_SUCCESS && with_rdma != TARN_CUDA_SUCCESS
      && g_atomic_int_compare_and_exchange (has_rdma, TRUE, FALSE))
    {
      g_autoptr (GError) error = NULL;

      _tarn_cuda_set_error (&error, self->home.context.driver, "cuMemCreate", with_rdma);
      g_message ("%s: memory of CUDA device %d is made without GPUDirect RDMA", error->message,
                 self->home.context.device);
    }
  return status;
}

static gboolean
backing_new (gpointer user_data, gsize size, TarnMemory *backing, GError **error)
{
  TarnCudaMemoryAllocator *self = user_data;
  unsigned long long handle = 0;

  if (!_tarn_cuda_context_check (&self->home.context, error)
      || !check_size (self, "cuMemCreate", create_as_can_be (self, size, &handle), size, error))
    return FALSE;
  backing->address = handle;
  return TRUE;
}

static void
backing_release (gpointer user_data, TarnMemory backing, gsize size)
{
  const TarnCudaMemoryAllocator *self = user_data;

  report (self, "cuMemRelease", self->home.context.driver->cuMemRelease (backing.address), size);
}

static void
backing_unmap (gpointer user_data, TarnMemory address, gsize size)
{
  const TarnCudaMemoryAllocator *self = user_data;

  report (self, "cuMemUnmap",
          self->home.context.driver->cuMemUnmap ((CUdeviceptr) address.address, size), size);
}

static gboolean
backing_map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaDriver *driver = self->home.context.driver;
  CUdeviceptr pointer = (CUdeviceptr) address.address;
  unsigned int status;

  if (!_tarn_cuda_context_check (&self->home.context, error))
    return FALSE;
  status = driver->cuMemMap (pointer, size, 0, backing.address, 0);
  if (!check_size (self, "cuMemMap", status, size, error))
    return FALSE;
  status = driver->cuMemSetAccess (pointer, size, self->virtual_memory.access,
                                   self->virtual_memory.n_access);
  if (check_size (self, "cuMemSetAccess", status, size, error))
    return TRUE;
  backing_unmap (user_data, address, size);
  return FALSE;
}

static gboolean
try_at (TarnCudaMemoryAllocator *self, TarnMemory address, GError **error)
{
  gsize size = self->virtual_memory.granularity;
  TarnMemory backing = { .address = 0 };
  gboolean is_mapped;

  if (!backing_new (self, size, &backing, error))
    return FALSE;
  is_mapped = backing_map (self, backing, size, address, error);
  if (is_mapped)
    backing_unmap (self, address, size);
  backing_release (self, backing, size);
  return is_mapped;
}

gboolean
_tarn_cuda_virtual_try (TarnCudaMemoryAllocator *self, GError **error)
{
  gsize size = self->virtual_memory.granularity;
  TarnMemory address = { .address = 0 };
  gboolean works;

  if (size == 0)
    return TRUE;
  if (!addresses_reserve (self, size, &address, error))
    return FALSE;
  works = try_at (self, address, error);
  addresses_release (self, address, size);
  return works;
}

void
_tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops)
{
  if (self->granularity == 0)
    return;
  ops->virtual_granularity = self->granularity;
  ops->addresses_reserve = addresses_reserve;
  ops->addresses_release = addresses_release;
  ops->backing_new = backing_new;
  ops->backing_release = backing_release;
  ops->backing_map = backing_map;
  ops->backing_aliases = TRUE;
  ops->backing_unmap = backing_unmap;
}
