/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Memos: functions whose results are kept for a context, a queue, a device.
 */

#ifndef TARN_MEMO_H
#define TARN_MEMO_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * A memoized function: of a first argument, such as a context, and a key. What it gave is kept, and
 * given again, until the first argument is forgotten. Reference-counted. Any function of a memo may
 * be called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnMemo TarnMemo;

/**
 * Computes the value of an entry. It is called with no lock held, by the thread that asks first,
 * while others that ask for the same entry wait. It may ask any memo for another entry.
 *
 * @param first_arg  what tarn_memo_get() was given, or what stood for NULL
 * @param key        the caller's
 * @param user_data  as given to tarn_memo_new()
 * @param error      set it, and return NULL, if there is no value: nothing is kept then
 * @return (transfer full): the value; NULL is one, if no error is set
 * @since 0.1
 */
typedef gpointer (*TarnMemoFunc) (gpointer first_arg, gconstpointer key, gpointer user_data,
                                  GError **error);

/* Keys */

/**
 * What a value of a tuple is.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_MEMO_KEY_PART_INTEGER, /**< a number: tarn_memo_key_integer() */
  TARN_MEMO_KEY_PART_STRING,  /**< characters: tarn_memo_key_string() */
  TARN_MEMO_KEY_PART_BYTES,   /**< bytes: tarn_memo_key_bytes() */
  TARN_MEMO_KEY_PART_POINTER  /**< an address: tarn_memo_key_pointer() */
} TarnMemoKeyPartType;

/**
 * One value of a tuple: see tarn_memo_key_integer() and its like. It owns nothing.
 *
 * @since 0.1
 */
typedef struct
{
  TarnMemoKeyPartType type; /**< which one of value's is set */
  union
  {
    gint64 integer;        /**< of TARN_MEMO_KEY_PART_INTEGER */
    const gchar *string;   /**< of TARN_MEMO_KEY_PART_STRING; nullable */
    GBytes *bytes;         /**< of TARN_MEMO_KEY_PART_BYTES; nullable */
    gconstpointer pointer; /**< of TARN_MEMO_KEY_PART_POINTER; nullable */
  } value;                 /**< the value itself */
} TarnMemoKeyPart;

/**
 * A key of several values. What is filled by hand owns nothing; a memo copies it.
 *
 * @since 0.1
 */
typedef struct
{
  const TarnMemoKeyPart *parts; /**< an array; nullable if there are none */
  gsize n_parts;                /**< how many */
} TarnMemoKeyTuple;

/**
 * A number as a value of a tuple.
 *
 * @param integer  the number
 * @return the value, which owns nothing; any thread may call it
 * @since 0.1
 */
static inline TarnMemoKeyPart
tarn_memo_key_integer (gint64 integer)
{
  TarnMemoKeyPart part;

  part.type = TARN_MEMO_KEY_PART_INTEGER;
  part.value.integer = integer;
  return part;
}

/**
 * A string as a value of a tuple: its characters are compared.
 *
 * @param string  nullable; not copied here, but with the tuple
 * @return the value, valid as long as @p string; any thread may call it
 * @since 0.1
 */
static inline TarnMemoKeyPart
tarn_memo_key_string (const gchar *string)
{
  TarnMemoKeyPart part;

  part.type = TARN_MEMO_KEY_PART_STRING;
  part.value.string = string;
  return part;
}

/**
 * Bytes as a value of a tuple: their content is compared.
 *
 * @param bytes  nullable; not referenced here, but with the tuple
 * @return the value, valid as long as @p bytes; any thread may call it
 * @since 0.1
 */
static inline TarnMemoKeyPart
tarn_memo_key_bytes (GBytes *bytes)
{
  TarnMemoKeyPart part;

  part.type = TARN_MEMO_KEY_PART_BYTES;
  part.value.bytes = bytes;
  return part;
}

/**
 * A pointer as a value of a tuple: the address is compared, not what is there.
 *
 * @param pointer  nullable; nothing there is looked at or kept alive
 * @return the value, which owns nothing; any thread may call it
 * @since 0.1
 */
static inline TarnMemoKeyPart
tarn_memo_key_pointer (gconstpointer pointer)
{
  TarnMemoKeyPart part;

  part.type = TARN_MEMO_KEY_PART_POINTER;
  part.value.pointer = pointer;
  return part;
}

guint tarn_memo_key_tuple_hash (gconstpointer tuple);
gboolean tarn_memo_key_tuple_equal (gconstpointer a, gconstpointer b);
gpointer tarn_memo_key_tuple_copy (gconstpointer tuple);
void tarn_memo_key_tuple_free (gpointer tuple);

/**
 * What the keys of a memo are. Those of a known type are copied when they are kept, bytes
 * referenced.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_MEMO_KEY_CUSTOM, /**< what the functions say; without them, the pointer itself */
  TARN_MEMO_KEY_STRING, /**< const gchar * */
  TARN_MEMO_KEY_INT64,  /**< const gint64 * */
  TARN_MEMO_KEY_BYTES,  /**< GBytes * */
  TARN_MEMO_KEY_TUPLE   /**< const TarnMemoKeyTuple * */
} TarnMemoKeyType;

/**
 * What a memo's first arguments, keys and values are. Every function is nullable, and may be called
 * by several threads at once; user_data is what tarn_memo_new() was given. hash, equal and
 * ref_value are called in the midst of a lookup: they must not call Tarn, nor wait. All others may.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoOps), as TARN_MEMO_OPS_INIT sets it */

  /** What first arguments are, such as "cuda-context": for tarn_memo_clear_kind(). Copied. */
  const gchar *first_arg_kind;

  /** The most entries of one first argument; the one not asked for the longest goes. 0: no limit.
   */
  guint max_entries;

  /** A memo that the computation asks: what is forgotten here is then forgotten there. */
  TarnMemo *upstream;

  TarnMemoKeyType key_type; /**< what keys are; the next four are of TARN_MEMO_KEY_CUSTOM only */

  GHashFunc hash;   /**< of keys, the same for equal ones; NULL: of the pointer */
  GEqualFunc equal; /**< of keys; NULL: the pointers are compared */

  /** A copy to be kept; NULL: the pointer is kept. */
  gpointer (*copy_key) (gconstpointer key);

  /** Frees what copy_key gave. */
  void (*free_key) (gpointer key);

  /** With it, tarn_memo_get() gives a reference that is the caller's; without, a value is valid
   * until it is forgotten. NULL: it cannot be referenced, which is TARN_ERROR_FAILED. */
  gpointer (*ref_value) (gpointer user_data, gpointer value);

  /** Gives back what the computation, ref_value or value_for_thread gave; never called with NULL.
   * Where the first argument @p is_dead (see first_arg_id) its driver must not be called. */
  void (*unref_value) (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead);

  /** The first argument; NULL: it cannot be referenced, and nothing is kept for it. */
  gpointer (*ref_first_arg) (gpointer user_data, gpointer first_arg);

  /** Gives back what ref_first_arg gave. */
  void (*unref_first_arg) (gpointer user_data, gpointer first_arg);

  /** What tells a first argument from a later one at its address, where it cannot be referenced: a
   * number that is never given twice; 0 for one that is dead. What is kept for one that is dead
   * goes when something is computed for a later one at its address. */
  guint64 (*first_arg_id) (gpointer user_data, gpointer first_arg);

  /** What a first argument of NULL stands for, such as the current context; NULL with an error. */
  gpointer (*current_first_arg) (gpointer user_data, GError **error);

  /** What a thread gets in place of @p value, where each needs its own of: NULL with an error.
   * Needs ref_value and unref_value. One whose thread has ended is given to a thread that comes
   * later. */
  gpointer (*value_for_thread) (gpointer user_data, gpointer value, gpointer first_arg,
                                gconstpointer key, GError **error);
} TarnMemoOps;

/**
 * A TarnMemoOps with nothing in it. It names every field, so that it is silent under -Wextra
 * -pedantic in C and C++.
 *
 * @since 0.1
 */
#define TARN_MEMO_OPS_INIT                                                                         \
  {                                                                                                \
    sizeof (TarnMemoOps),     /* struct_size */                                                    \
        NULL,                 /* first_arg_kind */                                                 \
        0,                    /* max_entries */                                                    \
        NULL,                 /* upstream */                                                       \
        TARN_MEMO_KEY_CUSTOM, /* key_type */                                                       \
        NULL,                 /* hash */                                                           \
        NULL,                 /* equal */                                                          \
        NULL,                 /* copy_key */                                                       \
        NULL,                 /* free_key */                                                       \
        NULL,                 /* ref_value */                                                      \
        NULL,                 /* unref_value */                                                    \
        NULL,                 /* ref_first_arg */                                                  \
        NULL,                 /* unref_first_arg */                                                \
        NULL,                 /* first_arg_id */                                                   \
        NULL,                 /* current_first_arg */                                              \
        NULL                  /* value_for_thread */                                               \
  }

/**
 * Counters of a memo. Every call of tarn_memo_get() is counted once: as a hit, a miss or a wait.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoStats), as TARN_MEMO_STATS_INIT sets it */

  gsize entries;           /**< that are kept */
  guint64 hits;            /**< calls that a kept entry served */
  guint64 misses;          /**< calls that computed */
  guint64 waits;           /**< calls that waited for another one's computation, or were refused
                                because it could not end before they did */
  guint64 failures;        /**< computations that ended in an error */
  guint64 evictions;       /**< entries that went because there were max_entries */
  gdouble compute_seconds; /**< spent in all computations together */
} TarnMemoStats;

/**
 * A TarnMemoStats to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_MEMO_STATS_INIT                                                                       \
  {                                                                                                \
    sizeof (TarnMemoStats), /* struct_size */                                                      \
        0,                  /* entries */                                                          \
        0,                  /* hits */                                                             \
        0,                  /* misses */                                                           \
        0,                  /* waits */                                                            \
        0,                  /* failures */                                                         \
        0,                  /* evictions */                                                        \
        0                   /* compute_seconds */                                                  \
  }

TarnMemo *tarn_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                         GDestroyNotify destroy);
TarnMemo *tarn_memo_ref (TarnMemo *memo);
void tarn_memo_unref (TarnMemo *memo);

gboolean tarn_memo_get (TarnMemo *memo, gpointer first_arg, gconstpointer key, gpointer *value,
                        GError **error);
void tarn_memo_forget (TarnMemo *memo, gpointer first_arg);
void tarn_memo_clear (TarnMemo *memo);
void tarn_memo_get_stats (TarnMemo *memo, TarnMemoStats *stats);

void tarn_memo_forget_everywhere (gpointer first_arg);
void tarn_memo_clear_kind (const gchar *kind);
void tarn_memo_clear_all (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnMemo, tarn_memo_unref)

G_END_DECLS

#endif
