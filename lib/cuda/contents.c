/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads, fills and searches the bytes of blocks, for the checks of TARN_DEBUG.  The functions
 * access device memory on the default stream, after the commands that the program has put on
 * blocking streams.  While a blocking stream is being captured, they do not access device memory,
 * and fail, because they would end the capture. */

#include "memory-private.h"

#include <string.h>

#define LEGACY ((CUstream) GUINT_TO_POINTER (1)) /* the constant CU_STREAM_LEGACY of <cuda.h> */

/* Copies device memory to the host.  The driver waits for earlier commands on the default stream.
 * The copy is complete when this function returns. */
static gboolean
copy_from_device (const TarnCudaMemoryAllocator *self, CUdeviceptr from, gsize size, gpointer bytes,
                  GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;

  return _tarn_cuda_check (driver, "cuMemcpyDtoH", driver->cuMemcpyDtoH (bytes, from, size), error);
}

static gboolean
fill_device (const TarnCudaMemoryAllocator *self, CUdeviceptr to, gsize size, guint8 byte,
             GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  guint8 last;

  return _tarn_cuda_check (driver, "cuMemsetD8", driver->cuMemsetD8 (to, byte, size), error)
         && copy_from_device (self, to + size - 1, 1, &last, error);
}

gboolean
_tarn_cuda_memory_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        gpointer bytes, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  TarnCudaScope scope;
  gboolean is_read;

  if (self->kind == TARN_CUDA_HOST_MEMORY)
    {
      memcpy (bytes, (const guint8 *) memory.pointer + offset, size);
      return TRUE;
    }
  if (!_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  is_read = _tarn_cuda_context_check_capture (context, LEGACY, error)
            && copy_from_device (self, (CUdeviceptr) (memory.address + offset), size, bytes, error);
  _tarn_cuda_context_leave (context, &scope);
  return is_read;
}

gboolean
_tarn_cuda_memory_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        guint8 byte, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  TarnCudaScope scope;
  gboolean is_filled;

  if (self->kind == TARN_CUDA_HOST_MEMORY)
    {
      memset ((guint8 *) memory.pointer + offset, byte, size);
      return TRUE;
    }
  if (!_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  is_filled = _tarn_cuda_context_check_capture (context, LEGACY, error)
              && fill_device (self, (CUdeviceptr) (memory.address + offset), size, byte, error);
  _tarn_cuda_context_leave (context, &scope);
  return is_filled;
}

/* The finder: a CUDA kernel that finds the lowest offset of a byte that differs from a given
 * value.  Each thread of the grid compares every nth byte, where n is the number of threads in the
 * grid. */

#define THREADS 256
#define MAX_GRID 4096

static const gchar finder_text[]
    = ".version 6.0\n"
      ".target sm_50\n"
      ".address_size 64\n"
      ".visible .entry tarn_find_other (.param .u64 from, .param .u64 size, .param .u32 byte,\n"
      "                                 .param .u64 first)\n"
      "{\n"
      "  .reg .pred %p<3>;\n"
      "  .reg .u32 %r<7>;\n"
      "  .reg .u64 %d<9>;\n"
      "  ld.param.u64 %d1, [from];\n"
      "  ld.param.u64 %d2, [size];\n"
      "  ld.param.u32 %r1, [byte];\n"
      "  ld.param.u64 %d3, [first];\n"
      "  mov.u32 %r2, %ctaid.x;\n"
      "  mov.u32 %r3, %ntid.x;\n"
      "  mov.u32 %r4, %tid.x;\n"
      "  mov.u32 %r5, %nctaid.x;\n"
      "  mul.wide.u32 %d4, %r2, %r3;\n"
      "  cvt.u64.u32 %d5, %r4;\n"
      "  add.u64 %d4, %d4, %d5;\n"      /* this thread's first offset */
      "  mul.wide.u32 %d6, %r5, %r3;\n" /* the distance to this thread's next offset */
      "NEXT:\n"
      "  setp.ge.u64 %p1, %d4, %d2;\n"
      "  @%p1 bra END;\n"
      "  add.u64 %d7, %d1, %d4;\n"
      "  ld.global.u8 %r6, [%d7];\n"
      "  setp.eq.u32 %p2, %r6, %r1;\n"
      "  @%p2 bra SAME;\n"
      "  atom.global.min.u64 %d8, [%d3], %d4;\n"
      "SAME:\n"
      "  add.u64 %d4, %d4, %d6;\n"
      "  bra NEXT;\n"
      "END:\n"
      "  ret;\n"
      "}\n";

void
_tarn_cuda_finder_init (TarnCudaFinder *self)
{
  _tarn_mutex_init (&self->lock);
}

/* Unloads the finder, the kernel that finds a byte that differs from a given value.  Does nothing
 * if the context is gone, because the driver has unloaded the finder with the context. */
void
_tarn_cuda_finder_clear (TarnCudaFinder *self, const TarnCudaContext *context)
{
  TarnCudaScope scope;

  if (self->module != NULL && _tarn_cuda_context_enter (context, &scope, NULL))
    {
      context->driver->cuMemFree (self->first);
      context->driver->cuModuleUnload (self->module);
      _tarn_cuda_context_leave (context, &scope);
    }
  _tarn_mutex_clear (&self->lock);
}

/* Compiles the finder, the kernel that finds a byte that differs from a given value, and allocates
 * memory for the kernel's result.  If the driver refuses a step, sets the field module to NULL.
 * Then the host compares the bytes. */
static void
make_finder (TarnCudaFinder *self, const TarnCudaDriver *driver)
{
  self->is_made = TRUE;
  if (driver->cuModuleLoadDataEx (&self->module, finder_text, 0, NULL, NULL) != TARN_CUDA_SUCCESS)
    {
      self->module = NULL;
      return;
    }
  if (driver->cuModuleGetFunction (&self->function, self->module, "tarn_find_other")
          == TARN_CUDA_SUCCESS
      && driver->cuMemAlloc (&self->first, sizeof (guint64)) == TARN_CUDA_SUCCESS)
    return;
  driver->cuModuleUnload (self->module);
  self->module = NULL;
}

/* Runs the finder on the @size bytes from @from on.  Stores in @place the offset of the first byte
 * that differs from @byte, or G_MAXUINT64 if no byte differs. */
static gboolean
run_finder (TarnCudaMemoryAllocator *self, CUdeviceptr from, guint64 size, guint8 byte,
            guint64 *place, GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  TarnCudaFinder *finder = &self->finder;
  guint32 wanted = byte;
  void *parameters[] = { &from, &size, &wanted, &finder->first };
  guint grid = (guint) MIN ((size + THREADS - 1) / THREADS, MAX_GRID);

  return _tarn_cuda_check (driver, "cuMemsetD8",
                           driver->cuMemsetD8 (finder->first, 0xff, sizeof *place), error)
         && _tarn_cuda_check (driver, "cuLaunchKernel",
                              driver->cuLaunchKernel (finder->function, grid, 1, 1, THREADS, 1, 1,
                                                      0, NULL, parameters, NULL),
                              error)
         && copy_from_device (self, finder->first, sizeof *place, place, error);
}

static gboolean
find_locked (TarnCudaMemoryAllocator *self, CUdeviceptr from, gsize size, guint8 byte,
             guint64 *place, GError **error)
{
  TarnCudaFinder *finder = &self->finder;
  gboolean is_done;

  _tarn_mutex_lock (&finder->lock);
  if (!finder->is_made)
    make_finder (finder, self->home.context.driver);
  /* without the kernel, returns offset 0, so that the caller compares all bytes on the host */
  *place = 0;
  is_done = finder->module == NULL || run_finder (self, from, size, byte, place, error);
  _tarn_mutex_unlock (&finder->lock);
  return is_done;
}

gboolean
_tarn_cuda_memory_find_other (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                              guint8 byte, gsize *first, GError **error)
{
  TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  TarnCudaScope scope;
  gboolean is_done;
  guint64 place = 0;

  if (!_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  is_done
      = _tarn_cuda_context_check_capture (context, LEGACY, error)
        && find_locked (self, (CUdeviceptr) (memory.address + offset), size, byte, &place, error);
  _tarn_cuda_context_leave (context, &scope);
  *first = offset + (gsize) MIN (place, size);
  return is_done;
}
