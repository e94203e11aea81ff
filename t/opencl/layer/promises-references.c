/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who holds a buffer, when it is gone, and who is told. */

#include <stdlib.h>

#include "promises.h"

#define WAIT (20 * G_TIME_SPAN_SECOND)

/* What callbacks said, in the order of their calls. */
typedef struct
{
  GMutex mutex; /* guards all below */
  GCond called;
  GString *text;
  guint n;
} Diary;

typedef struct
{
  Diary *diary;
  gchar name;
  cl_mem memory;       /* that it is set on */
  cl_mem other;        /* NULL, or what the callback releases */
  cl_context context;  /* NULL, or where the callback makes a buffer */
  cl_mem made;         /* by the callback */
  gboolean has_memory; /* whether its memory was the callback's argument */
} Note;

static void
diary_init (Diary *self)
{
  memset (self, 0, sizeof *self);
  g_mutex_init (&self->mutex);
  g_cond_init (&self->called);
  self->text = g_string_new (NULL);
}

static void
diary_clear (Diary *self)
{
  g_mutex_clear (&self->mutex);
  g_cond_clear (&self->called);
  g_string_free (self->text, TRUE);
}

static void
diary_write (Diary *self, gchar name)
{
  g_mutex_lock (&self->mutex);
  g_string_append_c (self->text, name);
  self->n++;
  g_cond_broadcast (&self->called);
  g_mutex_unlock (&self->mutex);
}

/* Waits until @n entries are there, or in vain: how many there are. */
static guint
diary_wait (Diary *self, guint n)
{
  gint64 end = g_get_monotonic_time () + WAIT;
  guint n_written;

  g_mutex_lock (&self->mutex);
  while (self->n < n && g_cond_wait_until (&self->called, &self->mutex, end))
    ;
  n_written = self->n;
  g_mutex_unlock (&self->mutex);
  return n_written;
}

/* Prints what was written when @n entries are there, or when waiting was in vain: how many. */
static guint
diary_print (Diary *self, guint n, const gchar *when)
{
  guint n_written = diary_wait (self, n);

  g_mutex_lock (&self->mutex);
  printf ("%s: \"%s\"\n", when, self->text->str);
  g_mutex_unlock (&self->mutex);
  return n_written;
}

static void CL_CALLBACK
on_destroyed (cl_mem memory, void *data)
{
  Note *note = data;

  note->has_memory = memory == note->memory;
  if (note->other != NULL)
    OK (clReleaseMemObject (note->other));
  if (note->context != NULL)
    note->made = clCreateBuffer (note->context, CL_MEM_READ_WRITE, 1000, NULL, NULL);
  diary_write (note->diary, note->name);
}

static void
set_note (Note *note, Diary *diary, gchar name, cl_mem memory)
{
  memset (note, 0, sizeof *note);
  note->diary = diary;
  note->name = name;
  note->memory = memory;
  OK (clSetMemObjectDestructorCallback (memory, on_destroyed, note));
}

/* References */

static void
references (World *world)
{
  static const gsize sizes[] = { 1, 513, MIB + 7 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      cl_mem buffer = promise_filled (world, sizes[i], i);
      g_autoptr (GRand) rand = g_rand_new_with_seed (i);
      guint held = 1;

      printf ("%zu bytes: %u", sizes[i], promise_wait_count (buffer, 1));
      for (guint k = 0; k < 40; k++)
        {
          if (held == 1 || g_rand_boolean (rand))
            {
              OK (clRetainMemObject (buffer));
              held++;
            }
          else
            {
              OK (clReleaseMemObject (buffer));
              held--;
            }
          printf (" %u", promise_wait_count (buffer, held));
        }
      printf ("; %zu wrong\n", promise_read_wrong (world->queue, buffer, 0, sizes[i], i, 0));
      for (; held > 0; held--)
        OK (clReleaseMemObject (buffer));
    }
  printf ("retain NULL: %s\n", promise_status (clRetainMemObject (NULL)));
  printf ("release NULL: %s\n", promise_status (clReleaseMemObject (NULL)));
}

/* A command that was enqueued uses a buffer that the program has released, wherever it stands. */
static void
references_used (World *world)
{
  static const gsize sizes[] = { 1, 513, 70001 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gsize size = sizes[i];
      g_autofree guchar *write = promise_pattern (i, size), *read = g_malloc0 (size);
      cl_event gate = promise_gate (world);
      cl_mem first = promise_buffer (world, 0, size, NULL), last = promise_filled (world, size, 9);
      cl_kernel kernel = promise_kernel (world, "add");

      OK (clEnqueueWriteBuffer (world->queue, first, CL_FALSE, 0, size, write, 1, &gate, NULL));
      promise_run (world->queue, kernel, first, size, 3);
      OK (clEnqueueCopyBuffer (world->queue, first, last, 0, 0, size, 0, NULL, NULL));
      OK (clReleaseMemObject (first));
      promise_run (world->queue, kernel, last, size, 4);
      OK (clEnqueueReadBuffer (world->queue, last, CL_FALSE, 0, size, read, 0, NULL, NULL));
      OK (clReleaseMemObject (last));
      OK (clReleaseKernel (kernel));
      /* Of the same sizes, so that they would stand where the others stood. */
      first = promise_buffer (world, CL_MEM_COPY_HOST_PTR, size, write);
      last = promise_buffer (world, CL_MEM_COPY_HOST_PTR, size, write);
      promise_open (gate);
      OK (clFinish (world->queue));
      printf ("%zu bytes: %zu wrong\n", size, promise_count_wrong (read, size, i, 7));
      printf ("others: %zu, %zu wrong\n", promise_read_wrong (world->queue, first, 0, size, i, 0),
              promise_read_wrong (world->queue, last, 0, size, i, 0));
      OK (clReleaseMemObject (first));
      OK (clReleaseMemObject (last));
    }
}

/* Destructor callbacks */

static void
destructors (World *world)
{
  static const gsize sizes[] = { 1, 513, MIB + 7 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      cl_mem buffer = promise_filled (world, sizes[i], i);
      guint with_memory = 0;
      Note notes[20];
      Diary diary;

      diary_init (&diary);
      for (guint k = 0; k < G_N_ELEMENTS (notes); k++)
        set_note (&notes[k], &diary, 'a' + k, buffer);
      printf ("NULL: %s\n",
              promise_status (clSetMemObjectDestructorCallback (buffer, NULL, &diary)));
      OK (clRetainMemObject (buffer));
      OK (clReleaseMemObject (buffer));
      OK (clFinish (world->queue));
      diary_print (&diary, 0, "still held");
      printf ("held by %u\n", promise_wait_count (buffer, 1));
      OK (clReleaseMemObject (buffer));
      diary_print (&diary, G_N_ELEMENTS (notes), "released");
      for (guint k = 0; k < G_N_ELEMENTS (notes); k++)
        with_memory += notes[k].has_memory;
      printf ("%u were given the buffer\n", with_memory);
      diary_clear (&diary);
    }
  printf ("no buffer: %s\n",
          promise_status (clSetMemObjectDestructorCallback (NULL, on_destroyed, NULL)));
}

/* Enqueues one command of each kind, the first behind the gate. */
static void
enqueue_use (World *world, guint kind, cl_mem buffer, gpointer host, cl_event gate)
{
  cl_uint zero = 0;
  cl_kernel kernel;

  if (kind == 0)
    OK (clEnqueueFillBuffer (world->queue, buffer, &zero, 1, 0, 600, 1, &gate, NULL));
  else if (kind == 1)
    OK (clEnqueueReadBuffer (world->queue, buffer, CL_FALSE, 0, 600, host, 1, &gate, NULL));
  else if (kind == 2)
    OK (clEnqueueWriteBuffer (world->queue, buffer, CL_FALSE, 0, 600, host, 1, &gate, NULL));
  else if (kind == 3)
    OK (clEnqueueCopyBuffer (world->queue, buffer, buffer, 0, 300, 300, 1, &gate, NULL));
  else if (kind == 4)
    OK (clEnqueueMigrateMemObjects (world->queue, 1, &buffer, 0, 1, &gate, NULL));
  else
    {
      kernel = promise_kernel (world, "fill");
      promise_set (kernel, buffer, 600, 1);
      promise_launch (world->queue, kernel, 1, &gate, NULL);
      OK (clReleaseKernel (kernel));
    }
}

/* No callback before the commands are done that use the buffer; then each, once. */
static void
try_used (World *world, gboolean part)
{
  static const gchar *const kinds[] = { "fill", "read", "write", "copy", "migrate", "kernel" };
  guchar host[600] = { 0 };

  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    {
      cl_event gate = promise_gate (world);
      cl_mem whole = promise_buffer (world, 0, sizeof host, NULL);
      cl_mem buffer = part ? promise_part (whole, 0, 0, sizeof host) : whole;
      Note notes[3];
      Diary diary;

      diary_init (&diary);
      for (guint k = 0; k < G_N_ELEMENTS (notes); k++)
        set_note (&notes[k], &diary, 'a' + k, buffer);
      enqueue_use (world, kind, buffer, host, gate);
      OK (clFlush (world->queue));
      if (part)
        OK (clReleaseMemObject (whole));
      OK (clReleaseMemObject (buffer));
      printf ("%s, ", kinds[kind]);
      promise_expect (world, diary_print (&diary, 0, "released") == 0);
      promise_open (gate);
      OK (clFinish (world->queue));
      printf ("%s, ", kinds[kind]);
      diary_print (&diary, G_N_ELEMENTS (notes), "done");
      diary_clear (&diary);
    }
}

static void
destructors_used (World *world)
{
  try_used (world, FALSE);
}

/* PoCL 3.1 calls them too early: its commands hold what the part is of. */
static void
destructors_used_parts (World *world)
{
  try_used (world, TRUE);
}

/* A buffer is there until its parts are gone. Which of the callbacks of different objects comes
 * first is nowhere said: each object's are printed apart. */
static void
destructors_parts (World *world)
{
  static const gchar *const orders[] = { "wpq", "pwq", "pqw", "qpw", "wqp", "qwp" };
  gsize alignment = promise_get_alignment (world);

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      cl_mem whole = promise_buffer (world, 0, 4 * alignment, NULL);
      cl_mem p = promise_part (whole, 0, 0, alignment);
      cl_mem q = promise_part (whole, 0, alignment, alignment);
      Diary of_whole, of_p, of_q;
      Note notes[6];

      diary_init (&of_whole);
      diary_init (&of_p);
      diary_init (&of_q);
      for (guint k = 0; k < 2; k++)
        {
          set_note (&notes[k], &of_whole, 'a' + k, whole);
          set_note (&notes[2 + k], &of_p, 'a' + k, p);
          set_note (&notes[4 + k], &of_q, 'a' + k, q);
        }
      for (const gchar *c = orders[i]; *c != '\0'; c++)
        {
          OK (clReleaseMemObject (*c == 'w' ? whole : *c == 'p' ? p : q));
          printf ("%s, %c:\n", orders[i], *c);
          diary_print (&of_whole, c[1] == '\0' ? 2 : 0, "  whole");
          diary_print (&of_p, strchr (orders[i], 'p') <= c ? 2 : 0, "  p");
          diary_print (&of_q, strchr (orders[i], 'q') <= c ? 2 : 0, "  q");
        }
      diary_clear (&of_whole);
      diary_clear (&of_p);
      diary_clear (&of_q);
    }
}

/* Callbacks release other buffers, whose callbacks release others, and make new ones. */
static void
destructors_calls (World *world)
{
  cl_mem buffers[10];
  Note notes[10];
  Diary diary;

  diary_init (&diary);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      buffers[i] = promise_filled (world, 1000, i);
      set_note (&notes[i], &diary, 'a' + i, buffers[i]);
      notes[i].other = i == 0 ? NULL : buffers[i - 1];
      notes[i].context = world->context;
    }
  OK (clReleaseMemObject (buffers[9]));
  printf ("%u calls\n", diary_wait (&diary, 10)); /* in any order */
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      cl_mem made = notes[i].made;

      printf ("made %s", made == NULL ? "nothing\n" : "");
      if (made == NULL)
        continue;
      promise_write (world->queue, made, 0, 1000, 20 + i);
      printf ("%u: %zu wrong\n", promise_wait_count (made, 1),
              promise_read_wrong (world->queue, made, 0, 1000, 20 + i, 0));
      OK (clReleaseMemObject (made));
    }
  diary_clear (&diary);
}

/* The host's memory is the program's again when the callback is called, and up to date. */
static void
destructors_host (World *world)
{
  for (guint i = 0; i < 20; i++)
    {
      gsize size = 1 + 1000 * i;
      gpointer host = NULL;
      cl_kernel kernel = promise_kernel (world, "fill");
      Note note;
      cl_mem buffer;
      Diary diary;

      if (posix_memalign (&host, 4096, size) != 0)
        g_error ("no memory");
      buffer = promise_buffer (world, CL_MEM_USE_HOST_PTR, size, host);
      diary_init (&diary);
      set_note (&note, &diary, 'h', buffer);
      promise_run (world->queue, kernel, buffer, size, i);
      OK (clReleaseKernel (kernel));
      OK (clReleaseMemObject (buffer));
      OK (clFinish (world->queue));
      diary_print (&diary, 1, "released");
      memset (host, 1, size);
      free (host);
      diary_clear (&diary);
    }
}

/* Events' callbacks */

static void CL_CALLBACK
on_complete (cl_event event, cl_int status, void *data)
{
  Note *note = data;

  (void) event;
  OK (clReleaseMemObject (note->memory));
  diary_write (note->diary, status == CL_COMPLETE ? 'c' : 'e');
}

/* The last reference is dropped by a callback of the command that uses the buffer. */
static void
events_release (World *world)
{
  Note notes[50];
  Diary diary;
  guchar *read[50];

  diary_init (&diary);
  for (guint i = 0; i < G_N_ELEMENTS (notes); i++)
    {
      gsize size = 1 + 97 * i;
      cl_event event;

      read[i] = g_malloc0 (size);
      memset (&notes[i], 0, sizeof notes[i]);
      notes[i].diary = &diary;
      notes[i].memory = promise_filled (world, size, i);
      OK (clEnqueueReadBuffer (world->queue, notes[i].memory, CL_FALSE, 0, size, read[i], 0, NULL,
                               &event));
      OK (clSetEventCallback (event, CL_COMPLETE, on_complete, &notes[i]));
      OK (clReleaseEvent (event));
    }
  OK (clFinish (world->queue));
  diary_print (&diary, G_N_ELEMENTS (notes), "callbacks");
  for (guint i = 0; i < G_N_ELEMENTS (notes); i++)
    {
      printf ("%zu ", promise_count_wrong (read[i], 1 + 97 * i, i, 0));
      g_free (read[i]);
    }
  printf ("wrong\n");
  diary_clear (&diary);
}

const Promise promises_references[] = { { "references", references, FALSE },
                                        { "references-used", references_used, FALSE },
                                        { "destructors", destructors, FALSE },
                                        { "destructors-used", destructors_used, FALSE },
                                        { "destructors-used-parts", destructors_used_parts, FALSE },
                                        { "destructors-parts", destructors_parts, FALSE },
                                        { "destructors-calls", destructors_calls, FALSE },
                                        { "destructors-host", destructors_host, FALSE },
                                        { "events-release", events_release, FALSE },
                                        { NULL, NULL, FALSE } };
