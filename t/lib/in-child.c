/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "in-child.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif

/* AddressSanitizer's malloc () does not prepare for fork () as the C library's does: if another
 * thread is inside it meanwhile, its locks stay locked in the child.  So these tests have a malloc
 * () with a lock, which is held during fork (). */
#ifdef HAS_ADDRESS_SANITIZER

/* These functions run before AddressSanitizer has set up the memory that its checks look at. */
#define UNCHECKED __attribute__ ((no_sanitize ("address", "undefined")))

void __asan_init (void);

static gint malloc_is_locked; /* atomic */
static gboolean has_lock;     /* FALSE while the process starts, in one thread */

UNCHECKED static void
lock_malloc (void)
{
  while (has_lock && !g_atomic_int_compare_and_exchange (&malloc_is_locked, FALSE, TRUE))
    sched_yield ();
}

UNCHECKED static void
unlock_malloc (void)
{
  g_atomic_int_set (&malloc_is_locked, FALSE);
}

/* Handlers run last before fork () if they are registered first: others take locks under which a
 * thread calls malloc (). */
static void
start (void)
{
  __asan_init ();
  if (pthread_atfork (lock_malloc, unlock_malloc, unlock_malloc) != 0)
    abort ();
  has_lock = TRUE;
}

__attribute__ ((section (".preinit_array"), used)) static void (*const start_early) (void) = start;

#define LOCKED(type, name, parameters, arguments)                                                  \
  type __interceptor_##name parameters;                                                            \
  UNCHECKED type name parameters                                                                   \
  {                                                                                                \
    type result;                                                                                   \
                                                                                                   \
    lock_malloc ();                                                                                \
    result = __interceptor_##name arguments;                                                       \
    unlock_malloc ();                                                                              \
    return result;                                                                                 \
  }

LOCKED (void *, malloc, (size_t size), (size))
LOCKED (void *, calloc, (size_t n, size_t size), (n, size))
LOCKED (void *, realloc, (void *memory, size_t size), (memory, size))
LOCKED (void *, memalign, (size_t alignment, size_t size), (alignment, size))
LOCKED (void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
LOCKED (int, posix_memalign, (void **memory, size_t alignment, size_t size),
        (memory, alignment, size))

void __interceptor_free (void *memory);

UNCHECKED void
free (void *memory)
{
  lock_malloc ();
  __interceptor_free (memory);
  unlock_malloc ();
}

/* LeakSanitizer leaves out the loader's memory only where the loader calls its malloc () directly.
 */
const char *__lsan_default_suppressions (void);

const char *
__lsan_default_suppressions (void)
{
  return "leak:ld-linux\n";
}

#endif

pid_t
begin_child (guint seconds)
{
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    alarm (seconds);
  return child;
}

void
in_child (void (*body) (gpointer), gpointer data)
{
  gint status;
  pid_t child = begin_child (20);

  if (child == 0)
    {
      body (data);
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

gboolean
take_forked (GError **error)
{
  gboolean is_forked = g_error_matches (*error, TARN_ERROR, TARN_ERROR_FORKED);

  g_clear_error (error);
  return is_forked;
}
