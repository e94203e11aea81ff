/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions of OpenCL that a program gives Tarn, which are all its own here: there need be no
 * OpenCL.  What is set is set for the rest of the process, so each test has a process of its own.
 */

#include <string.h>
#include <tarn/opencl.h>

static guint n_found; /* atomic */
static guint n_calls;
static const gchar *missing;

static cl_int CL_API_CALL
count_platforms (cl_uint n, cl_platform_id *platforms, cl_uint *count)
{
  (void) n;
  (void) platforms;
  n_calls++;
  *count = 0;
  return CL_SUCCESS;
}

/* Nobody calls another one. */
static gpointer
find (const gchar *name, gpointer data)
{
  cl_int (CL_API_CALL * function) (cl_uint, cl_platform_id *, cl_uint *) = count_platforms;

  g_assert_true (data == &n_found);
  g_atomic_int_inc (&n_found);
  return g_strcmp0 (name, missing) != 0 ? *(gpointer *) &function : NULL;
}

static void
run_apart (void (*func) (void))
{
  if (g_test_subprocess ())
    {
      func ();
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_passed ();
}

static void
set (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_opencl_set_functions (find, &n_found, &error));
  g_assert_no_error (error);
}

static void
expect_calls_of_ours (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = NULL;

  set ();
  g_assert_cmpuint (n_calls, ==, 0);
  devices = tarn_opencl_select_test_devices ("", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (devices->len, ==, 0);
  g_assert_cmpuint (n_calls, ==, 1);
  g_assert_true (tarn_opencl_get_function ("clGetPlatformIDs", &error)
                 == find ("clGetPlatformIDs", &n_found));
  missing = "clNoSuchThing";
  g_assert_null (tarn_opencl_get_function (missing, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpstr (error->message, ==, "OpenCL has no function 'clNoSuchThing' here");
}

/* Functions of OpenCL 1.2 must be there, later ones need not.  A failed call changes nothing. */
static void
expect_missing (void)
{
  g_autoptr (GError) error = NULL;

  missing = "clFlush";
  g_assert_false (tarn_opencl_set_functions (find, &n_found, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER);
  g_assert_cmpstr (error->message, ==, "the program has no function clFlush of OpenCL 1.2");
  missing = "clSVMAlloc";
  set ();
}

static void
expect_too_late (void)
{
  g_autoptr (GError) error = NULL;

  set ();
  g_assert_false (tarn_opencl_set_functions (find, &n_found, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

/* Whatever the machine has. */
static void
expect_too_late_after_a_call (void)
{
  g_autoptr (GError) error = NULL;
  gboolean has_opencl = tarn_opencl_get_function ("clFlush", NULL) != NULL;

  g_assert_true (tarn_opencl_set_functions (find, &n_found, &error) != has_opencl);
  if (has_opencl)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

#define N_THREADS 8

static gpointer
set_in_thread (gpointer unused)
{
  (void) unused;
  return GINT_TO_POINTER (tarn_opencl_set_functions (find, &n_found, NULL));
}

static void
expect_one_winner (void)
{
  GThread *threads[N_THREADS];
  gint n_winners = 0;

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("set", set_in_thread, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    n_winners += GPOINTER_TO_INT (g_thread_join (threads[i]));
  g_assert_cmpint (n_winners, ==, 1);
}

static void
run (gconstpointer data)
{
  void (*func) (void);

  *(gconstpointer *) &func = data;
  run_apart (func);
}

static void
add (const gchar *path, void (*func) (void))
{
  g_test_add_data_func (path, *(gpointer *) &func, run);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("/opencl/set-functions/called", expect_calls_of_ours);
  add ("/opencl/set-functions/missing", expect_missing);
  add ("/opencl/set-functions/twice", expect_too_late);
  add ("/opencl/set-functions/too-late", expect_too_late_after_a_call);
  add ("/opencl/set-functions/threads", expect_one_winner);
  return g_test_run ();
}
