/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds functions and lines by libdwfl.  Each file has its own Dwfl, because several files of a
 * recording may have had the same addresses, one after the other.  An address in a Dwfl is the
 * file's own address plus a bias, which libdwfl chooses.  libdwfl itself asks debuginfod if
 * DEBUGINFOD_URLS is set. */

#include <config.h>

#include "debug-info.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

/* Limit for nested entries of the debugging information.  Compilers nest them in about twenty
 * levels, but a broken file may have any number of levels. */
#define MAX_DEPTH 128

/* A range of addresses of a compilation unit or a function, in the debugging information. */
typedef struct
{
  Dwarf_Addr start, end;
  Dwarf_Die die;
} Range;

struct _DebugInfo
{
  Dwfl *dwfl;
  Dwfl_Module *module;
  /* The number to add to an address of the file to get the address in the Dwfl */
  Dwarf_Addr bias;
  Dwarf *dwarf; /* NULL: there is no debugging information */
  /* The number to add to an address of the debugging information to get the address in the Dwfl */
  Dwarf_Addr dwarf_bias;
  GArray *units;         /* an array of Range, sorted by start */
  GHashTable *functions; /* maps a unit's offset to a GArray of Range, sorted by start */
};

/* Functions that open files */

/* Tells whether an open file has the build-id @build_id. */
static gboolean
has_build_id (gint file, const GByteArray *build_id)
{
  Elf *elf = elf_begin (file, ELF_C_READ_MMAP, NULL);
  const void *bytes = NULL;
  gssize n = elf != NULL ? dwelf_elf_gnu_build_id (elf, &bytes) : 0;
  gboolean is_same
      = n > 0 && (guint) n == build_id->len && memcmp (bytes, build_id->data, build_id->len) == 0;

  elf_end (elf);
  return is_same;
}

/* Opens a regular file: reading a pipe might wait for ever. */
static gint
open_file (const gchar *path, GError **error)
{
  gint file = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat info;
  gint code = errno;

  if (file >= 0 && fstat (file, &info) == 0 && S_ISREG (info.st_mode))
    return file;
  if (file >= 0)
    {
      close (file);
      code = EINVAL;
    }
  g_set_error_literal (error, G_FILE_ERROR, g_file_error_from_errno (code), g_strerror (code));
  return -1;
}

/* Opens the file at @path, from which the recorded program loaded the module.  Returns NULL with
 * an error if the file has another build-id now. */
static Dwfl_Module *
report_file (Dwfl *dwfl, const gchar *path, const GByteArray *build_id, GError **error)
{
  gint file = open_file (path, error);
  Dwfl_Module *module;

  if (file < 0)
    return NULL;
  if (!has_build_id (file, build_id))
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                           "another build than was recorded");
      close (file);
      return NULL;
    }
  /* takes over the file if it succeeds */
  module = dwfl_report_elf (dwfl, path, path, file, 0, TRUE);
  if (module == NULL)
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, dwfl_errmsg (-1));
      close (file);
    }
  return module;
}

/* Makes libdwfl search for a file with @build_id.  libdwfl needs a range of addresses for the
 * module before it knows the file, so the range is nearly unlimited. */
static Dwfl_Module *
report_build_id (Dwfl *dwfl, const gchar *path, const GByteArray *build_id)
{
  Dwfl_Module *module = dwfl_report_module (dwfl, path, 0, (Dwarf_Addr) 1 << 47);

  if (module != NULL && dwfl_module_report_build_id (module, build_id->data, build_id->len, 0) != 0)
    return NULL;
  return module;
}

static GByteArray *
parse_build_id (const gchar *text)
{
  GByteArray *bytes = g_byte_array_new ();

  for (; g_ascii_isxdigit (text[0]) && g_ascii_isxdigit (text[1]); text += 2)
    {
      guint8 byte = (guint8) (g_ascii_xdigit_value (text[0]) << 4 | g_ascii_xdigit_value (text[1]));

      g_byte_array_append (bytes, &byte, 1);
    }
  return bytes;
}

static gboolean
find_file (DebugInfo *self, const gchar *path, const GByteArray *build_id, GError **error)
{
  g_autoptr (GError) file_error = NULL;

  dwfl_report_begin (self->dwfl);
  self->module = report_file (self->dwfl, path, build_id, &file_error);
  if (self->module == NULL)
    self->module = report_build_id (self->dwfl, path, build_id);
  dwfl_report_end (self->dwfl, NULL, NULL);
  if (self->module != NULL && dwfl_module_getelf (self->module, &self->bias) != NULL)
    return TRUE;
  if (file_error == NULL)
    g_set_error_literal (&file_error, G_FILE_ERROR, G_FILE_ERROR_FAILED, dwfl_errmsg (-1));
  g_propagate_error (error, g_steal_pointer (&file_error));
  return FALSE;
}

gboolean
debug_info_is_supported (void)
{
  return TRUE;
}

DebugInfo *
debug_info_open (const gchar *path, const gchar *build_id, GError **error)
{
  static const Dwfl_Callbacks callbacks
      = { .find_elf = dwfl_build_id_find_elf, .find_debuginfo = dwfl_standard_find_debuginfo };
  g_autoptr (DebugInfo) self = g_new0 (DebugInfo, 1);
  g_autoptr (GByteArray) bytes = parse_build_id (build_id);

  if (bytes->len == 0)
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                           "no build-id was recorded, so its functions have no names");
      return NULL;
    }
  elf_version (EV_CURRENT);
  self->dwfl = dwfl_begin (&callbacks);
  if (self->dwfl == NULL)
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, dwfl_errmsg (-1));
      return NULL;
    }
  if (!find_file (self, path, bytes, error))
    return NULL;
  self->dwarf = dwfl_module_getdwarf (self->module, &self->dwarf_bias);
  return g_steal_pointer (&self);
}

void
debug_info_free (DebugInfo *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->units, g_array_unref);
  g_clear_pointer (&self->functions, g_hash_table_unref);
  dwfl_end (self->dwfl);
  g_free (self);
}

/* Functions that find ranges of addresses */

static gint
compare_ranges (gconstpointer a, gconstpointer b)
{
  const Range *left = a, *right = b;

  return left->start < right->start ? -1 : left->start > right->start;
}

static void
add_ranges (GArray *ranges, Dwarf_Die *die, Dwarf_Die *known_as)
{
  Dwarf_Addr base, start, end;
  ptrdiff_t next = 0;

  while ((next = dwarf_ranges (die, next, &base, &start, &end)) > 0)
    {
      const Range range = { start, end, *known_as };

      if (start < end)
        g_array_append_val (ranges, range);
    }
}

/* Finds the last range that begins at or before an address.  Returns NULL if there is none, or if
 * it does not contain the address. */
static Range *
find_range (const GArray *ranges, Dwarf_Addr address)
{
  /* All ranges with an index below low begin at or before the address. */
  guint low = 0, high = ranges->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (g_array_index (ranges, Range, middle).start <= address)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0 || g_array_index (ranges, Range, low - 1).end <= address)
    return NULL;
  return &g_array_index (ranges, Range, low - 1);
}

/* Lists the address ranges of all compilation units.  Does not read them from .debug_aranges,
 * because not all compilers write this table. */
static GArray *
list_units (Dwarf *dwarf)
{
  GArray *units = g_array_new (FALSE, FALSE, sizeof (Range));
  Dwarf_CU *unit = NULL;
  Dwarf_Die die;

  while (dwarf_get_units (dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0)
    add_ranges (units, &die, &die);
  g_array_sort (units, compare_ranges);
  return units;
}

/* Functions that list the functions of a compilation unit */

static gboolean
may_have_functions (gint tag)
{
  return tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || tag == DW_TAG_namespace
         || tag == DW_TAG_module || tag == DW_TAG_class_type || tag == DW_TAG_structure_type
         || tag == DW_TAG_union_type;
}

static void
add_functions (GArray *functions, Dwarf_Die *parent, guint depth)
{
  Dwarf_Die die;

  if (depth == MAX_DEPTH || dwarf_child (parent, &die) != 0)
    return;
  do
    {
      gint tag = dwarf_tag (&die);

      if (tag == DW_TAG_subprogram)
        add_ranges (functions, &die, &die);
      if (may_have_functions (tag))
        add_functions (functions, &die, depth + 1);
    }
  while (dwarf_siblingof (&die, &die) == 0);
}

/* Gets the root entry of a compilation unit.  With -gsplit-dwarf, gets the root entry in the unit's
 * separate file instead. */
static void
get_whole_unit (Dwarf_Die *unit, Dwarf_Die *whole)
{
  Dwarf_Die split;
  uint8_t type;

  *whole = *unit;
  if (dwarf_cu_info (unit->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0
      && type == DW_UT_skeleton && split.addr != NULL)
    *whole = split;
}

static GArray *
get_functions (DebugInfo *self, Dwarf_Die *unit)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) dwarf_dieoffset (unit));
  GArray *functions = g_hash_table_lookup (self->functions, key);
  Dwarf_Die whole;

  if (functions != NULL)
    return functions;
  functions = g_array_new (FALSE, FALSE, sizeof (Range));
  get_whole_unit (unit, &whole);
  add_functions (functions, &whole, 0);
  g_array_sort (functions, compare_ranges);
  g_hash_table_insert (self->functions, key, functions);
  return functions;
}

/* Gets the name of a function.  In C++, this is the linker's name, because it includes scope and
 * types. */
static gchar *
get_name (Dwarf_Die *die)
{
  Dwarf_Attribute attribute;
  const gchar *name = NULL;

  if (dwarf_attr_integrate (die, DW_AT_linkage_name, &attribute) != NULL
      || dwarf_attr_integrate (die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
    name = dwarf_formstring (&attribute);
  return g_strdup (name != NULL ? name : dwarf_diename (die));
}

/* Functions that find lines and inlined functions */

/* Makes a path absolute if it is relative to the folder in which the compiler ran. */
static gchar *
make_path (Dwarf_Die *unit, const gchar *path)
{
  Dwarf_Attribute attribute;
  const gchar *folder = NULL;

  if (path == NULL)
    return NULL;
  if (!g_path_is_absolute (path) && dwarf_attr_integrate (unit, DW_AT_comp_dir, &attribute) != NULL)
    folder = dwarf_formstring (&attribute);
  if (folder != NULL && g_path_is_absolute (folder))
    return g_canonicalize_filename (path, folder);
  return g_path_is_absolute (path) ? g_canonicalize_filename (path, NULL) : g_strdup (path);
}

static void
read_line (Dwarf_Die *unit, Dwarf_Addr address, DebugPlace *place)
{
  Dwarf_Line *line = dwarf_getsrc_die (unit, address);
  gint number = 0;

  if (line == NULL || dwarf_lineno (line, &number) != 0 || number <= 0)
    return;
  place->file = make_path (unit, dwarf_linesrc (line, NULL, NULL));
  place->line = (guint) number;
}

/* Reads the file and line of the call that was replaced by an inlined function. */
static void
read_call (Dwarf_Die *unit, Dwarf_Die *die, DebugPlace *place)
{
  Dwarf_Attribute attribute;
  Dwarf_Word file, line;
  Dwarf_Files *files;

  if (dwarf_formudata (dwarf_attr (die, DW_AT_call_file, &attribute), &file) != 0
      || dwarf_formudata (dwarf_attr (die, DW_AT_call_line, &attribute), &line) != 0
      || dwarf_getsrcfiles (unit, &files, NULL) != 0)
    return;
  place->file = make_path (unit, dwarf_filesrc (files, file, NULL, NULL));
  place->line = (guint) line;
}

/* Finds the block or inlined function at an address, among the children of an entry. */
static gboolean
find_inner (Dwarf_Die *outer, Dwarf_Addr address, Dwarf_Die *die)
{
  if (dwarf_child (outer, die) != 0)
    return FALSE;
  do
    {
      gint tag = dwarf_tag (die);

      if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine)
          && dwarf_haspc (die, address) > 0)
        return TRUE;
    }
  while (dwarf_siblingof (die, die) == 0);
  return FALSE;
}

/* Collects a function and the functions inlined in it at an address, the innermost last. */
static guint
collect_inlined (Dwarf_Die *function, Dwarf_Addr address, Dwarf_Die dies[MAX_DEPTH])
{
  Dwarf_Die outer = *function, die;
  guint n = 1;

  dies[0] = *function;
  for (guint depth = 0; n < MAX_DEPTH && depth < MAX_DEPTH && find_inner (&outer, address, &die);
       depth++)
    {
      if (dwarf_tag (&die) == DW_TAG_inlined_subroutine)
        dies[n++] = die;
      outer = die;
    }
  g_assert (n > 0 && n <= MAX_DEPTH);
  return n;
}

static guint64
get_offset (Dwarf_Die *function, Dwarf_Addr address)
{
  Dwarf_Addr entry;

  return dwarf_entrypc (function, &entry) == 0 && entry <= address ? address - entry : 0;
}

/* Finds the compilation unit that contains an address.  Returns NULL if there is no debugging
 * information about the address. */
static Dwarf_Die *
find_unit (DebugInfo *self, Dwarf_Addr address)
{
  Range *unit;

  if (self->dwarf == NULL)
    return NULL;
  if (self->units == NULL)
    {
      self->units = list_units (self->dwarf);
      self->functions = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);
    }
  unit = find_range (self->units, address);
  return unit != NULL ? &unit->die : NULL;
}

/* Adds the function at an address, and the functions that are inlined in it there.  Returns FALSE
 * if the unit describes no function at the address.  With -g1, clang describes only functions in
 * which other functions are inlined. */
static gboolean
add_functions_at (DebugInfo *self, Dwarf_Die *unit, Dwarf_Addr address, GArray *places)
{
  Range *function = find_range (get_functions (self, unit), address);
  Dwarf_Die dies[MAX_DEPTH];
  guint n;

  if (function == NULL)
    return FALSE;
  n = collect_inlined (&function->die, address, dies);
  for (guint i = n; i > 0; i--)
    {
      DebugPlace place
          = { .function = get_name (&dies[i - 1]), .offset = get_offset (&dies[i - 1], address) };

      if (i == n)
        read_line (unit, address, &place);
      else
        read_call (unit, &dies[i], &place);
      g_array_append_val (places, place);
    }
  return TRUE;
}

/* Adds the symbol of the symbol table at an address in the Dwfl.  Adds its line, too, if the unit
 * is known. */
static void
add_symbol (DebugInfo *self, Dwarf_Die *unit, Dwarf_Addr address, GArray *places)
{
  GElf_Off offset = 0;
  GElf_Sym symbol = { 0 };
  const gchar *name
      = dwfl_module_addrinfo (self->module, address, &offset, &symbol, NULL, NULL, NULL);
  gint type = GELF_ST_TYPE (symbol.st_info);
  DebugPlace place = { .function = NULL };

  if (name == NULL || name[0] == '\0'
      || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
    return;
  place.function = g_strdup (name);
  place.offset = offset;
  if (unit != NULL)
    read_line (unit, address - self->dwarf_bias, &place);
  g_array_append_val (places, place);
}

void
debug_info_find (DebugInfo *self, guint64 address, GArray *places)
{
  Dwarf_Addr there = address + self->bias;
  Dwarf_Die *unit = find_unit (self, there - self->dwarf_bias);

  if (unit == NULL || !add_functions_at (self, unit, there - self->dwarf_bias, places))
    add_symbol (self, unit, there, places);
}

#else

gboolean
debug_info_is_supported (void)
{
  return FALSE;
}

DebugInfo *
debug_info_open (const gchar *path, const gchar *build_id, GError **error)
{
  (void) path, (void) build_id;
  g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_NOSYS, "built without libdw");
  return NULL;
}

void
debug_info_free (DebugInfo *self)
{
  (void) self;
}

void
debug_info_find (DebugInfo *self, guint64 address, GArray *places)
{
  (void) self, (void) address, (void) places;
}

#endif
