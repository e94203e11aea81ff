/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The reader of recordings. */

#ifndef RECORDED_PRIVATE_H
#define RECORDED_PRIVATE_H

#include "../trace/recording.h"
#include "recorded.h"

/* A recording that is being read. */
typedef struct
{
  Recorded *recorded;
  GHashTable *object_index; /* number -> index plus 1 */
  GPtrArray *blocks;        /* by object: tables of KnownBlocks by their numbers; NULL: none */
  GHashTable *threads, *queues;
  RecordedQueues *progress;
  gboolean has_waited[RECORDED_MAX_THREADS]; /* for each thread: a queue or the host has waited
                                                since the thread's last step */
} Reader;

/* Sets an error, and returns FALSE. */
gboolean recorded_refuse (GError **error, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Reads the properties of an event. */
void recorded_read_numbers (RecordedNumbers *numbers, const RecordedEvent *event);

/* Finds an object.  Returns its index, or RECORDED_NONE. */
guint reader_find_object (const Reader *reader, guint64 number);
RecordedObject *reader_get_object (const Recorded *self, guint index);

/* Reads the steps, when all objects are known; in recorded-steps.c. */
gboolean reader_read_steps (Reader *reader, Recording *recording, GError **error);

#endif
