/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints recordings for tarn-trace.  The functions return FALSE with an error if the recording
 * cannot be read any more.  Errors of writing are left in the FILE. */

#ifndef PRINT_H
#define PRINT_H

#include <stdio.h>

#include "filter.h"
#include "symbols.h"

/* A recording, and the file that it is printed to. */
typedef struct
{
  Recording *recording;
  Symbols *symbols; /* the functions in the recording's stacks */
  const gchar *path;
  Objects *objects;
  guint64 end_time;
  const Filter *filter;
  FILE *file;
  gboolean is_json, has_color;
  guint columns; /* the terminal's width; 0: lines are not wrapped */
} Output;

gboolean print_summary (const Output *output, GError **error);
gboolean print_events (const Output *output, GError **error);

/* Functions that print in the formats of other programs */
gboolean print_csv (const Output *output, GError **error);
gboolean print_chrome (const Output *output, GError **error);
gboolean print_pytorch (const Output *output, GError **error);

/* Print the header, or a line, of a trace for tarn-bench.  @size is NULL for a free. */
void print_csv_header (FILE *file);
void print_csv_line (FILE *file, guint64 time, guint64 thread, guint64 id, const guint64 *size,
                     guint64 queue);

/* The allocations and frees of one device, from a file of torch.cuda.memory._snapshot (). */
typedef struct _PytorchTrace PytorchTrace;

/* Reads a trace.  @device -1 stands for the first device that has events.  An error names the
 * path. */
PytorchTrace *pytorch_trace_read (const gchar *path, gint64 device, GError **error);
void pytorch_trace_free (PytorchTrace *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PytorchTrace, pytorch_trace_free)

/* Prints a PyTorch trace in the format of print_csv (). */
void print_csv_from_pytorch (const PytorchTrace *trace, FILE *file);

/* Formats a frame by its function, with file and line.  If these are unknown, adds the offset in
 * the function instead.  If the function is unknown, formats the frame by its place in a module, or
 * else by its address.  If @is_short, leaves out the folders of paths.  Free it with g_free (). */
gchar *format_frame (const NamedFrame *frame, gboolean is_short);

/* Formats a stack, the innermost frame first.  If @is_short, leaves out Tarn's frames at the
 * beginning, except if all frames are Tarn's.  Free it with g_free (). */
gchar *format_stack (const Output *output, guint64 stack, gboolean is_short);

#endif
