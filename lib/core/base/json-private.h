/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writing JSON (RFC 8259), where all of it fits into memory. */

#ifndef TARN_JSON_PRIVATE_H
#define TARN_JSON_PRIVATE_H

#include <glib.h>

typedef struct
{
  GString *text;
  gboolean has_items; /* the object or array that is open has something in it */
} TarnJson;

/* Open and close values.  @name: that of a member of an object, without characters that need an
 * escape; NULL: for an item of an array, or the outermost value.  An opening is '{' or '[', and
 * what closes it '}' or ']'. */
void _tarn_json_open (TarnJson *json, const gchar *name, gchar opening);
void _tarn_json_close (TarnJson *json, gchar closing);
/* Adds a number.  One of more than 63 bits, which is all that many readers have, is null: it stands
 * for no bound. */
void _tarn_json_add_number (TarnJson *json, const gchar *name, guint64 number);
void _tarn_json_add_boolean (TarnJson *json, const gchar *name, gboolean is_true);
/* Adds a text in UTF-8.  Invalid bytes are replaced.  NULL: adds null. */
void _tarn_json_add_text (TarnJson *json, const gchar *name, const gchar *text);
/* A text of hexadecimal digits, because readers keep 53 bits of a number; 0: null. */
void _tarn_json_add_address (TarnJson *json, const gchar *name, guint64 address);
/* Begins a line, before an item. */
void _tarn_json_break (TarnJson *json);

#endif
