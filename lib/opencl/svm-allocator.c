/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of shared virtual memory (SVM; OpenCL 3.0 specification, section 5.6).  OpenCL 2.0
 * brought the functions for SVM.  Tarn calls these functions only if every device of the context is
 * of OpenCL 2.0 or later.  It is not enough that the OpenCL loader has the functions, because the
 * loader has them even for platforms that lack them.  On some older platforms, a call of one of
 * them never returns. */

#include "common/argument-private.h"
#include "common/other-block-private.h"
#include "common/shorten-private.h"
#include "contents-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "order-private.h"
#include "status-private.h"
#include "svm-frees-private.h"

/* Constants of OpenCL 2.0, which headers of OpenCL 1.2 lack. */
#define MEM_SVM_FINE_GRAIN_BUFFER (1 << 10)
#define MEM_SVM_ATOMICS (1 << 11)

/* The default alignment, in bytes.  If the program asks for the alignment 0, clSVMAlloc () uses the
 * default alignment, and the allocator uses it for suballocations, too.  The default is the size of
 * the largest types of OpenCL C, double16 and long16 (OpenCL 3.0 specification, section 5.6.1). */
#define DEFAULT_ALIGNMENT (16 * sizeof (cl_long))

typedef struct
{
  TarnOpenclHome home;    /* must be the first field: see order-private.h */
  TarnOpenclFrees *frees; /* a reference to the list of queues that will free memory */
  cl_uint alignment;
  cl_bitfield flags;
} SvmAllocator;

static gboolean
check_functions (GError **error)
{
  if (_tarn_cl.clSVMAlloc != NULL && _tarn_cl.clSVMFree != NULL && _tarn_cl.clEnqueueSVMFree != NULL
      && _tarn_cl.clEnqueueSVMMemcpy != NULL)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                       "the OpenCL loader is older than OpenCL 2.0: it has no clSVMAlloc");
  return FALSE;
}

/* Allocates memory.  If the driver has no memory left, the host waits for the commands on queues
 * that will free memory, and then this function tries again.  A reclaim function, which the pool
 * calls when memory runs out, could not replace this wait: the pool calls it only once for a
 * request, and perhaps before other threads have enqueued all of their commands that free memory.
 */
static gboolean
svm_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  const SvmAllocator *self = user_data;
  guint64 n_frees;
  gpointer pointer;

  /* Do not call clSVMAlloc () for 0 bytes: it returns NULL, as it does if memory has run out. */
  if (size == 0)
    return TRUE;
  n_frees = _tarn_opencl_frees_count (self->frees);
  pointer = _tarn_cl.clSVMAlloc (self->home.context, self->flags, size, self->alignment);
  if (pointer == NULL && _tarn_opencl_frees_await (self->frees, n_frees))
    pointer = _tarn_cl.clSVMAlloc (self->home.context, self->flags, size, self->alignment);
  if (pointer != NULL)
    {
      memory->pointer = pointer;
      return TRUE;
    }
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "clSVMAlloc: NULL for %" G_GSIZE_FORMAT " bytes", size);
  return FALSE;
}

static void
svm_free (gpointer user_data, TarnMemory memory, gsize size)
{
  const SvmAllocator *self = user_data;

  (void) size;
  if (memory.pointer != NULL)
    _tarn_cl.clSVMFree (self->home.context, memory.pointer);
}

/* The user data of the two callbacks of a free command (clEnqueueSVMFree ()): the callback of the
 * command, and the callback of the command's event.  The struct contains the list of pointers that
 * clEnqueueSVMFree () gets.  The struct lives until the command has run, because the specification
 * does not say that drivers copy the list, and NVIDIA's driver 580 reads the list only when the
 * command runs. */
typedef struct
{
  gint ref_count;     /* atomic: the number of callbacks that will still run */
  gint is_freed;      /* atomic: TRUE once a callback frees the memory */
  cl_context context; /* borrowed: the command's queue keeps the context alive */
  TarnOpenclFrees *frees;
  TarnOpenclFreeQueue *queue;
  gpointer pointers[1];
} Parting;

static void
parting_unref (Parting *parting)
{
  if (g_atomic_int_dec_and_test (&parting->ref_count))
    g_free (parting);
}

/* Frees the memory if the other callback has not freed it. */
static void
free_once (Parting *parting)
{
  if (!g_atomic_int_compare_and_exchange (&parting->is_freed, FALSE, TRUE))
    return;
  _tarn_cl.clSVMFree (parting->context, parting->pointers[0]);
  _tarn_opencl_frees_end (parting->frees, parting->queue);
  /* Drop the reference that was taken for part ().  Either part () has called this function, or the
   * driver never calls part (). */
  parting_unref (parting);
}

/* The callback of a free command (clEnqueueSVMFree ()): frees the memory. */
static void CL_CALLBACK
part (cl_command_queue queue, cl_uint n_pointers, gpointer pointers[], gpointer user_data)
{
  (void) queue;
  (void) n_pointers;
  (void) pointers;
  free_once (user_data);
}

/* The callback of the event of a free command.  If an earlier command on the queue has failed, the
 * driver does not run the free command, and never calls part ().  In this case this function frees
 * the memory.  It asks for the event's status, because NVIDIA's driver 580 passes CL_COMPLETE even
 * after a failure. */
static void CL_CALLBACK
end_parting (cl_event event, cl_int state, gpointer user_data)
{
  Parting *parting = user_data;

  (void) state;
  if (_tarn_cl.clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL)
          == CL_SUCCESS
      && state < 0)
    free_once (parting);
  parting_unref (parting);
}

/* Makes end_parting () run at the end of the command whose event is @event.  Releases the event. */
static void
watch (Parting *parting, cl_event event)
{
  cl_int status = _tarn_cl.clSetEventCallback (event, CL_COMPLETE, end_parting, parting);

  if (status != CL_SUCCESS)
    {
      g_message ("clSetEventCallback: %s (%d): a command that fails does not free its memory",
                 tarn_opencl_status_name (status), status);
      parting_unref (parting);
    }
  _tarn_opencl_report_release ("clReleaseEvent", _tarn_cl.clReleaseEvent (event));
}

static gboolean
svm_free_on_queue (gpointer user_data, TarnMemory memory, gsize size, gpointer queue)
{
  const SvmAllocator *self = user_data;
  g_autoptr (GError) error = NULL;
  Parting *parting;
  cl_event event;

  (void) size;
  if (memory.pointer == NULL)
    return TRUE;
  parting = g_new (Parting, 1);
  *parting = (Parting){ .ref_count = 2,
                        .context = self->home.context,
                        .frees = self->frees,
                        .queue = _tarn_opencl_frees_begin (self->frees, queue),
                        .pointers = { memory.pointer } };
  if (!_tarn_opencl_check (
          _tarn_cl.clEnqueueSVMFree (queue, 1, parting->pointers, part, parting, 0, NULL, &event),
          "clEnqueueSVMFree", &error))
    {
      g_message ("%s: the host waits instead", error->message);
      _tarn_opencl_frees_end (parting->frees, parting->queue);
      g_free (parting);
      return FALSE;
    }
  watch (parting, event);
  _tarn_cl.clFlush (queue);
  return TRUE;
}

/* Makes a suballocation, which is only an address, so it needs no OpenCL call: kernels and commands
 * accept any address within shared virtual memory (OpenCL 3.0 specification, section 5.9.2,
 * clSetKernelArgSVMPointer).  Only functions that free memory need the address that clSVMAlloc ()
 * returned. */
static gboolean
svm_part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
              GError **error)
{
  (void) user_data;
  (void) size;
  (void) error;
  part->pointer = (guint8 *) memory.pointer + offset;
  return TRUE;
}

/* Sets the fields of @ops for suballocations.  If the alignment is neither 0 nor a power of two,
 * sets none of these fields, because clSVMAlloc () refuses such an alignment anyway. */
static void
set_parts (TarnAllocatorOps *ops, cl_uint alignment)
{
  if ((alignment & (alignment - 1)) != 0)
    return;
  ops->part_alignment = alignment != 0 ? alignment : DEFAULT_ALIGNMENT;
  ops->part_new = svm_part_new;
}

static void
svm_allocator_free (gpointer user_data)
{
  SvmAllocator *self = user_data;

  _tarn_opencl_frees_unref (self->frees);
  _tarn_opencl_home_clear (&self->home);
  g_free (self);
}

static gboolean
refuse_device (cl_device_id device, const gchar *what, GError **error)
{
  g_autofree gchar *name = _tarn_opencl_get_device_string (device, CL_DEVICE_NAME, NULL);
  g_autofree gchar *quoted = _tarn_shorten (name != NULL ? name : "?");

  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "device '%s' of the context has no %s",
               quoted, what);
  return FALSE;
}

static gboolean
check_support (cl_device_id device, cl_bitfield flags, GError **error)
{
  gboolean has_coarse = FALSE, has_fine = FALSE, has_atomics = FALSE;

  if (!tarn_opencl_has_coarse_grain_buffer_svm (device, &has_coarse, error)
      || !tarn_opencl_has_fine_grain_buffer_svm (device, &has_fine, error)
      || !tarn_opencl_has_fine_grain_buffer_svm_atomics (device, &has_atomics, error))
    return FALSE;
  if (!has_coarse)
    return refuse_device (device, "shared virtual memory", error);
  if ((flags & MEM_SVM_FINE_GRAIN_BUFFER) != 0 && !has_fine)
    return refuse_device (device, "fine-grain shared virtual memory (CL_MEM_SVM_FINE_GRAIN_BUFFER)",
                          error);
  if ((flags & MEM_SVM_ATOMICS) != 0 && !has_atomics)
    return refuse_device (device, "atomics in shared virtual memory (CL_MEM_SVM_ATOMICS)", error);
  return TRUE;
}

static gboolean
check_devices (cl_context context, cl_bitfield flags, GError **error)
{
  g_autoptr (GArray) devices = _tarn_opencl_list_devices (context, error);

  if (devices == NULL)
    return FALSE;
  for (guint i = 0; i < devices->len; i++)
    if (!check_support (g_array_index (devices, cl_device_id, i), flags, error))
      return FALSE;
  return TRUE;
}

static gboolean
svm_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
          GError **error)
{
  const SvmAllocator *self = user_data;

  return _tarn_opencl_read_svm (&self->home, (const guint8 *) memory.pointer + offset, size, bytes,
                                error);
}

static gboolean
svm_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
          GError **error)
{
  const SvmAllocator *self = user_data;

  return _tarn_opencl_fill_svm (&self->home, (guint8 *) memory.pointer + offset, size, byte, error);
}

/* Fails if the queue belongs to another context or is an out-of-order queue.  On an out-of-order
 * queue, a command that frees memory could run before earlier commands that use the memory. */
static gboolean
check_own_queue (cl_command_queue queue, cl_context context, GError **error)
{
  return _tarn_opencl_check_queue (queue, context, error)
         && _tarn_opencl_check_in_order (queue, error);
}

TarnAllocator *
tarn_opencl_svm_allocator_new (cl_context context, cl_uint alignment, cl_bitfield flags,
                               cl_command_queue queue, GError **error)
{
  SvmAllocator made = { .alignment = alignment, .flags = _tarn_opencl_add_access (flags) };
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  SvmAllocator *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (context, NULL);

  if (!_tarn_opencl_load (error) || !check_devices (context, flags, error)
      || !check_functions (error) || (queue != NULL && !check_own_queue (queue, context, error))
      || !_tarn_opencl_home_init (&made.home, context, queue, error))
    return NULL;
  made.frees = _tarn_opencl_frees_new ();
  self = g_new (SvmAllocator, 1);
  *self = made;
  ops.name = "opencl-svm";
  ops.allocate = svm_allocate;
  ops.free = svm_free;
  ops.free_on_queue = svm_free_on_queue;
  ops.read = svm_read;
  ops.get_memory = _tarn_opencl_get_memory;
  ops.fill = svm_fill;
  set_parts (&ops, alignment);
  _tarn_opencl_set_order (&ops);
  return tarn_allocator_new (&ops, self, svm_allocator_free);
}

gboolean
_tarn_opencl_is_svm (const TarnBlock *block)
{
  return tarn_allocator_is_of (tarn_block_get_allocator (block), svm_free);
}

gpointer
tarn_opencl_block_get_svm (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  if (!_tarn_opencl_is_svm (block))
    {
      _tarn_report_other_block (G_STRFUNC, block, "'opencl-svm'");
      return NULL;
    }

  return tarn_block_get_memory (block).pointer;
}
