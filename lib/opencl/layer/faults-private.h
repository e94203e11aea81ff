/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: makes OpenCL calls fail that the driver would not let fail.  It stands between
 * the program and the rest of the layer.  See faults.c. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include "common/fault-calls-private.h"
#include "layer-private.h"

/* The resource that a call needs.  When fault injection simulates a lost device, the resource
 * determines whether the call fails, and with which error. */
typedef enum
{
  FAULT_HOST,   /* only the host: the call does not fail when the device is lost */
  FAULT_DEVICE, /* the device, for example to make an object there */
  FAULT_QUEUE,
  FAULT_EVENTS /* events of commands on queues, for which the call waits */
} FaultPlace;

/* A kind of object that a program has to release.  For SVM, allocations are counted; for the other
 * kinds, references. */
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

/* The calls that can be made to fail, for example FAULT_clCreateContext. */
typedef enum
{
  FAULT_CALLS (FAULT_NUMBER) FAULT_N_CALLS
} FaultCall;

/* The facts about a call. */
typedef struct
{
  const gchar *name;
  FaultPlace place;
  cl_int error;
  FaultKind kind;
} FaultCallFacts;

extern const FaultCallFacts _tarn_layer_fault_calls[FAULT_N_CALLS];

/* The functions that calls reach if they are not made to fail: the layer's or the driver's. */
extern cl_icd_dispatch _tarn_layer_behind_faults;

/* faults.c */

/* Reads TARN_LAYER_FAULTS.  Returns FALSE if it is not set or invalid; then no call is made to
 * fail, and none is counted. */
gboolean _tarn_layer_faults_begin (void);

/* Counts a call.  Returns CL_SUCCESS, or the error with which the call is to fail. */
cl_int _tarn_layer_fault_strike (FaultCall call);

/* Adds @n, which may be negative, to the number of objects of a kind that the program has. */
void _tarn_layer_fault_count (FaultKind kind, gint n);

/* Reports that a call fails because its object exceeds the budget. */
void _tarn_layer_fault_note_refusal (FaultCall call);

/* fault-memory.c */

/* Sets the budget for the program's memory, in bytes.  0: there is no budget. */
void _tarn_layer_fault_memory_begin (gsize budget);

/* Charge a new memory object, or @size bytes of SVM, to the budget.  Return FALSE, and record
 * nothing, if that would exceed the budget; then the caller has to release the memory. */
gboolean _tarn_layer_fault_charge (cl_mem object);
gboolean _tarn_layer_fault_charge_svm (gpointer address, gsize size);

/* Count one more reference of the program's, or one less.  Call a release before the driver's:
 * after the driver has released the object, it may give the same handle to a new object. */
void _tarn_layer_fault_retain (cl_mem object);
void _tarn_layer_fault_release (cl_mem object);
void _tarn_layer_fault_release_svm (gpointer address);

/* fault-calls.c */

/* Puts the functions that can be made to fail into @dispatch, in place of those that are there or
 * in @driver.  The caller has filled @dispatch with the layer's functions. */
void _tarn_layer_faults_cover (cl_icd_dispatch *dispatch, const cl_icd_dispatch *driver);

/* Returns the function with a name that can be made to fail.  Returns NULL if there is none. */
void *_tarn_layer_find_fault_call (const gchar *name);

#endif
