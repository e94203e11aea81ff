/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Occupancy from numbers alone: as PyCUDA has it, and as drivers do.  cuda-occupancy-sweep.c
 * compares with a driver. */

#include "cuda/occupancy-private.h"
#include "lib/data.h"
#include "multiprocessor.h"

#include <string.h>

static TarnCudaOccupancy
find (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes, guint registers)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;
  gboolean is_found = tarn_cuda_occupancy (data, threads, shared_bytes, registers,
                                           TARN_CUDA_OCCUPANCY_EXACT, &found, &error);

  g_assert_no_error (error);
  g_assert_true (is_found);
  return found;
}

static TarnCudaLimit
parse_limit (const gchar *name)
{
  static const gchar *const names[] = { "device", "regs", "smem", "warps" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (names[i], name) == 0)
      return (TarnCudaLimit) i;
  g_assert_not_reached ();
}

static gsize
parse_number (const gchar *text)
{
  return (gsize) g_ascii_strtoull (text, NULL, 10);
}

static void
check_pycuda_row (const gchar *line, gpointer unused)
{
  g_auto (GStrv) fields = g_strsplit (line, "\t", -1);
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  TarnCudaOccupancy untouched = found;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *occupancy = NULL;
  gboolean is_found;

  (void) unused;
  g_test_message ("%s", line);
  data.major = fields[0][0] - '0';
  data.minor = fields[0][2] - '0';
  data.max_threads_per_block = (guint) parse_number (fields[1]);
  data.registers_per_block = (guint) parse_number (fields[2]);
  data.shared_per_block = parse_number (fields[3]);
  is_found = tarn_cuda_occupancy (&data, (guint) parse_number (fields[4]), parse_number (fields[5]),
                                  (guint) parse_number (fields[6]), TARN_CUDA_OCCUPANCY_PYCUDA,
                                  &found, &error);
  g_assert_true (is_found == (error == NULL));
  if (g_str_has_prefix (fields[7], "error: "))
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_prefix (error->message, fields[7] + strlen ("error: ")));
      g_assert_cmpmem (&found, sizeof found, &untouched, sizeof untouched);
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpuint (found.blocks_per_mp, ==, parse_number (fields[7]));
  g_assert_cmpint (found.limited_by, ==, parse_limit (fields[8]));
  g_assert_cmpuint (found.warps_per_mp, ==, parse_number (fields[9]));
  occupancy = g_strdup_printf ("%.6f", found.occupancy);
  g_assert_cmpstr (occupancy, ==, fields[10]);
}

static void
test_pycuda (void)
{
  g_assert_cmpuint (data_for_each_row ("pycuda-occupancy.tsv", check_pycuda_row, NULL), ==, 150);
}

/* Numbers that the driver has are of no interest to PyCUDA's rules. */
static void
test_pycuda_device (void)
{
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;

  tarn_cuda_occupancy (&data, 32, 0, 0, TARN_CUDA_OCCUPANCY_PYCUDA, &found, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found.blocks_per_mp, ==, 8);
  g_assert_cmpuint (find (&data, 32, 0, 0).blocks_per_mp, ==, 32);
  data.major = 1;
  data.shared_per_block = 16384;
  tarn_cuda_occupancy (&data, 32, 2100, 0, TARN_CUDA_OCCUPANCY_PYCUDA, &found, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found.blocks_per_mp, ==, 6); /* 2100 -> 2560 */
}

#define DEVICE TARN_CUDA_LIMIT_DEVICE
#define REGISTERS TARN_CUDA_LIMIT_REGISTERS
#define SHARED TARN_CUDA_LIMIT_SHARED
#define WARPS TARN_CUDA_LIMIT_WARPS

/* By hand.  In each comment, what decides. */
static const struct
{
  gint major, minor;
  guint threads;
  gsize shared_bytes;
  guint registers;
  guint blocks;
  TarnCudaLimit limit;
} points[] = {
  { 3, 0, 32, 0, 63, 16, DEVICE },         /* 16384 / 2048 * 4 = 32 warps */
  { 3, 0, 32, 0, 64, 0, REGISTERS },       /* 63 at most */
  { 3, 5, 256, 0, 37, 6, REGISTERS },      /* 37 * 32 = 1184 -> 1280; 16384 / 1280 = 12; 48 / 8 */
  { 3, 5, 32, 0, 16, 16, DEVICE },         /* 16 blocks */
  { 3, 5, 128, 5000, 20, 9, SHARED },      /* 5000 -> 5120; 49152 / 5120 */
  { 3, 5, 128, 0, 32, 16, DEVICE },        /* and 64 / 4 by registers and by warps */
  { 3, 5, 1024, 49152, 32, 1, SHARED },    /* all of it */
  { 3, 5, 1024, 49153, 32, 0, SHARED },    /* more than a block can have */
  { 3, 7, 256, 0, 64, 8, REGISTERS },      /* 32768 / 2048 = 16; 64 / 8, and by warps */
  { 3, 7, 512, 0, 128, 2, REGISTERS },     /* 32768 / 4096 = 8; 32 / 16 */
  { 3, 7, 1024, 0, 65, 0, REGISTERS },     /* of a block's: 16384 / 2304 * 4 = 28 */
  { 5, 2, 64, 3000, 32, 32, DEVICE },      /* 3000 -> 3072: 32, too; 64 / 2, too */
  { 5, 2, 64, 3073, 32, 29, SHARED },      /* -> 3328 */
  { 5, 2, 192, 0, 40, 8, REGISTERS },      /* 16384 / 1280 = 12; 48 / 6 */
  { 5, 2, 192, 0, 32, 10, REGISTERS },     /* 64 / 6, as by warps */
  { 5, 3, 512, 0, 64, 2, REGISTERS },      /* a block has all that it may; 32 / 16 */
  { 5, 3, 544, 0, 64, 0, REGISTERS },      /* 17 warps of 16 */
  { 6, 0, 257, 0, 169, 0, REGISTERS },     /* a block: 16384 / 5632 = 2; 2 * 4 < 9 */
  { 6, 0, 64, 0, 40, 25, REGISTERS },      /* 32768 / 1280 = 25; 25 * 2 / 2 */
  { 6, 1, 64, 0, 40, 24, REGISTERS },      /* 16384 / 1280 = 12; 12 * 4 / 2 */
  { 7, 0, 1, 3100, 0, 29, SHARED },        /* 3100 -> 3328 */
  { 7, 0, 1, 98304, 0, 1, SHARED },        /* all of it */
  { 7, 5, 1024, 0, 32, 1, WARPS },         /* 32 warps; registers for two */
  { 7, 5, 32, 4100, 32, 15, SHARED },      /* 4100 -> 4352 */
  { 7, 5, 128, 4100, 32, 8, WARPS },       /* 32 / 4 */
  { 8, 0, 256, 40000, 32, 4, SHARED },     /* 41024 -> 41088; 167936 / 41088 */
  { 8, 0, 256, 166912, 32, 1, SHARED },    /* all of it */
  { 8, 0, 256, 166913, 32, 0, SHARED },    /* more than can be opted in to */
  { 8, 6, 1024, 0, 32, 1, WARPS },         /* 48 / 32 */
  { 8, 6, 512, 0, 40, 3, REGISTERS },      /* 48 / 16, as by warps */
  { 8, 6, 32, 0, 32, 16, DEVICE },         /* 16 blocks */
  { 8, 9, 64, 3200, 32, 24, DEVICE },      /* 3200 + 1024 = 33 * 128: 24, too */
  { 8, 9, 64, 3201, 32, 23, SHARED },      /* -> 34 * 128 */
  { 9, 0, 1024, 0, 64, 1, REGISTERS },     /* 16384 / 2048 = 8; 32 / 32 */
  { 9, 0, 1024, 0, 65, 0, REGISTERS },     /* 2080 -> 2304; 7 * 4 = 28 */
  { 9, 0, 33, 0, 255, 4, REGISTERS },      /* 8160 -> 8192; 2 * 4 / 2 */
  { 9, 0, 96, 0, 168, 4, REGISTERS },      /* 5376; 3 * 4 / 3 */
  { 9, 0, 32, 0, 256, 0, REGISTERS },      /* 255 at most */
  { 9, 0, 288, 0, 255, 0, REGISTERS },     /* 9 warps of 8 */
  { 9, 0, 32, 6272, 16, 32, DEVICE },      /* 7296 = 233472 / 32 */
  { 9, 0, 32, 6273, 16, 31, SHARED },      /* -> 7424 */
  { 9, 0, 32, 49152, 0, 4, SHARED },       /* 50176; 233472 / 50176 */
  { 9, 0, 1, 232448, 0, 1, SHARED },       /* all of it */
  { 9, 0, 1, 232449, 0, 0, SHARED },       /* more than can be opted in to */
  { 9, 0, 1024, 0, 0, 2, WARPS },          /* registers not counted */
  { 9, 0, 1024, 0, 32, 2, REGISTERS },     /* 64 / 32, as by warps */
  { 9, 0, 1025, 0, 16, 0, DEVICE },        /* more than a block can have */
  { 9, 0, 2048, 300000, 999, 0, DEVICE },  /* of all reasons, the first */
  { 10, 0, 384, 40000, 56, 3, REGISTERS }, /* 16384 / 1792 = 9; 36 / 12 */
  { 10, 0, 384, 76800, 40, 3, SHARED },    /* 77824; 233472 / 77824; 48 / 12 = 4 by registers */
  { 12, 0, 32, 0, 32, 24, DEVICE },        /* 24 blocks */
  { 12, 0, 768, 0, 40, 2, REGISTERS },     /* 16384 / 1280 = 12; 48 / 24, as by warps */
  { 12, 0, 32, 101376, 32, 1, SHARED },    /* all of it */
};

static void
test_points (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (points); i++)
    {
      const CudaDevice *device = cuda_find_device (points[i].major, points[i].minor);
      TarnCudaDeviceData data = cuda_make_data (device);
      TarnCudaOccupancy found
          = find (&data, points[i].threads, points[i].shared_bytes, points[i].registers);
      guint warps = points[i].blocks * ((points[i].threads + 31) / 32);

      g_test_message ("%d.%d: %u threads, %" G_GSIZE_FORMAT " bytes, %u registers", points[i].major,
                      points[i].minor, points[i].threads, points[i].shared_bytes,
                      points[i].registers);
      g_assert_cmpuint (found.blocks_per_mp, ==, points[i].blocks);
      g_assert_cmpint (found.limited_by, ==, points[i].limit);
      g_assert_cmpuint (found.warps_per_mp, ==, warps);
      /* Where numbers have 80 bits, what was stored is not what was computed. */
      g_assert_cmpfloat_with_epsilon (found.occupancy, (gdouble) warps / device->warps_per_mp,
                                      1e-15);
    }
}

static void
check_simulation (const CudaDevice *device, guint threads, gsize shared_bytes, guint registers)
{
  TarnCudaDeviceData data = cuda_make_data (device);
  guint found = find (&data, threads, shared_bytes, registers).blocks_per_mp;
  guint simulated = cuda_simulate (device, threads, shared_bytes, registers);

  if (found != simulated)
    g_error ("%d.%d: %u threads, %" G_GSIZE_FORMAT " bytes, %u registers: %u, simulated %u",
             device->major, device->minor, threads, shared_bytes, registers, found, simulated);
}

static void
test_simulation (void)
{
  guint n = 0;

  for (gsize i = 0; i < cuda_n_devices; i++)
    for (guint threads = 1; threads <= 1060; threads += threads < 70 ? 31 : 53)
      for (guint registers = 0; registers <= 258; registers += registers < 16 ? 16 : 11)
        for (gsize bytes = 0; bytes <= 240000; bytes += bytes < 9000 ? 857 : 29959)
          {
            check_simulation (&cuda_devices[i], threads, bytes, registers);
            n++;
          }
  g_test_message ("%u points", n);
  g_assert_cmpuint (n, >, 50000);
}

/* More of anything never lets more blocks in, and what is found fits. */
static void
check_monotone (const TarnCudaDeviceData *data, GRand *rand)
{
  guint threads = (guint) g_rand_int_range (rand, 1, 1100);
  guint registers = (guint) g_rand_int_range (rand, 0, 257);
  gsize bytes = (gsize) g_rand_int_range (rand, 0, 240000) >> g_rand_int_range (rand, 0, 8);
  guint more = (guint) g_rand_int_range (rand, 1, 300);
  TarnCudaOccupancy found = find (data, threads, bytes, registers);
  guint blocks = found.blocks_per_mp;

  g_assert_cmpuint (find (data, threads + more, bytes, registers).blocks_per_mp, <=, blocks);
  g_assert_cmpuint (find (data, threads, bytes + more * 64, registers).blocks_per_mp, <=, blocks);
  g_assert_cmpuint (find (data, threads, bytes, registers + more).blocks_per_mp, <=, blocks);
  g_assert_cmpuint (blocks, <=, data->blocks_per_mp);
  g_assert_cmpuint (found.warps_per_mp, ==, blocks * ((threads + 31) / 32));
  g_assert_cmpuint (found.warps_per_mp, <=, data->warps_per_mp);
  g_assert_cmpuint (found.warps_per_mp * 32 * registers, <=, data->registers_per_mp);
  g_assert_cmpuint (blocks * bytes, <=, data->shared_per_mp);
}

static void
test_monotone (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (g_test_rand_int_range (0, G_MAXINT32));

  for (guint i = 0; i < 20000; i++)
    {
      TarnCudaDeviceData data = cuda_make_data (&cuda_devices[i % cuda_n_devices]);

      check_monotone (&data, rand);
    }
}

static void
assert_error (const TarnCudaDeviceData *data, guint threads, gint code, const gchar *text)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  TarnCudaOccupancy untouched = found;
  g_autoptr (GError) error = NULL;

  g_assert_false (
      tarn_cuda_occupancy (data, threads, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, &found, &error));
  g_assert_error (error, TARN_ERROR, code);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_cmpmem (&found, sizeof found, &untouched, sizeof untouched);
}

static void
test_bad_input (void)
{
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  guint *const fields[]
      = { &data.max_threads_per_block, &data.warp_size,           &data.warps_per_mp,
          &data.blocks_per_mp,         &data.registers_per_block, &data.registers_per_mp };

  assert_error (&data, 0, TARN_ERROR_INVALID_ARGUMENT, "0 threads");
  g_assert_false (tarn_cuda_occupancy (&data, 0, 0, 0, TARN_CUDA_OCCUPANCY_PYCUDA, &found, NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      guint kept = *fields[i];

      *fields[i] = 0;
      assert_error (&data, 32, TARN_ERROR_INVALID_ARGUMENT, "is 0");
      *fields[i] = kept;
    }
  data.shared_per_mp = 0;
  assert_error (&data, 32, TARN_ERROR_INVALID_ARGUMENT, "shared_per_mp");
  data.shared_per_mp = data.shared_per_block;
  data.shared_per_block = 0;
  assert_error (&data, 32, TARN_ERROR_INVALID_ARGUMENT, "shared_per_block");
}

/* What the struct says wins; what neither it nor the library says is no guess. */
static void
test_unknown (void)
{
  static const gint unknown[][2]
      = { { 13, 0 }, { 9, 1 }, { 8, 1 }, { 2, 0 }, { 1, 3 }, { 0, 0 }, { -1, -1 } };
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));

  for (gsize i = 0; i < G_N_ELEMENTS (unknown); i++)
    {
      data.major = unknown[i][0];
      data.minor = unknown[i][1];
      assert_error (&data, 32, TARN_ERROR_NOT_SUPPORTED, "is not known");
    }
  data.registers_per_thread = 128;
  assert_error (&data, 32, TARN_ERROR_NOT_SUPPORTED, "register_allocation_unit");
  data.register_allocation_unit = 512;
  assert_error (&data, 32, TARN_ERROR_NOT_SUPPORTED, "warp_allocation_granularity");
  data.warp_allocation_granularity = 2;
  assert_error (&data, 32, TARN_ERROR_NOT_SUPPORTED, "shared_allocation_unit");
  data.shared_allocation_unit = 8192;
  g_assert_cmpuint (find (&data, 32, 0, 129).blocks_per_mp, ==, 0);
  g_assert_cmpuint (find (&data, 64, 0, 65).blocks_per_mp, ==, 12); /* 2560; 32768 / 2560 = 12 */
  g_assert_cmpuint (find (&data, 32, 0, 16).blocks_per_mp, ==, 28); /* 228 KiB / 8 KiB */
  data.major = 9;
  data.minor = 0;
  g_assert_cmpuint (find (&data, 32, 0, 16).blocks_per_mp, ==, 28);
  g_assert_cmpuint (find (&data, 32, 0, 129).blocks_per_mp, ==, 0);
}

static void
test_huge (void)
{
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;

  g_assert_cmpuint (find (&data, G_MAXUINT, G_MAXSIZE, G_MAXUINT).blocks_per_mp, ==, 0);
  g_assert_cmpuint (find (&data, 1, G_MAXSIZE, 0).blocks_per_mp, ==, 0);
  data.shared_reserved_per_block = G_MAXSIZE;
  g_assert_cmpuint (find (&data, 1, 1, 0).blocks_per_mp, ==, 0);
  data.shared_per_mp = data.shared_per_block_optin = data.shared_reserved_per_block = G_MAXSIZE;
  g_assert_cmpuint (find (&data, 1, 1, 0).blocks_per_mp, ==, 0);
  data.shared_reserved_per_block = 0;
  g_assert_cmpuint (find (&data, 1, G_MAXSIZE - 127, 0).blocks_per_mp, ==, 1);
  data.max_threads_per_block = data.registers_per_thread = data.warp_size = G_MAXUINT;
  g_assert_cmpuint (find (&data, G_MAXUINT, 0, G_MAXUINT).blocks_per_mp, ==, 0);
  g_assert_false (tarn_cuda_occupancy (&data, G_MAXUINT, G_MAXSIZE, G_MAXUINT,
                                       TARN_CUDA_OCCUPANCY_PYCUDA, &found, NULL));
}

/* Callers that were compiled with a later header. */
typedef struct
{
  TarnCudaDeviceData data;
  gsize more;
} LaterData;

typedef struct
{
  TarnCudaOccupancy occupancy;
  gsize more;
} LaterOccupancy;

static void
test_versions (void)
{
  LaterData later = { cuda_make_data (cuda_find_device (9, 0)), 0 };
  LaterOccupancy found = { TARN_CUDA_OCCUPANCY_INIT, 1 };
  TarnCudaOccupancy old = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;

  old.struct_size = 0;
  g_assert_false (
      tarn_cuda_occupancy (&later.data, 64, 0, 8, TARN_CUDA_OCCUPANCY_EXACT, &old, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  old.struct_size = sizeof old;
  later.data.struct_size = sizeof later;
  found.occupancy.struct_size = sizeof found;
  tarn_cuda_occupancy (&later.data, 32, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, &found.occupancy, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found.occupancy.blocks_per_mp, ==, 32);
  g_assert_cmpuint (found.more, ==, 0);
  g_assert_cmpuint (found.occupancy.struct_size, ==, sizeof found);
  old.struct_size = G_STRUCT_OFFSET (TarnCudaOccupancy, occupancy);
  tarn_cuda_occupancy (&later.data, 32, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, &old, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (old.warps_per_mp, ==, 32);
  g_assert_cmpfloat (old.occupancy, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/occupancy/pycuda", test_pycuda);
  g_test_add_func ("/cuda/occupancy/pycuda-device", test_pycuda_device);
  g_test_add_func ("/cuda/occupancy/points", test_points);
  g_test_add_func ("/cuda/occupancy/simulation", test_simulation);
  g_test_add_func ("/cuda/occupancy/monotone", test_monotone);
  g_test_add_func ("/cuda/occupancy/bad-input", test_bad_input);
  g_test_add_func ("/cuda/occupancy/unknown", test_unknown);
  g_test_add_func ("/cuda/occupancy/huge", test_huge);
  g_test_add_func ("/cuda/occupancy/versions", test_versions);
  return g_test_run ();
}
