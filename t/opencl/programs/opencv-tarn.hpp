/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * OpenCV's pool of buffers over Tarn, and a pool of images.  ocl.cpp includes it in place of its
 * own class, so it has OpenCV's layout.
 *
 * A thread of OpenCV's may have a queue of its own: requests and frees name the calling thread's.
 * At a free that may be a queue of another context, which used nothing of this one.
 *
 * Blocks are whole buffers: OpenCV copies between buffers and images, which drivers fail at with
 * sub-buffers, and it bounds the bytes that it holds, where the bound of a pool does not count what
 * a heap below it keeps.  OpenCV's bound of 0 holds nothing, where Tarn's 0 is no bound.  As in
 * OpenCV's pool, threads keep nothing for themselves, sizes are multiples of 4 KiB, and a buffer
 * may be larger than its request by an eighth. */
// clang-format off
class OpenCLBufferPoolImpl CV_FINAL : public BufferPoolController
{
public:
    TarnPool* pool;
    TarnOpenclImagePool* images;  // NULL: the device has none

    explicit OpenCLBufferPoolImpl(cl_mem_flags flags)
    {
        TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
        g_autoptr(GError) error = NULL;

        tarn_opencl_set_functions(findFunction, NULL, NULL);  // fails, rightly, from the second pool on
        options.flags = TarnPoolFlags(TARN_POOL_FINDABLE | TARN_POOL_WHOLE_BUFFERS);
        options.leading_bits_in_bin_id = 3;
        options.thread_cache_blocks = 0;
        pool = tarn_opencl_pool_new((cl_command_queue)Queue::getDefault().ptr(), flags, &options, &error);
        CV_OCL_CHECK_RESULT(tarn_opencl_error_to_status(error), error->message);
        images = tarn_opencl_image_pool_new((cl_command_queue)Queue::getDefault().ptr(), pool, NULL, NULL);
    }
    ~OpenCLBufferPoolImpl() { tarn_opencl_image_pool_unref(images), tarn_pool_unref(pool); }

    cl_mem allocate(size_t size)
    {
        g_autoptr(GError) error = NULL;
        TarnBlock* block = tarn_pool_allocate_ordered(pool, alignSize(size, 4096), Queue::getDefault().ptr(), &error);
        CV_OCL_CHECK_RESULT(tarn_opencl_error_to_status(error), error->message);
        return tarn_opencl_block_get_buffer(block);
    }
    void release(cl_mem buffer)
    {
        if (!tarn_pool_free_memory(pool, TarnMemory{ buffer }, Queue::getDefault().ptr(), NULL))
            CV_Assert(tarn_pool_free_memory(pool, TarnMemory{ buffer }, NULL, NULL));
    }

    size_t getReservedSize() const CV_OVERRIDE
    {
        TarnPoolStats stats = TARN_POOL_STATS_INIT;
        return tarn_pool_get_stats(pool, &stats), stats.held_bytes;
    }
    size_t getMaxReservedSize() const CV_OVERRIDE { return tarn_pool_get_hold_bytes(pool) - 1; }
    void setMaxReservedSize(size_t size) CV_OVERRIDE { tarn_pool_set_hold_bytes(pool, size + 1); }
    void freeAllReservedBuffers() CV_OVERRIDE { tarn_pool_free_held(pool); }
};
