/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests that run once for each chosen CUDA device, each in a context of its own.  The choice is
 * made once in a process, when the first test is added. */

#include "context-private.h"

typedef struct
{
  GPtrArray *devices; /* of TarnCudaDevice, each once: g_test has one test for a path */
  gchar *reason;      /* why there is none; NULL if there are some */
  gboolean is_error;  /* then the choice itself could not be made */
} Chosen;

typedef struct
{
  const TarnCudaDevice *info;
  TarnCudaTestFunc func;
  gconstpointer data;
} Case;

static gboolean
is_listed (const GPtrArray *devices, const TarnCudaDevice *wanted)
{
  for (guint i = 0; i < devices->len; i++)
    if (((const TarnCudaDevice *) g_ptr_array_index (devices, i))->device_index
        == wanted->device_index)
      return TRUE;
  return FALSE;
}

/* The machine's fault, or a variable's. */
static gchar *
explain_none (void)
{
  g_autoptr (GError) error = NULL;
  const gchar *variable = g_getenv ("TARN_TEST") != NULL ? "TARN_TEST" : "PYOPENCL_TEST";
  const gchar *value = g_getenv (variable);

  if (_tarn_cuda_get_driver (&error) == NULL)
    return g_strdup (error->message);
  if (value == NULL || value[0] == '\0')
    return g_strdup ("there is no CUDA device");
  return g_strdup_printf ("%s='%s' chooses no CUDA device", variable, value);
}

static const Chosen *
get_chosen (void)
{
  static GPtrArray *all; /* owns what the array below has */
  static Chosen chosen;
  g_autoptr (GError) error = NULL;

  if (chosen.devices != NULL)
    return &chosen;
  chosen.devices = g_ptr_array_new ();
  all = tarn_cuda_select_test_devices (NULL, &error);
  for (guint i = 0; all != NULL && i < all->len; i++)
    if (!is_listed (chosen.devices, g_ptr_array_index (all, i)))
      g_ptr_array_add (chosen.devices, g_ptr_array_index (all, i));
  chosen.is_error = error != NULL;
  if (chosen.devices->len == 0)
    chosen.reason = error != NULL ? g_strdup (error->message) : explain_none ();
  return &chosen;
}

static void
run_without_device (void)
{
  const Chosen *chosen = get_chosen ();

  if (!chosen->is_error)
    {
      g_test_skip (chosen->reason);
      return;
    }
  g_test_message ("%s", chosen->reason);
  g_test_fail ();
}

/* One test of the whole program. */
static void
say_none (const Chosen *chosen)
{
  static gboolean was_said;

  if (!was_said)
    g_test_add_func (chosen->is_error ? "/cuda/selection-error" : "/cuda/no-device",
                     run_without_device);
  was_said = TRUE;
}

/* What the test has left in memos goes with the context, which is popped, wherever the test has
 * left it, before it is destroyed. */
static void
close_context (const TarnCudaDriver *driver, CUcontext context)
{
  CUcontext current = NULL;
  g_autoptr (GError) error = NULL;

  tarn_cuda_clear_context_caches ();
  if (driver->cuCtxGetCurrent (&current) == TARN_CUDA_SUCCESS && current == context)
    _tarn_cuda_pop_context (driver);
  if (!_tarn_cuda_check (driver, "cuCtxDestroy", driver->cuCtxDestroy (context), &error))
    {
      g_test_message ("%s", error->message);
      g_test_fail ();
    }
}

static void
run_case (gconstpointer data)
{
  const Case *item = data;
  TarnCudaTest test = { .device = item->info->device, .info = item->info };
  g_autoptr (GError) error = NULL;
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (&error);

  if (driver == NULL
      || !_tarn_cuda_check (driver, "cuCtxCreate",
                            driver->cuCtxCreate (&test.context, 0, test.device), &error))
    {
      g_test_message ("%s", error->message);
      g_test_fail ();
      return;
    }
  item->func (&test, item->data);
  close_context (driver, test.context);
}

/**
 * Adds a test to g_test's once for each chosen CUDA device. TARN_TEST chooses them, else they are
 * all: see tarn_cuda_select_test_devices(). The path says which one it is: test "pool/reuse" is
 * "/cuda/1/pool/reuse" on device 1. Each runs in a context of its own, which is current, and is
 * destroyed afterwards, once tarn_cuda_clear_context_caches() was called. A device that is named
 * twice is one test.
 *
 * Where no device is chosen, one test of the whole program, "/cuda/no-device", is skipped and says
 * why; a choice that cannot be made is one that fails.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its device; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void
tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data)
{
  static GPtrArray *cases; /* for the rest of the process: g_test frees only what it has run */
  const Chosen *chosen;

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  chosen = get_chosen ();
  if (chosen->devices->len == 0)
    say_none (chosen);
  for (guint i = 0; i < chosen->devices->len; i++)
    {
      const TarnCudaDevice *info = g_ptr_array_index (chosen->devices, i);
      g_autofree gchar *full
          = g_strdup_printf ("/cuda/%u%s%s", info->device_index, path[0] == '/' ? "" : "/", path);
      Case *item = g_new (Case, 1);

      *item = (Case){ info, func, data };
      if (cases == NULL)
        cases = g_ptr_array_new ();
      g_ptr_array_add (cases, item);
      g_test_add_data_func (full, item, run_case);
    }
}
