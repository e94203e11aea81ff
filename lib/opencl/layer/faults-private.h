/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls that fail although the driver would not have them fail: what the program asks for, before
 * the rest of the layer sees it.  See faults.c. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include "common/fault-calls-private.h"
#include "layer-private.h"

/* Where a call goes to, which says what it answers when the device is lost. */
typedef enum
{
  FAULT_HOST,   /* not to the device: as ever */
  FAULT_DEVICE, /* the device, for something that is made there */
  FAULT_QUEUE,
  FAULT_EVENTS /* waits for what is on queues */
} FaultPlace;

/* A kind of object that a program has to release: counted by its references, SVM by allocations. */
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

/* FAULT_clCreateContext and so on */
typedef enum
{
  FAULT_CALLS (FAULT_NUMBER) FAULT_N_CALLS
} FaultCall;

typedef struct
{
  const gchar *name;
  FaultPlace place;
  cl_int error;
  FaultKind kind;
} FaultCallFacts;

extern const FaultCallFacts _tarn_layer_fault_calls[FAULT_N_CALLS];

/* The functions behind these calls: the layer's or the driver's. */
extern cl_icd_dispatch _tarn_layer_behind_faults;

/* faults.c */

/* Reads what is to fail.  FALSE: nothing is, and nothing is counted. */
gboolean _tarn_layer_faults_begin (void);

/* Counts a call: CL_SUCCESS, or what it is to answer in place of being made. */
cl_int _tarn_layer_fault_strike (FaultCall call);

/* The program has more of a kind, or fewer. */
void _tarn_layer_fault_count (FaultKind kind, gint n);

/* A call has made more than there is room for, and is to fail. */
void _tarn_layer_fault_is_refused (FaultCall call);

/* fault-memory.c */

/* @budget: bytes; 0: as many as there are. */
void _tarn_layer_fault_memory_begin (gsize budget);

/* Notes that a memory object was made, or @size bytes of SVM at an address.  FALSE: it is beyond
 * the budget, and unknown; the caller is to release it. */
gboolean _tarn_layer_fault_charge (cl_mem object);
gboolean _tarn_layer_fault_charge_svm (gpointer address, gsize size);

/* The program has one more reference, or one less: before the driver is told, which may give the
 * handle out again. */
void _tarn_layer_fault_retain (cl_mem object);
void _tarn_layer_fault_release (cl_mem object);
void _tarn_layer_fault_release_svm (gpointer address);

/* fault-calls.c */

/* Puts these calls before those of a table, which has been filled for a driver. */
void _tarn_layer_faults_cover (cl_icd_dispatch *dispatch, const cl_icd_dispatch *driver);

/* Gets the one of a name, for who asks for it by that; NULL: there is none. */
void *_tarn_layer_find_fault_call (const gchar *name);

#endif
