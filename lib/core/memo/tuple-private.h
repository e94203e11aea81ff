/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Keys of several values, and the other predefined keys of memos. */

#ifndef TARN_TUPLE_PRIVATE_H
#define TARN_TUPLE_PRIVATE_H

#include <tarn/memo.h>

/* Hashes bytes.  The upper 32 bits are the better ones. */
guint64 _tarn_hash_data (gconstpointer data, gsize size);

/* Hash a string and a GBytes.  Faster than g_str_hash () and g_bytes_hash (), which read a byte at
 * a time. */
guint _tarn_hash_string (gconstpointer string);
guint _tarn_hash_bytes (gconstpointer bytes);
gboolean _tarn_bytes_equal (gconstpointer a, gconstpointer b);

/* Returns TRUE if all parts have valid types. */
gboolean _tarn_tuple_is_valid (const TarnMemoKeyTuple *tuple);

/* Copy and free keys. */
gpointer _tarn_copy_string (gconstpointer string);
gpointer _tarn_copy_int64 (gconstpointer integer);
gpointer _tarn_copy_bytes (gconstpointer bytes);
void _tarn_free_bytes (gpointer bytes);

#endif
