/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes recorded traces byte by byte, as doc/guide/trace-format.md describes them, without the
 * library's recorder: correct ones and damaged ones. */

#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include "common/trace-format-private.h"

#define TRACE_WRITER_MAX_STREAMS 8

typedef struct
{
  GByteArray *bytes;
  gsize packet;                                /* offset of the current packet; 0: none */
  guint stream;                                /* its */
  guint64 latest[TRACE_WRITER_MAX_STREAMS][3]; /* of differences: blocks, addresses, queues */
} TraceWriter;

/* Creates a writer with a header, of process 4242, and no packet.  Free it with trace_writer_end
 * (). */
TraceWriter *trace_writer_new (void);

/* Begins a packet after the others. */
void trace_writer_packet (TraceWriter *self, guint32 stream, guint32 flags, guint64 time);

/* Adds an event whose values are only numbers, which follow. */
#define trace_writer_add(self, kind, delay, ...)                                                   \
  trace_writer_add_numbers (self, kind, delay, (const guint64[]){ __VA_ARGS__, 0 })
void trace_writer_add_numbers (TraceWriter *self, TarnTraceKind kind, guint64 delay,
                               const guint64 *numbers);

void trace_writer_add_string (TraceWriter *self, guint64 string, const gchar *text);
void trace_writer_add_frame (TraceWriter *self, guint64 address, const gchar *module,
                             guint64 module_offset, const gchar *symbol, guint64 symbol_offset);
void trace_writer_add_module (TraceWriter *self, guint64 load_address, const gchar *path,
                              const gchar *build_id);
void trace_writer_add_stack (TraceWriter *self, guint64 stack, guint64 inner, guint64 outer);
void trace_writer_add_thread (TraceWriter *self, guint64 thread, const gchar *name);
/* Adds an object with one property. */
void trace_writer_add_object (TraceWriter *self, guint64 object, TarnTraceClass object_class,
                              guint64 upstream, const gchar *kind, const gchar *name,
                              TarnTraceProperty property, guint64 number);

/* Parts of events */
void trace_writer_byte (TraceWriter *self, guint8 byte);
void trace_writer_number (TraceWriter *self, guint64 number);
void trace_writer_text (TraceWriter *self, const gchar *text);

/* Sets the last packet's size to that of its events. */
void trace_writer_end_packet (TraceWriter *self);

/* Returns everything that was written, and frees @self. */
GBytes *trace_writer_end (TraceWriter *self);

#endif
