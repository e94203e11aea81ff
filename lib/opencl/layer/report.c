/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reports to the program that started this one, for example tarn-run.  The layer appends these
 * lines to the file that TARN_LAYER_REPORT names:
 *
 *     loaded PID                                     when the layer is loaded
 *     buffers PID MADE SERVED DRIVERS-OWN POOLS-OWN FAILED
 *                                                    at exit: numbers of buffers; see LayerCounts
 *     own PID NUMBER TEXT                            at exit: the driver, not a pool, made NUMBER
 *                                                    buffers; TEXT is the reason
 *     images PID MADE SERVED DRIVERS-OWN POOLS-OWN FAILED
 *                                                    at exit: numbers of images, if any were made
 *     svm PID FAILED                                 at exit: failed requests, if any failed
 *
 * A process that is killed, or that executes another program, leaves only the first line. */

#include "layer-private.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/report-line-private.h"

static pid_t loaded_by;

/* Returns the value of a counter in LayerCounts. */
static gsize
get_count (const gsize *count)
{
  return __atomic_load_n (count, __ATOMIC_RELAXED);
}

const gchar *
_tarn_layer_describe_reason (LayerReason reason)
{
  static const gchar *const texts[LAYER_N_REASONS]
      = { [LAYER_OF_HOST] = ("over memory of the host, or filled from it "
                             "(CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR)"),
          [LAYER_OF_DEVICES] = "in a context of several devices, or of one older than OpenCL 1.2",
          [LAYER_FLAGS] = "with flags or properties that the layer does not know",
          [LAYER_TOO_LARGE] = "larger than the device's largest buffer",
          [LAYER_FOR_IMAGES] = ("made after an image of a buffer, a kernel that reads such images, "
                                "or a question about them"),
          [LAYER_NO_POOL] = "made where there was no pool, or one without memory" };

  return texts[reason];
}

/* Adds a line to the report for each reason for which the driver, not a pool, made buffers of the
 * program. */
static void
report_reasons (void)
{
  for (guint i = 0; i < LAYER_N_REASONS; i++)
    {
      gsize n = get_count (&_tarn_layer_counts.reasons[i]);
      g_autofree gchar *line
          = g_strdup_printf ("own %ld %" G_GSIZE_FORMAT " %s\n", (glong) loaded_by, n,
                             _tarn_layer_describe_reason ((LayerReason) i));

      if (n > 0)
        _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
    }
}

/* Adds the line with the numbers of images to the report. */
static void
report_images (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  g_autofree gchar *line
      = g_strdup_printf ("images %ld %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT
                         " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT "\n",
                         (glong) loaded_by, get_count (&counts->images_created),
                         get_count (&counts->images_served), get_count (&counts->images_passed_on),
                         get_count (&counts->pool_images), get_count (&counts->images_failed));

  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
}

/* Adds the line with the number of failed requests for shared virtual memory to the report. */
static void
report_svm (void)
{
  g_autofree gchar *line = g_strdup_printf ("svm %ld %" G_GSIZE_FORMAT "\n", (glong) loaded_by,
                                            get_count (&_tarn_layer_counts.svm_failed));

  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
}

/* Runs at exit: adds the lines with the numbers of buffers and images to the report.  A child of
 * fork () adds no lines, because its numbers include those of its parent. */
static void
report_end (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  g_autofree gchar *line = NULL;

  if (getpid () != loaded_by)
    return;
  line = g_strdup_printf ("buffers %ld %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT
                          " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT "\n",
                          (glong) loaded_by, get_count (&counts->created),
                          get_count (&counts->served), get_count (&counts->passed_on),
                          get_count (&counts->pieces), get_count (&counts->failed));
  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
  report_reasons ();
  if (get_count (&counts->images_created) > 0 || get_count (&counts->images_failed) > 0)
    report_images ();
  if (get_count (&counts->svm_failed) > 0)
    report_svm ();
}

void
_tarn_layer_report_begin (void)
{
  g_autofree gchar *line = NULL;

  if (_tarn_layer_get_settings ()->report == NULL)
    return;
  loaded_by = getpid ();
  line = g_strdup_printf ("loaded %ld\n", (glong) loaded_by);
  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
  atexit (report_end);
}
