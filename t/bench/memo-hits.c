/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of a hit in a memo beside a lookup of the same key in a hash table, and how
 * hits of several threads scale.  Times depend on the machine: read the ratios. */

#include <stdio.h>
#include <stdlib.h>
#include <tarn/tarn.h>

#define ENTRIES_PER_THREAD 8
#define MAX_THREADS 64
#define REPETITIONS 7

typedef enum
{
  TABLE,  /* g_hash_table_lookup (), without a lock or a reference */
  OWN,    /* each thread looks up entries of its own */
  SHARED, /* all threads look up the same entries */
  PRIVATE /* each thread has a value of its own for the same entries */
} Kind;

static const gchar *const names[] = { "g_hash_table_lookup", "memo, entries of its own",
                                      "memo, the same entries", "memo, a value for each thread" };

typedef struct
{
  Kind kind;
  TarnMemo *memo;
  GHashTable *table;
  gint ready;      /* atomic: threads that wait for the start */
  gint is_started; /* atomic */
  guint n_threads;
  guint64 n_hits; /* for each thread */
} Run;

typedef struct
{
  Run *run;
  guint number;
} Thread;

typedef struct
{
  gint ref_count;
  gchar padding[124]; /* values of several threads are not in one cache line */
} Value;

static gpointer
value_ref (gpointer unused, gpointer value)
{
  (void) unused;
  g_atomic_int_inc (&((Value *) value)->ref_count);
  return value;
}

static void
value_unref (gpointer unused, gpointer value, gpointer first_arg, gboolean is_dead)
{
  (void) unused;
  (void) first_arg;
  (void) is_dead;
  if (g_atomic_int_dec_and_test (&((Value *) value)->ref_count))
    g_free (value);
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer unused, GError **error)
{
  Value *value = g_new0 (Value, 1);

  (void) first_arg;
  (void) key;
  (void) unused;
  (void) error;
  value->ref_count = 1;
  return value;
}

static gpointer
value_for_thread (gpointer unused, gpointer value, gpointer first_arg, gconstpointer key,
                  GError **error)
{
  (void) value;
  return compute (first_arg, key, unused, error);
}

static gchar **
make_keys (guint n)
{
  gchar **keys = g_new0 (gchar *, n + 1);

  for (guint i = 0; i < n; i++)
    keys[i] = g_strdup_printf ("scale_float4_%u", i);
  return keys;
}

static guint64
look_up (const Run *run, gchar **keys, guint64 n)
{
  guint64 found = 0;

  for (guint64 i = 0; i < n; i++)
    found += g_hash_table_lookup (run->table, keys[i % ENTRIES_PER_THREAD]) != NULL;
  return found;
}

static guint64
get (const Run *run, gchar **keys, guint64 n)
{
  static gint context; /* its address is the first argument */
  guint64 found = 0;
  gpointer value;

  for (guint64 i = 0; i < n; i++)
    if (tarn_memo_get (run->memo, &context, keys[i % ENTRIES_PER_THREAD], &value, NULL))
      {
        found++;
        value_unref (NULL, value, NULL, FALSE);
      }
  return found;
}

static gpointer
run_thread (gpointer data)
{
  const Thread *thread = data;
  Run *run = thread->run;
  g_auto (GStrv) keys = make_keys (ENTRIES_PER_THREAD * MAX_THREADS);
  gchar **own = keys + (run->kind == OWN ? thread->number * ENTRIES_PER_THREAD : 0);
  guint64 found;

  found = run->kind == TABLE ? look_up (run, own, ENTRIES_PER_THREAD)
                             : get (run, own, ENTRIES_PER_THREAD);
  g_atomic_int_inc (&run->ready);
  while (!g_atomic_int_get (&run->is_started))
    ;
  found += run->kind == TABLE ? look_up (run, own, run->n_hits) : get (run, own, run->n_hits);
  if (found != run->n_hits + ENTRIES_PER_THREAD)
    g_error ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " found", found, run->n_hits);
  return NULL;
}

/* Measures the nanoseconds of a lookup, for all threads together. */
static gdouble
run_once (Run *run)
{
  GThread *threads[MAX_THREADS];
  Thread data[MAX_THREADS];
  gint64 start;

  run->ready = 0;
  run->is_started = FALSE;
  for (guint i = 0; i < run->n_threads; i++)
    {
      data[i] = (Thread){ run, i };
      threads[i] = g_thread_new ("memo-hits", run_thread, &data[i]);
    }
  while (g_atomic_int_get (&run->ready) < (gint) run->n_threads)
    g_thread_yield ();
  start = g_get_monotonic_time ();
  g_atomic_int_set (&run->is_started, TRUE);
  for (guint i = 0; i < run->n_threads; i++)
    g_thread_join (threads[i]);
  return (gdouble) (g_get_monotonic_time () - start) * 1000 / (gdouble) run->n_hits
         / run->n_threads;
}

static int
compare (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

/* Gets the median. */
static gdouble
measure (Kind kind, guint n_threads, guint64 n_hits)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  g_autoptr (GHashTable) table = g_hash_table_new (g_str_hash, g_str_equal);
  g_auto (GStrv) keys = make_keys (ENTRIES_PER_THREAD * MAX_THREADS);
  Run run = { .kind = kind, .table = table, .n_threads = n_threads, .n_hits = n_hits };
  gdouble times[REPETITIONS];

  ops.key_type = TARN_MEMO_KEY_STRING;
  ops.ref_value = value_ref;
  ops.unref_value = value_unref;
  ops.value_for_thread = kind == PRIVATE ? value_for_thread : NULL;
  run.memo = memo = tarn_memo_new (&ops, compute, NULL, NULL);
  for (guint i = 0; keys[i] != NULL; i++)
    g_hash_table_insert (table, keys[i], keys[i]);
  for (guint i = 0; i < REPETITIONS; i++)
    times[i] = run_once (&run);
  qsort (times, REPETITIONS, sizeof *times, compare);
  return times[REPETITIONS / 2];
}

static void
print_row (Kind kind, guint max_threads, guint64 n_hits, gdouble table_time)
{
  gdouble alone = 0;

  for (guint n = 1; n <= max_threads; n *= 2)
    {
      gdouble time = measure (kind, n, n_hits);

      if (n == 1)
        alone = time;
      printf ("%-30s %7u %9.1f %9.2f %9.2f\n", names[kind], n, time, time / table_time,
              alone / time);
    }
}

int
main (int argc, char **argv)
{
  gint threads = (gint) g_get_num_processors (), thousands = 2000;
  const GOptionEntry entries[] = {
    { "threads", 't', 0, G_OPTION_ARG_INT, &threads, "Up to N threads (default: processors)", "N" },
    { "hits", 'n', 0, G_OPTION_ARG_INT, &thousands, "N thousand hits in each thread (2000)", "N" },
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- what hits of a memo cost");
  g_autoptr (GError) error = NULL;
  gdouble table_time;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      return 2;
    }
  if (argc > 1 || threads < 1 || threads > MAX_THREADS || thousands < 1)
    {
      fprintf (stderr, "1 to %d threads, at least 1 thousand hits, and nothing else\n",
               MAX_THREADS);
      return 2;
    }
  table_time = measure (TABLE, 1, (guint64) thousands * 1000);
  printf ("%-30s %7s %9s %9s %9s\n", "", "threads", "ns", "x table", "gain");
  for (Kind kind = TABLE; kind <= PRIVATE; kind++)
    print_row (kind, (guint) threads, (guint64) thousands * 1000, table_time);
  return 0;
}
