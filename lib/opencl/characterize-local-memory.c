/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out how work items access a device's local memory, such as the number of banks.  OpenCL has
 * no query for this.  Most answers are known only for NVIDIA's early devices, and are guesses for
 * other devices.  A function whose answer may be a guess tells its caller so. */

#include "common/argument-private.h"
#include "device-private.h"
#include "driver-private.h"

/* A device's type and compute capability, from which this file infers how its local memory works.
 */
typedef struct
{
  cl_device_type type;
  guint major, minor; /* CUDA's compute capability; 0 and 0 if the device has none */
} Kind;

static gboolean
get_kind (cl_device_id device, Kind *kind, GError **error)
{
  return _tarn_opencl_get_device_value (device, CL_DEVICE_TYPE, &kind->type, sizeof kind->type,
                                        error)
         && tarn_opencl_nv_compute_capability (device, &kind->major, &kind->minor, error);
}

static gboolean
is_cpu (const Kind *kind)
{
  return kind->major == 0 && (kind->type & CL_DEVICE_TYPE_GPU) == 0
         && (kind->type & CL_DEVICE_TYPE_CPU) != 0;
}

/* Returns the number of banks of local memory.  This is also the number of work items that can
 * access local memory at the same time. */
static guint
get_width (const Kind *kind)
{
  return kind->major >= 2 ? 32 : 16;
}

/* Returns a text, transfer full, that explains why a number of banks or of simultaneous work items
 * is a guess.  Returns NULL if the number is known.  @what: what the number counts, such as
 * "banks". */
static gchar *
explain_guess (const Kind *kind, const gchar *what)
{
  const gchar *device = "neither a GPU nor a CPU";

  if (kind->major == 1 || kind->major == 2)
    return NULL;
  if (kind->major > 2)
    return g_strdup_printf ("the number of %s is that of compute capability 2.x, but the device "
                            "has %u.%u",
                            what, kind->major, kind->minor);
  if ((kind->type & CL_DEVICE_TYPE_GPU) != 0)
    device = "a GPU that is not NVIDIA's";
  else if (is_cpu (kind))
    device = "a CPU";
  return g_strdup_printf ("the number of %s is that of NVIDIA's first devices, but the device is "
                          "%s",
                          what, device);
}

static void
give_text (gchar **out, gchar *text)
{
  if (out != NULL)
    *out = text;
  else
    g_free (text);
}

gboolean
tarn_opencl_simultaneous_work_items_on_local_access (cl_device_id device, guint *count,
                                                     gchar **guess, GError **error)
{
  Kind kind;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error) || !get_kind (device, &kind, error))
    return FALSE;
  if (count != NULL)
    *count = is_cpu (&kind) ? 1 : get_width (&kind);
  give_text (guess, is_cpu (&kind) ? NULL : explain_guess (&kind, "work items at a time"));
  return TRUE;
}

gboolean
tarn_opencl_local_memory_access_granularity (cl_device_id device, guint *bytes, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error))
    return FALSE;
  if (bytes != NULL)
    *bytes = 4;
  return TRUE;
}

/* Fails if the local memory of a CPU is a part of global memory (CL_DEVICE_LOCAL_MEM_TYPE is
 * CL_GLOBAL; OpenCL 3.0 specification, section 4.2).  Global memory has no banks. */
static gboolean
check_banks (cl_device_id device, GError **error)
{
  cl_device_local_mem_type type;

  if (!_tarn_opencl_get_device_value (device, CL_DEVICE_LOCAL_MEM_TYPE, &type, sizeof type, error))
    return FALSE;
  if (type != CL_GLOBAL)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                       "the local memory of this CPU is global memory, which has no banks");
  return FALSE;
}

gboolean
tarn_opencl_local_memory_bank_count (cl_device_id device, guint *count, gchar **guess,
                                     GError **error)
{
  Kind kind;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error) || !get_kind (device, &kind, error)
      || (is_cpu (&kind) && !check_banks (device, error)))
    return FALSE;
  if (count != NULL)
    *count = get_width (&kind);
  give_text (guess, explain_guess (&kind, "banks"));
  return TRUE;
}

gboolean
tarn_opencl_usable_local_mem_size (cl_device_id device, gint n_args, gsize *bytes, GError **error)
{
  guint64 taken = 0;
  cl_ulong size;
  guint major;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error)
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_LOCAL_MEM_SIZE, &size, sizeof size,
                                         error)
      || !tarn_opencl_nv_compute_capability (device, &major, NULL, error))
    return FALSE;
  if (major == 1)
    taken = n_args < 0 ? 256 : 4 * (guint64) n_args;
  if (bytes != NULL)
    *bytes = (gsize) MIN (size - MIN (size, taken), G_MAXSIZE);
  return TRUE;
}

/* Joins explanations of guesses to one text, transfer full.  Each explanation may be NULL.  Returns
 * NULL if all of them are NULL. */
static gchar *
join_guesses (const gchar *work_items, const gchar *banks, const gchar *bytes)
{
  const gchar *all[] = { work_items, banks, bytes };
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i] != NULL)
      g_string_append_printf (text, "%s%s", text->len > 0 ? "; " : "", all[i]);
  return text->len > 0 ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

/* Fills in @memory, which states how work items access local memory.  If the answer is a guess for
 * elements of @item_size bytes, sets *guess to a text that explains why, transfer full.  Otherwise
 * sets *guess to NULL. */
static gboolean
get_local_memory (cl_device_id device, gsize item_size, TarnLocalMemory *memory, gchar **guess,
                  GError **error)
{
  g_autofree gchar *work_items_guess = NULL;
  g_autofree gchar *banks_guess = NULL;
  g_autofree gchar *bytes_guess = NULL;

  if (!tarn_opencl_simultaneous_work_items_on_local_access (device, &memory->work_items,
                                                            &work_items_guess, error)
      || !tarn_opencl_local_memory_bank_count (device, &memory->bank_count, &banks_guess, error)
      || !tarn_opencl_local_memory_access_granularity (device, &memory->bank_bytes, error))
    return FALSE;
  if (item_size != memory->bank_bytes)
    bytes_guess = g_strdup_printf ("elements have %" G_GSIZE_FORMAT
                                   " bytes, but the answer is exact for %u",
                                   item_size, memory->bank_bytes);
  *guess = join_guesses (work_items_guess, banks_guess, bytes_guess);
  return TRUE;
}

gboolean
tarn_opencl_why_not_local_access_conflict_free (cl_device_id device, gsize item_size, guint rank,
                                                const gsize *shape, const gsize *stored_shape,
                                                guint *multiplicity, gchar **explanation,
                                                gchar **guess, GError **error)
{
  TarnLocalMemory memory = TARN_LOCAL_MEMORY_INIT;
  g_autofree gchar *why = NULL;
  guint found;

  g_return_val_if_fail (rank > 0 && shape != NULL, FALSE);
  for (guint i = 0; i < rank; i++)
    g_return_val_if_fail (shape[i] > 0, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error) || !get_local_memory (device, item_size, &memory, &why, error))
    return FALSE;
  found = tarn_local_memory_conflict (&memory, item_size, rank, shape, stored_shape, NULL, NULL,
                                      explanation);
  if (multiplicity != NULL)
    *multiplicity = found;
  if (guess != NULL)
    *guess = g_steal_pointer (&why);
  return TRUE;
}
