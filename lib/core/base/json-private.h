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
  gboolean has_items; /* TRUE if the innermost open object or array has an item already */
} TarnJson;

/* Open and close an object or array.  @name: the name of the new member if the parent is an object,
 * or NULL if the parent is an array or there is no parent.  The name must not contain characters
 * that JSON has to escape.  @opening: '{' or '['.  @closing: '}' or ']'. */
void _tarn_json_open (TarnJson *json, const gchar *name, gchar opening);
void _tarn_json_close (TarnJson *json, gchar closing);
/* Adds a number.  Writes null instead of a number above 2^63-1, because such a number means "no
 * limit" in Tarn. */
void _tarn_json_add_number (TarnJson *json, const gchar *name, guint64 number);
void _tarn_json_add_boolean (TarnJson *json, const gchar *name, gboolean is_true);
/* Adds a text in UTF-8, with its invalid bytes replaced.  Adds null if @text is NULL. */
void _tarn_json_add_text (TarnJson *json, const gchar *name, const gchar *text);
/* Adds an address as a string of hexadecimal digits, because many readers of JSON keep only 53 bits
 * of a number.  Adds null if the address is 0. */
void _tarn_json_add_address (TarnJson *json, const gchar *name, guint64 address);
/* Makes the next value in the JSON text stand on a new line. */
void _tarn_json_break (TarnJson *json);

#endif
