/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Selection: devices that are chosen by a text.
 */

#ifndef TARN_SELECTION_H
#define TARN_SELECTION_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * A device that can be chosen. Start from all zero bytes; the strings are the caller's.
 *
 * @since 0.1
 */
typedef struct
{
  const gchar *name;    /**< as the driver has it */
  const gchar *vendor;  /**< as the driver has it */
  const gchar *uuid;    /**< nullable; such as "GPU-9f2c5c3a-..." */
  const gchar *pci;     /**< nullable; such as "0000:65:00.0" */
  gpointer reserved[4]; /**< for later: NULL */
} TarnSelectionDevice;

/**
 * A platform that can be chosen, and its devices. Start from all zero bytes; strings and array are
 * the caller's.
 *
 * @since 0.1
 */
typedef struct
{
  const gchar *name;                  /**< as the driver has it */
  const gchar *vendor;                /**< as the driver has it */
  const TarnSelectionDevice *devices; /**< an array; nullable if there are none */
  gsize n_devices;                    /**< how many devices there are */
  /** "opencl", which NULL stands for, too, "cuda", or a backend's own: see
   * tarn_selection_add_kind(). */
  const gchar *kind;
  gpointer reserved[4]; /**< for later: NULL */
} TarnSelectionPlatform;

/**
 * A device that was chosen.
 *
 * @since 0.1
 */
typedef struct
{
  guint platform; /**< its place in the array of platforms */
  guint device;   /**< its place in that platform's devices */
} TarnSelectionItem;

/**
 * The syntax of a selection: see tarn_selection_resolve().
 *
 * @since 0.1
 */
typedef enum
{
  TARN_SELECTION_PYOPENCL, /**< as PyOpenCL reads PYOPENCL_TEST */
  TARN_SELECTION_STRICT    /**< as TARN_TEST and the programs' --select are read */
} TarnSelectionSyntax;

/**
 * Chooses devices by a text. It has entries with `;` between them, each a platform, `:`, and
 * devices with `,` between them; a platform alone means all its devices, and no text everything. A
 * name that is a whole number is a place, -1 being the last; else the first whose "name vendor"
 * contains it, without regard to case. In an entry without `:`, `=` stands for it. Order and
 * duplicates are kept.
 *
 * TARN_SELECTION_PYOPENCL is what PyOpenCL makes of PYOPENCL_TEST, traps included: an empty name is
 * contained in every name, so it chooses the first, also after a `;` at the end. Whole numbers are
 * those with ASCII digits only, and ASCII blanks around them: there are no others here, such as
 * `1_0`, which Python reads as 10. Platforms of other kinds than "opencl" are not chosen.
 *
 * In TARN_SELECTION_STRICT an empty name is an error; `P:*` and `*:D` choose every match; `"..."`
 * stands around a name with special characters; `uuid=...` and `pci=...` are devices, which need no
 * platform before them. A UUID may be written without what follows its first digits, as long as no
 * other device's begins with them: `uuid=GPU-8932f9`. The name of a kind of platforms other than
 * "opencl", such as `cuda`, is all platforms of that kind, whose devices are counted through, and
 * no part of another's name; names and places of platforms are OpenCL's. Entries for a kind that is
 * not among the platforms are passed over, so that each library can be given the same text: CUDA's,
 * and those of tarn_selection_add_kind(). Without OpenCL's platforms, entries for these are passed
 * over, too, but not if a name, without quotation marks, differs from a kind's by one letter, as
 * `cudda` does: that is an error, which suggests the kind.
 *
 * @param selection    the text; nullable
 * @param syntax       how to read it
 * @param platforms    the choices; not kept
 * @param n_platforms  how many
 * @param error        return location, or NULL: TARN_ERROR_INVALID_SELECTION, saying what there was
 *                     to choose from, at most ten of it
 * @return (transfer full): an array of TarnSelectionItem, which may be empty, for g_array_unref(),
 *         or NULL with @p error set. Any thread may call it.
 * @since 0.1
 */
GArray *tarn_selection_resolve (const gchar *selection, TarnSelectionSyntax syntax,
                                const TarnSelectionPlatform *platforms, gsize n_platforms,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Adds a kind of platforms that a selection may name. tarn_selection_resolve() passes over entries
 * for it where it is given none of them. A backend of a kind of its own calls it before anybody
 * chooses devices: at best in a constructor. "opencl" and "cuda" are known.
 *
 * @param kind  a letter, then letters, digits and hyphens; copied. Any thread may call it.
 * @since 0.1
 */
void tarn_selection_add_kind (const gchar *kind);

/**
 * Formats a UUID as `uuid=` takes it in a selection. It looks like
 * "00112233-4455-6677-8899-aabbccddeeff".
 *
 * @param bytes  16 of them, as a driver gives them
 * @return (transfer full): a string for g_free(). Any thread may call it.
 * @since 0.1
 */
gchar *tarn_selection_format_uuid (const guint8 *bytes) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a text that chooses one device. It goes on to do so where devices come and go: it is by
 * names, by UUID or PCI address where there is one; by places only where nothing else tells it from
 * the others.
 *
 * @param platforms    the platforms; not kept
 * @param n_platforms  how many
 * @param item         one of the devices
 * @return (transfer full): a selection of TARN_SELECTION_STRICT, for g_free(). Any thread may call
 *         it.
 * @since 0.1
 */
gchar *tarn_selection_make_selector (const TarnSelectionPlatform *platforms, gsize n_platforms,
                                     TarnSelectionItem item) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
