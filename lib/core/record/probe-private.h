/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Static probes, for perf, bpftrace and gdb (doc/guide/probes.md).  Each is a nop instruction, and
 * a note in the library says where the instruction is, and where its arguments are.  Most probes
 * belong to an event (TARN_EVENT ()) and have its name, but they fire whether events are recorded
 * or not.
 *
 * A function computes a probe's arguments even if no program uses the probe.  So arguments are
 * values that the function has in registers or memory anyway, or can compute in a few instructions;
 * for probes of hits, only the former.
 *
 * configure sets TARN_PROBES.  0: no probes.  1: all except those in the code that hits, and the
 * frees of their blocks, execute.  2: all. */

#ifndef TARN_PROBE_PRIVATE_H
#define TARN_PROBE_PRIVATE_H

#ifndef TARN_PROBES
#define TARN_PROBES 0
#endif

/* Does nothing.  The compiler still checks the arguments. */
#define TARN_NO_PROBE(name, ...)                                                                   \
  do                                                                                               \
    if (0)                                                                                         \
      _tarn_probe_ignore (#name, ##__VA_ARGS__);                                                   \
  while (0)

static inline void
_tarn_probe_ignore (const char *name, ...)
{
  (void) name;
}

#if TARN_PROBES > 0
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define TARN_PROBE(name, ...) STAP_PROBEV (tarn, name, ##__VA_ARGS__)
#else
#define TARN_PROBE(name, ...) TARN_NO_PROBE (name, ##__VA_ARGS__)
#endif

/* A probe in code that hits, or the frees of their blocks, execute. */
#if TARN_PROBES > 1
#define TARN_PROBE_HIT(name, ...) TARN_PROBE (name, ##__VA_ARGS__)
#else
#define TARN_PROBE_HIT(name, ...) TARN_NO_PROBE (name, ##__VA_ARGS__)
#endif

#endif
