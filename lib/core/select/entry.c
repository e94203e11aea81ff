/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the entries of selections.  A selection is a text that chooses devices, such as
 * 0:0,1;intel:i5.  There are two syntaxes: that of PyOpenCL's variable PYOPENCL_TEST, and the
 * strict syntax, which also has quotation marks and properties (uuid=VALUE, pci=VALUE). */

#include "select/entry-private.h"

#include <string.h>

#include <tarn/error.h>

#include "common/shorten-private.h"

typedef struct
{
  const gchar *selection; /* the whole text of the selection, for error messages */
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

/* Sets an error about the syntax of a selection.  @problem: what is wrong, such as "there is an
 * empty name".  @text: the part of the selection that has this problem. */
static gboolean
refuse_syntax (const Reader *reader, const gchar *problem, const gchar *text, GError **error)
{
  g_autofree gchar *quoted = _tarn_shorten (text);

  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "%s%s in '%s'",
               reader->syntax == TARN_SELECTION_PYOPENCL ? "invalid syntax of PYOPENCL_TEST: " : "",
               problem, quoted);
  return FALSE;
}

/* The characters that may stand before and after a number, the same as for Python's int ().  These
 * include the vertical tab, which g_strstrip () would not remove. */
#define BLANKS " \t\n\v\f\r"

/* Returns a copy of a text without the BLANKS at both ends. */
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

/* Splits a text at each separator, as Python's str.split (separator) does: an empty text gives one
 * empty part. */
static GStrv
split (const gchar *text, const gchar *separator)
{
  static const gchar *const empty[] = { "", NULL };

  return text[0] != '\0' ? g_strsplit (text, separator, -1) : g_strdupv ((GStrv) empty);
}

/* Reads an entry of a selection in PyOpenCL's syntax.  The name in the entry may be empty.  An
 * empty name matches the first platform or device, because the name of each platform or device
 * contains the empty text. */
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

/* Finds the first occurrence of a character outside quotation marks.  Returns NULL if there is
 * none. */
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

/* Splits a text at each separator that is not between quotation marks. */
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

/* Returns TRUE if a name in a selection is a property: uuid=VALUE or pci=VALUE. */
static gboolean
is_property (const gchar *text)
{
  return g_str_has_prefix (text, "uuid=") || g_str_has_prefix (text, "pci=");
}

/* Reads the name of a platform or device in the strict syntax.  Removes quotation marks around the
 * whole name, or around the VALUE of a property (uuid=VALUE, pci=VALUE).  Fails if the name is
 * empty, or has quotation marks elsewhere. */
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

/* Reads the names of an entry's devices, in the strict syntax. */
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

/* Reads an entry of a selection in the strict syntax.  Fails if the entry or one of its names is
 * empty.  If the entry begins with a property (uuid=VALUE, pci=VALUE), it has no name of a
 * platform, and chooses devices on all platforms. */
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

/* Splits a selection at its semicolons.  Returns the texts of the entries.  In PyOpenCL's syntax,
 * quotation marks have no special meaning.  In the strict syntax, a semicolon between quotation
 * marks belongs to a name.  If the number of quotation marks is odd in this syntax, returns NULL
 * with an error. */
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

/* name_is_valid () and entry_is_valid () return TRUE if the invariants of a name or an entry hold.
 * entry-private.h lists these invariants. */

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

/* Reads an entry of @selection from @text.  The caller has initialised @entry with
 * TARN_SELECTION_ENTRY_INIT. */
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
