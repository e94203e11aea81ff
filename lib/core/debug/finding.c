/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Findings: messages about mistakes in the use of memory.  Each message names the block, and the
 * threads that allocated and freed the block, with their call stacks. */

#define _GNU_SOURCE 1 /* makes <dlfcn.h> declare dladdr () */

#include "debug/debug-private.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocator/faults-private.h"
#include "base/fork-private.h"
#include "record/record-private.h"

static gint n_findings; /* atomic: the number of findings so far */
/* TRUE if a word in TARN_DEBUG is wrong.  Constant after _tarn_finding_watch_exit (). */
static gboolean has_failed;

/* Runs at the end of the program.  If there were findings, ends the program with the status
 * TarnDebugSettings.exit_status, so that a script that sees only the exit status learns of them. */
static void
exit_if_found (void)
{
  if ((g_atomic_int_get (&n_findings) == 0 && !has_failed) || _tarn_forked ())
    return;
  fflush (NULL);
  _exit ((int) _tarn_debug_get_settings ()->exit_status);
}

void
_tarn_finding_fail_at_exit (void)
{
  has_failed = TRUE;
}

void
_tarn_finding_watch_exit (void)
{
  atexit (exit_if_found);
}

void
_tarn_finding_count (gboolean is_leak, const gchar *text)
{
  g_atomic_int_inc (&n_findings);
  _tarn_faults_report_finding (is_leak ? "leak" : "mistake", text);
}

gsize
_tarn_findings_get_n (void)
{
  return (gsize) g_atomic_int_get (&n_findings);
}

static void
append_frame (GString *text, guint i, gconstpointer address)
{
  Dl_info info;

  g_string_append_printf (text, "\n    #%u %p", i, address);
  /* Looks up the function that contains the byte before the return address.  If a call is the last
   * instruction of its function, the return address itself is already in the next function. */
  if (dladdr ((const gchar *) address - 1, &info) == 0)
    return;
  if (info.dli_sname != NULL)
    g_string_append_printf (text, " %s+0x%" G_GSIZE_MODIFIER "x", info.dli_sname,
                            (gsize) ((const gchar *) address - (const gchar *) info.dli_saddr));
  if (info.dli_fname != NULL)
    g_string_append_printf (text, " (%s+0x%" G_GSIZE_MODIFIER "x)", info.dli_fname,
                            (gsize) ((const gchar *) address - (const gchar *) info.dli_fbase));
}

/* Returns TRUE if a code address is in one of Tarn's libraries.  A call stack begins with such
 * addresses, and messages leave them out. */
static gboolean
is_in_library (gconstpointer address)
{
  g_autofree gchar *name = NULL;
  Dl_info info;

  if (dladdr ((const gchar *) address - 1, &info) == 0 || info.dli_fname == NULL)
    return FALSE;
  name = g_path_get_basename (info.dli_fname);
  return g_str_has_prefix (name, "libtarn");
}

void
_tarn_finding_append_stack (GString *text, guint32 stack)
{
  guint n, first = 0;
  const gpointer *frames = _tarn_stack_get_frames (stack, &n);

  while (first < n && is_in_library (frames[first]))
    first++;
  n = MIN (n, first + _tarn_debug_get_settings ()->stack_depth);
  for (guint i = first; i < n; i++)
    append_frame (text, i - first, frames[i]);
}

static void
append_block (GString *text, const TarnDebugBlock *block)
{
  g_autofree gchar *tag = _tarn_tag_quote (block->tag);

  g_string_append_printf (text, "block at 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT " bytes",
                          block->memory.address, block->size);
  if (tag != NULL)
    g_string_append_printf (text, ", tag '%s'", tag);
}

static void
append_history (GString *text, const TarnDebugBlock *block)
{
  g_string_append_printf (text, "\n  allocated by thread %u", block->thread);
  _tarn_finding_append_stack (text, block->stack);
  if (block->freed_thread == 0)
    return;
  g_string_append_printf (text, "\n  freed by thread %u", block->freed_thread);
  _tarn_finding_append_stack (text, block->freed_stack);
}

TarnFindings *
_tarn_findings_new (void)
{
  return g_ptr_array_new_with_free_func (g_free);
}

void
_tarn_findings_add (TarnFindings *findings, const TarnGuarded *self, const TarnDebugBlock *block,
                    const gchar *format, ...)
{
  GString *text = g_string_new (NULL);
  va_list args;

  g_string_append_printf (text, "%s: ", self->label);
  append_block (text, block);
  g_string_append (text, ": ");
  va_start (args, format);
  g_string_append_vprintf (text, format, args);
  va_end (args);
  append_history (text, block);
  g_ptr_array_add (findings, g_string_free (text, FALSE));
}

void
_tarn_findings_add_use (TarnFindings *findings, const TarnGuarded *self,
                        const TarnDebugBlock *block)
{
  g_autoptr (GString) stack = g_string_new (NULL);

  _tarn_finding_append_stack (stack, _tarn_stack_take ());
  _tarn_findings_add (findings, self, block, "used after it was freed\n  used by thread %u%s",
                      _tarn_record_get_thread (), stack->str);
}

void
_tarn_findings_add_unknown (TarnFindings *findings, const TarnGuarded *self, TarnMemory memory,
                            gsize size)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text,
                          "%s: %" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER
                          "x are freed, which are no block of this pool's\n  freed by thread %u",
                          self->label, size, memory.address, _tarn_record_get_thread ());
  _tarn_finding_append_stack (text, _tarn_stack_take ());
  g_ptr_array_add (findings, g_string_free (text, FALSE));
}

void
_tarn_findings_report (TarnFindings *findings)
{
  for (guint i = 0; i < findings->len; i++)
    {
      const gchar *text = g_ptr_array_index (findings, i);

      _tarn_finding_count (FALSE, text);
      g_critical ("%s", text);
    }
  g_ptr_array_unref (findings);
}
