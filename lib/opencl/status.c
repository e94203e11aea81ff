/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Converts OpenCL's statuses (OpenCL 3.0 specification, appendix "Error Codes") to errors
 * (GError), and errors to statuses. */

#include "status-private.h"

#include "common/quark-private.h"
#include "common/shorten-private.h"

GQuark
tarn_opencl_error_quark (void)
{
  static GQuark known; /* the quark of TARN_OPENCL_ERROR; 0 until it is made; atomic */

  return _tarn_quark (&known, "tarn-opencl-error-quark");
}

#define NO_PLATFORM -1001 /* CL_PLATFORM_NOT_FOUND_KHR of the extension cl_khr_icd */

/* The names of statuses.  Statuses newer than OpenCL 1.2 are numbers here, because Tarn also builds
 * with headers of OpenCL 1.2. */
static const struct
{
  cl_int status;
  const gchar *name;
} statuses[] = {
#define STATUS(name)                                                                               \
  {                                                                                                \
    name, #name                                                                                    \
  }
  STATUS (CL_SUCCESS),
  STATUS (CL_DEVICE_NOT_FOUND),
  STATUS (CL_DEVICE_NOT_AVAILABLE),
  STATUS (CL_COMPILER_NOT_AVAILABLE),
  STATUS (CL_MEM_OBJECT_ALLOCATION_FAILURE),
  STATUS (CL_OUT_OF_RESOURCES),
  STATUS (CL_OUT_OF_HOST_MEMORY),
  STATUS (CL_PROFILING_INFO_NOT_AVAILABLE),
  STATUS (CL_MEM_COPY_OVERLAP),
  STATUS (CL_IMAGE_FORMAT_MISMATCH),
  STATUS (CL_IMAGE_FORMAT_NOT_SUPPORTED),
  STATUS (CL_BUILD_PROGRAM_FAILURE),
  STATUS (CL_MAP_FAILURE),
  STATUS (CL_MISALIGNED_SUB_BUFFER_OFFSET),
  STATUS (CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
  STATUS (CL_COMPILE_PROGRAM_FAILURE),
  STATUS (CL_LINKER_NOT_AVAILABLE),
  STATUS (CL_LINK_PROGRAM_FAILURE),
  STATUS (CL_DEVICE_PARTITION_FAILED),
  STATUS (CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
  STATUS (CL_INVALID_VALUE),
  STATUS (CL_INVALID_DEVICE_TYPE),
  STATUS (CL_INVALID_PLATFORM),
  STATUS (CL_INVALID_DEVICE),
  STATUS (CL_INVALID_CONTEXT),
  STATUS (CL_INVALID_QUEUE_PROPERTIES),
  STATUS (CL_INVALID_COMMAND_QUEUE),
  STATUS (CL_INVALID_HOST_PTR),
  STATUS (CL_INVALID_MEM_OBJECT),
  STATUS (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR),
  STATUS (CL_INVALID_IMAGE_SIZE),
  STATUS (CL_INVALID_SAMPLER),
  STATUS (CL_INVALID_BINARY),
  STATUS (CL_INVALID_BUILD_OPTIONS),
  STATUS (CL_INVALID_PROGRAM),
  STATUS (CL_INVALID_PROGRAM_EXECUTABLE),
  STATUS (CL_INVALID_KERNEL_NAME),
  STATUS (CL_INVALID_KERNEL_DEFINITION),
  STATUS (CL_INVALID_KERNEL),
  STATUS (CL_INVALID_ARG_INDEX),
  STATUS (CL_INVALID_ARG_VALUE),
  STATUS (CL_INVALID_ARG_SIZE),
  STATUS (CL_INVALID_KERNEL_ARGS),
  STATUS (CL_INVALID_WORK_DIMENSION),
  STATUS (CL_INVALID_WORK_GROUP_SIZE),
  STATUS (CL_INVALID_WORK_ITEM_SIZE),
  STATUS (CL_INVALID_GLOBAL_OFFSET),
  STATUS (CL_INVALID_EVENT_WAIT_LIST),
  STATUS (CL_INVALID_EVENT),
  STATUS (CL_INVALID_OPERATION),
  STATUS (CL_INVALID_GL_OBJECT),
  STATUS (CL_INVALID_BUFFER_SIZE),
  STATUS (CL_INVALID_MIP_LEVEL),
  STATUS (CL_INVALID_GLOBAL_WORK_SIZE),
  STATUS (CL_INVALID_PROPERTY),
  STATUS (CL_INVALID_IMAGE_DESCRIPTOR),
  STATUS (CL_INVALID_COMPILER_OPTIONS),
  STATUS (CL_INVALID_LINKER_OPTIONS),
  STATUS (CL_INVALID_DEVICE_PARTITION_COUNT),
#undef STATUS
  { -69, "CL_INVALID_PIPE_SIZE" },
  { -70, "CL_INVALID_DEVICE_QUEUE" },
  { -71, "CL_INVALID_SPEC_ID" },
  { -72, "CL_MAX_SIZE_RESTRICTION_EXCEEDED" },
  { NO_PLATFORM, "CL_PLATFORM_NOT_FOUND_KHR" },
};

const gchar *
tarn_opencl_status_name (cl_int status)
{
  for (gsize i = 0; i < G_N_ELEMENTS (statuses); i++)
    if (statuses[i].status == status)
      return statuses[i].name;
  return "unknown status";
}

cl_int
tarn_opencl_error_to_status (const GError *error)
{
  static const struct
  {
    TarnError code;
    cl_int status;
  } rows[] = {
    { TARN_ERROR_OUT_OF_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE },
    { TARN_ERROR_LIMIT, CL_MEM_OBJECT_ALLOCATION_FAILURE },
    { TARN_ERROR_INVALID_SIZE, CL_INVALID_BUFFER_SIZE },
    { TARN_ERROR_INVALID_ARGUMENT, CL_INVALID_VALUE },
    { TARN_ERROR_INVALID_SELECTION, CL_INVALID_VALUE },
    { TARN_ERROR_NO_DEVICE, CL_DEVICE_NOT_FOUND },
    { TARN_ERROR_NO_DRIVER, NO_PLATFORM },
    { TARN_ERROR_NO_CONTEXT, CL_INVALID_CONTEXT },
    { TARN_ERROR_CONTEXT_LOST, CL_INVALID_CONTEXT },
    { TARN_ERROR_NOT_SUPPORTED, CL_INVALID_OPERATION },
    { TARN_ERROR_FORKED, CL_INVALID_OPERATION },
    { TARN_ERROR_RECURSION, CL_INVALID_OPERATION },
  };

  if (error == NULL)
    return CL_SUCCESS;
  if (error->domain == TARN_OPENCL_ERROR)
    return error->code;
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if (g_error_matches (error, TARN_ERROR, (gint) rows[i].code))
      return rows[i].status;
  return CL_OUT_OF_RESOURCES;
}

static gboolean
means_out_of_memory (cl_int status)
{
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES
         || status == CL_OUT_OF_HOST_MEMORY;
}

/* Sets an error.  Takes over the message. */
static void
set_error (GError **error, cl_int status, gchar *message)
{
  if (means_out_of_memory (status))
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, message);
  else
    g_set_error_literal (error, TARN_OPENCL_ERROR, status, message);
  g_free (message);
}

/* Sets @error for a call of an OpenCL function (@call) that returned a status other than
 * CL_SUCCESS.  The error is TARN_ERROR_OUT_OF_MEMORY if the status means that memory ran out.
 * Otherwise its domain is TARN_OPENCL_ERROR and its code is the status. */
void
_tarn_opencl_set_error (GError **error, const gchar *call, cl_int status)
{
  set_error (error, status,
             g_strdup_printf ("%s: %s (%d)", call, tarn_opencl_status_name (status), status));
}

/* Returns TRUE if a call succeeded.  Otherwise sets an error as _tarn_opencl_set_error () does. */
gboolean
_tarn_opencl_check (cl_int status, const gchar *call, GError **error)
{
  if (status == CL_SUCCESS)
    return TRUE;
  _tarn_opencl_set_error (error, call, status);
  return FALSE;
}

void
_tarn_opencl_set_error_for_size (GError **error, const gchar *call, cl_int status, gsize size)
{
  set_error (error, status,
             g_strdup_printf ("%s: %s (%d) for %" G_GSIZE_FORMAT " bytes", call,
                              tarn_opencl_status_name (status), status, size));
}

/* Sets an error as _tarn_opencl_set_error () does, and appends @text to its message.  @text is, for
 * example, the driver's log.  It must not be empty, and may be invalid UTF-8. */
void
_tarn_opencl_set_error_with_text (GError **error, const gchar *call, cl_int status,
                                  const gchar *text)
{
  g_autofree gchar *quoted = _tarn_quote_log (text);

  set_error (
      error, status,
      g_strdup_printf ("%s: %s (%d): %s", call, tarn_opencl_status_name (status), status, quoted));
}

void
_tarn_opencl_report_release (const gchar *call, cl_int status)
{
  if (status != CL_SUCCESS)
    g_message ("%s: %s (%d): what it should release may be lost", call,
               tarn_opencl_status_name (status), status);
}
