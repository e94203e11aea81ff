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
  GHashTable *object_index; /* maps an object's number to its index plus 1 */
  /* For each object, a table from the number of a block to its KnownBlock.  NULL: the object has no
   * table yet. */
  GPtrArray *blocks;
  GHashTable *threads, *queues;
  RecordedQueues *progress;
  /* For each thread: TRUE if, since the thread's last step, a WAIT event says that the host or a
   * queue waited for another queue */
  gboolean has_waited[RECORDED_MAX_THREADS];
} Reader;

/* Sets an error, and returns FALSE. */
gboolean recorded_refuse (GError **error, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* Reads the properties of an event. */
void recorded_read_numbers (RecordedNumbers *numbers, const RecordedEvent *event);

/* Finds an object.  Returns its index, or RECORDED_NONE. */
guint reader_find_object (const Reader *reader, guint64 number);
RecordedObject *reader_get_object (const Recorded *self, guint index);

/* Reads all steps of the recording.  Call it when all objects are known.  (In recorded-steps.c.) */
gboolean reader_read_steps (Reader *reader, Recording *recording, GError **error);

#endif
