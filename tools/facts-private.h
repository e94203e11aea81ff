/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef FACTS_PRIVATE_H
#define FACTS_PRIVATE_H

#include "facts.h"

/* A list that is being filled, and where in it. */
typedef struct
{
  GPtrArray *list;
  const gchar *section;
} Facts;

/* At the end of the section; a fact with an error has no value.  Take over @guess and @error. */
Fact *facts_add (Facts *facts, const gchar *key, const gchar *label, FactType type, gchar *guess,
                 GError *error);
void facts_add_number (Facts *facts, const gchar *key, const gchar *label, FactType type,
                       guint64 number, gchar *guess, GError *error);
/* @text is copied; NULL: there is none. */
void facts_add_text (Facts *facts, const gchar *key, const gchar *label, const gchar *text);

void facts_add_opencl (GPtrArray *list, const Device *device, gboolean measure);
void facts_add_cuda (GPtrArray *list, const Device *device);

#endif
