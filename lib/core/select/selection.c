/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A choice of devices, such as PYOPENCL_TEST=0:0,1;intel:i5.  Each syntax splits the text into
 * entries of names; what a name finds among platforms or devices is the same for both.  Pure: no
 * driver, nothing shared. */

#include <string.h>
#include <tarn/selection.h>

typedef struct
{
  gchar *text;
  gboolean is_quoted; /* then it has no meaning but its letters */
} Name;

typedef struct
{
  gchar *text; /* all of it, for messages */
  Name platform;
  GArray *devices; /* of Name; NULL: all */
} Entry;

/* A platform or device that a name may find: its number is its place in the array of choices. */
typedef struct
{
  guint index; /* in the caller's array */
  const gchar *name, *vendor, *uuid, *pci;
} Choice;

typedef struct
{
  const gchar *selection; /* all of it, for messages */
  TarnSelectionSyntax syntax;
  const TarnSelectionPlatform *platforms;
  gsize n_platforms;
  GArray *items; /* of TarnSelectionItem: the result */
} Resolver;

static void
name_clear (gpointer name)
{
  g_free (((Name *) name)->text);
}

static void
entry_clear (Entry *entry)
{
  g_free (entry->text);
  g_free (entry->platform.text);
  if (entry->devices != NULL)
    g_array_unref (entry->devices);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Entry, entry_clear)

static GArray *
names_new (void)
{
  GArray *names = g_array_new (FALSE, FALSE, sizeof (Name));

  g_array_set_clear_func (names, name_clear);
  return names;
}

/* Errors.  Those of the PyOpenCL syntax begin with PyOpenCL's own words. */

static void G_GNUC_PRINTF (4, 5) set_error (const Resolver *resolver, GError **error,
                                            const gchar *upstream, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  if (resolver->syntax == TARN_SELECTION_PYOPENCL && upstream != NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "%s: %s", upstream, text);
  else
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, text);
}

/* "there are 0 'Portable Computing Language', 1 'rusticl'" */
static gchar *
describe (const GArray *choices)
{
  g_autoptr (GString) text = g_string_new (choices->len > 0 ? "there are" : "there are none");

  for (guint i = 0; i < choices->len; i++)
    g_string_append_printf (text, "%s %u '%s'", i > 0 ? "," : "", i,
                            g_array_index (choices, Choice, i).name);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* What a name means */

/* A whole decimal number, with a sign and blanks around it if it likes.  Numbers beyond any place
 * are as good as G_MAXINT. */
static gboolean
parse_number (const gchar *text, gint *number)
{
  g_autofree gchar *stripped = g_strstrip (g_strdup (text));
  gboolean is_negative = stripped[0] == '-';
  const gchar *digits = stripped + (is_negative || stripped[0] == '+');
  gint64 value = 0;

  if (digits[0] == '\0' || digits[strspn (digits, "0123456789")] != '\0')
    return FALSE;
  for (; *digits != '\0'; digits++)
    value = MIN (value * 10 + (*digits - '0'), G_MAXINT);
  *number = (gint) (is_negative ? -value : value);
  return TRUE;
}

static gchar *
fold_case (const gchar *text)
{
  return g_utf8_validate (text, -1, NULL) ? g_utf8_strdown (text, -1) : g_ascii_strdown (text, -1);
}

static gboolean
text_matches (const Choice *choice, const gchar *text)
{
  g_autofree gchar *both = g_strconcat (choice->name, " ", choice->vendor, NULL);
  g_autofree gchar *folded = fold_case (both);
  g_autofree gchar *wanted = fold_case (text);

  return strstr (folded, wanted) != NULL;
}

/* Before a UUID nvidia-smi writes what it is of. */
static const gchar *
skip_prefix (const gchar *uuid)
{
  if (g_ascii_strncasecmp (uuid, "GPU-", 4) == 0 || g_ascii_strncasecmp (uuid, "MIG-", 4) == 0)
    return uuid + 4;
  return uuid;
}

static gboolean
uuid_matches (const gchar *uuid, const gchar *wanted)
{
  return g_ascii_strcasecmp (skip_prefix (uuid), skip_prefix (wanted)) == 0;
}

/* "0000:65:00.0"; domain and function may be left out, as 0. */
static gboolean
parse_pci (const gchar *text, guint64 *address)
{
  g_autoptr (GRegex) regex
      = g_regex_new ("^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\\.([0-7]))?$",
                     G_REGEX_CASELESS | G_REGEX_RAW | G_REGEX_DOLLAR_ENDONLY, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;

  if (!g_regex_match (regex, text, 0, &match))
    return FALSE;
  *address = 0;
  for (gint part = 1; part <= 4; part++)
    {
      g_autofree gchar *digits = g_match_info_fetch (match, part);

      *address = *address << 8 | (digits != NULL ? g_ascii_strtoull (digits, NULL, 16) : 0);
    }
  return TRUE;
}

static gboolean
pci_matches (const gchar *pci, const gchar *wanted)
{
  guint64 left, right;

  return parse_pci (pci, &left) && parse_pci (wanted, &right) && left == right;
}

static gboolean
choice_matches (const Resolver *resolver, const Choice *choice, const Name *name)
{
  if (resolver->syntax == TARN_SELECTION_STRICT && !name->is_quoted)
    {
      if (g_str_has_prefix (name->text, "uuid="))
        return choice->uuid != NULL && uuid_matches (choice->uuid, name->text + strlen ("uuid="));
      if (g_str_has_prefix (name->text, "pci="))
        return choice->pci != NULL && pci_matches (choice->pci, name->text + strlen ("pci="));
    }
  return text_matches (choice, name->text);
}

static gboolean
is_star (const Resolver *resolver, const Name *name)
{
  return resolver->syntax == TARN_SELECTION_STRICT && !name->is_quoted
         && strcmp (name->text, "*") == 0;
}

/* Appends the places of what a name finds among the choices: one, the first; all of them if @every,
 * and for a star.  FALSE with an error if there is none. */
static gboolean
find (const Resolver *resolver, const gchar *noun, const gchar *where, const Name *name,
      const GArray *choices, gboolean every, GArray *found, GError **error)
{
  g_autofree gchar *upstream = g_strdup_printf ("object '%s' not found", name->text);
  g_autofree gchar *there_are = NULL;
  guint n_before = found->len;
  gint number;

  if (!name->is_quoted && parse_number (name->text, &number))
    {
      gint64 place = number < 0 ? (gint64) choices->len + number : number;

      if (place >= 0 && place < choices->len)
        {
          guint at = (guint) place;

          g_array_append_val (found, at);
          return TRUE;
        }
      there_are = describe (choices);
      set_error (resolver, error, "index out of range", "there is no %s %s%s; %s", noun, name->text,
                 where, there_are);
      return FALSE;
    }
  for (guint i = 0; i < choices->len && (every || found->len == n_before); i++)
    if (is_star (resolver, name)
        || choice_matches (resolver, &g_array_index (choices, Choice, i), name))
      {
        g_array_append_val (found, i);
        every |= is_star (resolver, name);
      }
  if (found->len > n_before)
    return TRUE;
  there_are = describe (choices);
  set_error (resolver, error, upstream, "no %s%s matches '%s'; %s", noun, where, name->text,
             there_are);
  return FALSE;
}

/* Platforms and devices as choices */

static gboolean
is_cuda (const gchar *kind)
{
  return g_strcmp0 (kind, "cuda") == 0;
}

static const gchar *
or_empty (const gchar *text)
{
  return text != NULL ? text : "";
}

/* Platforms of one kind, or of both. */
static GArray *
platform_choices (const Resolver *resolver, gboolean with_opencl, gboolean with_cuda)
{
  GArray *choices = g_array_new (FALSE, TRUE, sizeof (Choice));

  for (guint i = 0; i < resolver->n_platforms; i++)
    {
      const TarnSelectionPlatform *platform = &resolver->platforms[i];
      Choice choice = { i, or_empty (platform->name), or_empty (platform->vendor), NULL, NULL };

      if (is_cuda (platform->kind) ? with_cuda : with_opencl)
        g_array_append_val (choices, choice);
    }
  return choices;
}

static GArray *
device_choices (const TarnSelectionPlatform *platform)
{
  GArray *choices = g_array_new (FALSE, TRUE, sizeof (Choice));

  for (guint i = 0; i < platform->n_devices; i++)
    {
      const TarnSelectionDevice *device = &platform->devices[i];
      Choice choice
          = { i, or_empty (device->name), or_empty (device->vendor), device->uuid, device->pci };

      g_array_append_val (choices, choice);
    }
  return choices;
}

static void
add_devices (Resolver *resolver, guint platform, const GArray *devices)
{
  for (guint i = 0; i < devices->len; i++)
    {
      TarnSelectionItem item = { platform, g_array_index (devices, guint, i) };

      g_array_append_val (resolver->items, item);
    }
}

static void
add_all_devices (Resolver *resolver, guint platform)
{
  for (guint i = 0; i < resolver->platforms[platform].n_devices; i++)
    {
      TarnSelectionItem item = { platform, i };

      g_array_append_val (resolver->items, item);
    }
}

/* One platform's devices that the names find. */
static gboolean
resolve_devices (Resolver *resolver, guint platform, const GArray *names, GError **error)
{
  g_autoptr (GArray) choices = device_choices (&resolver->platforms[platform]);
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree gchar *where
      = g_strdup_printf (" of '%s'", or_empty (resolver->platforms[platform].name));

  for (guint i = 0; i < names->len; i++)
    if (!find (resolver, "device", where, &g_array_index (names, Name, i), choices, FALSE, found,
               error))
      return FALSE;
  add_devices (resolver, platform, found);
  return TRUE;
}

/* What each name finds on any platform; it need not be on all of them. */
static gboolean
resolve_on_every_platform (Resolver *resolver, const Entry *entry, const GArray *platforms,
                           GError **error)
{
  for (guint i = 0; i < entry->devices->len; i++)
    {
      const Name *name = &g_array_index (entry->devices, Name, i);
      g_autoptr (GArray) all = g_array_new (FALSE, TRUE, sizeof (Choice));
      guint n_before = resolver->items->len;
      g_autofree gchar *there_are = NULL;

      for (guint j = 0; j < platforms->len; j++)
        {
          guint platform = g_array_index (platforms, Choice, j).index;
          g_autoptr (GArray) choices = device_choices (&resolver->platforms[platform]);
          g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (guint));

          if (find (resolver, "device", "", name, choices, TRUE, found, NULL))
            add_devices (resolver, platform, found);
          if (choices->len > 0)
            g_array_append_vals (all, choices->data, choices->len);
        }
      if (resolver->items->len > n_before)
        continue;
      there_are = describe (all);
      set_error (resolver, error, NULL, "no device of any platform matches '%s'; %s", name->text,
                 there_are);
      return FALSE;
    }
  return TRUE;
}

static gboolean
names_cuda (const Resolver *resolver, const Name *name)
{
  return resolver->syntax == TARN_SELECTION_STRICT && !name->is_quoted
         && g_ascii_strcasecmp (name->text, "cuda") == 0;
}

static gboolean
resolve_entry (Resolver *resolver, const Entry *entry, GError **error)
{
  gboolean star = is_star (resolver, &entry->platform);
  gboolean cuda = names_cuda (resolver, &entry->platform);
  g_autoptr (GArray) choices = platform_choices (resolver, star || !cuda, star || cuda);
  g_autoptr (GArray) found = g_array_new (FALSE, TRUE, sizeof (guint));

  /* What names platforms of a kind that this caller has nothing to do with is for another one. */
  if (choices->len == 0 && resolver->syntax == TARN_SELECTION_STRICT
      && (cuda || resolver->n_platforms > 0))
    return TRUE;
  if (star && entry->devices != NULL)
    return resolve_on_every_platform (resolver, entry, choices, error);
  if (cuda)
    g_array_set_size (found, 1); /* number 0, the first of its kind, whatever it is called */
  else if (star && choices->len == 0)
    return TRUE; /* everything, which is nothing */
  else if (!find (resolver, "platform", "", &entry->platform, choices, FALSE, found, error))
    return FALSE;

  for (guint i = 0; i < found->len; i++)
    {
      guint platform = g_array_index (choices, Choice, g_array_index (found, guint, i)).index;

      if (entry->devices == NULL)
        add_all_devices (resolver, platform);
      else if (!resolve_devices (resolver, platform, entry->devices, error))
        return FALSE;
    }
  return TRUE;
}

/* The syntaxes */

static void
add_name (GArray *names, const gchar *text, gboolean is_quoted)
{
  Name name = { g_strdup (text), is_quoted };

  g_array_append_val (names, name);
}

/* As Python's str.split(): an empty text is one empty part. */
static GStrv
split (const gchar *text, const gchar *separator)
{
  static const gchar *const empty[] = { "", NULL };

  return text[0] != '\0' ? g_strsplit (text, separator, -1) : g_strdupv ((GStrv) empty);
}

/* PyOpenCL's, where an empty name is a part of every name, and finds the first. */
static gboolean
parse_pyopencl (const Resolver *resolver, const gchar *text, Entry *entry, GError **error)
{
  const gchar *separator = strchr (text, ':') != NULL ? ":" : "=";
  g_auto (GStrv) sides = split (text, separator);
  g_auto (GStrv) devices = NULL;

  if (g_strv_length (sides) > 2)
    {
      set_error (resolver, error, "invalid syntax of PYOPENCL_TEST", "'%s' has more than one '%s'",
                 text, separator);
      return FALSE;
    }
  entry->platform.text = g_strdup (sides[0]);
  if (sides[1] == NULL)
    return TRUE;
  devices = split (sides[1], ",");
  entry->devices = names_new ();
  for (gsize i = 0; devices[i] != NULL; i++)
    add_name (entry->devices, devices[i], FALSE);
  return TRUE;
}

/* The first of a character that is not between quotation marks. */
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

/* Whether a device is named by a property, whose value may have any characters. */
static gboolean
is_property (const gchar *text)
{
  return g_str_has_prefix (text, "uuid=") || g_str_has_prefix (text, "pci=");
}

/* Marks stand around a whole name, or around the value of a property. */
static gboolean
parse_name (const Resolver *resolver, const gchar *text, Name *name, GError **error)
{
  g_autofree gchar *stripped = g_strstrip (g_strdup (text));
  gchar *start = is_property (stripped) ? strchr (stripped, '=') + 1 : stripped;
  gsize length = strlen (start);
  gboolean is_quoted = start[0] == '"';

  if (is_quoted && length >= 2 && start[length - 1] == '"')
    {
      memmove (start, start + 1, length - 2);
      start[length - 2] = '\0';
    }
  if (start[0] == '\0')
    set_error (resolver, error, NULL, "there is an empty name in '%s'", resolver->selection);
  else if (strchr (start, '"') != NULL)
    set_error (resolver, error, NULL, "misplaced '\"' in '%s'", resolver->selection);
  else
    {
      name->is_quoted = is_quoted && start == stripped;
      name->text = g_steal_pointer (&stripped);
      return TRUE;
    }
  return FALSE;
}

static gboolean
parse_strict_devices (const Resolver *resolver, const gchar *text, Entry *entry, GError **error)
{
  g_autoptr (GPtrArray) parts = split_unquoted (text, ',');

  entry->devices = names_new ();
  for (guint i = 0; i < parts->len; i++)
    {
      Name name = { NULL, FALSE };

      if (!parse_name (resolver, g_ptr_array_index (parts, i), &name, error))
        return FALSE;
      g_array_append_val (entry->devices, name);
      if (find_unquoted (g_ptr_array_index (parts, i), ':') == NULL || is_property (name.text))
        continue;
      set_error (resolver, error, NULL, "'%s' has more than one ':'", entry->text);
      return FALSE;
    }
  return TRUE;
}

static gboolean
parse_strict (const Resolver *resolver, const gchar *text, Entry *entry, GError **error)
{
  const gchar *separator = find_unquoted (text, ':');
  g_autofree gchar *platform = NULL;

  if (separator == NULL)
    separator = find_unquoted (text, '=');
  platform = separator != NULL ? g_strndup (text, (gsize) (separator - text)) : g_strdup (text);
  return parse_name (resolver, platform, &entry->platform, error)
         && (separator == NULL || parse_strict_devices (resolver, separator + 1, entry, error));
}

static gboolean
resolve_text (Resolver *resolver, GError **error)
{
  const gchar *selection = resolver->selection;
  gboolean is_strict = resolver->syntax == TARN_SELECTION_STRICT;
  g_autoptr (GPtrArray) entries = NULL;
  gsize n_marks = 0;

  for (const gchar *c = selection; *c != '\0'; c++)
    n_marks += *c == '"';
  if (is_strict && n_marks % 2 != 0)
    {
      set_error (resolver, error, NULL, "a '\"' is missing in '%s'", selection);
      return FALSE;
    }
  /* What is between marks is no separator; to PyOpenCL a mark is a letter. */
  if (is_strict)
    entries = split_unquoted (selection, ';');
  else
    {
      GStrv parts = split (selection, ";");

      entries = g_ptr_array_new_with_free_func (g_free);
      for (gsize i = 0; parts[i] != NULL; i++)
        g_ptr_array_add (entries, parts[i]);
      g_free (parts);
    }
  for (guint i = 0; i < entries->len; i++)
    {
      g_auto (Entry) entry = { g_strdup (g_ptr_array_index (entries, i)), { NULL, FALSE }, NULL };

      if (!(is_strict ? parse_strict : parse_pyopencl) (resolver, entry.text, &entry, error)
          || !resolve_entry (resolver, &entry, error))
        return FALSE;
    }
  return TRUE;
}

/**
 * Chooses devices by a text. It has entries with `;` between them, each a platform, `:`, and
 * devices with `,` between them; a platform alone means all its devices, and no text everything. A
 * name that is a whole number is a place, -1 being the last; else the first whose "name vendor"
 * contains it, without regard to case. In an entry without `:`, `=` stands for it. Order and
 * duplicates are kept.
 *
 * TARN_SELECTION_PYOPENCL is what PyOpenCL makes of PYOPENCL_TEST, traps included: an empty name is
 * contained in every name, so it chooses the first, also after a `;` at the end. Platforms of kind
 * "cuda" are not chosen.
 *
 * In TARN_SELECTION_STRICT an empty name is an error; `P:*` and `*:D` choose every match; `"..."`
 * stands around a name with special characters; `uuid=...` and `pci=...` are devices; and `cuda` is
 * the platform of that kind, and no part of another's name. Entries for a kind that is not among
 * the platforms are passed over, so that each library can be given the same text.
 *
 * @param selection    the text; nullable
 * @param syntax       how to read it
 * @param platforms    what there is to choose from; not kept
 * @param n_platforms  how many
 * @param error        return location, or NULL: TARN_ERROR_INVALID_SELECTION, saying what there was
 *                     to choose from
 * @return (transfer full): an array of TarnSelectionItem, which may be empty, for g_array_unref(),
 * or NULL with @p error set. Any thread may call it.
 * @since 0.1
 */
GArray *
tarn_selection_resolve (const gchar *selection, TarnSelectionSyntax syntax,
                        const TarnSelectionPlatform *platforms, gsize n_platforms, GError **error)
{
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (TarnSelectionItem));
  Resolver resolver = { selection, syntax, platforms, n_platforms, items };

  g_return_val_if_fail (platforms != NULL || n_platforms == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (selection != NULL && selection[0] != '\0')
    return resolve_text (&resolver, error) ? g_steal_pointer (&items) : NULL;
  for (guint i = 0; i < n_platforms; i++)
    if (syntax == TARN_SELECTION_STRICT || !is_cuda (platforms[i].kind))
      add_all_devices (&resolver, i);
  return g_steal_pointer (&items);
}
