/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes a recording in memory, as doc/guide/trace-format.md describes it: one stream, whose events
 * are of what is given with them. */

#ifndef RECORDING_WRITER_H
#define RECORDING_WRITER_H

#include "../trace/recording.h"

typedef struct _RecordingWriter RecordingWriter;

RecordingWriter *recording_writer_new (guint32 pid, guint64 real_time);
void recording_writer_free (RecordingWriter *self);

/* What numbers stand for */
void recording_writer_add_string (RecordingWriter *self, guint64 string, const gchar *text);
void recording_writer_add_frame (RecordingWriter *self, const RecordedFrame *frame);
void recording_writer_add_stack (RecordingWriter *self, guint64 stack, const GArray *addresses);

/* Of an event: object, object_class, upstream, text, name and properties.  Texts may be NULL. */
void recording_writer_add_object (RecordingWriter *self, const RecordedEvent *event);
/* ... object, address, size, and queue of a piece. */
void recording_writer_add_piece (RecordingWriter *self, const RecordedEvent *event);
void recording_writer_add_extent (RecordingWriter *self, const RecordedEvent *event);
/* ... object, address of an extent, and other: the address that its user has. */
void recording_writer_add_part (RecordingWriter *self, const RecordedEvent *event);
/* ... kind, which is BLOCK or MISS, time, thread, object, queue, tag, stack, block, size,
 * alloc_size, address, and other of a BLOCK.  Times do not go back. */
void recording_writer_add_block (RecordingWriter *self, const RecordedEvent *event);

/* Ends it at a time, and reads it; @name stands for its path.  Nothing can be added any more. */
Recording *recording_writer_end (RecordingWriter *self, guint64 time, const gchar *name,
                                 GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RecordingWriter, recording_writer_free)

#endif
