/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: OpenCL calls that fail although the driver would not let them fail.  It stands
 * in front of the rest of the layer.  See faults.c. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include "common/fault-calls-private.h"
#include "layer-private.h"

/* The place that a call needs.  It determines the call's error when the device is lost. */
typedef enum
{
  FAULT_HOST,   /* not the device: never fails for a loss */
  FAULT_DEVICE, /* the device, to make something there */
  FAULT_QUEUE,
  FAULT_EVENTS /* commands on queues, which it waits for */
} FaultPlace;

/* A kind of object that a program has to release.  References are counted; of SVM, allocations. */
typedef enum
{
  FAULT_NOTHING,
  FAULT_CONTEXT,
  FAULT_COMMAND_QUEUE,
  FAULT_MEMORY,
  FAULT_SVM,
  FAULT_SAMPLER,
  FAULT_PROGRAM,
  FAULT_KERNEL,
  FAULT_EVENT,
  FAULT_N_KINDS
} FaultKind;

#define FAULT_NUMBER(name, place, error, kind) FAULT_##name,

/* A call that can be made to fail: FAULT_clCreateContext and so on */
typedef enum
{
  FAULT_CALLS (FAULT_NUMBER) FAULT_N_CALLS
} FaultCall;

/* Facts about a call. */
typedef struct
{
  const gchar *name;
  FaultPlace place;
  cl_int error;
  FaultKind kind;
} FaultCallFacts;

extern const FaultCallFacts _tarn_layer_fault_calls[FAULT_N_CALLS];

/* The functions that the calls reach if they do not fail: the layer's or the driver's. */
extern cl_icd_dispatch _tarn_layer_behind_faults;

/* faults.c */

/* Reads TARN_LAYER_FAULTS.  Returns FALSE if it is not set, or invalid: nothing fails and nothing
 * is counted. */
gboolean _tarn_layer_faults_begin (void);

/* Counts a call.  Returns CL_SUCCESS, or the error with which the call is to fail. */
cl_int _tarn_layer_fault_strike (FaultCall call);

/* Adds to the number of objects of a kind that the program has.  @n: may be negative. */
void _tarn_layer_fault_count (FaultKind kind, gint n);

/* Notes that a call fails because its object exceeds the budget. */
void _tarn_layer_fault_note_refusal (FaultCall call);

/* fault-memory.c */

/* Sets the budget, in bytes.  0: there is none. */
void _tarn_layer_fault_memory_begin (gsize budget);

/* Charges a new memory object, or @size bytes of SVM, to the budget.  Returns FALSE if that exceeds
 * it; the caller is to release the memory, which is not recorded. */
gboolean _tarn_layer_fault_charge (cl_mem object);
gboolean _tarn_layer_fault_charge_svm (gpointer address, gsize size);

/* Note that the program has one more reference, or one less.  A release is noted before the driver
 * does it, because the driver may then give the handle to a new object. */
void _tarn_layer_fault_retain (cl_mem object);
void _tarn_layer_fault_release (cl_mem object);
void _tarn_layer_fault_release_svm (gpointer address);

/* fault-calls.c */

/* Replaces a table's functions with those that may fail.  The table has been filled for a
 * driver. */
void _tarn_layer_faults_cover (cl_icd_dispatch *dispatch, const cl_icd_dispatch *driver);

/* Returns the function of a name that may fail.  Returns NULL if there is none. */
void *_tarn_layer_find_fault_call (const gchar *name);

#endif
