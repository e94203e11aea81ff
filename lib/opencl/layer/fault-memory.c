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
  gsize size;           /* the size in bytes; 0 if the memory is made of other memory */
  /* The program's references to the memory, plus the number of entries for memory that is made of
   * this memory. */
  guint references;
  /* The entry for the memory of which this memory is made: for example, a sub-buffer is made of a
   * buffer.  A reference; NULL if this memory is not made of other memory. */
  FaultMemory *whole;
};

static TarnMutex lock;       /* guards the two variables below */
static GHashTable *memories; /* maps a handle to its FaultMemory, which the table owns */
static gsize used;

/* The greatest number of objects in a chain of memory objects.  Each object of a chain is made of
 * the next one: for example, an image of a sub-buffer, and the sub-buffer of a buffer. */
#define MAX_CHAIN 4

static gsize budget; /* the budget in bytes; constant; 0 if there is none */

void
_tarn_layer_fault_memory_begin (gsize bytes)
{
  _tarn_mutex_init (&lock);
  memories = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  budget = bytes;
}

/* Adds an entry with one reference for memory of the program.  @whole_handle: the handle of the
 * memory of which this memory is made, or NULL.  The caller holds the lock. */
static void
add_locked (gconstpointer handle, gsize size, gconstpointer whole_handle)
{
  FaultMemory *memory = g_new (FaultMemory, 1), *whole;

  _tarn_assert_locked (&lock);
  whole = whole_handle != NULL ? g_hash_table_lookup (memories, whole_handle) : NULL;
  if (whole != NULL)
    whole->references++;
  *memory = (FaultMemory){ handle, size, 1, whole };
  used += size;
  g_hash_table_insert (memories, (gpointer) handle, memory);
}

/* Adds an entry for new memory of the program, as add_locked () does.  Returns FALSE, and adds
 * nothing, if the program's memory would then exceed the budget. */
static gboolean
add (gconstpointer handle, gsize size, gconstpointer whole_handle)
{
  TARN_LOCKED (&lock);

  if (budget > 0 && (used > budget || size > budget - used))
    return FALSE;
  add_locked (handle, size, whole_handle);
  return TRUE;
}

/* Drops a reference to an entry.  If it was the last one, removes the entry, and drops the entry's
 * reference to @whole in the same way.  @memory: the entry, or NULL.  The caller holds the lock. */
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

/* Sets *whole to the memory object of which @object is made, or to NULL if @object is not made of
 * another memory object.  Sets *size to the size of @object if *whole is NULL, and to 0 otherwise.
 */
static void
measure (cl_mem object, gsize *size, cl_mem *whole)
{
  *size = 0;
  *whole = NULL;
  _tarn_layer_behind_faults.clGetMemObjectInfo (object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof *whole,
                                                whole, NULL);
  if (*whole == NULL)
    _tarn_layer_behind_faults.clGetMemObjectInfo (object, CL_MEM_SIZE, sizeof *size, size, NULL);
}

gboolean
_tarn_layer_fault_charge (cl_mem object)
{
  cl_mem whole;
  gsize size;

  measure (object, &size, &whole);
  return add (object, size, whole);
}

void
_tarn_layer_fault_retain (cl_mem object)
{
  FaultMemory *memory;
  TARN_LOCKED (&lock);

  memory = g_hash_table_lookup (memories, object);
  if (memory != NULL)
    memory->references++;
}

gboolean
_tarn_layer_fault_release (cl_mem object)
{
  FaultMemory *memory;
  gboolean is_known;
  TARN_LOCKED (&lock);

  memory = g_hash_table_lookup (memories, object);
  is_known = memory != NULL;
  drop_locked (memory);
  return is_known;
}

void
_tarn_layer_fault_restore (cl_mem object)
{
  /* A chain: @object, the object of which @object is made, and so on. */
  cl_mem chain[MAX_CHAIN + 1] = { object };
  gsize sizes[MAX_CHAIN];
  gboolean was_lost[MAX_CHAIN] = { FALSE };
  guint n = 0;

  for (; n < MAX_CHAIN && chain[n] != NULL; n++)
    measure (chain[n], &sizes[n], &chain[n + 1]);
  {
    TARN_LOCKED (&lock);

    /* The chain has @object, and the objects of which it is made.  _tarn_layer_fault_release () may
     * have removed some of their entries from the table.  Add these entries again, beginning with
     * the object that is made of no other. */
    for (guint i = n; i > 0; i--)
      {
        was_lost[i - 1] = g_hash_table_lookup (memories, chain[i - 1]) == NULL;
        if (was_lost[i - 1])
          add_locked (chain[i - 1], sizes[i - 1], chain[i]);
      }
    if (!was_lost[0])
      ((FaultMemory *) g_hash_table_lookup (memories, object))->references++;
    /* add_locked () counts one reference of the program for each entry that it adds.  The program
     * has a reference only to @object, so drop the references of the other added entries. */
    for (guint i = 1; i < n; i++)
      if (was_lost[i])
        drop_locked (g_hash_table_lookup (memories, chain[i]));
  }
}

gboolean
_tarn_layer_fault_charge_svm (gpointer address, gsize size)
{
  if (!add (address, size, NULL))
    return FALSE;
  _tarn_layer_fault_count (FAULT_SVM, 1);
  return TRUE;
}

gsize
_tarn_layer_fault_release_svm (gpointer address)
{
  gsize size = 0;

  {
    TARN_LOCKED (&lock);
    FaultMemory *memory = g_hash_table_lookup (memories, address);

    if (memory != NULL)
      size = memory->size;
    drop_locked (memory);
  }
  if (size > 0)
    _tarn_layer_fault_count (FAULT_SVM, -1);
  return size;
}

void
_tarn_layer_fault_restore_svm (gpointer address, gsize size)
{
  {
    TARN_LOCKED (&lock);

    add_locked (address, size, NULL);
  }
  _tarn_layer_fault_count (FAULT_SVM, 1);
}
