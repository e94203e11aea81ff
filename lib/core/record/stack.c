/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Stores the call stacks of requests: arrays of return addresses, equal stacks only once. */

#include <string.h>

#include "record/stream-private.h"

#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#endif
#endif

/* MAX_DEPTH: the largest number of frames that are stored of a stack.  Stacks whose first MAX_DEPTH
 * frames are equal count as the same stack.  MAX_STACKS: the largest number of different stacks
 * that are stored. */
#define MAX_DEPTH 64
#define MAX_STACKS (1U << 16)

/* The number of innermost frames that are left out of a stack: 1, the frame of _tarn_stack_take ().
 * The frames of other functions of this library stay in the stack. */
#define N_OWN 1

typedef struct
{
  guint32 number;
  guint n_frames;
  gpointer frames[];
} Stack;

static TarnMutex lock = TARN_MUTEX_INIT;
static GHashTable *known;  /* a set of Stack structs */
static GPtrArray *stacks;  /* an array of Stack: the stack with number n has index n - 1 */
static guint n_recorded;   /* the number of stacks that are in the recording's file */
static GHashTable *frames; /* a set of the code addresses that are in the recording's file */
/* A set of texts: the load address and path of each module (a program or library file) that is in
 * the recording's file. */
static GHashTable *modules;
static guint kept_depth; /* atomic: the depth that _tarn_stack_set_depth () has set */

static guint
hash_stack (gconstpointer key)
{
  const Stack *stack = key;
  guint64 hash = stack->n_frames;

  for (guint i = 0; i < stack->n_frames; i++)
    hash = (hash ^ GPOINTER_TO_SIZE (stack->frames[i])) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return (guint) (hash >> 32);
}

static gboolean
equal_stacks (gconstpointer a, gconstpointer b)
{
  const Stack *left = a, *right = b;

  return left->n_frames == right->n_frames
         && memcmp (left->frames, right->frames, left->n_frames * sizeof (gpointer)) == 0;
}

/* Returns the number of a stack, and stores the stack if it is new.  Returns 0 if the stack is new
 * and MAX_STACKS stacks are stored already. */
static guint32
intern (const Stack *stack)
{
  gsize size = sizeof (Stack) + stack->n_frames * sizeof (gpointer);
  Stack *copy;

  _tarn_mutex_lock (&lock);
  if (known == NULL)
    {
      known = g_hash_table_new (hash_stack, equal_stacks);
      stacks = g_ptr_array_new ();
    }
  copy = g_hash_table_lookup (known, stack);
  if (copy == NULL && stacks->len < MAX_STACKS)
    {
      copy = g_malloc (size);
      memcpy (copy, stack, size);
      g_ptr_array_add (stacks, copy);
      copy->number = stacks->len;
      g_hash_table_add (known, copy);
    }
  _tarn_mutex_unlock (&lock);
  return copy != NULL ? copy->number : 0;
}

void
_tarn_stack_set_depth (guint depth)
{
  __atomic_store_n (&kept_depth, depth, __ATOMIC_RELAXED);
}

void
_tarn_stack_need_depth (guint depth)
{
  guint before = __atomic_load_n (&kept_depth, __ATOMIC_RELAXED);

  while (before < depth
         && !__atomic_compare_exchange_n (&kept_depth, &before, depth, FALSE, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
    ;
}

#ifdef HAVE_BACKTRACE
static guint
get_depth (void)
{
  guint recorded = _tarn_records () ? _tarn_recorder_get_stack_depth () : 0;

  return MIN (MAX (recorded, __atomic_load_n (&kept_depth, __ATOMIC_RELAXED)), MAX_DEPTH);
}
#endif

guint32
_tarn_stack_take (void)
{
#ifdef HAVE_BACKTRACE
  gpointer place[(sizeof (Stack) / sizeof (gpointer)) + MAX_DEPTH + N_OWN];
  guint depth = get_depth ();
  Stack *stack = (Stack *) place;
  gint n;

  if (depth == 0)
    return 0;
  n = backtrace (stack->frames, (gint) (depth + N_OWN));
  if (n <= N_OWN)
    return 0;
  stack->n_frames = (guint) n - N_OWN;
  memmove (stack->frames, stack->frames + N_OWN, stack->n_frames * sizeof (gpointer));
  return intern (stack);
#else
  return 0;
#endif
}

const gpointer *
_tarn_stack_get_frames (guint32 stack, guint *n_frames)
{
  const Stack *known_stack = NULL;

  _tarn_mutex_lock (&lock);
  if (stacks != NULL && stack > 0 && stack <= stacks->len)
    known_stack = g_ptr_array_index (stacks, stack - 1);
  _tarn_mutex_unlock (&lock);
  *n_frames = known_stack != NULL ? known_stack->n_frames : 0;
  return known_stack != NULL ? known_stack->frames : NULL;
}

/* Adds an event for a module (a program or library file) to @bytes, unless the recording has such
 * an event. */
static void
add_module (GByteArray *bytes, const TarnModule *module)
{
  const guchar start[2] = { TARN_TRACE_MODULE, 0 };
  if (!g_hash_table_add (modules, _tarn_module_get_key (module)))
    return;
  g_byte_array_append (bytes, start, sizeof start);
  _tarn_bytes_add_number (bytes, module->load_address);
  _tarn_bytes_add_text (bytes, module->path);
  _tarn_bytes_add_text (bytes, module->build_id);
}

/* Adds an event for a code address to @bytes, unless the recording has such an event.  The event
 * contains the path of the program or library file with this code, and the code's offset in the
 * file.  Tools look up symbols later. */
static void
add_frame (GByteArray *bytes, gpointer address)
{
  const guchar start[2] = { TARN_TRACE_FRAME, 0 };
  guint64 number = GPOINTER_TO_SIZE (address);
  TarnModule module;

  if (!g_hash_table_add (frames, address))
    return;
  if (_tarn_module_find (address, &module))
    add_module (bytes, &module);
  g_byte_array_append (bytes, start, sizeof start);
  _tarn_bytes_add_number (bytes, number);
  _tarn_bytes_add_text (bytes, module.path);
  _tarn_bytes_add_number (bytes, number - module.load_address);
  _tarn_bytes_add_text (bytes, NULL);
  _tarn_bytes_add_number (bytes, 0);
}

static void
add_stack (GByteArray *bytes, const Stack *stack)
{
  const guchar start[2] = { TARN_TRACE_STACK, 0 };

  for (guint i = 0; i < stack->n_frames; i++)
    add_frame (bytes, stack->frames[i]);
  g_byte_array_append (bytes, start, sizeof start);
  _tarn_bytes_add_number (bytes, stack->number);
  _tarn_bytes_add_number (bytes, stack->n_frames);
  for (guint i = 0; i < stack->n_frames; i++)
    _tarn_bytes_add_number (bytes, GPOINTER_TO_SIZE (stack->frames[i]));
}

/* Returns the next stack that is not in the recording's file yet, or NULL if there is none. */
static const Stack *
get_next (void)
{
  const Stack *stack;

  _tarn_mutex_lock (&lock);
  stack = stacks != NULL && n_recorded < stacks->len ? g_ptr_array_index (stacks, n_recorded++)
                                                     : NULL;
  _tarn_mutex_unlock (&lock);
  return stack;
}

/* Adds to @bytes the events for the stacks that are not in the recording's file yet.  If the file
 * is new, @all is TRUE, and the function adds all stacks.  Only the recorder's thread calls this
 * function.
 *
 * It does not hold the mutex "lock" while it looks up modules, because the lookup takes locks of
 * the loader.  A thread that holds these locks may wait for the mutex, so this could deadlock. */
void
_tarn_stacks_add_new (GByteArray *bytes, gboolean all)
{
  const Stack *stack;

  if (all)
    {
      g_clear_pointer (&frames, g_hash_table_unref);
      g_clear_pointer (&modules, g_hash_table_unref);
      frames = g_hash_table_new (NULL, NULL);
      modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      _tarn_mutex_lock (&lock);
      n_recorded = 0;
      _tarn_mutex_unlock (&lock);
    }
  while ((stack = get_next ()) != NULL)
    add_stack (bytes, stack);
}
