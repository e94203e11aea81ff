/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The memory that the program has, and the budget for it (the word budget=BYTES of
 * TARN_LAYER_FAULTS): a request that would exceed the budget fails.  Memory counts as long as the
 * program has references to it.  Released memory does not count, even if the driver has not freed
 * it yet, because the time at which the driver frees memory differs from run to run. */

#include "faults-private.h"

/* An entry of the table of the program's memory: a memory object, or an allocation of SVM.  The
 * entry is in the table as long as the program has references to the memory, or the table has an
 * entry for an object that is made of the memory, such as a sub-buffer.  Invariant: @used is the
 * sum of the sizes of all entries. */
typedef struct _FaultMemory FaultMemory;
struct _FaultMemory
{
  gconstpointer handle; /* a cl_mem, or the address of SVM */
  gsize size;           /* bytes; 0 if it is made of other memory */
  guint references;     /* the program's references, plus the entries that are made of this one */
  FaultMemory *whole;   /* the entry of which this one is made, a reference, or NULL */
};

static TarnMutex lock;       /* guards the two variables below */
static GHashTable *memories; /* handle -> FaultMemory, owned */
static gsize used;

static gsize budget; /* bytes, constant; 0 if there is no budget */

void
_tarn_layer_fault_memory_begin (gsize bytes)
{
  _tarn_mutex_init (&lock);
  memories = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  budget = bytes;
}

/* Adds an entry with one reference for new memory of the program.  Returns FALSE, and adds nothing,
 * if the memory exceeds the budget.  @whole_handle: the handle of the memory of which the new
 * memory is made, or NULL. */
static gboolean
add (gconstpointer handle, gsize size, gconstpointer whole_handle)
{
  FaultMemory *memory, *whole;
  LAYER_LOCKED (&lock);

  if (budget > 0 && (used > budget || size > budget - used))
    return FALSE;
  whole = whole_handle != NULL ? g_hash_table_lookup (memories, whole_handle) : NULL;
  if (whole != NULL)
    whole->references++;
  memory = g_new (FaultMemory, 1);
  *memory = (FaultMemory){ handle, size, 1, whole };
  used += size;
  g_hash_table_insert (memories, (gpointer) handle, memory);
  return TRUE;
}

/* Drops a reference to an entry.  If it was the last one, removes the entry, and drops a reference
 * to the entry of which it is made.  @memory: the entry, or NULL.  The caller holds the lock. */
static void
drop_locked (FaultMemory *memory)
{
  _tarn_assert_locked (&lock);
  while (memory != NULL && --memory->references == 0)
    {
      FaultMemory *whole = memory->whole;

      g_assert (used >= memory->size);
      used -= memory->size;
      g_hash_table_remove (memories, memory->handle);
      memory = whole;
    }
}

/* Drops a reference to the memory with a handle. */
static void
drop (gconstpointer handle)
{
  LAYER_LOCKED (&lock);

  drop_locked (g_hash_table_lookup (memories, handle));
}

gboolean
_tarn_layer_fault_charge (cl_mem object)
{
  cl_mem whole = NULL;
  gsize size = 0;

  _tarn_layer_behind_faults.clGetMemObjectInfo (object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole,
                                                &whole, NULL);
  if (whole == NULL)
    _tarn_layer_behind_faults.clGetMemObjectInfo (object, CL_MEM_SIZE, sizeof size, &size, NULL);
  return add (object, size, whole);
}

void
_tarn_layer_fault_retain (cl_mem object)
{
  FaultMemory *memory;
  LAYER_LOCKED (&lock);

  memory = g_hash_table_lookup (memories, object);
  if (memory != NULL)
    memory->references++;
}

void
_tarn_layer_fault_release (cl_mem object)
{
  drop (object);
}

gboolean
_tarn_layer_fault_charge_svm (gpointer address, gsize size)
{
  if (!add (address, size, NULL))
    return FALSE;
  _tarn_layer_fault_count (FAULT_SVM, 1);
  return TRUE;
}

/* Drops the reference of an allocation of SVM that the program frees.  Does nothing if the table
 * has no entry for the address, because the address is invalid or was freed before. */
void
_tarn_layer_fault_release_svm (gpointer address)
{
  gboolean is_known;

  {
    LAYER_LOCKED (&lock);
    FaultMemory *memory = g_hash_table_lookup (memories, address);

    is_known = memory != NULL;
    drop_locked (memory);
  }
  if (is_known)
    _tarn_layer_fault_count (FAULT_SVM, -1);
}
