/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A recording of the tests in this folder, and its events. */

#ifndef RECORD_FIXTURE_H
#define RECORD_FIXTURE_H

#include <tarn/testing.h>

#include "lib/place.h"
#include "trace/recording.h"

/* Begins a recording in a file of its own. */
void record_start (const Place *place, const TarnTraceOptions *options);

/* Ends the recording, of which nothing may be lost. */
void record_stop (void);

/* Reads the recording from its start. */
Recording *record_open (const Place *place);

/* Gets the next event; FALSE: there is none. */
gboolean record_next (Recording *recording, RecordedEvent *event);

/* A key for g_int64_hash (), which g_free () frees. */
gpointer record_copy_number (guint64 number);

/* Writes a line for each event of requests and frees, in which blocks have names: a, b, ... in the
 * order in which they are met. */
gchar *record_read_log (Recording *recording);

#endif
