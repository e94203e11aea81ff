/* Tarn: memory pools for OpenCL and CUDA.
 *
 * The lines that an agreement expects.  agreement.c learns them from several runs,
 * agreement-compare.c looks for them in another run, agreement-message.c prints them. */

#ifndef AGREEMENT_PRIVATE_H
#define AGREEMENT_PRIVATE_H

#include "agreement.h"
#include "lines.h"

/* Lines of a run that are compared if output varies: they are all in memory. */
#define AGREEMENT_MAX_LINES 20000

typedef enum
{
  EXPECT_WHOLE,
  EXPECT_NUMBERS,
  EXPECT_WORDS
} ExpectKind;

typedef struct
{
  gchar *text; /* that it is; NULL: it may vary */
  gboolean is_rounded;
  gboolean rises, falls; /* from run to run, without exception */
  gdouble last, min, max;
} ExpectNumber;

/* A line that each run has. */
typedef struct
{
  ExpectKind kind;
  guint number;    /* of the line in the first run, from 1 */
  gchar *key;      /* EXPECT_WHOLE */
  gchar *skeleton; /* EXPECT_NUMBERS */
  GArray *numbers; /* of ExpectNumber */
  gchar **words;   /* EXPECT_WORDS: "" where it may be any */
} Expected;

struct _Agreement
{
  GPtrArray *first; /* of Line: those of the first run */
  gboolean is_complete;
  gboolean is_too_long;
  gboolean is_open;      /* runs have lines that have nothing in common: others may come */
  GPtrArray *expected;   /* of Expected, in the order of the first run */
  GHashTable *free_keys; /* set of gchar *: lines that come in any number */
  GHashTable *free_skeletons;
};

/* Orders pointers to Expected by the place of their lines in the first run. */
gint agreement_compare_places (gconstpointer a, gconstpointer b);

/* Counts the bytes that two texts have in common at the start. */
gsize agreement_count_alike (const gchar *a, const gchar *b);

/* Formats an expected line for people, with "..." where it may vary.  Free it with g_free (). */
gchar *agreement_format_expected (const Agreement *agreement, const Expected *expected);

/* Describes a difference in line @number: @line was expected and @printed was printed.  Either may
 * be NULL: no line.  Free it with g_free (). */
gchar *agreement_describe_difference (guint number, const gchar *line, const gchar *printed);

#endif
