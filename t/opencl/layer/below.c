/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A layer below Tarn's, in place of other drivers:
 *
 * - One that has no memory, if BELOW_FAILS is set: the command by which Tarn's layer makes the
 *   driver allocate a new piece fails, after it was put on the queue.  When the program ends, the
 *   layer prints how many commands failed, and how often their events were used after they were
 *   released.
 * - One that has no memory for a moment, if BELOW_REFUSES is set to a size: the first buffer of
 * that many bytes is refused.  When the program ends, the layer prints whether there was one.
 * - NVIDIA's driver 580.  It crashes when a sub-buffer is released if a later one has a part of its
 *   memory, and commands used both.  The layer prints how many sub-buffers were made, and how many
 * of them were released in this way.
 * - One that frees shared virtual memory before clEnqueueSVMFree () returns, if BELOW_SVM is
 *   "early": meanwhile, another thread of the program allocates the same memory.  If BELOW_SVM is
 *   "fails", clEnqueueSVMFree () fails instead, and so does the next clReleaseMemObject ().
 * - One whose first clWaitForEvents () fails while the command runs, if BELOW_WAITS is set: that of
 *   the first write that does not block, which ends only when the host waits a second time.  The
 * layer prints whether there was one, and whether its event was released before it had ended.
 * - One that refuses the second box that it is to copy (clEnqueueCopyBufferRect ()), if
 *   BELOW_BOXES is set.
 * - SOCL of StarPU 1.3, if BELOW_IS_OLD is set: a platform of OpenCL 1.0, whose devices state the
 *   versions of other drivers' devices.  Newer functions end the program: SOCL has none, but an
 *   entry of a layer that is NULL would stand for the driver's function.
 * - One with an extension, if BELOW_KNOWS is set: clGetExtensionFunctionAddress () finds a function
 *   of any name.
 *
 * All but those of NVIDIA's driver and of shared virtual memory hold for programs of one thread. */

#define _GNU_SOURCE 1 /* RTLD_DEFAULT */

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cl_icd_dispatch *driver;
static cl_icd_dispatch dispatch;
static cl_event failing; /* with a reference of this layer's; NULL: none */
static unsigned int fails, is_released, n_failed, n_misused;

typedef struct
{
  cl_mem handle; /* NULL: this entry is free */
  cl_mem parent;
  cl_buffer_region region;
  unsigned long number; /* the larger, the later was it made */
} Sub;

static pthread_mutex_t subs_lock = PTHREAD_MUTEX_INITIALIZER;
static Sub subs[4096];
static unsigned int n_made; /* sub-buffers that were made */
static unsigned int n_cut; /* sub-buffers that were released while a later one had a part of them */

static Sub *
find_sub (cl_mem handle)
{
  for (size_t i = 0; i < sizeof subs / sizeof subs[0]; i++)
    if (subs[i].handle == handle)
      return &subs[i];
  return NULL;
}

/* Is @later made after @sub, of the same memory but not of all of it? */
static int
cuts (const Sub *later, const Sub *sub)
{
  const cl_buffer_region *a = &later->region, *b = &sub->region;

  if (later->handle == NULL || later->parent != sub->parent || later->number < sub->number)
    return 0;
  return a->origin < b->origin + b->size && b->origin < a->origin + a->size
         && (a->origin > b->origin || a->origin + a->size < b->origin + b->size);
}

static size_t refused_size; /* the size of the buffer to refuse; 0: none, or none any more */
static unsigned int n_refused;

static cl_mem CL_API_CALL
below_create (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *status)
{
  if (refused_size == 0 || size != refused_size)
    return driver->clCreateBuffer (context, flags, size, host, status);
  refused_size = 0;
  n_refused++;
  if (status != NULL)
    *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return NULL;
}

static cl_mem CL_API_CALL
below_create_sub (cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                  cl_int *status)
{
  static unsigned long last;
  cl_mem handle = driver->clCreateSubBuffer (parent, flags, type, region, status);
  Sub *sub;

  pthread_mutex_lock (&subs_lock);
  n_made += handle != NULL;
  sub = handle != NULL ? find_sub (NULL) : NULL;
  if (sub != NULL)
    *sub = (Sub){ handle, parent, *(const cl_buffer_region *) region, ++last };
  pthread_mutex_unlock (&subs_lock);
  return handle;
}

static int svm_fails;     /* as BELOW_SVM says */
static int release_fails; /* the next one */

static cl_int CL_API_CALL
below_release_object (cl_mem object)
{
  Sub *sub;
  cl_uint references = 0;

  if (release_fails)
    {
      release_fails = 0;
      return CL_OUT_OF_RESOURCES;
    }
  pthread_mutex_lock (&subs_lock);
  sub = find_sub (object);
  driver->clGetMemObjectInfo (object, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL);
  if (object != NULL && sub != NULL && references == 1)
    {
      unsigned int is_cut = 0;

      for (size_t i = 0; i < sizeof subs / sizeof subs[0]; i++)
        is_cut |= cuts (&subs[i], sub);
      n_cut += is_cut;
      sub->handle = NULL;
    }
  pthread_mutex_unlock (&subs_lock);
  return driver->clReleaseMemObject (object);
}

static unsigned int waits_twice; /* as BELOW_WAITS says, until there was such a write */
static cl_event running;         /* the event of the write that is not waited for */
static cl_event gate;            /* opened by the second wait; NULL: none, or open */
static unsigned int n_gated, n_unfinished;

static void
open_gate (void)
{
  driver->clSetUserEventStatus (gate, CL_COMPLETE);
  driver->clReleaseEvent (gate);
  gate = NULL;
}

static cl_int
write_behind_gate (cl_command_queue queue, cl_mem buffer, size_t offset, size_t size,
                   const void *bytes, cl_event *event)
{
  cl_context context = NULL;
  cl_int status;

  driver->clGetCommandQueueInfo (queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
  gate = driver->clCreateUserEvent (context, NULL);
  status = driver->clEnqueueWriteBuffer (queue, buffer, CL_FALSE, offset, size, bytes, 1, &gate,
                                         event);
  running = *event;
  waits_twice = 0;
  n_gated++;
  return status;
}

static cl_int CL_API_CALL
below_wait (cl_uint n, const cl_event *events)
{
  static unsigned int n_waits;

  if (gate != NULL && n == 1 && events[0] == running)
    {
      if (n_waits++ == 0)
        return CL_OUT_OF_RESOURCES;
      open_gate ();
    }
  return driver->clWaitForEvents (n, events);
}

static cl_int CL_API_CALL
below_write (cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t size,
             const void *bytes, cl_uint n_events, const cl_event *events, cl_event *event)
{
  if (waits_twice && !blocks && event != NULL)
    return write_behind_gate (queue, buffer, offset, size, bytes, event);
  return driver->clEnqueueWriteBuffer (queue, buffer, blocks, offset, size, bytes, n_events, events,
                                       event);
}

static cl_int CL_API_CALL
below_read (cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t size,
            void *bytes, cl_uint n_events, const cl_event *events, cl_event *event)
{
  cl_int status = driver->clEnqueueReadBuffer (queue, buffer, blocks, offset, size, bytes, n_events,
                                               events, event);

  if (status != CL_SUCCESS || !fails || blocks || event == NULL || size > 4)
    return status;
  if (failing != NULL)
    driver->clReleaseEvent (failing);
  failing = *event;
  is_released = 0;
  n_failed++;
  return driver->clRetainEvent (failing);
}

static cl_int CL_API_CALL
below_get_info (cl_event event, cl_event_info name, size_t size, void *value, size_t *size_needed)
{
  if (event != failing || name != CL_EVENT_COMMAND_EXECUTION_STATUS)
    return driver->clGetEventInfo (event, name, size, value, size_needed);
  n_misused += is_released;
  *(cl_int *) value = CL_OUT_OF_RESOURCES;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL
below_release (cl_event event)
{
  if (event == failing && is_released)
    {
      n_misused++;
      return CL_INVALID_EVENT;
    }
  is_released |= event == failing;
  if (gate != NULL && event == running)
    {
      n_unfinished++;
      open_gate ();
    }
  return driver->clReleaseEvent (event);
}

static unsigned int n_boxes;

static cl_int CL_API_CALL
below_copy_box (cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
                const size_t *to_origin, const size_t *region, size_t from_row, size_t from_slice,
                size_t to_row, size_t to_slice, cl_uint n_events, const cl_event *events,
                cl_event *event)
{
  if (++n_boxes == 2)
    return CL_OUT_OF_RESOURCES;
  return driver->clEnqueueCopyBufferRect (queue, from, to, from_origin, to_origin, region, from_row,
                                          from_slice, to_row, to_slice, n_events, events, event);
}

/* Two allocations of shared virtual memory.  The lowest free one is allocated. */
static struct
{
  char bytes[4096];
  int is_used;
} svm[2];

static void *CL_API_CALL
below_svm_alloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
  (void) context;
  (void) flags;
  (void) alignment;
  for (int i = 0; i < 2; i++)
    if (!svm[i].is_used && size <= sizeof svm[i].bytes)
      {
        svm[i].is_used = 1;
        return svm[i].bytes;
      }
  return NULL;
}

static void CL_API_CALL
below_svm_free (cl_context context, void *address)
{
  (void) context;
  for (int i = 0; i < 2; i++)
    if (svm[i].bytes == address)
      svm[i].is_used = 0;
}

/* The program's other thread: allocates memory by the loader, as any program does. */
static void *
allocate_svm (void *context)
{
  void *(CL_API_CALL * allocate) (cl_context, cl_svm_mem_flags, size_t, cl_uint);

  *(void **) &allocate = dlsym (RTLD_DEFAULT, "clSVMAlloc");
  return allocate (context, CL_MEM_READ_WRITE, sizeof svm[0].bytes, 0);
}

static cl_int CL_API_CALL
below_enqueue_svm_free (cl_command_queue queue, cl_uint n, void *addresses[],
                        void (CL_CALLBACK *func) (cl_command_queue, cl_uint, void *[], void *),
                        void *user_data, cl_uint n_events, const cl_event *events, cl_event *event)
{
  cl_context context;
  pthread_t thread;

  (void) func;
  (void) user_data;
  (void) n_events;
  (void) events;
  (void) event;
  release_fails = svm_fails;
  if (svm_fails
      || driver->clGetCommandQueueInfo (queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL)
             != CL_SUCCESS)
    return CL_OUT_OF_RESOURCES;
  for (cl_uint i = 0; i < n; i++)
    below_svm_free (context, addresses[i]);
  if (pthread_create (&thread, NULL, allocate_svm, context) == 0)
    pthread_join (thread, NULL);
  return CL_SUCCESS;
}

static void *CL_API_CALL
below_get_function (const char *name)
{
  (void) name;
  return (void *) below_svm_free; /* nobody calls it */
}

static void __attribute__ ((destructor)) print (void)
{
  fprintf (stderr,
           "made %u cut %u failed %u misused %u gated %u unfinished %u boxes %u refused %u\n",
           n_made, n_cut, n_failed, n_misused, n_gated, n_unfinished, n_boxes, n_refused);
}

static cl_int CL_API_CALL
below_get_platform_info (cl_platform_id platform, cl_platform_info name, size_t size, void *value,
                         size_t *size_needed)
{
  static const char version[] = "OpenCL 1.0 of old";

  if (name != CL_PLATFORM_VERSION)
    return driver->clGetPlatformInfo (platform, name, size, value, size_needed);
  if (value != NULL && size < sizeof version)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, version, sizeof version);
  if (size_needed != NULL)
    *size_needed = sizeof version;
  return CL_SUCCESS;
}

static void
below_end (void)
{
  fputs ("a function newer than the platform is called\n", stderr);
  abort ();
}

/* Removes functions that are newer than OpenCL 1.0. */
static void
grow_old (void)
{
  dispatch.clGetPlatformInfo = below_get_platform_info;
  dispatch.clCreateSubBuffer = (__typeof__ (dispatch.clCreateSubBuffer)) below_end;
  dispatch.clSetEventCallback = (__typeof__ (dispatch.clSetEventCallback)) below_end;
  dispatch.clCreateUserEvent = (__typeof__ (dispatch.clCreateUserEvent)) below_end;
  dispatch.clSetMemObjectDestructorCallback
      = (__typeof__ (dispatch.clSetMemObjectDestructorCallback)) below_end;
  dispatch.clEnqueueFillBuffer = (__typeof__ (dispatch.clEnqueueFillBuffer)) below_end;
  dispatch.clEnqueueMarkerWithWaitList
      = (__typeof__ (dispatch.clEnqueueMarkerWithWaitList)) below_end;
  dispatch.clEnqueueBarrierWithWaitList
      = (__typeof__ (dispatch.clEnqueueBarrierWithWaitList)) below_end;
  dispatch.clEnqueueMigrateMemObjects
      = (__typeof__ (dispatch.clEnqueueMigrateMemObjects)) below_end;
  dispatch.clCreateImage = (__typeof__ (dispatch.clCreateImage)) below_end;
}

CL_API_ENTRY cl_int CL_API_CALL
clGetLayerInfo (cl_layer_info name, size_t size, void *value, size_t *size_needed)
{
  if (name != CL_LAYER_API_VERSION || size < sizeof (cl_layer_api_version))
    return CL_INVALID_VALUE;
  *(cl_layer_api_version *) value = CL_LAYER_API_VERSION_100;
  if (size_needed != NULL)
    *size_needed = sizeof (cl_layer_api_version);
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
clInitLayer (cl_uint n_entries, const cl_icd_dispatch *target, cl_uint *n_returned,
             const cl_icd_dispatch **returned)
{
  size_t size = n_entries * sizeof (void *);
  const char *way = getenv ("BELOW_SVM");

  driver = target;
  fails = getenv ("BELOW_FAILS") != NULL;
  waits_twice = getenv ("BELOW_WAITS") != NULL;
  refused_size
      = getenv ("BELOW_REFUSES") != NULL ? strtoul (getenv ("BELOW_REFUSES"), NULL, 10) : 0;
  memcpy (&dispatch, target, size < sizeof dispatch ? size : sizeof dispatch);
  dispatch.clEnqueueReadBuffer = below_read;
  dispatch.clEnqueueWriteBuffer = below_write;
  dispatch.clWaitForEvents = below_wait;
  dispatch.clGetEventInfo = below_get_info;
  dispatch.clReleaseEvent = below_release;
  dispatch.clCreateBuffer = below_create;
  dispatch.clCreateSubBuffer = below_create_sub;
  dispatch.clReleaseMemObject = below_release_object;
  if (getenv ("BELOW_BOXES") != NULL)
    dispatch.clEnqueueCopyBufferRect = below_copy_box;
  if (getenv ("BELOW_IS_OLD") != NULL)
    grow_old ();
  if (getenv ("BELOW_KNOWS") != NULL)
    dispatch.clGetExtensionFunctionAddress = below_get_function;
  svm_fails = way != NULL && strcmp (way, "fails") == 0;
  if (way != NULL)
    {
      dispatch.clSVMAlloc = below_svm_alloc;
      dispatch.clSVMFree = below_svm_free;
      dispatch.clEnqueueSVMFree = below_enqueue_svm_free;
    }
  *n_returned = n_entries;
  *returned = &dispatch;
  return CL_SUCCESS;
}
