/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Members of JSON's objects, of which nothing is taken for granted.  Errors say which object it is
 * by the lists that it is in: "allocators[2].blocks[7]: there is no number size". */

#ifndef JSON_ITEM_H
#define JSON_ITEM_H

#include <json-glib/json-glib.h>

typedef struct _JsonItem JsonItem;

/* An object, on the stack of whoever reads it. */
struct _JsonItem
{
  const JsonItem *outer; /* NULL: it is the whole */
  const gchar *list;     /* of the outer one */
  guint i;               /* in the list */
  JsonObject *object;
};

/* Parses a text that is an object.  An error says which line it is in; lists that are deeper in one
 * another than any file of ours has them are one, as are numbers of more than 63 bits, which some
 * versions of json-glib take for others. */
JsonNode *json_item_parse (const gchar *text, gsize length, GError **error);

gboolean G_GNUC_PRINTF (3, 4)
    json_item_refuse (const JsonItem *self, GError **error, const gchar *format, ...);

/* A number has to be there, a whole one from 0 on; the next one may be missing, and stays as it was
 * then. */
gboolean json_item_get_number (const JsonItem *self, const gchar *key, guint64 *number,
                               GError **error);
gboolean json_item_get_number_if_there (const JsonItem *self, const gchar *key, guint64 *number,
                                        GError **error);
gboolean json_item_get_truth (const JsonItem *self, const gchar *key, gboolean *is_true,
                              GError **error);

/* "0x" and hexadecimal digits; null, or nothing, is 0. */
gboolean json_item_get_address (const JsonItem *self, const gchar *key, guint64 *address,
                                GError **error);

/* Null, or nothing, is NULL.  The text lives as long as the node. */
gboolean json_item_get_text (const JsonItem *self, const gchar *key, const gchar **text,
                             GError **error);

/* Calls @func for each object of a list, until it fails.  There may be no list. */
typedef gboolean (*JsonItemFunc) (const JsonItem *item, gpointer user_data, GError **error);
gboolean json_item_for_each (const JsonItem *self, const gchar *key, JsonItemFunc func,
                             gpointer user_data, GError **error);

/* NULL with no error: it is not there. */
gboolean json_item_get_object (const JsonItem *self, const gchar *key, JsonObject **object,
                               GError **error);

#endif
