/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Each driver call failing in turn, once and for ever, where memory goes from queue to queue: the
 * caller gets the driver's error or a message says what is lost, nothing else is lost, and all goes
 * on as soon as the driver does. */

#include <stdlib.h>
#include <string.h>

#include "lib/conformance.h"
#include "queues.h"

#define SIZE 4096
#define LARGE (8 * SIZE)
#define SMALL 64

/* Bytes for LARGE, even if one of the others is lost; but not beside two of those. */
#define BUDGET (10 * SIZE)

/* What a pool has at most that does not end: of the context, of the queues, and of one for fresh
 * memory. */
#define REFERENCES 4

static const OpenclLayer *layer;

/* What the library had to say; the test runs in one thread. */
static GPtrArray *messages;

/* Pools, without a reference: one that has memory of which nobody could tell when it is idle does
 * not end, and a leak checker is to find it here. */
static GPtrArray *pools;

/* How many requests the latest pool has served from what it held. */
static guint64 n_hits;

static void
keep_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) unused;
  /* Each pool over a deferred allocator has one, which t/pool/allocator.c is about. */
  if (strstr (message, "deferred") == NULL)
    g_ptr_array_add (messages, g_strdup (message));
}

static void
set_budget (guint64 bytes)
{
  layer->set_budget (bytes, OPENCL_LAYER_AT_CREATION, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

/* Memory that one queue has freed, and another one wants. */
static gboolean
want (TarnPool *pool, cl_command_queue a, cl_command_queue b, GError **error)
{
  g_autoptr (TarnBlock) block = tarn_opencl_pool_allocate (pool, SMALL, a, error);

  if (block == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&block));
  block = tarn_opencl_pool_allocate (pool, SMALL, b, error);
  return block != NULL;
}

/* Memory between two queues, by each of the ways there are; at last there is no more than @budget.
 * What was allocated is freed either way; FALSE with the first error.  Blocks of SIZE are handed
 * on, so that it does not depend on how fast the queues are what is asked of the driver. */
static gboolean
share (TarnPool *pool, cl_command_queue a, cl_command_queue b, guint64 budget, GError **error)
{
  g_autoptr (TarnBlock) first = NULL;
  g_autoptr (TarnBlock) second = NULL;
  g_autoptr (TarnBlock) third = NULL;

  hand_on (pool, SIZE);
  if ((first = tarn_opencl_pool_allocate (pool, SIZE, a, error)) == NULL
      || (second = tarn_opencl_pool_allocate (pool, SIZE, b, error)) == NULL
      || !tarn_opencl_block_record_use (first, b, error))
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  if ((first = tarn_opencl_pool_allocate (pool, SIZE, b, error)) == NULL
      || !tarn_opencl_block_move_to_queue (second, a, error) || !tarn_block_wait (second, error)
      || !tarn_opencl_block_record_use (second, b, error))
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  if ((third = tarn_opencl_pool_allocate (pool, SIZE, a, error)) == NULL
      || (first = tarn_pool_allocate (pool, SIZE, error)) == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  tarn_block_free (g_steal_pointer (&second));
  tarn_block_free (g_steal_pointer (&third));
  if (!want (pool, a, b, error))
    return FALSE;
  /* For this one all of them go, at once. */
  set_budget (budget);
  first = tarn_opencl_pool_allocate (pool, LARGE, b, error);
  set_budget (G_MAXUINT64);
  if (first == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  tarn_pool_free_held (pool);
  first = tarn_opencl_pool_allocate (pool, SIZE, a, error);
  return first != NULL;
}

/* The same without a pool. */
static gboolean
share_direct (TarnAllocator *allocator, cl_command_queue a, cl_command_queue b, GError **error)
{
  g_autoptr (TarnBlock) bound = tarn_allocator_allocate (allocator, SIZE, error);
  g_autoptr (TarnBlock) unbound = NULL;

  return bound != NULL && tarn_opencl_block_move_to_queue (bound, a, error)
         && tarn_opencl_block_record_use (bound, b, error)
         && (unbound = tarn_allocator_allocate (allocator, SIZE, error)) != NULL
         && tarn_opencl_block_move_to_queue (unbound, a, error)
         && tarn_opencl_block_move_to_queue (unbound, b, error) && tarn_block_wait (unbound, error);
}

typedef struct
{
  OpenclState *state;
  const OpenclMemory *memory;
  cl_command_queue other;
  gboolean for_ever;
  gboolean is_kept;   /* the pool outlives the failure */
  gboolean is_nvidia; /* the device is said to be NVIDIA's */
  cl_int status;      /* of what is made to fail */
} Scene;

/* What was done: by the allocators and the host, as the layer has seen it, and by the pool. */
typedef struct
{
  guint64 n_hits;
  guint n_asked;   /* how often the driver was asked for memory */
  guint n_freed;   /* how often the host has freed some itself */
  guint n_markers; /* how often an event was asked for */
} Deeds;

static Deeds
get_deeds (void)
{
  return (Deeds){ .n_hits = n_hits,
                  .n_asked = layer->get_calls ("clCreateBuffer") + layer->get_calls ("clSVMAlloc"),
                  .n_freed = layer->get_calls ("clSVMFree"),
                  .n_markers = layer->get_calls ("clEnqueueMarkerWithWaitList") };
}

/* A layer that has seen nothing yet, and fails nothing. */
static void
reset_layer (const Scene *scene)
{
  const cl_uint vendor = 0x10de;

  layer->reset ();
  if (scene->is_nvidia)
    layer->set_device_info (CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor);
}

/* A pool from its first request to its end, but for a reference in @kept. */
static gboolean
play (const Scene *scene, TarnPool **kept, GError **error)
{
  g_autoptr (TarnAllocator) allocator = scene->memory->allocator_new (scene->state, error);
  g_autoptr (TarnPool) pool = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  gboolean is_done;

  if (allocator == NULL || (pool = tarn_pool_new (allocator, NULL, error)) == NULL)
    return FALSE;
  g_ptr_array_add (pools, pool);
  if (kept != NULL)
    *kept = tarn_pool_ref (pool);
  is_done = share (pool, scene->state->queue, scene->other, BUDGET, error)
            && share_direct (allocator, scene->state->queue, scene->other, error);
  assert_valid (pool);
  tarn_pool_get_stats (pool, &stats);
  n_hits = stats.hits;
  return is_done;
}

/* Counts the blocks that are not returned or freed, as messages say: one message names those of one
 * attempt.
 */
static guint
count_stuck (void)
{
  guint n = 0;

  for (guint i = 0; i < messages->len; i++)
    {
      const gchar *message = g_ptr_array_index (messages, i);
      const gchar *number = strstr (message, " bytes in ");

      if (strstr (message, "because commands may still use") != NULL)
        n += number != NULL ? (guint) atoi (number + strlen (" bytes in ")) : 1;
    }
  return n;
}

/* What has to be said by nobody, because it can be done in another way, or was asked again: then,
 * if all else fails as well, the @error is about that.  @usual: what is done when nothing fails. */
static gboolean
may_be_silent (const Scene *scene, const gchar *function, const GError *error, const Deeds *usual)
{
  /* By which memory comes: what is refused must be asked for again, but where it would have been
   * refused anyhow, or where held memory is waited for instead; what has the driver allocate a new
   * buffer, which depends on the device, takes another buffer then.  Nobody else calls these here.
   */
  static const gchar *const creating[] = { "clCreateBuffer", "clSVMAlloc", NULL };
  static const gchar *const filling[]
      = { "clEnqueueFillBuffer", "clEnqueueMigrateMemObjects", "clEnqueueWriteBuffer", NULL };
  Deeds deeds = get_deeds ();

  if (g_strv_contains (creating, function) || g_strv_contains (filling, function))
    return deeds.n_asked >= usual->n_asked + g_strv_contains (filling, function)
           || deeds.n_hits > usual->n_hits || (scene->for_ever && error != NULL);
  /* An event that could not be recorded is recorded by who needs it next. */
  static const gchar *const recording[] = { "clEnqueueMarkerWithWaitList", "clFlush", NULL };
  if (g_strv_contains (recording, function) && deeds.n_markers > usual->n_markers)
    return TRUE;
  /* One message about all blocks that are stuck names the first failure only. */
  if (g_strv_contains (recording, function) && scene->for_ever && count_stuck () > 1)
    return TRUE;
  /* An event that cannot be waited for is asked for, and may be reached by then. */
  if (strcmp (function, "clWaitForEvents") == 0 && !scene->for_ever)
    return TRUE;
  /* The event counts as not reached. */
  if (strcmp (function, "clGetEventInfo") == 0)
    return TRUE;
  /* Memory that cannot be freed on a queue is freed by the host; or later, with what is flushed
   * next. */
  return scene->memory->is_svm
         && (deeds.n_freed > usual->n_freed || strcmp (function, "clFlush") == 0);
}

/* Counts the messages with a text. */
static guint
count_messages (const gchar *text)
{
  guint n = 0;

  for (guint i = 0; i < messages->len; i++)
    n += strstr (g_ptr_array_index (messages, i), text) != NULL;
  return n;
}

static gboolean
is_said (const gchar *function, const GError *error)
{
  return (error != NULL && strstr (error->message, function) != NULL)
         || count_messages (function) > 0;
}

/* Releases what a release that failed has left; gives how many references that were. */
static guint
release_lost (const Scene *scene)
{
  guint n_lost = 0;
  gpointer object;

  for (; layer->get_live (OPENCL_LAYER_EVENT, &object, 1) > 0; n_lost++)
    g_assert_cmpint (clReleaseEvent (object), ==, CL_SUCCESS);
  for (; layer->get_live (OPENCL_LAYER_BUFFER, &object, 1) > 0; n_lost++)
    g_assert_cmpint (clReleaseMemObject (object), ==, CL_SUCCESS);
  for (; layer->get_references (scene->state->queue) > 1; n_lost++)
    g_assert_cmpint (clReleaseCommandQueue (scene->state->queue), ==, CL_SUCCESS);
  for (; layer->get_references (scene->other) > 1; n_lost++)
    g_assert_cmpint (clReleaseCommandQueue (scene->other), ==, CL_SUCCESS);
  for (; layer->get_references (scene->state->context) > 1; n_lost++)
    g_assert_cmpint (clReleaseContext (scene->state->context), ==, CL_SUCCESS);
  return n_lost;
}

/* Frees shared virtual memory that was not given back; gives how much that was.  What a command
 * frees is free when that has run. */
static guint
free_stuck_svm (const Scene *scene)
{
  void (*svm_free) (cl_context, gpointer);
  guint n_stuck = 0;
  gpointer pointer;

  g_assert_cmpint (clFinish (scene->state->queue), ==, CL_SUCCESS);
  g_assert_cmpint (clFinish (scene->other), ==, CL_SUCCESS);
  for (; layer->get_live (OPENCL_LAYER_SVM, &pointer, 1) > 0; n_stuck++)
    {
      *(gpointer *) &svm_free = opencl_find_function ("clSVMFree");
      svm_free (scene->state->context, pointer);
    }
  return n_stuck;
}

/* What is done when nothing fails. */
static Deeds
count_deeds (const Scene *scene)
{
  g_autoptr (GError) error = NULL;
  TarnPool *kept = NULL;
  Deeds usual;

  reset_layer (scene);
  g_assert_true (play (scene, scene->is_kept ? &kept : NULL, &error));
  g_assert_cmpuint (messages->len, ==, 0);
  usual = get_deeds ();
  g_assert_cmpuint (usual.n_asked, >, 0);
  if (scene->is_nvidia)
    {
      g_assert_cmpuint (layer->get_calls ("clEnqueueFillBuffer"), >, 0);
      g_assert_cmpuint (layer->get_calls ("clEnqueueMigrateMemObjects"), ==, 0);
    }
  tarn_pool_unref (kept);
  return usual;
}

/* As soon as the driver does, the pool works again. */
static void
use_again (const Scene *scene, TarnPool *pool)
{
  g_autoptr (GError) error = NULL;
  guint n_messages = messages->len;

  if (pool == NULL)
    return;
  assert_valid (pool);
  share (pool, scene->state->queue, scene->other, G_MAXUINT64, &error);
  g_assert_no_error (error);
  assert_valid (pool);
  tarn_pool_unref (pool);
  g_assert_cmpuint (messages->len, ==, n_messages);
}

static void
assert_said (const Scene *scene, guint nth, const gchar *failed, const GError *error,
             const Deeds *usual)
{
  if (!is_said (failed, error) && !may_be_silent (scene, failed, error, usual))
    g_error ("call %u, %s, has failed and nobody says so", nth, failed);
  if (error == NULL)
    return;
  if (scene->status != CL_INVALID_OPERATION || strstr (error->message, "clSVMAlloc") != NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  else
    g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
}

/* FALSE if there is no nth call. */
static gboolean
fail_call (const Scene *scene, guint nth, const Deeds *usual, guint *n_errors, guint *n_lost)
{
  g_autoptr (GError) error = NULL;
  TarnPool *kept = NULL;
  const gchar *failed;
  guint n_stuck, n_held = 0, lost;
  gboolean done;

  reset_layer (scene);
  layer->fail (NULL, nth, scene->for_ever, scene->status);
  done = play (scene, scene->is_kept ? &kept : NULL, &error);
  failed = layer->get_failed ();
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_assert_true (done == (error == NULL));
  if (failed != NULL)
    assert_said (scene, nth, failed, error, usual);
  use_again (scene, kept);
  n_stuck = free_stuck_svm (scene);
  g_assert_cmpuint (n_stuck, <=, scene->for_ever ? count_stuck () : 0);
  if (scene->for_ever && kept == NULL)
    g_assert_true ((n_stuck > 0) == (count_stuck () > 0));
  if (n_stuck > 0 && kept == NULL)
    n_held = REFERENCES;
  lost = release_lost (scene);
  g_assert_cmpuint (lost, <=, messages->len + n_held);
  if (failed == NULL || !scene->for_ever)
    g_assert_cmpuint (lost, ==, failed != NULL && strstr (failed, "Release") != NULL);
  *n_errors += error != NULL;
  *n_lost += lost;
  return failed != NULL;
}

static void
fail_calls (const Scene *scene)
{
  guint nth = 0, n_errors = 0, n_lost = 0, n_messages = 0;
  Deeds usual = count_deeds (scene);

  do
    {
      n_messages += messages->len;
      g_ptr_array_set_size (messages, 0);
    }
  while (fail_call (scene, ++nth, &usual, &n_errors, &n_lost));
  g_assert_cmpuint (messages->len, ==, 0);
  g_test_message ("%u calls that can fail, %u errors, %u messages, %u references lost", nth - 1,
                  n_errors, n_messages, n_lost);
}

typedef enum
{
  FOR_EVER = 1 << 0,
  KEPT = 1 << 1,
  NVIDIA = 1 << 2,
  OUT_OF_MEMORY = 1 << 3 /* is what failing calls say, and not that they are invalid */
} Variant;

static void
test_faults (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  guint variant = GPOINTER_TO_UINT (data);
  Scene scene
      = { .state = state,
          .memory = memory,
          .other = opencl_queue_new (state, FALSE),
          .for_ever = (variant & FOR_EVER) != 0,
          .is_kept = (variant & KEPT) != 0,
          .is_nvidia = (variant & NVIDIA) != 0,
          .status = (variant & OUT_OF_MEMORY) != 0 ? CL_OUT_OF_RESOURCES : CL_INVALID_OPERATION };

  messages = g_ptr_array_new_with_free_func (g_free);
  if (pools == NULL)
    pools = g_ptr_array_new ();
  fail_calls (&scene);
  g_clear_pointer (&messages, g_ptr_array_unref);
  layer->reset ();
  opencl_queue_free (scene.other);
}

/* On NVIDIA's devices the immediate allocator makes another call; the other kinds are the same. */
static void
test_nvidia (OpenclState *state, const OpenclMemory *none, gconstpointer data)
{
  const OpenclMemory memory = { "immediate", FALSE, opencl_immediate_new };

  (void) none;
  test_faults (state, &memory, GUINT_TO_POINTER (GPOINTER_TO_UINT (data) | NVIDIA));
}

int
main (int argc, char **argv)
{
  static const OpenclQueueCase cases[] = {
    { "order/faults/once", test_faults, 0, GUINT_TO_POINTER (0) },
    { "order/faults/for-ever", test_faults, 0, GUINT_TO_POINTER (FOR_EVER) },
    { "order/faults/once-and-on", test_faults, 0, GUINT_TO_POINTER (KEPT) },
    { "order/faults/long-and-on", test_faults, 0, GUINT_TO_POINTER (KEPT | FOR_EVER) },
    { "order/faults/full-once", test_faults, 0, GUINT_TO_POINTER (KEPT | OUT_OF_MEMORY) },
    { "order/faults/full-for-ever", test_faults, 0,
      GUINT_TO_POINTER (KEPT | OUT_OF_MEMORY | FOR_EVER) },
  };
  static const OpenclQueueCase nvidia[] = {
    { "order/faults/once/nvidia", test_nvidia, 0, GUINT_TO_POINTER (0) },
    { "order/faults/for-ever/nvidia", test_nvidia, 0, GUINT_TO_POINTER (FOR_EVER) },
    { "order/faults/once-and-on/nvidia", test_nvidia, 0, GUINT_TO_POINTER (KEPT) },
    { "order/faults/long-and-on/nvidia", test_nvidia, 0, GUINT_TO_POINTER (KEPT | FOR_EVER) },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, keep_message, NULL);
  g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, keep_message, NULL);
  opencl_add_for_memories (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (nvidia, G_N_ELEMENTS (nvidia));
  return g_test_run ();
}
