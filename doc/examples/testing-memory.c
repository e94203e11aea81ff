/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests how a program uses memory, on any machine.  The guide explains it: testing-your-program.md.
 *
 *     ./testing-memory           passes
 *     ./testing-memory --hazard  the program uses memory on a second queue without telling its pool
 *     ./testing-memory --leak    it forgets a block
 *
 * The program has a queue that uploads images, and one that looks at them. */

#include <string.h>
#include <tarn/testing.h>

#define N_IMAGES 10
#define IMAGE_BYTES 4096

/* The program */

typedef struct
{
  TarnPool *pool;
  gpointer uploads, looks; /* queues */
} Viewer;

static gboolean has_hazard, has_leak;

/* The commands of the device, or of the fake in a test. */
static void (*put_write) (gpointer queue, TarnBlock *block);
static void (*put_read) (gpointer queue, TarnBlock *block);

static gboolean
view_image (Viewer *viewer, GError **error)
{
  TarnBlock *block = tarn_pool_allocate_ordered (viewer->pool, IMAGE_BYTES, viewer->uploads, error);

  if (block == NULL)
    return FALSE;
  put_write (viewer->uploads, block);
  if (!has_hazard && !tarn_block_move_to_queue (block, viewer->looks, error))
    {
      tarn_block_free (block);
      return FALSE;
    }
  put_read (viewer->looks, block);
  if (!has_leak)
    tarn_block_free (block);
  return TRUE;
}

/* Its test */

static TarnTestingQueues *queues;

static void
write_on_fake (gpointer queue, TarnBlock *block)
{
  tarn_testing_queue_put (queues, queue, tarn_block_get_memory (block), TARN_TESTING_COMMAND_WRITE,
                          0);
}

static void
read_on_fake (gpointer queue, TarnBlock *block)
{
  tarn_testing_queue_put (queues, queue, tarn_block_get_memory (block), TARN_TESTING_COMMAND_READ,
                          0);
}

static void
test_viewer (void)
{
  TarnAllocator *allocator;
  Viewer viewer;

  queues = tarn_testing_queues_new (G_MAXUINT64, 0);
  allocator = tarn_testing_queues_allocator_new (queues);
  viewer.pool = tarn_pool_new (allocator, NULL, NULL);
  viewer.uploads = tarn_testing_queue_new (queues, TRUE); /* queue 0 */
  viewer.looks = tarn_testing_queue_new (queues, TRUE);   /* queue 1 */
  put_write = write_on_fake;
  put_read = read_on_fake;

  for (guint i = 0; i < N_IMAGES; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_true (view_image (&viewer, &error));
      g_assert_no_error (error);
    }
  tarn_testing_queues_run_all (queues);
  tarn_testing_assert_no_hazards (queues);

  tarn_pool_unref (viewer.pool);
  tarn_testing_assert_no_leaks (tarn_testing_queues_get_device (queues));
  tarn_allocator_unref (allocator);
  tarn_testing_queues_free (queues);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  has_hazard = argc > 1 && strcmp (argv[1], "--hazard") == 0;
  has_leak = argc > 1 && strcmp (argv[1], "--leak") == 0;
  if (argc > 2 || (argc == 2 && !has_hazard && !has_leak))
    {
      g_printerr ("testing-memory: '%s': there are --hazard and --leak\n", argv[argc - 1]);
      return 2;
    }
  g_test_add_func ("/viewer", test_viewer);
  return g_test_run ();
}
