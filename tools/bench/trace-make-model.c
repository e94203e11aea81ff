/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A trace that is made: a language model, which learns from texts whose lengths vary and writes one
 * after each batch.  Hardly a size comes again.  One thread reads the next batch, which it puts on
 * the device on a queue of its own, while another one learns; what a layer learned goes to other
 * devices on a third queue. */

#include <math.h>

#include "trace.h"

#define N_BATCHES 40
#define N_LAYERS 12
#define BATCH 4         /* texts */
#define MIN_LENGTH 16   /* of a text: words */
#define MAX_LENGTH 1024 /* so that less than a GiB is in use */
#define N_WRITTEN 24    /* words */
#define WIDTH 512       /* numbers that the model has of a word */
#define N_HEADS 4       /* each looks from each word at each other one */
#define NUMBER 2        /* bytes */
#define INDEX 8         /* bytes: which word it is */
#define SECONDS_APART 1e-6

enum
{
  LEARNER = 1,
  READER,
  /* Of queues only: */
  SENDER
};

typedef struct
{
  GArray *events; /* of TraceEvent */
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

/* All are freed by the learner, @queue being the last that used it. */
static void
free_block (Model *model, guint64 queue, guint64 id)
{
  add_event (model, (TraceEvent){ .id = id, .queue = queue, .is_free = TRUE });
}

/* What is kept of a layer until the way back. */
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

/* What was learned of the layer before is sent by now. */
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

/* What is known of the words so far is copied to where there is room for another one. */
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
