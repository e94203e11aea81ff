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

/* Adds an object.  Uses the members object, object_class, upstream, text, name and properties of
 * @event.  Texts may be NULL. */
void recording_writer_add_object (RecordingWriter *self, const RecordedEvent *event);
/* Add a segment (a piece), or an extent: a range of a segment that serves one request.  Use the
 * members object, address and size of @event; recording_writer_add_piece () also uses queue. */
void recording_writer_add_piece (RecordingWriter *self, const RecordedEvent *event);
void recording_writer_add_extent (RecordingWriter *self, const RecordedEvent *event);
/* Adds a part: the address by which the user of a heap knows an extent, such as a cl_mem.  Uses the
 * members object, address (the extent's) and other (the user's address) of @event. */
void recording_writer_add_part (RecordingWriter *self, const RecordedEvent *event);
/* Adds a block.  The kind of @event is BLOCK, for a block that exists when the recording begins, or
 * MISS, for a request that gets a new block.  Uses the members time, thread, object, queue, tag,
 * stack, block, size, alloc_size and address of @event.  If the kind is BLOCK, also uses the member
 * other: TRUE if the block is in use, FALSE if a pool has cached it.  Times must not decrease. */
void recording_writer_add_block (RecordingWriter *self, const RecordedEvent *event);

/* Ends the recording at @time, and opens it.  Nothing can be added any more.  Errors name @name
 * instead of a path. */
Recording *recording_writer_end (RecordingWriter *self, guint64 time, const gchar *name,
                                 GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RecordingWriter, recording_writer_free)

#endif
