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

GArray *tarn_selection_resolve (const gchar *selection, TarnSelectionSyntax syntax,
                                const TarnSelectionPlatform *platforms, gsize n_platforms,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;
void tarn_selection_add_kind (const gchar *kind);
gchar *tarn_selection_format_uuid (const guint8 *bytes) G_GNUC_WARN_UNUSED_RESULT;
gchar *tarn_selection_make_selector (const TarnSelectionPlatform *platforms, gsize n_platforms,
                                     TarnSelectionItem item) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
