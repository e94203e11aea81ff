/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The default settings of the fake CUDA driver, which the environment can change, and the lookup of
 * the driver's functions by name. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "testing/cuda/fake-private.h"

#include <string.h>

#define STRING(name, symbol, arguments) #name,

static const gchar *const function_names[] = { FAKE_CUDA_FUNCTIONS (STRING) };

const gchar *
fake_get_function_name (Function function)
{
  return function_names[function];
}

/* Finds a function of the driver by its name. If @name is NULL, returns N_FUNCTIONS, which stands
 * for any function. Ends the test if the name is unknown. */
Function
fake_find_function (const gchar *name)
{
  Function function = 0;

  while (function < N_FUNCTIONS && (name == NULL || strcmp (name, function_names[function]) != 0))
    function++;
  if (name != NULL && function == N_FUNCTIONS)
    g_error ("the fake driver has no function %s", name);
  return function;
}

static guint64
read_number (const gchar *variable, const gchar *text, guint64 max)
{
  gchar *end = NULL;
  guint64 number = g_ascii_strtoull (text, &end, 10);

  if (end == text || *end != '\0' || number > max)
    g_error ("%s: '%s' is not a number from 0 to %" G_GUINT64_FORMAT, variable, text, max);
  return number;
}

static void
read_failures (Settings *settings, const gchar *text)
{
  g_auto (GStrv) entries = g_strsplit (text, ";", -1);

  for (gchar **entry = entries; *entry != NULL; entry++)
    {
      gchar *colon = strchr (*entry, ':');

      if (**entry == '\0')
        continue;
      if (colon == NULL)
        g_error ("TARN_TESTING_CUDA_FAIL: '%s' is not NAME:CODE", *entry);
      *colon = '\0';
      settings->always[fake_find_function (*entry)]
          = (Status) read_number ("TARN_TESTING_CUDA_FAIL", colon + 1, G_MAXUINT);
    }
}

static void
read_refusals (Settings *settings, const gchar *text)
{
  g_auto (GStrv) devices = g_strsplit (text, ",", -1);

  for (gchar **device = devices; *device != NULL; device++)
    if (**device != '\0')
      settings
          ->devices[read_number ("TARN_TESTING_CUDA_REFUSE_CONTEXTS", *device,
                                 TARN_TESTING_CUDA_MAX_DEVICES - 1)]
          .refusal
          = FAKE_CUDA_DEVICE_UNAVAILABLE;
}

static void
read_total_memory (Settings *settings, const gchar *text)
{
  guint64 bytes = read_number ("TARN_TESTING_CUDA_TOTAL_MEMORY", text, G_MAXSIZE);

  for (guint i = 0; i < TARN_TESTING_CUDA_MAX_DEVICES; i++)
    settings->devices[i].total_memory = bytes;
}

void
fake_settings_init (Settings *settings)
{
  const gchar *n_devices = secure_getenv ("TARN_TESTING_CUDA_DEVICES");
  const gchar *total_memory = secure_getenv ("TARN_TESTING_CUDA_TOTAL_MEMORY");
  const gchar *failures = secure_getenv ("TARN_TESTING_CUDA_FAIL");
  const gchar *refusals = secure_getenv ("TARN_TESTING_CUDA_REFUSE_CONTEXTS");

  *settings = (Settings){ .n_devices = 2 };
  for (guint i = 0; i < TARN_TESTING_CUDA_MAX_DEVICES; i++)
    fake_device_settings_init (&settings->devices[i]);
  if (n_devices != NULL)
    settings->n_devices = (guint) read_number ("TARN_TESTING_CUDA_DEVICES", n_devices,
                                               TARN_TESTING_CUDA_MAX_DEVICES);
  if (total_memory != NULL)
    read_total_memory (settings, total_memory);
  if (failures != NULL)
    read_failures (settings, failures);
  if (refusals != NULL)
    read_refusals (settings, refusals);
}
