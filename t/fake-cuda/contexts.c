/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Contexts, and each thread's stack of them.  A stack holds handles, which may be those of contexts
 * that were destroyed, and by now those of others. */

#include "fake-private.h"

typedef struct
{
  guint references;
  CUcontext handle; /* NULL: not active */
  guint flags;
} Primary;

/* Guarded by the lock. */
static HandleTable contexts = { .base = 0xc0de0000 };
static guint64 last_id;
static Primary primaries[FAKE_CUDA_MAX_DEVICES];

static void
free_stack (gpointer stack)
{
  g_ptr_array_unref (stack);
}

static GPrivate stack_key = G_PRIVATE_INIT (free_stack); /* of GPtrArray, of handles */

static GPtrArray *
get_stack (void)
{
  GPtrArray *stack = g_private_get (&stack_key);

  if (stack == NULL)
    {
      stack = g_ptr_array_new ();
      g_private_set (&stack_key, stack);
    }
  return stack;
}

static CUcontext
get_top (void)
{
  GPtrArray *stack = get_stack ();

  return stack->len > 0 ? g_ptr_array_index (stack, stack->len - 1) : NULL;
}

static CUcontext
pop (void)
{
  CUcontext top = get_top ();
  GPtrArray *stack = get_stack ();

  if (stack->len > 0)
    g_ptr_array_set_size (stack, (gint) stack->len - 1);
  return top;
}

static void
push (CUcontext handle)
{
  g_ptr_array_add (get_stack (), handle);
}

/* Locked, from here to the driver's functions. */

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

static Status
find_handle (CUcontext handle, Context **context)
{
  *context = fake_handle_get (&contexts, handle);
  if (*context != NULL)
    return FAKE_CUDA_SUCCESS;
  return fake_handle_was (&contexts, handle) ? FAKE_CUDA_CONTEXT_IS_DESTROYED
                                             : FAKE_CUDA_INVALID_CONTEXT;
}

Status
fake_get_context (Context **context)
{
  return find_handle (get_top (), context);
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
    n += g_ptr_array_index (contexts.objects, i) != NULL;
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
  fake_free_memory_of (context->id);
  fake_handle_free (&contexts, context->handle);
  g_free (context);
}

static void
deactivate (Primary *primary)
{
  Context *context = fake_handle_get (&contexts, primary->handle);

  if (context != NULL)
    destroy_context (context);
  primary->handle = NULL;
}

static Status
check_flags (guint flags)
{
  return (flags & ~0xffu) == 0 && (flags & 7) != 3 ? FAKE_CUDA_SUCCESS : FAKE_CUDA_INVALID_VALUE;
}

/* The driver's functions */

Status
cuCtxCreate_v2 (CUcontext *context, unsigned int flags, CUdevice device)
{
  ENTER (cuCtxCreate);
  LOCKED;
  REQUIRE (context != NULL && check_flags (flags) == FAKE_CUDA_SUCCESS, FAKE_CUDA_INVALID_VALUE);
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

  status = find_handle (handle, &context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (!context->is_primary, FAKE_CUDA_INVALID_CONTEXT);
  if (get_top () == handle)
    pop ();
  destroy_context (context);
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

/* What was destroyed may be pushed, as seen on an H200: whoever uses it then is told. */
Status
cuCtxPushCurrent_v2 (CUcontext context)
{
  ENTER (cuCtxPushCurrent);
  LOCKED;
  REQUIRE (fake_handle_was (&contexts, context), FAKE_CUDA_INVALID_CONTEXT);

  push (context);
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxPopCurrent_v2 (CUcontext *context)
{
  CUcontext popped;
  ENTER (cuCtxPopCurrent);

  popped = pop ();
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

  pop ();
  if (context != NULL)
    push (context);
  return FAKE_CUDA_SUCCESS;
}

Status
cuCtxGetDevice (CUdevice *device)
{
  Context *context;
  Status status;
  ENTER (cuCtxGetDevice);
  LOCKED;
  REQUIRE (device != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  if (status == FAKE_CUDA_SUCCESS)
    *device = context->device;
  return status;
}

/* NULL: the current one. */
Status
cuCtxGetId (CUcontext handle, unsigned long long *id)
{
  Context *context;
  Status status;
  ENTER (cuCtxGetId);
  LOCKED;
  REQUIRE (id != NULL, FAKE_CUDA_INVALID_VALUE);

  status = find_handle (handle != NULL ? handle : get_top (), &context);
  if (status == FAKE_CUDA_SUCCESS)
    *id = context->id;
  return status;
}

Status
cuCtxSynchronize (void)
{
  Context *context;
  ENTER (cuCtxSynchronize);
  LOCKED;

  return fake_get_context (&context);
}

/* Primary contexts */

Status
cuDevicePrimaryCtxRetain (CUcontext *context, CUdevice device)
{
  Primary *primary;
  ENTER (cuDevicePrimaryCtxRetain);
  LOCKED;
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  primary = &primaries[device];
  REQUIRE (primary->handle != NULL || fake_get_settings (device)->refusal == 0,
           fake_get_settings (device)->refusal);

  if (primary->handle == NULL)
    primary->handle = create_context (device, primary->flags, TRUE)->handle;
  primary->references++;
  *context = primary->handle;
  return FAKE_CUDA_SUCCESS;
}

Status
cuDevicePrimaryCtxRelease_v2 (CUdevice device)
{
  ENTER (cuDevicePrimaryCtxRelease);
  LOCKED;
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  REQUIRE (primaries[device].references > 0, FAKE_CUDA_INVALID_CONTEXT);

  if (--primaries[device].references == 0)
    deactivate (&primaries[device]);
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
  *active = primaries[device].handle != NULL;
  return FAKE_CUDA_SUCCESS;
}

/* Whoever had retained it still has to release it. */
Status
cuDevicePrimaryCtxReset_v2 (CUdevice device)
{
  ENTER (cuDevicePrimaryCtxReset);
  LOCKED;
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);

  deactivate (&primaries[device]);
  return FAKE_CUDA_SUCCESS;
}
