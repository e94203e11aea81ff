/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A memo (a cache of computed values) of kernels.  For each context and device, it builds a source
 * only once.  It uses a second memo, of programs, so that all kernels of a source share one build.
 * Two threads must not set arguments of the same kernel object at the same time (clSetKernelArg,
 * OpenCL 3.0, section 5.9.2), so the memo gives each thread its own kernel object. */

#include "common/argument-private.h"
#include "common/struct-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "program-private.h"
#include "status-private.h"

/* Functions for keys
 *
 * The memo of kernels and the memo of programs use the same keys.  In the keys of programs,
 * kernel_name is NULL.  A key has four parts: source, options, kernel_name and device. */

#define N_PARTS 4

static gboolean
read_key (TarnOpenclKernelKey *key, gconstpointer theirs, GError **error)
{
  *key = (TarnOpenclKernelKey) TARN_OPENCL_KERNEL_KEY_INIT;
  return _tarn_struct_read_or_set_error (key, sizeof *key, theirs, "TarnOpenclKernelKey", error);
}

static const gchar *
get_options (const TarnOpenclKernelKey *key)
{
  return key->options != NULL ? key->options : "";
}

/* Splits a key into the parts that the memo compares.  Returns FALSE if the caller was compiled for
 * another version of Tarn, and this version cannot read the caller's struct.  The memo never stores
 * a value for an unreadable key, so the functions below treat this key as equal only to itself. */
static gboolean
get_parts (gconstpointer theirs, TarnMemoKeyPart *parts)
{
  TarnOpenclKernelKey key;

  if (!read_key (&key, theirs, NULL))
    return FALSE;
  parts[0] = tarn_memo_key_string (key.source);
  parts[1] = tarn_memo_key_string (get_options (&key));
  parts[2] = tarn_memo_key_string (key.kernel_name);
  parts[3] = tarn_memo_key_pointer (key.device);
  return TRUE;
}

static guint
key_hash (gconstpointer key)
{
  TarnMemoKeyPart parts[N_PARTS];
  TarnMemoKeyTuple tuple = { parts, N_PARTS };

  return get_parts (key, parts) ? tarn_memo_key_tuple_hash (&tuple) : 0;
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  TarnMemoKeyPart left[N_PARTS], right[N_PARTS];
  TarnMemoKeyTuple tuple = { left, N_PARTS }, other = { right, N_PARTS };

  if (!get_parts (a, left) || !get_parts (b, right))
    return a == b;
  return tarn_memo_key_tuple_equal (&tuple, &other);
}

/* The memo's own copy of a key.  The copy has a reference to the key's device.  Without this
 * reference, the program could release the device if it is a sub-device.  A new sub-device could
 * then get the same address and be mistaken for the old one. */
typedef struct
{
  /* must be the first field, because key_hash () reads an OwnKey as a TarnOpenclKernelKey */
  TarnOpenclKernelKey key;
  gboolean has_device; /* TRUE if the copy has a reference to the device */
} OwnKey;

/* Copies a key for the memo.  Tarn can read the struct @key: the memo copies only keys for which it
 * has computed a value, and it computes none for a struct that Tarn cannot read. */
static gpointer
key_copy (gconstpointer key)
{
  OwnKey *own = g_new (OwnKey, 1);

  read_key (&own->key, key, NULL);
  own->key.source = g_strdup (own->key.source);
  own->key.options = g_strdup (own->key.options);
  own->key.kernel_name = g_strdup (own->key.kernel_name);
  own->has_device = _tarn_opencl_ref_device (own->key.device);
  return own;
}

static void
key_free (gpointer key)
{
  OwnKey *own = key;

  if (own->has_device)
    _tarn_opencl_unref_device (own->key.device);
  g_free ((gchar *) own->key.source);
  g_free ((gchar *) own->key.options);
  g_free ((gchar *) own->key.kernel_name);
  g_free (own);
}

static void
set_key_functions (TarnMemoOps *ops)
{
  ops->key_type = TARN_MEMO_KEY_STRUCT;
  ops->hash = key_hash;
  ops->equal = key_equal;
  ops->copy_key = key_copy;
  ops->free_key = key_free;
}

static gboolean
read_complete_key (TarnOpenclKernelKey *key, gconstpointer theirs, GError **error)
{
  const gchar *missing;

  if (!read_key (key, theirs, error))
    return FALSE;
  missing = key->source == NULL        ? "source"
            : key->kernel_name == NULL ? "kernel_name"
            : key->device == NULL      ? "device"
                                       : NULL;
  if (missing == NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "the key of a kernel has no %s",
               missing);
  return FALSE;
}

/* Functions for the memo of programs */

static gpointer
program_ref (gpointer unused, gpointer program)
{
  (void) unused;
  return _tarn_cl.clRetainProgram (program) == CL_SUCCESS ? program : NULL;
}

static void
program_unref (gpointer unused, gpointer program, gpointer context, gboolean is_dead)
{
  (void) unused;
  (void) context;
  (void) is_dead;
  _tarn_opencl_report_release ("clReleaseProgram", _tarn_cl.clReleaseProgram (program));
}

static gpointer
compute_program (gpointer context, gconstpointer data, gpointer unused, GError **error)
{
  const TarnOpenclKernelKey *key = data;

  (void) unused;
  return _tarn_opencl_build_program (context, key->device, key->source, get_options (key), error);
}

static TarnMemo *
program_memo_new (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  set_key_functions (&ops);
  ops.ref_value = program_ref;
  ops.unref_value = program_unref;
  return tarn_opencl_context_memo_new (&ops, compute_program, NULL, NULL);
}

/* Functions for the memo of kernels */

static gpointer
kernel_ref (gpointer unused, gpointer kernel)
{
  (void) unused;
  return _tarn_cl.clRetainKernel (kernel) == CL_SUCCESS ? kernel : NULL;
}

static void
kernel_unref (gpointer unused, gpointer kernel, gpointer context, gboolean is_dead)
{
  (void) unused;
  (void) context;
  (void) is_dead;
  _tarn_opencl_report_release ("clReleaseKernel", _tarn_cl.clReleaseKernel (kernel));
}

static cl_kernel
create_kernel (cl_program program, const gchar *name, GError **error)
{
  cl_int status;
  cl_kernel kernel = _tarn_cl.clCreateKernel (program, name, &status);

  if (status == CL_SUCCESS)
    return kernel;
  _tarn_opencl_set_error_with_text (error, "clCreateKernel", status, name);
  return NULL;
}

/* Makes the kernel that the memo stores for all threads.  Threads do not use the stored kernel
 * itself.  For each thread, make_kernel_for_thread () asks the stored kernel for its OpenCL
 * program, and makes the thread's own kernel from that program. */
static gpointer
make_kernel (gpointer context, gconstpointer data, gpointer programs, GError **error)
{
  TarnOpenclKernelKey key, program_key;
  gpointer program;
  cl_kernel kernel;

  if (!_tarn_opencl_load (error) || !read_complete_key (&key, data, error))
    return NULL;
  program_key = key;
  program_key.kernel_name = NULL;
  if (!tarn_memo_get (programs, context, &program_key, &program, error))
    return NULL;
  kernel = create_kernel (program, key.kernel_name, error);
  program_unref (NULL, program, context, FALSE);
  return kernel;
}

static gpointer
make_kernel_for_thread (gpointer unused, gpointer kernel, gpointer context, gconstpointer data,
                        GError **error)
{
  TarnOpenclKernelKey key;
  cl_program program;
  cl_int status
      = _tarn_cl.clGetKernelInfo (kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);

  (void) unused;
  (void) context;
  if (!_tarn_opencl_check (status, "clGetKernelInfo", error) || !read_key (&key, data, error))
    return NULL;
  return create_kernel (program, key.kernel_name, error);
}

TarnMemo *
tarn_opencl_kernel_memo_new (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) programs = program_memo_new ();

  set_key_functions (&ops);
  ops.upstream = programs;
  ops.ref_value = kernel_ref;
  ops.unref_value = kernel_unref;
  ops.value_for_thread = make_kernel_for_thread;
  return tarn_opencl_context_memo_new (&ops, make_kernel, programs, NULL);
}

gboolean
tarn_opencl_kernel_memo_get (TarnMemo *memo, cl_context context, const TarnOpenclKernelKey *key,
                             cl_kernel *kernel, GError **error)
{
  TarnOpenclKernelKey known;
  gpointer value;

  g_return_val_if_fail (key != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (memo, FALSE);
  TARN_REFUSE_NULL (context, FALSE);
  g_return_val_if_fail (kernel != NULL, FALSE);

  if (!_tarn_opencl_load (error) || !read_key (&known, key, error))
    return FALSE;
  if (!tarn_memo_get (memo, context, &known, &value, error))
    return FALSE;
  *kernel = value;
  return TRUE;
}
