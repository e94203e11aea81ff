/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests that run once for each chosen device: one g_test for each, so that a report names the
 * device that a test failed on.
 *
 * A process chooses the devices once, when it adds the first test.  They stay until it ends,
 * because g_test runs the tests later, and frees only the data of tests that it has run. */

#ifndef TARN_DEVICE_TESTS_PRIVATE_H
#define TARN_DEVICE_TESTS_PRIVATE_H

#include <glib.h>
#include <stdlib.h>

#include "common/shorten-private.h"

/* A backend has one, which is static. */
typedef struct
{
  const gchar *root;  /* the start of the paths */
  const gchar *title; /* the backend's, for messages */
  GPtrArray *devices; /* each once: g_test has one test for a path; NULL: not yet chosen */
  gchar *reason;      /* why there is none; NULL if there are some */
  gboolean is_error;  /* then the choice itself could not be made */
  gboolean was_said;
  GPtrArray *cases; /* the data of g_test's tests */
} TarnDeviceTests;

/* Leaves the first of those that are the same. */
static inline void
_tarn_device_tests_remove_duplicates (GPtrArray *devices, GEqualFunc is_same)
{
  guint first = 0;

  for (guint i = devices->len; i-- > 0;)
    if (g_ptr_array_find_with_equal_func (devices, g_ptr_array_index (devices, i), is_same, &first)
        && first != i)
      g_ptr_array_remove_index (devices, i);
}

/* Says so if a variable has left none, and not the machine. */
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

/* Takes over @devices, or NULL if they could not be chosen; @why there is none, if that is known.
 */
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

/* Returns TRUE if there is anything to run on; if not, one test of the whole program says why. */
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

/* Adds a test of what @selector names; takes over @item, which @run is given. */
static inline void
_tarn_device_tests_add (TarnDeviceTests *tests, const gchar *selector, const gchar *path,
                        GTestDataFunc run, gpointer item)
{
  const gchar *slash = path[0] == '/' ? "" : "/";
  g_autofree gchar *full = g_strdup_printf ("/%s/%s%s%s", tests->root, selector, slash, path);

  if (tests->cases == NULL)
    tests->cases = g_ptr_array_new ();
  g_ptr_array_add (tests->cases, item);
  g_test_add_data_func (full, item, run);
}

#endif
