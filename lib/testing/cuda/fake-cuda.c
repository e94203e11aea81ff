/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions by which a test controls the fake CUDA driver: settings, injected failures,
 * latencies, and questions about calls and live objects. */

#include "testing/cuda/fake-private.h"

#include <pthread.h>
#include <sys/mman.h>

static TarnMutex mutex; /* guards the variables below, except is_forked and n_calls_after_fork */
static Settings settings;
static gboolean has_settings; /* TRUE if fake_settings_init () has set the defaults */
static gboolean is_initialized;

/* TRUE if this process was forked from a process that had called cuInit (); written only in a child
 * of fork (), while the child has one thread */
static gboolean is_forked;
/* atomic: the number of driver calls in children of fork (); in memory that the process shares with
 * its children */
static guint *n_calls_after_fork;

TarnMutex *
fake_get_mutex (void)
{
  return &mutex;
}

TarnMutex *
fake_lock (void)
{
  _tarn_mutex_lock (&mutex);
  return &mutex;
}

void
fake_unlock (TarnMutex **locked)
{
  _tarn_mutex_unlock (*locked);
}

/* Takes the lock before fork ().  If another thread held it at the fork, it would stay locked in
 * the child for ever.  A test may call functions in the child that take the lock, for example to
 * ask the fake driver about its state. */
static void
before_fork (void)
{
  _tarn_mutex_lock (&mutex);
}

static void
in_parent (void)
{
  _tarn_mutex_unlock (&mutex);
}

static void
in_child (void)
{
  is_forked = is_forked || is_initialized;
  _tarn_mutex_unlock (&mutex);
}

static void __attribute__ ((constructor)) start (void)
{
  _tarn_mutex_init (&mutex);
  n_calls_after_fork = mmap (NULL, sizeof *n_calls_after_fork, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (n_calls_after_fork == MAP_FAILED || pthread_atfork (before_fork, in_parent, in_child) != 0)
    g_error ("the fake driver cannot see forks");
}

/* Functions for settings.  The caller of each of these functions holds the lock. */

static Settings *
get_settings (void)
{
  if (!has_settings)
    fake_settings_init (&settings);
  has_settings = TRUE;
  return &settings;
}

guint
fake_count_devices (void)
{
  return get_settings ()->n_devices;
}

gboolean
fake_is_device (CUdevice device)
{
  return device >= 0 && (guint) device < fake_count_devices ();
}

/* Returns the settings of a device.  The test may set them before the device exists. */
DeviceSettings *
fake_get_settings (CUdevice device)
{
  if (device < 0 || device >= TARN_TESTING_CUDA_MAX_DEVICES)
    g_error ("the fake driver cannot have a device %d", device);
  return &get_settings ()->devices[device];
}

/* Functions that run at the beginning of each driver call */

/* Returns TRUE for functions that work before cuInit (). */
static gboolean
needs_no_init (Function function)
{
  return function == FUNCTION_cuInit || function == FUNCTION_cuDriverGetVersion
         || function == FUNCTION_cuGetErrorName || function == FUNCTION_cuGetErrorString;
}

/* Counts a call of @function, if the test wants a call of this function to fail.  Returns the
 * status with which this call has to fail, or 0 if it does not have to fail.  The caller holds the
 * lock. */
static Status
count_down (Function function)
{
  if (settings.fail_in == 0
      || (settings.fail_function != function && settings.fail_function != N_FUNCTIONS))
    return FAKE_CUDA_SUCCESS;
  if (settings.fail_in > 1)
    {
      settings.fail_in--;
      return FAKE_CUDA_SUCCESS;
    }
  if (settings.failed == NULL)
    settings.failed = fake_get_function_name (function);
  if (!settings.fail_for_ever)
    settings.fail_in = 0;
  return settings.fail_status;
}

/* Calls the test's hook (a function that the test wants called at each driver call), unless this
 * thread is inside the hook already. */
static void
call_hook (Function function)
{
  static _Thread_local gboolean is_inside;
  TarnTestingCudaHook hook;
  gpointer data;

  if (is_inside)
    return;
  fake_lock ();
  hook = get_settings ()->hook;
  data = settings.hook_data;
  _tarn_mutex_unlock (&mutex);
  is_inside = TRUE;
  if (hook != NULL)
    hook (fake_get_function_name (function), data);
  is_inside = FALSE;
}

static Status
count_call (Function function, guint *microseconds)
{
  LOCKED;
  Status status;

  get_settings ()->calls[function]++;
  *microseconds = settings.latency[function];
  status = count_down (function);
  if (status == FAKE_CUDA_SUCCESS)
    status = settings.always[function];
  if (status == FAKE_CUDA_SUCCESS && !is_initialized && !needs_no_init (function))
    status = FAKE_CUDA_NOT_INITIALIZED;
  return status;
}

Status
fake_enter (Function function)
{
  guint microseconds;
  Status status;

  /* A child of fork () takes no lock here, so that it never waits for a thread of its parent. */
  if (is_forked)
    {
      __atomic_add_fetch (n_calls_after_fork, 1, __ATOMIC_RELAXED);
      return function == FUNCTION_cuDriverGetVersion || function == FUNCTION_cuGetErrorName
                 ? FAKE_CUDA_SUCCESS
                 : FAKE_CUDA_NOT_INITIALIZED;
    }
  call_hook (function);
  status = count_call (function, &microseconds);
  if (microseconds > 0)
    g_usleep (microseconds);
  return status;
}

Status
cuInit (unsigned int flags)
{
  ENTER (cuInit);
  LOCKED;
  REQUIRE (flags == 0, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_count_devices () > 0, FAKE_CUDA_NO_DEVICE);

  is_initialized = TRUE;
  return FAKE_CUDA_SUCCESS;
}

Status
cuDriverGetVersion (int *version)
{
  ENTER (cuDriverGetVersion);
  REQUIRE (version != NULL, FAKE_CUDA_INVALID_VALUE);

  *version = FAKE_CUDA_VERSION;
  return FAKE_CUDA_SUCCESS;
}

/* Functions that a test calls through the struct TarnTestingCuda */

static void
reset (void)
{
  LOCKED;

  for (guint i = 0; i < TARN_TESTING_CUDA_MAX_DEVICES; i++)
    g_clear_pointer (&settings.devices[i].attributes, g_hash_table_unref);
  fake_settings_init (&settings);
  has_settings = TRUE;
  fake_forget_strangers ();
}

static void
set_device_count (guint n)
{
  LOCKED;

  if (n > TARN_TESTING_CUDA_MAX_DEVICES)
    g_error ("the fake driver cannot have %u devices", n);
  get_settings ()->n_devices = n;
}

static void
set_attribute (CUdevice device, guint attribute, gint value)
{
  LOCKED;
  DeviceSettings *set = fake_get_settings (device);

  if (set->attributes == NULL)
    set->attributes = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (set->attributes, GUINT_TO_POINTER (attribute), GINT_TO_POINTER (value));
}

static void
set_total_memory (CUdevice device, guint64 bytes)
{
  LOCKED;

  fake_get_settings (device)->total_memory = bytes;
}

static void
set_part (CUdevice device, gboolean is_part)
{
  LOCKED;

  fake_get_settings (device)->is_part = is_part;
}

static void
set_budget (CUdevice device, guint64 bytes)
{
  LOCKED;

  fake_get_settings (device)->budget = bytes;
}

static void
refuse_contexts (CUdevice device, guint status)
{
  LOCKED;

  fake_get_settings (device)->refusal = status;
}

static void
fail (const gchar *function, guint nth, gboolean for_ever, guint status)
{
  LOCKED;
  Settings *set = get_settings ();

  set->fail_function = fake_find_function (function);
  set->fail_in = nth;
  set->fail_for_ever = for_ever;
  set->fail_status = status;
  set->failed = NULL;
}

static const gchar *
get_failed (void)
{
  LOCKED;

  return settings.failed;
}

static guint
get_calls (const gchar *name)
{
  LOCKED;
  Function function = fake_find_function (name);
  guint calls = 0;

  if (function < N_FUNCTIONS)
    return settings.calls[function];
  for (guint i = 0; i < N_FUNCTIONS; i++)
    calls += settings.calls[i];
  return calls;
}

static guint
get_calls_after_fork (void)
{
  return __atomic_load_n (n_calls_after_fork, __ATOMIC_RELAXED);
}

static void
set_latency (const gchar *name, guint microseconds)
{
  LOCKED;
  Settings *set = get_settings ();
  Function function = fake_find_function (name);

  if (function < N_FUNCTIONS)
    set->latency[function] = microseconds;
  for (guint i = 0; function == N_FUNCTIONS && i < N_FUNCTIONS; i++)
    set->latency[i] = microseconds;
}

static void
set_hook (TarnTestingCudaHook hook, gpointer data)
{
  LOCKED;
  Settings *set = get_settings ();

  set->hook = hook;
  set->hook_data = data;
}

static guint
get_live (TarnTestingCudaKind kind)
{
  LOCKED;
  guint64 bytes;

  switch (kind)
    {
    case TARN_TESTING_CUDA_CONTEXT:
      return fake_count_contexts ();
    case TARN_TESTING_CUDA_STREAM:
      return fake_count_streams ();
    case TARN_TESTING_CUDA_EVENT:
      return fake_count_events ();
    case TARN_TESTING_CUDA_MODULE:
      return fake_count_modules ();
    default:
      return fake_count_memory (kind, &bytes);
    }
}

static guint64
get_live_bytes (TarnTestingCudaKind kind)
{
  LOCKED;
  guint64 bytes;

  fake_count_memory (kind, &bytes);
  return bytes;
}

static gboolean
find_memory (CUdeviceptr address, TarnTestingCudaMemory *memory)
{
  LOCKED;

  return fake_find_memory (address, memory);
}

static guint
get_strangers_freed (TarnTestingCudaMemory *memory, guint n)
{
  LOCKED;

  return fake_get_strangers (memory, n);
}

static void
put_work (CUstream stream)
{
  LOCKED;

  fake_put_work (stream);
}

static void
finish_work (CUstream stream)
{
  LOCKED;

  fake_finish_work (stream);
}

static void
finish_all_work (void)
{
  LOCKED;

  fake_finish_all_work ();
}

static gboolean
is_idle (CUstream stream)
{
  LOCKED;

  return fake_is_idle (stream);
}

static const gchar *
find_kernel (CUfunction function)
{
  LOCKED;

  return fake_find_kernel (function);
}

static guint
get_context_stack_depth (void)
{
  LOCKED;

  return fake_get_stack_depth ();
}

static guint
get_primary_references (CUdevice device)
{
  LOCKED;

  fake_get_settings (device); /* ends the test if the number is too large */
  return fake_get_primary_references (device);
}

/* Appends the number of live objects of a kind, and the number of their bytes if that is not 0.
 * Appends nothing if there are no such objects.  The caller holds the lock. */
static void
describe (GString *text, const gchar *kind, guint n, guint64 bytes)
{
  if (n == 0)
    return;
  g_string_append_printf (text, "%s%u %s%s", text->len > 0 ? ", " : "", n, kind, n > 1 ? "s" : "");
  if (bytes > 0)
    g_string_append_printf (text, " of %" G_GUINT64_FORMAT " bytes", bytes);
}

static void
describe_virtual (GString *text, const gchar *kind, TarnTestingCudaKind number)
{
  guint64 bytes;
  guint n = fake_count_virtual (number, &bytes);

  describe (text, kind, n, bytes);
}

static gchar *
describe_live (void)
{
  LOCKED;
  GString *text = g_string_new (NULL);

  fake_describe_memory (text);
  describe_virtual (text, "reservation", TARN_TESTING_CUDA_ADDRESSES);
  describe_virtual (text, "backing", TARN_TESTING_CUDA_BACKING);
  describe_virtual (text, "mapping", TARN_TESTING_CUDA_MAPPING);
  describe (text, "module", fake_count_modules (), 0);
  describe (text, "event", fake_count_events (), 0);
  describe (text, "stream", fake_count_streams (), 0);
  describe (text, "context", fake_count_contexts (), 0);
  return g_string_free (text, text->len == 0);
}

const TarnTestingCuda *
tarn_fake_cuda (void)
{
  static const TarnTestingCuda fake = {
    .struct_size = sizeof (TarnTestingCuda),
    .reset = reset,
    .set_device_count = set_device_count,
    .set_attribute = set_attribute,
    .set_total_memory = set_total_memory,
    .set_part = set_part,
    .set_budget = set_budget,
    .refuse_contexts = refuse_contexts,
    .fail = fail,
    .get_failed = get_failed,
    .get_calls = get_calls,
    .get_calls_after_fork = get_calls_after_fork,
    .set_latency = set_latency,
    .set_hook = set_hook,
    .get_live = get_live,
    .get_live_bytes = get_live_bytes,
    .find_memory = find_memory,
    .get_strangers_freed = get_strangers_freed,
    .put_work = put_work,
    .finish_work = finish_work,
    .finish_all_work = finish_all_work,
    .is_idle = is_idle,
    .find_kernel = find_kernel,
    .get_context_stack_depth = get_context_stack_depth,
    .get_primary_references = get_primary_references,
    .describe_live = describe_live,
  };

  return &fake;
}
