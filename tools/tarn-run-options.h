/* Tarn: memory pools for OpenCL and CUDA.
 *
 * The options of tarn-run. */

#ifndef TARN_RUN_OPTIONS_H
#define TARN_RUN_OPTIONS_H

#include "every/every.h"
#include "every/faults.h"

typedef struct
{
  gchar *limit; /* nullable: the environment */
  gchar *trace; /* nullable: the same */
  gchar *debug; /* nullable: words of TARN_DEBUG */
  Faults faults;
  gboolean no_pool, stats, help, version;
  gboolean every;
  gchar *every_calls; /* names with commas between them; nullable */
  gchar *expected;    /* exit statuses; nullable */
  EverySettings each; /* of the runs of --every */
  gchar **program;    /* with its arguments */
} Options;

/* Reads the command line.  FALSE: it is wrong; options_clear () is needed all the same. */
gboolean options_read (Options *options, gint *argc, gchar ***argv, GError **error);
void options_clear (Options *options);

/* Prints the version, or the help; gets our exit status. */
gint options_print_about (Options *options);

/* Whether the program is run again and again. */
gboolean options_run_every (const Options *options);

#endif
