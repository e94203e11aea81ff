/* Tarn: memory pools for OpenCL and CUDA.
 *
 * What is made to fail in a program, and the variables that say so to it. */

#ifndef FAULTS_H
#define FAULTS_H

#include <glib.h>

/* The name that the requests of a program's own pools and allocators go by: TARN_FAULTS. */
#define FAULTS_REQUESTS "tarn"

typedef struct
{
  gchar **calls;   /* "clCreateBuffer:3"; nullable */
  gboolean all;    /* each of these has all later ones of that name fail, too */
  gchar *budget;   /* nullable */
  gchar *loss;     /* the number of the call at which the device is lost; nullable */
  gboolean counts; /* calls are counted, and reported, even where none fails */
} Faults;

gboolean faults_check (const Faults *faults, GError **error);

/* FALSE, with an error that names the option: there is no such call. */
gboolean faults_check_name (const gchar *option, const gchar *name, GError **error);

/* Gets the place of a call in the order in which all of them are listed. */
guint faults_get_rank (const gchar *name);

/* The values of TARN_LAYER_FAULTS and of TARN_FAULTS; NULL: none.  Free them with g_free (). */
gchar *faults_for_layer (const Faults *faults);
gchar *faults_for_tarn (const Faults *faults);

#endif
