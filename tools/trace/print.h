/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What tarn-trace prints of a recording.  Functions return FALSE with an error where it cannot be
 * read any more; whether it could be written, the file knows. */

#ifndef PRINT_H
#define PRINT_H

#include <stdio.h>

#include "filter.h"

typedef struct
{
  Recording *recording;
  const gchar *path;
  Objects *objects;
  guint64 end_time;
  const Filter *filter;
  FILE *file;
  gboolean is_json, has_color;
} Output;

gboolean print_summary (const Output *output, GError **error);
gboolean print_events (const Output *output, GError **error);

/* Other programs' formats */
gboolean print_csv (const Output *output, GError **error);
gboolean print_chrome (const Output *output, GError **error);
gboolean print_pytorch (const Output *output, GError **error);

/* A header of tarn-bench's traces, and a line of one.  size: NULL for a free. */
void print_csv_header (FILE *file);
void print_csv_line (FILE *file, guint64 time, guint64 thread, guint64 id, const guint64 *size,
                     guint64 queue);

/* The trace of @device in a snapshot of PyTorch's, as JSON, as print_csv () has it; -1: the only
 * one that has events, or else the first.  An error names the path. */
gboolean print_csv_from_pytorch (const gchar *path, gint64 device, FILE *file, GError **error);

/* A frame by its symbol, as C++ has it if it is one of C++'s, or else by where it is: in a module,
 * by its path or if @is_short its name, or an address.  Free it with g_free (). */
gchar *format_frame (const Recording *recording, guint64 address, gboolean is_short);

#endif
