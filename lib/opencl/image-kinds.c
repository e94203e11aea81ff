/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of images: combinations of flags, format, type and sizes.  A pool distinguishes its cached
 * blocks only by their size.  So each kind in use gets a number of bytes that no other kind has:
 * the bytes of its pixels, or some more.  The pool has a bin (a list of cached blocks) for each
 * number of bytes, so it never uses a cached image of one kind for a request of another kind.
 *
 * A kind is removed when its last image is freed and no request for it is in progress.  If kinds
 * were never removed, the tables would grow without end in a program that uses ever new sizes of
 * images. */

#include "image-kinds-private.h"

#include "common/lock-private.h"

/* Constants of OpenCL that headers of OpenCL 1.2 may lack. */
#define DEPTH 0x10BD
#define UNORM_INT24 0x10DF
#define UNORM_INT_101010_2 0x10E0

/* The most bytes that an image may have.  The limit keeps sums from overflowing: the sum of eight
 * images' bytes still fits into a gsize. */
#define MAX_BYTES (G_MAXSIZE / 8)

/* choose_bytes () chooses a number of bytes that no other kind has.  It tries the number of bytes
 * of an image's pixels first, and then sums of this number and a random number, at first below
 * FIRST_RANGE.  It doubles the range after each TRIES_IN_RANGE failed tries. */
#define FIRST_RANGE ((gsize) 64)
#define TRIES_IN_RANGE 2

/* A kind of image that is in use. */
typedef struct
{
  TarnOpenclImageKind kind; /* the key in by_kind; must be the first field */
  gsize bytes;              /* the key in by_bytes; no other kind has it */
  /* the number of the kind's images, plus the number of requests for such an image that are in
   * progress; at least 1 */
  gsize n_uses;
} Entry;

/* The kinds of images of one pool.  A kind is listed while the pool has an image of the kind, or
 * while a request for such an image is in progress.  One table finds a kind by its properties
 * (flags, format, type and sizes), the other table by its number of bytes.  Invariant: both tables
 * have the same entries. */
struct _TarnOpenclImageKinds
{
  gint ref_count;       /* atomic */
  TarnMutex lock;       /* guards the fields below */
  GHashTable *by_kind;  /* a set that owns each Entry */
  GHashTable *by_bytes; /* maps the number of bytes of a kind to its Entry */
};

/* Functions that make a kind from the program's arguments */

/* The types of images that a pool can have, and the fields of cl_image_desc that each type uses. */
static const struct
{
  cl_mem_object_type type;
  const gchar *name;
  gboolean has_height, has_depth, is_array;
} types[] = {
  { CL_MEM_OBJECT_IMAGE1D, "1D image", FALSE, FALSE, FALSE },
  { CL_MEM_OBJECT_IMAGE1D_ARRAY, "array of 1D images", FALSE, FALSE, TRUE },
  { CL_MEM_OBJECT_IMAGE2D, "2D image", TRUE, FALSE, FALSE },
  { CL_MEM_OBJECT_IMAGE2D_ARRAY, "array of 2D images", TRUE, FALSE, TRUE },
  { CL_MEM_OBJECT_IMAGE3D, "3D image", TRUE, TRUE, FALSE },
};

/* Returns the index of a type in @types, or G_N_ELEMENTS (types) if pools have no such images. */
static guint
find_type (cl_mem_object_type type)
{
  guint i = 0;

  while (i < G_N_ELEMENTS (types) && types[i].type != type)
    i++;
  return i;
}

/* Fails for images that a pool cannot have, such as images that share the memory of a buffer. */
static gboolean
check_desc (const cl_image_desc *desc, GError **error)
{
  if (desc->buffer != NULL)
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                         "an image of another memory object (cl_image_desc.buffer) cannot come "
                         "from a pool");
  else if (desc->num_mip_levels != 0 || desc->num_samples != 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "cl_image_desc.num_mip_levels is %u and num_samples %u, but must be 0",
                 desc->num_mip_levels, desc->num_samples);
  else if (desc->image_row_pitch != 0 || desc->image_slice_pitch != 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "cl_image_desc.image_row_pitch is %" G_GSIZE_FORMAT " and image_slice_pitch "
                 "%" G_GSIZE_FORMAT ", but must be 0 without a host pointer",
                 (gsize) desc->image_row_pitch, (gsize) desc->image_slice_pitch);
  else if (find_type (desc->image_type) == G_N_ELEMENTS (types))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "cl_image_desc.image_type is 0x%x, which is no type of image that a pool has",
                 desc->image_type);
  else
    return TRUE;
  return FALSE;
}

static gboolean
check_sizes (const TarnOpenclImageKind *kind, guint type, GError **error)
{
  g_autofree gchar *text = NULL;

  if (kind->width > 0 && (kind->height > 0 || !types[type].has_height)
      && (kind->depth > 0 || !types[type].has_depth)
      && (kind->array_size > 0 || !types[type].is_array))
    return TRUE;
  text = _tarn_opencl_image_kind_describe (kind);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "%s has no pixels", text);
  return FALSE;
}

gboolean
_tarn_opencl_image_kind_init (TarnOpenclImageKind *kind, cl_mem_flags flags,
                              const cl_image_format *format, const cl_image_desc *desc,
                              GError **error)
{
  guint type = find_type (desc->image_type);

  if (!check_desc (desc, error))
    return FALSE;
  *kind = (TarnOpenclImageKind){
    .flags = flags,
    .format = *format,
    .type = desc->image_type,
    .width = desc->image_width,
    .height = types[type].has_height ? desc->image_height : 0,
    .depth = types[type].has_depth ? desc->image_depth : 0,
    .array_size = types[type].is_array ? desc->image_array_size : 0,
  };
  return check_sizes (kind, type, error);
}

cl_image_desc
_tarn_opencl_image_kind_get_desc (const TarnOpenclImageKind *kind)
{
  return (cl_image_desc){
    .image_type = kind->type,
    .image_width = kind->width,
    .image_height = kind->height,
    .image_depth = kind->depth,
    .image_array_size = kind->array_size,
  };
}

/* Appends the size of a dimension of an image to @text, unless it is 0. */
static void
append_size (GString *text, gsize size)
{
  if (size > 0)
    g_string_append_printf (text, " x %" G_GSIZE_FORMAT, size);
}

gchar *
_tarn_opencl_image_kind_describe (const TarnOpenclImageKind *kind)
{
  GString *text = g_string_new (NULL);

  g_string_printf (text, "a %" G_GSIZE_FORMAT, kind->width);
  append_size (text, kind->height);
  append_size (text, kind->depth);
  append_size (text, kind->array_size);
  g_string_append_printf (
      text, " %s of channel order 0x%x and type 0x%x, flags 0x%" G_GINT64_MODIFIER "x",
      types[find_type (kind->type)].name, kind->format.image_channel_order,
      kind->format.image_channel_data_type, (guint64) kind->flags);
  return g_string_free (text, FALSE);
}

/* Functions that count the bytes of an image */

/* Returns the number of channels of a channel order, or 4, the greatest, for an unknown order. */
static gsize
count_channels (cl_channel_order order)
{
  switch (order)
    {
    case CL_R:
    case CL_A:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case DEPTH:
    case CL_Rx:
      return 1;
    case CL_RG:
    case CL_RA:
    case CL_RGx:
      return 2;
    default:
      return 4; /* drivers pad 3 channels to 4, except in packed formats: see get_pixel_bytes () */
    }
}

/* Returns the bytes of a pixel in an image format, as the query CL_IMAGE_ELEMENT_SIZE does. */
static gsize
get_pixel_bytes (const cl_image_format *format)
{
  switch (format->image_channel_data_type)
    {
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555:
      return 2;
    case CL_UNORM_INT_101010:
    case UNORM_INT_101010_2:
    case UNORM_INT24:
      return 4;
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
      return count_channels (format->image_channel_order);
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT:
      return 2 * count_channels (format->image_channel_order);
    default:
      return 4 * count_channels (format->image_channel_order);
    }
}

/* Multiplies *bytes by the size @by of one dimension of an image.  Does nothing if @by is 0,
 * because the image then lacks this dimension.  Returns FALSE if the product would exceed
 * MAX_BYTES. */
static gboolean
multiply (gsize *bytes, gsize by)
{
  if (*bytes > MAX_BYTES / MAX (by, 1))
    return FALSE;
  *bytes *= MAX (by, 1);
  return TRUE;
}

static gboolean
count_bytes (const TarnOpenclImageKind *kind, gsize *bytes, GError **error)
{
  g_autofree gchar *text = NULL;

  *bytes = get_pixel_bytes (&kind->format);
  if (multiply (bytes, kind->width) && multiply (bytes, kind->height)
      && multiply (bytes, kind->depth) && multiply (bytes, kind->array_size))
    return TRUE;
  text = _tarn_opencl_image_kind_describe (kind);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE, "%s has more bytes than can be counted",
               text);
  return FALSE;
}

/* Functions that make the tables of kinds, and look up kinds in them */

static guint
mix (guint hash, guint64 value)
{
  return (hash ^ (guint) value ^ (guint) (value >> 32)) * 0x9e3779b1U;
}

static guint
kind_hash (gconstpointer item)
{
  const TarnOpenclImageKind *kind = item;
  guint hash = mix (kind->type, kind->flags);

  hash = mix (hash, kind->format.image_channel_order);
  hash = mix (hash, kind->format.image_channel_data_type);
  hash = mix (hash, kind->width);
  hash = mix (hash, kind->height);
  hash = mix (hash, kind->depth);
  hash = mix (hash, kind->array_size);
  return hash ^ hash >> 15;
}

static gboolean
kind_equal (gconstpointer a, gconstpointer b)
{
  const TarnOpenclImageKind *one = a, *other = b;

  return one->flags == other->flags && one->type == other->type
         && one->format.image_channel_order == other->format.image_channel_order
         && one->format.image_channel_data_type == other->format.image_channel_data_type
         && one->width == other->width && one->height == other->height && one->depth == other->depth
         && one->array_size == other->array_size;
}

TarnOpenclImageKinds *
_tarn_opencl_image_kinds_new (void)
{
  TarnOpenclImageKinds *kinds = g_new0 (TarnOpenclImageKinds, 1);

  kinds->ref_count = 1;
  _tarn_mutex_init (&kinds->lock);
  kinds->by_kind = g_hash_table_new_full (kind_hash, kind_equal, g_free, NULL);
  kinds->by_bytes = g_hash_table_new (NULL, NULL);
  return kinds;
}

TarnOpenclImageKinds *
_tarn_opencl_image_kinds_ref (TarnOpenclImageKinds *kinds)
{
  g_atomic_int_inc (&kinds->ref_count);
  return kinds;
}

void
_tarn_opencl_image_kinds_unref (TarnOpenclImageKinds *kinds)
{
  if (!g_atomic_int_dec_and_test (&kinds->ref_count))
    return;
  g_assert (g_hash_table_size (kinds->by_kind) == 0);
  g_hash_table_unref (kinds->by_bytes);
  g_hash_table_unref (kinds->by_kind);
  _tarn_mutex_clear (&kinds->lock);
  g_free (kinds);
}

/* Returns a pseudo-random number below @range.  The number depends only on a kind's hash, on the
 * number of the try, and on @range.  The function uses 64 random bits, because @range may exceed
 * 2^32 for huge images. */
static gsize
choose_offset (guint hash, guint n_tries, gsize range)
{
  guint64 high = mix (hash, ~n_tries), low = mix (hash, n_tries);

  return (gsize) ((high << 32 | low) % range);
}

/* Chooses the number of bytes of a new kind: a size of at least @at_least bytes that is the block
 * size of one of the pool's bins, and that no other kind has.  Tries the smallest such size first.
 * If another kind has this size, tries larger sizes at random, because the next sizes in order may
 * all belong to other kinds, too.  The caller holds the lock of @kinds. */
static gsize
choose_bytes (const TarnOpenclImageKinds *kinds, TarnPool *pool, guint hash, gsize at_least)
{
  gsize range = FIRST_RANGE, bytes = at_least;
  guint n_tries = 0;

  for (;;)
    {
      bytes = tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, bytes));
      if (!g_hash_table_contains (kinds->by_bytes, GSIZE_TO_POINTER (bytes)))
        return bytes;
      if (++n_tries % TRIES_IN_RANGE == 0 && range < MAX_BYTES)
        range *= 2;
      bytes = at_least + choose_offset (hash, n_tries, range);
    }
}

static Entry *
entry_new (TarnOpenclImageKinds *kinds, TarnPool *pool, const TarnOpenclImageKind *kind,
           gsize at_least)
{
  Entry *entry = g_new0 (Entry, 1);

  entry->kind = *kind;
  entry->bytes = choose_bytes (kinds, pool, kind_hash (kind), at_least);
  g_hash_table_add (kinds->by_kind, entry);
  g_hash_table_insert (kinds->by_bytes, GSIZE_TO_POINTER (entry->bytes), entry);
  return entry;
}

gboolean
_tarn_opencl_image_kinds_acquire (TarnOpenclImageKinds *kinds, TarnPool *pool,
                                  const TarnOpenclImageKind *kind, gsize *bytes, GError **error)
{
  gsize at_least;
  Entry *entry;

  if (!count_bytes (kind, &at_least, error))
    return FALSE;
  _tarn_mutex_lock (&kinds->lock);
  entry = g_hash_table_lookup (kinds->by_kind, kind);
  if (entry == NULL)
    entry = entry_new (kinds, pool, kind, at_least);
  entry->n_uses++;
  *bytes = entry->bytes;
  _tarn_mutex_unlock (&kinds->lock);
  return TRUE;
}

gboolean
_tarn_opencl_image_kinds_acquire_by_bytes (TarnOpenclImageKinds *kinds, gsize bytes,
                                           TarnOpenclImageKind *kind)
{
  Entry *entry;

  _tarn_mutex_lock (&kinds->lock);
  entry = g_hash_table_lookup (kinds->by_bytes, GSIZE_TO_POINTER (bytes));
  if (entry != NULL)
    {
      entry->n_uses++;
      *kind = entry->kind;
    }
  _tarn_mutex_unlock (&kinds->lock);
  return entry != NULL;
}

void
_tarn_opencl_image_kinds_release (TarnOpenclImageKinds *kinds, gsize bytes)
{
  Entry *entry;

  _tarn_mutex_lock (&kinds->lock);
  entry = g_hash_table_lookup (kinds->by_bytes, GSIZE_TO_POINTER (bytes));
  g_assert (entry != NULL && entry->n_uses > 0);
  if (--entry->n_uses == 0)
    {
      g_hash_table_remove (kinds->by_bytes, GSIZE_TO_POINTER (bytes));
      g_hash_table_remove (kinds->by_kind, entry);
    }
  _tarn_mutex_unlock (&kinds->lock);
}

guint
_tarn_opencl_image_kinds_get_n (TarnOpenclImageKinds *kinds)
{
  guint n;

  _tarn_mutex_lock (&kinds->lock);
  n = g_hash_table_size (kinds->by_kind);
  _tarn_mutex_unlock (&kinds->lock);
  return n;
}
