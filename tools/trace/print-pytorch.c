/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints a recording like torch.cuda.memory._snapshot (): the events, and the blocks at the end.  A
 * segment of PyTorch's is a segment of a heap, or the memory of a block if its pool has no heap. */

#include "print.h"
#include "progress.h"
#include "segments.h"
#include "write.h"

#define MAX_DEPTH 16 /* longest chain of upstreams; three are usual */

/* A snapshot that is being written. */
typedef struct
{
  const Output *output;
  GHashTable *heaps; /* a set of Objects: heaps below selected pools */
  Segments *segments;
  gboolean has_some; /* an entry was written, so a comma comes before the next one */
  GPtrArray *blocks; /* the Blocks in use at the end */
} Snapshot;

static gboolean
is_meant (const Output *output, const Object *object)
{
  return output->filter->object != NULL ? filter_has_object (output->filter, object)
                                        : objects_serves_program (object);
}

/* Adds the object if it is a heap, its upstream if that is a heap, and so on along the upstreams.
 * MAX_DEPTH ends a cycle of upstreams, which only a damaged file has. */
static void
add_heaps (Snapshot *snapshot, const Object *object)
{
  const Objects *objects = snapshot->output->objects;

  for (guint i = 0; object != NULL && i < MAX_DEPTH; i++)
    {
      if (object->object_class == TARN_TRACE_HEAP)
        g_hash_table_add (snapshot->heaps, (gpointer) object);
      object = objects_find (objects, object->upstream);
    }
}

static void
find_heaps (Snapshot *snapshot)
{
  const GPtrArray *all = objects_get_all (snapshot->output->objects);

  for (guint i = 0; i < all->len; i++)
    if (is_meant (snapshot->output, all->pdata[i]))
      add_heaps (snapshot, all->pdata[i]);
}

/* Functions that write entries */

static void
write_frame (FILE *file, gboolean is_first, const gchar *filename, guint line, const gchar *name)
{
  fprintf (file, "%s{\"filename\":", is_first ? "" : ",");
  write_json_text (file, filename);
  fprintf (file, ",\"line\":%u,\"name\":", line);
  write_json_text (file, name);
  fputs ("}", file);
}

/* Writes a frame by its function, file and line, or else by its module and offset. */
static void
write_named_frame (FILE *file, gboolean is_first, const NamedFrame *frame)
{
  g_autofree gchar *name = NULL;

  if (frame->function != NULL && frame->file != NULL)
    {
      write_frame (file, is_first, frame->file, frame->line, frame->function);
      return;
    }
  name = format_frame (frame, TRUE);
  write_frame (file, is_first, frame->module, 0, name);
}

/* Writes the frames of a block's stack.  The block's tag is written as one more frame, the
 * innermost one, so that PyTorch's viewer shows the tag. */
static void
write_frames (const Snapshot *snapshot, const Block *block)
{
  const Recording *recording = snapshot->output->recording;
  FILE *file = snapshot->output->file;
  const gchar *tag = block != NULL ? recording_get_string (recording, block->tag) : NULL;
  gsize n = 0;
  const guint64 *addresses
      = block != NULL ? recording_get_stack (recording, block->stack, &n) : NULL;

  fputs (",\"frames\":[", file);
  if (tag != NULL)
    write_frame (file, TRUE, "", 0, tag);
  for (gsize i = 0; i < n; i++)
    {
      guint n_frames;
      const NamedFrame *frames = symbols_get (snapshot->output->symbols, addresses[i], &n_frames);

      for (guint j = 0; j < n_frames; j++)
        write_named_frame (file, tag == NULL && i + j == 0, &frames[j]);
    }
  fputs ("]", file);
}

/* Tells whether an event says that a request found no memory.  PyTorch has one name for two
 * cases: the device has no memory, or a limit is reached. */
static gboolean
is_shortage (const RecordedEvent *event)
{
  return event->kind == TARN_TRACE_OUT_OF_MEMORY || event->kind == TARN_TRACE_LIMIT_REACHED;
}

static void
write_entry (Snapshot *snapshot, const gchar *action, const RecordedEvent *event, guint64 address,
             guint64 size, guint64 queue, const Block *block)
{
  const Output *output = snapshot->output;
  guint64 time = (recording_get_real_time (output->recording) + event->time) / 1000;

  if (!filter_has_time (output->filter, event->time))
    return;
  fprintf (output->file, "%s{\"action\":\"%s\",\"%s\":%" G_GUINT64_FORMAT,
           snapshot->has_some ? ",\n" : "\n", action, is_shortage (event) ? "device_free" : "addr",
           address);
  fprintf (output->file,
           ",\"size\":%" G_GUINT64_FORMAT ",\"stream\":%" G_GUINT64_FORMAT
           ",\"time_us\":%" G_GUINT64_FORMAT,
           size, queue, time);
  write_frames (snapshot, block);
  fputs ("}", output->file);
  snapshot->has_some = TRUE;
}

static void
add_segment (Snapshot *snapshot, const RecordedEvent *event, const Segment *segment)
{
  if (segments_add (snapshot->segments, segment))
    write_entry (snapshot, "segment_alloc", event, segment->address, segment->size, segment->queue,
                 NULL);
}

static void
remove_segment (Snapshot *snapshot, const RecordedEvent *event, guint64 address, gboolean is_block)
{
  const Segment *found = segments_find (snapshot->segments, address);
  Segment segment;

  if (found == NULL || found->address != address || found->is_block != is_block)
    return;
  segment = *found;
  segments_remove (snapshot->segments, address);
  write_entry (snapshot, "segment_free", event, address, segment.size, segment.queue, NULL);
}

static void
add_pieces (Snapshot *snapshot, const RecordedEvent *event)
{
  gboolean is_moved = event->kind == TARN_TRACE_PIECE_MOVED;
  const Segment piece
      = { is_moved ? event->other : event->address, event->size, event->queue, FALSE };

  if (is_moved || event->kind == TARN_TRACE_PIECE_GONE)
    remove_segment (snapshot, event, event->address, FALSE);
  if (is_moved || event->kind == TARN_TRACE_PIECE)
    add_segment (snapshot, event, &piece);
}

static void
add_request (Snapshot *snapshot, const RecordedEvent *event, const Change *change)
{
  const Output *output = snapshot->output;
  Block *block = change->used;

  if (!filter_has_block (output->filter, output->recording, change->object, block))
    return;
  block->is_marked = TRUE;
  write_entry (snapshot, "alloc", event, block->address, block->size, block->queue, block);
}

static void
add_changes (Snapshot *snapshot, const RecordedEvent *event, const Change *change)
{
  const Block *freed = &change->freed;

  if (freed->is_marked)
    {
      write_entry (snapshot, "free_requested", event, freed->address, freed->size, freed->queue,
                   NULL);
      write_entry (snapshot, "free_completed", event, freed->address, freed->size, freed->queue,
                   NULL);
    }
  if (change->has_gone)
    remove_segment (snapshot, event, change->gone.address, TRUE);
  if (change->is_new)
    add_segment (snapshot, event,
                 &(Segment){ event->address, event->alloc_size, event->queue, TRUE });
  if (change->used != NULL)
    add_request (snapshot, event, change);
  if (is_shortage (event))
    write_entry (snapshot, "oom", event, 0, event->size, event->queue, NULL);
}

static void
add (Snapshot *snapshot, const RecordedEvent *event, const Change *change)
{
  if (change->object == NULL)
    return;
  if (g_hash_table_contains (snapshot->heaps, change->object))
    add_pieces (snapshot, event);
  if (is_meant (snapshot->output, change->object))
    add_changes (snapshot, event, change);
}

/* Functions that write the blocks at the end */

static void
collect_block (Object *object, Block *block, gpointer user_data)
{
  Snapshot *snapshot = user_data;

  (void) object;
  if (block->is_marked)
    g_ptr_array_add (snapshot->blocks, block);
}

static gint
compare_addresses (gconstpointer a, gconstpointer b)
{
  const Block *const *left = a, *const *right = b;

  return (*left)->address < (*right)->address ? -1 : (*left)->address > (*right)->address;
}

static void
write_block (const Snapshot *snapshot, gboolean is_first, guint64 address, guint64 size,
             const Block *block)
{
  fprintf (snapshot->output->file,
           "%s{\"address\":%" G_GUINT64_FORMAT ",\"size\":%" G_GUINT64_FORMAT
           ",\"requested_size\":%" G_GUINT64_FORMAT ",\"state\":\"%s\"",
           is_first ? "" : ",", address, size, block != NULL ? MIN (block->size, size) : size,
           block != NULL ? "active_allocated" : "inactive");
  write_frames (snapshot, block);
  fputs ("}", snapshot->output->file);
}

/* Writes the blocks of a segment, and free blocks for the gaps, because PyTorch's blocks fill a
 * segment without gaps.  Begins at block @i, skips blocks before the segment, and moves @i to the
 * first block after the segment.  Returns the bytes in use. */
static guint64
write_blocks (const Snapshot *snapshot, const Segment *segment, guint *i)
{
  /* at: the end of the previous block, in bytes from the segment's beginning; active: bytes in
   * use */
  guint64 at = 0, active = 0;
  gboolean is_first = TRUE;

  for (; *i < snapshot->blocks->len; (*i)++)
    {
      const Block *block = snapshot->blocks->pdata[*i];
      guint64 offset = block->address - segment->address;
      guint64 size = MIN (MAX (block->alloc_size, block->size), segment->size - offset);

      if (block->address < segment->address || (offset < at && offset < segment->size))
        continue; /* blocks overlap if events were lost */
      if (offset >= segment->size)
        break;
      if (offset > at)
        {
          write_block (snapshot, is_first, segment->address + at, offset - at, NULL);
          is_first = FALSE;
        }
      write_block (snapshot, is_first, block->address, size, block);
      is_first = FALSE;
      at = offset + size;
      active += size;
    }
  if (at < segment->size)
    write_block (snapshot, is_first, segment->address + at, segment->size - at, NULL);
  return active;
}

static void
write_segment (const Snapshot *snapshot, const Segment *segment, guint *i)
{
  FILE *file = snapshot->output->file;
  guint64 active;

  fprintf (file,
           "{\"device\":0,\"address\":%" G_GUINT64_FORMAT ",\"total_size\":%" G_GUINT64_FORMAT
           ",\"stream\":%" G_GUINT64_FORMAT
           ",\"segment_type\":\"large\",\"is_expandable\":false,\"frames\":[],\"blocks\":[",
           segment->address, segment->size, segment->queue);
  active = write_blocks (snapshot, segment, i);
  fprintf (file,
           "],\"allocated_size\":%" G_GUINT64_FORMAT ",\"active_size\":%" G_GUINT64_FORMAT "}",
           active, active);
}

static void
write_segments (Snapshot *snapshot)
{
  g_autoptr (GArray) segments = segments_list (snapshot->segments);
  guint i = 0;

  objects_for_each_active (snapshot->output->objects, collect_block, snapshot);
  g_ptr_array_sort (snapshot->blocks, compare_addresses);
  for (guint j = 0; j < segments->len; j++)
    {
      fputs (j > 0 ? ",\n" : "\n", snapshot->output->file);
      write_segment (snapshot, &g_array_index (segments, Segment, j), &i);
    }
}

gboolean
print_pytorch (const Output *output, GError **error)
{
  g_autoptr (GHashTable) heaps = g_hash_table_new (NULL, NULL);
  g_autoptr (Segments) segments = segments_new ();
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();
  g_autoptr (GError) read_error = NULL;
  Snapshot snapshot = { output, heaps, segments, FALSE, blocks };
  Progress progress;
  RecordedEvent event;
  Change change;

  find_heaps (&snapshot);
  fputs ("{\"device_traces\":[[", output->file);
  progress_begin (&progress, output->recording, "writing");
  while (!ferror (output->file) && progress_next (&progress, &event, &read_error)
         && event.time <= output->filter->to)
    {
      objects_apply (output->objects, &event, &change);
      add (&snapshot, &event, &change);
    }
  progress_end (&progress);
  fputs ("\n]],\n\"segments\":[", output->file);
  write_segments (&snapshot);
  fputs ("\n]}\n", output->file);
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}
