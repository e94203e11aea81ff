/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Static probes, for perf, bpftrace and gdb (doc/guide/probes.md): a nop each, and a note in the
 * library of where it is and where its arguments are.  Most stand beside what records an event
 * (TARN_EVENT ()), and have its name; but they are there whether events are recorded or not.
 *
 * Arguments are what a function has in registers or memory anyway: what is computed for them is
 * computed although nobody looks, so it is next to nothing, and nothing at all for hits.
 *
 * TARN_PROBES is configure's: 0, none; 1, those that hits and their frees do not come by; 2, all.
 */

#ifndef TARN_PROBE_PRIVATE_H
#define TARN_PROBE_PRIVATE_H

#ifndef TARN_PROBES
#define TARN_PROBES 0
#endif

/* Nothing, but that arguments are compiled, so that they cannot go wrong unseen. */
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

/* A probe that hits or their frees come by. */
#if TARN_PROBES > 1
#define TARN_PROBE_HIT(name, ...) TARN_PROBE (name, ##__VA_ARGS__)
#else
#define TARN_PROBE_HIT(name, ...) TARN_NO_PROBE (name, ##__VA_ARGS__)
#endif

#endif
