/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots that cannot be written, or go to no regular file: errors, children of fork (),
 * links, devices, pipes that nobody reads. */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "snapshot-fixture.h"

static void
write_in_child (gpointer data)
{
  GError *error = NULL;

  STEP (1, !tarn_snapshot_write (data, &error));
  STEP (2, take_forked (&error));
  STEP (3, !tarn_snapshot_on_signal (SIGUSR2, data, &error));
  STEP (4, take_forked (&error));
  tarn_snapshot_set_follow (TRUE);
}

static void
test_errors (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL); /* the parent's */
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;

  g_assert_nonnull (pool);
  place_init (&place, "snapshot.json");
  in_child (write_in_child, place.path);
  g_assert_false (g_file_test (place.path, G_FILE_TEST_EXISTS));
  g_assert_false (tarn_snapshot_write ("/nonexistent/snapshot", &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_nonnull (strstr (error->message, "/nonexistent/snapshot"));
}

/* A snapshot is its owner's alone, and goes to no file that a symbolic link of others names. */
static void
test_private (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *target = NULL, *text = NULL;
  mode_t mask = umask (0);
  struct stat info;

  place_init (&place, "snapshot.json");
  target = g_build_filename (place.folder, "target", NULL);
  g_assert_true (g_file_set_contents (target, "precious", -1, NULL));
  g_assert_cmpint (symlink (target, place.path), ==, 0);
  g_assert_false (tarn_snapshot_write (place.path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_LOOP);
  g_clear_error (&error);
  g_assert_cmpint (g_unlink (place.path), ==, 0);
  g_assert_true (tarn_snapshot_write (place.path, &error));
  g_assert_no_error (error);
  umask (mask);
  g_assert_cmpint (lstat (place.path, &info), ==, 0);
  g_assert_cmphex (info.st_mode, ==, S_IFREG | 0600);
  g_assert_true (g_file_get_contents (target, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "precious");
  g_assert_cmpint (g_unlink (target), ==, 0);
  g_assert_false (tarn_snapshot_write ("/nonexistent/\x1b[2J", &error));
  g_assert_null (strchr (error->message, '\x1b'));
}

/* What is no regular file is written to, and stays what it is. */
static void
test_device (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  gchar text[16] = "";
  struct stat info;
  gint file;

  place_init (&place, "fifo");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  file = open (place.path, O_RDWR | O_CLOEXEC);
  g_assert_cmpint (file, >=, 0);
  g_assert_true (tarn_snapshot_write (place.path, &error));
  g_assert_no_error (error);
  g_assert_cmpint (lstat (place.path, &info), ==, 0);
  g_assert_true (S_ISFIFO (info.st_mode));
  g_assert_cmpint (read (file, text, 1), ==, 1);
  g_assert_cmpstr (text, ==, "{");
  close (file);
}

/* Nobody reads: a snapshot of memory that ran out must not hang the program. */
static void
test_device_without_reader (void)
{
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;

  place_init (&place, "fifo");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  alarm (60);
  g_assert_false (tarn_snapshot_write (place.path, &error));
  alarm (0);
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NXIO);
}

static gpointer
read_first_byte (gpointer path)
{
  gint file = open (path, O_RDONLY | O_CLOEXEC);
  gchar byte = 0;

  g_assert_cmpint (file, >=, 0);
  g_assert_cmpint (read (file, &byte, 1), ==, 1);
  g_assert_cmpint (byte, ==, '{');
  close (file);
  return NULL;
}

/* The reader ends before the snapshot does: that is an error, and no signal that ends the
 * program. */
static void
test_device_closed (void)
{
  enum
  {
    N_BLOCKS = 3000 /* more text than a pipe holds */
  };
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[N_BLOCKS];
  GThread *reader;
  gint file;

  for (guint i = 0; i < N_BLOCKS; i++)
    blocks[i] = tarn_pool_allocate (pool, 64, NULL);
  place_init (&place, "fifo");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  reader = g_thread_new ("reader", read_first_byte, place.path);
  file = open (place.path, O_WRONLY | O_CLOEXEC); /* waits for the reader */
  g_assert_cmpint (file, >=, 0);
  g_assert_false (tarn_snapshot_write (place.path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_PIPE);
  close (file);
  g_thread_join (reader);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (blocks[i]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/device", test_device);
  g_test_add_func ("/core/snapshot/device/without-reader", test_device_without_reader);
  g_test_add_func ("/core/snapshot/device/closed", test_device_closed);
  g_test_add_func ("/core/snapshot/errors", test_errors);
  g_test_add_func ("/core/snapshot/private", test_private);
  return g_test_run ();
}
