/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A layer between the OpenCL loader and the driver: a budget of bytes, a ledger of objects, calls
 * that fail on demand, and answers and times that the driver would not give, over devices that have
 * no such thing.
 *
 * The loader reads the environment variable OPENCL_LAYERS at the first OpenCL call, which is early
 * enough to set it in main ().  It takes no layer where it finds no platform, and keeps the symbols
 * of one to itself: a test opens the same file with dlopen () and asks for tarn_opencl_layer.
 *
 * Any thread may call any of these.  Mistakes of the test, such as the name of a function that is
 * not intercepted, end it. */

#ifndef TARN_OPENCL_LAYER_H
#define TARN_OPENCL_LAYER_H

#include <CL/cl.h>
#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  OPENCL_LAYER_BUFFER,
  OPENCL_LAYER_CONTEXT,
  OPENCL_LAYER_QUEUE,
  OPENCL_LAYER_PROGRAM,
  OPENCL_LAYER_KERNEL,
  OPENCL_LAYER_EVENT, /* of a launch, marker, barrier or clEnqueueSVMFree */
  OPENCL_LAYER_SVM,   /* until it is freed, or a command that frees it has run */
  OPENCL_LAYER_PART,  /* a sub-buffer: of no bytes, it is its buffer that has them */
  OPENCL_LAYER_IMAGE, /* of the bytes that the driver says */
  OPENCL_LAYER_N_KINDS
} OpenclLayerKind;

/* How many nanoseconds a command takes whose kernel was given these @arguments, those of 4 bytes:
 * the latest ones, whichever kernel they are for.  It is called once for each question when a
 * command ended, and must not call OpenCL. */
#define OPENCL_LAYER_ARGUMENTS 8
typedef guint64 (*OpenclLayerClock) (const cl_uint *arguments);

/* Where a buffer or an image is counted against the budget. */
typedef enum
{
  OPENCL_LAYER_AT_CREATION,
  OPENCL_LAYER_AT_MIGRATION /* or a write or fill, of it or of a part of it, whichever is first: as
                             * drivers do that defer */
} OpenclLayerPoint;

typedef struct
{
  /* Whether the loader has taken the layer: if not, all below sees no call. */
  gboolean (*is_loaded) (void);

  /* To how all of this is at the start, but for the ledger: what is alive stays listed. */
  void (*reset) (void);

  /* The bytes for all live buffers, images and shared virtual memory together, whatever their
   * context: a call that would exceed them fails with @status, commonly
   * CL_MEM_OBJECT_ALLOCATION_FAILURE, and clSVMAlloc gives NULL, at creation only.  G_MAXUINT64: no
   * budget, as at the start.  @point is that of buffers created from now on.  A buffer counts until
   * its last release, and once asked for even where the driver then refuses to migrate or write it,
   * or the budget refuses a later one of the same migration. */
  void (*set_budget) (guint64 bytes, OpenclLayerPoint point, cl_int status);

  /* The nth call of @function from now on fails with @status and has no effect, 1 being the next
   * one; if @for_ever, so do all that follow.  NULL: of all intercepted functions together.
   * 0: none fails.  It takes the place of what was asked for before. */
  void (*fail) (const gchar *function, guint nth, gboolean for_ever, cl_int status);

  /* The function that the latest fail () struck first; NULL: it has not come to that. */
  const gchar *(*get_failed) (void);

  /* Calls of @function since reset (), failing ones included; NULL: of all. */
  guint (*get_calls) (const gchar *function);

  /* What clGetDeviceInfo says of every device when asked for @name, clGetPlatformInfo of every
   * platform, and any intercepted clGet...Info of every object: until reset (), or until another
   * answer takes its place.  A text ends with a NUL. */
  void (*set_device_info) (cl_device_info name, gconstpointer value, gsize size);
  void (*set_platform_info) (cl_platform_info name, gconstpointer value, gsize size);
  void (*set_info) (const gchar *function, cl_uint name, gconstpointer value, gsize size);

  /* The status that @function returns when asked for @name, as long. */
  void (*refuse_info) (const gchar *function, cl_uint name, cl_int status);

  /* What events say of how long a command took, until reset (); NULL: what the driver says. */
  void (*set_clock) (OpenclLayerClock clock);

  /* How many objects are alive, of those whose creation was seen; the first @n are stored in
   * @objects, so that the test can release what leaked because a release was made to fail. */
  guint (*get_live) (OpenclLayerKind kind, gpointer *objects, guint n);
  guint64 (*get_live_bytes) (void); /* of buffers and images, migrated or not, and SVM */

  /* References that callers hold on a live object; 0: it is not alive, or not known. */
  guint (*get_references) (gconstpointer object);

  /* Makes the releases that were made to fail, so that what they left does not keep its context:
   * drivers allow few of those.  Returns how many succeeded.  Nothing may use the objects any
   * more, or release them again. */
  guint (*release_refused) (void);
} OpenclLayer;

/* Never NULL. */
const OpenclLayer *tarn_opencl_layer (void);

G_END_DECLS

#endif
