/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints a message if a driver crashes while a tool lists devices.  A driver runs in the tool's
 * process, so the tool dies with it, but its user should know why. */

#include <config.h>

#include "driver-crash.h"

#include <glib.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const gint numbers[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };

static struct sigaction before[G_N_ELEMENTS (numbers)];
static gchar *message; /* made in advance: a signal handler must not allocate */

/* Prints the message.  The signal then ends the program: SA_RESETHAND has restored the default, and
 * abort () or the faulty instruction raises the signal again. */
static void
on_crash (gint number)
{
  gssize written = write (STDERR_FILENO, message, strlen (message));

  (void) number;
  (void) written;
}

void
driver_crash_watch (void)
{
  struct sigaction action = { .sa_handler = on_crash, .sa_flags = SA_RESETHAND };

  message = g_strdup_printf ("%s: a driver crashed when it was asked for its devices. "
                             "OCL_ICD_VENDORS=FOLDER loads only the OpenCL drivers whose .icd "
                             "files are in FOLDER.\n",
                             g_get_prgname ());
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    sigaction (numbers[i], &action, &before[i]);
}

void
driver_crash_unwatch (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    sigaction (numbers[i], &before[i], NULL);
  g_clear_pointer (&message, g_free);
}
