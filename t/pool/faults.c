/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_FAULTS: which requests to a driver are made to fail, what is said of them, and what is
 * reported.  The variable is read once, so that each test is a process of its own, which prints "+"
 * for each block that it has and "-" for each that it does not. */

#include <tarn/tarn.h>

#include "lib/nothing.h"
#include "lib/place.h"
#include <tarn/testing.h>

#define SIZE 300
#define MAX_BLOCKS 100

typedef struct
{
  const gchar *path;
  const gchar *faults;
  void (*body) (void);
  const gchar *expected; /* a pattern of what it prints */
} Case;

static void
print_outcome (const TarnBlock *block, const GError *error)
{
  g_assert_true ((block != NULL) == (error == NULL));
  if (block == NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_print ("%s", block != NULL ? "+" : "-");
}

/* Prints the last error, too. */
static void
allocate_and_free (TarnAllocator *allocator, guint n, gsize size)
{
  g_autoptr (GError) last = NULL;
  TarnBlock *blocks[MAX_BLOCKS];

  g_assert_cmpuint (n, <=, MAX_BLOCKS);
  for (guint i = 0; i < n; i++)
    {
      GError *error = NULL;

      blocks[i] = tarn_allocator_allocate (allocator, size, &error);
      print_outcome (blocks[i], error);
      if (error != NULL)
        {
          g_clear_error (&last);
          last = error;
        }
    }
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  if (last != NULL)
    g_print (" %s", last->message);
}

static void
allocate_six (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

  allocate_and_free (allocator, 6, SIZE);
  g_print (" calls=%u", tarn_testing_device_get_allocate_calls (device));
}

/* A request of a layer below the program does not count as a request of the program. */
static void
allocate_over_hidden (void)
{
  g_autoptr (TarnAllocator) hidden = NULL;
  TarnAllocatorOps ops;

  nothing_ops_init (&ops);
  ops.is_hidden = TRUE;
  hidden = tarn_allocator_new (&ops, NULL, NULL);
  allocate_and_free (hidden, 6, SIZE);
  g_print (" ");
  allocate_six ();
}

static gboolean
adaptor_allocate (gpointer below, gsize size, TarnMemory *memory, GError **error)
{
  return tarn_allocator_allocate_memory (below, size, memory, error);
}

static void
adaptor_free (gpointer below, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (below, memory, size);
}

/* An adaptor is no driver: only the allocator below it asks one. */
static void
allocate_over_adaptor (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) below = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnAllocator) adaptor = NULL;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = adaptor_allocate;
  ops.free = adaptor_free;
  ops.below = below;
  adaptor = tarn_allocator_new (&ops, below, NULL);
  allocate_and_free (adaptor, 6, SIZE);
}

static void
allocate_twice (void) /* what the first six had can be had again */
{
  allocate_six ();
  g_print (" ");
  allocate_six ();
}

static void
allocate_sizes (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

  for (gsize size = 1022; size <= 1026; size++)
    allocate_and_free (allocator, 1, size);
}

static void
allocate_from_pool (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);

  allocate_and_free (TARN_ALLOCATOR (pool), 4, SIZE); /* each is a request */
  g_print (" ");
  allocate_and_free (TARN_ALLOCATOR (pool), 4, SIZE); /* these are held */
}

/* Three pieces of virtual memory at most. */
static void
allocate_from_heap (void)
{
  TarnTestingPages *pages = tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_VIRTUAL);
  TarnAllocator *allocator = tarn_testing_pages_allocator_new (pages);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnAllocator *heap;

  options.growth_bytes = TARN_TESTING_PAGES_GRANULARITY;
  heap = tarn_heap_allocator_new (allocator, &options, NULL);
  g_assert_nonnull (heap);
  allocate_and_free (heap, 5, TARN_TESTING_PAGES_GRANULARITY);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (allocator);
  tarn_testing_pages_free (pages);
}

/* What the driver refuses counts as a request, and not as memory. */
static void
allocate_from_full (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (2 * SIZE);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

  allocate_and_free (allocator, 5, SIZE);
}

#define SAID(number, why)                                                                          \
  "*TARN_FAULTS: request " number ", of allocator 'fake' for 300 bytes, is made to fail: " why "*"

static const Case cases[] = {
  { "none", "", allocate_six, "*++++++ calls=6*" },
  { "nth", "nth=3", allocate_six, "*++++++ calls=6*" }, /* the second try is another request */
  { "nth/two", "nth=3-4", allocate_six, "*++-+++" SAID ("4", "nth") "calls=5*" },
  { "nth/all", "nth=3+", allocate_six, "*++----" SAID ("10", "nth") "calls=2*" },
  { "share/all", "share=1", allocate_six, "*------" SAID ("12", "share") "calls=0*" },
  { "share/none", "share=0", allocate_six, "*++++++ calls=6*" },
  { "above", "above=1K", allocate_sizes, "*+++- *above=1024- *above=1024*" },
  { "budget", "budget=1000", allocate_six,
    "*+++---" SAID ("9", "budget=1000, of which 900 are used") "*" },
  { "budget/hidden", "budget=1000", allocate_over_hidden,
    "*++++++ +++---" SAID ("9", "budget=1000, of which 900 are used") "*" },
  { "budget/adaptor", "budget=1000", allocate_over_adaptor,
    "*+++---*" SAID ("*", "budget=1000, of which 900 are used") "*" },
  { "budget/again", "budget=1K", allocate_twice, "*+++---* +++---*" },
  { "budget/exact", "budget=1800", allocate_twice, "*++++++ calls=6 ++++++ calls=6*" },
  { "budget/pool", "budget=1000", allocate_from_pool, "*+++-*budget=1000* +++-*budget=1000*" },
  { "budget/heap", "budget=6M", allocate_from_heap, "*+++--*budget=6291456*" },
  { "budget/full", "budget=601", allocate_from_full, "*++---*budget=601, of which 600 are used*" },
  { "nth/several", "nth=1-2,nth=4-5", allocate_six, "*-+-+++" SAID ("5", "nth") "calls=4*" },
  { "several", "nth=1-2,budget=1000", allocate_six, "*-+++--*budget=1000*" },
};

static void
test_case (gconstpointer data)
{
  const Case *self = data;

  if (g_test_subprocess ())
    {
      self->body ();
      return;
    }
  g_setenv ("TARN_FAULTS", self->faults, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_FAULTS");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout (self->expected);
}

/* The report */

static void
allocate_100 (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

  allocate_and_free (allocator, MAX_BLOCKS, SIZE);
}

/* Gets what a process of this test reports, without its number. */
static gchar *
run_and_report (const gchar *faults)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GString) numbers = g_string_new (NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  place_init (&place, "report");
  g_assert_true (g_file_set_contents (place.path, "", 0, NULL));
  g_setenv ("TARN_FAULTS", faults, TRUE);
  g_setenv ("TARN_FAULTS_REPORT", place.path, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_FAULTS");
  g_unsetenv ("TARN_FAULTS_REPORT");
  g_test_trap_assert_passed ();
  g_assert_true (g_file_get_contents (place.path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i][0] != '\0'; i++)
    {
      g_auto (GStrv) words = g_strsplit (lines[i], " ", 3);

      g_assert_cmpuint (g_ascii_strtoull (words[1], NULL, 10), !=, 0);
      g_string_append_printf (numbers, "%s %s\n", words[0], words[2]);
    }
  return g_string_free (g_steal_pointer (&numbers), FALSE);
}

static guint
count_refused (const gchar *report)
{
  g_auto (GStrv) parts = g_strsplit (report, "refused ", -1);

  return g_strv_length (parts) - 1;
}

/* The same in each run, and another with another seed. */
static void
test_random (void)
{
  g_autofree gchar *first = NULL, *again = NULL, *other = NULL;

  if (g_test_subprocess ())
    {
      allocate_100 ();
      return;
    }
  first = run_and_report ("share=0.3,seed=7");
  again = run_and_report ("seed=7,share=0.3");
  other = run_and_report ("share=0.3,seed=8");
  g_assert_cmpstr (first, ==, again);
  g_assert_cmpstr (first, !=, other);
  g_assert_cmpuint (count_refused (first), >, 15);
  g_assert_cmpuint (count_refused (first), <, 65);
}

static void
lose_one (void)
{
  static TarnBlock *volatile lost; /* which leak checkers see */
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);

  allocate_and_free (allocator, 2, SIZE);
  lost = tarn_allocator_allocate (allocator, SIZE, NULL);
  g_assert_nonnull (lost);
}

/* What a process has left at its end is what it has lost. */
static void
test_report (void)
{
  g_autofree gchar *report = NULL, *counted = NULL;

  if (g_test_subprocess ())
    {
      lose_one ();
      return;
    }
  report = run_and_report ("nth=2");
  g_assert_cmpstr (report, ==, "refused 2\nrequests 4 300\n");
  counted = run_and_report ("");
  g_assert_cmpstr (counted, ==, "requests 3 300\n");
}

/* A value that is none */

static void
test_wrong (gconstpointer value)
{
  g_autofree gchar *message = g_strdup_printf ("*TARN_FAULTS: '%s' is none of nth=3, nth=3-5, "
                                               "nth=3+, share=0.01, seed=42, above=64M and "
                                               "budget=256M: no request is made to fail*",
                                               (const gchar *) value);
  g_autofree gchar *faults = g_strconcat ("nth=1+,", value, NULL);

  if (g_test_subprocess ())
    {
      allocate_six ();
      return;
    }
  g_setenv ("TARN_FAULTS", faults, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_FAULTS");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout ("*++++++ calls=6*");
  g_test_trap_assert_stderr (message);
}

int
main (int argc, char **argv)
{
  static const gchar *const wrong[]
      = { "nth",       "nth=",     "nth=0",     "nth=x",
          "nth=5-3",   "nth=3-",   "nth=3++",   "nth=99999999999999999999",
          "share=2",   "share=-1", "share=",    "share=nan",
          "seed=-1",   "above=0",  "above=80%", "budget=",
          "budget=3x", "",         "other=1" };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/core/faults/", cases[i].path, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/faults/wrong/%u", i);

      g_test_add_data_func (path, wrong[i], test_wrong);
    }
  g_test_add_func ("/core/faults/random", test_random);
  g_test_add_func ("/core/faults/report", test_report);
  return g_test_run ();
}
