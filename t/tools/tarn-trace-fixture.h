/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared by the tests of tarn-trace: a recording of which everything is known, in a folder; runs of
 * the program; JSON. */

#ifndef TARN_TRACE_FIXTURE_H
#define TARN_TRACE_FIXTURE_H

#include <json-glib/json-glib.h>

#include "lib/trace-writer.h"

/* A folder with a recording in it, and what the program said. */
typedef struct
{
  gchar *folder, *path, *cut, *snapshot, *out;
  gchar *output, *errors;
  gint status;
} Fixture;

/* A tag that would break lines, quotations and terminals. */
#define ODD_TAG "a \"b\"\n\\\x1b[1m"

#define CSV_HEADER "time,thread,action,id,size,queue\n"

/* In main (), in place of g_test_init (). */
void trace_test_init (int *argc, char ***argv);

#define ADD(path, function)                                                                        \
  g_test_add ("/tools/tarn-trace/" path, Fixture, NULL, fixture_init, function, fixture_clear)

void fixture_init (Fixture *self, gconstpointer unused);
void fixture_clear (Fixture *self, gconstpointer unused);

/* Writes the first bytes of a recording to a file. */
void save (const gchar *path, GBytes *bytes, gsize length);

/* Runs a program, or tarn-trace with arguments that end with NULL; its output, errors and status
 * are in the fixture. */
void spawn (Fixture *self, const gchar *const *command);
void run (Fixture *self, ...) G_GNUC_NULL_TERMINATED;

gchar *find_tool (const gchar *name);

/* Asserts that it has printed one line of errors, and nothing else. */
void has_failed (const Fixture *self, gint status, const gchar *message);

#define SUCCEED(...)                                                                               \
  G_STMT_START                                                                                     \
  {                                                                                                \
    run (self, __VA_ARGS__, NULL);                                                                 \
    g_assert_cmpstr (self->errors, ==, "");                                                        \
    g_assert_cmpint (self->status, ==, 0);                                                         \
  }                                                                                                \
  G_STMT_END

#define FAIL(exit_status, message, ...)                                                            \
  G_STMT_START                                                                                     \
  {                                                                                                \
    run (self, __VA_ARGS__, NULL);                                                                 \
    has_failed (self, exit_status, message);                                                       \
  }                                                                                                \
  G_STMT_END

/* JSON, and members of its objects, which must be there. */
JsonObject *parse (JsonParser *parser, const gchar *text);
gint64 number (JsonObject *object, const gchar *key);
const gchar *text (JsonObject *object, const gchar *key); /* NULL if it is null */
JsonObject *element (JsonObject *object, const gchar *key, guint i);
guint length (JsonObject *object, const gchar *key);

#endif
