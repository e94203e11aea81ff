/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions for the predefined types of a memo's keys: strings, numbers, bytes, and tuples of
 * several values. */

#include "memo/tuple-private.h"

#include <string.h>

/* Hashes two 64-bit words.  Every bit of each word affects the upper half of the result. */
static guint64
mix (guint64 a, guint64 b)
{
  guint64 x = (a ^ b) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return x ^ (x >> 32);
}

static guint64
read_word (const guint8 *data)
{
  guint64 word;

  memcpy (&word, data, sizeof word);
  return word;
}

/* Adds bytes to a hash, one 64-bit word at a time. */
static guint64
mix_words (guint64 hash, const guint8 *data, gsize size)
{
  guint64 word = 0;

  if (size < sizeof word)
    {
      for (gsize i = 0; i < size; i++)
        word = word << 8 | data[i];
      return mix (hash, word);
    }
  for (gsize i = 0; i < size - sizeof word; i += sizeof word)
    hash = mix (hash, read_word (data + i));
  /* Mix in the last 8 bytes.  They overlap the word before, unless the size is a multiple of 8. */
  return mix (hash, read_word (data + size - sizeof word));
}

/* The number of lanes.  A lane is a hash that does not depend on the other lanes, so the processor
 * runs the multiplications of all lanes in parallel. */
#define N_LANES 4
#define STRIPE_SIZE (N_LANES * sizeof (guint64))

/* Returns a 64-bit hash of bytes.  The hash's upper half is better mixed than its lower half.
 * Hashes long data in several lanes: hashes that the processor computes in parallel. */
static guint64
hash_data (gconstpointer data, gsize size)
{
  const guint8 *bytes = data;
  guint64 hash = mix (size, 0), lanes[N_LANES] = { 1, 2, 3, 4 };

  if (size >= 4 * STRIPE_SIZE)
    {
      for (; size >= STRIPE_SIZE; bytes += STRIPE_SIZE, size -= STRIPE_SIZE)
        for (guint i = 0; i < N_LANES; i++)
          lanes[i] = mix (lanes[i], read_word (bytes + i * sizeof (guint64)));
      for (guint i = 0; i < N_LANES; i++)
        hash = mix (hash, lanes[i]);
    }
  return mix_words (hash, bytes, size);
}

/* The hash of a GBytes of more than WHOLE_SIZE bytes covers only END_SIZE bytes at each end, and
 * N_SAMPLES - 1 words in between.  A program may look up an image (a compiled kernel) of a megabyte
 * before every launch, and to hash all of it would be slow.  If two hashes are equal, a lookup
 * compares the data (_tarn_bytes_equal ()).  That is fast if two GBytes share their data, because
 * the lookup then does not read the data. */
#define WHOLE_SIZE 4096
#define END_SIZE 512
#define N_SAMPLES 64

/* Returns a hash of the two ends of long data, and of samples between them. */
static guint64
hash_samples (gconstpointer data, gsize size)
{
  const guint8 *bytes = data;
  gsize step = (size - sizeof (guint64)) / N_SAMPLES;
  guint64 hash = mix (hash_data (bytes, END_SIZE), hash_data (bytes + size - END_SIZE, END_SIZE));

  for (gsize i = 1; i < N_SAMPLES; i++)
    hash = mix (hash, read_word (bytes + i * step));
  return mix (hash, size);
}

guint
_tarn_hash_string (gconstpointer string)
{
  return (guint) (hash_data (string, strlen (string)) >> 32);
}

guint
_tarn_hash_bytes (gconstpointer bytes)
{
  gsize size;
  gconstpointer data = g_bytes_get_data ((GBytes *) bytes, &size);
  guint64 hash = size <= WHOLE_SIZE ? hash_data (data, size) : hash_samples (data, size);

  return (guint) (hash >> 32);
}

/* Returns TRUE if two GBytes have equal contents.  Does not read contents that have the same
 * address. */
gboolean
_tarn_bytes_equal (gconstpointer a, gconstpointer b)
{
  gsize size_a, size_b;
  gconstpointer data_a = g_bytes_get_data ((GBytes *) a, &size_a);
  gconstpointer data_b = g_bytes_get_data ((GBytes *) b, &size_b);

  return size_a == size_b && (data_a == data_b || memcmp (data_a, data_b, size_a) == 0);
}

gpointer
_tarn_copy_string (gconstpointer string)
{
  return g_strdup (string);
}

gpointer
_tarn_copy_int64 (gconstpointer integer)
{
  gint64 *copy = g_new (gint64, 1);

  *copy = *(const gint64 *) integer;
  return copy;
}

gpointer
_tarn_copy_bytes (gconstpointer bytes)
{
  return g_bytes_ref ((GBytes *) bytes);
}

void
_tarn_free_bytes (gpointer bytes)
{
  g_bytes_unref (bytes);
}

/* Returns a hash of one value of a tuple. */
static guint64
hash_part (const TarnMemoKeyPart *part)
{
  switch (part->type)
    {
    case TARN_MEMO_KEY_PART_INTEGER:
      return (guint64) part->value.integer;
    case TARN_MEMO_KEY_PART_STRING:
      return part->value.string != NULL
                 ? hash_data (part->value.string, strlen (part->value.string))
                 : 0;
    case TARN_MEMO_KEY_PART_BYTES:
      return part->value.bytes != NULL ? _tarn_hash_bytes (part->value.bytes) : 0;
    case TARN_MEMO_KEY_PART_POINTER:
      return (guintptr) part->value.pointer;
    default:
      g_critical ("a part of a tuple is of type %d, which there is not", (gint) part->type);
      return 0;
    }
}

/* Returns TRUE if two values of two tuples are equal.  Values of different types are not equal. */
static gboolean
parts_equal (const TarnMemoKeyPart *a, const TarnMemoKeyPart *b)
{
  if (a->type != b->type)
    return FALSE;
  switch (a->type)
    {
    case TARN_MEMO_KEY_PART_INTEGER:
      return a->value.integer == b->value.integer;
    case TARN_MEMO_KEY_PART_STRING:
      return g_strcmp0 (a->value.string, b->value.string) == 0;
    case TARN_MEMO_KEY_PART_BYTES:
      return a->value.bytes == b->value.bytes
             || (a->value.bytes != NULL && b->value.bytes != NULL
                 && _tarn_bytes_equal (a->value.bytes, b->value.bytes));
    case TARN_MEMO_KEY_PART_POINTER:
    default:
      return a->value.pointer == b->value.pointer;
    }
}

guint
tarn_memo_key_tuple_hash (gconstpointer tuple)
{
  const TarnMemoKeyTuple *self = tuple;
  guint64 hash;

  g_return_val_if_fail (self != NULL && (self->parts != NULL || self->n_parts == 0), 0);

  hash = self->n_parts;
  for (gsize i = 0; i < self->n_parts; i++)
    hash = mix (hash, mix (self->parts[i].type, hash_part (&self->parts[i])));
  return (guint) (hash >> 32);
}

gboolean
_tarn_tuple_is_valid (const TarnMemoKeyTuple *tuple)
{
  if (tuple->parts == NULL && tuple->n_parts > 0)
    return FALSE;
  for (gsize i = 0; i < tuple->n_parts; i++)
    if ((guint) tuple->parts[i].type > TARN_MEMO_KEY_PART_POINTER)
      return FALSE;
  return TRUE;
}

gboolean
tarn_memo_key_tuple_equal (gconstpointer a, gconstpointer b)
{
  const TarnMemoKeyTuple *left = a, *right = b;

  g_return_val_if_fail (left != NULL && right != NULL, FALSE);

  if (left->n_parts != right->n_parts)
    return FALSE;
  for (gsize i = 0; i < left->n_parts; i++)
    if (!parts_equal (&left->parts[i], &right->parts[i]))
      return FALSE;
  return TRUE;
}

gpointer
tarn_memo_key_tuple_copy (gconstpointer tuple)
{
  const TarnMemoKeyTuple *self = tuple;
  TarnMemoKeyTuple *copy;
  TarnMemoKeyPart *parts;

  g_return_val_if_fail (self != NULL, NULL);

  parts = g_new (TarnMemoKeyPart, self->n_parts);
  for (gsize i = 0; i < self->n_parts; i++)
    {
      parts[i] = self->parts[i];
      if (parts[i].type == TARN_MEMO_KEY_PART_STRING)
        parts[i].value.string = g_strdup (parts[i].value.string);
      else if (parts[i].type == TARN_MEMO_KEY_PART_BYTES && parts[i].value.bytes != NULL)
        g_bytes_ref (parts[i].value.bytes);
    }
  copy = g_new (TarnMemoKeyTuple, 1);
  *copy = (TarnMemoKeyTuple){ parts, self->n_parts };
  return copy;
}

void
tarn_memo_key_tuple_free (gpointer tuple)
{
  TarnMemoKeyTuple *self = tuple;

  if (self == NULL)
    return;
  for (gsize i = 0; i < self->n_parts; i++)
    if (self->parts[i].type == TARN_MEMO_KEY_PART_STRING)
      g_free ((gchar *) self->parts[i].value.string);
    else if (self->parts[i].type == TARN_MEMO_KEY_PART_BYTES)
      g_bytes_unref (self->parts[i].value.bytes);
  g_free ((TarnMemoKeyPart *) self->parts);
  g_free (self);
}
