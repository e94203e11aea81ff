/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The header for C++: contexts, memory of each kind on streams, containers in page-locked memory.
 * On the fake driver, or as the program of a user on the machine's. */

#include <tarn/cuda.hpp>
#include <tarn/memory-resource.hpp>
#include <tarn/testing/cuda.h>

#include <dlfcn.h>
#include <numeric>
#include <string>
#include <vector>

namespace
{

constexpr std::size_t size = 100000;
constexpr std::size_t too_many_bytes = std::size_t (-1) / 4 + 1;
const TarnTestingCuda *fake; /* NULL: it is a real driver */

template <typename Exception, typename Function>
std::string
catch_from (Function function)
{
  try
    {
      function ();
    }
  catch (const std::exception &exception)
    {
      g_assert_nonnull (dynamic_cast<const Exception *> (&exception));
      return exception.what ();
    }
  g_assert_not_reached ();
}

/* A stream that is no other's, of the driver that Tarn has opened. */
class stream
{
public:
  stream ()
  {
    auto create = reinterpret_cast<unsigned (*) (CUstream *, unsigned)> (find ("cuStreamCreate"));

    g_assert_cmpuint (create (&m_stream, 1 /* CU_STREAM_NON_BLOCKING */), ==, 0);
  }

  stream (const stream &) = delete;
  stream &operator= (const stream &) = delete;

  ~stream ()
  {
    auto destroy = reinterpret_cast<unsigned (*) (CUstream)> (find ("cuStreamDestroy_v2"));

    g_assert_cmpuint (destroy (m_stream), ==, 0);
  }

  CUstream
  get () const
  {
    return m_stream;
  }

  void
  begin_capture () const
  {
    auto begin
        = reinterpret_cast<unsigned (*) (CUstream, unsigned)> (find ("cuStreamBeginCapture_v2"));

    g_assert_cmpuint (begin (m_stream, 1 /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */), ==, 0);
  }

  void
  end_capture () const
  {
    auto end = reinterpret_cast<unsigned (*) (CUstream, void **)> (find ("cuStreamEndCapture"));
    auto destroy = reinterpret_cast<unsigned (*) (void *)> (find ("cuGraphDestroy"));
    void *graph = nullptr;

    g_assert_cmpuint (end (m_stream, &graph), ==, 0);
    g_assert_cmpuint (destroy (graph), ==, 0);
  }

private:
  static void *
  find (const char *name)
  {
    void *driver = dlopen ("libcuda.so.1", RTLD_LAZY);

    g_assert_nonnull (driver);
    void *function = dlsym (driver, name);
    g_assert_nonnull (function);
    dlclose (driver);
    return function;
  }

  CUstream m_stream = nullptr;
};

void
assert_nothing_is_alive ()
{
  if (fake == nullptr)
    return;
  for (TarnTestingCudaKind kind :
       { TARN_TESTING_CUDA_DEVICE_MEMORY, TARN_TESTING_CUDA_HOST_MEMORY,
         TARN_TESTING_CUDA_MANAGED_MEMORY, TARN_TESTING_CUDA_MAPPING, TARN_TESTING_CUDA_ADDRESSES })
    g_assert_cmpuint (fake->get_live (kind), ==, 0);
}

void
test_memory (const TarnCudaTest *test, gconstpointer)
{
  {
    stream own, last;
    tarn::cuda::pool pools[] = {
      tarn::cuda::pool (test->context),
      tarn::cuda::pool (tarn::cuda::make_device_allocator (test->context)),
    };
    tarn::cuda::memory kept = pools[0].allocate (size);

    for (tarn::cuda::pool &pool : pools)
      {
        tarn::cuda::memory memory = pool.allocate (size, own.get ());
        tarn::cuda::memory other = memory.share ();
        tarn::cuda::memory on_default = pool.allocate (size, nullptr);

        g_assert_cmpuint (memory.address (), !=, 0);
        g_assert_cmpuint (memory.address (), ==, other.address ());
        memory.reset ();
        other.record_use (last.get ());
        other.move_to (last.get ());
        other.set_last_queue (own.get ());
        on_default.set_last_queue (nullptr);
        tarn::cuda::memory moved = std::move (other);
        moved.reset ();
        on_default.reset ();
        pool.forget_stream (own.get ());
        pool.forget_stream (last.get ());
        pool.reset ();
      }
    g_assert_cmpuint (kept.size (), ==, size);
  }
  assert_nothing_is_alive ();
}

/* Memory of the device's own pool, in a pool and without one. */
void
test_async (const TarnCudaTest *test, gconstpointer)
{
  tarn::result<tarn::allocator> made = tarn::cuda::try_make_async_allocator (test->context);

  if (!made)
    {
      g_assert_true (made.error ().matches (TARN_ERROR, TARN_ERROR_NOT_SUPPORTED));
      g_test_skip (made.error ().what ());
      return;
    }
  {
    stream own;
    tarn::allocator allocator = tarn::cuda::make_async_allocator (test->context);
    tarn::cuda::pool pool (allocator);
    tarn::cuda::memory memory = pool.allocate (size, own.get ());
    tarn::cuda::memory direct (allocator.allocate (size));

    g_assert_cmpuint (memory.address (), !=, 0);
    g_assert_cmpuint (memory.address (), !=, direct.address ());
    direct.set_last_queue (own.get ());
  }
  made = tarn::allocator ();
  if (fake != nullptr)
    {
      fake->set_attribute (test->device, 115 /* CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED */, 0);
      catch_from<tarn::error> ([&] { tarn::cuda::make_async_allocator (test->context); });
      fake->reset ();
    }
  assert_nothing_is_alive ();
}

/* Memory that another stream uses last goes back to the first one when that one is done. */
void
test_free_on (const TarnCudaTest *test, gconstpointer)
{
  {
    stream first, second;
    tarn::cuda::pool pool (tarn::cuda::make_device_allocator (test->context));

    for (CUstream last : { second.get (), CUstream (nullptr) })
      {
        tarn::cuda::memory memory = pool.allocate (size, first.get ());
        CUdeviceptr address = memory.address ();

        fake->put_work (last);
        memory.set_last_queue (last);
        memory.reset ();
        memory = pool.allocate (size, first.get ());
        g_assert_true (memory.address () != address || !fake->is_idle (first.get ()));
        fake->finish_all_work ();
      }
    pool.stop_holding ();
  }
  assert_nothing_is_alive ();
}

/* The functions that the pool inherits, too, take streams: nullptr is the default stream. */
void
test_default_stream (const TarnCudaTest *test, gconstpointer)
{
  {
    tarn::pool_options options;

    options.flags = TARN_POOL_FINDABLE;
    options.name = "named";

    tarn::cuda::pool pool (test->context, options);
    tarn::cuda::pool shared = tarn::cuda::pool::share (pool.get ());
    tarn::cuda::memory memory = shared.allocate_timeout (size, 0, nullptr);
    CUstream stream = nullptr;

    g_assert_cmpstr (tarn_allocator_get_name (tarn_pool_get_upstream (pool.get ())), ==, "named");
    g_assert_true (tarn_cuda_block_get_stream (memory.get (), &stream));
    g_assert_true (stream == CUstream (GUINT_TO_POINTER (1)));
    memory = pool.allocate_timeout (size, 0);
    g_assert_false (tarn_cuda_block_get_stream (memory.get (), &stream));
    pool.reserve (size, nullptr);
    pool.reserve (size);
    for (CUstream last : { CUstream (nullptr), CUstream (GUINT_TO_POINTER (2)) })
      {
        TarnBlock *block = tarn_pool_allocate (pool.get (), size, nullptr);
        TarnMemory found = tarn_block_get_memory (block);

        pool.free_memory (found, last);
        g_assert_null (tarn_pool_find (pool.get (), found));
      }
  }
  assert_nothing_is_alive ();
}

void
test_host (const TarnCudaTest *test, gconstpointer)
{
  {
    tarn::pool_options options;

    options.flags = TARN_POOL_FINDABLE;
    tarn::cuda::host_pool pools[] = {
      tarn::cuda::host_pool (test->context, 0, options),
      tarn::cuda::host_pool::make_managed (test->context, 1 /* CU_MEM_ATTACH_GLOBAL */, options),
    };
    for (tarn::cuda::host_pool &pool : pools)
      {
        tarn::cuda::host_memory memory = pool.allocate (size);
        tarn::cuda::host_memory other = memory.share ();

        g_assert_true (memory.data () != nullptr && memory.data () == other.data ());
        tarn::cuda::host_memory aligned = pool.allocate_aligned (size, 4096);
        g_assert_cmpuint (reinterpret_cast<std::uintptr_t> (aligned.data ()) % 4096, ==, 0);
        memory.set_last_queue (nullptr);
      }
    for (tarn::cuda::host_pool &pool : pools)
      {
        tarn::memory_resource resource (pool);
        std::pmr::vector<int> numbers (1000, 1, &resource);

        numbers.resize (100000, 2);
        g_assert_cmpint (std::accumulate (numbers.begin (), numbers.end (), 0), ==,
                         1000 + 2 * 99000);
        pool.set_limit_bytes (1 << 20);
        catch_from<std::bad_alloc> ([&] { numbers.resize (1 << 20); });
        g_assert_cmpuint (numbers.size (), ==, 100000);
      }
  }
  assert_nothing_is_alive ();
}

/* A graph has its memory as long as it has an owner. */
void
test_graph (const TarnCudaTest *test, gconstpointer)
{
  {
    stream own;
    tarn::pool_options options;
    options.flags = TARN_POOL_FINDABLE;
    tarn::cuda::pool pool (test->context, options);
    auto graph = tarn::cuda::graph_memory::begin (pool, own.get ());
    g_assert_cmpuint (graph.id (), !=, 0);
    own.begin_capture ();
    CUdeviceptr address = pool.allocate (size, own.get ()).address ();
    tarn::cuda::memory again = pool.allocate (size, own.get ());
    g_assert_cmpuint (again.address (), ==, address);
    g_assert_true (pool.find (address) == again.get ());
    again.reset ();
    own.end_capture ();
    graph.end ();
    catch_from<tarn::error> ([&] { graph.end (); });
    tarn::cuda::graph_memory moved = std::move (graph);
    g_assert_true (graph.id () == 0 && moved.id () != 0);
    g_assert_cmpuint (pool.allocate (size, own.get ()).address (), !=, address);
    catch_from<tarn::error> ([&] { tarn::cuda::graph_memory::begin (pool, nullptr); });
    graph = std::move (moved);
    pool.reset ();
  }
  assert_nothing_is_alive ();
}

/* A block that is not CUDA's is a mistake of the program's, of which C only logs a message. */
void
refuse_other_block (CUstream stream)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = [] (gpointer, gsize, TarnMemory *, GError **) -> gboolean { return TRUE; };
  ops.free = [] (gpointer, TarnMemory, gsize) {};
  tarn::allocator other (tarn_allocator_new (&ops, nullptr, nullptr));
  tarn::cuda::stream_block block (other.allocate (size));

  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*must be from*");
  catch_from<tarn::error> ([&] { block.record_use (stream); });
  g_test_assert_expected_messages ();
}

void
test_errors (const TarnCudaTest *test, gconstpointer)
{
  {
    tarn::cuda::pool pool (test->context);
    tarn::pool_options options;

    options.limit_bytes = 4 << 20;
    tarn::cuda::pool limited (test->context, options);
    catch_from<std::bad_alloc> ([&] { limited.allocate (8 << 20); });
    catch_from<std::bad_alloc> ([&] { limited.allocate (8 << 20, nullptr); });
    catch_from<std::bad_alloc> ([&] { limited.allocate_aligned (8 << 20, 4096); });
    catch_from<std::exception> ([&] { pool.allocate (too_many_bytes); });
    catch_from<tarn::error> ([&] { tarn::cuda::pool::get_shared (-1); });
    g_assert_true (pool.try_allocate_aligned (size, 3).error ().matches (
        TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT));
    g_assert_cmpuint (pool.stats ().active_blocks, ==, 0);
    refuse_other_block (stream ().get ());
  }
  assert_nothing_is_alive ();
}

void
test_context (const TarnCudaTest *, gconstpointer)
{
  auto context = tarn::cuda::default_context::make ();
  CUcontext known = context.get ();
  tarn::cuda::default_context moved = std::move (context);

  g_assert_true (context.get () == nullptr && moved.get () == known);
  {
    tarn::cuda::pool pool (nullptr);
    tarn::cuda::host_pool host (nullptr);

    pool.allocate (size);
    host.allocate (size);
    tarn::cuda::pool shared = tarn::cuda::pool::get_shared (moved.device ());
    g_assert_true (shared == tarn::cuda::pool::get_shared (moved.device ()));
  }
  context = std::move (moved);
  g_assert_true (context.get () == known);
}

/* All that a program does in one go; it leaves nothing, wherever it throws. */
void
run_program ()
{
  auto context = tarn::cuda::default_context::make ();
  tarn::cuda::pool pool (context.get ());
  tarn::cuda::host_pool host (context.get ());
  std::vector<tarn::cuda::memory> blocks;

  for (std::size_t i = 1; i <= 4; i++)
    blocks.push_back (pool.allocate (i * size, nullptr));
  tarn::cuda::host_memory memory = host.allocate (size);
  memory.set_last_queue (nullptr);
}

void
test_failing_calls (const TarnCudaTest *, gconstpointer)
{
  static const char *const functions[]
      = { "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuMemAddressReserve", "cuMemCreate",
          "cuMemMap",    "cuMemSetAccess",           "cuMemHostAlloc" };
  guint depth = fake->get_context_stack_depth ();

  for (const char *function : functions)
    for (guint nth = 1;; nth++)
      {
        fake->fail (function, nth, FALSE, 999);
        try
          {
            run_program ();
          }
        catch (const std::bad_alloc &)
          {
          }
        catch (const tarn::error &error)
          {
            g_assert_cmpstr (error.what (), !=, "");
          }
        bool has_failed = fake->get_failed () != nullptr;
        fake->fail (nullptr, 0, FALSE, 0);
        assert_nothing_is_alive ();
        g_assert_cmpuint (fake->get_context_stack_depth (), ==, depth);
        if (!has_failed)
          break;
      }
}

} // namespace

int
main (int argc, char **argv)
{
  fake = tarn_testing_cuda_get ();
  g_test_init (&argc, &argv, nullptr);
  tarn_cuda_test_add ("cxx/memory", test_memory, nullptr);
  tarn_cuda_test_add ("cxx/async", test_async, nullptr);
  tarn_cuda_test_add ("cxx/host", test_host, nullptr);
  tarn_cuda_test_add ("cxx/default-stream", test_default_stream, nullptr);
  tarn_cuda_test_add ("cxx/graph", test_graph, nullptr);
  tarn_cuda_test_add ("cxx/errors", test_errors, nullptr);
  tarn_cuda_test_add ("cxx/context", test_context, nullptr);
  if (fake != nullptr)
    {
      tarn_cuda_test_add ("cxx/free-on", test_free_on, nullptr);
      tarn_cuda_test_add ("cxx/failing-calls", test_failing_calls, nullptr);
    }
  return g_test_run ();
}
