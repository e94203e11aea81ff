/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Static probes (USDT), for perf, bpftrace and gdb (doc/guide/probes.md).  A probe is a nop
 * instruction.  A note in the library's file says where the instruction is, and where the probe's
 * arguments are.  Most probes belong to an event of recordings (TARN_EVENT ()) and have the event's
 * name, but they fire even while no events are recorded.
 *
 * A function computes a probe's arguments even if no tool uses the probe.  So the arguments are
 * values that the function has in registers or memory anyway, or can compute in a few instructions.
 * The arguments of TARN_PROBE_HIT () are only values that the function has anyway.
 *
 * configure sets TARN_PROBES:
 *
 *     0  no probes
 *     1  all probes except those of TARN_PROBE_HIT (), which are on the fastest paths
 *     2  all probes */

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

/* A probe on the fastest paths: "hit" (a cached block serves a request) and "free" (the program
 * frees a block). */
#if TARN_PROBES > 1
#define TARN_PROBE_HIT(name, ...) TARN_PROBE (name, ##__VA_ARGS__)
#else
#define TARN_PROBE_HIT(name, ...) TARN_NO_PROBE (name, ##__VA_ARGS__)
#endif

#endif
