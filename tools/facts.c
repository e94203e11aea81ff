/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Collects the facts about a device of any kind. */

#include <config.h>

#include "facts.h"

#include <tarn/tarn.h>

#include "facts-private.h"

static void
fact_free (gpointer data)
{
  Fact *fact = data;

  g_free (fact->text);
  g_free (fact->guess);
  g_free (fact->error);
  g_free (fact);
}

Fact *
facts_add (Facts *facts, const gchar *key, const gchar *label, FactType type, gchar *guess,
           GError *error)
{
  Fact *fact = g_new0 (Fact, 1);

  g_assert (facts->section != NULL);
  fact->section = facts->section;
  fact->key = key;
  fact->label = label;
  fact->type = error == NULL ? type : FACT_NONE;
  fact->guess = guess;
  if (error != NULL)
    {
      fact->error = g_strdup (error->message);
      fact->is_unsupported = g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
    }
  g_clear_error (&error);
  g_ptr_array_add (facts->list, fact);
  return fact;
}

void
facts_add_text (Facts *facts, const gchar *key, const gchar *label, const gchar *text)
{
  Fact *fact = facts_add (facts, key, label, text != NULL ? FACT_TEXT : FACT_NONE, NULL, NULL);

  fact->text = g_strdup (text);
}

void
facts_add_number (Facts *facts, const gchar *key, const gchar *label, FactType type, guint64 number,
                  gchar *guess, GError *error)
{
  Fact *fact = facts_add (facts, key, label, type, guess, error);

  fact->number = number;
}

GPtrArray *
facts_collect (const Device *device, gboolean measure)
{
  GPtrArray *list = g_ptr_array_new_with_free_func (fact_free);

  (void) device;
  (void) measure;
#ifdef HAVE_OPENCL
  if (device->opencl != NULL)
    facts_add_opencl (list, device, measure);
#endif
#ifdef HAVE_CUDA
  if (device->cuda != NULL)
    facts_add_cuda (list, device);
#endif
  return list;
}
