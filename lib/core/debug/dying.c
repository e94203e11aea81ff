/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the guards around blocks (debug-private.h) when a signal such as SIGSEGV ends the program.
 * An out-of-bounds write may be the reason for the signal.  No other check would find that write,
 * because such a program frees no blocks and runs no atexit () functions.  So Tarn's signal handler
 * checks the guards that the host can read, and then calls the handler that the program had
 * installed before.  If the program installs a handler later, that handler replaces Tarn's handler.
 *
 * Tarn's handler may interrupt any code, also code of a thread that holds locks.  So it follows
 * these rules:
 *
 * - It takes no lock, and writes its messages with write ().
 * - It reads slots.  A slot describes the guards of one block.  The memory of a slot is never
 *   freed.
 * - Other threads may change slots at the same time.  Each slot has a version number, which is odd
 *   while a thread changes the slot.  The handler reads the version before and after the other
 *   fields.  If the version was odd, or has changed, the handler ignores the fields.
 * - It reads the guards with process_vm_readv ().  If the memory is unmapped, this call returns an
 *   error, but raises no second signal. */

#define _GNU_SOURCE 1 /* makes <sys/uio.h> declare process_vm_readv () */

#include "debug/debug-private.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define LABEL_BYTES 96
/* The number of slots in the first chunk, an array of slots.  (A slot describes a block's guards.)
 * Each later chunk has twice as many slots as the chunk before it. */
#define FIRST_SLOTS 64
#define MAX_CHUNKS 20

struct _TarnDyingSlot
{
  guint version; /* the slot's version; atomic; odd while a thread changes the slot */
  const guint8 *whole;
  /* Offsets and sizes, copied from the block whose guards the slot describes.  If whole_size is 0,
   * no block uses the slot. */
  gsize front, margin, size, whole_size;
  gchar label[LABEL_BYTES];
  /* Atomic.  TRUE if the handler has reported the guards that this slot describes.  The handler
   * does not report them again. */
  gboolean is_said;
  /* The next slot in the list of free slots.  The mutex "lock" guards this field. */
  TarnDyingSlot *next_free;
};

static TarnMutex lock = TARN_MUTEX_INIT;
static TarnDyingSlot *first_free;
static guint n_chunks; /* atomic: the number of chunks (arrays of slots) in the array chunks */
static TarnDyingSlot *chunks[MAX_CHUNKS];

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
static struct sigaction before[G_N_ELEMENTS (signals)];
/* The process that installed the handler; constant afterwards.  In its children of fork (), the
 * handler does not check the guards. */
static pid_t owner;

gboolean
_tarn_dying_read (gconstpointer from, gpointer to, gsize size)
{
  const struct iovec local = { to, size };
  const struct iovec remote = { (gpointer) from, size };

  return process_vm_readv (getpid (), &local, 1, &remote, 1, 0) == (gssize) size;
}

/* Functions of the signal handler.  All code from here to the end of on_signal () must be
 * async-signal-safe. */

typedef struct
{
  gchar text[320];
  gsize length;
} Line;

static void
append (Line *line, const gchar *text)
{
  while (*text != '\0' && line->length < sizeof line->text)
    line->text[line->length++] = *text++;
}

static void
append_number (Line *line, guint64 number, guint base)
{
  gchar digits[24];
  gsize i = sizeof digits - 1;

  digits[i] = '\0';
  do
    digits[--i] = "0123456789abcdef"[number % base];
  while ((number /= base) > 0);
  append (line, digits + i);
}

static void
append_offset (Line *line, const TarnDyingSlot *slot, gsize at)
{
  append (line, at < slot->margin ? "-" : "");
  append_number (line, at < slot->margin ? slot->margin - at : at - slot->margin, 10);
}

static void
say (const TarnDyingSlot *slot, int signal, gboolean is_behind, const TarnContentsChange *change)
{
  Line line = { .length = 0 };
  const gchar *text = line.text;

  append (&line, "\n** Tarn-CRITICAL **: ");
  append (&line, slot->label);
  append (&line, ": block of ");
  append_number (&line, slot->size, 10);
  append (&line, is_behind ? " bytes: written behind its end, at offset "
                           : " bytes: written before its beginning, at offset ");
  append_offset (&line, slot, is_behind ? change->first : change->last);
  if (!is_behind)
    {
      append (&line, ", and from offset ");
      append_offset (&line, slot, change->first);
      append (&line, " on");
    }
  append (&line, ": 0x");
  append (&line, change->byte < 16 ? "0" : "");
  append_number (&line, change->byte, 16);
  if (is_behind)
    {
      append (&line, ", and up to offset ");
      append_offset (&line, slot, change->last);
    }
  append (&line, "; found when signal ");
  append_number (&line, (guint64) signal, 10);
  append (&line, " came\n");
  while (line.length > 0)
    {
      gssize n = write (STDERR_FILENO, text, line.length);

      if (n <= 0)
        return;
      text += n;
      line.length -= (gsize) n;
    }
}

/* Finds the changed bytes of a block's guards between the offsets @start and @end.  Returns FALSE
 * if no byte has changed, or if the memory cannot be read. */
static gboolean
find_change (const TarnDyingSlot *slot, gsize start, gsize end, TarnContentsChange *change)
{
  guint8 bytes[128];
  gboolean is_changed = FALSE;

  for (gsize n; start < end; start += n)
    {
      n = MIN (end - start, sizeof bytes);
      if (!_tarn_dying_read (slot->whole + start, bytes, n))
        return FALSE;
      _tarn_contents_compare_chunk (bytes, start, n, TARN_DEBUG_GUARD_BYTE, &is_changed, change);
    }
  return is_changed;
}

/* Returns TRUE if the version of a slot (it describes a block's guards) is still @version.  The
 * signal handler calls this after it has read the slot's other fields.  The processor must not read
 * the version before those fields.  A load cannot prevent that, because a load cannot have release
 * order.  So this function adds 0 to the version by an atomic operation with release order. */
static gboolean
is_still (TarnDyingSlot *slot, guint version)
{
  return __atomic_fetch_add (&slot->version, 0, __ATOMIC_ACQ_REL) == version;
}

static void
look_at_slot (TarnDyingSlot *slot, int signal)
{
  guint version = __atomic_load_n (&slot->version, __ATOMIC_ACQUIRE);
  TarnContentsChange before_it, behind;
  gboolean is_before, is_behind;
  TarnDyingSlot copy;

  if (version % 2 != 0)
    return;
  copy = *slot;
  if (!is_still (slot, version) || copy.whole_size == 0)
    return;
  is_before = find_change (&copy, copy.front, copy.margin, &before_it);
  is_behind = find_change (&copy, copy.margin + copy.size, copy.whole_size, &behind);
  if ((!is_before && !is_behind) || !is_still (slot, version)
      || __atomic_exchange_n (&slot->is_said, TRUE, __ATOMIC_RELAXED))
    return;
  if (is_before)
    say (&copy, signal, FALSE, &before_it);
  if (is_behind)
    say (&copy, signal, TRUE, &behind);
}

static void
look_at_all (int signal)
{
  guint n = __atomic_load_n (&n_chunks, __ATOMIC_ACQUIRE);

  for (guint i = 0; i < n; i++)
    for (gsize k = 0; k < (gsize) FIRST_SLOTS << i; k++)
      look_at_slot (&chunks[i][k], signal);
}

static void
end_by (int signal, const siginfo_t *info)
{
  struct sigaction by_default = { .sa_handler = SIG_DFL };

  sigaction (signal, &by_default, NULL);
  /* If a process has sent the signal (si_code <= 0), raise it again.  Otherwise a machine
   * instruction has failed and so caused the signal.  After the handler returns, this instruction
   * runs again and fails again, so a core dump shows it. */
  if (info->si_code <= 0)
    raise (signal);
}

static void
on_signal (int signal, siginfo_t *info, void *context)
{
  const struct sigaction *older = before;
  int saved = errno;

  while (signals[older - before] != signal)
    older++;
  if (getpid () == owner)
    look_at_all (signal);
  errno = saved;
  if ((older->sa_flags & SA_SIGINFO) != 0)
    older->sa_sigaction (signal, info, context);
  else if (older->sa_handler != SIG_DFL)
    older->sa_handler (signal);
  else
    end_by (signal, info);
}

/* Functions that the signal handler does not call: they install the handler, and change slots (a
 * slot describes the guards of one block). */

/* Returns TRUE if a signal may end the program.  Returns FALSE if the program ignores the signal.
 * Also returns FALSE if the signal is SIGFPE and the program has a handler for it.  PoCL has such a
 * handler, and continues after the signal, because kernels may divide by zero many times. */
static gboolean
may_be_last (int signal, const struct sigaction *older)
{
  if ((older->sa_flags & SA_SIGINFO) != 0)
    return signal != SIGFPE;
  return older->sa_handler != SIG_IGN && (signal != SIGFPE || older->sa_handler == SIG_DFL);
}

static void
watch_signals (void)
{
  owner = getpid ();
  for (gsize i = 0; i < G_N_ELEMENTS (signals); i++)
    {
      struct sigaction ours;

      if (sigaction (signals[i], NULL, &before[i]) != 0 || !may_be_last (signals[i], &before[i]))
        continue;
      ours = before[i];
      ours.sa_sigaction = on_signal;
      ours.sa_flags |= SA_SIGINFO | SA_ONSTACK;
      sigaction (signals[i], &ours, NULL);
    }
}

/* Adds a chunk: an array of slots, each of which can describe a block's guards.  Returns FALSE if
 * there are already MAX_CHUNKS chunks.  The caller holds the lock. */
static gboolean
add_chunk (void)
{
  gsize n = (gsize) FIRST_SLOTS << n_chunks;
  TarnDyingSlot *chunk;

  if (n_chunks == MAX_CHUNKS)
    return FALSE;
  chunk = chunks[n_chunks] = g_new0 (TarnDyingSlot, n);
  for (gsize i = 0; i < n; i++)
    {
      chunk[i].next_free = first_free;
      first_free = &chunk[i];
    }
  __atomic_store_n (&n_chunks, n_chunks + 1, __ATOMIC_RELEASE);
  return TRUE;
}

static TarnDyingSlot *
take_slot (void)
{
  TarnDyingSlot *slot = NULL;
  TARN_LOCKED (&lock);

  if (first_free != NULL || add_chunk ())
    {
      slot = first_free;
      first_free = slot->next_free;
    }
  return slot;
}

/* Begins a change of a slot: makes the slot's version odd, so that the signal handler ignores the
 * slot.  The caller writes to the slot after this call, and then calls end_change (). */
static void
begin_change (TarnDyingSlot *slot)
{
  __atomic_add_fetch (&slot->version, 1, __ATOMIC_ACQ_REL);
}

static void
end_change (TarnDyingSlot *slot)
{
  __atomic_add_fetch (&slot->version, 1, __ATOMIC_RELEASE);
}

TarnDyingSlot *
_tarn_dying_watch (const TarnGuarded *self, const TarnDebugBlock *block, gsize front)
{
  static TarnOnce once = TARN_ONCE_INIT;
  TarnDyingSlot *slot = take_slot ();

  _tarn_once (&once, watch_signals);
  if (slot == NULL)
    return NULL;
  begin_change (slot);
  slot->whole = block->host;
  slot->front = front;
  slot->margin = block->margin;
  slot->size = block->size;
  slot->whole_size = block->whole_size;
  g_strlcpy (slot->label, self->label, sizeof slot->label);
  __atomic_store_n (&slot->is_said, FALSE, __ATOMIC_RELAXED);
  end_change (slot);
  return slot;
}

void
_tarn_dying_forget (TarnDyingSlot *slot)
{
  begin_change (slot);
  slot->whole_size = 0;
  end_change (slot);
  _tarn_mutex_lock (&lock);
  slot->next_free = first_free;
  first_free = slot;
  _tarn_mutex_unlock (&lock);
}
