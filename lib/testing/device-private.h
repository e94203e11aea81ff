/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions of the fake device (device.c) that the fake queues (queues.c) call, because their
 * memory comes from a fake device. */

#ifndef TARN_TESTING_DEVICE_PRIVATE_H
#define TARN_TESTING_DEVICE_PRIVATE_H

#include <tarn/testing.h>

/* Functions that allocate and free a fake device's memory.  @user_data: the TarnTestingDevice.  The
 * caller does not hold the device's lock. */
gboolean _tarn_testing_device_allocate (gpointer user_data, gsize size, TarnMemory *memory,
                                        GError **error);
void _tarn_testing_device_release (gpointer user_data, TarnMemory memory, gsize size);
gboolean _tarn_testing_device_reclaim (gpointer user_data);

/* Returns a seed for random choices: g_test's own, if g_test_init () was called, otherwise 0. */
static inline guint32
_tarn_testing_seed (void)
{
  return g_test_initialized () ? (guint32) g_test_rand_int () : 0;
}

/* Ends the test with an error message.  @function: the function that detected the error. */
static inline void
_tarn_testing_end (const gchar *function, const gchar *text)
{
  g_error ("%s: %s", function, text);
}

#endif
