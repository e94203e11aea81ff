/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shows waits, calls of the driver and other events: when, how often, and what they cost. */

const N_LONGEST = 25;
const LANE_COLORS = { wait: 'bad', allocated: 'accent', freed: 'accent', mark: 'held', oom: 'bad', 'at-limit': 'bad', fail: 'bad', lost: 'bad' };

/* Lists the calls of each kind that the objects in @objects made, or of all objects if it is null. */
function chooseCalls(trace, objects) {
  const lanes = new Map(), chosen = new Uint8Array(trace.meta.objects.length).fill(objects === null ? 1 : 0);
  for (const it of objects || [])
    chosen[it] = 1;
  for (let i = 0; i < trace.call_time.length; i++)
    if (chosen[trace.call_object[i]] === 1) {
      const kind = trace.call_kind[i];
      if (!lanes.has(kind))
        lanes.set(kind, []);
      lanes.get(kind).push(i);
    }
  return [...lanes.keys()].sort((a, b) => laneOrder(trace, a) - laneOrder(trace, b))
    .map(kind => ({ kind, name: trace.meta.kinds[kind], calls: Uint32Array.from(lanes.get(kind)) }));
}

function laneOrder(trace, kind) {
  const order = ['wait', 'mark', 'allocated', 'freed', 'reclaim', 'oom', 'at-limit', 'fail'];
  const at = order.indexOf(trace.meta.kinds[kind]);
  return at < 0 ? order.length + kind : at;
}

/* Counts the calls of a lane (all calls of one kind), and sums up their costs (durations).  Makes a
 * sum for each queue if the calls are about queues, as waits are, and otherwise for each object. */
function sumCalls(trace, lane, from, to) {
  const sums = new Map(), isOfQueue = ['wait', 'mark', 'use', 'move', 'forget'].includes(lane.name);
  for (const i of lane.calls) {
    if (trace.call_time[i] < from || trace.call_time[i] - trace.call_duration[i] > to)
      continue;
    const key = isOfQueue ? trace.call_queue[i] : -1 - trace.call_object[i];
    let it = sums.get(key);
    if (it === undefined)
      sums.set(key, it = { key, n: 0, cost: 0, longest: i, bytes: 0, failed: 0 });
    it.n++;
    it.cost += trace.call_duration[i];
    it.bytes += trace.call_size[i];
    it.failed += lane.name === 'allocated' && trace.call_code[i] !== 0 ? 1 : 0;
    if (trace.call_duration[i] > trace.call_duration[it.longest])
      it.longest = i;
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost || b.n - a.n);
}

const callsView = {
  lanes(app) {
    return this.cache?.object === app.object ? this.cache.lanes
      : (this.cache = { object: app.object, lanes: chooseCalls(app.trace, app.object === 0 ? null : withUpstream(app)) }).lanes;
  },

  draw(app) {
    const canvas = document.getElementById('calls'), lanes = this.lanes(app), { t0, t1 } = app.range;
    canvas.parentElement.style.flexBasis = Math.max(90, lanes.length * 30 + 34) + 'px';
    const frame = prepare(canvas);
    if (frame !== null) {
      const { context, width, height } = frame;
      const plot = this.plot = { left: 130, top: 4, width: width - 138, height: height - 28 };
      drawTimeAxis(context, plot, t0, t1);
      const step = plot.height / Math.max(lanes.length, 1);
      lanes.forEach((lane, i) => this.drawLane(app, context, plot, lane, plot.top + i * step, step));
      drawCursor(context, plot, t0, t1, app.time);
    }
    canvas.setAttribute('aria-label', 'Calls over time: ' + lanes.map(it =>
      CALLS[it.name] + ' ' + formatCount(it.calls.length)).join(', '));
    this.list(app, lanes);
    this.listLongest(app, lanes);
  },

  /* Draws the calls of a lane.  The greater the share of a pixel's time that calls took, the
   * stronger is the pixel's colour.  A pixel has the weakest colour if its calls took no time. */
  drawLane(app, context, plot, lane, y, step) {
    const { trace } = app, { t0, t1 } = app.range, n = Math.round(plot.width), per = (t1 - t0) / n;
    const busy = new Float64Array(n + 1), any = new Uint8Array(n + 1);
    for (const i of lane.calls) {
      const to = trace.call_time[i], from = to - trace.call_duration[i];
      if (to < t0 || from > t1)
        continue;
      const last = Math.min((to - t0) / per, n), first = Math.max((from - t0) / per, 0);
      any[Math.floor(last)] = 1;
      for (let x = Math.floor(first); x <= last && x <= n; x++) {
        busy[x] += Math.max(0, Math.min(last, x + 1) - Math.max(first, x));
        any[x] = 1;
      }
    }
    context.fillStyle = theme.ink;
    context.textAlign = 'right';
    context.fillText(CALLS[lane.name] || lane.name, plot.left - 10, y + step / 2);
    context.fillStyle = theme[LANE_COLORS[lane.name] || 'active'];
    for (let x = 0; x < n; x++)
      if (any[x] === 1) {
        context.globalAlpha = 0.35 + 0.65 * Math.min(busy[x], 1);
        context.fillRect(plot.left + x, y + 3, 1, step - 6);
      }
    context.globalAlpha = 1;
    context.fillStyle = theme.grid;
    context.fillRect(plot.left, y + step - 0.5, plot.width, 1);
  },

  list(app, lanes) {
    const { trace } = app, { t0, t1 } = app.range, body = make('tbody');
    for (const lane of lanes)
      for (const it of sumCalls(trace, lane, t0, t1))
        body.append(make('tr', { tabindex: 0, 'data-call': lane.name, 'data-of': this.placeName(trace, it.key, lane),
          'data-count': it.n, 'data-cost': it.cost,
          'data-longest': trace.call_duration[it.longest], on: onChoice(() => app.goTo(trace.call_time[it.longest])) },
        make('td', {}, CALLS[lane.name]), make('td', { class: 'name' }, this.placeName(trace, it.key, lane)),
        make('td', { class: 'number' }, formatCount(it.n)),
        make('td', { class: 'number' }, formatTime(it.cost)), make('td', { class: 'number' }, formatTime(it.cost / it.n)),
        make('td', { class: 'number' }, formatTime(trace.call_duration[it.longest])),
        make('td', { class: 'number' }, it.bytes > 0 ? formatBytes(it.bytes) : '–'),
        make('td', { class: 'number bad' }, it.failed > 0 ? formatCount(it.failed) : '')));
    keepFocus(document.getElementById('calls-table'), [make('table', { 'data-table': 'calls' },
      make('caption', {}, app.isWhole() ? 'In the whole recording' : 'In the stretch that is shown'),
      make('thead', {}, make('tr', {}, ...['what', 'of', 'count', 'total', 'mean', 'longest', 'bytes', 'failed'].map((it, i) =>
        make('th', { scope: 'col', class: i > 1 ? 'number' : null }, it)))), body)]);
  },

  placeName(trace, key, lane) {
    if (key < 0)
      return trace.objectNames[-1 - key];
    return key === 0 ? (lane.name === 'wait' ? 'the host' : 'no queue') : 'queue ' + trace.meta.queues[key];
  },

  /* Lists the longest calls of the time that is shown. */
  listLongest(app, lanes) {
    const { trace } = app, { t0, t1 } = app.range, longest = [];
    let least = 0;
    for (const lane of lanes)
      for (const i of lane.calls) {
        const cost = trace.call_duration[i];
        if (cost <= least || trace.call_time[i] < t0 || trace.call_time[i] - cost > t1)
          continue;
        longest.push(i);
        if (longest.length > 4 * N_LONGEST) {
          longest.sort((a, b) => trace.call_duration[b] - trace.call_duration[a]).length = N_LONGEST;
          least = trace.call_duration[longest[N_LONGEST - 1]];
        }
      }
    longest.sort((a, b) => trace.call_duration[b] - trace.call_duration[a]).length = Math.min(longest.length, N_LONGEST);
    keepFocus(document.getElementById('longest'), [make('table', {},
      make('caption', {}, 'The longest'),
      make('thead', {}, make('tr', {}, ...['cost', 'what', 'of', 'thread', 'at'].map((it, i) =>
        make('th', { scope: 'col', class: i === 0 || i === 4 ? 'number' : null }, it)))),
      make('tbody', {}, ...longest.map(i => make('tr', { tabindex: 0, on: onChoice(() => app.goTo(trace.call_time[i])) },
        make('td', { class: 'number' }, formatTime(trace.call_duration[i])),
        make('td', {}, CALLS[trace.meta.kinds[trace.call_kind[i]]]
          + (trace.call_code[i] > 0 && trace.meta.kinds[trace.call_kind[i]] === 'allocated' ? ': ' + (ERRORS[trace.call_code[i] - 1] || 'failed') : '')),
        make('td', { class: 'name' }, trace.call_queue[i] !== 0 ? 'queue ' + trace.meta.queues[trace.call_queue[i]]
          : trace.objectNames[trace.call_object[i]]),
        make('td', {}, trace.threadName(trace.call_thread[i])),
        make('td', { class: 'number' }, formatTime(trace.call_time[i], 1e3))))))]);
  }
};

/* Lists the chosen object and its upstreams. */
function withUpstream(app) {
  const found = [];
  for (let it = app.object; it > 0 && !found.includes(it); it = app.trace.meta.objects[it].upstream || 0)
    found.push(it);
  return found;
}
