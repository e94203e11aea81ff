/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shows the lives at a moment, in groups: at the peak, at the cursor, and at the end (leaks).  A life is
 * a block from its request to its free, or an extent or a segment (a piece) of a heap. */

const MAX_ROWS = 300, MAX_LIVES = 8;

const MOMENTS = {
  peak: { title: 'alive at the peak', of: app => app.selection.peakMoment },
  cursor: { title: 'alive at the cursor', of: app => app.moment },
  leaks: { title: 'alive at the end', of: app => app.trace.nEvents - 1 }
};

const aliveView = {
  sort: 'bytes',
  /* Groups that the user has opened or closed.  By default only the first group is open. */
  toggled: new Set(),

  draw(app) {
    const { trace, selection } = app, moment = MOMENTS[app.view].of(app);
    const lives = selection.aliveAt(moment), groups = groupLives(trace, lives, app.by);
    const total = sumSizes(trace, lives);
    this.sumUp(app, moment, lives, total);
    if (this.sort !== 'bytes')
      groups.sort((a, b) => this.sort === 'count' ? b.lives.length - a.lives.length : b.largest - a.largest);
    const most = maxima(groups.map(it => it.bytes))[0] || 1, body = make('tbody');
    groups.slice(0, MAX_ROWS).forEach((group, i) => this.addGroup(app, body, group, total, most, i === 0));
    keepFocus(document.getElementById('alive'), [
      lives.length === 0 ? make('p', { class: 'dim' }, app.view === 'leaks' ? 'Nothing: all was freed.' : 'Nothing.')
        : make('table', { 'data-table': app.view }, this.head(app), body),
      groups.length > MAX_ROWS ? make('p', { class: 'dim' }, formatCount(groups.length - MAX_ROWS)
        + ' groups of less are not shown') : null]);
  },

  sumUp(app, moment, lives, total) {
    const { trace } = app, more = lives.reduce((sum, it) => sum + trace.more[it], 0);
    document.getElementById('alive-figures').replaceChildren(
      figure(formatBytes(total), trace.isSnapshot ? 'in use' : MOMENTS[app.view].title, 'bytes'),
      figure(formatCount(lives.length), lives.length === 1 ? 'block' : 'blocks', 'blocks'),
      figure(formatBytes(more), 'more in memory than asked for', 'more'),
      trace.isSnapshot ? '' : figure(formatTime(app.view === 'leaks' ? trace.duration : trace.timeOf(moment)),
        'after the start', 'time'),
      figure(formatBytes(app.selection.managed.at(app.view === 'leaks' ? trace.duration : trace.timeOf(moment))),
        (app.selection.isHeap ? 'in pieces' : 'managed') + (trace.isSnapshot ? '' : ' then'), 'managed'));
  },

  head(app) {
    const button = (sort, text) => make('button', { type: 'button', on: {
      click: () => { this.sort = sort; app.redraw(); } } }, text);
    const cell = (sort, text) => make('th', { class: 'number', scope: 'col',
      'aria-sort': this.sort === sort ? 'descending' : null }, button(sort, text));
    return make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, GROUPINGS[app.by].title),
      cell('bytes', 'bytes'), make('th', { scope: 'col', class: 'number' }, 'share'),
      make('th', { scope: 'col' }, ''), cell('count', 'blocks'), cell('largest', 'largest')));
  },

  addGroup(app, body, group, total, most, isFirst) {
    const { trace, selection } = app, { colorOf } = selection.rank(app.by), name = GROUPINGS[app.by].name(trace, group.id);
    const key = app.view + app.by + group.id, isOpen = this.toggled.has(key) !== isFirst, color = ALL_COLORS[colorOf[group.id]];
    const toggle = () => {
      if (!this.toggled.delete(key))
        this.toggled.add(key);
      app.redraw();
    };
    body.append(make('tr', { tabindex: 0, 'aria-expanded': String(isOpen), 'data-group': name,
      'data-bytes': group.bytes, 'data-count': group.lives.length, on: onChoice(toggle) },
    make('td', { class: 'name' }, swatch(color), ' ' + (isOpen ? '▾ ' : '▸ ') + name),
    make('td', { class: 'number' }, formatBytes(group.bytes)),
    make('td', { class: 'number' }, total > 0 ? (100 * group.bytes / total).toFixed(1) + ' %' : ''),
    make('td', { class: 'share' }, meter(group.bytes / most, color)),
    make('td', { class: 'number' }, formatCount(group.lives.length)),
    make('td', { class: 'number' }, formatBytes(group.largest))));
    if (isOpen)
      body.append(make('tr', { class: 'details' }, make('td', { colspan: 6 }, this.details(app, group))));
  },

  /* Makes the details of a group: its largest lives, and their stacks. */
  details(app, group) {
    const { trace } = app, lives = group.lives.slice().sort((a, b) => trace.size[b] - trace.size[a] || a - b);
    const stacks = groupLives(trace, lives, 'stack').filter(it => it.id !== 0).slice(0, 4);
    return make('div', { class: 'row' },
      make('table', { class: 'grow' }, make('thead', {}, make('tr', {},
        ...['size', 'tag', 'of', 'thread', 'queue', 'address', trace.isSnapshot ? 'asked for' : 'since'].map((it, i) =>
          make('th', { scope: 'col', class: i === 0 ? 'number' : null }, it)))),
      make('tbody', {}, ...lives.slice(0, MAX_LIVES).map(life => make('tr', {},
        make('td', { class: 'number' }, formatBytes(trace.size[life])),
        make('td', {}, GROUPINGS.tag.name(trace, trace.tag[life])),
        make('td', {}, trace.objectNames[trace.object[life]]),
        make('td', {}, trace.threadName(trace.thread[life])),
        make('td', {}, trace.meta.queues[trace.queue[life]] ?? '–'),
        make('td', {}, '0x' + trace.address[life].toString(16)),
        make('td', {}, formatSince(trace, life)))),
      lives.length > MAX_LIVES ? make('tr', {}, make('td', { colspan: 7, class: 'dim' },
        'and ' + formatCount(lives.length - MAX_LIVES) + ' more')) : '')),
      make('div', { class: 'grow' }, ...stacks.map(it => make('div', {},
        make('span', { class: 'dim' }, formatBytes(it.bytes) + ' in ' + formatCount(it.lives.length) + ' from'),
        stackList(trace, it.id)))));
  }
};

function meter(share, color) {
  const bar = make('div', { class: 'meter', 'aria-hidden': 'true', color });
  bar.style.width = (100 * share).toFixed(2) + '%';
  return bar;
}
