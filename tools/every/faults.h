/* Tarn: memory pools for OpenCL and CUDA.
 *
 * Faults: the calls that fail in a program, its memory budget and a lost device.  They are passed
 * to the program in environment variables. */

#ifndef FAULTS_H
#define FAULTS_H

#include <glib.h>

/* The name for requests to a program's own pools and allocators, which fail with TARN_FAULTS. */
#define FAULTS_REQUESTS "tarn"

/* The faults of one run of a program. */
typedef struct
{
  gchar **calls;   /* such as "clCreateBuffer:3"; nullable */
  gboolean all;    /* all later calls of these names fail as well */
  gchar *budget;   /* bytes, such as "256M"; nullable */
  gchar *loss;     /* the number of the call at which the device is lost; nullable */
  gboolean counts; /* calls are counted and reported, even if none fails */
} Faults;

/* Checks the syntax of faults.  Returns FALSE, with an error that names the option, if it is
 * wrong. */
gboolean faults_check (const Faults *faults, GError **error);

/* Checks the name of a call.  Returns FALSE, with an error that names the option, if no such call
 * can fail. */
gboolean faults_check_name (const gchar *option, const gchar *name, GError **error);

/* Gets the place of a call in the list of all calls. */
guint faults_get_rank (const gchar *name);

/* Gets the values of TARN_LAYER_FAULTS and of TARN_FAULTS.  They return NULL if the variable is not
 * needed.  Free them with g_free (). */
gchar *faults_for_layer (const Faults *faults);
gchar *faults_for_tarn (const Faults *faults);

#endif
