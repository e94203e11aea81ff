/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Memos: functions whose results are cached for a context, a queue, a device.
 */

#ifndef TARN_MEMO_H
#define TARN_MEMO_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * A function whose results are cached, for a first argument and a key. The first argument is, for
 * example, a context. A memo keeps a result, and returns it again, until the program makes it
 * forget the first argument. A memo is reference-counted. Any function of a memo may be called from
 * any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnMemo TarnMemo;

/**
 * The function of a memo, which computes a value. The first thread that requests an entry calls
 * this function, and holds no lock meanwhile. Other threads that request the same entry wait. The
 * function may request other entries, from any memo. It must return: if a thread leaves it by
 * pthread_exit(), longjmp() or cancellation, the other threads wait for ever. The same holds for
 * the functions of TarnMemoOps.
 *
 * @param first_arg  the argument of tarn_memo_get(), or the current first argument if that argument
 *                   was NULL
 * @param key        the argument of tarn_memo_get(), which belongs to its caller
 * @param user_data  the data that tarn_memo_new() got
 * @param error      if there is no value, set it and return NULL: the memo then keeps nothing
 * @return (transfer full): the value. If no error is set, NULL is a value, too.
 * @since 0.1
 */
typedef gpointer (*TarnMemoFunc) (gpointer first_arg, gconstpointer key, gpointer user_data,
                                  GError **error);

/* Keys */

/**
 * The type of a part (one value) of a tuple.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_MEMO_KEY_PART_INTEGER, /**< a number: see tarn_memo_key_integer() */
  TARN_MEMO_KEY_PART_STRING,  /**< characters: tarn_memo_key_string() */
  TARN_MEMO_KEY_PART_BYTES,   /**< bytes: tarn_memo_key_bytes() */
  TARN_MEMO_KEY_PART_POINTER  /**< an address: see tarn_memo_key_pointer() */
} TarnMemoKeyPartType;

/**
 * The value of a part of a tuple, by the part's type.
 *
 * @since 0.1
 */
typedef union
{
  gint64 integer;        /**< for TARN_MEMO_KEY_PART_INTEGER */
  const gchar *string;   /**< for TARN_MEMO_KEY_PART_STRING; nullable */
  GBytes *bytes;         /**< for TARN_MEMO_KEY_PART_BYTES; nullable */
  gconstpointer pointer; /**< for TARN_MEMO_KEY_PART_POINTER; nullable */
} TarnMemoKeyPartValue;

/**
 * A part (one value) of a tuple. It owns nothing. Functions such as tarn_memo_key_integer() make
 * it.
 *
 * @since 0.1
 */
typedef struct
{
  TarnMemoKeyPartType type;   /**< the member of value that is set */
  TarnMemoKeyPartValue value; /**< the value */
} TarnMemoKeyPart;

/**
 * A key of several values. A tuple that the caller fills owns nothing; a memo copies it.
 *
 * @since 0.1
 */
typedef struct
{
  const TarnMemoKeyPart *parts; /**< an array; nullable if there are none */
  gsize n_parts;                /**< how many */
} TarnMemoKeyTuple;

/**
 * Makes a part of a tuple from a number.
 *
 * @param integer  the number
 * @return the part, which owns nothing; any thread may call it
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
 * Makes a part of a tuple from a string. Parts with the same characters are equal.
 *
 * @param string  nullable; the part does not copy it, but tarn_memo_key_tuple_copy() does
 * @return the part, valid as long as @p string; any thread may call it
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
 * Makes a part of a tuple from bytes. Parts with the same content are equal.
 *
 * @param bytes  nullable; the part takes no reference, but tarn_memo_key_tuple_copy() does
 * @return the part, valid as long as @p bytes; any thread may call it
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
 * Makes a part of a tuple from a pointer. Parts with the same address are equal, whatever is stored
 * there.
 *
 * @param pointer  nullable; the data there is neither read nor kept alive
 * @return the part, which owns nothing; any thread may call it
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

/**
 * Hashes a TarnMemoKeyTuple: a GHashFunc.
 *
 * @param tuple  a TarnMemoKeyTuple
 * @return the same for equal tuples; any thread may call it
 * @since 0.1
 */
guint tarn_memo_key_tuple_hash (gconstpointer tuple);

/**
 * Compares two tuples: a GEqualFunc. They are equal if they have equal parts of equal types in the
 * same order.
 *
 * @param a  a TarnMemoKeyTuple
 * @param b  a TarnMemoKeyTuple
 * @return TRUE if they are equal; any thread may call it
 * @since 0.1
 */
gboolean tarn_memo_key_tuple_equal (gconstpointer a, gconstpointer b);

/**
 * Copies a tuple. The copy has its own strings, and references to bytes.
 *
 * @param tuple  a TarnMemoKeyTuple
 * @return (transfer full): a TarnMemoKeyTuple, for tarn_memo_key_tuple_free(); any thread may call
 *         it
 * @since 0.1
 */
gpointer tarn_memo_key_tuple_copy (gconstpointer tuple) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Frees a copy of a tuple.
 *
 * @param tuple  from tarn_memo_key_tuple_copy(); NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_memo_key_tuple_free (gpointer tuple);

/**
 * The type of a memo's keys. A memo copies the keys that it stores, if it knows their type. If a
 * key is a GBytes, the memo takes a reference instead. Only a TARN_MEMO_KEY_CUSTOM may be NULL.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_MEMO_KEY_CUSTOM, /**< any type, by the functions in TarnMemoOps; without them, pointers */
  TARN_MEMO_KEY_STRING, /**< strings, const gchar *: their characters are compared */
  TARN_MEMO_KEY_INT64,  /**< numbers, const gint64 * */
  TARN_MEMO_KEY_BYTES,  /**< bytes, GBytes *: their content is compared */
  TARN_MEMO_KEY_TUPLE,  /**< several values, const TarnMemoKeyTuple * */
  TARN_MEMO_KEY_STRUCT  /**< a struct of the program, by the functions in TarnMemoOps; never NULL */
} TarnMemoKeyType;

/**
 * The functions of a memo for first arguments, keys and values. Each may be NULL. Several threads
 * may call it at once; user_data is the data that tarn_memo_new() got. The memo calls hash, equal
 * and ref_value during a lookup, so these three must neither call Tarn nor wait. The other
 * functions may do both.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoOps), as TARN_MEMO_OPS_INIT sets it */

  /** The kind of first arguments, such as "cuda-context": see tarn_memo_clear_kind(). Nullable;
   * copied. */
  const gchar *first_arg_kind;

  /** The most entries that are kept for one first argument; 0: no limit. If there would be more,
   * the memo drops the least recently used entry. */
  guint max_entries;

  /** Nullable. Another memo, from which the function of this memo gets values. When the program
   * makes this memo forget something, the upstream memo then forgets it, too. */
  TarnMemo *upstream;

  /** The type of keys. The next four members are only for TARN_MEMO_KEY_CUSTOM and
   * TARN_MEMO_KEY_STRUCT. */
  TarnMemoKeyType key_type;

  GHashFunc hash;   /**< hashes a key; NULL: the pointer is hashed */
  GEqualFunc equal; /**< compares two keys; NULL: the pointers are compared */

  /** Copies a key that the memo keeps; NULL: the memo keeps the pointer. */
  gpointer (*copy_key) (gconstpointer key);

  /** Frees a copy that copy_key made. */
  void (*free_key) (gpointer key);

  /** Takes a reference to a value and returns it. Returns NULL if that is not possible:
   * tarn_memo_get() then fails with TARN_ERROR_FAILED. If this function is set, the caller of
   * tarn_memo_get() owns a reference to the value. If not, the value is valid until the memo
   * forgets it. */
  gpointer (*ref_value) (gpointer user_data, gpointer value);

  /** Releases a value, or a reference to it. The memo's function, ref_value or value_for_thread has
   * returned the value, which is never NULL. If @p is_dead is TRUE, the first argument was
   * destroyed (see first_arg_id), and the function must not call the driver for it. */
  void (*unref_value) (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead);

  /** Takes a reference to a first argument, and returns it. The memo keeps the reference as long as
   * it has an entry for this first argument. Returns NULL if that is not possible: then the memo
   * keeps no such entry. If the memo has unref_value and no ref_value, tarn_memo_get() then fails
   * with TARN_ERROR_FAILED. */
  gpointer (*ref_first_arg) (gpointer user_data, gpointer first_arg);

  /** Releases a reference that ref_first_arg took. */
  void (*unref_first_arg) (gpointer user_data, gpointer first_arg);

  /** Gets the unique ID of a first argument, or 0 if the first argument was destroyed. An ID is
   * never used again. Set this function for first arguments that have no references: a later first
   * argument may get the address of a destroyed one, and the ID tells the two apart. When the memo
   * computes a value for the later first argument, it drops the entries of the destroyed one. */
  guint64 (*first_arg_id) (gpointer user_data, gpointer first_arg);

  /** Gets the first argument that NULL stands for, such as the current context. Returns NULL with
   * an error if there is none. */
  gpointer (*current_first_arg) (gpointer user_data, GError **error);

  /** Makes the calling thread's own value from @p value, if each thread needs its own. Returns NULL
   * with an error on failure. A memo with this function also needs ref_value and unref_value. When
   * a thread ends, a later thread gets its value. If a thread that is ending asks for a value, in a
   * destructor of thread-specific data, the memo does not keep the thread's own value. */
  gpointer (*value_for_thread) (gpointer user_data, gpointer value, gpointer first_arg,
                                gconstpointer key, GError **error);
} TarnMemoOps;

/**
 * A TarnMemoOps without any function. It names every field, so compilers do not warn about it with
 * -Wextra -pedantic, in C and C++.
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
 * The counters of a memo. Every call of tarn_memo_get() is counted once: as a hit, a miss or a
 * wait.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoStats), as TARN_MEMO_STATS_INIT sets it */

  gsize entries;     /**< entries that are kept */
  guint64 hits;      /**< calls that a kept entry served */
  guint64 misses;    /**< calls that computed a value */
  guint64 waits;     /**< calls that waited for the same computation in another call, or failed with
                        TARN_ERROR_RECURSION */
  guint64 failures;  /**< computations that ended in an error */
  guint64 evictions; /**< entries dropped because there were more than max_entries */
  gdouble compute_seconds; /**< the time spent in all computations together */
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

/**
 * Makes a memoized function.
 *
 * The memo keeps values until the program calls tarn_memo_forget(), tarn_memo_clear() or a function
 * that does this in all memos, or until the last reference to the memo is released. It keeps
 * references to first arguments as long, so a context lives until the memo forgets it. Make the
 * memo forget a context before you release your own last reference. At exit, the memo releases
 * nothing, because the driver may be gone already. If the values must be released, clear the memo
 * before that.
 *
 * @param ops        nullable: first arguments, keys and values are then pointers without an owner;
 *                   copied
 * @param func       computes a value
 * @param user_data  an argument of @p func and of the functions in @p ops
 * @param destroy    nullable: the memo calls it once with @p user_data, after it has released
 *                   everything else
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                         GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference to a memo.
 *
 * @param memo  a memo; any thread may call it
 * @return (transfer full): @p memo
 * @since 0.1
 */
TarnMemo *tarn_memo_ref (TarnMemo *memo);

/**
 * Releases a reference to a memo. The last release frees all entries; a call that computes or waits
 * meanwhile has a reference, too. In a child of fork () it does nothing.
 *
 * @param memo  a memo; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_memo_unref (TarnMemo *memo);

/**
 * Gets the value of a memo for a first argument and a key. If the memo has no such entry, it calls
 * its function to compute the value. Other threads that ask for this entry meanwhile wait, and get
 * the same value or the same error. Threads that ask for other entries do not wait. The memo does
 * not keep an error, but it does keep NULL as a value.
 *
 * If a computation asks for its own entry, also through other entries and other threads, that
 * request fails with TARN_ERROR_RECURSION.
 *
 * @param memo       a memo, to which the caller or a call in progress has a reference
 * @param first_arg  the first argument, alive during the call. NULL stands for the current first
 *                   argument, such as the current context, if the memo has current_first_arg. Memos
 *                   of OpenCL refuse NULL. For other memos, NULL is a first argument like any
 *                   other.
 * @param key        the key. It may be NULL only with TARN_MEMO_KEY_CUSTOM, where NULL is a key
 *                   like any other. Each part of a tuple must have a known type. For a key that
 *                   breaks these rules, the call is a programming error, and returns FALSE.
 * @param value      out, nullable: the value. If the memo has ref_value, the caller owns a
 *                   reference to it; if not, the value is valid until the memo forgets it.
 * @param error      return location, or NULL: the function's error; TARN_ERROR_RECURSION;
 *                   TARN_ERROR_FAILED if the memo cannot give the value: see ref_value,
 *                   ref_first_arg and tarn_memo_forget(); TARN_ERROR_CONTEXT_LOST for a first
 *                   argument that was destroyed, if the memo can detect that; TARN_ERROR_FORKED in
 *                   a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_memo_get (TarnMemo *memo, gpointer first_arg, gconstpointer key, gpointer *value,
                        GError **error);

/**
 * Forgets a memo's entries for a first argument. If the memo has an upstream memo, that memo
 * forgets its entries, too. Meanwhile threads may have computed new entries from those of the
 * upstream memo; this memo then forgets the new entries. If a thread is computing a value, the
 * threads that wait for the value get it, but the memo does not keep it. If the memo has
 * unref_value and no ref_value, it releases the value at once, and these threads get
 * TARN_ERROR_FAILED. Afterwards the memo has no reference to the first argument or its values,
 * except those of calls in progress. In a child of fork () the function does nothing.
 *
 * @param memo       a memo; any thread may call it
 * @param first_arg  the first argument. NULL stands for the current one if the memo has
 *                   current_first_arg.
 * @since 0.1
 */
void tarn_memo_forget (TarnMemo *memo, gpointer first_arg);

/**
 * Forgets everything that a memo keeps: tarn_memo_forget() for all first arguments.
 *
 * @param memo  a memo; any thread may call it
 * @since 0.1
 */
void tarn_memo_clear (TarnMemo *memo);

/**
 * Stores the counters of a memo. They are exact while no call is in progress. In a child of fork ()
 * all of them are 0.
 *
 * @param memo   a memo; any thread may call it
 * @param stats  out: start from TARN_MEMO_STATS_INIT, whose struct_size says how many bytes are
 *               filled
 * @since 0.1
 */
void tarn_memo_get_stats (TarnMemo *memo, TarnMemoStats *stats);

/**
 * Makes every memo of the process forget a first argument. Each memo acts as in tarn_memo_forget().
 * Call this before you destroy a context, or release the last reference to it.
 *
 * @param first_arg  the first argument; any thread may call it
 * @since 0.1
 */
void tarn_memo_forget_everywhere (gpointer first_arg);

/**
 * Clears every memo whose first arguments are of one kind. It calls tarn_memo_clear() for each.
 *
 * @param kind  a kind, as in TarnMemoOps.first_arg_kind; any thread may call it
 * @since 0.1
 */
void tarn_memo_clear_kind (const gchar *kind);

/**
 * Clears every memo of the process, as tarn_memo_clear() does. PyOpenCL calls this
 * clear_first_arg_caches(). Call it at the end of a program that has to release all objects of its
 * driver. Any thread may call it.
 *
 * @since 0.1
 */
void tarn_memo_clear_all (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnMemo, tarn_memo_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnMemoKeyTuple, tarn_memo_key_tuple_free)

G_END_DECLS

#endif
