/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads members of JSON objects, and checks each of them.  Errors name the object by the lists that
 * contain it, as in "allocators[2].blocks[7]: there is no number size". */

#ifndef JSON_ITEM_H
#define JSON_ITEM_H

#include <json-glib/json-glib.h>

typedef struct _JsonItem JsonItem;

/* A JSON object, and its place in the file.  A reader has a JsonItem for each object that it is
 * reading, as a local variable. */
struct _JsonItem
{
  const JsonItem *outer; /* the object that contains this one; NULL: this is the root */
  const gchar *list;     /* the list that contains this object: a key of outer */
  guint i;               /* the index of this object in the list */
  JsonObject *object;
};

/* Parses a text that is an object.  An error names the line.  Refuses lists that are nested deeper
 * than in any snapshot.  Also refuses numbers of more than 63 bits, because some versions of
 * json-glib misread them. */
JsonNode *json_item_parse (const gchar *text, gsize length, GError **error);

/* Sets an error that names the object, and returns FALSE. */
gboolean G_GNUC_PRINTF (3, 4)
    json_item_refuse (const JsonItem *self, GError **error, const gchar *format, ...);

/* Get a whole number, 0 or greater.  If the number is missing, json_item_get_number () fails, and
 * json_item_get_number_if_there () leaves @number unchanged. */
gboolean json_item_get_number (const JsonItem *self, const gchar *key, guint64 *number,
                               GError **error);
gboolean json_item_get_number_if_there (const JsonItem *self, const gchar *key, guint64 *number,
                                        GError **error);
gboolean json_item_get_truth (const JsonItem *self, const gchar *key, gboolean *is_true,
                              GError **error);

/* Gets an address: a text of "0x" and hexadecimal digits.  If it is null or missing, the address is
 * 0. */
gboolean json_item_get_address (const JsonItem *self, const gchar *key, guint64 *address,
                                GError **error);

/* Gets a text, which is valid as long as the JsonNode of json_item_parse ().  If the text is null
 * or missing, @text becomes NULL. */
gboolean json_item_get_text (const JsonItem *self, const gchar *key, const gchar **text,
                             GError **error);

/* Calls @func for each object of a list, until a call of @func returns FALSE.  Does nothing if the
 * list is missing. */
typedef gboolean (*JsonItemFunc) (const JsonItem *item, gpointer user_data, GError **error);
gboolean json_item_for_each (const JsonItem *self, const gchar *key, JsonItemFunc func,
                             gpointer user_data, GError **error);

/* Gets an object.  If it is missing, *object becomes NULL. */
gboolean json_item_get_object (const JsonItem *self, const gchar *key, JsonObject **object,
                               GError **error);

#endif
