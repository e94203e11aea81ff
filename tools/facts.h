/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is known of a device, as a list that is printed as text and as JSON. */

#ifndef FACTS_H
#define FACTS_H

#include "devices.h"

typedef enum
{
  FACT_NONE, /* there is no such thing, or nobody knows */
  FACT_TEXT,
  FACT_NUMBER,
  FACT_BYTES, /* a number, too */
  FACT_REAL,
  FACT_BOOLEAN
} FactType;

typedef struct
{
  const gchar *section; /* "memory": a key in JSON */
  const gchar *key;     /* "global_bytes" */
  const gchar *label;   /* "Global": for people */
  FactType type;
  gchar *text;
  guint64 number; /* also TRUE or FALSE */
  gdouble real;
  gchar *guess;            /* why it is no more than that; nullable */
  gchar *error;            /* why it could not be found out; nullable */
  gboolean is_unsupported; /* because the device has no means for it; the driver is not broken */
} Fact;

/* The sections in their order; with what is measured, which takes seconds, if @measure. Free it
 * with g_ptr_array_unref (). */
GPtrArray *facts_collect (const Device *device, gboolean measure);

#endif
