/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A selection: the lives of all pools, of a pool or of a heap, perhaps of only one group, and their
 * bytes over time. */

/* A number that changes over time: it is values[i] from times[i] on. */
class Steps {
  constructor(times, values) {
    this.times = times;
    this.values = values;
    this.peakAt = -1;
    this.peak = 0;
    for (let i = 0; i < values.length; i++)
      if (values[i] > this.peak) {
        this.peak = values[i];
        this.peakAt = i;
      }
  }

  at(time) {
    const i = countUpTo(this.times, time) - 1;
    return i < 0 ? 0 : this.values[i];
  }

  /* Divides the time from t0 to t1 into n equal parts.  For each part, finds the least and the
   * greatest value, and the index of the greatest one, which may begin before the part. */
  sample(t0, t1, n) {
    const { times, values } = this, best = new Int32Array(n);
    const least = new Float64Array(n), most = new Float64Array(n), step = (t1 - t0) / n;
    let i = countUpTo(times, t0) - 1;
    for (let x = 0; x < n; x++) {
      const end = x === n - 1 ? t1 : t0 + step * (x + 1);
      let at = i, high = i < 0 ? 0 : values[i], low = high;
      while (i + 1 < times.length && times[i + 1] <= end) {
        const value = values[++i];
        if (value > high) {
          high = value;
          at = i;
        } else if (value < low) {
          low = value;
        }
      }
      best[x] = at;
      most[x] = high;
      least[x] = low;
    }
    return { best, least, most };
  }
}

class Selection {
  /* Selects an object and a group.  @object is 0 for all pools, or for all heaps if there are no
   * pools.  @filter is {by, id}, or null for all groups. */
  constructor(trace, object, filter) {
    this.trace = trace;
    this.objects = object !== 0 ? [object] : trace.pools.length > 0 ? trace.pools : trace.heaps;
    this.isHeap = this.objects.some(it => trace.isHeap(it));
    this.choose(filter);
    this.follow();
  }

  choose(filter) {
    const { trace } = this, chosen = new Uint8Array(trace.meta.objects.length);
    const groups = filter ? groupsOf(trace, filter.by) : null;
    for (const it of this.objects)
      chosen[it] = 1;
    this.has = new Uint8Array(trace.nLives);
    for (let life = 0; life < trace.nLives; life++)
      if (chosen[trace.object[life]] !== 0 && trace.sort[life] !== PIECE
          && (groups === null || groups[life] === filter.id))
        this.has[life] = 1;
  }

  /* Computes the moments of the selection's events, and its active bytes as steps. */
  follow() {
    const { trace, has } = this, { refs, size, nEvents } = trace;
    let n = 0, bytes = 0;
    for (let k = 0; k < nEvents; k++)
      n += has[Math.abs(refs[k]) - 1];
    const moments = new Uint32Array(n), values = new Float64Array(n), times = new Float64Array(n);
    n = 0;
    for (let k = 0; k < nEvents; k++) {
      const ref = refs[k], life = Math.abs(ref) - 1;
      if (has[life] === 0)
        continue;
      bytes += ref > 0 ? size[life] : -size[life];
      moments[n] = k;
      values[n] = bytes;
      times[n++] = trace.event_time[k];
    }
    this.moments = moments;
    this.active = new Steps(times, values);
    this.peak = this.active.peak;
    this.peakMoment = this.active.peakAt < 0 ? -1 : moments[this.active.peakAt];
  }

  /* Gets the managed bytes over time: those that pools have from their upstreams, or the bytes of a
   * heap's segments. */
  get managed() {
    return this.managedSteps ??= this.isHeap ? this.followPieces() : this.followManaged();
  }

  followManaged() {
    const { trace } = this, times = [], values = [];
    let bytes = 0;
    for (let i = 0; i < trace.managed_time.length; i++)
      if (this.objects.includes(trace.managed_object[i])) {
        bytes += trace.managed_bytes[i];
        times.push(trace.managed_time[i]);
        values.push(bytes);
      }
    return new Steps(times, values);
  }

  followPieces() {
    const { trace } = this, times = [], values = [];
    let bytes = 0;
    for (let k = 0; k < trace.nEvents; k++) {
      const ref = trace.refs[k], life = Math.abs(ref) - 1;
      if (trace.sort[life] === PIECE && this.objects.includes(trace.object[life])) {
        bytes += ref > 0 ? trace.size[life] : -trace.size[life];
        times.push(trace.event_time[k]);
        values.push(bytes);
      }
    }
    return new Steps(times, values);
  }

  /* Gets the managed bytes that belong to no life: blocks that pools cache, or free ranges of heaps. */
  get held() {
    return this.heldSteps ??= this.followHeld();
  }

  followHeld() {
    const { trace, moments, managed } = this, times = [], values = [];
    let i = 0, inUse = 0;
    const put = time => {
      const value = Math.max((i > 0 ? managed.values[i - 1] : 0) - inUse, 0);
      times.push(time);
      values.push(value);
    };
    for (let j = 0; j <= moments.length; j++) {
      const time = j < moments.length ? trace.event_time[moments[j]] : Infinity;
      while (i < managed.times.length && managed.times[i] <= time)
        if (managed.times[i++] < time)
          put(managed.times[i - 1]);
      if (j === moments.length)
        break;
      const ref = trace.refs[moments[j]], life = Math.abs(ref) - 1;
      const bytes = trace.size[life] + trace.more[life];
      inUse += ref > 0 ? bytes : -bytes;
      put(time);
    }
    return new Steps(times, values);
  }

  aliveAt(moment) {
    const { begun, ended, nLives } = this.trace, { has } = this, alive = [];
    for (let life = 0; life < nLives && begun[life] <= moment; life++)
      if (has[life] !== 0 && moment < ended[life])
        alive.push(life);
    return alive;
  }

  /* Ranks groups by the bytes of their lives times the duration, or, in a snapshot, only by the bytes.
   * The first groups get their own colours. */
  rank(by) {
    this.ranks ??= {};
    return this.ranks[by] ??= this.makeRank(by);
  }

  makeRank(by) {
    const { trace, has } = this, groups = groupsOf(trace, by), weights = new Map();
    for (let life = 0; life < trace.nLives; life++)
      if (has[life] !== 0) {
        const weight = trace.size[life] * (trace.isSnapshot ? 1 : trace.death(life) - trace.birth(life) + 1);
        weights.set(groups[life], (weights.get(groups[life]) || 0) + weight);
      }
    const order = [...weights.keys()].sort((a, b) => weights.get(b) - weights.get(a) || a - b);
    const colorOf = new Uint8Array((order.length > 0 ? Math.max(...maxima(order)) : 0) + 1);
    if (by === 'size')
      rankSizes(order, colorOf, weights);
    else
      order.forEach((id, i) => { colorOf[id] = Math.min(i, N_COLORS - 1); });
    return { order, colorOf };
  }
}

/* Returns [max]: an array whose only element is the greatest of @numbers, or 0 if there is none.
 * Math.max (...numbers) fails if there are too many numbers. */
function maxima(numbers) {
  let most = 0;
  for (const number of numbers)
    most = Math.max(most, number);
  return [most];
}

/* Colours sizes from dark (small) to light (large).  A size that takes more of the memory differs more
 * from its neighbours. */
function rankSizes(order, colorOf, weights) {
  let total = 0, below = 0;
  for (const id of order)
    total += weights.get(id);
  order.sort((a, b) => a - b);
  order.forEach((id, i) => {
    const share = (below + weights.get(id) / 2) / Math.max(total, 1), place = (i + 0.5) / order.length;
    below += weights.get(id);
    colorOf[id] = N_COLORS + Math.min(N_SHADES - 1, Math.floor((share + place) / 2 * N_SHADES));
  });
  order.reverse();
}

/* Sums up each object: bytes in use at the peak and at the end, and managed bytes at the peak. */
function sumObjects(trace) {
  const n = trace.meta.objects.length, { refs, size, object, sort } = trace;
  const active = new Float64Array(n), peak = new Float64Array(n);
  const managed = new Float64Array(n), managedPeak = new Float64Array(n);
  for (let k = 0; k < trace.nEvents; k++) {
    const life = Math.abs(refs[k]) - 1, of = object[life], isPiece = sort[life] === PIECE;
    const [now, most] = isPiece ? [managed, managedPeak] : [active, peak];
    now[of] += refs[k] > 0 ? size[life] : -size[life];
    if (now[of] > most[of])
      most[of] = now[of];
  }
  for (let i = 0; i < trace.managed_time.length; i++) {
    const of = trace.managed_object[i];
    managed[of] += trace.managed_bytes[i];
    managedPeak[of] = Math.max(managedPeak[of], managed[of]);
  }
  return { active, peak, managedPeak };
}

/* Sums up each object at a moment: bytes in use, and managed bytes. */
function sumObjectsAt(trace, moment, time) {
  const n = trace.meta.objects.length, active = new Float64Array(n), managed = new Float64Array(n);
  const { begun, ended, size, object, sort } = trace;
  for (let life = 0; life < trace.nLives && begun[life] <= moment; life++)
    if (moment < ended[life])
      (sort[life] === PIECE ? managed : active)[object[life]] += size[life];
  for (let i = 0; i < trace.managed_time.length && trace.managed_time[i] <= time; i++)
    managed[trace.managed_object[i]] += trace.managed_bytes[i];
  return { active, managed };
}

/* Groups lives, those with the most bytes first. */
function groupLives(trace, lives, by) {
  const groups = groupsOf(trace, by), found = new Map();
  for (const life of lives) {
    const id = groups[life];
    let group = found.get(id);
    if (group === undefined)
      found.set(id, group = { id, bytes: 0, more: 0, lives: [], largest: 0 });
    group.bytes += trace.size[life];
    group.more += trace.more[life];
    group.largest = Math.max(group.largest, trace.size[life]);
    group.lives.push(life);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes || a.id - b.id);
}

function sumSizes(trace, lives) {
  let bytes = 0;
  for (const life of lives)
    bytes += trace.size[life];
  return bytes;
}
