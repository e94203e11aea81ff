/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that runs out of memory because it forgets to free blocks.  The guide finds them:
 * debugging-out-of-memory.md.
 *
 *     ./leaking          runs until the device is full
 *     ./leaking --fixed  frees them
 *
 * It sends images of several shapes through a network.  It computes a plan for each shape, and
 * keeps the plans of a few shapes, because most images have the shape of the one before. */

#include <stdio.h>
#include <string.h>

#include "toy-device.h"

#define N_IMAGES 2000
#define N_LAYERS 12
#define N_SLOTS 4

typedef struct
{
  guint shape;
  TarnBlock *plan; /* NULL: the slot is empty */
} Slot;

static gboolean is_fixed;
static Slot slots[N_SLOTS];

static TarnBlock *
allocate (TarnPool *pool, gsize size, const gchar *tag, GError **error)
{
  TARN_TAG_SCOPE (tag);

  return tarn_pool_allocate (pool, size, error);
}

static gboolean
find_plan (TarnPool *pool, guint shape, GError **error)
{
  Slot *slot = &slots[shape % N_SLOTS];

  if (slot->plan != NULL && slot->shape == shape)
    return TRUE;
  if (is_fixed) /* without this, nobody can free the old plan any more */
    g_clear_pointer (&slot->plan, tarn_block_free);
  slot->shape = shape;
  slot->plan = allocate (pool, 256 * 1024 + shape * 1024, "plan", error);
  return slot->plan != NULL;
}

static gboolean
run_network (TarnPool *pool, guint shape, GError **error)
{
  TarnBlock *activations[2] = { NULL, NULL };
  gboolean is_done = find_plan (pool, shape, error);

  for (guint layer = 0; is_done && layer < N_LAYERS; layer++)
    {
      TarnBlock **output = &activations[layer % 2];

      g_clear_pointer (output, tarn_block_free);
      *output = allocate (pool, (layer + 1) * (MIB / 4) + shape * 4096, "activations", error);
      is_done = *output != NULL;
    }
  g_clear_pointer (&activations[0], tarn_block_free);
  g_clear_pointer (&activations[1], tarn_block_free);
  return is_done;
}

static guint
run (TarnPool *pool, GError **error)
{
  TarnBlock *weights[N_LAYERS] = { NULL };
  gboolean is_done = TRUE;
  guint n_images = 0;

  for (guint layer = 0; is_done && layer < N_LAYERS; layer++)
    {
      weights[layer] = allocate (pool, 4 * MIB, "weights", error);
      is_done = weights[layer] != NULL;
    }
  for (guint image = 0; is_done && image < N_IMAGES; image++)
    {
      is_done = run_network (pool, image / 5 * 7 % 64, error);
      n_images += is_done;
    }
  for (guint i = 0; i < N_LAYERS; i++)
    g_clear_pointer (&weights[i], tarn_block_free);
  for (guint i = 0; i < N_SLOTS; i++)
    g_clear_pointer (&slots[i].plan, tarn_block_free);
  return n_images;
}

int
main (int argc, char **argv)
{
  ToyDevice device = { .bytes = 128 * MIB, .next_address = MIB };
  g_autoptr (GError) error = NULL;
  TarnPool *pool = toy_device_pool_new (&device, "network", &error);
  guint n_images = 0;

  is_fixed = argc > 1 && strcmp (argv[1], "--fixed") == 0;
  if (pool != NULL)
    n_images = run (pool, &error);
  printf ("%u of %d images\n", n_images, N_IMAGES);
  if (error != NULL)
    fprintf (stderr, "leaking: %s\n", error->message);
  g_clear_pointer (&pool, tarn_pool_unref);
  return error != NULL;
}
