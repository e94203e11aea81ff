/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection, to test how programs handle failures: makes requests for memory fail without
 * asking the backend.  The variable TARN_FAULTS is a comma-separated list of
 *
 *     nth=N           the Nth request of the process fails; N-M: requests N to M; N+: request N
 *                     and all after it; nth= may occur several times
 *     share=0.01      this fraction of all requests fails, at random
 *     seed=42         the seed of that random choice; the default is 0
 *     above=64M       each request for more bytes than this fails
 *     budget=256M     a request fails if the process would have more bytes than this afterwards
 *
 * The variable TARN_FAULTS_REPORT names an existing file, to which Tarn appends lines:
 *
 *     refused PID N          TARN_FAULTS made the Nth request fail
 *     requests PID N BYTES   at exit: there were N requests, and BYTES are still allocated
 *     found PID KIND TEXT    TARN_DEBUG found a mistake or leak of the program: KIND is "mistake"
 *                            or "leak", TEXT is the first line of its message
 *
 * A request is one call to a backend for memory.  If the request fails and the pool retries, the
 * retry is another request.  A set-user-ID program reads neither variable. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "allocator/faults-private.h"

#include <stdlib.h>
#include <string.h>
#include <tarn/error.h>
#include <unistd.h>

#include "allocator/allocator-private.h"
#include "base/message-private.h"
#include "common/call-range-private.h"
#include "common/limit-private.h"
#include "common/lock-private.h"
#include "common/report-line-private.h"
#include "common/variable-private.h"
#include "common/whole-private.h"

/* The faults that TARN_FAULTS asks for.  A field that is 0 makes no request fail.  Constant after
 * Tarn has read the environment. */
typedef struct
{
  GArray *nth; /* an array of TarnCallRange, from the entries nth=; nullable */
  gdouble share;
  guint64 seed;
  gsize above_bytes;
  gsize budget_bytes;
} Faults;

gboolean _tarn_faults_are_on;

static Faults faults;
static gchar *report; /* the path in TARN_FAULTS_REPORT, or NULL; constant after it is read */
static pid_t reporter;

static guint64 n_requests TARN_WHOLE; /* the number of requests so far; accessed atomically */
static gsize used_bytes; /* the bytes of granted requests that are not freed yet; atomic */

/* Functions that read the environment variables */

static gboolean
read_share (const gchar *text, gdouble *share)
{
  gchar *end;
  gdouble number = g_ascii_strtod (text, &end);

  if (end == text || *end != '\0' || !(number >= 0 && number <= 1))
    return FALSE;
  *share = number;
  return TRUE;
}

static gboolean
read_nth (const gchar *text, GArray **nth)
{
  TarnCallRange range;

  if (!_tarn_parse_call_range (text, &range))
    return FALSE;
  if (*nth == NULL)
    *nth = g_array_new (FALSE, FALSE, sizeof range);
  g_array_append_val (*nth, range);
  return TRUE;
}

static gboolean
read_fault (const gchar *name, const gchar *value, Faults *read)
{
  if (g_str_equal (name, "nth"))
    return read_nth (value, &read->nth);
  if (g_str_equal (name, "share"))
    return read_share (value, &read->share);
  if (g_str_equal (name, "seed"))
    return g_ascii_string_to_unsigned (value, 10, 0, G_MAXUINT64, &read->seed, NULL);
  if (g_str_equal (name, "above"))
    return _tarn_parse_bytes (value, &read->above_bytes);
  if (g_str_equal (name, "budget"))
    return _tarn_parse_bytes (value, &read->budget_bytes);
  return FALSE;
}

static gboolean
read_faults (const gchar *text, Faults *read)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      gchar *value = strchr (words[i], '=');
      g_autofree gchar *quoted = _tarn_shorten (words[i]);

      if (value != NULL)
        *value++ = '\0';
      if (value == NULL || !read_fault (words[i], value, read))
        {
          _tarn_message (
              "TARN_FAULTS: '%s' is none of nth=3, nth=3-5, nth=3+, share=0.01, seed=42, "
              "above=64M and budget=256M: no request is made to fail",
              quoted);
          return FALSE;
        }
    }
  return TRUE;
}

static void
begin (void)
{
  const gchar *text = _tarn_get_variable ("TARN_FAULTS");
  Faults read = { .nth = NULL };

  report = g_strdup (_tarn_get_variable ("TARN_FAULTS_REPORT"));
  reporter = getpid ();
  if (text != NULL && read_faults (text, &read))
    {
      faults = read;
      _tarn_faults_are_on = TRUE;
    }
  else
    g_clear_pointer (&read.nth, g_array_unref);
  _tarn_faults_are_on |= report != NULL;
}

/* Reads the environment, on the first call only. */
void
_tarn_faults_from_environment (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once_with_messages (&once, begin);
}

/* Functions that write the report, the file that TARN_FAULTS_REPORT names */

/* Writes the report's last line.  This is a destructor, so that it runs after the program's atexit
 * () functions, which may free memory.  Writes nothing in a child of fork (): the child's counts
 * are copies of its parent's, and the parent reports them. */
static void __attribute__ ((destructor)) report_end (void)
{
  g_autofree gchar *line = NULL;

  if (report == NULL || getpid () != reporter)
    return;
  line = g_strdup_printf ("requests %ld %" G_GUINT64_FORMAT " %" G_GSIZE_FORMAT "\n",
                          (glong) reporter, __atomic_load_n (&n_requests, __ATOMIC_RELAXED),
                          __atomic_load_n (&used_bytes, __ATOMIC_RELAXED));
  _tarn_report_add_line (report, line);
}

static void
report_refusal (guint64 number)
{
  g_autofree gchar *line = NULL;

  if (report == NULL)
    return;
  line = g_strdup_printf ("refused %ld %" G_GUINT64_FORMAT "\n", (glong) getpid (), number);
  _tarn_report_add_line (report, line);
}

void
_tarn_faults_report_finding (const gchar *kind, const gchar *text)
{
  g_autofree gchar *line = NULL;

  if (report == NULL)
    return;
  line = g_strdup_printf ("found %ld %s %.*s\n", (glong) getpid (), kind,
                          (gint) strcspn (text, "\n"), text);
  _tarn_report_add_line (report, line);
}

/* Functions that count requests, or make them fail */

/* Returns a pseudo-random number in [0, 1) by SplitMix64.  It depends only on the seed and on the
 * request's number, not on the thread. */
static gdouble
draw (guint64 number)
{
  guint64 bits = faults.seed + number * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  bits = (bits ^ (bits >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  bits = (bits ^ (bits >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  bits ^= bits >> 31;
  return (gdouble) (bits >> 11) / (gdouble) (G_GUINT64_CONSTANT (1) << 53);
}

static gboolean
is_chosen (guint64 number)
{
  for (guint i = 0; faults.nth != NULL && i < faults.nth->len; i++)
    if (_tarn_call_range_has (&g_array_index (faults.nth, TarnCallRange, i), number))
      return TRUE;
  return FALSE;
}

/* Returns the entry of TARN_FAULTS that makes request number @number fail, or NULL if none of nth=,
 * share= and above= does. */
static gchar *
find_fault (guint64 number, gsize size)
{
  if (is_chosen (number))
    return g_strdup ("nth");
  if (faults.share > 0 && draw (number) < faults.share)
    return g_strdup ("share");
  if (faults.above_bytes > 0 && size > faults.above_bytes)
    return g_strdup_printf ("above=%" G_GSIZE_FORMAT, faults.above_bytes);
  return NULL;
}

/* Adds @size to the number of bytes that the process has from backends.  Returns FALSE, and adds
 * nothing, if the sum would exceed the value of budget= in TARN_FAULTS. */
static gboolean
take_bytes (gsize size)
{
  gsize used = __atomic_load_n (&used_bytes, __ATOMIC_RELAXED);

  do
    if (faults.budget_bytes > 0
        && (used > faults.budget_bytes || size > faults.budget_bytes - used))
      return FALSE;
  while (!__atomic_compare_exchange_n (&used_bytes, &used, used + size, TRUE, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED));
  return TRUE;
}

gboolean
_tarn_fault_admit (const TarnAllocator *allocator, gsize size, GError **error)
{
  guint64 number = __atomic_add_fetch (&n_requests, 1, __ATOMIC_RELAXED);
  g_autofree gchar *fault = find_fault (number, size);

  if (fault == NULL && take_bytes (size))
    return TRUE;
  if (fault == NULL)
    fault = g_strdup_printf ("budget=%" G_GSIZE_FORMAT ", of which %" G_GSIZE_FORMAT " are used",
                             faults.budget_bytes, __atomic_load_n (&used_bytes, __ATOMIC_RELAXED));
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "TARN_FAULTS: request %" G_GUINT64_FORMAT ", of %s for %" G_GSIZE_FORMAT
               " bytes, is made to fail: %s",
               number, allocator->label, size, fault);
  report_refusal (number);
  return FALSE;
}

void
_tarn_fault_settle (gsize size)
{
  __atomic_sub_fetch (&used_bytes, size, __ATOMIC_RELAXED);
}
