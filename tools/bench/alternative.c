/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parses alternatives: changes to the pools and heaps of a recorded program. */

#include "alternative.h"

#include <string.h>
#include <tarn/tarn.h>

#include "common/limit-private.h"

#define DEFAULT_LIST                                                                               \
  "heap,no-heap,leading-bits=2,leading-bits=6,limit=80%,hold=0,growth=64M,thread-cache=0,direct"
#define MAX_LEADING_BITS 26
#define MAX_CACHE_BLOCKS 65535

static Alternative *
alternative_new (const gchar *label)
{
  Alternative *self = g_new0 (Alternative, 1);

  self->label = g_strdup (label);
  self->leading_bits = self->cache_blocks = -1;
  return self;
}

Alternative *
alternative_new_as_recorded (gboolean has_heaps)
{
  Alternative *self = alternative_new (NULL);

  self->has_heaps = has_heaps;
  return self;
}

Alternative *
alternative_copy_with_heaps (const Alternative *self)
{
  Alternative *copy = g_new (Alternative, 1);

  *copy = *self;
  copy->label = g_strdup (self->label);
  copy->has_heaps = !self->has_no_heaps;
  return copy;
}

void
alternative_free (Alternative *self)
{
  g_free (self->label);
  g_free (self);
}

/* Functions that parse values, and return FALSE if the text is wrong */

static gboolean
parse_number (const gchar *text, gint most, gint *number)
{
  guint64 parsed;

  if (!g_ascii_string_to_unsigned (text, 10, 0, (guint64) most, &parsed, NULL))
    return FALSE;
  *number = (gint) parsed;
  return TRUE;
}

static gboolean
parse_leading_bits (Alternative *self, const gchar *value)
{
  return parse_number (value, MAX_LEADING_BITS, &self->leading_bits);
}

static gboolean
parse_cache (Alternative *self, const gchar *value)
{
  return parse_number (value, MAX_CACHE_BLOCKS, &self->cache_blocks);
}

static gboolean
parse_limit (Alternative *self, const gchar *value)
{
  return _tarn_parse_bytes (value, &self->limit_bytes)
         || _tarn_parse_share (value, &self->limit_share);
}

static gboolean
parse_hold (Alternative *self, const gchar *value)
{
  if (g_str_equal (value, "0"))
    self->holds_nothing = TRUE;
  else if (g_str_equal (value, "all"))
    self->hold_bytes = G_MAXSIZE;
  else
    return _tarn_parse_bytes (value, &self->hold_bytes);
  return TRUE;
}

static gboolean
parse_growth (Alternative *self, const gchar *value)
{
  return _tarn_parse_bytes (value, &self->growth_bytes);
}

/* The changes that the user writes with a value, such as hold=0. */
static const struct
{
  const gchar *name;
  gboolean (*parse) (Alternative *self, const gchar *value);
  const gchar *expected;
} valued[] = {
  { "leading-bits", parse_leading_bits, "a number from 0 to 26" },
  { "limit", parse_limit, "bytes, such as 8G, or a share, such as 80%" },
  { "hold", parse_hold, "bytes, such as 64M, 0 or all" },
  { "growth", parse_growth, "bytes, such as 64M" },
  { "thread-cache", parse_cache, "a number of blocks from 0 to 65535" },
};

static gboolean
refuse (const gchar *list, GError **error, const gchar *text)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--what-if '%s': %s", list, text);
  return FALSE;
}

static gboolean
parse_valued (Alternative *self, const gchar *list, const gchar *change, const gchar *value,
              GError **error)
{
  g_autofree gchar *name = g_strndup (change, (gsize) (value - change));
  g_autofree gchar *text = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (valued); i++)
    if (g_str_equal (name, valued[i].name))
      {
        if (valued[i].parse (self, value + 1))
          return TRUE;
        text = g_strdup_printf ("'%s' is not %s", value + 1, valued[i].expected);
        return refuse (list, error, text);
      }
  text = g_strdup_printf ("there is no '%s='", name);
  return refuse (list, error, text);
}

static gboolean
parse_change (Alternative *self, const gchar *list, const gchar *change, GError **error)
{
  const gchar *value = strchr (change, '=');
  g_autofree gchar *text = NULL;

  if (value != NULL)
    return parse_valued (self, list, change, value, error);
  if (g_str_equal (change, "heap"))
    self->has_heaps = TRUE;
  else if (g_str_equal (change, "no-heap"))
    self->has_no_heaps = TRUE;
  else if (g_str_equal (change, "direct"))
    self->has_no_heaps = self->has_no_pools = TRUE;
  else
    {
      text = g_strdup_printf ("there is no '%s'; there are heap, no-heap, leading-bits=N, "
                              "limit=BYTES or %%, hold=BYTES, growth=BYTES, thread-cache=N, direct "
                              "and all",
                              change);
      return refuse (list, error, text);
    }
  return TRUE;
}

static Alternative *
parse_alternative (const gchar *list, const gchar *word, GError **error)
{
  g_autoptr (Alternative) self = alternative_new (word);
  g_auto (GStrv) changes = g_strsplit (word, "+", -1);

  if (changes[0] == NULL)
    {
      refuse (list, error, "there is an empty alternative");
      return NULL;
    }
  for (gsize i = 0; changes[i] != NULL; i++)
    if (!parse_change (self, list, changes[i], error))
      return NULL;
  if (self->has_heaps && self->has_no_heaps)
    {
      g_autofree gchar *text = g_strdup_printf ("'%s' has heaps, and has none", word);

      refuse (list, error, text);
      return NULL;
    }
  g_assert (!self->has_no_pools || self->has_no_heaps);
  return g_steal_pointer (&self);
}

GPtrArray *
alternatives_parse (const gchar *list, GError **error)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func ((GDestroyNotify) alternative_free);
  gboolean is_usual = list == NULL || g_str_equal (list, "all");
  g_auto (GStrv) words = g_strsplit (is_usual ? DEFAULT_LIST : list, ",", -1);

  if (words[0] == NULL)
    {
      refuse (list, error, "it is empty");
      return NULL;
    }
  for (gsize i = 0; words[i] != NULL; i++)
    {
      Alternative *alternative = parse_alternative (list, g_strstrip (words[i]), error);

      if (alternative == NULL)
        return NULL;
      g_ptr_array_add (all, alternative);
    }
  return g_steal_pointer (&all);
}

gboolean
alternative_has_limit (const Alternative *self)
{
  return self->limit_bytes > 0 || self->limit_share > 0;
}

static gboolean
is_over_heap (const Recorded *recorded, const RecordedObject *pool)
{
  const RecordedObject *upstream
      = pool->upstream != RECORDED_NONE ? recorded->objects->pdata[pool->upstream] : NULL;

  return upstream != NULL && upstream->object_class == TARN_TRACE_HEAP;
}

/* Returns FALSE if the recording has no object that the alternative changes.  An alternative that
 * adds heaps, or that sets leading bits without removing heaps, changes pools that are not over a
 * heap.  An alternative that sets the growth of heaps, or that removes heaps but not pools, changes
 * heaps. */
gboolean
alternative_applies (const Alternative *self, const Recorded *recorded)
{
  gboolean has_heap = FALSE, has_none = FALSE;

  for (guint i = 0; i < recorded->objects->len; i++)
    {
      const RecordedObject *object = recorded->objects->pdata[i];

      has_heap |= object->object_class == TARN_TRACE_HEAP;
      has_none |= object->object_class == TARN_TRACE_POOL && !is_over_heap (recorded, object);
    }
  has_heap |= self->has_heaps;
  if (self->has_heaps || (self->leading_bits >= 0 && !self->has_no_heaps))
    return has_none;
  if ((self->has_no_heaps && !self->has_no_pools) || self->growth_bytes > 0)
    return has_heap;
  return TRUE;
}
