/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The device that is a table: what it says of whoever allocates from it. */

#include <tarn/testing.h>

typedef struct
{
  TarnTestingDevice *device;
  TarnAllocator *allocator;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->device = tarn_testing_device_new (G_MAXUINT64);
  fixture->allocator = tarn_testing_device_allocator_new (fixture->device);
}

static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_unref (fixture->allocator);
  tarn_testing_device_free (fixture->device);
}

static TarnMemory
take (Fixture *fixture, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnMemory memory;

  g_assert_true (tarn_allocator_allocate_memory (fixture->allocator, size, &memory, &error));
  g_assert_no_error (error);
  return memory;
}

static void
give_back (Fixture *fixture, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (fixture->allocator, memory, size);
}

static void
assert_fault (Fixture *fixture, const gchar *expected)
{
  g_autofree gchar *fault = tarn_testing_device_steal_fault (fixture->device);

  g_assert_cmpstr (fault, ==, expected);
}

static void
assert_leaks (Fixture *fixture, const gchar *expected)
{
  g_autofree gchar *leaks = tarn_testing_device_describe_leaks (fixture->device);

  g_assert_cmpstr (leaks, ==, expected);
}

static void
test_leaks (Fixture *fixture, gconstpointer unused)
{
  TarnMemory first = take (fixture, 16), second = take (fixture, 100), third = take (fixture, 48);

  (void) unused;
  give_back (fixture, second, 100);
  assert_leaks (fixture, "2 allocation(s) of 64 bytes were not freed: memory 0x1001 of 16 bytes, "
                         "memory 0x1003 of 48 bytes");
  give_back (fixture, first, 16);
  give_back (fixture, third, 48);
  assert_leaks (fixture, NULL);
  tarn_testing_assert_no_leaks (fixture->device);
}

/* A line stays a line. */
static void
test_many_leaks (Fixture *fixture, gconstpointer unused)
{
  g_autofree gchar *leaks = NULL;
  TarnMemory memory[11];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    memory[i] = take (fixture, 1);
  leaks = tarn_testing_device_describe_leaks (fixture->device);
  g_assert_true (g_str_has_suffix (leaks, ", memory 0x100a of 1 bytes, ..."));
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    give_back (fixture, memory[i], 1);
}

/* Each is seen, and does nothing else; of two, the first is kept. */
static void
test_wrong_frees (Fixture *fixture, gconstpointer unused)
{
  TarnMemory memory = take (fixture, 16), other = { .address = 0x77 };

  (void) unused;
  give_back (fixture, memory, 17);
  assert_fault (fixture, "memory 0x1001 of 16 bytes is freed as 17 bytes");
  g_assert_cmpuint (tarn_testing_device_get_used_bytes (fixture->device), ==, 16);
  give_back (fixture, memory, 16);
  assert_fault (fixture, NULL);

  give_back (fixture, memory, 16);
  give_back (fixture, other, 8);
  assert_fault (fixture, "memory 0x1001 of 16 bytes is freed twice");
  assert_fault (fixture, NULL);
  give_back (fixture, other, 8);
  assert_fault (fixture, "memory 0x77 of 8 bytes is freed and was never allocated");
  g_assert_cmpuint (tarn_testing_device_get_used_bytes (fixture->device), ==, 0);
}

/* Tells whether a request fails for lack of memory; frees what it gets. */
static gboolean
fails (Fixture *fixture)
{
  g_autoptr (GError) error = NULL;
  TarnMemory memory;

  if (tarn_allocator_allocate_memory (fixture->allocator, 1, &memory, &error))
    {
      give_back (fixture, memory, 1);
      return FALSE;
    }
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  return TRUE;
}

/* An allocator asks twice before it gives up, since something may have been freed. */
static void
test_fail (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_device_fail (fixture->device, 2, TRUE);
  g_assert_false (fails (fixture));
  g_assert_false (tarn_testing_device_has_failed (fixture->device));
  g_assert_true (fails (fixture));
  g_assert_true (fails (fixture));
  g_assert_true (tarn_testing_device_has_failed (fixture->device));

  tarn_testing_device_fail (fixture->device, 1, FALSE);
  g_assert_false (fails (fixture)); /* but the first time */
  g_assert_true (tarn_testing_device_has_failed (fixture->device));
  tarn_testing_device_fail (fixture->device, 0, FALSE);
  g_assert_false (fails (fixture));
  g_assert_false (tarn_testing_device_has_failed (fixture->device));
}

static guint
count_failures (Fixture *fixture, gdouble share)
{
  guint n = 0;

  tarn_testing_device_fail_share (fixture->device, share);
  for (guint i = 0; i < 1000; i++)
    n += fails (fixture);
  return n;
}

/* Half of the calls: a quarter of the requests, which make up to two. */
static void
test_fail_share (Fixture *fixture, gconstpointer unused)
{
  guint n;

  (void) unused;
  g_assert_cmpuint (count_failures (fixture, 1), ==, 1000);
  g_assert_true (tarn_testing_device_has_failed (fixture->device));
  n = count_failures (fixture, 0.5);
  g_assert_cmpuint (n, >, 150);
  g_assert_cmpuint (n, <, 350);
  g_assert_cmpuint (count_failures (fixture, 0), ==, 0);
  g_assert_false (tarn_testing_device_has_failed (fixture->device));
}

static void
test_budget (Fixture *fixture, gconstpointer unused)
{
  TarnMemory memory = take (fixture, 100);

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 100);
  g_assert_true (fails (fixture));
  tarn_testing_device_set_budget (fixture->device, 50); /* less than is in use */
  g_assert_true (fails (fixture));
  tarn_testing_device_set_budget (fixture->device, 101);
  g_assert_false (fails (fixture));
  give_back (fixture, memory, 100);
}

/* What ends a test says why. */

static void
leak (Fixture *fixture, gconstpointer frees)
{
  take (fixture, 100);
  if (GPOINTER_TO_INT (frees))
    tear_down (fixture, NULL);
  else
    tarn_testing_assert_no_leaks (fixture->device);
}

static void
free_twice (Fixture *fixture, gconstpointer unused)
{
  TarnMemory memory = take (fixture, 100);

  (void) unused;
  give_back (fixture, memory, 100);
  give_back (fixture, memory, 100);
  tarn_testing_assert_no_leaks (fixture->device);
}

typedef struct
{
  void (*func) (Fixture *fixture, gconstpointer data);
  gconstpointer data;
  const gchar *message; /* a pattern */
} Ending;

static const Ending endings[] = {
  { leak, GINT_TO_POINTER (FALSE),
    "*tarn_testing_assert_no_leaks: 1 allocation(s) of 100 bytes were not freed: memory 0x1001 of "
    "100 bytes*" },
  { leak, GINT_TO_POINTER (TRUE),
    "*tarn_testing_assert_no_leaks: 1 allocation(s) of 100 bytes were not freed: memory 0x1001 of "
    "100 bytes*" },
  { free_twice, NULL, "*tarn_testing_assert_no_leaks: memory 0x1001 of 100 bytes is freed twice*" },
};

static void
test_ending (gconstpointer data)
{
  const Ending *ending = data;
  Fixture fixture;

  if (g_test_subprocess ())
    {
      set_up (&fixture, NULL);
      ending->func (&fixture, ending->data);
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr (ending->message);
}

#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/testing/device/leaks", test_leaks);
  ADD ("/testing/device/many-leaks", test_many_leaks);
  ADD ("/testing/device/wrong-frees", test_wrong_frees);
  ADD ("/testing/device/fail", test_fail);
  ADD ("/testing/device/fail-share", test_fail_share);
  ADD ("/testing/device/budget", test_budget);
  g_test_add_data_func ("/testing/device/ends/leak", &endings[0], test_ending);
  g_test_add_data_func ("/testing/device/ends/leak-at-free", &endings[1], test_ending);
  g_test_add_data_func ("/testing/device/ends/free-twice", &endings[2], test_ending);
  return g_test_run ();
}
