/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shows lives, stacked over time.  A life is a block from its request to its free.
 *
 * Each column of pixels shows the lives at its peak, the oldest at the bottom.  Lives that are less
 * than a pixel high are on top, as the rest: all such lives of one colour together.  So no column has
 * more lives than pixels, and one walk over the visible events draws everything. */

const livesView = {
  magnification: 1,
  image: null, /* the pixels: a word of 32 bits each */
  /* A number for each pixel: life + 1 if it shows a life; -(color + 1) if it shows lives of one colour
   * that are too small to be drawn one by one; 0 if it shows nothing. */
  ids: null,
  hovered: -1,

  draw(app) {
    const canvas = document.getElementById('lives'), frame = prepare(canvas);
    if (frame === null)
      return;
    const { context, width, height, ratio } = frame, { t0, t1 } = app.range, { selection } = app;
    const plot = this.plot = { left: OVERVIEW_PAD.left, top: 8, height: height - 32,
      width: width - OVERVIEW_PAD.left - OVERVIEW_PAD.right };
    const w = Math.max(1, Math.round(plot.width * ratio)), h = Math.max(1, Math.round(plot.height * ratio));
    const { best, most } = selection.active.sample(t0, t1, w);
    const top = Math.max(maxima(most)[0], 1) * 1.04 / this.magnification;
    drawTimeAxis(context, plot, t0, t1);
    drawBytesAxis(context, plot, 0, top);
    this.start(context, w, h);
    this.restWords = ALL_COLORS.map(it => mixWord(it, theme.back));
    this.fill(app, best, w, h, top / h);
    this.buffer.getContext('2d').putImageData(this.pixels, 0, 0);
    context.drawImage(this.buffer, plot.left, plot.top, plot.width, plot.height);
    this.withMarks(app, context, plot);
    this.scale = { w, h, ratio };
    this.drawOver(app);
    this.label(app);
    canvas.setAttribute('aria-label', 'What was in use over time, by ' + GROUPINGS[app.by].title
      + '; the table under Peak has it as text');
  },

  start(context, w, h) {
    if (this.pixels?.width !== w || this.pixels?.height !== h) {
      this.pixels = context.createImageData(w, h);
      this.image = new Uint32Array(this.pixels.data.buffer);
      this.ids = new Int32Array(w * h);
      this.buffer = make('canvas', { width: w, height: h });
    }
  },

  withMarks(app, context, plot) {
    const { t0, t1 } = app.range;
    drawShortages(context, plot, t0, t1, app.shortages);
    drawCursor(context, plot, t0, t1, app.time);
  },

  /* Walks over the events.  A linked list has the lives that are large enough to be drawn one by
   * one, in the order in which they began.  Element nLives of the list is no life: it comes before
   * the first life and after the last one. */
  fill(app, best, w, h, bytesPerPixel) {
    const { trace, selection } = app, { refs, size, begun, ended, nLives } = trace;
    const { has, moments } = selection, { colorOf } = selection.rank(app.by), groups = groupsOf(trace, app.by);
    const next = this.next ??= new Int32Array(nLives + 1), before = this.before ??= new Int32Array(nLives + 1);
    const rest = new Float64Array(ALL_COLORS.length);
    const insert = life => {
      before[life] = before[nLives];
      next[life] = nLives;
      next[before[nLives]] = life;
      before[nLives] = life;
    };
    next[nLives] = before[nLives] = nLives;
    this.column = { bytesPerPixel, colorOf, groups, rest, size, nLives, h };
    let at = best[0];
    const first = at < 0 ? -1 : moments[at];
    for (let life = 0; life < nLives && begun[life] <= first && first >= 0; life++)
      if (has[life] !== 0 && first < ended[life])
        if (size[life] >= bytesPerPixel)
          insert(life);
        else
          rest[colorOf[groups[life]]] += size[life];
    for (let x = 0; x < w;) {
      while (at < best[x]) {
        const ref = refs[moments[++at]], life = Math.abs(ref) - 1;
        if (size[life] < bytesPerPixel) {
          rest[colorOf[groups[life]]] += ref > 0 ? size[life] : -size[life];
        } else if (ref > 0) {
          insert(life);
        } else {
          next[before[life]] = next[life];
          before[next[life]] = before[life];
        }
      }
      let end = x + 1;
      while (end < w && best[end] === best[x])
        end++;
      this.fillColumns(x, end);
      x = end;
    }
  },

  fillColumns(x, end) {
    const { bytesPerPixel, colorOf, groups, rest, size, nLives, h } = this.column, { next } = this;
    let bytes = 0, y = h;
    const fill = (more, word, id) => {
      bytes += more;
      const top = Math.max(0, h - Math.round(bytes / bytesPerPixel)), height = y - top;
      if (height > 0)
        this.fillRuns(x, end, top, y, word, id);
      y = Math.min(y, top);
      return height;
    };
    for (let life = next[nLives]; life !== nLives && y > 0; life = next[life]) {
      const color = colorOf[groups[life]];
      if (fill(size[life], WORDS[life & 3][color], life + 1) > 3)
        this.fillRuns(x, end, y, y + 1, EDGE_WORDS[color], life + 1);
    }
    for (let color = 0; color < rest.length; color++)
      if (rest[color] > 0)
        fill(rest[color], this.restWords[color], -(color + 1));
    this.fillRuns(x, end, 0, y, 0, 0);
  },

  fillRuns(x, end, top, bottom, word, id) {
    const { image, ids } = this, { width } = this.pixels;
    for (let y = top; y < bottom; y++)
      for (let i = y * width + x, stop = y * width + end; i < stop; i++) {
        image[i] = word;
        ids[i] = id;
      }
  },

  lifeAt(event) {
    const box = document.getElementById('lives').getBoundingClientRect(), { ratio, w, h } = this.scale;
    const x = Math.floor((event.clientX - box.left - this.plot.left) * ratio);
    const y = Math.floor((event.clientY - box.top - this.plot.top) * ratio);
    return x >= 0 && x < w && y >= 0 && y < h ? this.ids[y * w + x] : 0;
  },

  hover(app, event) {
    const id = event === null || !this.scale ? 0 : this.lifeAt(event), { trace } = app;
    if (id > 0)
      showTip(event, make('b', {}, formatBytes(trace.size[id - 1])), ' ',
        GROUPINGS.tag.name(trace, trace.tag[id - 1]), make('br'),
        trace.stackOwner(trace.stack[id - 1]), make('br'),
        formatTime(trace.death(id - 1) - trace.birth(id - 1)) + (trace.ended[id - 1] === NEVER ? ', never freed' : ''));
    else if (id < 0)
      showTip(event, this.restName(app, -id - 1) + ': blocks of less than '
        + formatBytes(Math.ceil(this.column.bytesPerPixel)) + ' each; ', make('kbd', {}, ']'), ' shows them larger');
    else
      hideTip();
    if (id - 1 !== this.hovered) {
      this.hovered = Math.max(id - 1, -1);
      this.drawOver(app);
      showLife(app, this.hovered >= 0 ? this.hovered : app.life);
    }
  },

  /* Returns the name of the group that has a colour, or the number of such groups, as "3 groups". */
  restName(app, color) {
    const { order, colorOf } = app.selection.rank(app.by), groups = order.filter(it => colorOf[it] === color);
    return groups.length === 1 ? GROUPINGS[app.by].name(app.trace, groups[0]) : formatCount(groups.length) + ' groups';
  },

  click(app, event) {
    const id = this.lifeAt(event);
    app.set({ life: id > 0 ? id - 1 : -1 });
  },

  /* Draws the life under the mouse, and the chosen one. */
  drawOver(app) {
    const frame = prepare(document.getElementById('lives-over')), { plot, scale } = this;
    if (frame === null || !scale || this.hovered < 0 && app.life < 0)
      return;
    const { w, h, ratio } = scale, image = frame.context.createImageData(w, h);
    const words = new Uint32Array(image.data.buffer), { ids } = this;
    const hovered = this.hovered + 1 || NaN, chosen = app.life + 1 || NaN;
    const light = toWord(theme.panel, 1) & 0xffffff | 0x60000000, mark = toWord(theme.mark, 1);
    for (let i = 0; i < ids.length; i++)
      if (ids[i] === hovered)
        words[i] = light;
      else if (ids[i] === chosen && (ids[i - 1] !== chosen || ids[i + 1] !== chosen
        || ids[i - w] !== chosen || ids[i + w] !== chosen))
        words[i] = mark;
    frame.context.putImageData(image, Math.round(plot.left * ratio), Math.round(plot.top * ratio));
  },

  /* Chooses the next life above or below, of those that are drawn at the cursor. */
  step(app, by) {
    const { trace, selection } = app, least = this.column?.bytesPerPixel || 0;
    const alive = selection.aliveAt(app.moment).filter(life => trace.size[life] >= least);
    if (alive.length === 0)
      return;
    const at = alive.indexOf(app.life);
    const to = at < 0 ? (by > 0 ? 0 : alive.length - 1) : Math.max(0, Math.min(alive.length - 1, at + by));
    this.hovered = -1;
    app.set({ life: alive[to] });
  },

  label(app) {
    showLife(app, this.hovered >= 0 ? this.hovered : app.life);
    const { trace, selection } = app, { order, colorOf } = selection.rank(app.by);
    const groups = new Map(groupLives(trace, selection.aliveAt(app.moment), app.by).map(it => [it.id, it]));
    const list = make('div', { class: 'keys' });
    for (const id of order.slice(0, 40)) {
      const name = GROUPINGS[app.by].name(trace, id);
      list.append(make('button', { type: 'button', title: name + ': show only these',
        on: { click: () => app.set({ filter: app.filter ? null : { by: app.by, id } }) } },
      swatch(ALL_COLORS[colorOf[id]]), make('span', {}, name),
      make('span', {}, groups.has(id) ? formatBytes(groups.get(id).bytes) : '–')));
    }
    keepFocus(document.getElementById('lives-legend'), [
      make('h2', {}, 'By ' + GROUPINGS[app.by].title + ', and in use at the cursor'), list,
      order.length > 40 ? make('p', { class: 'dim' }, formatCount(order.length - 40) + ' more') : null,
      make('p', { class: 'dim' }, 'Paler, on top: blocks of less than ' + formatBytes(Math.ceil(this.column?.bytesPerPixel ?? 0))
        + ' each, which have no pixel of their own.')]);
  }
};

function stackList(trace, stack) {
  const list = make('ol', { class: 'stack', 'aria-label': 'Stack, the innermost frame first' });
  for (const address of trace.meta.stacks[stack] || []) {
    const frame = trace.meta.frames[address];
    list.append(make('li', { class: trace.isOwnFrame(address) ? 'own' : null,
      title: frame ? frame[0] + ' ' + (frame[4] ? frame[4] + ':' + frame[5] + ' ' : '')
        + frame[2] + '+0x' + frame[3].toString(16) : address }, trace.frameName(address),
    frame && frame[0] ? make('span', { class: 'own' },
      (frame[4] ? ' ' + baseName(frame[4]) + ':' + frame[5] : '+0x' + frame[1].toString(16))
      + ' ' + baseName(frame[2])) : null));
  }
  return list;
}

/* Shows everything that is known about a life; -1: none. */
function showLife(app, life) {
  const place = document.getElementById('life'), { trace } = app;
  if (life < 0) {
    place.replaceChildren(make('h2', {}, 'A block'),
      make('p', { class: 'dim' }, 'Point at a block, or choose one by a click or ↑ and ↓.'));
    return;
  }
  const more = trace.more[life], queue = trace.queue[life], isEnded = trace.ended[life] !== NEVER;
  place.replaceChildren(make('h2', {}, 'A block of ' + formatBytes(trace.size[life])), terms([
    ['size', formatExact(trace.size[life])],
    ['memory', more > 0 ? formatExact(trace.size[life] + more) : null],
    ['tag', GROUPINGS.tag.name(trace, trace.tag[life])],
    ['of', trace.objectNames[trace.object[life]]],
    ['thread', trace.threadName(trace.thread[life])],
    ['queue', queue !== 0 ? trace.meta.queues[queue] : null],
    ['address', trace.address[life] > 0 ? '0x' + trace.address[life].toString(16) : null],
    ['served', SORTS[trace.sort[life]]],
    ['from', formatTime(trace.birth(life), 1e3)],
    ['to', isEnded ? formatTime(trace.death(life), 1e3) : 'never freed'],
    ['lived', formatTime(trace.death(life) - trace.birth(life))]
  ]), stackList(trace, trace.stack[life]));
}
