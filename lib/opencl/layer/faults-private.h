/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: makes OpenCL calls of the program fail, to test how the program handles errors.
 * Each OpenCL call of the program reaches fault injection first, then the rest of the layer.  See
 * faults.c. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include "common/fault-calls-private.h"
#include "layer-private.h"

/* The resource that a call needs.  When fault injection simulates a lost device, the resource
 * determines whether the call fails, and with which error. */
typedef enum
{
  FAULT_HOST,   /* the call needs only the host, so it does not fail when the device is lost */
  FAULT_DEVICE, /* the call needs the device, for example to make an object there */
  FAULT_QUEUE,
  FAULT_EVENTS /* the call waits for events of commands on queues */
} FaultPlace;

/* A kind of object that the program has to release.  Fault injection counts how many references to
 * objects of each kind the program has.  Shared virtual memory (SVM) has no references, so fault
 * injection counts its allocations. */
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

/* The number of an OpenCL call that can be made to fail, for example FAULT_clCreateContext. */
typedef enum
{
  FAULT_CALLS (FAULT_NUMBER) FAULT_N_CALLS
} FaultCall;

/* An OpenCL call that can be made to fail: its name, the resource that it needs, the error that it
 * returns when a resource has run out, and the kind of object that it makes. */
typedef struct
{
  const gchar *name;
  FaultPlace place;
  cl_int error;
  FaultKind kind;
} FaultCallFacts;

extern const FaultCallFacts _tarn_layer_fault_calls[FAULT_N_CALLS];

/* The functions to which fault injection passes the calls that it does not make fail: the layer's
 * functions, or the driver's if the layer has none. */
extern cl_icd_dispatch _tarn_layer_behind_faults;
#define BEHIND(name) _tarn_layer_behind_faults.name

/* Functions of faults.c */

/* Reads TARN_LAYER_FAULTS.  Returns FALSE if the variable is not set or is invalid.  Then there is
 * no fault injection, and no call is counted. */
gboolean _tarn_layer_faults_begin (void);

/* Counts a call of the program.  Returns CL_SUCCESS, or the error with which the call has to fail.
 */
cl_int _tarn_layer_fault_strike (FaultCall call);

/* Functions of fault-wait.c */

/* Adds @n to the number of user events that the program has made and not set. */
void _tarn_layer_fault_count_unset (gint n);
void _tarn_layer_fault_await (cl_uint n, const cl_event *events);

/* More functions of faults.c */

/* Adds @n, which may be negative, to the number of objects of a kind that the program has. */
void _tarn_layer_fault_count (FaultKind kind, gint n);

/* Reports that a call fails because the object that it made exceeds the budget. */
void _tarn_layer_fault_note_refusal (FaultCall call);

/* Functions of fault-memory.c */

/* Sets the budget: the bytes of memory that the program may have, or 0 if there is no budget. */
void _tarn_layer_fault_memory_begin (gsize budget);

/* These two functions charge a new memory object, or @size bytes of SVM, to the budget.  If that
 * would exceed the budget, they return FALSE and record nothing, and the caller must release the
 * memory. */
gboolean _tarn_layer_fault_charge (cl_mem object);
gboolean _tarn_layer_fault_charge_svm (gpointer address, gsize size);

/* Records that the program retains a memory object. */
void _tarn_layer_fault_retain (cl_mem object);

/* These two functions record that the program releases a memory object, or frees SVM.  Call them
 * before the driver's call, because the driver may give the object's handle, or the address, to
 * another thread before its call returns.  The first returns TRUE, and the second the number of
 * bytes of the SVM.  If fault injection does not know the memory, because the program passed an
 * invalid handle or address, or released the memory before, they do nothing and return FALSE or 0.
 */
gboolean _tarn_layer_fault_release (cl_mem object);
gsize _tarn_layer_fault_release_svm (gpointer address);

/* These two functions undo the record of a release after the driver's call has failed.  The memory
 * then counts again, even if that exceeds the budget.  @size: the result of
 * _tarn_layer_fault_release_svm (). */
void _tarn_layer_fault_restore (cl_mem object);
void _tarn_layer_fault_restore_svm (gpointer address, gsize size);

/* Functions of fault-calls.c */

/* Replaces functions in the table @dispatch by functions of fault injection.  The caller has filled
 * the table with the layer's functions.  Fault injection passes calls on to the replaced functions.
 * If @dispatch has no function for a call, fault injection passes the call on to the function in
 * @driver. */
void _tarn_layer_faults_cover (cl_icd_dispatch *dispatch, const cl_icd_dispatch *driver);

/* Returns fault injection's function for the OpenCL call @name, or NULL if there is none. */
void *_tarn_layer_find_fault_call (const gchar *name);

#endif
