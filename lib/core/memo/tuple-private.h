/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions for the predefined types of a memo's keys: strings, numbers, bytes, and tuples of
 * several values. */

#ifndef TARN_TUPLE_PRIVATE_H
#define TARN_TUPLE_PRIVATE_H

#include <tarn/memo.h>

/* These functions hash a string, or a GBytes.  They read 8 bytes at a time, so they are faster than
 * g_str_hash () and g_bytes_hash (), which read one byte at a time. */
guint _tarn_hash_string (gconstpointer string);
guint _tarn_hash_bytes (gconstpointer bytes);
gboolean _tarn_bytes_equal (gconstpointer a, gconstpointer b);

/* Returns TRUE if all parts of a tuple have valid types. */
gboolean _tarn_tuple_is_valid (const TarnMemoKeyTuple *tuple);

/* These functions copy and free keys of the predefined types. */
gpointer _tarn_copy_string (gconstpointer string);
gpointer _tarn_copy_int64 (gconstpointer integer);
gpointer _tarn_copy_bytes (gconstpointer bytes);
void _tarn_free_bytes (gpointer bytes);

#endif
