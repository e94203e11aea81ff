/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes JSON (RFC 8259) to memory. */

#ifndef TARN_JSON_PRIVATE_H
#define TARN_JSON_PRIVATE_H

#include <glib.h>

typedef struct
{
  GString *text;
  gboolean has_items; /* the open object or array has an item */
} TarnJson;

/* Open and close an object or array.  @name: the name of a member of an object, without characters
 * that need an escape; NULL for an item of an array, or the outermost value.  @opening is '{' or
 * '[', @closing '}' or ']'. */
void _tarn_json_open (TarnJson *json, const gchar *name, gchar opening);
void _tarn_json_close (TarnJson *json, gchar closing);
/* Adds a number.  Writes null for a number of more than 63 bits, because many readers have no more;
 * such a number stands for no bound. */
void _tarn_json_add_number (TarnJson *json, const gchar *name, guint64 number);
void _tarn_json_add_boolean (TarnJson *json, const gchar *name, gboolean is_true);
/* Adds a text in UTF-8.  Invalid bytes are replaced.  NULL: adds null. */
void _tarn_json_add_text (TarnJson *json, const gchar *name, const gchar *text);
/* Adds an address as a text of hexadecimal digits, because readers keep 53 bits of a number. Writes
 * null for 0. */
void _tarn_json_add_address (TarnJson *json, const gchar *name, guint64 address);
/* Begins a line, before an item. */
void _tarn_json_break (TarnJson *json);

#endif
