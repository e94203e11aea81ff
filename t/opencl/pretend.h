/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Devices of which the layer says that they are others: what the library then says of them. */

#ifndef TARN_OPENCL_PRETEND_H
#define TARN_OPENCL_PRETEND_H

#include "device.h"
#include "layer.h"

#define POCL "Portable Computing Language"
#define SVM_CAPABILITIES 0x1053 /* later than OpenCL 1.2 */

/* Calls a function of the library's, which must not fail. */
#define OK(function, ...)                                                                          \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_autoptr (GError) ok_error = NULL;                                                            \
    gboolean ok = tarn_opencl_##function (__VA_ARGS__, &ok_error);                                 \
                                                                                                   \
    g_assert_no_error (ok_error);                                                                  \
    g_assert_true (ok);                                                                            \
  }                                                                                                \
  G_STMT_END

void opencl_pretend_add (const OpenclLayer *loaded);

/* From here on the device is the one of which most is asked. */
void opencl_pretend_to_be_asked (void);

/* By the layer's ledger: there is the state's context, and nothing holds on to it. */
void opencl_assert_nothing_leaked (const OpenclState *state);

/* That the library says of all kinds of SVM what CL_DEVICE_SVM_CAPABILITIES does. */
void opencl_assert_svm (cl_device_id device, cl_bitfield capabilities);

#endif
