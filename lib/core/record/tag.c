/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tags: texts by which threads name their requests.  Each different text gets a number, which is
 * called the tag and stays valid until the process ends. */

#include <tarn/trace.h>

#include "base/fork-private.h"
#include "common/shorten-private.h"
#include "record/stream-private.h"

static TarnMutex lock = TARN_MUTEX_INIT;
static GHashTable *numbers; /* maps a tag's text to the tag's number */
static GPtrArray *texts;    /* the texts of all tags; the first is the text of tag 1 */
static guint n_recorded;    /* the number of tags that are in the recording's file */

/* Returns the number of a text, and stores the text if it is new. */
static guint32
intern (const gchar *text)
{
  gpointer number;

  _tarn_mutex_lock (&lock);
  if (numbers == NULL)
    {
      numbers = g_hash_table_new (g_str_hash, g_str_equal);
      texts = g_ptr_array_new ();
    }
  number = g_hash_table_lookup (numbers, text);
  if (number == NULL)
    {
      gchar *copy = g_strdup (text);

      g_ptr_array_add (texts, copy);
      number = GUINT_TO_POINTER (texts->len);
      g_hash_table_insert (numbers, copy, number);
    }
  _tarn_mutex_unlock (&lock);
  return GPOINTER_TO_UINT (number);
}

guint32
_tarn_tag_get_current (void)
{
  const GArray *tags = _tarn_current_thread->tags;

  return tags != NULL && tags->len > 0 ? g_array_index (tags, guint32, tags->len - 1) : 0;
}

/* Gets the text of a tag.  Returns NULL if there is none. */
const gchar *
_tarn_tag_get_text (guint32 tag)
{
  const gchar *text = NULL;

  _tarn_mutex_lock (&lock);
  if (tag > 0 && texts != NULL && tag <= texts->len)
    text = g_ptr_array_index (texts, tag - 1);
  _tarn_mutex_unlock (&lock);
  return text;
}

/* Returns the text of a tag in quotes, for messages, or NULL if @tag is 0.  The caller frees the
 * text. */
gchar *
_tarn_tag_quote (guint32 tag)
{
  const gchar *text = _tarn_tag_get_text (tag);

  return text != NULL ? _tarn_shorten (text) : NULL;
}

/* Adds to @bytes the events for the tags that are not in the recording's file yet.  If the file is
 * new, @all is TRUE, and the function adds all tags. */
void
_tarn_tags_add_new (GByteArray *bytes, gboolean all)
{
  _tarn_mutex_lock (&lock);
  if (all)
    n_recorded = 0;
  for (; texts != NULL && n_recorded < texts->len; n_recorded++)
    {
      guchar start[2] = { TARN_TRACE_STRING, 0 };

      g_byte_array_append (bytes, start, sizeof start);
      _tarn_bytes_add_number (bytes, n_recorded + 1);
      _tarn_bytes_add_text (bytes, g_ptr_array_index (texts, n_recorded));
    }
  _tarn_mutex_unlock (&lock);
}

void
tarn_tag_push (const gchar *tag)
{
  TarnThread *thread;
  guint32 number;

  g_return_if_fail (tag != NULL);

  if (_tarn_forked ())
    return;
  thread = _tarn_thread_self ();
  if (thread == NULL) /* the thread is ending */
    return;
  number = intern (tag);
  if (thread->tags == NULL)
    thread->tags = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (thread->tags, number);
}

void
tarn_tag_pop (void)
{
  const TarnThread *thread = _tarn_current_thread;

  if (_tarn_forked () || thread == &_tarn_ended_thread)
    return;
  g_return_if_fail (thread->tags != NULL && thread->tags->len > 0);
  g_array_set_size (thread->tags, thread->tags->len - 1);
}
