/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Facts about a device, as a list that is printed as text or as JSON. */

#ifndef FACTS_H
#define FACTS_H

#include "devices.h"

typedef enum
{
  FACT_NONE, /* no value: the device has nothing to report, or the value is unknown */
  FACT_TEXT,
  FACT_NUMBER,
  FACT_BYTES, /* a number of bytes */
  FACT_REAL,
  FACT_BOOLEAN
} FactType;

/* A fact about a device. */
typedef struct
{
  const gchar *section; /* a key in JSON, such as "memory" */
  const gchar *key;     /* a key of the section, such as "global_bytes" */
  const gchar *label;   /* for people, such as "Global" */
  FactType type;
  gchar *text;
  guint64 number; /* TRUE or FALSE for FACT_BOOLEAN */
  gdouble real;
  gchar *guess;            /* why the value is only a guess; nullable */
  gchar *error;            /* why the value is unknown; nullable */
  gboolean is_unsupported; /* the device does not support the query; the driver did not fail */
} Fact;

/* Collects the facts, section by section.  If @measure, also measures some facts, which takes
 * seconds.  Free the array with g_ptr_array_unref (). */
GPtrArray *facts_collect (const Device *device, gboolean measure);

#endif
