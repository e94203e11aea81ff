/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A recording, while it is read. */

#ifndef RECORDED_PRIVATE_H
#define RECORDED_PRIVATE_H

#include "../trace/recording.h"
#include "recorded.h"

/* While a recording is read. */
typedef struct
{
  Recorded *recorded;
  GHashTable *object_index; /* from numbers to indices and 1 */
  GPtrArray *blocks;        /* by object: tables of its blocks by their numbers; NULL: none */
  GHashTable *threads, *queues;
  RecordedQueues *progress;
  gboolean has_waited[RECORDED_MAX_THREADS]; /* since the thread's last step */
} Reader;

gboolean recorded_refuse (GError **error, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

void recorded_read_numbers (RecordedNumbers *numbers, const RecordedEvent *event);

/* RECORDED_NONE: there is no such object. */
guint reader_find_object (const Reader *reader, guint64 number);
RecordedObject *reader_get_object (const Recorded *self, guint index);

/* In recorded-steps.c, once objects are known */
gboolean reader_read_steps (Reader *reader, Recording *recording, GError **error);

#endif
