/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Faults that tarn-run injects into a program: calls that fail, a memory budget and a lost device.
 * The program gets its faults in environment variables. */

#ifndef FAULTS_H
#define FAULTS_H

#include <glib.h>

/* The name, in a list of calls to fail, that stands for requests to the program's own pools and
 * allocators.  TARN_FAULTS makes them fail. */
#define FAULTS_REQUESTS "tarn"

/* The faults of one run of a program. */
typedef struct
{
  gchar **calls;   /* such as "clCreateBuffer:3"; nullable */
  gboolean all;    /* all later calls of these names fail, too */
  gchar *budget;   /* bytes, such as "256M"; nullable */
  gchar *loss;     /* the device is lost at the call with this number; nullable */
  gboolean counts; /* calls are counted and reported, even if none fails */
} Faults;

/* Checks the syntax of faults.  Returns FALSE, with an error that names the option, if it is
 * wrong. */
gboolean faults_check (const Faults *faults, GError **error);

/* Checks the name of a call.  Returns FALSE, with an error that names the option, if no such call
 * can fail. */
gboolean faults_check_name (const gchar *option, const gchar *name, GError **error);

/* Gets the index of a name in the list of all calls that can fail.  Returns the length of the list
 * if it does not have the name. */
guint faults_get_rank (const gchar *name);

/* Get the values of TARN_LAYER_FAULTS and of TARN_FAULTS.  Each returns NULL if its variable is not
 * needed.  Free the value with g_free (). */
gchar *faults_for_layer (const Faults *faults);
gchar *faults_for_tarn (const Faults *faults);

#endif
