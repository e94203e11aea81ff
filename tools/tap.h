/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A reader of a test program's output in TAP (the Test Anything Protocol, version 13). */

#ifndef TAP_H
#define TAP_H

#include <glib.h>

/* The result of a test point. */
typedef enum
{
  TAP_PASSED, /* also an expected failure, "# TODO" */
  TAP_FAILED,
  TAP_SKIPPED
} TapResult;

/* A test point. */
typedef struct
{
  TapResult result;
  gboolean is_ok;     /* the point begins with "ok", not "not ok"; its directive does not matter */
  gchar *description; /* without its number; may be empty */
  gchar *directive;   /* "SKIP reason" or "TODO reason"; nullable */
  gdouble seconds;    /* seconds since the previous point, or since the start */
} TapPoint;

/* A line: a point, or the text of a line that is no point.
 *
 * Invariant: exactly one of point and text is NULL. */
typedef struct
{
  TapPoint *point; /* nullable */
  gchar *text;     /* a diagnostic without its "# ", or text that is not TAP; nullable */
} TapLine;

/* The output that was read so far.
 *
 * Invariant: n_points is the sum of n[]. */
typedef struct
{
  GPtrArray *lines; /* TapLines */
  guint n_points;
  guint n[3];           /* for each TapResult, the number of points */
  const TapPoint *last; /* the latest point; nullable */
  gboolean has_plan;
  guint planned;      /* the number of planned points, if has_plan is TRUE */
  gchar *skip_reason; /* reason of a plan "1..0 # SKIP reason"; nullable */
  gchar *bail_out;    /* nullable; may be empty */
  gchar *broken;      /* the first error in the TAP, except a wrong number in the plan; nullable */
  GString *pending;   /* the start of a line whose end has not come yet */
  gdouble seconds;    /* seconds from the start to the last point */
} Tap;

Tap *tap_new (void);
void tap_free (Tap *tap);
/* Reads output that came @seconds after the start. */
void tap_feed (Tap *tap, const gchar *bytes, gsize length, gdouble seconds);
/* Ends reading.  Returns an error in the TAP, such as a wrong number in the plan.  Returns NULL if
 * there is no error.  Free it with g_free (). */
gchar *tap_end (Tap *tap, gdouble seconds);
/* Counts a point that the program did not print.  Takes over @description. */
void tap_add_point (Tap *tap, gboolean is_ok, gchar *description, gchar *directive,
                    gdouble seconds);

/* Escapes a text as a description: one line, without a directive.  Free it with g_free (). */
gchar *tap_escape (const gchar *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Tap, tap_free)

#endif
