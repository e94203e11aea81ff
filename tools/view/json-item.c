/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parses JSON, strictly. */

#include "json-item.h"

#include <string.h>
#include <tarn/error.h>

#include "../read.h"

/* Limit for the levels of nested lists.  json-glib reads nested lists recursively, without a
 * limit. */
#define MAX_DEPTH 32

static gboolean G_GNUC_PRINTF (3, 4)
    refuse_line (guint line, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "line %u: %s", line, text);
  return FALSE;
}

/* Skips a string, whose opening quotation mark is before @c. */
static const gchar *
pass_string (const gchar *c, const gchar *end, guint *line)
{
  for (; c < end && *c != '"'; c++)
    {
      if (*c == '\\' && c + 1 < end)
        c++;
      *line += *c == '\n';
    }
  return MIN (c + 1, end);
}

/* Refuses digits that json-glib would misread. */
static gboolean
check_digits (const gchar *c, const gchar *end, guint line, GError **error)
{
  g_autofree gchar *digits = NULL;
  gsize n = 0;

  while (c + n < end && g_ascii_isalnum (c[n]))
    n++;
  digits = g_strndup (c, n);
  if (n > 1 && c[0] == '0')
    return refuse_line (line, error, "%s is not a number of JSON", digits);
  if (strspn (digits, "0123456789") == n
      && !g_ascii_string_to_unsigned (digits, 10, 0, G_MAXINT64, NULL, NULL))
    return refuse_line (line, error, "%s has more than 63 bits", digits);
  return TRUE;
}

/* Checks the syntax.  Also refuses text that json-glib reads although it is not JSON, such as
 * comments.  A quotation mark in a comment would be taken for the beginning of a string. */
static gboolean
check_form (const gchar *text, gsize length, GError **error)
{
  const gchar *end = text + length;
  gchar before = ' ';
  guint line = 1;
  gint depth = 0;

  for (const gchar *c = text; c < end; before = c[-1])
    {
      if (*c == '[' || *c == '{')
        depth++;
      else if (*c == ']' || *c == '}')
        depth--;
      else if (*c == '\n')
        line++;
      else if (*c != '"' && !g_ascii_isalnum (*c)
               && (*c == '\0' || strchr (" \t\r:,.", *c) == NULL))
        return refuse_line (line, error,
                            g_ascii_isprint (*c) ? "'%c' has no place outside of a text"
                                                 : "byte 0x%02x has no place outside of a text",
                            (guchar) *c);
      if (depth > MAX_DEPTH)
        return refuse_line (line, error, "more than %d lists in one another", MAX_DEPTH);
      if (g_ascii_isdigit (*c) && !g_ascii_isalnum (before) && !check_digits (c, end, line, error))
        return FALSE;
      c = *c == '"' ? pass_string (c + 1, end, &line) : c + 1;
    }
  return TRUE;
}

JsonNode *
json_item_parse (const gchar *text, gsize length, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonNode *root;

  if (length > READ_MAX_TEXT)
    {
      refuse_line (1, error, "more than %" G_GSIZE_FORMAT " MiB of text", READ_MAX_TEXT >> 20);
      return NULL;
    }
  if (!check_form (text, length, error)
      || !json_parser_load_from_data (parser, text, (gssize) length, error))
    return NULL;
  root = json_parser_get_root (parser);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return json_node_ref (root);
  refuse_line (1, error, "this is no object");
  return NULL;
}

/* Functions that report errors */

static void
append_place (const JsonItem *item, GString *text)
{
  if (item->outer == NULL)
    return;
  append_place (item->outer, text);
  g_string_append_printf (text, "%s%s[%u]", text->len > 0 ? "." : "", item->list, item->i);
}

gboolean
json_item_refuse (const JsonItem *self, GError **error, const gchar *format, ...)
{
  GString *text = g_string_new (NULL);
  va_list args;

  append_place (self, text);
  if (text->len > 0)
    g_string_append (text, ": ");
  va_start (args, format);
  g_string_append_vprintf (text, format, args);
  va_end (args);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, text->str);
  g_string_free (text, TRUE);
  return FALSE;
}

/* Functions that get members of objects */

/* Gets a member.  Returns NULL if it is missing or null. */
static JsonNode *
get_node (const JsonItem *self, const gchar *key)
{
  JsonNode *node = json_object_get_member (self->object, key);

  return node == NULL || JSON_NODE_HOLDS_NULL (node) ? NULL : node;
}

static gboolean
is_of_type (JsonNode *node, GType type)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type;
}

gboolean
json_item_get_number_if_there (const JsonItem *self, const gchar *key, guint64 *number,
                               GError **error)
{
  JsonNode *node = get_node (self, key);

  if (node == NULL)
    return TRUE;
  if (!is_of_type (node, G_TYPE_INT64))
    return json_item_refuse (self, error, "%s is no whole number", key);
  *number = (guint64) json_node_get_int (node); /* at most 63 bits: see check_digits () */
  return TRUE;
}

gboolean
json_item_get_number (const JsonItem *self, const gchar *key, guint64 *number, GError **error)
{
  if (get_node (self, key) == NULL)
    return json_item_refuse (self, error, "there is no number %s", key);
  return json_item_get_number_if_there (self, key, number, error);
}

gboolean
json_item_get_truth (const JsonItem *self, const gchar *key, gboolean *is_true, GError **error)
{
  JsonNode *node = get_node (self, key);

  if (!is_of_type (node, G_TYPE_BOOLEAN))
    return json_item_refuse (self, error, "%s is neither true nor false", key);
  *is_true = json_node_get_boolean (node);
  return TRUE;
}

gboolean
json_item_get_text (const JsonItem *self, const gchar *key, const gchar **text, GError **error)
{
  JsonNode *node = get_node (self, key);

  if (node != NULL && !is_of_type (node, G_TYPE_STRING))
    return json_item_refuse (self, error, "%s is no text", key);
  *text = node != NULL ? json_node_get_string (node) : NULL;
  return TRUE;
}

gboolean
json_item_get_address (const JsonItem *self, const gchar *key, guint64 *address, GError **error)
{
  const gchar *text;

  if (!json_item_get_text (self, key, &text, error))
    return FALSE;
  *address = 0;
  if (text == NULL
      || (g_str_has_prefix (text, "0x")
          && g_ascii_string_to_unsigned (text + 2, 16, 0, G_MAXUINT64, address, NULL)))
    return TRUE;
  return json_item_refuse (self, error, "%s '%s' is no address: 0x and hexadecimal digits", key,
                           text);
}

gboolean
json_item_get_object (const JsonItem *self, const gchar *key, JsonObject **object, GError **error)
{
  JsonNode *node = get_node (self, key);

  if (node != NULL && !JSON_NODE_HOLDS_OBJECT (node))
    return json_item_refuse (self, error, "%s is no object", key);
  *object = node != NULL ? json_node_get_object (node) : NULL;
  return TRUE;
}

gboolean
json_item_for_each (const JsonItem *self, const gchar *key, JsonItemFunc func, gpointer user_data,
                    GError **error)
{
  JsonNode *node = get_node (self, key);
  JsonArray *array;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return json_item_refuse (self, error, "%s is no list", key);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonItem item = { .outer = self, .list = key, .i = i };

      if (!JSON_NODE_HOLDS_OBJECT (element))
        return json_item_refuse (&item, error, "this is no object");
      item.object = json_node_get_object (element);
      if (!func (&item, user_data, error))
        return FALSE;
    }
  return TRUE;
}
