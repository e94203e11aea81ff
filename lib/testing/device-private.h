/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions of the device for the queues, whose memory is a device's. */

#ifndef TARN_TESTING_DEVICE_PRIVATE_H
#define TARN_TESTING_DEVICE_PRIVATE_H

#include <tarn/testing.h>

/* The functions of an allocator on a device, which is the user_data.  The lock is not held. */
gboolean _tarn_testing_device_allocate (gpointer user_data, gsize size, TarnMemory *memory,
                                        GError **error);
void _tarn_testing_device_release (gpointer user_data, TarnMemory memory, gsize size);
gboolean _tarn_testing_device_reclaim (gpointer user_data);

/* Returns a seed for random choices: the test's own, if g_test_init () was called. */
static inline guint32
_tarn_testing_seed (void)
{
  return g_test_initialized () ? (guint32) g_test_rand_int () : 0;
}

/* Ends the test with an error of a function. */
static inline void
_tarn_testing_end (const gchar *function, const gchar *text)
{
  g_error ("%s: %s", function, text);
}

#endif
