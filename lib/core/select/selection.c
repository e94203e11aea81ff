/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Resolves selections.  A selection is a text that chooses devices, such as 0:0,1;intel:i5.  The
 * entry 0:0,1 chooses devices 0 and 1 of platform 0.  The entry intel:i5 chooses the first device
 * with "i5" in its name, on the first platform with "intel" in its name. entry.c reads the entries,
 * in one of two syntaxes.  This file finds the platforms and devices that the names in the entries
 * match, in the same way for both syntaxes.  It calls no driver. */

#include "select/selection-private.h"

#include <string.h>

#include "common/shorten-private.h"
#include "select/entry-private.h"

/* A choice: a platform or device that a name in a selection may match.  A name that is a number
 * matches the choice with this index in an array of choices. */
typedef struct
{
  /* The index of the platform and the index of the device, in the caller's arrays.  If the choice
   * is a platform, the index of the device is 0. */
  TarnSelectionItem item;
  const gchar *name, *vendor, *uuid, *pci;
} Choice;

typedef struct
{
  const gchar *selection; /* the whole text of the selection */
  TarnSelectionSyntax syntax;
  const TarnSelectionPlatform *platforms;
  gsize n_platforms;
  GArray *items; /* the result: an array of TarnSelectionItem */
} Resolver;

/* The error messages for selections.  If the program chose PyOpenCL's syntax for selections, the
 * messages begin with the words of PyOpenCL's own messages. */

#define MAX_LISTED 10 /* the largest number of platforms or devices that a message lists */

/* Lists platforms or devices for an error message, such as "platforms: 0 = 'Portable Computing
 * Language', 1 = 'rusticl'".  @has_places: TRUE if the list shows their indices.  It is FALSE for a
 * list of devices of several platforms, because an index in a selection counts the devices of one
 * platform. */
static gchar *
describe (const gchar *title, const GArray *choices, gboolean has_places)
{
  g_autoptr (GString) text = g_string_new (title);

  g_string_append (text, choices->len > 0 ? ":" : ": none");
  for (guint i = 0; i < MIN (choices->len, MAX_LISTED); i++)
    {
      g_autofree gchar *name = _tarn_shorten (g_array_index (choices, Choice, i).name);

      g_string_append (text, i > 0 ? ", " : " ");
      if (has_places)
        g_string_append_printf (text, "%u = ", i);
      g_string_append_printf (text, "'%s'", name);
    }
  if (choices->len > MAX_LISTED)
    g_string_append_printf (text, " and %u more", choices->len - MAX_LISTED);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Functions that find the platforms or devices that a name in a selection matches */

/* Reads a decimal number, which may have a sign, and blanks before and after it.  Limits its
 * magnitude to G_MAXINT.  Returns FALSE if the text is not a number. */
static gboolean
parse_number (const gchar *text, gint *number)
{
  g_autofree gchar *stripped = _tarn_selection_strip (text);
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

/* Returns a copy of a text in lower case, the same as Python's str.lower () in every locale.  The
 * result of g_utf8_strdown () depends on the locale: in a Turkish locale, the "I" of NVIDIA becomes
 * a letter without a dot. */
static gchar *
fold_case (const gchar *text)
{
  GString *folded;

  if (!g_utf8_validate (text, -1, NULL))
    return g_ascii_strdown (text, -1);
  folded = g_string_new (NULL);
  for (; *text != '\0'; text = g_utf8_next_char (text))
    {
      gunichar c = g_utf8_get_char (text);

      g_string_append_unichar (folded, g_unichar_tolower (c));
      if (c == 0x130) /* only U+0130 becomes two characters: "i" and a combining dot */
        g_string_append_unichar (folded, 0x307);
    }
  return g_string_free (folded, FALSE);
}

/* Returns TRUE if @text is a substring of "NAME VENDOR", the name and the vendor of a platform or
 * device.  Ignores the case of letters. */
static gboolean
text_matches (const Choice *choice, const gchar *text)
{
  g_autofree gchar *both = g_strconcat (choice->name, " ", choice->vendor, NULL);
  g_autofree gchar *folded = fold_case (both);
  g_autofree gchar *wanted = fold_case (text);

  return strstr (folded, wanted) != NULL;
}

/* Skips the prefix GPU- or MIG-, which nvidia-smi writes before a UUID. */
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

/* Returns TRUE if a UUID begins with @beginning.  Ignores the case of letters, and the prefixes
 * GPU- and MIG-.  Returns FALSE if @beginning is empty. */
static gboolean
uuid_begins (const gchar *uuid, const gchar *beginning)
{
  const gchar *digits = skip_prefix (beginning);

  return digits[0] != '\0'
         && g_ascii_strncasecmp (skip_prefix (uuid), digits, strlen (digits)) == 0;
}

/* Reads a PCI address, such as 0000:65:00.0.  If the domain (0000:) or the function (.0) is
 * missing, it counts as 0. */
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

/* Returns TRUE if a name in a selection matches a platform or device.  In the strict syntax, a name
 * uuid=VALUE matches by the UUID, and pci=VALUE by the PCI address.  Any other name matches if it
 * is a substring of "NAME VENDOR", the name and the vendor of the platform or device.  find_choices
 * () handles numbers and "*". */
static gboolean
choice_matches (const Resolver *resolver, const Choice *choice, const TarnSelectionName *name)
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
is_star (const Resolver *resolver, const TarnSelectionName *name)
{
  return resolver->syntax == TARN_SELECTION_STRICT && !name->is_quoted
         && strcmp (name->text, "*") == 0;
}

/* Appends to @found the index of the choice (a platform or device) that a selection names by
 * @number.  A negative number counts from the end: -1 is the last choice.  Returns FALSE if there
 * is no such choice. */
static gboolean
find_place (const GArray *choices, gint number, GArray *found)
{
  gint64 place = number < 0 ? (gint64) choices->len + number : number;
  guint at = (guint) place;

  if (place < 0 || place >= choices->len)
    return FALSE;
  g_array_append_val (found, at);
  return TRUE;
}

/* Appends to @found the index of the first choice (a platform or device) that a name matches.
 * Appends the indices of all matching choices if @every is TRUE or the name is "*".  Returns FALSE
 * if the name matches no choice. */
static gboolean
find_choices (const Resolver *resolver, const TarnSelectionName *name, const GArray *choices,
              gboolean every, GArray *found)
{
  gboolean star = is_star (resolver, name);
  guint n_before = found->len;
  gint number;

  if (!name->is_quoted && parse_number (name->text, &number))
    return find_place (choices, number, found);
  for (guint i = 0; i < choices->len && (every || star || found->len == n_before); i++)
    if (star || choice_matches (resolver, &g_array_index (choices, Choice, i), name))
      g_array_append_val (found, i);
  return found->len > n_before;
}

/* Sets the error for a name that matches no platform or device.  @noun: "platform" or "device".
 * @list: a text that lists the platforms or devices to choose from. */
static gboolean
refuse_name (const Resolver *resolver, const gchar *noun, const TarnSelectionName *name,
             const gchar *list, GError **error)
{
  gboolean is_upstream = resolver->syntax == TARN_SELECTION_PYOPENCL;
  g_autofree gchar *text = _tarn_shorten (name->text);
  gint number;

  if (!name->is_quoted && parse_number (name->text, &number))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "%s %s %s; %s",
                 is_upstream ? "index out of range:" : "there is no", noun, text, list);
  else if (is_upstream)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "object '%s' not found; %s", text,
                 list);
  else
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "no %s matches '%s'; %s", noun,
                 text, list);
  return FALSE;
}

/* Functions that make arrays of the platforms or devices that a name in a selection may match.
 * A name stands for an OpenCL platform if it is the index of this platform among OpenCL platforms,
 * or a part of the platform's name.  A name stands for other platforms if it is their kind, such as
 * "cuda".  All platforms of a kind count as one platform. */

/* Returns TRUE if a name in a selection is that of a kind of platform, such as "cuda".  The kind
 * must be in the list of kinds (selection-kinds.c), or the kind of one of the caller's platforms.
 * Returns FALSE for "opencl", because a selection names an OpenCL platform by its index or its
 * name.  Returns FALSE also for a name in quotation marks, and in PyOpenCL's syntax, which has no
 * kinds. */
static gboolean
names_kind (const Resolver *resolver, const TarnSelectionName *name)
{
  if (resolver->syntax != TARN_SELECTION_STRICT || name->is_quoted)
    return FALSE;
  for (gsize i = 0; i < resolver->n_platforms; i++)
    if (!_tarn_selection_is_opencl (&resolver->platforms[i])
        && _tarn_selection_is_of_kind (&resolver->platforms[i], name->text))
      return TRUE;
  return _tarn_selection_is_kind (name->text);
}

/* Returns the kind of platforms that a name seems to misspell, or NULL if there is none.  Call this
 * only if none of the platforms is an OpenCL platform.  Otherwise the name may be a part of an
 * OpenCL platform's name, rather than a misspelt kind. */
static const gchar *
find_misspelt (const Resolver *resolver, const TarnSelectionName *name)
{
  gint number;

  if (name->is_quoted || parse_number (name->text, &number))
    return NULL;
  for (gsize i = 0; i < resolver->n_platforms; i++)
    if (_tarn_selection_is_almost (resolver->platforms[i].kind, name->text))
      return resolver->platforms[i].kind;
  return _tarn_selection_find_almost (name->text);
}

/* Skips an entry of a selection, because the caller has no platform that the entry may name.  @name
 * is the name of the entry's platform.  If @is_kind is TRUE, the name is a kind, such as "cuda",
 * and the entry is for another backend.  If @is_kind is FALSE, the name may be that of an OpenCL
 * platform, but the caller has no OpenCL platforms to compare.  In this case, fails if the name
 * seems to be a misspelt kind. */
static gboolean
pass_over (const Resolver *resolver, const TarnSelectionName *name, gboolean is_kind,
           GError **error)
{
  const gchar *kind = is_kind ? NULL : find_misspelt (resolver, name);
  g_autofree gchar *text = NULL;

  if (kind == NULL)
    return TRUE;
  text = _tarn_shorten (name->text);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION,
               "no platform matches '%s'; did you mean '%s'?", text, kind);
  return FALSE;
}

static const gchar *
or_empty (const gchar *text)
{
  return text != NULL ? text : "";
}

/* Returns the platforms of a kind, or all platforms if @kind is NULL, as an array of Choice. */
static GArray *
platform_choices (const Resolver *resolver, const gchar *kind)
{
  GArray *choices = g_array_new (FALSE, TRUE, sizeof (Choice));

  for (guint i = 0; i < resolver->n_platforms; i++)
    {
      const TarnSelectionPlatform *platform = &resolver->platforms[i];
      Choice choice
          = { { i, 0 }, or_empty (platform->name), or_empty (platform->vendor), NULL, NULL };

      if (kind == NULL || _tarn_selection_is_of_kind (platform, kind))
        g_array_append_val (choices, choice);
    }
  return choices;
}

/* Appends the devices of a platform to @choices, an array of Choice. */
static void
append_devices (const Resolver *resolver, guint platform, GArray *choices)
{
  for (guint i = 0; i < resolver->platforms[platform].n_devices; i++)
    {
      const TarnSelectionDevice *device = &resolver->platforms[platform].devices[i];
      Choice choice = { { platform, i },
                        or_empty (device->name),
                        or_empty (device->vendor),
                        device->uuid,
                        device->pci };

      g_array_append_val (choices, choice);
    }
}

/* Returns the devices of all @platforms as an array of Choice, in the order of the platforms. */
static GArray *
device_choices (const Resolver *resolver, const GArray *platforms)
{
  GArray *choices = g_array_new (FALSE, TRUE, sizeof (Choice));

  for (guint i = 0; i < platforms->len; i++)
    append_devices (resolver, g_array_index (platforms, Choice, i).item.platform, choices);
  return choices;
}

/* Adds to the result the platforms or devices whose indices in @choices are listed in @found. */
static void
add_found (Resolver *resolver, const GArray *choices, const GArray *found)
{
  for (guint i = 0; i < found->len; i++)
    g_array_append_val (resolver->items,
                        g_array_index (choices, Choice, g_array_index (found, guint, i)).item);
}

/* For each name, adds to the result the first device of @platforms that the name matches (all
 * devices if the name is "*").  Fails if a name matches no device.  If @names is NULL, adds all
 * devices of @platforms. */
static gboolean
resolve_devices (Resolver *resolver, const GArray *platforms, const GArray *names, GError **error)
{
  g_autoptr (GArray) choices = device_choices (resolver, platforms);
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (guint));

  for (guint i = 0; names == NULL && i < choices->len; i++)
    g_array_append_val (found, i);
  for (guint i = 0; names != NULL && i < names->len; i++)
    if (!find_choices (resolver, &g_array_index (names, TarnSelectionName, i), choices, FALSE,
                       found))
      {
        g_autofree gchar *owner = _tarn_shorten (g_array_index (platforms, Choice, 0).name);
        g_autofree gchar *title = g_strdup_printf ("devices of '%s'", owner);
        g_autofree gchar *list = describe (title, choices, TRUE);

        return refuse_name (resolver, "device", &g_array_index (names, TarnSelectionName, i), list,
                            error);
      }
  add_found (resolver, choices, found);
  return TRUE;
}

/* For each name, adds to the result all devices of @platforms that the name matches.  A number
 * matches the device with this index on each platform.  Fails if a name matches no device. */
static gboolean
resolve_on_every_platform (Resolver *resolver, const GArray *platforms, const GArray *names,
                           GError **error)
{
  g_autoptr (GArray) all = device_choices (resolver, platforms);
  g_autofree gchar *list = describe ("devices of all platforms", all, FALSE);

  for (guint i = 0; i < names->len; i++)
    {
      const TarnSelectionName *name = &g_array_index (names, TarnSelectionName, i);
      guint n_before = resolver->items->len;

      for (guint j = 0; j < platforms->len; j++)
        {
          g_autoptr (GArray) choices = g_array_new (FALSE, TRUE, sizeof (Choice));
          g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (guint));

          append_devices (resolver, g_array_index (platforms, Choice, j).item.platform, choices);
          find_choices (resolver, name, choices, TRUE, found);
          add_found (resolver, choices, found);
        }
      if (resolver->items->len == n_before)
        return refuse_name (resolver, "device", name, list, error);
    }
  return TRUE;
}

/* Finds the first OpenCL platform in the array @choices that a name matches.  Removes all other
 * platforms from @choices.  Fails if the name matches no platform. */
static gboolean
resolve_platform (const Resolver *resolver, const TarnSelectionName *name, GArray *choices,
                  GError **error)
{
  g_autoptr (GArray) found = g_array_new (FALSE, TRUE, sizeof (guint));
  Choice choice;

  if (!find_choices (resolver, name, choices, FALSE, found))
    {
      g_autofree gchar *list = describe ("platforms", choices, TRUE);

      return refuse_name (resolver, "platform", name, list, error);
    }
  choice = g_array_index (choices, Choice, g_array_index (found, guint, 0));
  g_array_set_size (choices, 0);
  g_array_append_val (choices, choice);
  return TRUE;
}

/* Sets the error for a name uuid=BEGINNING that is ambiguous, because both @one and @other, the
 * UUIDs of two devices, begin with @beginning. */
static gboolean
refuse_beginning (const gchar *beginning, const gchar *one, const gchar *other, GError **error)
{
  g_autofree gchar *text = _tarn_shorten (beginning);
  g_autofree gchar *first = _tarn_shorten (one), *second = _tarn_shorten (other);

  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION,
               "'%s' is the beginning of more than one device's UUID: '%s', '%s'", text, first,
               second);
  return FALSE;
}

/* Finds the UUID that a name uuid=BEGINNING stands for.  If a UUID is equal to @beginning, sets
 * *uuid to this UUID.  If no UUID is equal, sets *uuid to the UUID that begins with @beginning, or
 * to NULL if there is none.  Fails if several different UUIDs begin with @beginning.  The same UUID
 * may be in @choices several times, because several platforms may have the same device. */
static gboolean
find_uuid (const GArray *choices, const gchar *beginning, const gchar **uuid, GError **error)
{
  *uuid = NULL;
  for (guint i = 0; i < choices->len; i++)
    {
      const gchar *candidate = g_array_index (choices, Choice, i).uuid;

      if (candidate != NULL && uuid_matches (candidate, beginning))
        {
          *uuid = candidate;
          return TRUE;
        }
    }
  for (guint i = 0; i < choices->len; i++)
    {
      const gchar *candidate = g_array_index (choices, Choice, i).uuid;

      if (candidate == NULL || !uuid_begins (candidate, beginning))
        continue;
      if (*uuid != NULL && !uuid_matches (*uuid, candidate))
        return refuse_beginning (beginning, *uuid, candidate, error);
      *uuid = candidate;
    }
  return TRUE;
}

/* Completes names that are uuid=BEGINNING: replaces the beginning of a UUID by the whole UUID. */
static gboolean
complete_uuids (const Resolver *resolver, const GArray *platforms, GArray *names, GError **error)
{
  g_autoptr (GArray) choices = device_choices (resolver, platforms);

  for (guint i = 0; i < names->len; i++)
    {
      TarnSelectionName *name = &g_array_index (names, TarnSelectionName, i);
      const gchar *uuid;

      if (name->is_quoted || !g_str_has_prefix (name->text, "uuid="))
        continue;
      if (!find_uuid (choices, name->text + strlen ("uuid="), &uuid, error))
        return FALSE;
      if (uuid != NULL)
        {
          g_free (name->text);
          name->text = g_strconcat ("uuid=", uuid, NULL);
        }
    }
  return TRUE;
}

/* Sets the error for an entry of a selection that names only a platform, if this platform has no
 * devices. */
static gboolean
refuse_empty (const gchar *platform, GError **error)
{
  g_autofree gchar *name = _tarn_shorten (platform);

  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION, "platform '%s' has no device",
               name);
  return FALSE;
}

/* Adds to the result the devices that an entry of a selection chooses: finds the entry's platforms,
 * and then their devices. */
static gboolean
resolve_entry (Resolver *resolver, const TarnSelectionEntry *entry, GError **error)
{
  gboolean star = is_star (resolver, &entry->platform);
  gboolean is_kind = names_kind (resolver, &entry->platform);
  const gchar *kind = is_kind ? entry->platform.text : "opencl";
  g_autoptr (GArray) platforms = platform_choices (resolver, star ? NULL : kind);

  if (platforms->len == 0 && resolver->syntax == TARN_SELECTION_STRICT
      && (is_kind || resolver->n_platforms > 0))
    return pass_over (resolver, &entry->platform, is_kind, error);
  if (!star && !is_kind && !resolve_platform (resolver, &entry->platform, platforms, error))
    return FALSE;
  if (resolver->syntax == TARN_SELECTION_STRICT && entry->devices != NULL
      && !complete_uuids (resolver, platforms, entry->devices, error))
    return FALSE;
  if (resolver->syntax == TARN_SELECTION_STRICT && !star && !is_kind && entry->devices == NULL
      && resolver->platforms[g_array_index (platforms, Choice, 0).item.platform].n_devices == 0)
    return refuse_empty (g_array_index (platforms, Choice, 0).name, error);
  if (star && entry->devices != NULL)
    return resolve_on_every_platform (resolver, platforms, entry->devices, error);
  return resolve_devices (resolver, platforms, entry->devices, error);
}

/* Resolves a selection that is not empty.  (An empty one chooses all devices.) */
static gboolean
resolve_text (Resolver *resolver, GError **error)
{
  g_autoptr (GPtrArray) texts
      = _tarn_selection_split (resolver->selection, resolver->syntax, error);

  for (guint i = 0; texts != NULL && i < texts->len; i++)
    {
      g_auto (TarnSelectionEntry) entry = TARN_SELECTION_ENTRY_INIT;

      if (!_tarn_selection_entry_parse (&entry, resolver->selection, resolver->syntax,
                                        g_ptr_array_index (texts, i), error)
          || !resolve_entry (resolver, &entry, error))
        return FALSE;
    }
  return texts != NULL;
}

GArray *
tarn_selection_resolve (const gchar *selection, TarnSelectionSyntax syntax,
                        const TarnSelectionPlatform *platforms, gsize n_platforms, GError **error)
{
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (TarnSelectionItem));
  g_autoptr (GArray) all = NULL;
  Resolver resolver = { selection, syntax, platforms, n_platforms, items };

  g_return_val_if_fail (platforms != NULL || n_platforms == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (selection != NULL && selection[0] != '\0')
    return resolve_text (&resolver, error) ? g_steal_pointer (&items) : NULL;
  all = platform_choices (&resolver, syntax == TARN_SELECTION_STRICT ? NULL : "opencl");
  resolve_devices (&resolver, all, NULL, NULL);
  return g_steal_pointer (&items);
}
