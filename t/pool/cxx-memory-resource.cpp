/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The headers for C++ over a heap of the host's memory: memory resources, with containers of the
 * standard library, and reserved memory. */

#include <tarn/memory-resource.hpp>
#include <tarn/tarn.hpp>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cxx-catch.hpp"

namespace
{

/* Memory of the host, with a heap over it. */
class host
{
public:
  explicit host (std::size_t bytes) : m_room (bytes) {}
  host (const host &) = delete;
  host &operator= (const host &) = delete;
  ~host () { g_assert_cmpuint (m_used, ==, 0); }

  tarn::allocator
  make_allocator ()
  {
    TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

    ops.name = "host";
    ops.allocate = allocate;
    ops.free = free;
    ops.part_alignment = alignof (std::max_align_t);
    ops.part_new = make_part;
    return tarn::allocator (tarn_allocator_new (&ops, this, nullptr));
  }

  tarn::pool
  make_pool ()
  {
    tarn::pool_options options;

    options.flags = TARN_POOL_FINDABLE;
    return tarn::pool (tarn::make_heap (make_allocator ()), options);
  }

  std::size_t
  used () const
  {
    return m_used;
  }

private:
  static gboolean
  allocate (gpointer data, gsize bytes, TarnMemory *memory, GError **error)
  {
    auto self = static_cast<host *> (data);

    if (bytes > self->m_room - self->m_used)
      {
        g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                     "no room for %" G_GSIZE_FORMAT " bytes", bytes);
        return FALSE;
      }
    self->m_used += bytes;
    memory->pointer = g_malloc (bytes);
    return TRUE;
  }

  static void
  free (gpointer data, TarnMemory memory, gsize bytes)
  {
    static_cast<host *> (data)->m_used -= bytes;
    g_free (memory.pointer);
  }

  static gboolean
  make_part (gpointer, TarnMemory memory, gsize offset, gsize, TarnMemory *part, GError **)
  {
    part->pointer = static_cast<char *> (memory.pointer) + offset;
    return TRUE;
  }

  std::size_t m_room;
  std::size_t m_used = 0;
};

void
test_containers ()
{
  host h (16 << 20);
  {
    tarn::memory_resource resource (h.make_pool ());
    std::pmr::vector<int> numbers (&resource);
    std::pmr::map<int, std::pmr::string> names (&resource);
    long long sum = 0;

    for (int i = 0; i < 10000; i++)
      numbers.push_back (i);
    for (int number : numbers)
      sum += number;
    g_assert_cmpint (sum, ==, 10000 * 9999 / 2);
    for (int i = 0; i < 100; i++)
      names[i] = std::string (static_cast<std::size_t> (i) * 10, 'x');
    g_assert_cmpuint (names[99].size (), ==, 990);
    names.erase (50);
    std::pmr::vector<int> copy (numbers, &resource);
    std::pmr::vector<int> moved (std::move (copy), &resource);
    g_assert_true (moved == numbers && copy.empty ());
    g_assert_cmpuint (resource.pool ().stats ().active_blocks, >, 100);
    g_assert_cmpuint (h.used (), >, 0);
  }
  g_assert_cmpuint (h.used (), ==, 0);
}

/* What is reserved is there without another call of the driver. */
void
test_reserve ()
{
  host h (16 << 20);
  tarn::pool pool = h.make_pool ();

  pool.reserve (4 << 20);
  guint64 calls = pool.stats ().driver_calls;
  g_assert_cmpuint (h.used (), >=, 4 << 20);
  tarn::block block = pool.allocate (2 << 20);
  g_assert_cmpuint (pool.stats ().driver_calls, ==, calls);
  catch_from<std::bad_alloc> ([&] { pool.reserve (32 << 20); });
}

void
test_alignments ()
{
  host h (64 << 20);
  tarn::memory_resource resource (h.make_pool ());
  std::vector<void *> pointers;

  for (std::size_t alignment = 1; alignment <= 1 << 16; alignment *= 2)
    for (std::size_t bytes : { 0, 1, 100, 70000 })
      {
        void *pointer = resource.allocate (bytes, alignment);

        g_assert_cmpuint (reinterpret_cast<std::uintptr_t> (pointer) % alignment, ==, 0);
        std::memset (pointer, 0xa5, bytes);
        for (void *other : pointers)
          g_assert_true (other != pointer);
        pointers.push_back (pointer);
      }
  std::size_t i = 0;
  for (std::size_t alignment = 1; alignment <= 1 << 16; alignment *= 2)
    for (std::size_t bytes : { 0, 1, 100, 70000 })
      resource.deallocate (pointers[i++], bytes, alignment);
  g_assert_cmpuint (resource.pool ().stats ().active_blocks, ==, 0);
}

void
test_resource_failures ()
{
  host h (4 << 20);
  tarn::pool pool = h.make_pool ();
  tarn::memory_resource resource (pool), same (pool), other (h.make_pool ());
  std::pmr::vector<char> bytes ({ 'a', 'b' }, &resource);
  int number = 0;

  g_assert_true (resource == same);
  g_assert_true (resource != other);
  g_assert_true (resource != *std::pmr::new_delete_resource ());
  catch_from<std::bad_alloc> ([&] { bytes.resize (8 << 20); });
  g_assert_cmpuint (bytes.size (), ==, 2);
  catch_from<tarn::error> ([&] { tarn::memory_resource none{ tarn::pool () }; });
  catch_from<tarn::error> (
      [&] { tarn::memory_resource blind{ tarn::pool (tarn::make_heap (h.make_allocator ())) }; });
  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "*is that of no block in use*");
  resource.deallocate (&number, sizeof number);
  g_test_assert_expected_messages ();
}

/* A resource that several threads use. */
void
test_threads ()
{
  host h (64 << 20);
  tarn::memory_resource resource (h.make_pool ());
  std::vector<std::thread> threads;

  for (unsigned i = 0; i < 4; i++)
    threads.emplace_back ([&resource, i] {
      for (unsigned round = 0; round < 200; round++)
        {
          std::pmr::vector<unsigned> numbers (&resource);

          for (unsigned j = 0; j < 300; j++)
            numbers.push_back (i);
          for (unsigned number : numbers)
            g_assert_cmpuint (number, ==, i);
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  g_assert_cmpuint (resource.pool ().stats ().active_blocks, ==, 0);
}

} // namespace

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, nullptr);
  g_test_add_func ("/core/cxx/reserve", test_reserve);
  g_test_add_func ("/core/cxx/memory-resource/containers", test_containers);
  g_test_add_func ("/core/cxx/memory-resource/alignments", test_alignments);
  g_test_add_func ("/core/cxx/memory-resource/failures", test_resource_failures);
  g_test_add_func ("/core/cxx/memory-resource/threads", test_threads);
  return g_test_run ();
}
