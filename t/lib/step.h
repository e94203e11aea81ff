/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef STEP_H
#define STEP_H

#include <glib.h>
#include <stdlib.h>

/* Gets how far it is from one case that is tried to the next one: TARN_FAILURES_STEP, for builds
 * and programs in which each takes long; 1 unless that says otherwise. */
static inline guint
get_step (void)
{
  const gchar *step = g_getenv ("TARN_FAILURES_STEP");

  return step != NULL ? (guint) MAX (atoi (step), 1) : 1;
}

#endif
