/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shows a heap's memory at a moment: its segments (pieces), the extents in them, and free
 * ranges. */

/* Maps a heap at a moment: its segments by address, the extents in them, and the ranges without an
 * extent.  Such a range may lie across adjacent segments. */
function mapHeap(trace, heap, moment) {
  const pieces = [], extents = [];
  for (let life = 0; life < trace.nLives && trace.begun[life] <= moment; life++)
    if (trace.object[life] === heap && moment < trace.ended[life])
      (trace.sort[life] === PIECE ? pieces : extents).push(life);
  const byAddress = (a, b) => trace.address[a] - trace.address[b];
  pieces.sort(byAddress);
  extents.sort(byAddress);
  const regions = joinPieces(trace, pieces), holes = findHoles(trace, regions, extents);
  return { pieces, regions, extents, holes, bytes: sumSizes(trace, pieces), used: sumSizes(trace, extents),
    free: holes.reduce((sum, it) => sum + it.size, 0), largest: holes.reduce((most, it) => Math.max(most, it.size), 0) };
}

/* Merges adjacent segments of the same queue to regions. */
function joinPieces(trace, pieces) {
  const regions = [];
  for (const life of pieces) {
    const last = regions[regions.length - 1], start = trace.address[life], end = start + trace.size[life];
    if (last !== undefined && last.end === start && last.queue === trace.queue[life])
      last.end = end;
    else
      regions.push({ start, end, queue: trace.queue[life], pieces: [] });
    regions[regions.length - 1].pieces.push(life);
  }
  return regions;
}

function findHoles(trace, regions, extents) {
  const holes = [];
  let i = 0, reached = -1;
  for (const { start, end } of regions) {
    reached = Math.max(reached, start);
    for (; i < extents.length && trace.address[extents[i]] < end; i++) {
      const address = trace.address[extents[i]];
      if (address > reached)
        holes.push({ start: reached, size: address - reached });
      reached = Math.max(reached, address + trace.size[extents[i]]);
    }
    if (reached < end)
      holes.push({ start: reached, size: end - reached });
  }
  return holes;
}

/* Finds, for each extent with a block in use, the first such block of a pool over the heap.  Returns
 * null if the heap has no pools. */
function findOwners(trace, heap, moment, extents) {
  const over = new Uint8Array(trace.meta.objects.length), owners = new Map();
  let hasPools = false;
  for (const pool of trace.pools)
    if (trace.meta.objects[pool].upstream === heap)
      hasPools = over[pool] = 1;
  if (!hasPools)
    return null;
  const starts = Float64Array.from(extents, it => trace.address[it]);
  for (let life = 0; life < trace.nLives && trace.begun[life] <= moment; life++)
    if (over[trace.object[life]] === 1 && moment < trace.ended[life]) {
      const address = trace.address[life] + trace.shift[life], i = countUpTo(starts, address) - 1;
      if (i >= 0 && address < starts[i] + trace.size[extents[i]] && !owners.has(extents[i]))
        owners.set(extents[i], life);
    }
  return owners;
}

/* The most lines that are drawn, because a canvas has a maximal height.  The page only counts further
 * lines. */
const MAX_LINES = 1500;

/* Breaks regions into lines of the same number of bytes: as many lines as are legible in the height. */
function layLines(regions, height) {
  const least = 7, legible = 17, most = 30, sizeOf = it => it.end - it.start;
  let perLine = maxima(regions.map(sizeOf))[0] || 1;
  const count = bytes => regions.reduce((sum, it) => sum + Math.ceil(sizeOf(it) / bytes), 0);
  while (perLine > 65536 && count(perLine / 1.25) * legible <= height)
    perLine /= 1.25;
  const n = Math.max(Math.min(count(perLine), MAX_LINES), 1);
  const step = Math.max(least, Math.min(most, Math.floor(height / n))), lines = [];
  for (const region of regions)
    for (let at = 0; at < sizeOf(region) && lines.length < MAX_LINES; at += perLine)
      lines.push({ region, start: region.start + at, size: Math.min(perLine, sizeOf(region) - at), isFirst: at === 0 });
  return { lines, perLine, step, isCut: count(perLine) > MAX_LINES };
}

const heapView = {
  chosen: -1,

  heapOf(app) {
    const { trace } = app, { heaps } = trace;
    if (trace.isHeap(app.object))
      return app.object;
    if (app.object !== 0 && trace.isHeap(trace.meta.objects[app.object].upstream))
      return trace.meta.objects[app.object].upstream;
    return heaps.includes(app.heap) ? app.heap : heaps[0];
  },

  draw(app) {
    const heap = this.heapOf(app), { trace } = app, canvas = document.getElementById('map');
    const figures = document.getElementById('heap-figures');
    document.getElementById('heap').value = String(heap);
    document.getElementById('moment').value = String(Math.round(app.time / trace.duration * 2000));
    if (heap === undefined) {
      figures.replaceChildren(make('p', { class: 'dim' }, 'There is no heap.'));
      prepare(canvas);
      return;
    }
    const map = this.map = mapHeap(trace, heap, app.moment);
    map.owners = findOwners(trace, heap, app.moment, map.extents);
    this.sumUp(app, map, figures);
    this.drawMap(app, map, canvas);
    this.listHoles(app, map);
  },

  sumUp(app, map, place) {
    const { trace } = app, held = map.owners === null ? 0
      : map.extents.reduce((sum, it) => sum + (map.owners.has(it) ? 0 : trace.size[it]), 0);
    const share = map.free > 0 ? 100 * (1 - map.largest / map.free) : 0;
    place.replaceChildren(
      figure(formatCount(map.pieces.length), map.pieces.length === 1 ? 'piece' : 'pieces', 'pieces'),
      figure(formatBytes(map.bytes), 'in pieces', 'piece-bytes'),
      figure(formatBytes(map.used), 'in ' + formatCountOf(map.extents.length, 'extent'), 'used-bytes'),
      ...map.owners === null ? [] : [figure(formatBytes(held), 'of these held by pools', 'held-bytes')],
      figure(formatBytes(map.free), 'free', 'free-bytes'),
      figure(formatCount(map.holes.length), map.holes.length === 1 ? 'free range' : 'free ranges', 'holes'),
      figure(formatBytes(map.largest), 'largest free range', 'largest-hole'),
      figure(share.toFixed(0) + ' %', 'of free bytes outside of it', 'fragmentation'));
  },

  drawMap(app, map, canvas) {
    const { trace } = app, room = canvas.parentElement.clientHeight;
    const { lines, perLine, step, isCut } = layLines(map.regions, room);
    map.isCut = isCut;
    const height = Math.max(room, lines.length * step);
    canvas.style.height = height + 'px';
    const frame = prepare(canvas, height);
    if (frame === null)
      return;
    const { context, width } = frame, left = 176, scale = (width - left - 8) / perLine;
    const bar = Math.max(step - Math.min(6, Math.floor(step / 4)), 3);
    this.layout = { lines, step, left, scale, bar };
    lines.forEach((line, i) => this.drawLine(app, map, context, line, i * step, bar, left, scale));
    canvas.setAttribute('aria-label', 'The pieces of ' + trace.objectNames[this.heapOf(app)] + ': '
      + map.holes.length + ' free ranges, the largest of ' + formatBytes(map.largest));
  },

  drawLine(app, map, context, line, y, bar, left, scale) {
    const { trace } = app, width = line.size * scale;
    if (line.isFirst && bar >= 7) {
      const { start, end } = line.region;
      context.fillStyle = theme.dim;
      context.textAlign = 'right';
      context.fillText('0x' + start.toString(16) + '  ' + formatRound(end - start), left - 8, y + bar / 2);
    }
    context.fillStyle = theme.hole;
    context.fillRect(left, y, width, bar);
    this.drawExtents(app, map, context, line, y, bar, left, scale);
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, y + 0.5, Math.max(width - 1, 1), bar - 1);
    this.drawBounds(trace, context, line, y, bar, left, scale);
  },

  /* Draws the boundaries of segments within a region. */
  drawBounds(trace, context, line, y, bar, left, scale) {
    context.fillStyle = theme.mark;
    for (const life of line.region.pieces) {
      const at = (trace.address[life] - line.start) * scale;
      if (at > 0 && at < line.size * scale)
        context.fillRect(left + Math.round(at), y - 1, 1, bar + 2);
    }
  },

  /* Draws extents.  Those that end within the same pixel share a rectangle, in the colour of the
   * largest one. */
  drawExtents(app, map, context, line, y, bar, left, scale) {
    const { trace } = app, end = line.start + line.size;
    const starts = map.starts ??= Float64Array.from(map.extents, it => trace.address[it]);
    let i = Math.max(countUpTo(starts, line.start) - 1, 0), reached = -1;
    for (; i < starts.length && starts[i] < end; i++) {
      const extent = map.extents[i], from = Math.max(starts[i], line.start);
      const to = Math.min(starts[i] + trace.size[extent], end);
      if (to <= from)
        continue;
      const x0 = (from - line.start) * scale, x1 = (to - line.start) * scale;
      if (x1 <= reached)
        continue;
      reached = Math.max(Math.ceil(x0), x1);
      context.fillStyle = this.colorOf(app, map, extent);
      context.fillRect(left + x0, y, Math.max(x1 - x0 - (x1 - x0 > 3 ? 0.7 : 0), 0.6), bar);
    }
  },

  colorOf(app, map, extent) {
    if (map.owners === null)
      return theme.used;
    const owner = map.owners.get(extent);
    if (owner === undefined)
      return theme.rest;
    const { colorOf } = app.allPools().rank(app.by);
    return ALL_COLORS[colorOf[groupsOf(app.trace, app.by)[owner]] ?? N_COLORS - 1];
  },

  /* Lists free ranges by size, and explains the colours. */
  listHoles(app, map) {
    const classes = new Map();
    for (const { size } of map.holes) {
      const id = Math.floor(Math.log2(size)) + 1, it = classes.get(id) || { n: 0, bytes: 0 };
      it.n++;
      it.bytes += size;
      classes.set(id, it);
    }
    const rows = [...classes].sort((a, b) => b[0] - a[0]).map(([id, it]) => make('tr', {},
      make('td', { class: 'name' }, sizeName(id)), make('td', { class: 'number' }, formatCount(it.n)),
      make('td', { class: 'number' }, formatBytes(it.bytes))));
    document.getElementById('holes').replaceChildren(
      make('h2', {}, 'Free ranges'),
      make('table', {}, make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'size'),
        make('th', { class: 'number', scope: 'col' }, 'count'), make('th', { class: 'number', scope: 'col' }, 'bytes'))),
      make('tbody', {}, ...rows)),
      make('ul', { class: 'meanings' }, make('li', {}, swatch(theme.hole), ' free'),
        make('li', {}, swatch(map.owners === null ? theme.used : theme.rest), map.owners === null ? ' in use' : ' held by a pool'),
        map.owners === null ? null : make('li', {}, 'Other colours: in use, ' + (app.trace.isSnapshot ? 'by ' + GROUPINGS[app.by].title : 'as under Lives')),
        make('li', {}, 'Lines across: where pieces begin that lie side by side'),
        map.isCut ? make('li', { class: 'bad' }, 'Not all pieces are drawn: there are too many') : null));
  },

  extentAt(event) {
    const box = document.getElementById('map').getBoundingClientRect(), { layout } = this;
    if (!layout)
      return null;
    const line = layout.lines[Math.floor((event.clientY - box.top) / layout.step)];
    const at = line ? line.start + (event.clientX - box.left - layout.left) / layout.scale : NaN;
    return line && at >= line.start && at < line.start + line.size ? { line, at } : null;
  },

  hover(app, event) {
    const found = event === null ? null : this.extentAt(event), place = document.getElementById('piece');
    const { trace } = app;
    if (found === null) {
      place.replaceChildren(make('h2', {}, 'Memory'), make('p', { class: 'dim' }, 'Point at memory to see what it is.'));
      hideTip();
      return;
    }
    const extent = this.map.extents.find(it => trace.address[it] <= found.at && found.at < trace.address[it] + trace.size[it]);
    const hole = this.map.holes.find(it => it.start <= found.at && found.at < it.start + it.size);
    const owner = extent === undefined ? undefined : this.map.owners?.get(extent);
    const life = found.line.region.pieces.find(it => trace.address[it] <= found.at && found.at < trace.address[it] + trace.size[it]);
    place.replaceChildren(make('h2', {}, extent === undefined ? 'A free range' : 'An extent'), terms([
      ['size', formatExact(extent === undefined ? hole?.size ?? 0 : trace.size[extent])],
      ['address', '0x' + (extent === undefined ? hole?.start ?? 0 : trace.address[extent]).toString(16)],
      ['in use by', owner === undefined ? null : trace.objectNames[trace.object[owner]]],
      ['tag', owner === undefined ? null : GROUPINGS.tag.name(trace, trace.tag[owner])],
      [trace.isSnapshot ? 'asked for' : 'since', extent === undefined ? null : formatSince(trace, owner ?? extent)],
      ['piece', formatBytes(trace.size[life]) + ' at 0x' + trace.address[life].toString(16)],
      ['its queue', trace.queue[life] !== 0 ? trace.meta.queues[trace.queue[life]] : 'nobody’s']
    ]), ...owner === undefined ? [] : [stackList(trace, trace.stack[owner])]);
    showTip(event, make('b', {}, formatBytes(extent === undefined ? hole?.size ?? 0 : trace.size[extent])),
      extent === undefined ? ' free' : owner !== undefined ? ' ' + GROUPINGS.tag.name(trace, trace.tag[owner])
        : this.map.owners === null ? ' in use' : ' held by a pool');
  }
};
