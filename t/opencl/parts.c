/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parts of memory, as a heap makes them: sub-buffers, and addresses within shared virtual memory.
 * A layer above the driver has a ledger, and calls that fail. */

#include <string.h>

#include "allocator/allocator-private.h"
#include "regions.h"

#define WORD sizeof (guint32)
#define N_PARTS 8
#define BACKGROUND 0xb0b0b0b0

#define ACCESS (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY)
#define HOST_ACCESS (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)

static const OpenclLayer *layer; /* NULL: there is none */

static gboolean
skip_without_layer (void)
{
  if (layer == NULL)
    g_test_skip ("the OpenCL loader takes no layers");
  else
    layer->reset ();
  return layer == NULL;
}

static TarnAllocator *
allocator_new (OpenclState *state, const OpenclMemory *memory)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = memory->allocator_new (state, &error);

  g_assert_no_error (error);
  return allocator;
}

static void
get_buffer_info (const OpenclRegion *region, cl_mem_info info, gpointer value, gsize size)
{
  g_assert_cmpint (clGetMemObjectInfo (region->memory.pointer, info, size, value, NULL), ==,
                   CL_SUCCESS);
}

/* Alignment */

static void
test_alignment (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  cl_uint bits = 0;

  (void) data;
  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits,
                   NULL);
  g_assert_cmpuint (opencl_get_part_alignment (allocator), ==, memory->is_svm ? 128 : bits / 8);
}

/* Whatever a driver says, it is a power of two, of bytes, and no less. */
static void
test_odd_alignments (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  static const struct
  {
    cl_uint bits;
    gsize bytes;
  } rows[] = { { 0, 1 },  { 1, 1 },      { 8, 1 },      { 16, 2 },
               { 24, 4 }, { 1024, 128 }, { 4096, 512 }, { 1u << 31, 1u << 28 } };

  (void) data;
  if (skip_without_layer ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (TarnAllocator) allocator = NULL;

      layer->set_device_info (CL_DEVICE_MEM_BASE_ADDR_ALIGN, &rows[i].bits, sizeof rows[i].bits);
      allocator = allocator_new (state, memory);
      g_assert_cmpuint (opencl_get_part_alignment (allocator), ==, rows[i].bytes);
    }
  layer->reset ();
}

/* Parts of shared virtual memory are aligned as the whole is asked to be. */
static void
test_svm_alignments (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  static const cl_uint alignments[] = { 0, 1, 2, 64, 128 };

  (void) memory;
  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (alignments); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TarnAllocator) allocator
          = tarn_opencl_svm_allocator_new (state->context, alignments[i], 0, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (opencl_get_part_alignment (allocator), ==,
                        alignments[i] == 0 ? 128 : alignments[i]);
    }
}

/* Of what clSVMAlloc refuses there are no parts, and nothing else happens. */
static void
test_bad_svm_alignment (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator
      = tarn_opencl_svm_allocator_new (state->context, 96, 0, NULL, &error);

  (void) memory;
  (void) data;
  g_assert_no_error (error);
  g_assert_cmpuint (opencl_get_part_alignment (allocator), ==, 0);
}

/* Parts side by side, every other one with a gap behind it that belongs to nobody. */

typedef enum
{
  FILL,
  WRITE,
  COPY,
  ADD,
  N_COMMANDS
} Command;

typedef struct
{
  TarnAllocator *allocator;
  cl_command_queue queues[2];
  cl_kernel adder;
  OpenclRegion whole, sources[2];
  gsize stride; /* bytes from part to part */
  OpenclRegion parts[N_PARTS];
  guint32 *words; /* what the whole is to hold */
} Fixture;

static guint32 *
get_words (const Fixture *self, guint part)
{
  return self->words + part * self->stride / WORD;
}

static void
set_words (guint32 *words, gsize n, guint32 value)
{
  for (gsize i = 0; i < n; i++)
    words[i] = value;
}

static void
settle (const Fixture *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->queues); i++)
    opencl_settle (self->queues[i]);
}

static void
setup (Fixture *self, OpenclState *state, const OpenclMemory *memory)
{
  gsize n_words;

  self->allocator = allocator_new (state, memory);
  self->queues[0] = state->queue;
  self->queues[1] = opencl_queue_new (state, FALSE);
  self->adder = opencl_adder_new (state->context);
  self->stride = opencl_align_part (self->allocator, 4096);
  self->whole = opencl_whole_new (self->allocator, memory, N_PARTS * self->stride);
  for (guint i = 0; i < G_N_ELEMENTS (self->sources); i++)
    self->sources[i] = opencl_whole_new (self->allocator, memory, self->stride);
  n_words = self->whole.size / WORD;
  self->words = g_new (guint32, n_words);
  set_words (self->words, n_words, BACKGROUND);
  opencl_fill_words (state->queue, &self->whole, 0, n_words, BACKGROUND);
  settle (self);
  for (guint i = 0; i < N_PARTS; i++)
    self->parts[i] = opencl_part_new (self->allocator, &self->whole, i * self->stride,
                                      self->stride - i % 2 * WORD);
}

static void
teardown (Fixture *self)
{
  settle (self);
  opencl_whole_free (self->allocator, &self->whole);
  for (guint i = 0; i < G_N_ELEMENTS (self->sources); i++)
    opencl_whole_free (self->allocator, &self->sources[i]);
  g_assert_cmpint (clReleaseKernel (self->adder), ==, CL_SUCCESS);
  opencl_queue_free (self->queues[1]);
  tarn_allocator_unref (self->allocator);
  g_free (self->words);
}

/* Puts one command on the queue that changes a part, and notes what it is to hold. */
static void
change_part (Fixture *self, guint i, Command command, guint32 value)
{
  const OpenclRegion *part = &self->parts[i];
  cl_command_queue queue = self->queues[i % 2];
  guint32 *words = get_words (self, i);
  gsize n = part->size / WORD;

  set_words (words, n, command == ADD ? words[0] + value : value);
  if (command == FILL)
    opencl_fill_words (queue, part, 0, n, value);
  else if (command == WRITE)
    opencl_write (queue, part, words);
  else if (command == ADD)
    opencl_add_value (queue, self->adder, part, value, 0);
  else
    {
      opencl_fill_words (queue, &self->sources[i % 2], 0, n, value);
      opencl_copy_words (queue, &self->sources[i % 2], 0, part, 0, n);
    }
}

static void
assert_words (cl_command_queue queue, const OpenclRegion *region, const guint32 *words)
{
  g_autofree guint32 *read = g_malloc (region->size);

  opencl_read (queue, region, read);
  for (gsize i = 0; i < region->size / WORD; i++)
    g_assert_cmphex (read[i], ==, words[i]);
}

/* Different commands write to neighbours, and each part has what was written to it: the whole has
 * what the parts have, with and without them. */
static void
test_apart (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  Fixture self;

  (void) data;
  setup (&self, state, memory);
  for (guint round = 0; round < 3 * N_COMMANDS; round++)
    {
      for (guint i = 0; i < N_PARTS; i++)
        change_part (&self, i, (i + round) % N_COMMANDS, 100 * round + i);
      settle (&self);
      for (guint i = 0; i < N_PARTS; i++)
        assert_words (self.queues[i / 2 % 2], &self.parts[i], get_words (&self, i));
      assert_words (self.queues[round % 2], &self.whole, self.words);
    }
  for (guint i = 0; i < N_PARTS; i++)
    opencl_part_release (self.allocator, &self.parts[i]);
  assert_words (self.queues[0], &self.whole, self.words);
  teardown (&self);
}

/* What was released may be made again, larger: it holds what the smaller ones did. */
static void
test_again (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  OpenclRegion half;
  Fixture self;

  (void) data;
  setup (&self, state, memory);
  for (guint i = 0; i < N_PARTS; i++)
    change_part (&self, i, FILL, i);
  settle (&self);
  for (guint i = 0; i < N_PARTS; i++)
    opencl_part_release (self.allocator, &self.parts[i]);
  half = opencl_part_new (self.allocator, &self.whole, N_PARTS / 2 * self.stride,
                          N_PARTS / 2 * self.stride);
  assert_words (state->queue, &half, get_words (&self, N_PARTS / 2));
  opencl_part_release (self.allocator, &half);
  teardown (&self);
}

/* Sub-buffers: what they are, and where there is none */

static void
assert_no_part (TarnAllocator *allocator, const OpenclRegion *whole, gsize offset, gsize size,
                cl_int status)
{
  g_autofree gchar *message = g_strdup_printf (
      "clCreateSubBuffer: %s (%d): %" G_GSIZE_FORMAT " bytes at offset %" G_GSIZE_FORMAT,
      tarn_opencl_status_name (status), status, size, offset);
  g_autoptr (GError) error = NULL;
  OpenclRegion part;

  g_assert_false (opencl_part_try (allocator, whole, offset, size, &part, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, status);
  g_assert_cmpstr (error->message, ==, message);
  g_assert_null (part.memory.pointer);
}

/* At each multiple of the alignment there is a part, and none that ends beyond the whole, where the
 * driver looks at it (NVIDIA's does not). */
static void
test_offsets (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  gsize alignment = opencl_get_part_alignment (allocator), size = 16 * alignment;
  OpenclRegion whole = opencl_whole_new (allocator, memory, size), part;
  gboolean looks = !opencl_part_try (allocator, &whole, 0, size + 1, &part, NULL);

  (void) data;
  if (!looks)
    {
      g_test_message ("the driver does not look at where sub-buffers end");
      opencl_part_release (allocator, &part);
    }
  for (gsize offset = 0; offset < size; offset += alignment)
    {
      size_t said = 1;

      part = opencl_part_new (allocator, &whole, offset, size - offset);
      get_buffer_info (&part, CL_MEM_OFFSET, &said, sizeof said);
      g_assert_cmpuint (said, ==, offset);
      opencl_part_release (allocator, &part);
      if (looks)
        assert_no_part (allocator, &whole, offset, size - offset + 1, CL_INVALID_VALUE);
    }
  opencl_whole_free (allocator, &whole);
}

/* Off the alignment there is an error, where the driver looks at it (rusticl 22.3 does not). */
static void
test_misaligned (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  gsize alignment = opencl_get_part_alignment (allocator);
  const gsize offsets[] = { 1, alignment - 1, alignment + 1, alignment / 2, 3 * alignment / 2 };
  OpenclRegion whole = opencl_whole_new (allocator, memory, 2 * alignment), part;

  (void) data;
  if (alignment == 1)
    g_test_skip ("any offset will do");
  else if (opencl_part_try (allocator, &whole, 1, 1, &part, NULL))
    {
      g_test_skip ("the driver does not look at the alignment of sub-buffers");
      opencl_part_release (allocator, &part);
    }
  else
    for (guint i = 0; i < G_N_ELEMENTS (offsets); i++)
      assert_no_part (allocator, &whole, offsets[i], 1, CL_MISALIGNED_SUB_BUFFER_OFFSET);
  opencl_whole_free (allocator, &whole);
}

/* Of 0 bytes there is a part without a buffer, as there is memory without one. */
static void
test_empty (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  OpenclRegion whole = opencl_whole_new (allocator, memory, 4096), part;

  (void) data;
  g_assert_true (opencl_part_try (allocator, &whole, 0, 0, &part, NULL));
  g_assert_null (part.memory.pointer);
  opencl_part_release (allocator, &part);
  opencl_whole_free (allocator, &whole);
}

/* What tells a part from a buffer, as tarn_opencl_deferred_allocator_new () says. */
static void
test_limits (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  gsize alignment = opencl_get_part_alignment (allocator);
  OpenclRegion whole = opencl_whole_new (allocator, memory, 4 * alignment), part, of_part;
  cl_mem associated = NULL;
  size_t size = 0;

  (void) data;
  part = opencl_part_new (allocator, &whole, alignment, 2 * alignment);
  get_buffer_info (&part, CL_MEM_SIZE, &size, sizeof size);
  g_assert_cmpuint (size, ==, 2 * alignment);
  get_buffer_info (&part, CL_MEM_ASSOCIATED_MEMOBJECT, &associated, sizeof associated);
  g_assert_true (associated == whole.memory.pointer);
  if (opencl_part_try (allocator, &part, 0, alignment, &of_part, NULL))
    opencl_part_release (allocator, &of_part); /* as NVIDIA's driver has it */
  else
    assert_no_part (allocator, &part, 0, alignment, CL_INVALID_MEM_OBJECT);
  opencl_part_release (allocator, &part);
  opencl_whole_free (allocator, &whole);
}

static void
assert_inherits (TarnAllocator *allocator, cl_mem_flags access, cl_mem_flags host_access)
{
  const OpenclMemory buffers = { .is_svm = FALSE };
  OpenclRegion whole = opencl_whole_new (allocator, &buffers, 4096);
  OpenclRegion part = opencl_part_new (allocator, &whole, 0, 1024);
  cl_mem_flags flags = 0;

  get_buffer_info (&part, CL_MEM_FLAGS, &flags, sizeof flags);
  g_assert_cmphex (flags & ACCESS, ==, access);
  g_assert_cmphex (flags & HOST_ACCESS, ==, host_access);
  opencl_part_release (allocator, &part);
  opencl_whole_free (allocator, &whole);
}

/* Whatever flags the buffers have, parts have the same access to them. */
static void
test_flags (const TarnOpenclDevice *device, OpenclState *state)
{
  static const cl_mem_flags access[]
      = { 0, CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY };
  static const cl_mem_flags others[] = { 0, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY,
                                         CL_MEM_HOST_WRITE_ONLY, CL_MEM_ALLOC_HOST_PTR };

  (void) device;
  for (guint i = 0; i < G_N_ELEMENTS (access) * G_N_ELEMENTS (others); i++)
    {
      cl_mem_flags wanted = access[i % G_N_ELEMENTS (access)];
      cl_mem_flags other = others[i / G_N_ELEMENTS (access)];
      cl_mem_flags expected = wanted != 0 ? wanted : CL_MEM_READ_WRITE;
      g_autoptr (TarnAllocator) now
          = tarn_opencl_immediate_allocator_new (state->queue, wanted | other, NULL);
      g_autoptr (TarnAllocator) later
          = tarn_opencl_deferred_allocator_new (state->context, wanted | other, NULL);

      assert_inherits (now, expected, other & HOST_ACCESS);
      assert_inherits (later, expected, other & HOST_ACCESS);
    }
}

/* Both are released while a command that uses the part waits: the driver keeps what it needs, and
 * lets go of it afterwards, as closing the context asserts. */
static void
test_released_while_used (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = allocator_new (state, memory);
  gsize size = opencl_align_part (allocator, 4096);
  OpenclRegion whole = opencl_whole_new (allocator, memory, 2 * size);
  OpenclRegion part = opencl_part_new (allocator, &whole, size, size);
  g_autofree guint32 *words = g_new0 (guint32, size / WORD);
  cl_event gate = opencl_gate_new (state), reading;

  (void) data;
  g_assert_true (allocator->ops.frees_in_order);
  g_assert_cmpint (clEnqueueBarrierWithWaitList (state->queue, 1, &gate, NULL), ==, CL_SUCCESS);
  opencl_fill_words (state->queue, &part, 0, size / WORD, 4711);
  g_assert_cmpint (clEnqueueReadBuffer (state->queue, part.memory.pointer, CL_FALSE, 0, size, words,
                                        0, NULL, &reading),
                   ==, CL_SUCCESS);
  g_assert_cmpint (clFlush (state->queue), ==, CL_SUCCESS);
  opencl_part_release (allocator, &part);
  opencl_whole_free (allocator, &whole);
  opencl_gate_open (gate);
  opencl_await (reading);
  for (gsize i = 0; i < size / WORD; i++)
    g_assert_cmpuint (words[i], ==, 4711);
}

/* Calls */

static guint
count_live (void)
{
  return layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0)
         + layer->get_live (OPENCL_LAYER_PART, NULL, 0)
         + layer->get_live (OPENCL_LAYER_SVM, NULL, 0);
}

/* One call makes a sub-buffer and one releases it; a part of shared virtual memory takes none. */
static void
test_calls (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  guint n_each = memory->is_svm ? 0 : 1;
  OpenclRegion whole, part;
  guint n_calls;

  (void) data;
  if (skip_without_layer ())
    return;
  allocator = allocator_new (state, memory);
  whole = opencl_whole_new (allocator, memory, 4096);
  n_calls = layer->get_calls (NULL);
  part = opencl_part_new (allocator, &whole, 0, 1024);
  g_assert_cmpuint (layer->get_calls (NULL) - n_calls, ==, n_each);
  g_assert_cmpuint (layer->get_calls (memory->is_svm ? NULL : "clCreateSubBuffer") > 0, ==, TRUE);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_PART, NULL, 0), ==, n_each);
  g_assert_cmpuint (layer->get_live_bytes (), ==, 4096);
  opencl_part_release (allocator, &part);
  g_assert_cmpuint (layer->get_calls (NULL) - n_calls, ==, 2 * n_each);
  g_assert_cmpuint (count_live (), ==, 1);
  opencl_whole_free (allocator, &whole);
  g_assert_cmpuint (count_live (), ==, 0);
}

/* What the driver may say of a part, and which error it becomes. */
static void
test_statuses (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  static const struct
  {
    cl_int status;
    gboolean out_of_memory;
    const gchar *text;
  } rows[] = {
    { CL_MEM_OBJECT_ALLOCATION_FAILURE, TRUE, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)" },
    { CL_OUT_OF_RESOURCES, TRUE, "CL_OUT_OF_RESOURCES (-5)" },
    { CL_OUT_OF_HOST_MEMORY, TRUE, "CL_OUT_OF_HOST_MEMORY (-6)" },
    { CL_MISALIGNED_SUB_BUFFER_OFFSET, FALSE, "CL_MISALIGNED_SUB_BUFFER_OFFSET (-13)" },
    { CL_INVALID_BUFFER_SIZE, FALSE, "CL_INVALID_BUFFER_SIZE (-61)" },
    { -9999, FALSE, "unknown status (-9999)" },
  };
  g_autoptr (TarnAllocator) allocator = NULL;
  OpenclRegion whole, part;

  (void) data;
  if (skip_without_layer ())
    return;
  allocator = allocator_new (state, memory);
  whole = opencl_whole_new (allocator, memory, 8192);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *message
          = g_strdup_printf ("clCreateSubBuffer: %s: 4095 bytes at offset 4096", rows[i].text);
      g_autoptr (GError) error = NULL;

      layer->fail ("clCreateSubBuffer", 1, FALSE, rows[i].status);
      g_assert_false (opencl_part_try (allocator, &whole, 4096, 4095, &part, &error));
      if (rows[i].out_of_memory)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      else
        g_assert_error (error, TARN_OPENCL_ERROR, rows[i].status);
      g_assert_cmpstr (error->message, ==, message);
      g_assert_null (part.memory.pointer);
      g_assert_cmpuint (count_live (), ==, 1);
      part = opencl_part_new (allocator, &whole, 4096, 4096);
      opencl_part_release (allocator, &part);
    }
  opencl_whole_free (allocator, &whole);
}

/* Parts of memory from an allocator that lasts no longer; all is given back either way, as far as
 * the driver takes it.  FALSE with the first error. */
static gboolean
use_parts (OpenclState *state, const OpenclMemory *memory, GError **error)
{
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, error);
  OpenclRegion whole = { FALSE, { NULL }, 8192 };
  OpenclRegion parts[2];
  guint n_parts = 0;

  if (allocator == NULL
      || !tarn_allocator_allocate_memory (allocator, whole.size, &whole.memory, error))
    return FALSE;
  while (n_parts < 2
         && opencl_part_try (allocator, &whole, n_parts * 4096, 4096, &parts[n_parts], error))
    n_parts++;
  for (guint i = 0; i < n_parts; i++)
    opencl_part_release (allocator, &parts[i]);
  opencl_whole_free (allocator, &whole);
  return n_parts == 2;
}

/* Releases what is there although it was released, because that call was made to fail. */
static guint
release_lost (const OpenclState *state)
{
  static const OpenclLayerKind kinds[] = { OPENCL_LAYER_PART, OPENCL_LAYER_BUFFER };
  guint n_lost = 0;
  gpointer lost;

  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    for (; layer->get_live (kinds[i], &lost, 1) > 0; n_lost++)
      g_assert_cmpint (clReleaseMemObject (lost), ==, CL_SUCCESS);
  for (; layer->get_references (state->queue) > 1; n_lost++)
    g_assert_cmpint (clReleaseCommandQueue (state->queue), ==, CL_SUCCESS);
  for (; layer->get_references (state->context) > 1; n_lost++)
    g_assert_cmpint (clReleaseContext (state->context), ==, CL_SUCCESS);
  return n_lost;
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer count)
{
  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, "CL_INVALID_OPERATION (-59)"));
  ++*(guint *) count;
}

/* The call that has failed; NULL: there were fewer, and all is well. */
static const gchar *
fail_one_call (OpenclState *state, const OpenclMemory *memory, guint nth)
{
  g_autoptr (GError) error = NULL;
  guint n_messages = 0;
  guint handler
      = g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  gboolean succeeded, is_release;
  const gchar *call;

  layer->fail (NULL, nth, FALSE, CL_INVALID_OPERATION);
  succeeded = use_parts (state, memory, &error);
  call = layer->get_failed ();
  is_release = call != NULL && g_str_has_prefix (call, "clRelease");
  g_assert_cmpint (succeeded, ==, call == NULL || is_release);
  if (!succeeded)
    {
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
      g_assert_true (g_str_has_prefix (error->message, call));
    }
  g_assert_cmpuint (n_messages, ==, is_release);
  g_assert_cmpuint (release_lost (state), ==, is_release);
  g_log_remove_handler ("Tarn-OpenCL", handler);
  return call;
}

/* Each driver call failing in turn, from the making of the allocator to its end: nothing is lost
 * but what could not be released, of which a message tells. */
static void
test_failing_calls (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  static const gchar *const expected[]
      = { "clGetContextInfo",  "clGetDeviceInfo",    "clRetainContext", "clCreateBuffer",
          "clCreateSubBuffer", "clReleaseMemObject", "clReleaseContext" };
  g_autoptr (GHashTable) failed = g_hash_table_new (g_str_hash, g_str_equal);
  const gchar *call;

  (void) data;
  if (skip_without_layer ())
    return;
  for (guint nth = 1; (call = fail_one_call (state, memory, nth)) != NULL; nth++)
    g_hash_table_add (failed, (gpointer) call);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_true (g_hash_table_contains (failed, expected[i]));
}

/* Memory that a deferred allocator gave may turn out not to be there when a part of it is first
 * used: it is the whole that is missing. */
static void
test_deferred_whole (const TarnOpenclDevice *device, OpenclState *state)
{
  const OpenclMemory memory = { "deferred", FALSE, opencl_deferred_new };
  g_autoptr (TarnAllocator) allocator = NULL;
  OpenclRegion whole, part;
  const guint32 zero = 0;

  (void) device;
  if (skip_without_layer ())
    return;
  layer->set_budget (8191, OPENCL_LAYER_AT_MIGRATION, CL_OUT_OF_RESOURCES);
  allocator = allocator_new (state, &memory);
  whole = opencl_whole_new (allocator, &memory, 8192);
  part = opencl_part_new (allocator, &whole, 4096, 1024);
  g_assert_cmpint (
      clEnqueueFillBuffer (state->queue, part.memory.pointer, &zero, WORD, 0, 1024, 0, NULL, NULL),
      ==, CL_OUT_OF_RESOURCES);
  layer->set_budget (8192, OPENCL_LAYER_AT_MIGRATION, CL_OUT_OF_RESOURCES);
  opencl_fill_words (state->queue, &part, 0, 1024 / WORD, zero);
  opencl_part_release (allocator, &part);
  opencl_whole_free (allocator, &whole);
  layer->reset ();
}

int
main (int argc, char **argv)
{
  static const OpenclQueueCase of_each_kind[] = {
    { "parts/alignment", test_alignment, 0, NULL },
    { "parts/odd-alignments", test_odd_alignments, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/apart", test_apart, 0, NULL },
    { "parts/again", test_again, 0, NULL },
    { "parts/offsets", test_offsets, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/misaligned", test_misaligned, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/empty", test_empty, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/limits", test_limits, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/released-while-used", test_released_while_used,
      OPENCL_NEEDS_BUFFERS | OPENCL_NEEDS_GATE, NULL },
    { "parts/calls", test_calls, 0, NULL },
    { "parts/statuses", test_statuses, OPENCL_NEEDS_BUFFERS, NULL },
    { "parts/failing-calls", test_failing_calls, OPENCL_NEEDS_BUFFERS, NULL },
  };
  static const OpenclQueueCase of_svm[] = {
    { "parts/svm-alignments", test_svm_alignments, OPENCL_NEEDS_SVM, NULL },
    { "parts/bad-svm-alignment", test_bad_svm_alignment, OPENCL_NEEDS_SVM, NULL },
  };
  static const OpenclCase cases[] = {
    { "parts/flags", test_flags },
    { "parts/deferred-whole", test_deferred_whole },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  opencl_add_for_memories (of_each_kind, G_N_ELEMENTS (of_each_kind));
  opencl_add_for_devices (of_svm, G_N_ELEMENTS (of_svm));
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
