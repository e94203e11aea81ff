/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of facts, for the files that fill them. */

#ifndef FACTS_PRIVATE_H
#define FACTS_PRIVATE_H

#include "facts.h"

/* A list of facts that is being filled, and the section that new facts belong to. */
typedef struct
{
  GPtrArray *list;
  const gchar *section;
} Facts;

/* Add a fact to the section, and take over @guess and @error.  A fact with an error has no
 * value. */
Fact *facts_add (Facts *facts, const gchar *key, const gchar *label, FactType type, gchar *guess,
                 GError *error);
void facts_add_number (Facts *facts, const gchar *key, const gchar *label, FactType type,
                       guint64 number, gchar *guess, GError *error);
/* Adds a copy of a text as a fact.  @text is NULL if the device has no such text. */
void facts_add_text (Facts *facts, const gchar *key, const gchar *label, const gchar *text);

/* Add all facts of an OpenCL or a CUDA device. */
void facts_add_opencl (GPtrArray *list, const Device *device, gboolean measure);
void facts_add_cuda (GPtrArray *list, const Device *device);

#endif
