/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the tests of the fake CUDA driver share. */

#ifndef TARN_FAKE_CUDA_TEST_H
#define TARN_FAKE_CUDA_TEST_H

#include "testing/cuda/fake-cuda.h"

#include <string.h>

#include "common/lock-private.h"

#define ASSERT_STATUS(call, status) g_assert_cmpuint (call, ==, status)
#define SUCCEED(call) ASSERT_STATUS (call, FAKE_CUDA_SUCCESS)

static const TarnTestingCuda *fake;

static inline CUcontext
create_context (void)
{
  CUcontext context;

  SUCCEED (cuCtxCreate_v2 (&context, 0, 0));
  return context;
}

static inline guint64
get_id (CUcontext context)
{
  unsigned long long id;

  SUCCEED (cuCtxGetId (context, &id));
  return id;
}

static inline CUcontext
get_current (void)
{
  CUcontext context;

  SUCCEED (cuCtxGetCurrent (&context));
  return context;
}

static inline CUdeviceptr
allocate (gsize size)
{
  CUdeviceptr address;

  SUCCEED (cuMemAlloc_v2 (&address, size));
  return address;
}

static inline void
assert_nothing_is_alive (void)
{
  for (guint kind = 0; kind < FAKE_CUDA_N_KINDS; kind++)
    {
      g_assert_cmpuint (fake->get_live (kind), ==, 0);
      g_assert_cmpuint (fake->get_live_bytes (kind), ==, 0);
    }
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 0);
}

/* The driver as every test finds it, and has to leave it. */
static inline void
run (gconstpointer test)
{
  fake->reset ();
  SUCCEED (cuInit (0));
  ((void (*) (void)) test) ();
  assert_nothing_is_alive ();
}

typedef struct
{
  const gchar *path;
  void (*test) (void);
} Case;

static inline void
add_cases (const Case *cases, gsize n_cases)
{
  for (gsize i = 0; i < n_cases; i++)
    g_test_add_data_func (cases[i].path, (gconstpointer) cases[i].test, run);
}

/* What ends the program, with this message; what is NULL only ends it. */
static inline void
assert_crash (const gchar *message)
{
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  if (message != NULL)
    g_test_trap_assert_stderr (message);
}

/* Two threads take turns. */
typedef struct
{
  TarnMutex lock;
  TarnCond changed;
  guint turn;
  CUcontext context;
  CUstream stream;
  CUevent event;
  CUdeviceptr address;
} Turns;

static inline void
turns_init (Turns *turns)
{
  memset (turns, 0, sizeof *turns);
  _tarn_mutex_init (&turns->lock);
  _tarn_cond_init (&turns->changed);
}

static inline void
turns_clear (Turns *turns)
{
  _tarn_cond_clear (&turns->changed);
  _tarn_mutex_clear (&turns->lock);
}

static inline void
take_turn (Turns *turns, guint turn)
{
  _tarn_mutex_lock (&turns->lock);
  while (turns->turn != turn)
    _tarn_cond_wait (&turns->changed, &turns->lock);
  _tarn_mutex_unlock (&turns->lock);
}

static inline void
give_turn (Turns *turns, guint turn)
{
  _tarn_mutex_lock (&turns->lock);
  turns->turn = turn;
  _tarn_cond_broadcast (&turns->changed);
  _tarn_mutex_unlock (&turns->lock);
}

#endif
