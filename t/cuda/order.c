/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CUDA's memory in a pool that several streams use, the same tests on a real driver and on fake
 * ones.  Here are races, lost for certain if nobody waits: the stream that used a block last is
 * held up, and the one that gets it next must not have come to it before that is let go. */

#include "order.h"
#include "order-fixture.h"

typedef enum
{
  STREAM_A,
  STREAM_B,
  STREAM_C,
  STREAM_NULL,
  STREAM_LEGACY,
  STREAM_PER_THREAD
} Which;

typedef struct
{
  const gchar *name;
  Which allocated_for, used_by, requester; /* what is used by another stream is recorded */
  gboolean is_freed_elsewhere;             /* by another thread */
  gboolean is_requested_elsewhere;
} Case;

static const Case cases[] = {
  { "stream", STREAM_A, STREAM_A, STREAM_B, FALSE, FALSE },
  { "other-threads", STREAM_A, STREAM_A, STREAM_B, TRUE, TRUE },
  { "recorded", STREAM_A, STREAM_C, STREAM_B, FALSE, FALSE },
  { "recorded-back", STREAM_A, STREAM_C, STREAM_A, FALSE, FALSE },
  { "recorded-again", STREAM_A, STREAM_A, STREAM_C, FALSE, FALSE },
  { "default", STREAM_NULL, STREAM_NULL, STREAM_B, FALSE, FALSE },
  { "default-as-legacy", STREAM_LEGACY, STREAM_NULL, STREAM_B, FALSE, FALSE },
  { "legacy-recorded", STREAM_A, STREAM_LEGACY, STREAM_B, FALSE, FALSE },
  { "to-default", STREAM_A, STREAM_A, STREAM_NULL, FALSE, FALSE },
  { "to-legacy", STREAM_A, STREAM_A, STREAM_LEGACY, FALSE, FALSE },
  { "per-thread", STREAM_PER_THREAD, STREAM_PER_THREAD, STREAM_B, FALSE, FALSE },
  { "per-thread-recorded", STREAM_A, STREAM_PER_THREAD, STREAM_B, FALSE, FALSE },
  { "per-thread-freed-elsewhere", STREAM_PER_THREAD, STREAM_PER_THREAD, STREAM_B, TRUE, FALSE },
  { "per-thread-recorded-freed-elsewhere", STREAM_A, STREAM_PER_THREAD, STREAM_B, TRUE, FALSE },
  { "to-per-thread", STREAM_A, STREAM_A, STREAM_PER_THREAD, FALSE, FALSE },
  { "per-thread-to-another", STREAM_PER_THREAD, STREAM_PER_THREAD, STREAM_PER_THREAD, FALSE, TRUE },
  { "per-thread-to-another-freed-there", STREAM_PER_THREAD, STREAM_PER_THREAD, STREAM_PER_THREAD,
    TRUE, TRUE },
};

typedef struct
{
  Fixture fixture;
  const Case *item;
  TarnBlock *block;
  guint64 address;
} Race;

#define OLD 0x01d01d01
#define NEW 0x4e3a4e3a

static CUstream
get_stream (const Fixture *fixture, Which which)
{
  switch (which)
    {
    case STREAM_A:
      return fixture->a;
    case STREAM_B:
      return fixture->b;
    case STREAM_C:
      return fixture->c;
    case STREAM_LEGACY:
      return LEGACY;
    case STREAM_PER_THREAD:
      return PER_THREAD;
    case STREAM_NULL:
    default:
      return NULL;
    }
}

/* What the device has not done when the block is freed. */
static void
use (Race *race)
{
  const Case *item = race->item;
  CUstream stream = get_stream (&race->fixture, item->used_by);
  g_autoptr (GError) error = NULL;

  hand_on (race->fixture.pool, SIZE);
  race->block = take (&race->fixture, SIZE, get_stream (&race->fixture, item->allocated_for));
  race->address = get_address (race->block);
  if (item->used_by != item->allocated_for)
    tarn_cuda_block_record_use (race->block, stream, &error);
  g_assert_no_error (error);
  gate_close (&race->fixture.gate, stream);
  put_write (race->block, OLD, stream);
}

static gpointer
free_block (gpointer data)
{
  tarn_block_free (((Race *) data)->block);
  return NULL;
}

static gpointer
request (gpointer data)
{
  Race *race = data;
  Fixture *fixture = &race->fixture;
  CUstream stream = get_stream (fixture, race->item->requester);
  g_autoptr (TarnBlock) block = take (fixture, SIZE, stream);

  g_assert_cmphex (get_address (block), ==, race->address);
  put_write (block, NEW, stream);
  assert_waits (fixture, stream);
  gate_open (&fixture->gate);
  SUCCEED (cuda.cuStreamSynchronize (stream));
  g_assert_cmphex (read_word (fixture, block), ==, NEW);
  return NULL;
}

typedef struct
{
  Race *race;
  gpointer (*func) (gpointer);
} Task;

static gpointer
run_in_context (gpointer data)
{
  const Task *task = data;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (task->race->fixture.test->context));
  task->func (task->race);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

static void
run (Race *race, gpointer (*func) (gpointer), gboolean is_elsewhere)
{
  Task task = { race, func };

  if (is_elsewhere)
    g_thread_join (g_thread_new ("elsewhere", run_in_context, &task));
  else
    func (race);
}

static void
run_race (Race *race)
{
  use (race);
  run (race, free_block, race->item->is_freed_elsewhere);
  run (race, request, race->item->is_requested_elsewhere);
  SUCCEED (cuda.cuStreamSynchronize (get_stream (&race->fixture, race->item->used_by)));
}

/* The next stream is the pool's second one. */
static void
run_for_second (Race *race, const TarnCudaTest *test, TarnTestingCudaKind kind)
{
  fixture_init (&race->fixture, test, kind);
  run_race (race);
  g_assert_cmpuint (get_queue_waits (&race->fixture), >, 0);
  fixture_clear (&race->fixture);
}

/* The pool has met others. */
static void
run_for_third (Race *race, const TarnCudaTest *test, TarnTestingCudaKind kind)
{
  fixture_init (&race->fixture, test, kind);
  use_once (&race->fixture, OTHER_SIZE, race->fixture.a);
  use_once (&race->fixture, OTHER_SIZE, race->fixture.c);
  for (guint i = 1; i <= 2; i++)
    {
      run_race (race);
      g_assert_cmpuint (get_queue_waits (&race->fixture), >=, i);
    }
  fixture_clear (&race->fixture);
}

static void
test_race (const TarnCudaTest *test, gconstpointer data, TarnTestingCudaKind kind)
{
  Race race = { .item = data };

  run_for_second (&race, test, kind);
  run_for_third (&race, test, kind);
}

static void
test_device (const TarnCudaTest *test, gconstpointer data)
{
  test_race (test, data, TARN_TESTING_CUDA_DEVICE_MEMORY);
}

static void
test_host (const TarnCudaTest *test, gconstpointer data)
{
  test_race (test, data, TARN_TESTING_CUDA_HOST_MEMORY);
}

static void
test_managed (const TarnCudaTest *test, gconstpointer data)
{
  test_race (test, data, TARN_TESTING_CUDA_MANAGED_MEMORY);
}

/* NULL and CU_STREAM_LEGACY are one stream: nobody waits, and no call is made. */
static void
test_one_default (const TarnCudaTest *test, gconstpointer unused)
{
  static const struct
  {
    CUstream first, second;
  } pairs[] = { { NULL, LEGACY }, { LEGACY, NULL }, { PER_THREAD, PER_THREAD } };
  Fixture fixture;

  (void) unused;
  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      TarnBlock *block;
      guint64 address;

      fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
      block = take (&fixture, SIZE, pairs[i].first);
      address = get_address (block);
      gate_close (&fixture.gate, pairs[i].first);
      tarn_block_free (block);
      block = take (&fixture, SIZE, pairs[i].second);
      g_assert_cmphex (get_address (block), ==, address);
      gate_open (&fixture.gate);
      tarn_block_free (block);
      SUCCEED (cuda.cuStreamSynchronize (pairs[i].first));
      fixture_clear (&fixture);
    }
}

static void
add_race (const gchar *kind, const Case *item, TarnCudaTestFunc test)
{
  g_autofree gchar *path = g_strdup_printf ("order/race/%s/%s", kind, item->name);

  tarn_cuda_test_add (path, test, item);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      add_race ("device", &cases[i], test_device);
      add_race ("host", &cases[i], test_host);
      add_race ("managed", &cases[i], test_managed);
    }
  tarn_cuda_test_add ("order/one-default", test_one_default, NULL);
  order_add_streams ();
  order_add_captures ();
  order_add_threads ();
  return g_test_run ();
}
