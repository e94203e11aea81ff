/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls each public function of a library in children of fork (), while other threads of the parent
 * hold any lock.  Each function must return without a call of the backend, and take no lock.
 *
 * Programs are linked with SEE_LOCKS, so that locks of the libraries are seen. */

#ifndef FORK_FUNCTIONS_H
#define FORK_FUNCTIONS_H

#include <tarn/tarn.h>

typedef enum
{
  QUIET,       /* does what it can without the backend */
  FORKED,      /* fails with TARN_ERROR_FORKED */
  PARENT_ONLY, /* is not called: it takes memory, which a child cannot allocate */
} ForkExpected;

typedef struct
{
  const gchar *name;
  void (*call) (gpointer world, GError **error);
  ForkExpected expected;
} ForkFunction;

/* The exit status of a child that called the backend. */
#define FORK_CALLED 1

/* What the children need of a test; each of these may be NULL. */
typedef struct
{
  void (*enter) (gpointer world); /* called first in each child */
  guint (*count_calls) (void);    /* calls of the backend by this process */
  gboolean may_lock;              /* children use objects of their own */
} ForkHooks;

/* Call this in place of g_test_init ().  It sets G_SLICE=always-malloc, for which it starts the
 * program anew: GLib before 2.76 hangs in a child that makes a GError while another thread of the
 * parent allocates. */
void fork_functions_init (int *argc, char ***argv);

/* Starts a thread, and waits until it runs: one that begins has locks of a sanitizer's, which
 * nobody gives up in a child. */
GThread *fork_functions_start_busy (GThreadFunc func, gpointer data);

/* Takes the locks of GLib that the libraries must not need in a child; for a busy thread. */
void fork_functions_use_glib (void);

/* Calls each function in children of its own; returns how many functions are wrong. */
guint fork_functions_try (const ForkFunction *functions, gsize n_functions, gpointer world,
                          const ForkHooks *hooks);

/* Ends the test if the map lib/@library/@map has a function that is not in the table. */
void fork_functions_check_map (const gchar *library, const gchar *map,
                               const ForkFunction *functions, gsize n_functions);

#endif
