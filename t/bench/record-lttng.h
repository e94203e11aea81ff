/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tracepoints of LTTng for record-cost.c; without LTTng they do nothing.  LTTng includes the second
 * part several times, and makes other code of it each time. */

/* clang-format off */
#ifdef HAVE_LTTNG_UST

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tarn_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench/record-lttng.h"

#if !defined(RECORD_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define RECORD_LTTNG_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT (tarn_bench, request,
  LTTNG_UST_TP_ARGS (void *, pool, void *, block, unsigned long, size, unsigned long, address),
  LTTNG_UST_TP_FIELDS (
    lttng_ust_field_integer_hex (unsigned long, pool, (unsigned long) pool)
    lttng_ust_field_integer_hex (unsigned long, block, (unsigned long) block)
    lttng_ust_field_integer (unsigned long, size, size)
    lttng_ust_field_integer_hex (unsigned long, address, address)
  )
)

LTTNG_UST_TRACEPOINT_EVENT (tarn_bench, free,
  LTTNG_UST_TP_ARGS (void *, pool, void *, block),
  LTTNG_UST_TP_FIELDS (
    lttng_ust_field_integer_hex (unsigned long, pool, (unsigned long) pool)
    lttng_ust_field_integer_hex (unsigned long, block, (unsigned long) block)
  )
)

#define HAS_LTTNG TRUE
#define LTTNG_IS_RECORDING() lttng_ust_tracepoint_enabled (tarn_bench, request)
#define TRACE_REQUEST(pool, block, size, address) \
  lttng_ust_tracepoint (tarn_bench, request, pool, block, size, address)
#define TRACE_FREE(pool, block) lttng_ust_tracepoint (tarn_bench, free, pool, block)

#endif

#include <lttng/tracepoint-event.h>

#else

#define HAS_LTTNG FALSE
#define LTTNG_IS_RECORDING() FALSE
#define TRACE_REQUEST(pool, block, size, address) ((void) (address))
#define TRACE_FREE(pool, block) ((void) (block))

#endif
