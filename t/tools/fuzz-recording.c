/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fuzz target for libFuzzer, run by .ci/run: whatever the bytes, there are events in order, as
 * many as there were said to be, or an error, and never both. */

#include "trace/recording.h"

int LLVMFuzzerTestOneInput (const guint8 *data, size_t size);

/* All that is said of an event can be looked up. */
static void
look_up (Recording *recording, const RecordedEvent *event)
{
  gsize n;
  const guint64 *addresses = recording_get_stack (recording, event->stack, &n);
  const gchar *tag = recording_get_string (recording, event->tag);

  g_assert_true (tag == NULL || g_utf8_validate (tag, -1, NULL));
  for (gsize i = 0; i < n; i++)
    {
      const RecordedFrame *frame = recording_get_frame (recording, addresses[i]);

      g_assert_true (frame == NULL || frame->address == addresses[i]);
    }
  for (gsize i = 0; i < event->n_properties; i++)
    g_assert_cmpuint (event->properties[i].property, <=, G_MAXUINT32);
}

static void
read_all (Recording *recording)
{
  g_autoptr (GError) error = NULL;
  guint64 n = 0, time = 0;
  RecordedEvent event;

  for (; recording_next (recording, &event, &error); n++)
    {
      g_assert_cmpuint (event.time, >=, time);
      time = event.time;
      look_up (recording, &event);
    }
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, recording_get_n_events (recording));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, size_t size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (GError) error = NULL;
  g_autoptr (Recording) recording = recording_open_bytes (bytes, "fuzz", &error);

  g_assert_true ((recording == NULL) == (error != NULL));
  for (guint round = 0; recording != NULL && round < 2; round++)
    {
      read_all (recording);
      recording_rewind (recording);
    }
  return 0;
}
