/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the program or library file that contains a code address, and the build-id of this file.
 * Does not look up symbols: tools do that later, in the file with this build-id. */

#define _GNU_SOURCE 1 /* makes <link.h> declare dl_iterate_phdr () */

#include <link.h>
#include <string.h>

#include "record/record-private.h"

/* The largest size of a build-id in bytes; longer build-ids are cut.  Linkers make build-ids
 * of 16 or 20 bytes. */
#define MAX_BUILD_ID 64

typedef struct
{
  gsize address;       /* the code address to find */
  TarnModule *module;  /* the result, which the search fills in */
  const guint8 *bytes; /* the build-id; NULL if none was found */
  gsize n_bytes;
} Search;

/* Finds the build-id among the ELF notes of a segment, and stores it in @search.  Each note has a
 * header (Elf_Nhdr), a name and a content.  Both are padded to @alignment bytes. */
static void
find_build_id (Search *search, const guint8 *notes, gsize size, gsize alignment)
{
  gsize mask = alignment == 8 ? 7 : 3;

  while (size >= sizeof (ElfW (Nhdr)))
    {
      const ElfW (Nhdr) *note = (const ElfW (Nhdr) *) (gconstpointer) notes;
      guint64 start = (sizeof *note + (guint64) note->n_namesz + mask) & ~(guint64) mask;
      guint64 end = (start + note->n_descsz + mask) & ~(guint64) mask;

      if (start + note->n_descsz > size)
        return;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof ELF_NOTE_GNU
          && memcmp (note + 1, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0)
        {
          search->bytes = notes + start;
          search->n_bytes = MIN (note->n_descsz, MAX_BUILD_ID);
          return;
        }
      notes += MIN (end, size);
      size -= MIN (end, size);
    }
}

static gboolean
has_address (const struct dl_phdr_info *info, gsize address)
{
  for (guint i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];
      gsize start = (gsize) info->dlpi_addr + segment->p_vaddr;

      if (segment->p_type == PT_LOAD && address >= start && address - start < segment->p_memsz)
        return TRUE;
    }
  return FALSE;
}

/* Finds the build-id of a loaded file in the file's ELF notes.  Reads only notes in segments that
 * the loader has loaded into memory. */
static void
read_notes (Search *search, const struct dl_phdr_info *info)
{
  for (guint i = 0; i < info->dlpi_phnum && search->bytes == NULL; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];
      gsize start = (gsize) info->dlpi_addr + segment->p_vaddr;

      if (segment->p_type == PT_NOTE && segment->p_memsz > 0 && has_address (info, start)
          && has_address (info, start + segment->p_memsz - 1))
        find_build_id (search, GSIZE_TO_POINTER (start), segment->p_memsz, segment->p_align);
    }
}

/* Gets the path of the program's file.  The loader does not know this path, so this function reads
 * a link in /proc.  If the file was replaced meanwhile, Linux appends " (deleted)" to the link's
 * target. */
static void
get_program_path (gchar path[TARN_MODULE_PATH_BYTES])
{
  static const gchar suffix[] = " (deleted)";
  g_autofree gchar *file = g_file_read_link ("/proc/self/exe", NULL);

  if (file == NULL)
    return;
  if (g_str_has_suffix (file, suffix))
    file[strlen (file) - strlen (suffix)] = '\0';
  g_strlcpy (path, file, TARN_MODULE_PATH_BYTES);
}

/* Fills in the TarnModule of a search if the loaded file @info contains the address.
 * dl_iterate_phdr () calls this function.  Copies all strings, because the loader may unload the
 * file later.  Allocates no memory, because the loader's lock is held. */
static int
look_at (struct dl_phdr_info *info, size_t size, void *data)
{
  static const gchar digits[] = "0123456789abcdef";
  Search *search = data;
  TarnModule *module = search->module;

  (void) size;
  if (!has_address (info, search->address))
    return 0;
  read_notes (search, info);
  for (gsize i = 0; i < search->n_bytes; i++)
    {
      module->build_id[2 * i] = digits[search->bytes[i] >> 4];
      module->build_id[2 * i + 1] = digits[search->bytes[i] & 15];
    }
  module->load_address = info->dlpi_addr;
  g_strlcpy (module->path, info->dlpi_name, sizeof module->path);
  return 1;
}

/* Makes a path absolute if it is relative to the working directory. */
static void
complete_path (gchar path[TARN_MODULE_PATH_BYTES])
{
  g_autofree gchar *complete = NULL;

  if (path[0] == '/' || strchr (path, '/') == NULL) /* linux-vdso.so.1, for example, is no file */
    return;
  complete = g_canonicalize_filename (path, NULL);
  g_strlcpy (path, complete, TARN_MODULE_PATH_BYTES);
}

gboolean
_tarn_module_find (gconstpointer return_address, TarnModule *module)
{
  /* If a call is the last instruction of a file, its return address is outside the file.  So search
   * for the byte before the return address, which is part of the call. */
  Search search = { .address = GPOINTER_TO_SIZE (return_address) - 1, .module = module };

  memset (module, 0, sizeof *module);
  if (dl_iterate_phdr (look_at, &search) == 0)
    return FALSE;
  if (module->path[0] == '\0')
    get_program_path (module->path);
  complete_path (module->path);
  return TRUE;
}

gchar *
_tarn_module_get_key (const TarnModule *module)
{
  return g_strdup_printf ("%" G_GINT64_MODIFIER "x %s", module->load_address, module->path);
}
