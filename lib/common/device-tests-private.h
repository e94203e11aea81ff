/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests that run once for each chosen device.  Each run is a g_test of its own, so that a report
 * names the device on which a test failed.
 *
 * A test program chooses the devices when it adds its first test.  The program never frees the
 * devices, because g_test runs the tests later, and because g_test does not free the data of tests
 * that it skips. */

#ifndef TARN_DEVICE_TESTS_PRIVATE_H
#define TARN_DEVICE_TESTS_PRIVATE_H

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/shorten-private.h"

/* A test that was added to GLib's test framework (g_test_add_data_func ()). */
typedef struct
{
  gchar *path;
  GTestDataFunc run;
  gpointer item; /* the argument of the function run */
  gboolean has_run;
} TarnDeviceTest;

/* The devices and the tests of one backend.  Each backend has one static struct of this type. */
typedef struct
{
  const gchar *root;  /* the first part of the tests' paths */
  const gchar *title; /* the backend's name, for messages */
  /* The chosen devices, NULL if they are not chosen yet.  The array has each device only once,
   * because g_test allows only one test for each path, and the path of a test contains the
   * device. */
  GPtrArray *devices;
  gchar *reason;     /* the reason why there are no devices; NULL if there are some */
  gboolean is_error; /* TRUE if reason is set because choosing the devices failed */
  gboolean was_said;
  GPtrArray *cases; /* an array of TarnDeviceTest: the tests that were added */
} TarnDeviceTests;

/* Removes duplicate devices, and keeps the first of each. */
static inline void
_tarn_device_tests_remove_duplicates (GPtrArray *devices, GEqualFunc is_same)
{
  guint first = 0;

  for (guint i = devices->len; i-- > 0;)
    if (g_ptr_array_find_with_equal_func (devices, g_ptr_array_index (devices, i), is_same, &first)
        && first != i)
      g_ptr_array_remove_index (devices, i);
}

/* Returns a text that says why there are no devices: either an environment variable excludes all
 * devices, or the machine has none. */
static inline gchar *
_tarn_device_tests_explain_none (const TarnDeviceTests *tests)
{
  const gchar *variable = secure_getenv ("TARN_TEST") != NULL ? "TARN_TEST" : "PYOPENCL_TEST";
  const gchar *value = secure_getenv (variable);
  g_autofree gchar *quoted = NULL;

  if (value == NULL || value[0] == '\0')
    return g_strdup_printf ("there is no %s device", tests->title);
  quoted = _tarn_shorten (value);
  return g_strdup_printf ("%s='%s' chooses no %s device", variable, quoted, tests->title);
}

/* Sets the devices on which the tests run, and takes ownership of @devices.  @devices: NULL if
 * choosing the devices failed.  @why: the error that says why there is no device.  If @why is NULL,
 * this function finds a reason itself. */
static inline void
_tarn_device_tests_choose (TarnDeviceTests *tests, GPtrArray *devices, GEqualFunc is_same,
                           const GError *why)
{
  g_assert (tests->devices == NULL);
  tests->is_error = devices == NULL;
  tests->devices = devices != NULL ? devices : g_ptr_array_new ();
  _tarn_device_tests_remove_duplicates (tests->devices, is_same);
  if (tests->devices->len == 0)
    tests->reason = why != NULL ? g_strdup (why->message) : _tarn_device_tests_explain_none (tests);
}

static inline void
_tarn_device_tests_run_without_device (gconstpointer data)
{
  const TarnDeviceTests *tests = data;

  if (!tests->is_error)
    {
      g_test_skip (tests->reason);
      return;
    }
  g_test_message ("%s", tests->reason);
  g_test_fail ();
}

/* Returns TRUE if there are devices.  If there are none, adds a single test that reports the
 * reason. */
static inline gboolean
_tarn_device_tests_have_any (TarnDeviceTests *tests)
{
  g_autofree gchar *path = NULL;

  if (tests->devices->len > 0 || tests->was_said)
    return tests->devices->len > 0;
  tests->was_said = TRUE;
  path = g_strdup_printf ("/%s/%s", tests->root, tests->is_error ? "selection-error" : "no-device");
  g_test_add_data_func (path, tests, _tarn_device_tests_run_without_device);
  return FALSE;
}

/* The next functions report each option -p PATH that matches no test.  Without this report, g_test
 * would run no test and succeed. */

/* Returns TRUE if the path of a test is @wanted, or begins with the folder @wanted. */
static inline gboolean
_tarn_device_tests_is_within (const gchar *path, const gchar *wanted)
{
  gsize length = strlen (wanted);

  return strncmp (path, wanted, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* Returns TRUE if the program's user may have meant the test at @path by the option -p @wanted.
 * For the test at "/opencl/0:1/pool/reuse", these options are possible:
 *
 * - its path, or a folder that contains it ("/opencl/0:1/pool");
 * - the path without the device ("/opencl/pool"), or without device and backend ("/pool/reuse");
 * - the backend and a device's number, even of a device that has no tests ("/opencl/7:0"). */
static inline gboolean
_tarn_device_tests_means (const TarnDeviceTests *tests, const gchar *path, const gchar *wanted)
{
  gsize root_length = strlen (tests->root) + 1;
  const gchar *name = strchr (path + root_length + 1, '/');

  return _tarn_device_tests_is_within (path, wanted) || _tarn_device_tests_is_within (name, wanted)
         || (strncmp (path, wanted, root_length) == 0 && wanted[root_length] == '/'
             && (g_ascii_isdigit (wanted[root_length + 1])
                 || _tarn_device_tests_is_within (name, wanted + root_length)));
}

/* Returns TRUE if no test has run for the option -p @wanted, although the user may have meant tests
 * of devices.  g_test runs no test for a path without a slash at its beginning, so the user may
 * also have meant tests of this path with a slash. */
static inline gboolean
_tarn_device_tests_lacks (const TarnDeviceTests *tests, const gchar *wanted)
{
  g_autofree gchar *path = g_strconcat (wanted[0] == '/' ? "" : "/", wanted, NULL);
  gboolean is_meant = FALSE;

  for (guint i = 0; i < tests->cases->len; i++)
    {
      const TarnDeviceTest *test = g_ptr_array_index (tests->cases, i);

      if (test->has_run && _tarn_device_tests_is_within (test->path, wanted))
        return FALSE;
      is_meant |= _tarn_device_tests_means (tests, test->path, path);
    }
  return is_meant;
}

/* Returns the arguments of the program's -p options, the paths of the tests to run.  Reads them
 * from /proc, because g_test_init () has removed them from argv.  Returns an empty list if there is
 * an option -l, which lists tests, or -s, which skips tests. */
static inline GPtrArray *
_tarn_device_tests_list_wanted (void)
{
  GPtrArray *wanted = g_ptr_array_new_with_free_func (g_free);
  g_autofree gchar *words = NULL;
  gsize size = 0;
  gboolean is_next = FALSE;

  if (!g_file_get_contents ("/proc/self/cmdline", &words, &size, NULL))
    return wanted;
  for (const gchar *word = words; word < words + size; word += strlen (word) + 1)
    {
      if (g_str_equal (word, "-l") || g_str_equal (word, "-s") || g_str_has_prefix (word, "-s="))
        {
          g_ptr_array_set_size (wanted, 0);
          return wanted;
        }
      if (is_next)
        g_ptr_array_add (wanted, g_strdup (word));
      else if (g_str_has_prefix (word, "-p="))
        g_ptr_array_add (wanted, g_strdup (word + 3));
      is_next = !is_next && g_str_equal (word, "-p");
    }
  return wanted;
}

/* Says why no test has run for the option -p @wanted. */
static inline void
_tarn_device_tests_report_lack (const TarnDeviceTests *tests, const gchar *wanted)
{
  const gchar *reason = "no test of a device has this path";

  if (wanted[0] != '/')
    reason = "a path begins with '/'";
  for (guint i = 0; i < tests->cases->len; i++)
    {
      const TarnDeviceTest *test = g_ptr_array_index (tests->cases, i);

      if (_tarn_device_tests_is_within (test->path, wanted) && !g_str_equal (test->path, wanted))
        reason = "this path has no test, only folders; -r in place of -p runs the tests in them";
    }
  fprintf (stderr, "-p %s: %s\n", wanted, reason);
}

static TarnDeviceTests *_tarn_device_tests_watched;

/* Checks the -p options at the end of the program.  If an option may mean tests of devices, but no
 * test with its path has run, prints all paths and ends with status 1. */
static inline void
_tarn_device_tests_check_wanted (void)
{
  const TarnDeviceTests *tests = _tarn_device_tests_watched;
  g_autoptr (GPtrArray) wanted = _tarn_device_tests_list_wanted ();
  gboolean is_wrong = FALSE;

  for (guint i = 0; i < wanted->len; i++)
    if (_tarn_device_tests_lacks (tests, g_ptr_array_index (wanted, i)))
      {
        _tarn_device_tests_report_lack (tests, g_ptr_array_index (wanted, i));
        is_wrong = TRUE;
      }
  if (!is_wrong)
    return;
  fprintf (stderr, "The paths of %s tests are:\n", tests->title);
  for (guint i = 0; i < tests->cases->len; i++)
    fprintf (stderr, "  %s\n",
             ((const TarnDeviceTest *) g_ptr_array_index (tests->cases, i))->path);
  fflush (NULL);
  _exit (1);
}

static inline void
_tarn_device_tests_watch (TarnDeviceTests *tests)
{
  if (_tarn_device_tests_watched == NULL)
    atexit (_tarn_device_tests_check_wanted);
  _tarn_device_tests_watched = tests;
}

static inline void
_tarn_device_tests_run (gconstpointer data)
{
  TarnDeviceTest *test = (TarnDeviceTest *) data;

  test->has_run = TRUE;
  test->run (test->item);
}

/* Adds a test for a device.  @selector names the device, and is the second part of the test's
 * path.  @item is the argument of @run; this function takes ownership of it. */
static inline void
_tarn_device_tests_add (TarnDeviceTests *tests, const gchar *selector, const gchar *path,
                        GTestDataFunc run, gpointer item)
{
  const gchar *slash = path[0] == '/' ? "" : "/";
  TarnDeviceTest *test = g_new0 (TarnDeviceTest, 1);

  test->path = g_strdup_printf ("/%s/%s%s%s", tests->root, selector, slash, path);
  test->run = run;
  test->item = item;
  if (tests->cases == NULL)
    {
      tests->cases = g_ptr_array_new ();
      _tarn_device_tests_watch (tests);
    }
  g_ptr_array_add (tests->cases, test);
  g_test_add_data_func (test->path, test, _tarn_device_tests_run);
}

#endif
