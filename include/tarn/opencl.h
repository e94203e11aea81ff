/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn-opencl: allocators, queues, memos, tests and what devices are like.
 *
 * It includes <CL/cl.h>, of which OpenCL 1.2 is enough: define CL_TARGET_OPENCL_VERSION before.
 */

#ifndef TARN_OPENCL_H
#define TARN_OPENCL_H

#include <CL/cl.h>
#include <tarn/tarn.h>

G_BEGIN_DECLS

/**
 * The domain of errors whose code is OpenCL's own status, a cl_int.
 *
 * @since 0.1
 */
#define TARN_OPENCL_ERROR (tarn_opencl_error_quark ())
GQuark tarn_opencl_error_quark (void);
const gchar *tarn_opencl_status_name (cl_int status);
cl_int tarn_opencl_error_to_status (const GError *error);

/**
 * Finds an OpenCL function for Tarn. Any thread may call it.
 *
 * @param name       the function's name, such as "clCreateBuffer"
 * @param user_data  as given to tarn_opencl_set_functions()
 * @return the function, or NULL where there is none
 * @since 0.1
 */
typedef gpointer (*TarnOpenclFindFunc) (const gchar *name, gpointer user_data);

gboolean tarn_opencl_set_functions (TarnOpenclFindFunc find, gpointer user_data, GError **error);
gpointer tarn_opencl_get_function (const gchar *name, GError **error);

TarnAllocator *tarn_opencl_deferred_allocator_new (cl_context context, cl_mem_flags flags,
                                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *tarn_opencl_immediate_allocator_new (cl_command_queue queue, cl_mem_flags flags,
                                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *tarn_opencl_svm_allocator_new (cl_context context, cl_uint alignment,
                                              cl_bitfield flags, cl_command_queue queue,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
cl_mem tarn_opencl_block_get_buffer (const TarnBlock *block);
gpointer tarn_opencl_block_get_svm (const TarnBlock *block);

/* Pools, and memory that several queues use */

TarnPool *tarn_opencl_pool_new (cl_command_queue queue, cl_mem_flags flags,
                                const TarnPoolOptions *options,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnPool *tarn_opencl_pool_new_for_device (cl_context context, cl_device_id device,
                                           cl_mem_flags flags, const TarnPoolOptions *options,
                                           GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_opencl_pool_allocate (TarnPool *pool, gsize size, cl_command_queue queue,
                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_opencl_pool_allocate_copy (TarnPool *pool, gconstpointer bytes, gsize size,
                                           cl_command_queue queue,
                                           GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_opencl_pool_find (TarnPool *pool, cl_mem buffer);
cl_mem tarn_opencl_block_create_sub_buffer (TarnBlock *block, cl_mem_flags flags, gsize origin,
                                            gsize size, GError **error) G_GNUC_WARN_UNUSED_RESULT;
gboolean tarn_opencl_block_record_use (TarnBlock *block, cl_command_queue queue, GError **error);
void tarn_opencl_block_free_on (TarnBlock *block, cl_command_queue queue);
gboolean tarn_opencl_block_move_to_queue (TarnBlock *block, cl_command_queue queue, GError **error);
cl_command_queue tarn_opencl_block_get_queue (const TarnBlock *block);

/* Images */

/**
 * A pool of images, which are held and handed out again as buffers are. Any function of it may be
 * called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnOpenclImagePool TarnOpenclImagePool;

TarnOpenclImagePool *tarn_opencl_image_pool_new (cl_command_queue queue, TarnPool *buffers,
                                                 const TarnPoolOptions *options,
                                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnOpenclImagePool *tarn_opencl_image_pool_ref (TarnOpenclImagePool *pool);
void tarn_opencl_image_pool_unref (TarnOpenclImagePool *pool);
TarnBlock *tarn_opencl_image_pool_allocate (TarnOpenclImagePool *pool, cl_mem_flags flags,
                                            const cl_image_format *format,
                                            const cl_image_desc *desc, cl_command_queue queue,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnPool *tarn_opencl_image_pool_get_pool (TarnOpenclImagePool *pool);
cl_mem tarn_opencl_block_get_image (const TarnBlock *block);

/* Results that are computed once for each context, queue or device */

TarnMemo *tarn_opencl_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func,
                                        gpointer user_data,
                                        GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;
TarnMemo *tarn_opencl_queue_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;
TarnMemo *tarn_opencl_device_memo_new (const TarnMemoOps *ops, TarnMemoFunc func,
                                       gpointer user_data,
                                       GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The key of a kernel, for a memo of kernels. tarn_opencl_kernel_memo_new() makes the memo, which
 * copies the key.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size;    /**< sizeof (TarnOpenclKernelKey), as TARN_OPENCL_KERNEL_KEY_INIT sets it */
  const gchar *source;  /**< the program's source, in OpenCL C */
  const gchar *options; /**< for clBuildProgram (); nullable */
  const gchar *kernel_name; /**< the kernel's name in the program */
  cl_device_id device;      /**< the device that it is to run on */
} TarnOpenclKernelKey;

/**
 * A TarnOpenclKernelKey to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_OPENCL_KERNEL_KEY_INIT                                                                \
  {                                                                                                \
    sizeof (TarnOpenclKernelKey), /* struct_size */                                                \
        NULL,                     /* source */                                                     \
        NULL,                     /* options */                                                    \
        NULL,                     /* kernel_name */                                                \
        NULL                      /* device */                                                     \
  }

TarnMemo *tarn_opencl_kernel_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;
gboolean tarn_opencl_kernel_memo_get (TarnMemo *memo, cl_context context,
                                      const TarnOpenclKernelKey *key, cl_kernel *kernel,
                                      GError **error);

/**
 * A device that was chosen. The strings are its own, and nothing in it changes.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform; /**< its platform */
  cl_device_id device;     /**< the device */
  guint platform_index;    /**< the platform's place among those that the loader lists */
  guint device_index;      /**< the device's place among those of its platform */
  gchar *platform_name;    /**< CL_PLATFORM_NAME */
  gchar *name;             /**< CL_DEVICE_NAME */
  gchar *vendor;           /**< CL_DEVICE_VENDOR */
  gchar *uuid;             /**< nullable; as cl_khr_device_uuid gives it */
  gchar *pci;              /**< nullable; as cl_khr_pci_bus_info gives it: "0000:65:00.0" */
  gchar *selector;         /**< a text that chooses it: see tarn_selection_make_selector() */
  gpointer reserved[4];    /**< for later */
} TarnOpenclDevice;

GPtrArray *tarn_opencl_select_test_devices (const gchar *selection,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The devices that a test is to run on. All of it is valid during the test.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform;      /**< the platform of the devices */
  cl_device_id device;          /**< the device; in a test per platform: the first one */
  const cl_device_id *devices;  /**< the device; in a test per platform: all chosen ones */
  guint n_devices;              /**< how many devices there are */
  const TarnOpenclDevice *info; /**< about the device */
  gpointer reserved[4];         /**< for later */
} TarnOpenclTest;

/**
 * The function of a test. It runs in the thread that calls g_test_run ().
 *
 * @param test  the device, context and queue to run on
 * @param data  as given to tarn_opencl_test_add() or tarn_opencl_test_add_per_platform()
 * @since 0.1
 */
typedef void (*TarnOpenclTestFunc) (const TarnOpenclTest *test, gconstpointer data);

void tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data);
void tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func,
                                        gconstpointer data);
cl_context tarn_opencl_test_create_context (const TarnOpenclTest *test,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Abilities of devices, and how they are best used, as in PyOpenCL's pyopencl.characterize. */

/**
 * An answer that may be unknown.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_OPENCL_UNKNOWN = -1, /**< it cannot be told */
  TARN_OPENCL_NO = 0,       /**< it is not so */
  TARN_OPENCL_YES = 1       /**< it is so */
} TarnOpenclAnswer;

gboolean tarn_opencl_has_double_support (cl_device_id device, gboolean *supported, GError **error);
gboolean tarn_opencl_has_amd_double_support (cl_device_id device, gboolean *supported,
                                             GError **error);
gboolean tarn_opencl_nv_compute_capability (cl_device_id device, guint *major, guint *minor,
                                            GError **error);
gboolean tarn_opencl_reasonable_work_group_size_multiple (cl_device_id device, cl_context context,
                                                          gsize *multiple, GError **error);
gboolean tarn_opencl_get_simd_group_size (cl_device_id device, guint *size, GError **error);

gboolean tarn_opencl_simultaneous_work_items_on_local_access (cl_device_id device, guint *count,
                                                              gchar **guess, GError **error);
gboolean tarn_opencl_local_memory_access_granularity (cl_device_id device, guint *bytes,
                                                      GError **error);
gboolean tarn_opencl_local_memory_bank_count (cl_device_id device, guint *count, gchar **guess,
                                              GError **error);
gboolean tarn_opencl_usable_local_mem_size (cl_device_id device, gint n_args, gsize *bytes,
                                            GError **error);
gboolean tarn_opencl_why_not_local_access_conflict_free (cl_device_id device, gsize item_size,
                                                         guint rank, const gsize *shape,
                                                         const gsize *stored_shape,
                                                         guint *multiplicity, gchar **explanation,
                                                         gchar **guess, GError **error);

gchar *tarn_opencl_get_fast_inaccurate_build_options (cl_device_id device,
                                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;
gboolean tarn_opencl_get_pocl_version (cl_platform_id platform, guint fallback_major,
                                       guint fallback_minor, guint *major, guint *minor,
                                       gchar **guess, GError **error);
gboolean tarn_opencl_has_struct_arg_count_bug (cl_device_id device, cl_context context,
                                               const gchar **bug, GError **error);
gboolean tarn_opencl_has_src_build_cache (cl_device_id device, TarnOpenclAnswer *answer,
                                          GError **error);

gboolean tarn_opencl_has_coarse_grain_buffer_svm (cl_device_id device, gboolean *supported,
                                                  GError **error);
gboolean tarn_opencl_has_fine_grain_buffer_svm (cl_device_id device, gboolean *supported,
                                                GError **error);
gboolean tarn_opencl_has_fine_grain_system_svm (cl_device_id device, gboolean *supported,
                                                GError **error);
gboolean tarn_opencl_has_fine_grain_buffer_svm_atomics (cl_device_id device, gboolean *supported,
                                                        GError **error);
gboolean tarn_opencl_has_fine_grain_system_svm_atomics (cl_device_id device, gboolean *supported,
                                                        GError **error);

/**
 * Banks of local memory, as they were measured. With has_banks, the next three fields are those
 * that a TarnLocalMemory needs.
 *
 * @since 0.1
 */
typedef struct
{
  gsize
      struct_size; /**< sizeof (TarnOpenclLocalMemory), as TARN_OPENCL_LOCAL_MEMORY_INIT sets it */
  gboolean has_banks; /**< FALSE: banks do not explain the times; the next three are 0 */
  guint bank_count;   /**< how many banks there are */
  guint bank_bytes;   /**< how many bytes in a row are in the same bank */
  guint work_items;   /**< how many work items access the memory at the same time */
  gdouble confidence; /**< 0 to 1: see tarn_opencl_measure_local_memory() */
} TarnOpenclLocalMemory;

/**
 * A TarnOpenclLocalMemory to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_OPENCL_LOCAL_MEMORY_INIT                                                              \
  {                                                                                                \
    sizeof (TarnOpenclLocalMemory), /* struct_size */                                              \
        FALSE,                      /* has_banks */                                                \
        0,                          /* bank_count */                                               \
        0,                          /* bank_bytes */                                               \
        0,                          /* work_items */                                               \
        0                           /* confidence */                                               \
  }

gboolean tarn_opencl_measure_local_memory (cl_device_id device, TarnOpenclLocalMemory *result,
                                           GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnOpenclImagePool, tarn_opencl_image_pool_unref)

G_END_DECLS

#endif
