/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The tables of handles of contexts, streams, events, modules and functions of the fake CUDA
 * driver.  A handle is a number that is no address of memory, so a program that uses a handle as a
 * pointer crashes.  The lock of the fake driver guards all tables. */

#include "testing/cuda/fake-private.h"

#define STEP 16

gpointer
fake_handle_new (HandleTable *table, gpointer object)
{
  guint index;

  if (table->objects == NULL)
    {
      table->objects = g_ptr_array_new ();
      table->vacant = g_array_new (FALSE, FALSE, sizeof index);
    }
  index = table->objects->len;
  if (table->vacant->len == 0)
    g_ptr_array_add (table->objects, object);
  else
    {
      index = g_array_index (table->vacant, guint, table->vacant->len - 1);
      g_array_set_size (table->vacant, table->vacant->len - 1);
      g_ptr_array_index (table->objects, index) = object;
    }
  return (gpointer) (table->base + STEP * (guintptr) index);
}

/* Returns the index of a handle in its table, or G_MAXUINT if the table never had this handle. */
static guint
to_index (const HandleTable *table, gpointer handle)
{
  guintptr offset = (guintptr) handle - table->base;

  if (table->objects == NULL || offset % STEP != 0 || offset / STEP >= table->objects->len)
    return G_MAXUINT;
  return (guint) (offset / STEP);
}

gboolean
fake_handle_was (const HandleTable *table, gpointer handle)
{
  return to_index (table, handle) != G_MAXUINT;
}

gpointer
fake_handle_get (const HandleTable *table, gpointer handle)
{
  guint index = to_index (table, handle);

  return index == G_MAXUINT ? NULL : g_ptr_array_index (table->objects, index);
}

void
fake_handle_free (HandleTable *table, gpointer handle)
{
  guint index = to_index (table, handle);

  g_assert (index != G_MAXUINT && g_ptr_array_index (table->objects, index) != NULL);
  g_ptr_array_index (table->objects, index) = NULL;
  g_array_append_val (table->vacant, index);
}
