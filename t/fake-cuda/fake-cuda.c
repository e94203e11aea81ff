/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A libcuda.so.1 without a GPU.  A program that is linked with it, or that finds it through
 * LD_LIBRARY_PATH, has it in the place of the driver.
 *
 *     FAKE_CUDA_DEVICES=N       how many devices there are (2)
 *     FAKE_CUDA_FAIL=NAME:CODE  that function returns that status */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__ ((visibility ("default")))

#define SUCCESS 0
#define ERROR_INVALID_VALUE 1
#define ERROR_NO_DEVICE 100
#define ERROR_INVALID_DEVICE 101

typedef unsigned int Status;

EXPORT Status cuInit (unsigned int flags);
EXPORT Status cuDeviceGet (int *device, int ordinal);
EXPORT Status cuDeviceGetCount (int *count);
EXPORT Status cuDeviceGetName (char *name, int length, int device);
EXPORT Status cuDeviceGetPCIBusId (char *id, int length, int device);
EXPORT Status cuDeviceGetUuid (char *uuid, int device);
EXPORT Status cuGetErrorName (Status status, const char **name);

static int
count_devices (void)
{
  const char *number = getenv ("FAKE_CUDA_DEVICES");

  return number != NULL ? atoi (number) : 2;
}

/* What a function is to return before it does anything. */
static Status
enter (const char *name)
{
  const char *failure = getenv ("FAKE_CUDA_FAIL");
  size_t length = strlen (name);

  if (failure == NULL || strncmp (failure, name, length) != 0 || failure[length] != ':')
    return SUCCESS;
  return (Status) atoi (failure + length + 1);
}

static Status
enter_device (const char *name, int device)
{
  Status status = enter (name);

  if (status == SUCCESS && (device < 0 || device >= count_devices ()))
    status = ERROR_INVALID_DEVICE;
  return status;
}

Status
cuInit (unsigned int flags)
{
  Status status = enter ("cuInit");

  if (status == SUCCESS && flags != 0)
    status = ERROR_INVALID_VALUE;
  if (status == SUCCESS && count_devices () == 0)
    status = ERROR_NO_DEVICE;
  return status;
}

Status
cuDeviceGetCount (int *count)
{
  Status status = enter ("cuDeviceGetCount");

  if (status == SUCCESS)
    *count = count_devices ();
  return status;
}

Status
cuDeviceGet (int *device, int ordinal)
{
  Status status = enter_device ("cuDeviceGet", ordinal);

  if (status == SUCCESS)
    *device = ordinal;
  return status;
}

Status
cuDeviceGetName (char *name, int length, int device)
{
  Status status = enter_device ("cuDeviceGetName", device);

  if (status == SUCCESS)
    snprintf (name, (size_t) length, "Fake GPU %c", 'A' + device);
  return status;
}

/* In capital letters, as the driver writes them. */
Status
cuDeviceGetPCIBusId (char *id, int length, int device)
{
  Status status = enter_device ("cuDeviceGetPCIBusId", device);

  if (status == SUCCESS)
    snprintf (id, (size_t) length, "0000:%02X:00.0", 0xfa + device);
  return status;
}

Status
cuDeviceGetUuid (char *uuid, int device)
{
  Status status = enter_device ("cuDeviceGetUuid", device);

  for (int i = 0; status == SUCCESS && i < 16; i++)
    uuid[i] = (char) (0x11 * i + device);
  return status;
}

Status
cuGetErrorName (Status status, const char **name)
{
  switch (status)
    {
    case SUCCESS:
      *name = "CUDA_SUCCESS";
      return SUCCESS;
    case ERROR_INVALID_VALUE:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return SUCCESS;
    case ERROR_NO_DEVICE:
      *name = "CUDA_ERROR_NO_DEVICE";
      return SUCCESS;
    case ERROR_INVALID_DEVICE:
      *name = "CUDA_ERROR_INVALID_DEVICE";
      return SUCCESS;
    default:
      *name = NULL;
      return ERROR_INVALID_VALUE;
    }
}
