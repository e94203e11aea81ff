/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Selection: a text chooses devices.
 */

#ifndef TARN_SELECTION_H
#define TARN_SELECTION_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * A device that can be chosen. Initialize all its bytes to 0. The caller owns the strings.
 *
 * @since 0.1
 */
typedef struct
{
  const gchar *name;    /**< the name that the driver states */
  const gchar *vendor;  /**< the vendor that the driver states */
  const gchar *uuid;    /**< nullable; such as "GPU-9f2c5c3a-..." */
  const gchar *pci;     /**< nullable; such as "0000:65:00.0" */
  gpointer reserved[4]; /**< for later versions: NULL */
} TarnSelectionDevice;

/**
 * A platform that can be chosen, and its devices. Initialize all its bytes to 0. The caller owns
 * the strings and the array.
 *
 * @since 0.1
 */
typedef struct
{
  const gchar *name;                  /**< the name that the driver states */
  const gchar *vendor;                /**< the vendor that the driver states */
  const TarnSelectionDevice *devices; /**< an array; nullable if there are none */
  gsize n_devices;                    /**< how many devices there are */
  /** The kind: "opencl" or NULL, "cuda", or a kind of another backend: see
   * tarn_selection_add_kind(). */
  const gchar *kind;
  gpointer reserved[4]; /**< for later versions: NULL */
} TarnSelectionPlatform;

/**
 * A device that was chosen.
 *
 * @since 0.1
 */
typedef struct
{
  guint platform; /**< the index in the array of platforms */
  guint device;   /**< the index in that platform's devices */
} TarnSelectionItem;

/**
 * The syntax of a selection. tarn_selection_resolve() describes both syntaxes.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_SELECTION_PYOPENCL, /**< PyOpenCL's syntax of PYOPENCL_TEST */
  TARN_SELECTION_STRICT    /**< the syntax of TARN_TEST and of --select */
} TarnSelectionSyntax;

/**
 * Chooses devices by a text. The text has entries, separated by `;`. An entry is a platform, `:`,
 * and devices, separated by `,`: for example `0:0,1;intel:i5`. A platform alone chooses all its
 * devices. NULL or an empty text chooses everything. A whole number is an index; -1 is the last.
 * Any other name chooses the first platform or device whose "name vendor" contains it, in any case
 * of letters. In an entry without `:`, `=` separates the platform and the devices. The result keeps
 * the order, and duplicates.
 *
 * TARN_SELECTION_PYOPENCL reads the text as PyOpenCL reads PYOPENCL_TEST, with the same traps. The
 * empty text is contained in every name, so an empty name chooses the first platform or device,
 * also after a `;` at the end. A whole number has only ASCII digits after an optional sign, with
 * ASCII blanks around it. (Python also reads `1_0`, as 10.) Only platforms of the kind "opencl" can
 * be chosen.
 *
 * TARN_SELECTION_STRICT refuses empty names, and a platform alone that has no device, and adds:
 *
 * - `P:*` and `*:D` choose every match.
 * - Quotation marks enclose a name with special characters: `"..."`.
 * - `uuid=...` and `pci=...` choose a device, and need no platform. A UUID may be cut off after its
 *   first digits if no other device's begins with them: `uuid=GPU-8932f9`.
 * - The name of a kind other than "opencl", such as `cuda`, means all platforms of this kind, with
 *   their devices in one list. It never means an OpenCL platform whose name contains it. All other
 *   names and indices mean OpenCL platforms.
 * - An entry for a kind without a platform in @p platforms is skipped, because another library may
 *   get the same text. The kinds are `cuda` and those of tarn_selection_add_kind().
 * - If there are platforms, but none of OpenCL, entries that name an OpenCL platform are skipped,
 *   too. But a name without quotation marks that differs from a kind by one letter, or by two
 *   swapped letters, such as `cudda`, is an error, which suggests the kind.
 *
 * @param selection    nullable: the text
 * @param syntax       how to read it
 * @param platforms    the platforms to choose from; not kept
 * @param n_platforms  the number of platforms
 * @param error        return location, or NULL: TARN_ERROR_INVALID_SELECTION, with a message that
 *                     lists up to ten platforms or devices
 * @return (transfer full): an array of TarnSelectionItem, which may be empty, for g_array_unref(),
 *         or NULL with @p error set. Any thread may call it.
 * @since 0.1
 */
GArray *tarn_selection_resolve (const gchar *selection, TarnSelectionSyntax syntax,
                                const TarnSelectionPlatform *platforms, gsize n_platforms,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Adds a kind of platforms that selections may name. tarn_selection_resolve() then skips entries
 * for this kind if it gets no platform of the kind. A backend with its own kind calls this before
 * any device is chosen, best in a constructor. The kinds "opencl" and "cuda" exist already.
 *
 * @param kind  the kind: a letter, then letters, digits and hyphens; copied. Any thread may call
 *              it.
 * @since 0.1
 */
void tarn_selection_add_kind (const gchar *kind);

/**
 * Formats a UUID for `uuid=` in a selection. The text looks like
 * "00112233-4455-6677-8899-aabbccddeeff".
 *
 * @param bytes  the 16 bytes that a driver returns
 * @return (transfer full): a string for g_free(). Any thread may call it.
 * @since 0.1
 */
gchar *tarn_selection_format_uuid (const guint8 *bytes) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a text that chooses one device. The text still chooses this device after other devices were
 * added or removed. It names the platform, and the first of these properties that no other device
 * has: the UUID, the PCI address, the name. If there is none, the text has the device's index.
 *
 * @param platforms    the platforms; not kept
 * @param n_platforms  the number of platforms
 * @param item         the device
 * @return (transfer full): a selection of TARN_SELECTION_STRICT, for g_free(). Any thread may call
 *         it.
 * @since 0.1
 */
gchar *tarn_selection_make_selector (const TarnSelectionPlatform *platforms, gsize n_platforms,
                                     TarnSelectionItem item) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
