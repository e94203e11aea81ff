/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A folder for the file that the library writes in a test. */

#ifndef PLACE_H
#define PLACE_H

#include <glib.h>

typedef struct
{
  gchar *folder; /* NULL before it is made */
  gchar *path;   /* the file's; it does not exist at first */
} Place;

void place_init (Place *place, const gchar *name);

/* Removes both; the test fails if anything else is there. */
void place_clear (Place *place);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

#endif
