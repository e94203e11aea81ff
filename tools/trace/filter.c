/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parses the options that select events, and applies them. */

#include "filter.h"

#include <errno.h>
#include <string.h>

#include "decode.h"
#include "names.h"

static gboolean G_GNUC_PRINTF (2, 3) refuse (GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, text);
  return FALSE;
}

static gboolean
read_number (const gchar *text, guint64 *number)
{
  gboolean is_hex = g_ascii_strncasecmp (text, "0x", 2) == 0;

  return g_ascii_string_to_unsigned (is_hex ? text + 2 : text, is_hex ? 16 : 10, 0, G_MAXUINT64,
                                     number, NULL);
}

static gboolean
read_option (const gchar *option, const gchar *text, guint64 *number, gboolean *has, GError **error)
{
  *has = text != NULL;
  return text == NULL || read_number (text, number)
         || refuse (error, "%s: '%s' is not a number, such as 12 or 0xc", option, text);
}

/* Reads seconds since the start.  Leaves @number unchanged if the option was not given. */
static gboolean
read_time (const gchar *option, const gchar *text, guint64 *number, GError **error)
{
  gchar *end;
  gdouble seconds;

  if (text == NULL)
    return TRUE;
  errno = 0;
  seconds = g_ascii_strtod (text, &end);
  if (end == text || *end != '\0' || errno != 0 || !(seconds >= 0 && seconds < 1e10))
    return refuse (error, "%s: '%s' is not a number of seconds, such as 1.5", option, text);
  *number = (guint64) (seconds * 1e9 + 0.5);
  return TRUE;
}

static gchar *
list_kinds (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 1; i < TARN_TRACE_N_KINDS; i++)
    if (decode_is_returned ((TarnTraceKind) i))
      g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "",
                              name_kind ((TarnTraceKind) i));
  return g_string_free (names, FALSE);
}

static gboolean
read_kinds (Filter *self, const gchar *text, GError **error)
{
  g_auto (GStrv) names = text != NULL ? g_strsplit (text, ",", -1) : NULL;
  g_autofree gchar *all = list_kinds ();

  self->has_kinds = text != NULL;
  if (text != NULL && names[0] == NULL)
    return refuse (error, "--kind: '' is none of these: %s", all);
  for (gsize i = 0; text != NULL && names[i] != NULL; i++)
    {
      TarnTraceKind kind;

      if (!name_find_kind (names[i], &kind))
        return refuse (error, "--kind: '%s' is none of these: %s", names[i], all);
      self->kinds[kind] = TRUE;
    }
  return TRUE;
}

gboolean
filter_init (Filter *self, const FilterTexts *texts, GError **error)
{
  *self = (Filter){ .object = g_strdup (texts->object),
                    .tag = g_strdup (texts->tag),
                    .to = G_MAXUINT64 };
  return read_option ("--thread", texts->thread, &self->thread, &self->has_thread, error)
         && read_option ("--queue", texts->queue, &self->queue, &self->has_queue, error)
         && read_kinds (self, texts->kinds, error)
         && read_time ("--from", texts->from, &self->from, error)
         && read_time ("--to", texts->to, &self->to, error)
         && (self->from <= self->to
             || refuse (error, "--from %s is after --to %s", texts->from, texts->to));
}

void
filter_clear (Filter *self)
{
  g_free (self->object);
  g_free (self->tag);
}

gboolean
filter_is_empty (const Filter *self)
{
  return self->object == NULL && self->tag == NULL && !self->has_thread && !self->has_queue
         && !self->has_kinds && self->from == 0 && self->to == G_MAXUINT64;
}

gboolean
filter_check_objects (const Filter *self, const Objects *objects, GError **error)
{
  const GPtrArray *all = objects_get_all (objects);

  if (self->object == NULL)
    return TRUE;
  for (guint i = 0; i < all->len; i++)
    if (filter_has_object (self, all->pdata[i]))
      return TRUE;
  return refuse (error, "--object: there is no '%s' in the recording", self->object);
}

gboolean
filter_has_object (const Filter *self, const Object *object)
{
  guint64 number;

  if (self->object == NULL)
    return TRUE;
  if (object == NULL)
    return FALSE;
  return g_strcmp0 (self->object, object->name) == 0
         || (read_number (self->object, &number) && number == object->number);
}

gboolean
filter_has_time (const Filter *self, guint64 time)
{
  return time >= self->from && time <= self->to;
}

static gboolean
has_request (const Filter *self, const Recording *recording, guint64 thread, guint64 queue,
             guint64 tag)
{
  return (!self->has_thread || self->thread == thread) && (!self->has_queue || self->queue == queue)
         && (self->tag == NULL
             || g_strcmp0 (self->tag, recording_get_string (recording, tag)) == 0);
}

gboolean
filter_has_event (const Filter *self, const Objects *objects, const Recording *recording,
                  const RecordedEvent *event)
{
  return filter_has_time (self, event->time) && (!self->has_kinds || self->kinds[event->kind])
         && (self->object == NULL
             || filter_has_object (self, objects_find (objects, event->object)))
         && has_request (self, recording, event->thread, event->queue, event->tag);
}

gboolean
filter_has_block (const Filter *self, const Recording *recording, const Object *object,
                  const Block *block)
{
  return (self->object != NULL ? filter_has_object (self, object)
                               : objects_serves_program (object) && !block->is_nested)
         && has_request (self, recording, block->thread, block->queue, block->tag);
}
