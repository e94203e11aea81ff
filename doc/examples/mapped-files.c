/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A backend outside of Tarn: each allocation is a file that is mapped into the process.  Making a
 * file, finding room for it and mapping it takes many times as long as reusing one.  So a pool
 * helps as it does with device memory.  The guide explains it: writing-a-backend.md.
 *
 *     ./mapped-files [FOLDER]     uses files in FOLDER, or in the folder of temporary files */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <tarn/tarn.h>
#include <unistd.h>

/* Tells whether room is missing: a pool can then make room by freeing cached blocks. */
static gboolean
is_lack_of_room (int code)
{
  return code == ENOSPC || code == EDQUOT || code == ENOMEM || code == ENFILE;
}

static gboolean
fail (const gchar *call, int code, gsize size, GError **error)
{
  g_set_error (error, TARN_ERROR,
               is_lack_of_room (code) ? TARN_ERROR_OUT_OF_MEMORY : TARN_ERROR_FAILED,
               "%s: %s: for a file of %" G_GSIZE_FORMAT " bytes", call, g_strerror (code), size);
  return FALSE;
}

/* Opens a file without a name, which disappears when nobody has it mapped; or returns -1. */
static int
open_file (const gchar *folder)
{
  g_autofree gchar *path = g_build_filename (folder, "mapped-XXXXXX", NULL);
  int file = g_mkstemp_full (path, O_RDWR | O_CLOEXEC, 0600);

  if (file >= 0)
    g_unlink (path);
  return file;
}

static gboolean
map_file (int file, gsize size, TarnMemory *memory, GError **error)
{
  /* Allocates the room on the disk now, so that no write ends in SIGBUS later. */
  int code = posix_fallocate (file, 0, (off_t) size);
  gpointer data;

  if (code != 0)
    return fail ("posix_fallocate", code, size, error);
  data = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED)
    return fail ("mmap", errno, size, error);
  memory->pointer = data;
  return TRUE;
}

static gboolean
allocate_file (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  gboolean mapped;
  int file;

  if (size == 0)
    return TRUE; /* no file: memory is all zero bytes */
  file = open_file (user_data);
  if (file < 0)
    return fail ("open", errno, size, error);
  mapped = map_file (file, size, memory, error);
  close (file);
  return mapped;
}

static void
free_file (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) user_data;
  if (memory.pointer != NULL)
    munmap (memory.pointer, size);
}

/* Makes a part for a heap: an address plus an offset. */
static gboolean
make_part (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
           GError **error)
{
  (void) user_data;
  (void) size;
  (void) error;
  part->pointer = (gchar *) memory.pointer + offset;
  return TRUE;
}

static gboolean
read_file (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
           GError **error)
{
  (void) user_data;
  (void) error;
  memcpy (bytes, (const gchar *) memory.pointer + offset, size);
  return TRUE;
}

static gboolean
fill_file (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
           GError **error)
{
  (void) user_data;
  (void) error;
  memset ((gchar *) memory.pointer + offset, byte, size);
  return TRUE;
}

/* Makes an allocator of files in a folder, for tarn_allocator_unref (). */
static TarnAllocator *
file_allocator_new (const gchar *folder)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "mapped-file";
  ops.allocate = allocate_file;
  ops.free = free_file;
  ops.part_alignment = 64;
  ops.part_new = make_part;
  ops.read = read_file;
  ops.fill = fill_file;
  return tarn_allocator_new (&ops, g_strdup (folder), g_free);
}

/* Gets the memory of a block of this backend, through any pools.  Another kind of block is a
 * mistake of the caller. */
static gpointer
file_block_get_data (const TarnBlock *block)
{
  TarnAllocator *allocator = tarn_block_get_allocator (block);

  g_return_val_if_fail (tarn_allocator_is_of (allocator, free_file), NULL);
  return tarn_block_get_memory (block).pointer;
}

/* Writes into a block of this size and reads it back. */
static gboolean
use_block (TarnAllocator *allocator, gsize size, int byte, GError **error)
{
  g_autoptr (TarnBlock) block = tarn_allocator_allocate (allocator, size, error);
  gchar *data;

  if (block == NULL)
    return FALSE;
  data = file_block_get_data (block);
  memset (data, byte, size);
  if (data[0] == (gchar) byte && data[size - 1] == (gchar) byte)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "what was written is not there");
  return FALSE;
}

int
main (int argc, char **argv)
{
  static const gsize sizes[] = { 4096, 100000, 1000000 };
  g_autoptr (TarnAllocator) files = file_allocator_new (argc > 1 ? argv[1] : g_get_tmp_dir ());
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool = tarn_pool_new (files, NULL, &error);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  for (guint i = 0; pool != NULL && error == NULL && i < 300; i++)
    use_block (TARN_ALLOCATOR (pool), sizes[i % G_N_ELEMENTS (sizes)], (int) (i % 100), &error);
  if (error != NULL)
    {
      g_printerr ("mapped-files: %s\n", error->message);
      return 1;
    }
  tarn_pool_get_stats (pool, &stats);
  g_print ("%" G_GUINT64_FORMAT " requests, %" G_GUINT64_FORMAT " files\n",
           stats.hits + stats.misses, stats.driver_calls);
  if (ferror (stdout))
    {
      g_printerr ("mapped-files: cannot write to standard output\n");
      return 1;
    }
  return 0;
}
