/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The clock of clock-private.h, which the program or the recorder can replace. */

#include "base/clock-private.h"

#include "base/fork-private.h"
#include "common/lock-private.h"

TarnClockFunc _tarn_clock_func;

/* Functions that replace the system's clock: the program sets program_func, and the recorder sets
 * recorder_func.  _tarn_clock_func is program_func if that is not NULL, and recorder_func
 * otherwise. */
static TarnMutex lock = TARN_MUTEX_INIT;
static TarnClockFunc program_func, recorder_func; /* functions that replace the clock; NULL: none */

static void
set (TarnClockFunc *place, TarnClockFunc func)
{
  if (_tarn_forked ()) /* a child of fork () does not use the clock */
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

void
tarn_clock_set (TarnClockFunc func)
{
  set (&program_func, func);
}
