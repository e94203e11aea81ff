/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes JSON. */

#include "base/json-private.h"

/* Appends the digits of a number.  A snapshot has millions of numbers, and g_string_append_printf
 * () would take ten times as long. */
static void
append_digits (GString *text, guint64 number, guint base)
{
  gchar digits[20];
  guint n = 0;

  do
    digits[n++] = "0123456789abcdef"[number % base];
  while ((number /= base) != 0);
  while (n > 0)
    g_string_append_c (text, digits[--n]);
}

static void
begin_item (TarnJson *json, const gchar *name)
{
  if (json->has_items)
    g_string_append_c (json->text, ',');
  json->has_items = TRUE;
  if (name != NULL)
    {
      g_string_append_c (json->text, '"');
      g_string_append (json->text, name);
      g_string_append (json->text, "\":");
    }
}

void
_tarn_json_open (TarnJson *json, const gchar *name, gchar opening)
{
  begin_item (json, name);
  g_string_append_c (json->text, opening);
  json->has_items = FALSE;
}

void
_tarn_json_close (TarnJson *json, gchar closing)
{
  g_string_append_c (json->text, closing);
  json->has_items = TRUE;
}

void
_tarn_json_break (TarnJson *json)
{
  if (json->has_items)
    g_string_append_c (json->text, ',');
  json->has_items = FALSE;
  g_string_append_c (json->text, '\n');
}

void
_tarn_json_add_number (TarnJson *json, const gchar *name, guint64 number)
{
  begin_item (json, name);
  if (number > G_MAXINT64)
    g_string_append (json->text, "null");
  else
    append_digits (json->text, number, 10);
}

void
_tarn_json_add_boolean (TarnJson *json, const gchar *name, gboolean is_true)
{
  begin_item (json, name);
  g_string_append (json->text, is_true ? "true" : "false");
}

void
_tarn_json_add_text (TarnJson *json, const gchar *name, const gchar *text)
{
  g_autofree gchar *valid = NULL;

  begin_item (json, name);
  if (text == NULL)
    {
      g_string_append (json->text, "null");
      return;
    }
  if (!g_utf8_validate (text, -1, NULL))
    text = valid = g_utf8_make_valid (text, -1);
  g_string_append_c (json->text, '"');
  for (const gchar *c = text; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      g_string_append_printf (json->text, "\\%c", *c);
    else if ((guchar) *c < 0x20)
      g_string_append_printf (json->text, "\\u%04x", (guint) *c);
    else
      g_string_append_c (json->text, *c);
  g_string_append_c (json->text, '"');
}

void
_tarn_json_add_address (TarnJson *json, const gchar *name, guint64 address)
{
  begin_item (json, name);
  if (address == 0)
    {
      g_string_append (json->text, "null");
      return;
    }
  g_string_append (json->text, "\"0x");
  append_digits (json->text, address, 16);
  g_string_append_c (json->text, '"');
}
