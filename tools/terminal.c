/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Controls terminals with the few escape sequences that all but "dumb" ones know. */

#include "terminal.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static gboolean
is_capable (gint fd)
{
  const gchar *terminal = g_getenv ("TERM");

  return isatty (fd) && terminal != NULL && !g_str_equal (terminal, "dumb");
}

gboolean
terminal_shows_progress (void)
{
  return is_capable (STDERR_FILENO);
}

gboolean
terminal_has_color (gint fd)
{
  const gchar *no_color = g_getenv ("NO_COLOR");

  return is_capable (fd) && (no_color == NULL || no_color[0] == '\0');
}

guint
terminal_get_columns (gint fd)
{
  struct winsize size;

  if (!isatty (fd))
    return 0;
  return ioctl (fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void
terminal_set_progress (const gchar *text)
{
  if (!terminal_shows_progress ())
    return;
  fputs ("\r\033[K", stderr);
  if (text != NULL)
    {
      /* A line that wraps cannot be erased, so it is cut. */
      glong columns = terminal_get_columns (STDERR_FILENO);
      g_autofree gchar *start
          = g_utf8_substring (text, 0, MIN (g_utf8_strlen (text, -1), columns - 1));

      fputs (start, stderr);
    }
  fflush (stderr);
}
