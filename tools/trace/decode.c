/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Decodes events.  Most kinds of events are a few numbers, and each number is for a member of
 * RecordedEvent.  A table lists these numbers in the order in which they are written.  For each of
 * the other kinds there is a function. */

#include "decode.h"

#include <string.h>
#include <tarn/tarn.h>

#define FIELD(type, member, name)                                                                  \
  {                                                                                                \
    FIELD_##type, G_STRUCT_OFFSET (RecordedEvent, member), name                                    \
  }
#define BLOCK FIELD (BLOCK, block, "block")
#define ADDRESS FIELD (ADDRESS, address, "address")
#define NEW_ADDRESS FIELD (ADDRESS, other, "new_address")
#define SIZE FIELD (NUMBER, size, "size")
#define ALLOC_SIZE FIELD (NUMBER, alloc_size, "alloc_size")
#define QUEUE FIELD (HANDLE, queue, "queue")
#define DURATION FIELD (NUMBER, duration, "duration")
#define ERROR FIELD (ERROR, other, "error")
#define OBJECT FIELD (NUMBER, object, "object")

#define SHORTAGE                                                                                   \
  FIELD (NUMBER, size, "wanted_bytes"), FIELD (NUMBER, alloc_size, "active_bytes"),                \
      FIELD (NUMBER, other, "held_bytes")

#define MAX_FIELDS 6 /* the most fields of an event, with FIELD_NONE at the end */

static const Field layouts[TARN_TRACE_N_KINDS][MAX_FIELDS] = {
  [TARN_TRACE_USE] = { OBJECT },
  [TARN_TRACE_QUEUE] = { FIELD (QUEUE, queue, "queue") },
  [TARN_TRACE_TAG] = { FIELD (NUMBER, tag, "string") },
  [TARN_TRACE_SET_STACK] = { FIELD (NUMBER, stack, "stack") },
  [TARN_TRACE_END] = { OBJECT },
  [TARN_TRACE_BLOCK] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS, FIELD (TRUTH, other, "in_use") },
  [TARN_TRACE_HIT] = { BLOCK, SIZE },
  [TARN_TRACE_MISS] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS },
  [TARN_TRACE_LENT] = { BLOCK, SIZE, ALLOC_SIZE, ADDRESS },
  [TARN_TRACE_FAIL] = { SIZE, ERROR },
  [TARN_TRACE_FREE] = { BLOCK },
  [TARN_TRACE_GONE] = { BLOCK },
  [TARN_TRACE_ALLOCATED] = { SIZE, ADDRESS, ERROR, DURATION },
  [TARN_TRACE_FREED] = { SIZE, ADDRESS, DURATION },
  [TARN_TRACE_MARK] = { QUEUE, DURATION },
  [TARN_TRACE_WAIT] = { QUEUE, DURATION },
  [TARN_TRACE_RECORD_USE] = { BLOCK, QUEUE },
  [TARN_TRACE_MOVE] = { BLOCK, QUEUE },
  [TARN_TRACE_FORGET] = { QUEUE },
  [TARN_TRACE_TRIM] = { FIELD (NUMBER, size, "keep_bytes"), FIELD (TRUTH, other, "stops_holding") },
  [TARN_TRACE_LIMIT] = { FIELD (NUMBER, size, "bytes") },
  [TARN_TRACE_RECLAIM]
  = { FIELD (NUMBER, size, "wanted_bytes"), FIELD (TRUTH, other, "gave"), DURATION },
  [TARN_TRACE_OUT_OF_MEMORY] = { SHORTAGE },
  [TARN_TRACE_PIECE] = { ADDRESS, SIZE, QUEUE },
  [TARN_TRACE_PIECE_GONE] = { ADDRESS, SIZE },
  [TARN_TRACE_PIECE_MOVED] = { ADDRESS, SIZE, NEW_ADDRESS, QUEUE },
  [TARN_TRACE_EXTENT] = { ADDRESS, SIZE },
  [TARN_TRACE_EXTENT_FREE] = { ADDRESS, SIZE },
  [TARN_TRACE_PART] = { ADDRESS, FIELD (ADDRESS, other, "part") },
  [TARN_TRACE_LOST] = { FIELD (NUMBER, size, "events") },
  [TARN_TRACE_LIMIT_REACHED] = { SHORTAGE },
};

const Field *
decode_get_fields (TarnTraceKind kind)
{
  g_assert (kind < TARN_TRACE_N_KINDS);
  return layouts[kind];
}

gboolean
decode_is_returned (TarnTraceKind kind)
{
  return kind >= TARN_TRACE_OBJECT && kind != TARN_TRACE_MODULE && kind != TARN_TRACE_NESTED;
}

gboolean
decode_has_object (TarnTraceKind kind)
{
  return kind < TARN_TRACE_LOST || kind == TARN_TRACE_LIMIT_REACHED;
}

gboolean
decode_is_request (TarnTraceKind kind)
{
  return kind >= TARN_TRACE_BLOCK && kind <= TARN_TRACE_FAIL;
}

static DecodeResult G_GNUC_PRINTF (4, 5)
    refuse (const Cursor *cursor, const guchar *place, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "at byte %" G_GINT64_FORMAT ": %s",
               (gint64) (place - cursor->file), text);
  return DECODE_FAILED;
}

/* Gets the result of decoding an event that is not complete: DECODE_CUT if the file ends inside the
 * event, an error if only its packet ends there. */
static DecodeResult
run_out (const Cursor *cursor, const guchar *place, const gchar *name, GError **error)
{
  if (cursor->n_missing > 0)
    return DECODE_CUT;
  return refuse (cursor, place, error, "%s goes beyond the end of the packet", name);
}

/* Reads a number of several bytes.  Each byte has seven bits of the number, the lowest bits first.
 * Its highest bit is set if another byte follows. */
static DecodeResult
read_long_number (Cursor *cursor, const gchar *name, guint64 *number, GError **error)
{
  const guchar *start = cursor->at;
  guint64 value = 0;

  for (guint shift = 0;; shift += 7)
    {
      guint64 bits;

      if (cursor->at == cursor->end)
        return run_out (cursor, start, name, error);
      if (shift > 63)
        return refuse (cursor, start, error, "%s has more than 10 bytes", name);
      bits = *cursor->at & 0x7f;
      if (bits << shift >> shift != bits)
        return refuse (cursor, start, error, "%s has more than 64 bits: its last byte is 0x%02x",
                       name, *cursor->at);
      value |= bits << shift;
      if (*cursor->at++ < 0x80)
        break;
    }
  *number = value;
  return DECODE_DONE;
}

static inline DecodeResult
read_number (Cursor *cursor, const gchar *name, guint64 *number, GError **error)
{
  if (G_LIKELY (cursor->at < cursor->end && *cursor->at < 0x80))
    {
      *number = *cursor->at++;
      return DECODE_DONE;
    }
  return read_long_number (cursor, name, number, error);
}

static DecodeResult
read_truth (Cursor *cursor, const gchar *name, guint64 *truth, GError **error)
{
  const guchar *start = cursor->at;
  DecodeResult result = read_number (cursor, name, truth, error);

  if (result == DECODE_DONE && *truth > 1)
    return refuse (cursor, start, error, "%s is neither 0 nor 1: %" G_GUINT64_FORMAT, name, *truth);
  return result;
}

/* Reads a count of items that take at least @min_bytes each.  Refuses a count if the packet has no
 * room for so many items.  So a damaged file causes no large allocation. */
static DecodeResult
read_count (Cursor *cursor, const gchar *name, guint min_bytes, guint64 *n, GError **error)
{
  const guchar *start = cursor->at;
  DecodeResult result = read_number (cursor, name, n, error);
  guint64 n_left = (guint64) (cursor->end - cursor->at);

  if (result != DECODE_DONE)
    return result;
  if (*n > (n_left + cursor->n_missing) / min_bytes)
    return refuse (cursor, start, error, "%s is too large for the packet: %" G_GUINT64_FORMAT, name,
                   *n);
  return *n > n_left / min_bytes ? DECODE_CUT : DECODE_DONE;
}

static DecodeResult
read_text (Cursor *cursor, const gchar *name, gboolean is_first, const gchar **text, gsize *length,
           GError **error)
{
  guint64 n;
  DecodeResult result = read_count (cursor, name, 1, &n, error);

  if (result != DECODE_DONE)
    return result;
  *text = (const gchar *) cursor->at;
  *length = (gsize) n;
  if (is_first && !g_utf8_validate_len (*text, *length, NULL))
    {
      g_autofree gchar *shown = g_strndup (*text, MIN (*length, 80));
      g_autofree gchar *escaped = g_strescape (shown, NULL);

      return refuse (cursor, cursor->at, error, "%s is not UTF-8: '%s'", name, escaped);
    }
  cursor->at += n;
  return DECODE_DONE;
}

static DecodeResult
read_interned (Cursor *cursor, const gchar *name, Definitions *definitions, gboolean is_first,
               const gchar **text, GError **error)
{
  const gchar *bytes;
  gsize length;
  DecodeResult result = read_text (cursor, name, is_first, &bytes, &length, error);

  if (result == DECODE_DONE)
    *text = definitions_intern (definitions, bytes, length);
  return result;
}

/* Functions that decode definitions */

static DecodeResult
read_string (Cursor *cursor, Definitions *definitions, gboolean is_first, GError **error)
{
  guint64 number;
  const gchar *bytes;
  gsize length;
  DecodeResult result = read_number (cursor, "string", &number, error);

  if (result == DECODE_DONE)
    result = read_text (cursor, "text", is_first, &bytes, &length, error);
  if (result == DECODE_DONE && is_first)
    definitions_add_string (definitions, number, definitions_intern (definitions, bytes, length));
  return result;
}

static DecodeResult
read_frame (Cursor *cursor, Definitions *definitions, gboolean is_first, GError **error)
{
  RecordedFrame frame;
  DecodeResult result = read_number (cursor, "address", &frame.address, error);

  if (result == DECODE_DONE)
    result = read_interned (cursor, "module", definitions, is_first, &frame.module, error);
  if (result == DECODE_DONE)
    result = read_number (cursor, "offset", &frame.module_offset, error);
  if (result == DECODE_DONE)
    result = read_interned (cursor, "symbol", definitions, is_first, &frame.symbol, error);
  if (result == DECODE_DONE)
    result = read_number (cursor, "offset", &frame.symbol_offset, error);
  if (result == DECODE_DONE && is_first)
    definitions_add_frame (definitions, &frame);
  return result;
}

static DecodeResult
read_module (Cursor *cursor, Definitions *definitions, gboolean is_first, GError **error)
{
  RecordedModule module;
  DecodeResult result = read_number (cursor, "load address", &module.load_address, error);

  if (result == DECODE_DONE)
    result = read_interned (cursor, "path", definitions, is_first, &module.path, error);
  if (result == DECODE_DONE)
    result = read_interned (cursor, "build-id", definitions, is_first, &module.build_id, error);
  if (result == DECODE_DONE && is_first)
    definitions_add_module (definitions, &module);
  return result;
}

static DecodeResult
read_stack (Cursor *cursor, Definitions *definitions, gboolean is_first, GError **error)
{
  guint64 number, n;
  g_autoptr (GArray) addresses = NULL;
  DecodeResult result = read_number (cursor, "stack", &number, error);

  if (result == DECODE_DONE)
    result = read_count (cursor, "number of addresses", 1, &n, error);
  if (result != DECODE_DONE)
    return result;
  addresses = g_array_sized_new (FALSE, FALSE, sizeof (guint64), is_first ? (guint) n : 0);
  for (; n > 0; n--)
    {
      guint64 address;

      result = read_number (cursor, "address", &address, error);
      if (result != DECODE_DONE)
        return result;
      if (is_first)
        g_array_append_val (addresses, address);
    }
  if (is_first)
    definitions_add_stack (definitions, number, g_steal_pointer (&addresses));
  return DECODE_DONE;
}

/* Functions that decode threads and objects */

static DecodeResult
read_thread (Cursor *cursor, StreamState *state, Definitions *definitions, gboolean is_first,
             GError **error)
{
  DecodeResult result = read_number (cursor, "thread", &state->thread, error);

  if (result == DECODE_DONE)
    result = read_interned (cursor, "name", definitions, is_first, &state->thread_name, error);
  return result;
}

static DecodeResult
read_properties (Cursor *cursor, GArray *properties, RecordedEvent *event, GError **error)
{
  guint64 n, property;
  DecodeResult result = read_count (cursor, "number of properties", 2, &n, error);

  g_array_set_size (properties, 0);
  for (; result == DECODE_DONE && n > 0; n--)
    {
      const guchar *start = cursor->at;
      RecordedProperty read;

      result = read_number (cursor, "property", &property, error);
      if (result == DECODE_DONE && property > G_MAXUINT32)
        return refuse (cursor, start, error, "property is out of range: %" G_GUINT64_FORMAT,
                       property);
      read.property = (guint32) property;
      if (result == DECODE_DONE)
        result = read_number (cursor, "property's number", &read.number, error);
      if (result == DECODE_DONE)
        g_array_append_val (properties, read);
    }
  event->properties = (const RecordedProperty *) (gconstpointer) properties->data;
  event->n_properties = properties->len;
  return result;
}

static DecodeResult
read_class (Cursor *cursor, RecordedEvent *event, GError **error)
{
  const guchar *start = cursor->at;
  guint64 number;
  DecodeResult result = read_number (cursor, "class", &number, error);

  if (result != DECODE_DONE)
    return result;
  if (number < TARN_TRACE_DIRECT || number > TARN_TRACE_POOL)
    return refuse (cursor, start, error, "class is out of range: %" G_GUINT64_FORMAT, number);
  event->object_class = (TarnTraceClass) number;
  return DECODE_DONE;
}

static DecodeResult
read_object (Cursor *cursor, Definitions *definitions, gboolean is_first, GArray *properties,
             RecordedEvent *event, GError **error)
{
  DecodeResult result = read_number (cursor, "object", &event->object, error);

  if (result == DECODE_DONE)
    result = read_class (cursor, event, error);
  if (result == DECODE_DONE)
    result = read_number (cursor, "upstream", &event->upstream, error);
  if (result == DECODE_DONE)
    result = read_interned (cursor, "kind", definitions, is_first, &event->text, error);
  if (result == DECODE_DONE)
    result = read_interned (cursor, "name", definitions, is_first, &event->name, error);
  if (result != DECODE_DONE)
    return result;
  if (event->name[0] == '\0')
    event->name = NULL;
  return read_properties (cursor, properties, event, error);
}

/* Functions that decode events */

static DecodeResult
read_field (Cursor *cursor, StreamState *state, const Field *field, RecordedEvent *event,
            GError **error)
{
  guint64 *number = (guint64 *) G_STRUCT_MEMBER_P (event, field->offset);
  guint64 *latest;
  DecodeResult result;

  if (field->type == FIELD_TRUTH)
    return read_truth (cursor, field->name, number, error);
  result = read_number (cursor, field->name, number, error);
  if (field->type < FIELD_DIFFERENCE || result != DECODE_DONE)
    return result;
  latest = &state->latest[field->type - FIELD_DIFFERENCE];
  *number = *latest += (*number >> 1) ^ -(*number & 1);
  return DECODE_DONE;
}

static DecodeResult
read_fields (Cursor *cursor, StreamState *state, RecordedEvent *event, GError **error)
{
  DecodeResult result = DECODE_DONE;

  for (const Field *field = layouts[event->kind];
       field->type != FIELD_NONE && result == DECODE_DONE; field++)
    result = read_field (cursor, state, field, event, error);
  return result;
}

static DecodeResult
read_rest (Cursor *cursor, StreamState *state, Definitions *definitions, gboolean is_first,
           GArray *properties, RecordedEvent *event, GError **error)
{
  switch (event->kind)
    {
    case TARN_TRACE_STRING:
      return read_string (cursor, definitions, is_first, error);
    case TARN_TRACE_FRAME:
      return read_frame (cursor, definitions, is_first, error);
    case TARN_TRACE_MODULE:
      return read_module (cursor, definitions, is_first, error);
    case TARN_TRACE_STACK:
      return read_stack (cursor, definitions, is_first, error);
    case TARN_TRACE_THREAD:
      return read_thread (cursor, state, definitions, is_first, error);
    case TARN_TRACE_OBJECT:
      return read_object (cursor, definitions, is_first, properties, event, error);
    case TARN_TRACE_STATS:
      return read_properties (cursor, properties, event, error);
    default:
      return read_fields (cursor, state, event, error);
    }
}

/* If an event sets a value for later events of its stream, such as the queue, stores the value in
 * @state.  If an event is a request, copies these values into it, and resets those that hold for
 * one request only. */
static void
apply (StreamState *state, RecordedEvent *event)
{
  if (event->kind == TARN_TRACE_USE)
    state->object = event->object;
  else if (event->kind == TARN_TRACE_QUEUE)
    state->queue = event->queue;
  else if (event->kind == TARN_TRACE_TAG)
    state->tag = event->tag;
  else if (event->kind == TARN_TRACE_SET_STACK)
    state->stack = event->stack;
  else if (event->kind == TARN_TRACE_NESTED)
    state->is_nested = TRUE;
  else if (decode_is_request (event->kind))
    {
      event->queue = state->queue;
      event->tag = state->tag;
      event->stack = state->stack;
      event->is_nested = state->is_nested;
      state->stack = 0;
      state->is_nested = FALSE;
    }
}

DecodeResult
decode_event (Cursor *cursor, StreamState *state, Definitions *definitions, gboolean is_first,
              GArray *properties, RecordedEvent *event, GError **error)
{
  const guchar *start = cursor->at;
  guint64 delay;
  DecodeResult result;

  g_assert (cursor->at < cursor->end);
  if (*start == 0 || *start >= TARN_TRACE_N_KINDS)
    return refuse (cursor, start, error, "there is no event of kind %u", *start);
  cursor->at++;
  if ((result = read_number (cursor, "time", &delay, error)) != DECODE_DONE)
    return result;
  if (delay > G_MAXUINT64 - state->time)
    return refuse (cursor, start + 1, error,
                   "time has more than 64 bits: %" G_GUINT64_FORMAT " behind %" G_GUINT64_FORMAT,
                   delay, state->time);
  *event = (RecordedEvent){ .kind = (TarnTraceKind) *start,
                            .time = state->time + delay,
                            .object = decode_has_object (*start) ? state->object : 0,
                            .place = start - cursor->file };
  result = read_rest (cursor, state, definitions, is_first, properties, event, error);
  if (result != DECODE_DONE)
    return result;
  apply (state, event);
  state->time = event->time;
  event->thread = state->thread;
  if (event->kind != TARN_TRACE_OBJECT)
    event->text = state->thread_name;
  return DECODE_DONE;
}
