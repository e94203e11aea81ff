/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes a recording in memory (doc/guide/trace-format.md): one stream of events. */

#ifndef RECORDING_WRITER_H
#define RECORDING_WRITER_H

#include "../trace/recording.h"

typedef struct _RecordingWriter RecordingWriter;

RecordingWriter *recording_writer_new (guint32 pid, guint64 real_time);
void recording_writer_free (RecordingWriter *self);

/* Add a definition. */
void recording_writer_add_string (RecordingWriter *self, guint64 string, const gchar *text);
void recording_writer_add_frame (RecordingWriter *self, const RecordedFrame *frame);
void recording_writer_add_module (RecordingWriter *self, const RecordedModule *module);
void recording_writer_add_stack (RecordingWriter *self, guint64 stack, const GArray *addresses);

/* Adds an object, from these members of @event: object, object_class, upstream, text, name,
 * properties.  Texts may be NULL. */
void recording_writer_add_object (RecordingWriter *self, const RecordedEvent *event);
/* Add a segment, or an extent, from object, address and size; a segment also from queue. */
void recording_writer_add_piece (RecordingWriter *self, const RecordedEvent *event);
void recording_writer_add_extent (RecordingWriter *self, const RecordedEvent *event);
/* Adds a part: from object, address (an extent's) and other (the user's address). */
void recording_writer_add_part (RecordingWriter *self, const RecordedEvent *event);
/* Adds a block, from kind, which is BLOCK or MISS, time, thread, object, queue, tag, stack, block,
 * size, alloc_size, address; a BLOCK also from other.  Times must not decrease. */
void recording_writer_add_block (RecordingWriter *self, const RecordedEvent *event);

/* Ends the recording at a time, and opens it.  Errors name @name instead of a path.  Nothing can be
 * added any more. */
Recording *recording_writer_end (RecordingWriter *self, guint64 time, const gchar *name,
                                 GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RecordingWriter, recording_writer_free)

#endif
