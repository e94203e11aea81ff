/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fills memory with a byte, and finds bytes that differ from an expected byte.  These functions
 * call the backend.  They serve the checks that TARN_DEBUG turns on (debug-private.h). */

#include "debug/debug-private.h"

#include <string.h>

#define CHUNK ((gsize) 1 << 20)

/* The smallest range, in bytes, that the device searches for a changed byte.  For a smaller range,
 * the host is faster: it reads the bytes and compares them. */
#define LEAST_FOUND ((gsize) 16 << 10)

gboolean
_tarn_contents_fill (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                     guint8 byte, GError **error)
{
  return size == 0 || _tarn_call (self->direct, fill, memory, offset, size, byte, error);
}

void
_tarn_contents_compare_chunk (const guint8 *bytes, gsize offset, gsize size, guint8 byte,
                              gboolean *is_changed, TarnContentsChange *change)
{
  if (bytes[0] == byte && memcmp (bytes, bytes + 1, size - 1) == 0)
    return;
  for (gsize i = 0; i < size; i++)
    {
      if (bytes[i] == byte)
        continue;
      if (!*is_changed)
        *change = (TarnContentsChange){ offset + i, 0, bytes[i] };
      *is_changed = TRUE;
      change->last = offset + i;
    }
}

/* Lets the device search a range of memory for the first byte that differs from @byte.  Cuts off
 * the bytes before this byte: increases *offset and reduces *size.  *size becomes 0 if no byte
 * differs. Leaves the range as it is if the backend cannot search, or if the range is small.
 * Returns FALSE with an error if the backend fails. */
static gboolean
skip_unchanged (const TarnGuarded *self, TarnMemory memory, gsize *offset, gsize *size, guint8 byte,
                GError **error)
{
  gsize first;

  if (self->direct->ops.find_other == NULL || *size < LEAST_FOUND)
    return TRUE;
  if (!_tarn_call (self->direct, find_other, memory, *offset, *size, byte, &first, error))
    return FALSE;
  *size -= first - *offset;
  *offset = first;
  return TRUE;
}

gboolean
_tarn_contents_compare (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                        guint8 byte, gboolean *is_changed, TarnContentsChange *change,
                        GError **error)
{
  g_autofree guint8 *bytes = NULL;

  *is_changed = FALSE;
  if (!skip_unchanged (self, memory, &offset, &size, byte, error))
    return FALSE;
  bytes = size > 0 ? g_malloc (MIN (size, CHUNK)) : NULL;
  for (gsize n; size > 0; offset += n, size -= n)
    {
      n = MIN (size, CHUNK);
      if (!_tarn_call (self->direct, read, memory, offset, n, bytes, error))
        return FALSE;
      _tarn_contents_compare_chunk (bytes, offset, n, byte, is_changed, change);
    }
  return TRUE;
}
