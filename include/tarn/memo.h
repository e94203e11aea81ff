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
 * A function whose results are cached, for a first argument and a key. The first argument is a
 * context, say. A memo keeps a result, and returns it again, until the program makes it forget the
 * first argument. A memo is reference-counted. Any function of a memo may be called from any thread
 * at any time.
 *
 * @since 0.1
 */
typedef struct _TarnMemo TarnMemo;

/**
 * The function of a memo, which computes a value. The first thread that asks for an entry calls it,
 * with no lock held, while other threads that ask for the same entry wait. It may ask any memo for
 * another entry. It must return: a thread that leaves it by pthread_exit (), longjmp () or
 * cancellation leaves the entry being computed, so that others wait for ever. The same holds for
 * the functions of TarnMemoOps.
 *
 * @param first_arg  as given to tarn_memo_get(), or the current one if that was NULL
 * @param key        as given to tarn_memo_get(); it belongs to that function's caller
 * @param user_data  as given to tarn_memo_new()
 * @param error      set it, and return NULL, if there is no value: the memo then keeps nothing
 * @return (transfer full): the value; NULL is one, if no error is set
 * @since 0.1
 */
typedef gpointer (*TarnMemoFunc) (gpointer first_arg, gconstpointer key, gpointer user_data,
                                  GError **error);

/* Keys */

/**
 * The types of a value of a tuple.
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
 * The value itself of a part of a tuple.
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
 * One value of a tuple: see tarn_memo_key_integer() and its like. It owns nothing.
 *
 * @since 0.1
 */
typedef struct
{
  TarnMemoKeyPartType type;   /**< tells which member of value is set */
  TarnMemoKeyPartValue value; /**< the value itself */
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
 * Makes a value of a tuple from a number.
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
 * Makes a value of a tuple from a string. Its characters are compared.
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
 * Makes a value of a tuple from bytes. Their content is compared.
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
 * Makes a value of a tuple from a pointer. The address is compared, not the data there.
 *
 * @param pointer  nullable; the data there is neither read nor kept alive
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

/**
 * Hashes a TarnMemoKeyTuple: a GHashFunc.
 *
 * @param tuple  a TarnMemoKeyTuple
 * @return the same for equal tuples; any thread may call it
 * @since 0.1
 */
guint tarn_memo_key_tuple_hash (gconstpointer tuple);

/**
 * Compares two tuples: a GEqualFunc. They are equal if they have equal values of equal types in the
 * same order.
 *
 * @param a  a TarnMemoKeyTuple
 * @param b  a TarnMemoKeyTuple
 * @return TRUE if they are equal; any thread may call it
 * @since 0.1
 */
gboolean tarn_memo_key_tuple_equal (gconstpointer a, gconstpointer b);

/**
 * Copies a tuple. The strings are copied with it; bytes are referenced.
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
 * The types of a memo's keys. Keys of a known type are copied when they are kept; bytes are
 * referenced. Only a TARN_MEMO_KEY_CUSTOM may be NULL.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_MEMO_KEY_CUSTOM, /**< custom: by the functions in TarnMemoOps; without these, pointers */
  TARN_MEMO_KEY_STRING, /**< strings, const gchar *: their characters are compared */
  TARN_MEMO_KEY_INT64,  /**< numbers, const gint64 * */
  TARN_MEMO_KEY_BYTES,  /**< bytes, GBytes *: their content is compared */
  TARN_MEMO_KEY_TUPLE,  /**< several values, const TarnMemoKeyTuple * */
  TARN_MEMO_KEY_STRUCT  /**< custom, by the functions in TarnMemoOps; never NULL */
} TarnMemoKeyType;

/**
 * How a memo treats first arguments, keys and values. Every function may be NULL, and may be called
 * by several threads at once; user_data is what tarn_memo_new() was given. hash, equal and
 * ref_value are called during a lookup, and must neither call Tarn nor wait. All others may.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoOps), as TARN_MEMO_OPS_INIT sets it */

  /** The kind of first arguments, such as "cuda-context": see tarn_memo_clear_kind().
   * Nullable; copied. */
  const gchar *first_arg_kind;

  /** The most entries that are kept for one first argument; 0: no limit. If there would be more,
   * the memo drops the least recently used entry. */
  guint max_entries;

  /** Nullable. Another memo, which the function of this one asks: when the program makes this memo
   * forget something, the other one then forgets it, too. */
  TarnMemo *upstream;

  /** The type of keys; the next four are for TARN_MEMO_KEY_CUSTOM and TARN_MEMO_KEY_STRUCT only. */
  TarnMemoKeyType key_type;

  GHashFunc hash;   /**< hashes a key; NULL: the pointer is hashed */
  GEqualFunc equal; /**< compares two keys; NULL: the pointers are compared */

  /** Copies a key that is to be kept; NULL: the pointer is kept. */
  gpointer (*copy_key) (gconstpointer key);

  /** Frees a copy that copy_key made. */
  void (*free_key) (gpointer key);

  /** Takes a reference on a value and returns it, or NULL if that is not possible: tarn_memo_get()
   * then fails with TARN_ERROR_FAILED. With this function tarn_memo_get() returns a reference that
   * is the caller's; without it, a value that is valid until it is forgotten. */
  gpointer (*ref_value) (gpointer user_data, gpointer value);

  /** Releases a value, or a reference on it, that came from the memo's function, ref_value or
   * value_for_thread; never NULL. If the first argument @p is_dead (see first_arg_id) the function
   * must not call its driver. */
  void (*unref_value) (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead);

  /** Takes a reference on a first argument, which is kept as long as any entry for it. Returns the
   * first argument, or NULL if that is not possible: then no entry for it is kept. */
  gpointer (*ref_first_arg) (gpointer user_data, gpointer first_arg);

  /** Drops a reference that ref_first_arg took. */
  void (*unref_first_arg) (gpointer user_data, gpointer first_arg);

  /** Gets the unique ID of a first argument, which is never used again, or 0 if the first argument
   * is dead. It is for first arguments that cannot be referenced, and that may be followed by
   * others at their address: the ID tells them apart. Entries for a dead one are dropped when a
   * value is computed for a later one at its address. */
  guint64 (*first_arg_id) (gpointer user_data, gpointer first_arg);

  /** Gets the first argument for which NULL stands, such as the current context; NULL with an
   * error. */
  gpointer (*current_first_arg) (gpointer user_data, GError **error);

  /** Makes the value that the calling thread gets in place of @p value, if each thread needs one of
   * its own; NULL with an error. It needs ref_value and unref_value. The value of a thread that
   * has ended goes to a later thread. A thread that asks for a value from a destructor of
   * thread-specific data, as it ends, gets one that is not kept. */
  gpointer (*value_for_thread) (gpointer user_data, gpointer value, gpointer first_arg,
                                gconstpointer key, GError **error);
} TarnMemoOps;

/**
 * A TarnMemoOps without any function. It names every field, so that it is silent under -Wextra
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
 * The counters of a memo. Every call of tarn_memo_get() is counted once: as a hit, a miss or a
 * wait.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnMemoStats), as TARN_MEMO_STATS_INIT sets it */

  gsize entries;           /**< entries that are kept */
  guint64 hits;            /**< calls that a kept entry served */
  guint64 misses;          /**< calls that computed */
  guint64 waits;           /**< calls that waited for another one's computation, or were refused
                                because it could not end before they did */
  guint64 failures;        /**< computations that ended in an error */
  guint64 evictions;       /**< entries dropped because there were more than max_entries */
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
 * Values are kept until tarn_memo_forget(), tarn_memo_clear() or one of the functions for all memos
 * of the process, or until the last reference on the memo is gone. References on first arguments
 * are kept as long, so a context lives until it is forgotten: forget it before you drop your own
 * last reference. Nothing is released at exit, when a driver may be gone: clear memos before if
 * their values must be released.
 *
 * @param ops        nullable: first arguments, keys and values are then pointers without an owner;
 *                   copied
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: called once with @p user_data, after everything else is released
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                         GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference on a memo.
 *
 * @param memo  a memo; any thread may call it
 * @return (transfer full): @p memo
 * @since 0.1
 */
TarnMemo *tarn_memo_ref (TarnMemo *memo);

/**
 * Drops a reference on a memo. With the last one all entries are released; calls that compute or
 * wait meanwhile count as references. In a child of fork () nothing is done.
 *
 * @param memo  a memo; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_memo_unref (TarnMemo *memo);

/**
 * Gets the value of a memo for a first argument and a key. It is the cached one, or else the one
 * that the function computes now. Threads that ask for the same entry meanwhile wait for it and get
 * the same value, or the same error; others do not wait. An error is not kept; a value of NULL is.
 *
 * If a computation asks for its own entry, also through other entries and other threads, that
 * request fails with TARN_ERROR_RECURSION.
 *
 * @param memo       a memo, on which the caller, or a call in progress, has a reference
 * @param first_arg  the first argument, alive during the call. NULL stands for the current one if
 *                   the memo knows a current one; OpenCL's memos refuse it; for other memos it is a
 *                   first argument like any other
 * @param key        the key; not NULL, and of a tuple every part of a known type, or it is a
 *                   programming error and FALSE; NULL is a key like any other if keys are
 *                   TARN_MEMO_KEY_CUSTOM
 * @param value      out, nullable: the value; a reference of the caller's if the memo's values can
 *                   be referenced, else valid until it is forgotten
 * @param error      return location, or NULL: the function's error; TARN_ERROR_RECURSION;
 *                   TARN_ERROR_CONTEXT_LOST for a first argument that was destroyed, if the memo
 *                   can find that out; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_memo_get (TarnMemo *memo, gpointer first_arg, gconstpointer key, gpointer *value,
                        GError **error);

/**
 * Forgets a memo's entries for a first argument. Then it forgets those of its upstream, together
 * with the entries here that were computed from them meanwhile. Results that are being computed go
 * to the threads that wait for them, and are not kept. Afterwards the memo has no reference on the
 * first argument, nor on its values, except those of calls in progress. In a child of fork ()
 * nothing is done.
 *
 * @param memo       a memo; any thread may call it
 * @param first_arg  the first argument; NULL stands for the current one, if the memo knows a
 *                   current one
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
 * Makes every memo of the process forget a first argument. See tarn_memo_forget(). Call it
 * before you drop the last reference on a context, or destroy it.
 *
 * @param first_arg  the first argument; any thread may call it
 * @since 0.1
 */
void tarn_memo_forget_everywhere (gpointer first_arg);

/**
 * Clears every memo with first arguments of one kind, as tarn_memo_clear() does.
 *
 * @param kind  as TarnMemoOps.first_arg_kind; any thread may call it
 * @since 0.1
 */
void tarn_memo_clear_kind (const gchar *kind);

/**
 * Clears every memo of the process, as tarn_memo_clear() does. PyOpenCL calls this
 * clear_first_arg_caches(). Call it at the end of a program that has to release all objects of its
 * driver; any thread may call it.
 *
 * @since 0.1
 */
void tarn_memo_clear_all (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnMemo, tarn_memo_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnMemoKeyTuple, tarn_memo_key_tuple_free)

G_END_DECLS

#endif
