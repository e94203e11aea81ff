/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints requests and frees in tarn-bench's format.  Each request has its own id, even if one block
 * serves several requests.  The id is the number of the request. */

#include "print.h"
#include "progress.h"

/* A trace that is being written. */
typedef struct
{
  const Output *output;
  gboolean is_begun; /* the time of --from was reached */
} Csv;

void
print_csv_header (FILE *file)
{
  fputs ("time,thread,action,id,size,queue\n", file);
}

void
print_csv_line (FILE *file, guint64 time, guint64 thread, guint64 id, const guint64 *size,
                guint64 queue)
{
  fprintf (file, "%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%s,%" G_GUINT64_FORMAT ",", time,
           thread, size != NULL ? "allocate" : "free", id);
  if (size != NULL)
    fprintf (file, "%" G_GUINT64_FORMAT, *size);
  fputc (',', file);
  if (queue != 0)
    fprintf (file, "%" G_GUINT64_FORMAT, queue);
  fputc ('\n', file);
}

static void
add_allocation (Object *object, Block *block, gpointer user_data)
{
  Csv *csv = user_data;
  const Output *output = csv->output;

  if (!filter_has_block (output->filter, output->recording, object, block))
    return;
  block->is_marked = TRUE;
  print_csv_line (output->file, MAX (block->time, output->filter->from), block->thread, block->life,
                  &block->size, block->queue);
}

/* Begins the trace at the time of --from: writes the blocks that were allocated earlier and are
 * still in use. */
static void
begin (Csv *csv)
{
  csv->is_begun = TRUE;
  objects_for_each_active (csv->output->objects, add_allocation, csv);
}

/* Writes a line for the block that an event freed, and a line for the request that it records.  The
 * line of a free has no queue, because tarn-bench takes the queue from the block's request. */
static void
add_changes (Csv *csv, const RecordedEvent *event, const Change *change)
{
  if (change->freed.is_marked)
    print_csv_line (csv->output->file, event->time, event->thread, change->freed.life, NULL, 0);
  if (change->used != NULL)
    add_allocation (change->object, change->used, csv);
}

gboolean
print_csv (const Output *output, GError **error)
{
  g_autoptr (GError) read_error = NULL;
  Csv csv = { output, FALSE };
  Progress progress;
  RecordedEvent event;
  Change change;

  print_csv_header (output->file);
  progress_begin (&progress, output->recording, "writing");
  while (!ferror (output->file) && progress_next (&progress, &event, &read_error)
         && event.time <= output->filter->to)
    {
      if (!csv.is_begun && event.time >= output->filter->from)
        begin (&csv);
      objects_apply (output->objects, &event, &change);
      if (csv.is_begun)
        add_changes (&csv, &event, &change);
    }
  progress_end (&progress);
  if (read_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&read_error));
  return FALSE;
}
