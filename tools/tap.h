/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a test program prints, as TAP (the Test Anything Protocol, version 13). */

#ifndef TAP_H
#define TAP_H

#include <glib.h>

typedef enum
{
  TAP_PASSED, /* also a failure that is expected, "# TODO" */
  TAP_FAILED,
  TAP_SKIPPED
} TapResult;

/* A test point. */
typedef struct
{
  TapResult result;
  gboolean is_ok;     /* what it says, whatever its directive makes of that */
  gchar *description; /* without its number; may be empty */
  gchar *directive;   /* "SKIP reason", "TODO reason"; nullable */
  gdouble seconds;    /* since the point before it, or the start */
} TapPoint;

/* A line: a point, a diagnostic (without its "# "), or what is no TAP. */
typedef struct
{
  TapPoint *point; /* nullable */
  gchar *text;     /* nullable: of a point */
} TapLine;

typedef struct
{
  GPtrArray *lines; /* of TapLine */
  guint n_points;
  guint n[3];           /* of each TapResult */
  const TapPoint *last; /* nullable */
  gboolean has_plan;
  guint planned;
  gchar *skip_reason; /* of a plan "1..0 # SKIP reason"; nullable */
  gchar *bail_out;    /* nullable; may be empty */
  gchar *broken;      /* what is wrong with it, but for the plan's number; nullable */
  GString *pending;   /* a line that has not come to its end */
  gdouble seconds;    /* when the last point came */
} Tap;

Tap *tap_new (void);
void tap_free (Tap *tap);
/* What has come, @seconds after the start. */
void tap_feed (Tap *tap, const gchar *bytes, gsize length, gdouble seconds);
/* There is no more; what is wrong, a plan that is not kept included.  Nullable; free it with
 * g_free (). */
gchar *tap_end (Tap *tap, gdouble seconds);
/* Counts a point that the program did not print.  Takes over @description. */
void tap_add_point (Tap *tap, gboolean is_ok, gchar *description, gchar *directive,
                    gdouble seconds);

/* A text as a description: one line, and no directive.  Free it with g_free (). */
gchar *tap_escape (const gchar *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Tap, tap_free)

#endif
