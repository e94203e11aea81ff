/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Keys of memos: which ones are the same, and that a memo keeps its own. */

#include <string.h>
#include <tarn/memo.h>

#include "lib/fake-function.h"

/* A memo whose values are the numbers of their computations, from 1 on. */

static gpointer
compute_number (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  guint *n_computed = user_data;

  (void) first_arg;
  (void) key;
  (void) error;
  return GUINT_TO_POINTER (++*n_computed);
}

static TarnMemo *
memo_new (TarnMemoKeyType key_type)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.key_type = key_type;
  return tarn_memo_new (&ops, compute_number, g_new0 (guint, 1), g_free);
}

static guint
number_of (TarnMemo *memo, gconstpointer key)
{
  g_autoptr (GError) error = NULL;
  gpointer value = NULL;

  g_assert_true (tarn_memo_get (memo, NULL, key, &value, &error));
  g_assert_no_error (error);
  return GPOINTER_TO_UINT (value);
}

/* Strings */

static void
test_string (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_STRING);
  gchar key[] = "saxpy";

  g_assert_cmpuint (number_of (memo, key), ==, 1);
  g_assert_cmpuint (number_of (memo, "saxpy"), ==, 1);
  g_assert_cmpuint (number_of (memo, "saxp"), ==, 2);
  g_assert_cmpuint (number_of (memo, "saxpy "), ==, 3);
  g_assert_cmpuint (number_of (memo, ""), ==, 4);
  key[0] = 'd';
  g_assert_cmpuint (number_of (memo, key), ==, 5);
  g_assert_cmpuint (number_of (memo, "saxpy"), ==, 1);
  g_assert_cmpuint (number_of (memo, "daxpy"), ==, 5);
  g_assert_cmpuint (number_of (memo, ""), ==, 4);
}

/* The caller's is gone by the time it is asked for again. */
static void
test_string_freed (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_STRING);

  for (guint round = 0; round < 2; round++)
    for (guint i = 0; i < 100; i++)
      {
        g_autofree gchar *key = g_strdup_printf ("key %u", i);

        g_assert_cmpuint (number_of (memo, key), ==, i + 1);
        memset (key, 'x', strlen (key));
      }
}

/* Where in a long key two differ. */

#define LENGTH 100000
#define N_PLACES 40

static gsize
place (guint i)
{
  static const gsize places[]
      = { 0, 1, 7, 8, 63, 64, 255, 256, 4095, 4096, 50000, 65535, 65536, LENGTH - 2, LENGTH - 1 };

  if (i < G_N_ELEMENTS (places))
    return places[i];
  return 70 + (gsize) i * 2411; /* none of the above */
}

static void
test_long_string (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_STRING);
  g_autofree gchar *key = g_strnfill (LENGTH, 'x');

  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of (memo, key), ==, 1);
      for (guint i = 0; i < N_PLACES; i++)
        {
          key[place (i)] = 'y';
          g_assert_cmpuint (number_of (memo, key), ==, i + 2);
          key[place (i)] = 'x';
        }
    }
  key[LENGTH - 1] = '\0';
  g_assert_cmpuint (number_of (memo, key), ==, N_PLACES + 2);
}

/* Integers */

static void
test_int64 (void)
{
  static const gint64 keys[]
      = { 0,          1,          -1,         (gint64) 1 << 32, G_MAXINT32,
          G_MININT32, G_MAXINT64, G_MININT64, 0xffffffff,       1 + ((gint64) 1 << 32) };
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_INT64);

  for (guint round = 0; round < 2; round++)
    for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
      {
        gint64 *key = g_new (gint64, 1);

        *key = keys[i];
        g_assert_cmpuint (number_of (memo, key), ==, i + 1);
        *key = 4711;
        g_free (key);
      }
}

/* Bytes */

static guint
number_of_bytes (TarnMemo *memo, gconstpointer data, gsize size)
{
  g_autoptr (GBytes) key = g_bytes_new (data, size);

  return number_of (memo, key);
}

static void
test_bytes (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_BYTES);

  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of_bytes (memo, "abc", 3), ==, 1);
      g_assert_cmpuint (number_of_bytes (memo, "abc", 4), ==, 2);
      g_assert_cmpuint (number_of_bytes (memo, "ab", 2), ==, 3);
      g_assert_cmpuint (number_of_bytes (memo, "a\0b", 3), ==, 4);
      g_assert_cmpuint (number_of_bytes (memo, "a\0c", 3), ==, 5);
      g_assert_cmpuint (number_of_bytes (memo, "", 0), ==, 6);
      g_assert_cmpuint (number_of_bytes (memo, "", 1), ==, 7);
    }
}

static void
test_long_bytes (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_BYTES);
  g_autofree guint8 *data = g_malloc0 (LENGTH);

  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of_bytes (memo, data, LENGTH), ==, 1);
      for (guint i = 0; i < N_PLACES; i++)
        {
          data[place (i)] = 0x80;
          g_assert_cmpuint (number_of_bytes (memo, data, LENGTH), ==, i + 2);
          data[place (i)] = 0;
        }
    }
  g_assert_cmpuint (number_of_bytes (memo, data, LENGTH - 1), ==, N_PLACES + 2);
}

static void
count_free (gpointer counter)
{
  count (counter);
}

/* The memo holds what it keeps of them, and no longer. */
static void
test_bytes_freed (void)
{
  static const gchar text[] = "text";
  TarnMemo *memo = memo_new (TARN_MEMO_KEY_BYTES);
  guint n_freed = 0;

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GBytes) key = g_bytes_new_with_free_func (text, i, count_free, &n_freed);

      number_of (memo, key);
      number_of (memo, key);
    }
  tarn_memo_clear (memo);
  g_assert_cmpuint (n_freed, ==, 3);
  tarn_memo_unref (memo);
}

/* Tuples */

#define TUPLE(name, ...)                                                                           \
  const TarnMemoKeyPart name##_parts[] = { __VA_ARGS__ };                                          \
  const TarnMemoKeyTuple name = { name##_parts, G_N_ELEMENTS (name##_parts) }

static guint
number_of_strings (TarnMemo *memo, const gchar *first, const gchar *second)
{
  TUPLE (key, tarn_memo_key_string (first), tarn_memo_key_string (second));

  return number_of (memo, &key);
}

static void
test_tuple_strings (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);

  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of_strings (memo, "ab", "c"), ==, 1);
      g_assert_cmpuint (number_of_strings (memo, "a", "bc"), ==, 2);
      g_assert_cmpuint (number_of_strings (memo, "c", "ab"), ==, 3);
      g_assert_cmpuint (number_of_strings (memo, "abc", ""), ==, 4);
      g_assert_cmpuint (number_of_strings (memo, "", "abc"), ==, 5);
      g_assert_cmpuint (number_of_strings (memo, "abc", NULL), ==, 6);
      g_assert_cmpuint (number_of_strings (memo, NULL, "abc"), ==, 7);
      g_assert_cmpuint (number_of_strings (memo, NULL, NULL), ==, 8);
      g_assert_cmpuint (number_of_strings (memo, "", NULL), ==, 9);
      g_assert_cmpuint (number_of_strings (memo, NULL, ""), ==, 10);
      g_assert_cmpuint (number_of_strings (memo, "", ""), ==, 11);
    }
}

/* What looks alike, one part each. */
static void
test_tuple_types (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);
  g_autoptr (GBytes) one = g_bytes_new ("1", 1);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  const TarnMemoKeyPart parts[] = {
    tarn_memo_key_integer (1),
    tarn_memo_key_string ("1"),
    tarn_memo_key_pointer (GINT_TO_POINTER (1)),
    tarn_memo_key_bytes (one),
    tarn_memo_key_integer (0),
    tarn_memo_key_string (NULL),
    tarn_memo_key_pointer (NULL),
    tarn_memo_key_bytes (NULL),
    tarn_memo_key_string (""),
    tarn_memo_key_bytes (none),
    tarn_memo_key_integer (-1),
    tarn_memo_key_integer ((gint64) 1 << 32),
    tarn_memo_key_integer (G_MININT64),
    tarn_memo_key_pointer (one),
  };
  const TarnMemoKeyTuple empty = { NULL, 0 };

  for (guint round = 0; round < 2; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
        {
          TarnMemoKeyTuple key = { &parts[i], 1 };

          g_assert_cmpuint (number_of (memo, &key), ==, i + 1);
        }
      g_assert_cmpuint (number_of (memo, &empty), ==, G_N_ELEMENTS (parts) + 1);
    }
}

static void
test_tuple_lengths (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);
  const TarnMemoKeyPart parts[]
      = { tarn_memo_key_integer (0), tarn_memo_key_integer (0), tarn_memo_key_integer (0) };
  TarnMemoKeyPart one_more[G_N_ELEMENTS (parts)];

  for (guint n_parts = 0; n_parts <= G_N_ELEMENTS (parts); n_parts++)
    {
      TarnMemoKeyTuple key = { parts, n_parts };

      g_assert_cmpuint (number_of (memo, &key), ==, n_parts + 1);
    }
  memcpy (one_more, parts, sizeof parts);
  for (guint n_parts = 0; n_parts <= G_N_ELEMENTS (parts); n_parts++)
    {
      TarnMemoKeyTuple key = { one_more, n_parts };

      g_assert_cmpuint (number_of (memo, &key), ==, n_parts + 1);
    }
}

/* All that a key consists of is the caller's, and changes or goes. */
static void
test_tuple_kept (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);

  for (guint round = 0; round < 2; round++)
    for (gint i = 0; i < 50; i++)
      {
        g_autofree gchar *string = g_strdup_printf ("number %d", i / 2);
        g_autoptr (GBytes) bytes = g_bytes_new (string, strlen (string));
        TarnMemoKeyPart *parts = g_new (TarnMemoKeyPart, 3);
        TarnMemoKeyTuple *key = g_new (TarnMemoKeyTuple, 1);

        parts[0] = tarn_memo_key_string (string);
        parts[1] = tarn_memo_key_bytes (bytes);
        parts[2] = tarn_memo_key_integer (i % 2);
        *key = (TarnMemoKeyTuple){ parts, 3 };
        g_assert_cmpint ((gint) number_of (memo, key), ==, i + 1);
        memset (string, 'x', strlen (string));
        memset (parts, 0, 3 * sizeof *parts);
        *key = (TarnMemoKeyTuple){ NULL, 0 };
        g_free (parts);
        g_free (key);
      }
}

static void
test_long_tuple (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);
  g_autofree gchar *text = g_strnfill (LENGTH, 'x');
  guint expected = 0;

  for (guint i = 0; i < N_PLACES; i++)
    {
      g_autoptr (GBytes) bytes = NULL;

      text[place (i)] = 'y';
      bytes = g_bytes_new (text, LENGTH);
      {
        TUPLE (with_string, tarn_memo_key_integer (1), tarn_memo_key_string (text));
        TUPLE (with_bytes, tarn_memo_key_integer (1), tarn_memo_key_bytes (bytes));

        g_assert_cmpuint (number_of (memo, &with_string), ==, ++expected);
        g_assert_cmpuint (number_of (memo, &with_bytes), ==, ++expected);
        g_assert_cmpuint (number_of (memo, &with_string), ==, expected - 1);
      }
      text[place (i)] = 'x';
    }
}

/* A tuple's own functions */

static void
assert_equal (const TarnMemoKeyTuple *a, const TarnMemoKeyTuple *b)
{
  g_assert_true (tarn_memo_key_tuple_equal (a, b));
  g_assert_true (tarn_memo_key_tuple_equal (b, a));
  g_assert_cmpuint (tarn_memo_key_tuple_hash (a), ==, tarn_memo_key_tuple_hash (b));
}

static void
test_tuple_equal (void)
{
  g_autofree gchar *copy = g_strdup ("string");
  g_autoptr (GBytes) bytes = g_bytes_new ("bytes", 5);
  g_autoptr (GBytes) same_bytes = g_bytes_new ("bytes", 5);
  TUPLE (a, tarn_memo_key_string ("string"), tarn_memo_key_bytes (bytes),
         tarn_memo_key_pointer (copy));
  TUPLE (b, tarn_memo_key_string (copy), tarn_memo_key_bytes (same_bytes),
         tarn_memo_key_pointer (copy));
  TUPLE (c, tarn_memo_key_string (copy), tarn_memo_key_bytes (same_bytes),
         tarn_memo_key_pointer (bytes));
  TUPLE (d, tarn_memo_key_string (copy), tarn_memo_key_bytes (NULL), tarn_memo_key_pointer (copy));
  const TarnMemoKeyTuple empty = { NULL, 0 }, also_empty = { a_parts, 0 };

  assert_equal (&a, &a);
  assert_equal (&a, &b);
  assert_equal (&empty, &also_empty);
  g_assert_false (tarn_memo_key_tuple_equal (&a, &c));
  g_assert_false (tarn_memo_key_tuple_equal (&a, &d));
  g_assert_false (tarn_memo_key_tuple_equal (&d, &a));
  g_assert_false (tarn_memo_key_tuple_equal (&a, &empty));
  g_assert_false (tarn_memo_key_tuple_equal (&empty, &a));
}

static void
test_tuple_copy (void)
{
  gchar string[] = "string";
  guint n_freed = 0;
  GBytes *bytes = g_bytes_new_with_free_func (string, 0, count_free, &n_freed);
  TUPLE (tuple, tarn_memo_key_integer (-5), tarn_memo_key_string (string),
         tarn_memo_key_bytes (bytes), tarn_memo_key_pointer (string), tarn_memo_key_string (NULL),
         tarn_memo_key_bytes (NULL));
  TarnMemoKeyTuple *copy = tarn_memo_key_tuple_copy (&tuple), *copy_of_copy;

  assert_equal (&tuple, copy);
  g_assert_true (copy->parts != tuple.parts);
  g_assert_cmpuint (copy->n_parts, ==, 6);
  g_assert_true (copy->parts[1].value.string != string);
  g_assert_true (copy->parts[3].value.pointer == string);
  copy_of_copy = tarn_memo_key_tuple_copy (copy);
  assert_equal (copy, copy_of_copy);
  tarn_memo_key_tuple_free (copy);
  assert_equal (&tuple, copy_of_copy);
  string[0] = 'S';
  g_assert_false (tarn_memo_key_tuple_equal (&tuple, copy_of_copy));
  g_assert_cmpstr (copy_of_copy->parts[1].value.string, ==, "string");

  g_bytes_unref (bytes);
  g_assert_cmpuint (n_freed, ==, 0);
  g_assert_true (copy_of_copy->parts[2].value.bytes == bytes);
  tarn_memo_key_tuple_free (copy_of_copy);
  g_assert_cmpuint (n_freed, ==, 1);
}

static void
test_tuple_copy_empty (void)
{
  const TarnMemoKeyTuple empty = { NULL, 0 };
  g_autoptr (TarnMemoKeyTuple) copy = tarn_memo_key_tuple_copy (&empty);

  g_assert_cmpuint (copy->n_parts, ==, 0);
  assert_equal (&empty, copy);
  tarn_memo_key_tuple_free (NULL);
}

/* That order matters, and every part does: small numbers are what keys are made of. */
static void
test_tuple_hash (void)
{
  g_autoptr (GHashTable) hashes = g_hash_table_new (NULL, NULL);

  for (gint64 i = 0; i < 100; i++)
    for (gint64 j = 0; j < 100; j++)
      {
        TUPLE (tuple, tarn_memo_key_integer (i), tarn_memo_key_integer (j));

        g_hash_table_add (hashes, GUINT_TO_POINTER (tarn_memo_key_tuple_hash (&tuple)));
      }
  g_assert_cmpuint (g_hash_table_size (hashes), >, 5000);
}

/* Custom keys: equal where their first numbers are. */

typedef struct
{
  guint number, unused;
} Key;

static guint n_copies, n_key_frees;

static guint
key_hash (gconstpointer key)
{
  return ((const Key *) key)->number % 3; /* many are of one hash */
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  return ((const Key *) a)->number == ((const Key *) b)->number;
}

static gpointer
key_copy (gconstpointer key)
{
  Key *copy = g_new (Key, 1);

  *copy = *(const Key *) key;
  n_copies++;
  return copy;
}

static void
key_free (gpointer key)
{
  memset (key, 0xff, sizeof (Key));
  n_key_frees++;
  g_free (key);
}

static void
test_custom (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  TarnMemo *memo;

  n_copies = n_key_frees = 0;
  ops.hash = key_hash;
  ops.equal = key_equal;
  ops.copy_key = key_copy;
  ops.free_key = key_free;
  memo = tarn_memo_new (&ops, compute_number, g_new0 (guint, 1), g_free);
  for (guint round = 0; round < 3; round++)
    for (guint i = 0; i < 50; i++)
      {
        Key key = { i, round };

        g_assert_cmpuint (number_of (memo, &key), ==, i + 1);
        key.number = 1000;
      }
  g_assert_cmpuint (n_copies - n_key_frees, ==, 50);
  tarn_memo_clear (memo);
  g_assert_cmpuint (n_copies, ==, n_key_frees);
  g_assert_cmpuint (number_of (memo, &(Key){ 7, 7 }), ==, 51);
  tarn_memo_unref (memo);
  g_assert_cmpuint (n_copies, ==, n_key_frees);
}

/* Keys that the caller keeps where they are. */
static void
test_custom_not_copied (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  const Key keys[] = { { 1, 1 }, { 2, 2 }, { 4, 4 }, { 1, 3 } };

  ops.hash = key_hash;
  ops.equal = key_equal;
  memo = tarn_memo_new (&ops, compute_number, g_new0 (guint, 1), g_free);
  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of (memo, &keys[0]), ==, 1);
      g_assert_cmpuint (number_of (memo, &keys[1]), ==, 2);
      g_assert_cmpuint (number_of (memo, &keys[2]), ==, 3);
      g_assert_cmpuint (number_of (memo, &keys[3]), ==, 1);
    }
}

/* Without functions it is the address that counts. */
static void
test_pointer (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_CUSTOM);
  Key keys[] = { { 1, 1 }, { 1, 1 } };

  for (guint round = 0; round < 2; round++)
    {
      g_assert_cmpuint (number_of (memo, &keys[0]), ==, 1);
      g_assert_cmpuint (number_of (memo, &keys[1]), ==, 2);
      g_assert_cmpuint (number_of (memo, NULL), ==, 3);
      keys[0].number++;
    }
}

/* What the computation is given is the caller's key, in place. */

static gpointer
compute_key (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) user_data;
  (void) error;
  return (gpointer) key;
}

static void
test_given_key (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  const gchar key[] = "key";
  gpointer value;

  ops.key_type = TARN_MEMO_KEY_STRING;
  memo = tarn_memo_new (&ops, compute_key, NULL, NULL);
  g_assert_true (tarn_memo_get (memo, NULL, key, &value, NULL));
  g_assert_true (value == key);
}

/* Keys that are none */

static void
assert_refused (TarnMemo *memo, gconstpointer key, const gchar *pattern)
{
  gpointer value = &value;

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, pattern);
  g_assert_false (tarn_memo_get (memo, NULL, key, &value, NULL));
  g_test_assert_expected_messages ();
  g_assert_true (value == &value);
  assert_entries (memo, 0);
  assert_calls (memo, 0, 0, 0);
}

static void
test_null_key (void)
{
  for (guint type = TARN_MEMO_KEY_STRING; type <= TARN_MEMO_KEY_STRUCT; type++)
    {
      g_autoptr (TarnMemo) memo = memo_new (type);

      assert_refused (memo, NULL, "*key != NULL*");
    }
}

static void
test_tuple_unfit (void)
{
  g_autoptr (TarnMemo) memo = memo_new (TARN_MEMO_KEY_TUPLE);
  TarnMemoKeyPart parts[] = { tarn_memo_key_integer (1), tarn_memo_key_integer (2) };
  const TarnMemoKeyTuple key = { parts, 2 }, nothing = { NULL, 2 };

  parts[1].type = (TarnMemoKeyPartType) (TARN_MEMO_KEY_PART_POINTER + 1);
  assert_refused (memo, &key, "a part of a tuple is of type 4, which there is not");
  parts[1].type = (TarnMemoKeyPartType) -1;
  assert_refused (memo, &key, "a part of a tuple is of type -1, which there is not");
  assert_refused (memo, &nothing, "*parts != NULL*");
  parts[1].type = TARN_MEMO_KEY_PART_POINTER;
  g_assert_cmpuint (number_of (memo, &key), ==, 1);
}

/* As custom ones but for NULL. */
static void
test_struct (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;

  n_copies = n_key_frees = 0;
  ops.key_type = TARN_MEMO_KEY_STRUCT;
  ops.hash = key_hash;
  ops.equal = key_equal;
  ops.copy_key = key_copy;
  ops.free_key = key_free;
  memo = tarn_memo_new (&ops, compute_number, g_new0 (guint, 1), g_free);
  assert_refused (memo, NULL, "*key != NULL*");
  g_assert_cmpuint (number_of (memo, &(Key){ 7, 1 }), ==, 1);
  g_assert_cmpuint (number_of (memo, &(Key){ 8, 1 }), ==, 2);
  g_assert_cmpuint (number_of (memo, &(Key){ 7, 2 }), ==, 1);
  tarn_memo_clear (memo);
  g_assert_cmpuint (n_copies, >=, 2);
  g_assert_cmpuint (n_copies, ==, n_key_frees);
}

int
main (int argc, char **argv)
{
#define ADD(path, func) g_test_add_func ("/core/memo/keys/" path, func)
  g_test_init (&argc, &argv, NULL);
  watch (300);
  ADD ("string", test_string);
  ADD ("string-freed", test_string_freed);
  ADD ("long-string", test_long_string);
  ADD ("int64", test_int64);
  ADD ("bytes", test_bytes);
  ADD ("long-bytes", test_long_bytes);
  ADD ("bytes-freed", test_bytes_freed);
  ADD ("tuple-strings", test_tuple_strings);
  ADD ("tuple-types", test_tuple_types);
  ADD ("tuple-lengths", test_tuple_lengths);
  ADD ("tuple-kept", test_tuple_kept);
  ADD ("long-tuple", test_long_tuple);
  ADD ("tuple-equal", test_tuple_equal);
  ADD ("tuple-copy", test_tuple_copy);
  ADD ("tuple-copy-empty", test_tuple_copy_empty);
  ADD ("tuple-hash", test_tuple_hash);
  ADD ("tuple-unfit", test_tuple_unfit);
  ADD ("null-key", test_null_key);
  ADD ("struct", test_struct);
  ADD ("custom", test_custom);
  ADD ("custom-not-copied", test_custom_not_copied);
  ADD ("pointer", test_pointer);
  ADD ("given-key", test_given_key);
  return g_test_run ();
}
