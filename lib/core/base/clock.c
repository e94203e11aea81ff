/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "base/clock-private.h"

#include "base/fork-private.h"
#include "common/lock-private.h"

TarnClockFunc _tarn_clock_func;

/* What it is, of these: the program's goes first. */
static TarnMutex lock = TARN_MUTEX_INIT;
static TarnClockFunc program_func, recorder_func; /* NULL: there is none */

static void
set (TarnClockFunc *place, TarnClockFunc func)
{
  if (_tarn_forked ()) /* nothing there goes by the clock */
    return;
  _tarn_mutex_lock (&lock);
  *place = func;
  __atomic_store_n (&_tarn_clock_func, program_func != NULL ? program_func : recorder_func,
                    __ATOMIC_RELEASE);
  _tarn_mutex_unlock (&lock);
}

void
_tarn_clock_set_recorder (TarnClockFunc func)
{
  set (&recorder_func, func);
}

/**
 * Has the library go by another clock than the system's. By that it tells what nobody has used for
 * long: what a heap gives back after TarnHeapOptions.idle_seconds, and what pools over a heap and
 * idle threads keep. A test need not wait for seconds, then, and one that replays what happened
 * gets what had happened. Recordings, snapshots and durations go by the system's clock all the
 * same. In a child of fork () this does nothing.
 *
 * @param func  what gets the time; NULL, as it is at first: the system's clock. Any thread may call
 *              this; others may still call the one before until they return to the program.
 * @since 0.1
 */
void
tarn_clock_set (TarnClockFunc func)
{
  set (&program_func, func);
}
