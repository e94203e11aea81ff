/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The header for C++: who owns what, errors as exceptions and without them, queues. */

#include <tarn/tarn.hpp>
#include <tarn/testing.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cxx-catch.hpp"

namespace
{

constexpr std::size_t size = 5000;
constexpr std::size_t device_bytes = 1 << 20;

/* A device, which has to be empty in the end. */
class world
{
public:
  world () : m_device (tarn_testing_device_new (device_bytes)) {}
  world (const world &) = delete;
  world &operator= (const world &) = delete;

  ~world ()
  {
    tarn_testing_assert_no_leaks (m_device);
    tarn_testing_device_free (m_device);
  }

  tarn::allocator
  make_allocator () const
  {
    return tarn::allocator (tarn_testing_device_allocator_new (m_device));
  }

  unsigned
  live () const
  {
    return tarn_testing_device_get_live (m_device);
  }

  TarnTestingDevice *
  get () const
  {
    return m_device;
  }

private:
  TarnTestingDevice *m_device;
};

tarn::error
make_error (int code)
{
  return tarn::error (g_error_new (TARN_ERROR, code, "code %d", code));
}

void
test_error ()
{
  tarn::error first = make_error (TARN_ERROR_LIMIT);
  tarn::error copy = first;
  tarn::error moved = std::move (first);

  g_assert_cmpstr (copy.what (), ==, "code 8");
  g_assert_cmpstr (moved.what (), ==, "code 8");
  g_assert_cmpstr (first.what (), ==, "");
  g_assert_cmpint (first.code (), ==, 0);
  g_assert_false (first.matches (TARN_ERROR, TARN_ERROR_LIMIT));
  g_assert_true (copy.get () != moved.get ());
  g_assert_true (moved.matches (TARN_ERROR, TARN_ERROR_LIMIT));
  g_assert_true (moved.domain () == TARN_ERROR);
  first = copy;
  g_assert_cmpint (first.code (), ==, TARN_ERROR_LIMIT);
  first = make_error (TARN_ERROR_FAILED);
  g_assert_cmpint (first.code (), ==, TARN_ERROR_FAILED);
  static_assert (std::is_nothrow_copy_constructible_v<tarn::error>);
  static_assert (std::is_nothrow_copy_constructible_v<tarn::out_of_memory>);
}

/* Each code of Tarn's, and one of somebody else's. */
void
test_no_memory ()
{
  for (int code = TARN_ERROR_OUT_OF_MEMORY; code <= TARN_ERROR_FAILED; code++)
    {
      bool is_no_memory = code == TARN_ERROR_OUT_OF_MEMORY || code == TARN_ERROR_LIMIT;
      bool was_no_memory = false;

      g_assert_true (make_error (code).is_no_memory () == is_no_memory);
      try
        {
          tarn::throw_error (make_error (code));
        }
      catch (const std::bad_alloc &exception)
        {
          was_no_memory = true;
          g_assert_nonnull (std::strstr (exception.what (), "code "));
        }
      catch (const tarn::error &exception)
        {
          g_assert_cmpint (exception.code (), ==, code);
        }
      g_assert_true (was_no_memory == is_no_memory);
    }
  g_assert_false (tarn::error (g_error_new_literal (g_quark_from_static_string ("other"), 0, ""))
                      .is_no_memory ());
}

void
test_exceptions ()
{
  world w;
  tarn::pool pool (w.make_allocator ());
  tarn::block block = pool.allocate (size);

  catch_from<tarn::out_of_memory> ([&] { pool.allocate (2 * device_bytes); });
  catch_from<std::bad_alloc> ([&] { w.make_allocator ().allocate (2 * device_bytes); });
  pool.set_limit_bytes (2 * size);
  g_assert_cmpuint (pool.limit_bytes (), ==, 2 * size);
  catch_from<std::bad_alloc> ([&] { pool.allocate (2 * size); });
  catch_from<tarn::error> ([&] { pool.allocate (std::numeric_limits<std::size_t>::max ()); });
  catch_from<tarn::error> ([&] { pool.allocate_aligned (size, 3); });
  catch_from<tarn::error> ([&] { pool.free_memory (block.memory ()); });
  catch_from<tarn::error> ([&] { tarn::pool none{ tarn::allocator () }; });
  catch_from<tarn::error> ([&] { tarn::make_heap (w.make_allocator ()); });
  catch_from<tarn::error> ([&] { block.record_use (&w); });
  catch_from<tarn::error> ([&] { tarn::pool ().charge (1); });
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
}

/* The same, as results: a failure throws nothing, even where there are exceptions. */
void
test_results ()
{
  world w;
  tarn::pool pool (w.make_allocator ());
  tarn::result<tarn::block> made = pool.try_allocate (size);
  tarn::result<tarn::block> none = pool.try_allocate (2 * device_bytes);

  static_assert (noexcept (pool.try_allocate (size)));
  g_assert_true (made.has_value () && made);
  g_assert_cmpuint (made->size (), ==, size);
  g_assert_cmpuint ((*made).alloc_size (), >=, size);
  g_assert_false (none.has_value ());
  g_assert_true (none.error ().is_no_memory ());
  g_assert_true (none.error ().matches (TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY));
  for (unsigned i = 0; i < 2; i++)
    g_assert_true (catch_from<tarn::out_of_memory> ([&] { none.value (); })
                   == none.error ().what ());
  g_assert_true (none.error ().is_no_memory ());
  tarn::block block = *std::move (made);
  g_assert_true (static_cast<bool> (block));
  g_assert_false (static_cast<bool> (*made));
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
  tarn::result<void> freed = pool.try_free_memory (block.memory ());
  g_assert_false (freed.has_value ());
  g_assert_true (freed.error ().matches (TARN_ERROR, TARN_ERROR_NOT_SUPPORTED));
  catch_from<tarn::error> ([&] { freed.value (); });
}

/* A request that throws leaves nothing behind, whichever call of the device fails. */
void
test_failing_calls ()
{
  for (unsigned nth = 1;; nth++)
    {
      world w;
      tarn::allocator allocator = w.make_allocator ();
      bool threw = false;

      tarn_testing_device_fail (w.get (), nth, TRUE);
      try
        {
          tarn::pool pool (allocator);
          std::vector<tarn::block> blocks;

          for (std::size_t i = 1; i <= 5; i++)
            blocks.push_back (pool.allocate (i * size));
        }
      catch (const std::bad_alloc &)
        {
          threw = true;
        }
      g_assert_cmpuint (w.live (), ==, 0);
      if (!tarn_testing_device_has_failed (w.get ()))
        {
          g_assert_false (threw);
          g_assert_cmpuint (nth, ==, 6);
          return;
        }
      g_assert_true (threw);
    }
}

void
test_block ()
{
  world w;
  tarn::pool pool (w.make_allocator ());
  tarn::block first = pool.allocate (size);
  TarnBlock *raw = first.get ();

  static_assert (!std::is_copy_constructible_v<tarn::block>);
  static_assert (std::is_nothrow_move_constructible_v<tarn::block>);
  static_assert (std::is_nothrow_move_assignable_v<tarn::block>);
  static_assert (std::is_nothrow_destructible_v<tarn::block>);
  tarn::block second = std::move (first);
  g_assert_true (!first && second.get () == raw);
  first = pool.allocate (size);
  first = std::move (second);
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
  tarn::block &same = first;
  first = std::move (same);
  g_assert_true (first.get () == raw);
  tarn::block other = first.share ();
  first.reset ();
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
  g_assert_true (other.get () == raw);
  other.reset ();
  other.reset ();
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 0);
  other = pool.allocate (size);
  raw = other.release ();
  g_assert_true (!other && !other.share ());
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
  tarn_block_free (raw);
}

/* Each of these keeps what it needs. */
void
test_references ()
{
  world w;
  tarn::block block;
  tarn::allocator allocator = w.make_allocator ();

  g_assert_cmpstr (allocator.name (), !=, "");
  {
    tarn::pool pool (allocator);
    tarn::pool copy = pool;
    tarn::pool shared = tarn::pool::share (pool.get ());

    g_assert_true (copy == pool && shared == pool && pool);
    pool = tarn::pool ();
    g_assert_true (copy != pool && !pool);
    shared.reset ();
    block = copy.allocate (size);
    tarn_pool_unref (copy.release ());
  }
  allocator.reset ();
  g_assert_cmpuint (block.size (), ==, size);
  g_assert_cmpuint (w.live (), ==, 1);
}

void
test_reclaim ()
{
  world w;
  tarn::pool pool (w.make_allocator ());
  tarn::block cached = pool.allocate (3 * device_bytes / 4);
  auto count = std::make_shared<unsigned> (0);
  std::size_t asked = 0;

  unsigned id = pool.add_reclaim ([&cached, &asked, count] (std::size_t wanted) {
    bool had_one = static_cast<bool> (cached);

    cached.reset ();
    asked = wanted;
    ++*count;
    return had_one;
  });
  g_assert_cmpint (count.use_count (), ==, 2);
  tarn::block block = pool.allocate (device_bytes / 2);
  g_assert_cmpuint (asked, >=, device_bytes / 2);
  g_assert_cmpuint (*count, ==, 1);
  g_assert_true (pool.remove_reclaim (id));
  g_assert_false (pool.remove_reclaim (id));
  g_assert_cmpint (count.use_count (), ==, 1);
  pool.add_reclaim ([count] (std::size_t) { return false; });
  pool.reset ();
  block.reset ();
  g_assert_cmpint (count.use_count (), ==, 1);
}

void
test_group ()
{
  world w;
  tarn::allocator allocator = w.make_allocator ();
  tarn::pool pools[] = { tarn::pool (allocator), tarn::pool (allocator) };
  tarn::reclaim_group group;

  for (const tarn::pool &pool : pools)
    pool.set_reclaim_group (group);
  pools[0].allocate (3 * device_bytes / 4);
  g_assert_cmpuint (pools[0].stats ().held_blocks, ==, 1);
  pools[1].allocate (3 * device_bytes / 4);
  g_assert_cmpuint (pools[0].stats ().held_blocks, ==, 0);
  std::uint64_t generation = pools[1].generation ();
  pools[1].trim (0);
  g_assert_true (pools[1].generation () != generation);
  g_assert_cmpuint (pools[1].stats ().held_blocks, ==, 0);
  pools[1].set_reclaim_group (tarn::reclaim_group (nullptr));
  pools[0].allocate (size);
  pools[0].free_held ();
  pools[0].stop_holding ();
  pools[0].allocate (size);
  g_assert_cmpuint (pools[0].stats ().held_blocks, ==, 0);
}

/* What is beside the pool counts, and what it says of itself is its own. */
void
test_budget ()
{
  world w;
  tarn::pool pool (w.make_allocator ());

  pool.set_limit_bytes (4 * size);
  tarn::block block = pool.allocate (size);
  g_assert_cmpuint (pool.get_budget ().taken_bytes, >=, size);
  g_assert_cmpuint (pool.get_budget ().budget_bytes, ==, 4 * size);
  pool.charge (2 * size);
  catch_from<std::bad_alloc> ([&] { pool.charge (2 * size); });
  catch_from<std::bad_alloc> ([&] { pool.allocate (2 * size); });
  pool.uncharge (2 * size);
  pool.allocate (2 * size);
  pool.set_hold_bytes (size);
  g_assert_cmpuint (pool.hold_bytes (), ==, size);
  g_assert_cmpuint (pool.stats ().held_bytes, <=, size);
}

/* A request waits until another thread has freed enough, and no longer than it was told. */
void
test_timeout ()
{
  world w;
  tarn::pool pool (w.make_allocator ());
  tarn::block block = pool.allocate (3 * device_bytes / 4);

  catch_from<std::bad_alloc> ([&] { pool.allocate_timeout (device_bytes / 2, 1000); });
  std::thread other ([&block] { block.reset (); });
  tarn::block waited = pool.allocate_timeout (device_bytes / 2, -1);
  other.join ();
  g_assert_cmpuint (waited.size (), ==, device_bytes / 2);
}

/* Two queues; what one of them used last, the other one has no sooner than it may. */
class queues
{
public:
  queues () : m_queues (tarn_testing_queues_new (device_bytes, 0)) {}
  queues (const queues &) = delete;
  queues &operator= (const queues &) = delete;

  ~queues ()
  {
    tarn_testing_queues_run_all (m_queues);
    tarn_testing_assert_no_hazards (m_queues);
    g_assert_cmpuint (tarn_testing_queues_get_refs (m_queues), ==, 0);
    tarn_testing_assert_no_leaks (tarn_testing_queues_get_device (m_queues));
    tarn_testing_queues_free (m_queues);
  }

  tarn::pool
  make_pool () const
  {
    return tarn::pool (tarn::allocator (tarn_testing_queues_allocator_new (m_queues)));
  }

  void *
  make_queue () const
  {
    return tarn_testing_queue_new (m_queues, TRUE);
  }

  void
  write (void *queue, const tarn::block &block) const
  {
    tarn_testing_queue_put (m_queues, queue, block.memory (), TARN_TESTING_COMMAND_WRITE, 1);
  }

  void
  follow (void *queue, void *other) const
  {
    tarn_testing_queue_follow (m_queues, queue, other);
  }

  void
  run () const
  {
    tarn_testing_queues_run_all (m_queues);
  }

  void
  fail (TarnTestingCall call) const
  {
    tarn_testing_queues_fail (m_queues, call, 1, FALSE);
  }

private:
  TarnTestingQueues *m_queues;
};

/* The way there does not matter: each of them names the queue that writes last. */
enum class way
{
  set_last_queue,
  set_last_queue_then_move,
  set_last_queue_then_share,
  record_use,
  move_to,
  wait
};

void
free_after (const queues &q, tarn::block block, void *queue, way taken)
{
  switch (taken)
    {
    case way::set_last_queue:
      block.set_last_queue (queue);
      break;
    case way::set_last_queue_then_move:
      {
        block.set_last_queue (queue);
        tarn::block moved;

        moved = std::move (block);
        tarn::block again = std::move (moved);
        break;
      }
    case way::set_last_queue_then_share:
      {
        block.set_last_queue (queue);
        tarn::block other = block.share ();

        static_cast<void> (block.release ());
        tarn_block_free (other.get ()); /* the reference of what was released */
        break;
      }
    case way::record_use:
      block.record_use (queue);
      break;
    case way::move_to:
      block.move_to (queue);
      break;
    case way::wait:
      block.record_use (queue);
      q.run ();
      block.wait ();
      break;
    }
}

void
test_queues (gconstpointer data)
{
  queues q;
  tarn::pool pool = q.make_pool ();
  void *first = q.make_queue (), *second = q.make_queue ();

  for (unsigned i = 0; i < 3; i++)
    {
      tarn::block block = pool.allocate (size, first);

      q.write (first, block);
      q.follow (second, first);
      q.write (second, block);
      free_after (q, std::move (block), second, *static_cast<const way *> (data));
      block = pool.allocate (size, first);
      q.write (first, block);
    }
}

void
test_queue_failures ()
{
  queues q;
  tarn::pool pool = q.make_pool ();
  void *first = q.make_queue (), *second = q.make_queue ();
  tarn::block block = pool.allocate (size, first);

  q.fail (TARN_TESTING_CALL_ANY);
  catch_from<tarn::error> ([&] { block.record_use (second); });
  q.fail (TARN_TESTING_CALL_ANY);
  catch_from<tarn::error> ([&] { block.move_to (second); });
  q.fail (TARN_TESTING_CALL_ANY);
  catch_from<tarn::error> ([&] { pool.allocate (size, second); });
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 1);
}

} // namespace

int
main (int argc, char **argv)
{
  static const way ways[] = { way::set_last_queue,
                              way::set_last_queue_then_move,
                              way::set_last_queue_then_share,
                              way::record_use,
                              way::move_to,
                              way::wait };
  static const char *const names[]
      = { "free-on", "free-on-then-move", "free-on-then-share", "record-use", "move-to", "wait" };

  g_test_init (&argc, &argv, nullptr);
  g_test_add_func ("/core/cxx/error", test_error);
  g_test_add_func ("/core/cxx/no-memory", test_no_memory);
  g_test_add_func ("/core/cxx/exceptions", test_exceptions);
  g_test_add_func ("/core/cxx/results", test_results);
  g_test_add_func ("/core/cxx/failing-calls", test_failing_calls);
  g_test_add_func ("/core/cxx/block", test_block);
  g_test_add_func ("/core/cxx/references", test_references);
  g_test_add_func ("/core/cxx/reclaim", test_reclaim);
  g_test_add_func ("/core/cxx/group", test_group);
  g_test_add_func ("/core/cxx/budget", test_budget);
  g_test_add_func ("/core/cxx/timeout", test_timeout);
  for (std::size_t i = 0; i < G_N_ELEMENTS (ways); i++)
    g_test_add_data_func ((std::string ("/core/cxx/queues/") + names[i]).c_str (), &ways[i],
                          test_queues);
  g_test_add_func ("/core/cxx/queue-failures", test_queue_failures);
  return g_test_run ();
}
