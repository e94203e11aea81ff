/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A folder of its own for the file that a test has the library write. */

#ifndef PLACE_H
#define PLACE_H

#include <glib.h>

typedef struct
{
  gchar *folder; /* NULL: nothing was made as yet */
  gchar *path;   /* of the file, which is not there as yet */
} Place;

void place_init (Place *place, const gchar *name);

/* Removes both; the test fails if anything else is there. */
void place_clear (Place *place);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

#endif
