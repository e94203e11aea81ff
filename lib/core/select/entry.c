/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The two syntaxes of selections: PyOpenCL's, and the strict one, which has quotation marks and
 * properties. */

#include "select/entry-private.h"

#include <string.h>

#include <tarn/error.h>

#include "common/shorten-private.h"

typedef struct
{
  const gchar *selection; /* all of it, for messages */
  TarnSelectionSyntax syntax;
} Reader;

static void
name_clear (gpointer name)
{
  g_free (((TarnSelectionName *) name)->text);
}

void
_tarn_selection_entry_clear (TarnSelectionEntry *entry)
{
  g_free (entry->text);
  g_free (entry->platform.text);
  if (entry->devices != NULL)
    g_array_unref (entry->devices);
}

static GArray *
names_new (void)
{
  GArray *names = g_array_new (FALSE, FALSE, sizeof (TarnSelectionName));

  g_array_set_clear_func (names, name_clear);
  return names;
}

/* Sets the error of a text that cannot be read. */
static gboolean
refuse_syntax (const Reader *reader, const gchar *problem, const gchar *text, GError **error)
{
  g_autofree gchar *quoted = _tarn_shorten (text);

  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "%s%s in '%s'",
               reader->syntax == TARN_SELECTION_PYOPENCL ? "invalid syntax of PYOPENCL_TEST: " : "",
               problem, quoted);
  return FALSE;
}

/* The characters that Python's int () skips around a number.  GLib's blanks lack the vertical
 * tab. */
#define BLANKS " \t\n\v\f\r"

/* Removes blanks from both ends of a text.  Vertical tabs are blanks, as in Python. */
gchar *
_tarn_selection_strip (const gchar *text)
{
  const gchar *start = text + strspn (text, BLANKS);
  gsize length = strlen (start);

  while (length > 0 && strchr (BLANKS, start[length - 1]) != NULL)
    length--;
  return g_strndup (start, length);
}

static void
add_name (GArray *names, const gchar *text, gboolean is_quoted)
{
  TarnSelectionName name = { g_strdup (text), is_quoted };

  g_array_append_val (names, name);
}

/* Splits a text as Python's str.split() does: an empty text has one empty part. */
static GStrv
split (const gchar *text, const gchar *separator)
{
  static const gchar *const empty[] = { "", NULL };

  return text[0] != '\0' ? g_strsplit (text, separator, -1) : g_strdupv ((GStrv) empty);
}

/* Reads a selection as PyOpenCL does, where an empty name is a part of every name, and finds the
 * first. */
static gboolean
parse_pyopencl (const Reader *reader, const gchar *text, TarnSelectionEntry *entry, GError **error)
{
  const gchar *separator = strchr (text, ':') != NULL ? ":" : "=";
  g_auto (GStrv) sides = split (text, separator);
  g_auto (GStrv) devices = NULL;

  if (g_strv_length (sides) > 2)
    return refuse_syntax (reader, separator[0] == ':' ? "more than one ':'" : "more than one '='",
                          text, error);
  entry->platform.text = g_strdup (sides[0]);
  if (sides[1] == NULL)
    return TRUE;
  devices = split (sides[1], ",");
  entry->devices = names_new ();
  for (gsize i = 0; devices[i] != NULL; i++)
    add_name (entry->devices, devices[i], FALSE);
  return TRUE;
}

/* Finds the first occurrence of a character outside quotation marks. */
static const gchar *
find_unquoted (const gchar *text, gchar wanted)
{
  gboolean is_quoted = FALSE;

  for (; *text != '\0'; text++)
    if (*text == '"')
      is_quoted = !is_quoted;
    else if (*text == wanted && !is_quoted)
      return text;
  return NULL;
}

/* Splits a text at a character outside quotation marks. */
static GPtrArray *
split_unquoted (const gchar *text, gchar separator)
{
  GPtrArray *parts = g_ptr_array_new_with_free_func (g_free);
  const gchar *end;

  for (; (end = find_unquoted (text, separator)) != NULL; text = end + 1)
    g_ptr_array_add (parts, g_strndup (text, (gsize) (end - text)));
  g_ptr_array_add (parts, g_strdup (text));
  return parts;
}

/* Returns TRUE if a device is named by a property, whose value may have any characters. */
static gboolean
is_property (const gchar *text)
{
  return g_str_has_prefix (text, "uuid=") || g_str_has_prefix (text, "pci=");
}

/* Removes the quotation marks around a name, or around the value of a property.  They must be
 * around all of it. */
static gboolean
parse_name (const Reader *reader, const gchar *text, TarnSelectionName *name, GError **error)
{
  g_autofree gchar *stripped = _tarn_selection_strip (text);
  gchar *start = is_property (stripped) ? strchr (stripped, '=') + 1 : stripped;
  gsize length = strlen (start);
  gboolean is_quoted = start[0] == '"';

  if (is_quoted && length >= 2 && start[length - 1] == '"')
    {
      memmove (start, start + 1, length - 2);
      start[length - 2] = '\0';
    }
  if (start[0] == '\0')
    return refuse_syntax (reader, "there is an empty name", reader->selection, error);
  if (strchr (start, '"') != NULL)
    return refuse_syntax (reader, "misplaced '\"'", reader->selection, error);
  name->is_quoted = is_quoted && start == stripped;
  name->text = g_steal_pointer (&stripped);
  return TRUE;
}

/* Reads the devices of an entry, in the strict syntax. */
static gboolean
parse_strict_devices (const Reader *reader, const gchar *text, TarnSelectionEntry *entry,
                      GError **error)
{
  g_autoptr (GPtrArray) parts = split_unquoted (text, ',');

  entry->devices = names_new ();
  for (guint i = 0; i < parts->len; i++)
    {
      TarnSelectionName name = { NULL, FALSE };

      if (!parse_name (reader, g_ptr_array_index (parts, i), &name, error))
        return FALSE;
      g_array_append_val (entry->devices, name);
      if (find_unquoted (g_ptr_array_index (parts, i), ':') == NULL || is_property (name.text))
        continue;
      return refuse_syntax (reader, "more than one ':'", entry->text, error);
    }
  return TRUE;
}

/* Reads a selection in the strict syntax, in which no entry or name is empty.  A property alone
 * means a device on any platform. */
static gboolean
parse_strict (const Reader *reader, const gchar *text, TarnSelectionEntry *entry, GError **error)
{
  const gchar *separator = find_unquoted (text, ':');
  g_autofree gchar *platform = NULL, *stripped = _tarn_selection_strip (text);

  if (is_property (stripped))
    return parse_name (reader, "*", &entry->platform, error)
           && parse_strict_devices (reader, text, entry, error);
  if (separator == NULL)
    separator = find_unquoted (text, '=');
  platform = separator != NULL ? g_strndup (text, (gsize) (separator - text)) : g_strdup (text);
  return parse_name (reader, platform, &entry->platform, error)
         && (separator == NULL || parse_strict_devices (reader, separator + 1, entry, error));
}

/* Splits a selection into the texts of its entries.  A separator between quotation marks is none.
 * To PyOpenCL a quotation mark is a letter.  Returns NULL with an error if a mark is missing. */
GPtrArray *
_tarn_selection_split (const gchar *selection, TarnSelectionSyntax syntax, GError **error)
{
  Reader reader = { selection, syntax };
  g_autofree GStrv parts = NULL;
  GPtrArray *entries;
  gsize n_marks = 0;

  for (const gchar *c = selection; *c != '\0'; c++)
    n_marks += *c == '"';
  if (syntax == TARN_SELECTION_STRICT && n_marks % 2 != 0)
    {
      refuse_syntax (&reader, "a '\"' is missing", selection, error);
      return NULL;
    }
  if (syntax == TARN_SELECTION_STRICT)
    return split_unquoted (selection, ';');
  parts = split (selection, ";");
  entries = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; parts[i] != NULL; i++)
    g_ptr_array_add (entries, parts[i]);
  return entries;
}

/* Return TRUE if the invariants of TarnSelectionEntry hold. */

static gboolean
name_is_valid (const TarnSelectionName *name, TarnSelectionSyntax syntax)
{
  if (syntax == TARN_SELECTION_PYOPENCL)
    return name->text != NULL && !name->is_quoted;
  return name->text != NULL && name->text[0] != '\0' && strchr (name->text, '"') == NULL;
}

static gboolean G_GNUC_UNUSED
entry_is_valid (const TarnSelectionEntry *entry, TarnSelectionSyntax syntax)
{
  for (guint i = 0; entry->devices != NULL && i < entry->devices->len; i++)
    if (!name_is_valid (&g_array_index (entry->devices, TarnSelectionName, i), syntax))
      return FALSE;
  return name_is_valid (&entry->platform, syntax);
}

/* Reads an entry, which is empty before, from its text. */
gboolean
_tarn_selection_entry_parse (TarnSelectionEntry *entry, const gchar *selection,
                             TarnSelectionSyntax syntax, const gchar *text, GError **error)
{
  Reader reader = { selection, syntax };

  g_assert (entry->text == NULL && entry->platform.text == NULL && entry->devices == NULL);
  entry->text = g_strdup (text);
  if (!(syntax == TARN_SELECTION_STRICT ? parse_strict : parse_pyopencl) (&reader, entry->text,
                                                                          entry, error))
    return FALSE;
  g_assert (entry_is_valid (entry, syntax));
  return TRUE;
}
