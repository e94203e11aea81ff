/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reports to the caller that started the program, such as tarn-run: adds lines to the end of the
 * file that TARN_LAYER_REPORT names:
 *
 *     loaded PID                                     the layer has been loaded
 *     buffers PID MADE SERVED DRIVERS-OWN POOLS-OWN  at exit: numbers of buffers, as LayerCounts
 *     own PID NUMBER TEXT                            of the driver's own buffers: why they are
 *     images PID MADE SERVED DRIVERS-OWN POOLS-OWN   ... of images, if any were made
 *
 * A process that was killed, or that has become another program, leaves the first alone. */

#include "layer-private.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/report-line-private.h"

static pid_t loaded_by;

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
          [LAYER_FOR_IMAGES]
          = "made after an image of a buffer, or a kernel that reads such images",
          [LAYER_NO_POOL] = "made where there was no pool, or one without memory" };

  return texts[reason];
}

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

static void
report_images (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  g_autofree gchar *line = g_strdup_printf (
      "images %ld %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT
      "\n",
      (glong) loaded_by, get_count (&counts->images_created), get_count (&counts->images_served),
      get_count (&counts->images_passed_on), get_count (&counts->pool_images));

  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
}

/* A child of fork () has the counts of its parent, who reports them. */
static void
report_end (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  g_autofree gchar *line = NULL;

  if (getpid () != loaded_by)
    return;
  line = g_strdup_printf ("buffers %ld %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT
                          " %" G_GSIZE_FORMAT "\n",
                          (glong) loaded_by, get_count (&counts->created),
                          get_count (&counts->served), get_count (&counts->passed_on),
                          get_count (&counts->pieces));
  _tarn_report_add_line (_tarn_layer_get_settings ()->report, line);
  report_reasons ();
  if (get_count (&counts->images_created) > 0)
    report_images ();
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
