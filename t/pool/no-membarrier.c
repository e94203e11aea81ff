/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Linked to a test, this is a kernel without membarrier(2), or one that a sandbox keeps it from. */

#define _GNU_SOURCE 1 /* RTLD_NEXT, syscall () */

#include <dlfcn.h>
#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/lock-private.h"

static gint n_refused;

/* GLib's calls come here, too. */
long
syscall (long number, ...)
{
  static long (*real) (long, ...);
  long arguments[6];
  va_list list;

  if (number == SYS_membarrier)
    {
      g_atomic_int_inc (&n_refused);
      errno = ENOSYS;
      return -1;
    }
  va_start (list, number);
  for (guint i = 0; i < G_N_ELEMENTS (arguments); i++)
    arguments[i] = va_arg (list, long);
  va_end (list);
  if (real == NULL)
    *(gpointer *) &real = dlsym (RTLD_NEXT, "syscall");
  return real (number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
               arguments[5]);
}

/* Or it would not have been a test of this. */
static __attribute__ ((destructor)) void
assert_refused (void)
{
#ifndef TARN_THREAD_SANITIZER
  if (g_atomic_int_get (&n_refused) == 0)
    g_error ("membarrier was never asked for");
#endif
}
