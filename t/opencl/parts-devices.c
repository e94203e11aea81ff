/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parts of one piece of memory that several devices of a context use at the same time, through the
 * drivers as they are: a driver that moves the whole where one part is used loses what another
 * device has just written to its neighbours.  And the alignment that suits all of the devices. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "regions.h"

#define WORD sizeof (guint32)
#define PARTS_EACH 4
#define N_ROUNDS 120

/* Words times turns of a kernel: some tenths of a millisecond of a processor's core. */
#define KERNEL_TURNS (1 << 18)

static const OpenclMemory memories[] = {
  { "deferred", FALSE, opencl_deferred_new },
  { "immediate", FALSE, opencl_immediate_new },
  { "svm", TRUE, opencl_svm_unbound_new },
};

/* Devices that differ: this takes the place of the loader's function for the library, too. */

static const cl_device_id *pretenders; /* NULL: nobody pretends */
static cl_uint pretended_bits[2];      /* the first one's, and that of all others */

cl_int CL_API_CALL
clGetDeviceInfo (cl_device_id device, cl_device_info info, size_t size, void *value,
                 size_t *size_ret)
{
  cl_int (*next) (cl_device_id, cl_device_info, size_t, void *, size_t *);

  *(gpointer *) &next = dlsym (RTLD_NEXT, "clGetDeviceInfo");
  if (pretenders == NULL || info != CL_DEVICE_MEM_BASE_ADDR_ALIGN || value == NULL)
    return next (device, info, size, value, size_ret);
  *(cl_uint *) value = pretended_bits[device != pretenders[0]];
  return CL_SUCCESS;
}

/* What all devices of a test share */

typedef struct
{
  OpenclState state; /* its queue is the first of the queues */
  TarnAllocator *allocator;
  cl_kernel adder;
  guint n_devices;
  cl_command_queue *queues; /* one of each device */
  guint n_parts;
  OpenclRegion whole;
  OpenclRegion *parts;
  guint32 *words; /* what the whole is to hold */
} Fixture;

static gboolean
has_svm (const TarnOpenclTest *test)
{
  gboolean has_all = TRUE;

  for (guint i = 0; i < test->n_devices; i++)
    {
      gboolean has = FALSE;

      tarn_opencl_has_coarse_grain_buffer_svm (test->devices[i], &has, NULL);
      has_all = has_all && has;
    }
  return has_all;
}

static const gchar *
why_not (const TarnOpenclTest *test, const OpenclMemory *memory)
{
  if (test->n_devices < 2)
    return "one device only was chosen of this platform";
  if (memory->is_svm && !has_svm (test))
    return "not all devices have shared virtual memory";
  return NULL;
}

static void
make_queues (Fixture *self, const TarnOpenclTest *test)
{
  g_autoptr (GError) error = NULL;
  cl_int status;

  self->state.context = tarn_opencl_test_create_context (test, &error);
  g_assert_no_error (error);
  self->n_devices = test->n_devices;
  self->queues = g_new (cl_command_queue, self->n_devices);
  for (guint i = 0; i < self->n_devices; i++)
    {
      self->queues[i] = clCreateCommandQueue (self->state.context, test->devices[i], 0, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
    }
  self->state.queue = self->queues[0];
}

static void
settle (const Fixture *self)
{
  for (guint i = 0; i < self->n_devices; i++)
    opencl_settle (self->queues[i]);
}

static void
make_parts (Fixture *self, const OpenclMemory *memory, gsize bytes)
{
  gsize size = opencl_align_part (self->allocator, bytes);

  self->n_parts = self->n_devices * PARTS_EACH;
  self->parts = g_new (OpenclRegion, self->n_parts);
  self->whole = opencl_whole_new (self->allocator, memory, self->n_parts * size);
  self->words = g_malloc0 (self->whole.size);
  opencl_fill_words (self->queues[0], &self->whole, 0, self->whole.size / WORD, 0);
  settle (self);
  for (guint i = 0; i < self->n_parts; i++)
    self->parts[i] = opencl_part_new (self->allocator, &self->whole, i * size, size);
}

static void
setup (Fixture *self, const TarnOpenclTest *test, const OpenclMemory *memory, gsize bytes)
{
  g_autoptr (GError) error = NULL;

  make_queues (self, test);
  self->adder = opencl_adder_new (self->state.context);
  self->allocator = memory->allocator_new (&self->state, &error);
  g_assert_no_error (error);
  make_parts (self, memory, bytes);
}

static void
teardown (Fixture *self)
{
  settle (self);
  opencl_whole_free (self->allocator, &self->whole);
  tarn_allocator_unref (self->allocator);
  g_assert_cmpint (clReleaseKernel (self->adder), ==, CL_SUCCESS);
  for (guint i = 0; i < self->n_devices; i++)
    opencl_queue_free (self->queues[i]);
  opencl_context_release (self->state.context);
  g_free (self->queues);
  g_free (self->parts);
  g_free (self->words);
}

/* Puts commands on a part's queue, each of which builds on what the part holds: one that another
 * device undoes is missing for ever. */
static void
change_part (Fixture *self, guint i, cl_command_queue queue, guint32 value)
{
  const OpenclRegion *part = &self->parts[i];
  gsize n = part->size / WORD, half = n / 2;
  guint32 *words = self->words + i * n;

  opencl_add_value (queue, self->adder, part, value, (guint32) (KERNEL_TURNS / n));
  for (gsize j = 0; j < n; j++)
    words[j] += value;
  if (value % 3 == 0)
    {
      opencl_fill_words (queue, part, 0, half, value);
      for (gsize j = 0; j < half; j++)
        words[j] = value;
    }
  if (value % 7 == 0)
    {
      opencl_copy_words (queue, part, 0, part, half, half);
      memcpy (words + half, words, half * WORD);
    }
}

static guint
count_wrong (cl_command_queue queue, const OpenclRegion *region, const guint32 *words)
{
  g_autofree guint32 *read = g_malloc (region->size);
  guint n_wrong = 0;

  opencl_read (queue, region, read);
  for (gsize i = 0; i < region->size / WORD; i++)
    n_wrong += read[i] != words[i];
  return n_wrong;
}

/* Which device has a part: neighbours are of different ones. */
static cl_command_queue
get_queue (const Fixture *self, guint part, guint shift)
{
  return self->queues[(part + shift) % self->n_devices];
}

/* Reads parts while others are in use, so that the host, too, asks for what lies between. */
static guint
check_parts (const Fixture *self, guint shift)
{
  guint n_wrong = 0;

  for (guint i = 0; i < self->n_parts; i++)
    n_wrong += count_wrong (get_queue (self, i, shift), &self->parts[i],
                            self->words + i * self->parts[i].size / WORD);
  return n_wrong;
}

/* All devices write at once, round by round, without waiting for one another. */
static guint
use_at_once (Fixture *self, guint first, guint n_rounds, guint shift)
{
  guint n_wrong = 0;

  for (guint round = first; round < first + n_rounds; round++)
    {
      for (guint i = 0; i < self->n_parts; i++)
        change_part (self, i, get_queue (self, i, shift), round * self->n_parts + i);
      for (guint i = 0; i < self->n_devices; i++)
        g_assert_cmpint (clFlush (self->queues[i]), ==, CL_SUCCESS);
      if (round % 5 == 0)
        n_wrong += check_parts (self, shift);
    }
  return n_wrong;
}

/* Small parts and large ones. */
static void
test_at_once (const TarnOpenclTest *test, gconstpointer data)
{
  static const gsize sizes[] = { 4096, 256 * 1024 };
  const OpenclMemory *memory = data;
  const gchar *reason = why_not (test, memory);
  Fixture self;

  if (reason != NULL)
    {
      g_test_skip (reason);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      guint n_rounds = N_ROUNDS >> 2 * i, shift = 0, n_wrong = 0;

      setup (&self, test, memory, sizes[i]);
      for (guint round = 0; round < n_rounds; round += n_rounds / 6)
        {
          n_wrong += use_at_once (&self, round, n_rounds / 6, shift++);
          /* Then each part is another device's. */
          settle (&self);
          n_wrong += check_parts (&self, shift);
        }
      for (guint j = 0; j < self.n_parts; j++)
        opencl_part_release (self.allocator, &self.parts[j]);
      for (guint j = 0; j < self.n_devices; j++)
        n_wrong += count_wrong (self.queues[j], &self.whole, self.words);
      teardown (&self);
      g_assert_cmpuint (n_wrong, ==, 0);
    }
}

/* One device is held up, the others are not */

static gboolean
has_gate (const TarnOpenclTest *test, guint i, const OpenclState *state)
{
  TarnOpenclDevice device = *test->info;
  g_autofree gchar *reason = NULL;

  device.device = test->devices[i];
  reason = opencl_why_not (&device, state, OPENCL_NEEDS_GATE);
  return reason == NULL;
}

/* Has a device that is held up use every other part, which it does when the others are done with
 * theirs: had it been given the whole when the commands were put on its queue, or did the others
 * give the whole back, a part would be what it was before.  Whether the others could go on
 * meanwhile is said, and is the driver's own affair. */
static guint
hold_up (Fixture *self, guint held)
{
  cl_event gate = opencl_gate_new (&self->state), others = NULL;
  guint other = (held + 1) % self->n_devices;

  g_assert_cmpint (clEnqueueBarrierWithWaitList (self->queues[held], 1, &gate, NULL), ==,
                   CL_SUCCESS);
  for (guint i = 0; i < self->n_parts; i++)
    change_part (self, i, self->queues[i % 2 == 0 ? held : other], i);
  g_assert_cmpint (clFlush (self->queues[held]), ==, CL_SUCCESS);
  g_assert_cmpint (clEnqueueMarkerWithWaitList (self->queues[other], 0, NULL, &others), ==,
                   CL_SUCCESS);
  g_assert_cmpint (clFlush (self->queues[other]), ==, CL_SUCCESS);
  for (guint i = 0; i < 2000 && !opencl_is_complete (others); i++)
    g_usleep (1000);
  g_test_message ("device %u is held up, and device %u %s", held, other,
                  opencl_is_complete (others) ? "goes on" : "waits for it");
  opencl_gate_open (gate);
  opencl_await (others);
  settle (self);
  return check_parts (self, 0) + check_parts (self, 1);
}

static void
test_held_up (const TarnOpenclTest *test, gconstpointer data)
{
  const OpenclMemory *memory = data;
  const gchar *reason = why_not (test, memory);
  guint n_held = 0, n_wrong = 0;
  Fixture self;

  if (reason != NULL)
    {
      g_test_skip (reason);
      return;
    }
  setup (&self, test, memory, 4096);
  for (guint i = 0; i < self.n_devices; i++)
    if (has_gate (test, i, &self.state))
      {
        n_wrong += hold_up (&self, i);
        n_held++;
      }
  for (guint i = 0; i < self.n_parts; i++)
    opencl_part_release (self.allocator, &self.parts[i]);
  for (guint i = 0; i < self.n_devices; i++)
    n_wrong += count_wrong (self.queues[i], &self.whole, self.words);
  teardown (&self);
  g_assert_cmpuint (n_wrong, ==, 0);
  if (n_held == 0)
    g_test_skip ("no device can be held up");
}

/* Offsets suit the device that asks for most, whichever that is. */
static void
test_alignment (const TarnOpenclTest *test, gconstpointer data)
{
  static const cl_uint bits[][2] = { { 1024, 4096 }, { 8192, 1024 } };
  g_autoptr (GError) error = NULL;
  Fixture self;

  (void) data;
  if (test->n_devices < 2)
    {
      g_test_skip ("one device only was chosen of this platform");
      return;
    }
  make_queues (&self, test);
  for (guint i = 0; i < G_N_ELEMENTS (bits); i++)
    {
      g_autoptr (TarnAllocator) allocator = NULL;

      pretended_bits[0] = bits[i][0];
      pretended_bits[1] = bits[i][1];
      pretenders = test->devices;
      allocator = opencl_deferred_new (&self.state, &error);
      pretenders = NULL;
      g_assert_no_error (error);
      g_assert_cmpuint (opencl_get_part_alignment (allocator), ==,
                        MAX (bits[i][0], bits[i][1]) / 8);
    }
  for (guint i = 0; i < self.n_devices; i++)
    opencl_queue_free (self.queues[i]);
  opencl_context_release (self.state.context);
  g_free (self.queues);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (memories); i++)
    {
      g_autofree gchar *at_once = g_strdup_printf ("parts/at-once/%s", memories[i].name);
      g_autofree gchar *held_up = g_strdup_printf ("parts/held-up/%s", memories[i].name);

      tarn_opencl_test_add_per_platform (at_once, test_at_once, &memories[i]);
      tarn_opencl_test_add_per_platform (held_up, test_held_up, &memories[i]);
    }
  tarn_opencl_test_add_per_platform ("parts/alignment", test_alignment, NULL);
  return g_test_run ();
}
