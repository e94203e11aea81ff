/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fuzz target for libFuzzer, run by .ci/run: whatever the bytes, there is a snapshot whose blocks
 * all have lives that do not end, or an error, and never both. */

#include "view/history.h"
#include "view/snapshot.h"

int LLVMFuzzerTestOneInput (const guint8 *data, size_t size);

/* All frames of a stack are known, though perhaps not what they are of. */
static void
look_up (const Recording *recording, guint64 stack)
{
  gsize n;
  const guint64 *addresses = recording_get_stack (recording, stack, &n);

  for (gsize i = 0; i < n; i++)
    g_assert_nonnull (recording_get_frame (recording, addresses[i]));
}

static void
check (const Snapshot *snapshot)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (History) history = history_new (snapshot->recording, &error);

  g_assert_no_error (error);
  g_assert_true (recording_is_complete (snapshot->recording));
  g_assert_cmpuint (recording_get_n_lost (snapshot->recording), ==, 0);
  g_assert_cmpuint (history->n_unknown, ==, 0);
  g_assert_cmpuint (history->columns[HISTORY_EVENT_TIME].n, ==,
                    history->columns[HISTORY_LIFE_SIZE].n);
  for (guint i = 1; i < history->stacks.numbers->len; i++)
    look_up (snapshot->recording, g_array_index (history->stacks.numbers, guint64, i));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, size_t size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (GError) error = NULL;
  g_autoptr (Snapshot) snapshot = snapshot_read ("fuzz", bytes, &error);

  g_assert_true ((snapshot == NULL) == (error != NULL));
  if (snapshot != NULL)
    check (snapshot);
  return 0;
}
