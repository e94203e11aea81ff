/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Catches SIGINT, SIGTERM and SIGHUP in the default main context. */

#include "interrupt.h"

#include <glib-unix.h>
#include <signal.h>

static const gint numbers[] = { SIGINT, SIGTERM, SIGHUP };

/* for each of the signals, TRUE if it was ignored when the program began */
static gboolean is_ignored[G_N_ELEMENTS (numbers)];
static gint latest; /* the signal that came last; 0: none */

void
interrupt_init (void)
{
  struct sigaction action;

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    is_ignored[i] = sigaction (numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static gboolean
on_signal (gpointer number)
{
  latest = GPOINTER_TO_INT (number);
  return G_SOURCE_CONTINUE;
}

void
interrupt_watch (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (is_ignored[i])
      signal (numbers[i], SIG_IGN);
    else
      g_unix_signal_add (numbers[i], on_signal, GINT_TO_POINTER (numbers[i]));
  signal (SIGPIPE, SIG_IGN);
}

gint
interrupt_get_signal (void)
{
  return latest;
}

void
interrupt_die (void)
{
  g_assert (latest != 0);
  signal (latest, SIG_DFL);
  raise (latest);
}
