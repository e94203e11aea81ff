/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes up the trace of a program that trains a language model.  The model learns from batches of
 * texts, whose length varies, and writes a text after each batch.  Hardly any block size repeats.
 * One thread reads the next batch, and copies it to the device on its own queue, while another
 * thread trains the model on a second queue.  A third queue sends the gradients of each layer to
 * other devices. */

#include <math.h>

#include "trace.h"

#define N_BATCHES 40
#define N_LAYERS 12
#define BATCH 4         /* number of texts in a batch */
#define MIN_LENGTH 16   /* fewest words in a text */
#define MAX_LENGTH 1024 /* most words in a text; keeps less than 1 GiB in use */
#define N_WRITTEN 24    /* number of words in a text that the model writes */
#define WIDTH 512       /* elements of the vector that stands for a word inside the model */
#define N_HEADS 4       /* number of attention heads; each relates every word to every other one */
#define NUMBER 2        /* bytes of an element of a vector or matrix: 16-bit floating point */
#define INDEX 8         /* bytes of an index: the number of a word in the list of all words */
#define SECONDS_APART 1e-6

enum
{
  LEARNER = 1,
  READER,
  /* SENDER is only a queue: the thread LEARNER puts work on it. */
  SENDER
};

/* The trace that is being made up. */
typedef struct
{
  GArray *events; /* elements of type TraceEvent */
  guint64 last_id;
} Model;

static void
add_event (Model *model, TraceEvent event)
{
  event.time = (guint64) (model->events->len * SECONDS_APART * 1e9);
  event.thread = event.queue == READER && !event.is_free ? READER : LEARNER;
  g_array_append_val (model->events, event);
}

static guint64
allocate (Model *model, guint64 queue, gsize size)
{
  add_event (model, (TraceEvent){ .id = ++model->last_id, .size = size, .queue = queue });
  return model->last_id;
}

/* Frees a block in the thread that trains the model.  @queue is the last queue that used the
 * block. */
static void
free_block (Model *model, guint64 queue, guint64 id)
{
  add_event (model, (TraceEvent){ .id = id, .queue = queue, .is_free = TRUE });
}

/* A layer's blocks that are kept until the backward pass. */
typedef struct
{
  guint64 words, looks;
} Layer;

static void
go_forward (Model *model, Layer *layer, gsize length)
{
  gsize words = BATCH * length * WIDTH * NUMBER;
  guint64 wide;

  layer->words = allocate (model, LEARNER, words);
  wide = allocate (model, LEARNER, 3 * words);
  layer->looks = allocate (model, LEARNER, BATCH * N_HEADS * length * length * NUMBER);
  free_block (model, LEARNER, wide);
  wide = allocate (model, LEARNER, 4 * words);
  free_block (model, LEARNER, wide);
}

/* Makes the backward pass of a layer, and allocates a block for the gradients that the pass
 * computes.  The pass goes from the last layer to the first.  When the function is called, *sent is
 * the gradients' block of the previous layer in this order, or 0 if there is none.  These gradients
 * have been sent to the other devices by now, so the function frees their block.  Then it stores
 * the new block in *sent. */
static void
go_back (Model *model, const Layer *layer, gsize length, guint64 *sent)
{
  gsize words = BATCH * length * WIDTH * NUMBER;
  guint64 wide = allocate (model, LEARNER, 4 * words);
  guint64 learned = allocate (model, LEARNER, 12 * WIDTH * WIDTH * NUMBER);
  guint64 looks = allocate (model, LEARNER, BATCH * N_HEADS * length * length * NUMBER);

  free_block (model, LEARNER, layer->looks);
  free_block (model, LEARNER, looks);
  free_block (model, LEARNER, layer->words);
  free_block (model, LEARNER, wide);
  if (*sent != 0)
    free_block (model, SENDER, *sent);
  *sent = learned;
}

static void
learn (Model *model, gsize length)
{
  Layer layers[N_LAYERS];
  guint64 sent = 0;

  for (guint i = 0; i < N_LAYERS; i++)
    go_forward (model, &layers[i], length);
  for (guint i = N_LAYERS; i > 0; i--)
    go_back (model, &layers[i - 1], length, &sent);
  free_block (model, SENDER, sent);
}

/* Writes a text.  For each new word, copies the data of all words so far into a larger block. */
static void
write_text (Model *model, gsize length)
{
  guint64 known = allocate (model, LEARNER, length * N_LAYERS * WIDTH * NUMBER);

  for (guint i = 1; i <= N_WRITTEN; i++)
    {
      guint64 longer = allocate (model, LEARNER, (length + i) * N_LAYERS * WIDTH * NUMBER);

      free_block (model, LEARNER, known);
      known = longer;
    }
  free_block (model, LEARNER, known);
}

static gsize
draw_length (GRand *random)
{
  return (gsize) (MIN_LENGTH
                  * exp2 (g_rand_double (random) * log2 ((gdouble) MAX_LENGTH / MIN_LENGTH)));
}

Trace *
trace_make_model (void)
{
  Model model = { g_array_new (FALSE, FALSE, sizeof (TraceEvent)), 0 };
  g_autoptr (GRand) random = g_rand_new_with_seed (2);
  gsize length = draw_length (random);
  guint64 batch = allocate (&model, READER, BATCH * length * INDEX);

  for (guint i = 0; i < N_BATCHES; i++)
    {
      gsize next_length = draw_length (random);
      guint64 next = allocate (&model, READER, BATCH * next_length * INDEX);

      learn (&model, length);
      free_block (&model, LEARNER, batch);
      write_text (&model, length);
      batch = next;
      length = next_length;
    }
  free_block (&model, LEARNER, batch);
  return trace_new ("model", model.events, NULL);
}
