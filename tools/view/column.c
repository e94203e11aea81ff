/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Encodes columns. */

#include "column.h"

void
column_init (Column *self, const gchar *name, ColumnCode code)
{
  *self = (Column){ .name = name, .code = code, .bytes = g_byte_array_new () };
}

void
column_clear (Column *self)
{
  g_clear_pointer (&self->bytes, g_byte_array_unref);
}

static guint64
move_sign (guint64 number)
{
  return (number << 1) ^ ((number >> 63) != 0 ? G_MAXUINT64 : 0);
}

static guint64
encode (const Column *self, guint64 number)
{
  switch (self->code)
    {
    case COLUMN_PLAIN:
      return number;
    case COLUMN_RISING:
      g_assert (number >= self->latest);
      return number - self->latest;
    case COLUMN_DIFFERENCES:
      return move_sign (number - self->latest);
    case COLUMN_SIGNED:
      return move_sign (number);
    }
  g_return_val_if_reached (0);
}

void
column_add (Column *self, guint64 number)
{
  guint64 rest = encode (self, number);
  guint8 bytes[10];
  guint n = 0;

  for (; rest >= 0x80; rest >>= 7)
    bytes[n++] = (guint8) (rest | 0x80);
  bytes[n++] = (guint8) rest;
  g_byte_array_append (self->bytes, bytes, n);
  self->latest = number;
  self->max = MAX (self->max, number);
  self->n++;
}

static guint
choose_width (const Column *self)
{
  if (self->code != COLUMN_PLAIN || self->max > G_MAXUINT32)
    return 8;
  return self->max > G_MAXUINT16 ? 4 : self->max > G_MAXUINT8 ? 2 : 1;
}

void
column_describe (const Column *self, GString *json)
{
  g_string_append_printf (
      json, "{\"name\":\"%s\",\"code\":%d,\"n\":%" G_GUINT64_FORMAT ",\"bytes\":%u,\"width\":%u}",
      self->name, (gint) self->code, self->n, self->bytes->len, choose_width (self));
}
