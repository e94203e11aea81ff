/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: makes calls fail, to test how a program handles errors.  The environment
 * variable TARN_LAYER_FAULTS chooses the calls.  The variable is a list of the following words,
 * separated by commas:
 *
 *     CALL=N, CALL=N-M, CALL=N+   the calls with these numbers fail; each function counts its
 *                                 calls from 1, as TARN_FAULTS counts requests
 *     budget=256M                 a call fails if the program would have more memory than that
 *     loss=N                      the Nth call that needs a device fails, and so does each later
 *                                 call that needs a device
 *     count                       no call fails, calls are only counted
 *
 * Adds these lines to the file of TARN_LAYER_REPORT, beside those of report.c:
 *
 *     failed PID CALL N           when a function fails for the first time: its Nth call failed
 *     calls PID CALL N            at exit, for each function that was called: the number of its
 *                                 calls
 *     left PID KIND N             at exit, for each kind of object: the number of references that
 *                                 the program still has (of allocations if KIND is SVM), if any
 *
 * Only the program's calls are counted: fault injection stands between the program and the rest of
 * the layer, which calls the driver directly.
 *
 * Calls on a lost device return the same errors as NVIDIA's driver does, according to reports.  The
 * first such call returns CL_OUT_OF_RESOURCES.  After that, calls on queues return
 * CL_INVALID_COMMAND_QUEUE. */

#include "faults-private.h"

#include <string.h>
#include <unistd.h>

#include "common/call-range-private.h"
#include "common/limit-private.h"
#include "common/report-line-private.h"

#define FACTS(name, place, error, kind) { #name, FAULT_##place, error, FAULT_##kind },

const FaultCallFacts _tarn_layer_fault_calls[FAULT_N_CALLS] = { FAULT_CALLS (FACTS) };

static const gchar *const kind_names[FAULT_N_KINDS] = {
  [FAULT_NOTHING] = "nothing",
  [FAULT_CONTEXT] = "cl_context",
  [FAULT_COMMAND_QUEUE] = "cl_command_queue",
  [FAULT_MEMORY] = "cl_mem",
  [FAULT_SVM] = "SVM",
  [FAULT_SAMPLER] = "cl_sampler",
  [FAULT_PROGRAM] = "cl_program",
  [FAULT_KERNEL] = "cl_kernel",
  [FAULT_EVENT] = "cl_event",
};

/* A word CALL=RANGE of TARN_LAYER_FAULTS: a call, and the numbers of this call that fail.  The
 * first call of a function has number 1. */
typedef struct
{
  FaultCall call;
  TarnCallRange range;
} Fault;

/* The variables from here to @reporter are constant after _tarn_layer_faults_begin (). */
static GArray *faults; /* an array of Fault; NULL if no call is counted */
static gsize budget;   /* the bytes of memory that the program may have; 0 if there is no budget */
/* The number of the first call that finds the device lost, counted among the calls that need the
 * device.  0 if TARN_LAYER_FAULTS has no word loss=N. */
static guint64 loss;
static pid_t reporter;

/* The variables from here to @n_left are atomic. */
static guint64 n_calls[FAULT_N_CALLS];
static gboolean has_failed[FAULT_N_CALLS];
static guint64 n_device_calls;
static gboolean is_lost;
static gint n_left[FAULT_N_KINDS];

/* Functions that read TARN_LAYER_FAULTS */

/* Finds, by its name, a function whose calls fault injection can make fail.  Returns FALSE if there
 * is no such function. */
static gboolean
find_call (const gchar *name, FaultCall *call)
{
  for (guint i = 0; i < FAULT_N_CALLS; i++)
    if (g_str_equal (_tarn_layer_fault_calls[i].name, name))
      {
        *call = (FaultCall) i;
        return TRUE;
      }
  return FALSE;
}

/* Handles a word NAME=VALUE of TARN_LAYER_FAULTS.  Returns FALSE if the word is invalid. */
static gboolean
read_fault (const gchar *name, const gchar *value)
{
  Fault fault;

  if (g_str_equal (name, "budget"))
    return _tarn_parse_bytes (value, &budget);
  if (g_str_equal (name, "loss"))
    return g_ascii_string_to_unsigned (value, 10, 1, G_MAXUINT64, &loss, NULL);
  if (!find_call (name, &fault.call) || !_tarn_parse_call_range (value, &fault.range))
    return FALSE;
  g_array_append_val (faults, fault);
  return TRUE;
}

/* Handles a word of TARN_LAYER_FAULTS.  Overwrites the "=" in the word.  Returns FALSE if the word
 * is invalid. */
static gboolean
read_word (gchar *word)
{
  gchar *value = strchr (word, '=');

  if (value == NULL)
    return g_str_equal (word, "count");
  *value++ = '\0';
  return read_fault (word, value);
}

/* Handles all words of TARN_LAYER_FAULTS.  Returns FALSE, after a message, if a word is invalid. */
static gboolean
read_faults (const gchar *text)
{
  static gboolean once;
  g_auto (GStrv) words = g_strsplit (text, ",", -1);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      g_autofree gchar *quoted = _tarn_shorten (words[i]);

      if (!read_word (words[i]))
        {
          _tarn_layer_warn (&once,
                            "TARN_LAYER_FAULTS: '%s' is none of CALL=3, CALL=3-5, CALL=3+, "
                            "budget=256M, loss=100 and count: nothing is made to fail",
                            quoted);
          return FALSE;
        }
    }
  return TRUE;
}

gboolean
_tarn_layer_faults_begin (void)
{
  const gchar *text = _tarn_layer_get_settings ()->faults;

  if (text == NULL || *text == '\0')
    return FALSE;
  faults = g_array_new (FALSE, FALSE, sizeof (Fault));
  if (!read_faults (text))
    {
      g_clear_pointer (&faults, g_array_unref);
      return FALSE;
    }
  _tarn_layer_fault_memory_begin (budget);
  reporter = getpid ();
  return TRUE;
}

/* Functions that write the report */

/* Reports the numbers of calls and objects at the end of the process.  This function is a
 * destructor of the library, because a function registered with atexit () might run too early: exit
 * functions that the program registered before it run after it, and may still release objects. */
static void __attribute__ ((destructor)) report_end (void)
{
  const gchar *path = _tarn_layer_get_settings ()->report;
  g_autoptr (GString) lines = NULL;

  if (faults == NULL || path == NULL || getpid () != reporter)
    return;
  lines = g_string_new (NULL);
  for (guint i = 0; i < FAULT_N_CALLS; i++)
    if (__atomic_load_n (&n_calls[i], __ATOMIC_RELAXED) > 0)
      g_string_append_printf (lines, "calls %ld %s %" G_GUINT64_FORMAT "\n", (glong) reporter,
                              _tarn_layer_fault_calls[i].name,
                              __atomic_load_n (&n_calls[i], __ATOMIC_RELAXED));
  for (guint i = 0; i < FAULT_N_KINDS; i++)
    if (__atomic_load_n (&n_left[i], __ATOMIC_RELAXED) > 0)
      g_string_append_printf (lines, "left %ld %s %d\n", (glong) reporter, kind_names[i],
                              __atomic_load_n (&n_left[i], __ATOMIC_RELAXED));
  _tarn_report_add_line (path, lines->str);
}

/* Adds a line to the report for a call that fault injection makes fail, if it is the first such
 * call of this OpenCL function. */
static void
report_failure (FaultCall call, guint64 number)
{
  const gchar *path = _tarn_layer_get_settings ()->report;
  g_autofree gchar *line = NULL;

  if (path == NULL || __atomic_exchange_n (&has_failed[call], TRUE, __ATOMIC_RELAXED))
    return;
  line = g_strdup_printf ("failed %ld %s %" G_GUINT64_FORMAT "\n", (glong) getpid (),
                          _tarn_layer_fault_calls[call].name, number);
  _tarn_report_add_line (path, line);
}

/* Functions that count calls and objects */

/* Returns TRUE if TARN_LAYER_FAULTS says that the call with this number fails. */
static gboolean
is_chosen (FaultCall call, guint64 number)
{
  for (guint i = 0; i < faults->len; i++)
    {
      const Fault *fault = &g_array_index (faults, Fault, i);

      if (fault->call == call && _tarn_call_range_has (&fault->range, number))
        return TRUE;
    }
  return FALSE;
}

/* Simulates the loss of the device, if TARN_LAYER_FAULTS has the word loss=N: the Nth call that
 * needs the device fails, and so does each later call that needs the device.  A call that needs a
 * queue or events needs the device, too.  @place: the resource that the call needs.  Returns the
 * status with which the call has to fail.  Returns CL_SUCCESS if the device is not lost, or if the
 * call needs only the host. */
static cl_int
strike_loss (FaultPlace place)
{
  if (loss == 0 || place == FAULT_HOST
      || __atomic_add_fetch (&n_device_calls, 1, __ATOMIC_RELAXED) < loss)
    return CL_SUCCESS;
  if (!__atomic_exchange_n (&is_lost, TRUE, __ATOMIC_RELAXED) || place == FAULT_DEVICE)
    return CL_OUT_OF_RESOURCES;
  return place == FAULT_QUEUE ? CL_INVALID_COMMAND_QUEUE
                              : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

cl_int
_tarn_layer_fault_strike (FaultCall call)
{
  const FaultCallFacts *facts = &_tarn_layer_fault_calls[call];
  guint64 number = __atomic_add_fetch (&n_calls[call], 1, __ATOMIC_RELAXED);
  cl_int status = strike_loss (facts->place);

  if (status == CL_SUCCESS && is_chosen (call, number))
    status = facts->error;
  if (status != CL_SUCCESS)
    report_failure (call, number);
  return status;
}

void
_tarn_layer_fault_count (FaultKind kind, gint n)
{
  __atomic_add_fetch (&n_left[kind], n, __ATOMIC_RELAXED);
}

void
_tarn_layer_fault_note_refusal (FaultCall call)
{
  report_failure (call, __atomic_load_n (&n_calls[call], __ATOMIC_RELAXED));
}
