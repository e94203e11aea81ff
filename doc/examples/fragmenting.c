/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that runs out of memory although half of it is free.  The guide finds the reason:
 * debugging-out-of-memory.md.
 *
 *     ./fragmenting          runs until no free range has room for a frame
 *     ./fragmenting --fixed  keeps thumbnails in a pool of their own
 *
 * It decodes frames of a video, whose size varies, and keeps a thumbnail of each for a while. */

#include <stdio.h>
#include <string.h>

#include "toy-device.h"

#define N_FRAMES 2000
#define N_THUMBNAILS 48

static TarnBlock *
allocate (TarnPool *pool, gsize size, const gchar *tag, GError **error)
{
  TARN_TAG_SCOPE (tag);

  return tarn_pool_allocate (pool, size, error);
}

/* Up to 24 MiB, more as time goes by. */
static gsize
get_frame_size (guint frame)
{
  return MIB + (guint64) (frame * 2654435761U) % (MIB + frame * 12 * 1024);
}

static guint
run (TarnPool *frames, TarnPool *thumbnails, GError **error)
{
  TarnBlock *kept[N_THUMBNAILS] = { NULL };
  TarnBlock *decoded = NULL, *before = NULL;
  guint n_frames = 0;

  for (guint i = 0; i < N_FRAMES; i++)
    {
      TarnBlock **thumbnail = &kept[i % N_THUMBNAILS];

      decoded = allocate (frames, get_frame_size (i), "frame", error);
      if (decoded == NULL)
        break;
      g_clear_pointer (thumbnail, tarn_block_free);
      *thumbnail = allocate (thumbnails, 272 * 1024, "thumbnail", error);
      if (*thumbnail == NULL)
        break;
      g_clear_pointer (&before, tarn_block_free); /* this frame was decoded from it */
      before = g_steal_pointer (&decoded);
      n_frames++;
    }
  g_clear_pointer (&decoded, tarn_block_free);
  g_clear_pointer (&before, tarn_block_free);
  for (guint i = 0; i < N_THUMBNAILS; i++)
    g_clear_pointer (&kept[i], tarn_block_free);
  return n_frames;
}

int
main (int argc, char **argv)
{
  gboolean is_fixed = argc > 1 && strcmp (argv[1], "--fixed") == 0;
  ToyDevice device = { .bytes = 80 * MIB, .next_address = MIB };
  g_autoptr (GError) error = NULL;
  TarnPool *frames = toy_device_pool_new (&device, "frames", &error);
  TarnPool *thumbnails = NULL;
  guint n_frames = 0;

  if (frames != NULL)
    thumbnails
        = is_fixed ? toy_device_pool_new (&device, "thumbnails", &error) : tarn_pool_ref (frames);
  if (thumbnails != NULL)
    n_frames = run (frames, thumbnails, &error);
  printf ("%u of %d frames\n", n_frames, N_FRAMES);
  if (error != NULL)
    fprintf (stderr, "fragmenting: %s\n", error->message);
  g_clear_pointer (&thumbnails, tarn_pool_unref);
  g_clear_pointer (&frames, tarn_pool_unref);
  return error != NULL;
}
