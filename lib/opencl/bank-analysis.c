/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the layout of local memory's banks from the measured times of access patterns.  Lanes (work
 * items that access the memory at the same time) that access different words of one bank do so one
 * after another, in several passes.  For each possible layout and each pattern, this file computes
 * the number of passes.  With the right layout, the time of a pattern grows linearly with the
 * number of its passes: each pass takes a fixed time.  So for each layout, this file fits a line to
 * the times.  It chooses the layout whose line fits best, if this line fits well enough.
 *
 * Errors of measurement grow with the time, so a fit uses relative errors.  Another program may
 * make a few times far too long, so a fit may leave out the few patterns that fit worst. */

#include "bank-analysis-private.h"

/* A fit to n patterns may leave out up to n / PATTERNS_PER_OUTLIER patterns. */
#define PATTERNS_PER_OUTLIER 20

/* The memory has banks if the slowest pattern takes at least MIN_SLOWDOWN times as long as the
 * fastest, and the fitted line explains at least MIN_EXPLAINED (R squared) of the variation. */
#define MIN_SLOWDOWN 1.5
#define MIN_EXPLAINED 0.9

#define MAX_BANKS 128
/* The patterns cannot detect banks if the number of banks times a bank's width exceeds this many
 * bytes. */
#define MAX_PERIOD_BYTES 1024

/* Functions that list access patterns and possible layouts of banks, and count passes */

/* Lists the access patterns that fit into @bytes of local memory.  The patterns have different
 * purposes:
 *
 * - Strides that are powers of two show the number of banks.  The time grows with the stride until
 *   all lanes access one bank.
 * - Odd strides show whether the memory has banks, or is a cache.  An odd stride spreads the lanes
 *   over many banks, however far apart their words are.
 * - Pairs and fours of lanes show the width of a bank.  The lanes of a pair access two words that
 *   would be in neighbouring banks, or two banks apart, if a bank were 1 word wide.  If a bank is
 *   wider than this distance, both words are in different rows of one bank, so one lane waits for
 *   the other.
 * - Two halves of the lanes show the number of lanes that access the memory at a time.  Each half
 *   accesses one bank.  In some patterns the two halves access the same bank, in others different
 *   banks.  If the halves take turns, all these patterns take equally long. */
guint
_tarn_opencl_list_bank_patterns (guint lanes, guint64 bytes, TarnBankPattern *patterns)
{
  const guint half = lanes / 2;
  const TarnBankPattern all[] = {
    { lanes, 1, 0 },   { lanes, 2, 0 },    { lanes, 4, 0 },   { lanes, 8, 0 },  { lanes, 16, 0 },
    { lanes, 32, 0 },  { lanes, 64, 0 },   { lanes, 128, 0 }, { lanes, 3, 0 },  { lanes, 17, 0 },
    { lanes, 31, 0 },  { lanes, 33, 0 },   { lanes, 65, 0 },  { lanes, 24, 0 }, { half, 256, 32 },
    { half, 256, 64 }, { half, 256, 128 }, { 2, 513, 2 },     { 2, 513, 4 },    { 2, 513, 8 },
    { 2, 513, 16 },    { 2, 513, 32 },     { 2, 514, 4 },     { 2, 514, 8 },    { 2, 514, 16 },
    { 2, 514, 32 },    { 4, 513, 4 },      { 4, 513, 8 },     { half, 256, 4 }, { half, 128, 4 },
    { half, 128, 20 }, { half, 64, 4 },
  };
  guint n = 0;

  G_STATIC_ASSERT (G_N_ELEMENTS (all) <= TARN_BANK_MAX_PATTERNS);
  /* A pattern fits into the memory if the word of its last lane does, because no other lane
   * accesses a later word. */
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if ((_tarn_opencl_get_pattern_word (&all[i], lanes - 1) + G_GUINT64_CONSTANT (1)) * 4 <= bytes)
      patterns[n++] = all[i];
  return n;
}

guint
_tarn_opencl_get_pattern_word (const TarnBankPattern *pattern, guint lane)
{
  return lane % pattern->run * pattern->stride + lane / pattern->run * pattern->shift;
}

/* Returns TRUE if one of the first @n lanes accesses @word.  Lanes with the same word share a pass.
 */
static gboolean
is_seen (const guint *words, guint n, guint word)
{
  for (guint i = 0; i < n; i++)
    if (words[i] == word)
      return TRUE;
  return FALSE;
}

/* Returns the number of passes that one group of lanes needs.  @first: the first lane of the group.
 * The lanes of a group access the memory at the same time. */
static guint
count_passes_of_group (const TarnLocalMemory *memory, const TarnBankPattern *pattern, guint first)
{
  guint words[TARN_BANK_MAX_LANES]; /* the index of each lane's word, in words as wide as a bank */
  guint in_bank[MAX_BANKS] = { 0 };
  guint most = 0;

  for (guint i = 0; i < memory->work_items; i++)
    {
      guint *count;

      words[i] = _tarn_opencl_get_pattern_word (pattern, first + i) * 4 / memory->bank_bytes;
      count = &in_bank[words[i] % memory->bank_count];
      *count += !is_seen (words, i, words[i]);
      most = MAX (most, *count);
    }
  return most;
}

/* Returns the number of passes (accesses one after another) that @lanes lanes need for an access
 * pattern, if @memory is the layout of the banks. */
guint
_tarn_opencl_count_bank_passes (const TarnLocalMemory *memory, const TarnBankPattern *pattern,
                                guint lanes)
{
  guint passes = 0;

  g_assert (lanes <= TARN_BANK_MAX_LANES && memory->bank_count <= MAX_BANKS);
  for (guint first = 0; first < lanes; first += memory->work_items)
    passes += count_passes_of_group (memory, pattern, first);
  return passes;
}

/* Sets *memory to hypothesis number @index, a possible layout of banks.  Returns FALSE if @index is
 * too large.  In some hypotheses, all @lanes lanes access the memory at a time.  If @lanes is even
 * and at least 32, there are also hypotheses in which only half of the lanes do. */
gboolean
_tarn_opencl_get_bank_hypothesis (guint index, guint lanes, TarnLocalMemory *memory)
{
  for (guint items = lanes; items == lanes || (items * 2 == lanes && items >= 16); items /= 2)
    for (guint banks = 8; banks <= MAX_BANKS; banks *= 2)
      for (guint bytes = 4; bytes <= 16 && banks * bytes <= MAX_PERIOD_BYTES; bytes *= 2)
        if (index-- == 0)
          {
            *memory = (TarnLocalMemory){ sizeof *memory, banks, bytes, items, 0 };
            return TRUE;
          }
  return FALSE;
}

/* Functions that fit a line to the times of access patterns */

/* The number of passes, the time and the weight of each access pattern.  A fit leaves out patterns
 * of weight 0. */
typedef struct
{
  gdouble passes[TARN_BANK_MAX_PATTERNS];
  gdouble times[TARN_BANK_MAX_PATTERNS];
  gdouble weights[TARN_BANK_MAX_PATTERNS];
  guint n;
} Points;

/* The line that fits the points best.  It goes through the point (passes, time): the mean number of
 * passes and the mean time. */
typedef struct
{
  gdouble passes, time;
  gdouble slope; /* the time that each pass adds; never negative */
} Line;

typedef struct
{
  TarnLocalMemory memory;
  gdouble unexplained; /* the sum of the squares of the relative errors */
  gdouble explained;   /* the share of the times' variation that the line explains: R squared */
  gdouble slowdown;    /* the greatest time, as a multiple of the smallest */
} Fit;

static gdouble
get_mean (const gdouble *values, const Points *points)
{
  gdouble sum = 0, weight = 0;

  for (guint i = 0; i < points->n; i++)
    {
      sum += points->weights[i] * values[i];
      weight += points->weights[i];
    }
  return sum / weight;
}

static Line
fit_line (const Points *points)
{
  Line line = { get_mean (points->passes, points), get_mean (points->times, points), 0 };
  gdouble together = 0, alone = 0;

  for (guint i = 0; i < points->n; i++)
    {
      gdouble passes = points->passes[i] - line.passes;

      together += points->weights[i] * passes * (points->times[i] - line.time);
      alone += points->weights[i] * passes * passes;
    }
  if (alone > 0 && together > 0)
    line.slope = together / alone;
  return line;
}

static gdouble
get_square (const Points *points, const Line *line, guint i)
{
  gdouble expected = line->time + line->slope * (points->passes[i] - line->passes);
  gdouble difference = points->times[i] - expected;

  return points->weights[i] * difference * difference;
}

static gdouble
sum_squares (const Points *points, const Line *line)
{
  gdouble sum = 0;

  for (guint i = 0; i < points->n; i++)
    sum += get_square (points, line, i);
  return sum;
}

static void
leave_out_worst (Points *points)
{
  Line line = fit_line (points);
  guint worst = 0;

  for (guint i = 1; i < points->n; i++)
    if (get_square (points, &line, i) > get_square (points, &line, worst))
      worst = i;
  points->weights[worst] = 0;
}

static gdouble
get_slowdown (const Points *points)
{
  gdouble least = G_MAXDOUBLE, most = 0;

  for (guint i = 0; i < points->n; i++)
    if (points->weights[i] > 0)
      {
        least = MIN (least, points->times[i]);
        most = MAX (most, points->times[i]);
      }
  return most / least;
}

static void
fit_points (Points *points, Fit *fit)
{
  Line line, flat;
  gdouble variation;

  for (guint i = 0; i < points->n / PATTERNS_PER_OUTLIER; i++)
    leave_out_worst (points);
  line = flat = fit_line (points);
  flat.slope = 0;
  variation = sum_squares (points, &flat);
  fit->unexplained = sum_squares (points, &line);
  fit->explained = variation > 0 ? 1 - fit->unexplained / variation : 0;
  fit->slowdown = get_slowdown (points);
}

/* Functions that choose the layout of banks */

/* Computes the result from the best fit (@best) and the second best (@next).  The two fits belong
 * to different layouts of banks. */
static void
decide (const Fit *best, const Fit *next, TarnOpenclLocalMemory *result)
{
  gdouble varies = MIN (1, (best->slowdown - 1) / (MIN_SLOWDOWN - 1));

  *result = (TarnOpenclLocalMemory) TARN_OPENCL_LOCAL_MEMORY_INIT;
  result->has_banks = best->slowdown >= MIN_SLOWDOWN && best->explained >= MIN_EXPLAINED;
  if (!result->has_banks)
    {
      result->confidence = 1 - best->explained * varies;
      return;
    }
  result->bank_count = best->memory.bank_count;
  result->bank_bytes = best->memory.bank_bytes;
  result->work_items = best->memory.work_items;
  if (next->unexplained > 0)
    result->confidence = best->explained * (1 - best->unexplained / next->unexplained);
}

/* Finds the banks from the times of patterns, and fills in @result, the result of
 * tarn_opencl_measure_local_memory ().  @times: the time of each pattern, positive, in any unit. */
void
_tarn_opencl_analyze_banks (const TarnBankPattern *patterns, const gdouble *times, guint n,
                            guint lanes, TarnOpenclLocalMemory *result)
{
  Fit best = { .unexplained = G_MAXDOUBLE }, next = best, fit;

  g_assert (n > 0 && n <= TARN_BANK_MAX_PATTERNS);
  for (guint index = 0; _tarn_opencl_get_bank_hypothesis (index, lanes, &fit.memory); index++)
    {
      Points points = { .n = n };

      for (guint i = 0; i < n; i++)
        {
          points.passes[i] = _tarn_opencl_count_bank_passes (&fit.memory, &patterns[i], lanes);
          points.times[i] = times[i];
          points.weights[i] = 1 / (times[i] * times[i]);
        }
      fit_points (&points, &fit);
      if (fit.unexplained < best.unexplained)
        {
          next = best;
          best = fit;
        }
      else if (fit.unexplained < next.unexplained)
        next = fit;
    }
  decide (&best, &next, result);
}
