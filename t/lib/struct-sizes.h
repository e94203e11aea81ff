/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Callers that were compiled with other versions of a struct that begins with struct_size: with one
 * field less, and with one more.  What follows it in their memory is theirs.
 *
 * What a struct is here, it was in the first version of the library that had it. */

#ifndef STRUCT_SIZES_H
#define STRUCT_SIZES_H

#include <glib.h>
#include <string.h>

#define STRUCT_SIZES_GUARD 0xa5

/* OldType is the first version without its last field, which is given.  Defines OlderType, of a
 * caller who has that, FirstType, the first version, and NewerType, of a caller who has a field
 * more.  The name is that of the last field there is by now: behind it there is no padding, which a
 * caller's compiler may leave as it is, so that an older library would take it for a field that is
 * set. */
#define STRUCT_SIZES_VERSIONS(Type, last, name_of_last)                                            \
  typedef struct                                                                                   \
  {                                                                                                \
    Old##Type as;                                                                                  \
    guint8 guard[64];                                                                              \
  } Older##Type;                                                                                   \
                                                                                                   \
  typedef struct                                                                                   \
  {                                                                                                \
    Old##Type old;                                                                                 \
    last;                                                                                          \
  } First##Type;                                                                                   \
                                                                                                   \
  typedef struct                                                                                   \
  {                                                                                                \
    struct                                                                                         \
    {                                                                                              \
      Type known;                                                                                  \
      gpointer later;                                                                              \
    } as;                                                                                          \
    guint8 guard[64];                                                                              \
  } Newer##Type;                                                                                   \
                                                                                                   \
  G_STATIC_ASSERT (sizeof (First##Type) <= sizeof (Type));                                         \
  G_STATIC_ASSERT (G_STRUCT_OFFSET (Type, name_of_last) + sizeof ((Type *) NULL)->name_of_last     \
                   == sizeof (Type))

/* Fills a caller's struct with bytes that nobody may take for something, and sets its size. */
#define struct_sizes_begin(caller)                                                                 \
  G_STMT_START                                                                                     \
  {                                                                                                \
    memset ((caller), STRUCT_SIZES_GUARD, sizeof *(caller));                                       \
    *(gsize *) (gpointer) (caller) = sizeof (caller)->as;                                          \
  }                                                                                                \
  G_STMT_END

/* The same with all of @from that the caller has; nothing is set in what only the caller has. */
#define struct_sizes_begin_from(caller, from)                                                      \
  G_STMT_START                                                                                     \
  {                                                                                                \
    struct_sizes_begin (caller);                                                                   \
    memset (&(caller)->as, 0, sizeof (caller)->as);                                                \
    memcpy (&(caller)->as, (from), MIN (sizeof (caller)->as, sizeof *(from)));                     \
    *(gsize *) (gpointer) (caller) = sizeof (caller)->as;                                          \
  }                                                                                                \
  G_STMT_END

/* Nobody has written to what is not the struct, nor changed its size. */
#define struct_sizes_check(caller)                                                                 \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_assert_cmpuint (*(gsize *) (gpointer) (caller), ==, sizeof (caller)->as);                    \
    for (gsize i = 0; i < sizeof (caller)->guard; i++)                                             \
      g_assert_cmpuint ((caller)->guard[i], ==, STRUCT_SIZES_GUARD);                               \
  }                                                                                                \
  G_STMT_END

/* The default of a later field is 0: an older caller, for whom it is the default, and a newer one
 * that does not know or set it get the same. */
#define struct_sizes_check_defaults(Type, initializer)                                             \
  G_STMT_START                                                                                     \
  {                                                                                                \
    static const Type init = initializer;                                                          \
    const guint8 *bytes = (const guint8 *) &init;                                                  \
                                                                                                   \
    g_assert_cmpuint (init.struct_size, ==, sizeof init);                                          \
    for (gsize i = sizeof (First##Type); i < sizeof init; i++)                                     \
      if (bytes[i] != 0)                                                                           \
        g_error ("byte %" G_GSIZE_FORMAT " of " #initializer " is not 0", i);                      \
  }                                                                                                \
  G_STMT_END

#endif
