/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Contexts of the fake CUDA driver, and each thread's stack of contexts.  A stack contains handles.
 * The context of a handle in the stack may have been destroyed, and a new context may have got the
 * same handle since. */

#include "testing/cuda/fake-private.h"

typedef struct
{
  CUcontext handle;
  gboolean is_dangling; /* TRUE if the handle named no context when it was pushed */
} Entry;

typedef struct
{
  guint references;
  /* the device's primary context; still here, with is_destroyed TRUE, after it was destroyed; NULL
   * if the device never had one */
  Context *context;
  guint flags;
} Primary;

/* The lock of the fake driver guards these variables. */
static HandleTable contexts = { .base = FAKE_HANDLES (1) };
static guint64 last_id;
static Primary primaries[TARN_TESTING_CUDA_MAX_DEVICES];

static void free_stack (gpointer stack);
static GPrivate stack_key = G_PRIVATE_INIT (free_stack); /* the thread's stack: an array of Entry */

static GArray *
get_stack (void)
{
  GArray *stack = g_private_get (&stack_key);

  if (stack == NULL)
    {
      stack = g_array_new (FALSE, FALSE, sizeof (Entry));
      g_private_set (&stack_key, stack);
    }
  return stack;
}

static CUcontext
get_top (void)
{
  GArray *stack = get_stack ();

  return stack->len > 0 ? g_array_index (stack, Entry, stack->len - 1).handle : NULL;
}

/* Functions that only the fake driver calls.  The caller of each of these functions holds the lock.
 * Exception: GLib calls free_stack (), without the lock. */

guint
fake_get_stack_depth (void)
{
  return get_stack ()->len;
}

guint
fake_get_primary_references (CUdevice device)
{
  return primaries[device].references;
}

/* Frees a context and its handle, if the context was destroyed, is not primary, and is in no
 * thread's stack of contexts. */
static void
free_unused (Context *context)
{
  if (!context->is_destroyed || context->is_primary || context->n_stacked > 0)
    return;
  fake_handle_free (&contexts, context->handle);
  g_free (context);
}

static void
push (CUcontext handle)
{
  Context *context = fake_handle_get (&contexts, handle);
  Entry entry = { handle, context == NULL };

  if (context != NULL)
    context->n_stacked++;
  g_array_append_val (get_stack (), entry);
}

static void
leave (Entry entry)
{
  Context *context = fake_handle_get (&contexts, entry.handle);

  if (entry.is_dangling)
    return;
  context->n_stacked--;
  free_unused (context);
}

/* Ends the test if the thread's current context was destroyed and freed before the thread made it
 * current, because a real driver would read freed memory.  Does nothing if a new context has the
 * same handle, because the new context is current then. */
static void
crash_if_dangling (const gchar *function)
{
  GArray *stack = get_stack ();
  Entry top = { NULL, FALSE };

  if (stack->len > 0)
    top = g_array_index (stack, Entry, stack->len - 1);
  if (top.is_dangling && fake_handle_get (&contexts, top.handle) == NULL)
    g_error ("%s: context %p was destroyed before it was made current: a driver crashes here",
             function, (gpointer) top.handle);
}

static CUcontext
pop (const gchar *function)
{
  GArray *stack = get_stack ();
  Entry top = { NULL, FALSE };

  crash_if_dangling (function);
  if (stack->len == 0)
    return NULL;
  top = g_array_index (stack, Entry, stack->len - 1);
  g_array_set_size (stack, stack->len - 1);
  leave (top);
  return top.handle;
}

/* Frees the calling thread's stack of contexts.  GLib calls this function when the thread ends. */
static void
free_stack (gpointer data)
{
  LOCKED;
  GArray *stack = data;

  for (guint i = 0; i < stack->len; i++)
    leave (g_array_index (stack, Entry, i));
  g_array_unref (stack);
}

Status
fake_find_handle (CUcontext handle, Context **context)
{
  *context = fake_handle_get (&contexts, handle);
  if (*context != NULL && !(*context)->is_destroyed)
    return FAKE_CUDA_SUCCESS;
  return fake_handle_was (&contexts, handle) ? FAKE_CUDA_CONTEXT_IS_DESTROYED
                                             : FAKE_CUDA_INVALID_CONTEXT;
}

Status
fake_get_context (Context **context)
{
  return fake_find_handle (get_top (), context);
}

Context *
fake_find_context (guint64 id)
{
  for (guint i = 0; contexts.objects != NULL && i < contexts.objects->len; i++)
    {
      Context *context = g_ptr_array_index (contexts.objects, i);

      if (context != NULL && context->id == id)
        return context;
    }
  return NULL;
}

guint
fake_count_contexts (void)
{
  guint n = 0;

  for (guint i = 0; contexts.objects != NULL && i < contexts.objects->len; i++)
    {
      const Context *context = g_ptr_array_index (contexts.objects, i);

      n += context != NULL && !context->is_destroyed;
    }
  return n;
}

static Context *
create_context (CUdevice device, guint flags, gboolean is_primary)
{
  Context *context = g_new0 (Context, 1);

  context->handle = fake_handle_new (&contexts, context);
  context->id = ++last_id;
  context->device = device;
  context->flags = flags;
  context->is_primary = is_primary;
  return context;
}

static void
destroy_context (Context *context)
{
  fake_free_events_of (context->id);
  fake_free_streams_of (context->id);
  fake_free_modules_of (context->id);
  fake_free_memory_of (context->id);
  context->is_destroyed = TRUE;
  free_unused (context);
}

static gboolean
is_active (const Primary *primary)
{
  return primary->context != NULL && !primary->context->is_destroyed;
}

/* Activates a device's primary context.  The context has the same handle each time, but a new
 * id. */
static void
activate (Primary *primary, CUdevice device)
{
  if (primary->context == NULL)
    primary->context = create_context (device, primary->flags, TRUE);
  else
    {
      primary->context->id = ++last_id;
      primary->context->is_destroyed = FALSE;
    }
}

/* Returns TRUE if the flags of a new context are valid: at most one flag chooses how the host
 * waits, and no flag is above 0x80. */
static gboolean
are_flags (guint flags)
{
  guint way = flags & 7;

  return flags <= 0xff && (way & (way - 1)) == 0;
}

/* Functions of CUDA's driver API, which the program calls */

Status
cuCtxCreate_v2 (CUcontext *context, unsigned int flags, CUdevice device)
{
  ENTER (cuCtxCreate);
  LOCKED;
  REQUIRE (context != NULL && are_flags (flags), FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  REQUIRE (fake_get_settings (device)->refusal == 0, fake_get_settings (device)->refusal);

  *context = create_context (device, flags, FALSE)->handle;
  push (*context);
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxDestroy_v2 (CUcontext handle)
{
  Context *context;
  Status status;
  ENTER (cuCtxDestroy);
  LOCKED;

  status = fake_find_handle (handle, &context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (!context->is_primary, FAKE_CUDA_INVALID_CONTEXT);
  destroy_context (context);
  if (get_top () == handle)
    pop ("cuCtxDestroy");
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxGetCurrent (CUcontext *context)
{
  ENTER (cuCtxGetCurrent);
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_VALUE);

  *context = get_top ();
  return FAKE_CUDA_SUCCESS;
}

/* Makes a context current, even a destroyed one, as an H200 does.  If the context is destroyed, the
 * next call that uses it fails. */
Status
cuCtxPushCurrent_v2 (CUcontext context)
{
  ENTER (cuCtxPushCurrent);
  LOCKED;
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_handle_was (&contexts, context), FAKE_CUDA_INVALID_CONTEXT);

  push (context);
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxPopCurrent_v2 (CUcontext *context)
{
  CUcontext popped;
  ENTER (cuCtxPopCurrent);
  LOCKED;

  popped = pop ("cuCtxPopCurrent");
  REQUIRE (popped != NULL, FAKE_CUDA_INVALID_CONTEXT);
  if (context != NULL)
    *context = popped;
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxSetCurrent (CUcontext context)
{
  ENTER (cuCtxSetCurrent);
  LOCKED;
  REQUIRE (context == NULL || fake_handle_was (&contexts, context), FAKE_CUDA_INVALID_CONTEXT);

  pop ("cuCtxSetCurrent");
  if (context != NULL)
    push (context);
  return FAKE_CUDA_SUCCESS;
}

/* Returns the device of the current context, even if the context was destroyed while it was
 * current. */
Status
cuCtxGetDevice (CUdevice *device)
{
  const Context *context;
  ENTER (cuCtxGetDevice);
  LOCKED;
  REQUIRE (device != NULL, FAKE_CUDA_INVALID_VALUE);

  crash_if_dangling ("cuCtxGetDevice");
  context = fake_handle_get (&contexts, get_top ());
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_CONTEXT);
  *device = context->device;
  return FAKE_CUDA_SUCCESS;
}

#if FAKE_CUDA_VERSION >= 12000
/* Returns the id of a context.  @handle: the context, or NULL for the current context. */
Status
cuCtxGetId (CUcontext handle, unsigned long long *id)
{
  Context *context;
  Status status;
  ENTER (cuCtxGetId);
  LOCKED;
  REQUIRE (id != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_find_handle (handle != NULL ? handle : get_top (), &context);
  if (status == FAKE_CUDA_SUCCESS)
    *id = context->id;
  return status;
}
#endif

Status
cuCtxSynchronize (void)
{
  Context *context;
  Status status;
  ENTER (cuCtxSynchronize);
  LOCKED;

  status = fake_get_context (&context);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_end_captures_of (context->id);
  if (status == FAKE_CUDA_SUCCESS)
    fake_wait_for_context (context->id);
  return status;
}

/* Functions of CUDA's driver API for primary contexts */

Status
cuDevicePrimaryCtxRetain (CUcontext *context, CUdevice device)
{
  Primary *primary;
  ENTER (cuDevicePrimaryCtxRetain);
  LOCKED;
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  primary = &primaries[device];
  REQUIRE (is_active (primary) || fake_get_settings (device)->refusal == 0,
           fake_get_settings (device)->refusal);

  if (!is_active (primary))
    activate (primary, device);
  primary->references++;
  *context = primary->context->handle;
  return FAKE_CUDA_SUCCESS;
}

Status
cuDevicePrimaryCtxRelease_v2 (CUdevice device)
{
  ENTER (cuDevicePrimaryCtxRelease);
  LOCKED;
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  REQUIRE (primaries[device].references > 0, FAKE_CUDA_INVALID_CONTEXT);

  if (--primaries[device].references == 0 && is_active (&primaries[device]))
    destroy_context (primaries[device].context);
  return FAKE_CUDA_SUCCESS;
}

Status
cuDevicePrimaryCtxGetState (CUdevice device, unsigned int *flags, int *active)
{
  ENTER (cuDevicePrimaryCtxGetState);
  LOCKED;
  REQUIRE (flags != NULL && active != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  *flags = primaries[device].flags;
  *active = is_active (&primaries[device]);
  return FAKE_CUDA_SUCCESS;
}

/* Resets a primary context: destroys the context, even if the program still has references to it.
 * The program has to release these references. */
Status
cuDevicePrimaryCtxReset_v2 (CUdevice device)
{
  ENTER (cuDevicePrimaryCtxReset);
  LOCKED;
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  if (is_active (&primaries[device]))
    destroy_context (primaries[device].context);
  return FAKE_CUDA_SUCCESS;
}
