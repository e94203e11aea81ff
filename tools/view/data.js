/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Decodes the page's data: columns of numbers (column.h), from which a trace is made.
 *
 * A life is a block from its request to its free, or an extent or a segment (a piece) of a heap.  A
 * moment is the number of an event at which a life begins or ends.  It stands for the state after that
 * event; -1 stands for the state before all events.  A life is alive at moment k if
 * begun[life] <= k < ended[life]. */

'use strict';

const NEVER = 0xffffffff;

/* Some values of TarnTraceClass, and then of LifeSort */
const HEAP = 2, POOL = 3;
const EXTENT = 4, PIECE = 5;

/* Titles of the kinds of calls. */
const CALLS = {
  fail: 'request failed', allocated: 'allocation', freed: 'free', mark: 'event recorded', wait: 'wait',
  use: 'use recorded', move: 'queue changed', forget: 'queue forgotten', trim: 'trim',
  limit: 'limit set', reclaim: 'reclaim', oom: 'out of memory', 'at-limit': 'limit reached', moved: 'piece moved', lost: 'events lost'
};
const SORTS = ['there at the start', 'hit', 'miss', 'lent', 'extent', 'piece'];
const ERRORS = ['out of memory', 'invalid size', 'invalid argument', 'invalid selection', 'no device',
  'no driver', 'no context', 'not supported', 'limit', 'context lost', 'forked', 'recursion', 'failed'];

function fromBase64(text) {
  if (Uint8Array.fromBase64)
    return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++)
    bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpack(text) {
  if (typeof DecompressionStream === 'undefined')
    throw new Error('This browser cannot read compressed data: the page needs DecompressionStream,\n'
      + 'which Chromium has from version 80 on, Firefox from 113 on, Safari from 16.4 on.');
  const stream = new DecompressionStream('gzip'), writer = stream.writable.getWriter();
  writer.write(fromBase64(text)).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

function decodeColumn(bytes, at, column) {
  const Numbers = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array }[column.width];
  const out = new Numbers(column.n), code = column.code;
  let latest = 0;
  for (let i = 0; i < out.length; i++) {
    let byte = bytes[at++], value = byte & 127, scale = 128;
    while (byte >= 128) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    }
    if (code >= 2)
      value = value % 2 ? -(value + 1) / 2 : value / 2;
    if (code === 1 || code === 2)
      value = latest += value;
    out[i] = value;
  }
  return out;
}

/* Decodes the data.  The first line describes the columns that follow it. */
function decode(bytes) {
  const end = bytes.indexOf(10), columns = {};
  const meta = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  let at = end + 1;
  for (const column of meta.columns) {
    columns[column.name] = decodeColumn(bytes, at, column);
    at += column.bytes;
  }
  return new Trace(meta, columns);
}

/* Counts the sorted numbers that are not greater than @number. */
function countUpTo(numbers, number) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle] <= number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

class Trace {
  constructor(meta, columns) {
    Object.assign(this, columns);
    this.meta = meta;
    this.duration = Math.max(meta.duration, 1);
    this.nLives = this.size.length;
    this.nEvents = this.event_time.length;
    this.isSnapshot = meta.kind === 'snapshot';
    this.followLives();
    this.nameObjects();
  }

  /* Finds the events at which each life begins and ends.  For each event, refs has life + 1 if the
   * life begins, or -(life + 1) if it ends. */
  followLives() {
    const { event_life: ago, nLives, nEvents } = this;
    const begun = new Uint32Array(nLives), ended = new Uint32Array(nLives).fill(NEVER);
    const refs = new Int32Array(nEvents);
    let n = 0;
    for (let k = 0; k < nEvents; k++)
      if (ago[k] === 0) {
        begun[n++] = k;
        refs[k] = n;
      } else {
        ended[n - ago[k]] = k;
        refs[k] = -(n - ago[k] + 1);
      }
    Object.assign(this, { begun, ended, refs });
    delete this.event_life;
  }

  nameObjects() {
    const { meta, object, sort } = this, isHeap = new Uint8Array(meta.objects.length);
    for (let life = 0; life < this.nLives; life++)
      isHeap[object[life]] |= sort[life] >= EXTENT ? 1 : 2;
    this.heaps = [];
    this.pools = [];
    this.objectNames = meta.objects.map((it, i) => it ? this.nameObject(it, i) : '(none)');
    for (let i = 1; i < meta.objects.length; i++)
      if (meta.objects[i].class === HEAP || isHeap[i] === 1)
        this.heaps.push(i);
      else if (meta.objects[i].class === POOL || isHeap[i] === 2)
        this.pools.push(i);
  }

  nameObject(it) {
    const kind = it.kind || ['object', 'allocator', 'heap', 'pool'][it.class || 0];
    return it.name ? kind + ' “' + it.name + '”' : kind + ' ' + it.number;
  }

  isHeap(object) { return this.heaps.includes(object); }
  momentAt(time) { return countUpTo(this.event_time, time) - 1; }
  timeOf(moment) { return moment < 0 ? 0 : this.event_time[moment]; }
  birth(life) { return this.event_time[this.begun[life]]; }
  death(life) { return this.ended[life] === NEVER ? this.duration : this.event_time[this.ended[life]]; }

  frameName(address) {
    const frame = this.meta.frames[address];
    if (!frame || !frame[2] && !frame[0])
      return address;
    return shorten(frame[0]) || baseName(frame[2]) + '+0x' + frame[3].toString(16);
  }

  isOwnFrame(address) {
    const frame = this.meta.frames[address];
    return !!frame && /^libtarn[-.]/.test(baseName(frame[2]));
  }

  /* Returns the name of the innermost function of a stack that is not one of Tarn's. */
  stackOwner(stack) {
    const frames = this.meta.stacks[stack] || [];
    const owner = frames.find(it => !this.isOwnFrame(it)) || frames[0];
    return owner === undefined ? '(no stack)' : this.frameName(owner);
  }

  stackName(stack) {
    const frames = this.meta.stacks[stack] || [];
    const others = frames.filter(it => !this.isOwnFrame(it));
    if (frames.length === 0)
      return '(no stack)';
    return (others.length > 0 ? others : frames).slice(0, 4).map(it => this.frameName(it)).join(' ← ');
  }

  threadName(thread) {
    const it = this.meta.threads[thread];
    return it ? (it.name ? it.name + ' (' + it.number + ')' : String(it.number)) : '(not known)';
  }
}

/* Shortens a name, because names of C++ templates may be very long. */
function shorten(name) {
  return name.length > 140 ? name.slice(0, 139) + '…' : name;
}

function baseName(path) {
  return path.slice(path.lastIndexOf('/') + 1);
}

/* Ways to group lives: the group of each life, and the groups' names. */
const GROUPINGS = {
  tag: { title: 'tag', of: trace => trace.tag, name: (trace, id) => trace.meta.tags[id] ?? '(no tag)' },
  caller: { title: 'caller', of: callers, name: (trace, id) => trace.callerNames[id] },
  stack: { title: 'stack', of: trace => trace.stack, name: (trace, id) => trace.stackName(id) },
  size: { title: 'size', of: sizes, name: (trace, id) => sizeName(id) },
  queue: { title: 'queue', of: trace => trace.queue,
    name: (trace, id) => trace.meta.queues[id] ? 'queue ' + trace.meta.queues[id] : '(no queue)' },
  thread: { title: 'thread', of: trace => trace.thread, name: (trace, id) => trace.threadName(id) },
  pool: { title: 'pool', of: trace => trace.object, name: (trace, id) => trace.objectNames[id] },
  sort: { title: 'how it was served', of: trace => trace.sort, name: (trace, id) => SORTS[id], isHidden: trace => trace.isSnapshot },
  age: { title: 'age', of: ages, name: (trace, id) => ageName(id), isHidden: trace => !trace.isSnapshot }
};

function groupingsFor(trace) {
  return Object.keys(GROUPINGS).filter(it => !GROUPINGS[it].isHidden?.(trace));
}

function callers(trace) {
  const places = new Map(), ofStack = trace.meta.stacks.map((_, i) => {
    const name = trace.stackOwner(i);
    if (!places.has(name))
      places.set(name, places.size);
    return places.get(name);
  });
  trace.callerNames = [...places.keys()];
  return Uint32Array.from(trace.stack, stack => ofStack[stack]);
}

/* Groups lives by size.  Group 0 has lives without bytes; group n has sizes from 2 ** (n - 1) on. */
function sizes(trace) {
  return Uint8Array.from(trace.size, size => size < 1 ? 0 : Math.floor(Math.log2(size)) + 1);
}

function sizeName(id) {
  return id === 0 ? 'no bytes' : formatRound(2 ** (id - 1)) + ' to ' + formatRound(2 ** id);
}

const groupings = {};

function groupsOf(trace, by) {
  return groupings[by] ??= GROUPINGS[by].of(trace);
}
