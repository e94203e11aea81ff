/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The state of the page, and its controls.  The state is in the address, too, so that a view can be
 * passed on, such as #view=lives&t=2000000.  For tests, it is in the data of the root element. */

const VIEWS = {
  bytes: { title: 'Bytes', panel: 'bytes', view: bytesView },
  lives: { title: 'Lives', panel: 'lives', view: livesView },
  heap: { title: 'Heap map', panel: 'heap', view: heapView },
  peak: { title: 'Peak', panel: 'alive', view: aliveView },
  cursor: { title: 'Cursor', panel: 'alive', view: aliveView },
  leaks: { title: 'Leaks', panel: 'alive', view: aliveView },
  calls: { title: 'Waits and calls', panel: 'calls', view: callsView },
  objects: { title: 'Pools and heaps', panel: 'objects', view: objectsView }
};
/* The most selections that the page caches.  A selection takes up to 30 bytes for each event. */
const MAX_SELECTIONS = 12;

class App {
  constructor(trace) {
    this.trace = trace;
    this.selections = new Map();
    this.object = 0;
    this.sums = sumObjects(trace);
    for (const list of [trace.pools, trace.heaps])
      list.sort((a, b) => this.sums.managedPeak[b] - this.sums.managedPeak[a] || a - b);
    this.heap = trace.heaps[0];
    this.by = 'tag';
    this.filter = null;
    this.life = -1;
    this.view = trace.isSnapshot ? 'objects' : 'bytes';
    this.range = { t0: 0, t1: trace.duration };
    this.shortages = this.findShortages();
    this.selection = this.selectionOf(0);
    this.setMoment(this.selection.peakMoment);
    this.isScheduled = false;
  }

  findShortages() {
    const { trace } = this, times = [];
    for (let i = 0; i < trace.call_time.length; i++)
      if (['oom', 'at-limit'].includes(trace.meta.kinds[trace.call_kind[i]]))
        times.push(trace.call_time[i]);
    return Float64Array.from(times);
  }

  /* Goes to the next moment at which memory ran out or a limit was reached.  After the last such
   * moment, goes to the first one. */
  goToShortage() {
    if (this.shortages.length > 0)
      this.setTime(this.shortages.find(it => it > this.time) ?? this.shortages[0]);
  }

  selectionOf(object, filter = null) {
    const key = object + ' ' + (filter ? filter.by + ' ' + filter.id : '');
    if (!this.selections.has(key)) {
      for (const old of [...this.selections.keys()].slice(1, this.selections.size - MAX_SELECTIONS + 1))
        this.selections.delete(old); /* the first selection, of all pools, is never removed */
      this.selections.set(key, new Selection(this.trace, object, filter));
    }
    return this.selections.get(key);
  }

  allPools() { return this.selectionOf(0); }
  objectName() { return this.object === 0 ? 'all pools' : this.trace.objectNames[this.object]; }
  isWhole() { return this.range.t0 <= 0 && this.range.t1 >= this.trace.duration; }

  /* Changes parts of the state: object, by, filter, view, life, heap. */
  set(changes) {
    Object.assign(this, changes);
    if ('object' in changes || 'filter' in changes)
      this.selection = this.selectionOf(this.object, this.filter);
    this.redraw();
  }

  setTime(time) {
    this.time = this.trace.isSnapshot ? this.trace.duration : Math.max(0, Math.min(this.trace.duration, time));
    this.moment = this.trace.momentAt(this.time);
    this.redraw();
  }

  /* Sets the cursor to an event, even if others have the same time. */
  setMoment(moment) {
    if (this.trace.isSnapshot) {
      this.setTime();
      return;
    }
    this.moment = Math.max(-1, Math.min(this.trace.nEvents - 1, moment));
    this.time = this.trace.timeOf(this.moment);
    this.redraw();
  }

  goTo(time) {
    const half = (this.range.t1 - this.range.t0) / 2;
    this.setTime(time);
    if (time < this.range.t0 || time > this.range.t1)
      this.setRange(time - half, time + half);
  }

  setRange(t0, t1) {
    const { duration } = this.trace, length = Math.max(Math.min(t1 - t0, duration), Math.min(100, duration));
    const start = Math.max(0, Math.min(t0, duration - length));
    this.range = { t0: start, t1: start + length };
    this.redraw();
  }

  zoom(factor, at) {
    const { t0, t1 } = this.range;
    this.setRange(at - (at - t0) * factor, at + (t1 - at) * factor);
  }

  zoomAtCursor(factor) {
    const { t0, t1 } = this.range;
    this.zoom(factor, this.time >= t0 && this.time <= t1 ? this.time : (t0 + t1) / 2);
  }

  zoomBytes(factor) {
    livesView.magnification = Math.max(1, Math.min(16, livesView.magnification * factor));
    this.redraw();
  }

  pan(share) { this.setRange(...shift(this.range, share)); }

  reset() {
    livesView.magnification = 1;
    this.setRange(0, this.trace.duration);
  }

  redraw() {
    if (this.isScheduled)
      return;
    this.isScheduled = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    const { panel, view } = VIEWS[this.view];
    this.isScheduled = false;
    for (const section of document.querySelectorAll('section'))
      section.hidden = section.id !== 'panel-' + panel;
    if (panel === 'alive')
      document.getElementById('panel-alive').setAttribute('aria-labelledby', 'tab-' + this.view);
    for (const tab of document.querySelectorAll('[role=tab]')) {
      tab.setAttribute('aria-selected', String(tab.dataset.view === this.view));
      tab.tabIndex = tab.dataset.view === this.view ? 0 : -1;
    }
    this.drawChoices();
    if (!this.trace.isSnapshot)
      overview.draw(this);
    view.draw(this);
    this.drawStatus();
    this.describe();
  }

  drawChoices() {
    const filter = document.getElementById('filter');
    document.getElementById('object').value = String(this.object);
    document.getElementById('by').value = this.by;
    filter.hidden = this.filter === null;
    if (this.filter !== null)
      filter.textContent = '× ' + GROUPINGS[this.filter.by].name(this.trace, this.filter.id);
  }

  drawStatus() {
    if (this.trace.isSnapshot) {
      this.drawSnapshotStatus();
      return;
    }
    const { selection, range } = this, part = (label, text) => make('span', {}, label + ' ', make('b', {}, text));
    document.getElementById('status').replaceChildren(
      part('cursor', formatTime(this.time, 1e3)),
      part('in use', formatBytes(this.bytesAtCursor())),
      part('shown', formatTime(range.t0, Math.max((range.t1 - range.t0) / 1000, 1)) + ' to '
        + formatTime(range.t1, Math.max((range.t1 - range.t0) / 1000, 1))),
      part('peak', formatBytes(selection.peak) + ' at ' + formatTime(this.trace.timeOf(selection.peakMoment), 1e3)),
      make('span', {}, make('kbd', {}, '?'), ' keys'));
  }

  drawSnapshotStatus() {
    const { selection } = this, part = (label, bytes) => make('span', {}, label + ' ', make('b', {}, formatBytes(bytes)));
    document.getElementById('status').replaceChildren(make('span', {}, this.objectName()),
      part('in use', this.bytesAtCursor()), part(selection.isHeap ? 'in pieces' : 'managed', selection.managed.peak),
      make('span', {}, make('kbd', {}, '?'), ' keys'));
  }

  bytesAtCursor() {
    const { moments, active } = this.selection, i = countUpTo(moments, this.moment) - 1;
    return i < 0 ? 0 : active.values[i];
  }

  /* Writes the state into the root element's data and the address. */
  describe() {
    const { dataset } = document.documentElement, { selection } = this;
    const found = { view: this.view, time: Math.round(this.time), active: this.bytesAtCursor(),
      peak: selection.peak, peakTime: this.trace.timeOf(selection.peakMoment),
      managedPeak: selection.managed.peak, shown: Math.round(this.range.t1 - this.range.t0) };
    Object.assign(dataset, found);
    const parameters = new URLSearchParams({ view: this.view, t: Math.round(this.time) });
    if (this.object !== 0)
      parameters.set('object', this.object);
    if (this.by !== 'tag')
      parameters.set('by', this.by);
    if (!this.isWhole())
      parameters.set('range', Math.round(this.range.t0) + '-' + Math.round(this.range.t1));
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => {
      try {
        history.replaceState(null, '', '#' + parameters);
      } catch { /* some browsers refuse to change the address of a page that is a file */ }
    }, 300);
  }

  readAddress() {
    const parameters = new URLSearchParams(location.hash.slice(1)), { trace } = this;
    showAddressFaults(findAddressFaults(parameters, trace));
    const object = Number(parameters.get('object')), range = /^(\d+)-(\d+)$/.exec(parameters.get('range'));
    if (viewsOf(trace).includes(parameters.get('view')))
      this.view = parameters.get('view');
    if (groupingsFor(trace).includes(parameters.get('by')))
      this.by = parameters.get('by');
    if (trace.pools.includes(object) || trace.heaps.includes(object))
      this.set({ object });
    if (range)
      this.setRange(Number(range[1]), Number(range[2]));
    if (/^\d+$/.test(parameters.get('t')))
      this.setTime(Number(parameters.get('t')));
    else
      this.setMoment(this.selection.peakMoment);
    if (['dark', 'light'].includes(parameters.get('theme')))
      setTheme(this, parameters.get('theme'));
  }
}

/* Returns texts that say what is wrong with the page's address. */
function findAddressFaults(parameters, trace) {
  const names = { view: viewsOf(trace), by: groupingsFor(trace), theme: ['dark', 'light'] };
  const patterns = { t: /^\d+$/, range: /^\d+-\d+$/, object: /^\d+$/ }, faults = [];
  for (const [key, value] of parameters)
    if (names[key] && !names[key].includes(value))
      faults.push(`#${key}=${value} is unknown; there are ${names[key].join(', ')}.`);
    else if (patterns[key] && !patterns[key].test(value))
      faults.push(`#${key}=${value} is not ${key === 'range' ? 'two numbers, such as 0-1000' : 'a number'}.`);
    else if (key === 'object' && !trace.pools.includes(Number(value)) && !trace.heaps.includes(Number(value)))
      faults.push(`#object=${value}: there is no such pool or heap.`);
    else if (!names[key] && !patterns[key])
      faults.push(`#${key}= is unknown; there are view, t, object, by, range, theme.`);
  return faults;
}

function showAddressFaults(faults) {
  const message = document.getElementById('message');
  message.hidden = faults.length === 0;
  message.className = 'bad';
  message.textContent = faults.join('\n');
}

/* Functions for the controls around the views */

function viewsOf(trace) {
  return trace.isSnapshot ? SNAPSHOT_VIEWS : Object.keys(VIEWS).filter(it => it !== 'objects');
}

function showFacts(trace) {
  const { meta } = trace, place = document.getElementById('facts');
  const fact = (label, value, kind) => make('li', {}, label, make('b', { class: kind }, value));
  document.getElementById('name').textContent = meta.name;
  place.append(
    fact('process ', meta.pid),
    meta.real_time > 0 ? fact('', new Date(meta.real_time).toISOString().replace('T', ' ').slice(0, 19) + ' UTC') : '',
    fact('', formatTime(meta.duration)),
    fact('', formatCountOf(meta.events, 'event')),
    fact('', formatCountOf(trace.nLives, 'life', 'lives')),
    meta.lost > 0 ? fact('', formatCountOf(meta.lost, 'event was', 'events were') + ' lost: numbers are too small or too large', 'bad')
      : fact('', 'none lost', 'good'),
    meta.cut > 0 ? fact('', 'the file is cut off at byte ' + formatCount(meta.cut), 'bad')
      : meta.complete ? fact('', 'complete', 'good') : fact('', 'not ended: the last events may be missing', 'bad'),
    meta.unknown > 0 ? fact('', formatCountOf(meta.unknown, 'event') + ' of unknown blocks', 'bad') : '');
}

function makeTabs(app) {
  const place = document.getElementById('tabs');
  viewsOf(app.trace).forEach((view, i) => {
    const { title, panel } = VIEWS[view];
    place.append(make('button', { type: 'button', role: 'tab', id: 'tab-' + view, 'data-view': view,
      'aria-controls': 'panel-' + panel, on: { click: () => app.set({ view }) } },
    make('kbd', {}, i + 1), app.trace.isSnapshot && view === 'cursor' ? 'In use' : title));
  });
}

function makeChoices(app) {
  const { trace } = app, object = document.getElementById('object'), by = document.getElementById('by');
  const heap = document.getElementById('heap');
  object.append(make('option', { value: 0 }, trace.pools.length > 0 ? 'all pools' : 'all heaps'),
    ...[...trace.pools, ...trace.heaps].map(it => make('option', { value: it }, trace.objectNames[it])));
  by.append(...groupingsFor(trace).map(it => make('option', { value: it }, GROUPINGS[it].title)));
  heap.append(...trace.heaps.map(it => make('option', { value: it }, trace.objectNames[it])));
  object.addEventListener('change', () => app.set({ object: Number(object.value) }));
  by.addEventListener('change', () => app.set({ by: by.value }));
  heap.addEventListener('change', () => app.set({ object: 0, heap: Number(heap.value) }));
  document.getElementById('filter').addEventListener('click', () => app.set({ filter: null }));
  document.getElementById('moment').addEventListener('input', event =>
    app.setTime(Number(event.target.value) / 2000 * trace.duration));
  for (const button of document.querySelectorAll('[data-go]')) {
    button.addEventListener('click', () => ACTIONS[button.dataset.go](app));
    button.hidden = button.dataset.go === 'm' && app.shortages.length === 0;
  }
  document.getElementById('theme').addEventListener('click', () => toggleTheme(app));
  document.getElementById('help-button').addEventListener('click', toggleHelp);
}

function followMice(app) {
  const rangeOf = () => app.range, of = id => document.getElementById(id);
  followMouse(app, of('overview'), { plotOf: () => overview.plot, isOverview: true,
    rangeOf: () => ({ t0: 0, t1: app.trace.duration }) });
  followMouse(app, of('bytes'), { plotOf: () => bytesView.plot, rangeOf, hover: (event, time) => {
    if (event === null)
      return;
    const { active, managed, held } = app.selection;
    showTip(event, make('b', {}, formatTime(Math.max(time, 0))), make('br'), formatBytes(active.at(time)) + ' in use',
      make('br'), formatBytes(managed.at(time)) + (app.selection.isHeap ? ' in pieces' : ' managed'), make('br'),
      formatBytes(held.at(time)) + (app.selection.isHeap ? ' free' : ' held'));
  } });
  followMouse(app, of('lives'), { plotOf: () => livesView.plot, rangeOf,
    hover: event => livesView.hover(app, event), click: event => livesView.click(app, event) });
  followMouse(app, of('calls'), { plotOf: () => callsView.plot, rangeOf });
  of('map').addEventListener('pointermove', event => heapView.hover(app, event));
  of('map').addEventListener('pointerleave', () => heapView.hover(app, null));
}

/* Functions for the dark and the light theme */

function setTheme(app, name) {
  document.documentElement.dataset.theme = name;
  readTheme();
  app.redraw();
}

function toggleTheme(app) {
  setTheme(app, document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
}

function followTheme(app) {
  const query = matchMedia('(prefers-color-scheme: dark)');
  setTheme(app, query.matches ? 'dark' : 'light');
  query.addEventListener('change', () => setTheme(app, query.matches ? 'dark' : 'light'));
  let before = null;
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    setTheme(app, 'light');
    app.draw();
  });
  addEventListener('afterprint', () => setTheme(app, before));
}

/* Functions that handle keys */

const KEYS = [
  ['1 to 7', 'the views'], ['+  −', 'zoom, at the cursor'], ['←  →', 'move through time'], ['0', 'all of it again'],
  ['Shift ←  →', 'move the cursor'], [',  .', 'the event before, and after'], ['p  e', 'cursor to the peak, or the end'], ['m', 'cursor to where memory ran out; the next time'],
  ['↑  ↓', 'the block above, or below, at the cursor'], ['[  ]', 'lives: fewer or more pixels for a byte'],
  ['o  O', 'the next pool or heap, the one before'], ['g  G', 'the next way to group, the one before'],
  ['Esc', 'show all groups again'], ['d', 'dark or light'], ['?', 'this help']
];

function makeHelp(trace) {
  const { isSnapshot } = trace, keys = isSnapshot ? SNAPSHOT_KEYS : KEYS, half = Math.ceil(keys.length / 2);
  const list = pairs => terms(pairs.map(([key, what]) => [make('kbd', {}, key), what]));
  document.getElementById('help').append(make('h2', {}, 'Keys'),
    make('div', { class: 'columns' }, list(keys.slice(0, half)), list(keys.slice(half))),
    make('h2', {}, 'Mouse'),
    make('p', {}, isSnapshot ? 'To point at memory of a heap says what it is; a click opens a group, and chooses a pool.'
      : 'The wheel zooms where it is; dragging moves, with Shift, or in the overview, it chooses a stretch of '
      + 'time; a click sets the cursor, and chooses a block. A group in a legend shows only its own.'),
    make('h2', {}, 'Words'),
    make('p', {}, 'Active, or in use: bytes that a program has asked for and not freed. Held: what a pool keeps of freed '
      + 'blocks. Managed: what a pool has of its upstream. A piece is what a heap had of the driver in one call; an '
      + 'extent is a part of it that is in use.'),
    isSnapshot ? '' : make('p', {}, 'In a pixel of Lives and Bytes is what was in use at most then; the darker area of Bytes is the least.'),
    make('form', { method: 'dialog' }, make('button', {}, 'Close')));
}

function toggleHelp() {
  const help = document.getElementById('help');
  if (help.open)
    help.close();
  else
    help.showModal();
}

function next(list, item, by) {
  return list[(list.indexOf(item) + by + list.length) % list.length];
}

function stepTime(app, pixels) {
  app.setTime(app.time + pixels * (app.range.t1 - app.range.t0) / 400);
  if (app.time < app.range.t0)
    app.pan(-0.25);
  else if (app.time > app.range.t1)
    app.pan(0.25);
}

const ACTIONS = {
  '+': app => app.zoomAtCursor(0.6), '=': app => app.zoomAtCursor(0.6), '-': app => app.zoomAtCursor(1 / 0.6),
  0: app => app.reset(), ',': app => app.setMoment(app.moment - 1), '.': app => app.setMoment(app.moment + 1),
  p: app => app.setMoment(app.selection.peakMoment), e: app => app.setTime(app.trace.duration),
  m: app => app.goToShortage(),
  '[': app => app.zoomBytes(1 / 1.4), ']': app => app.zoomBytes(1.4),
  o: app => app.set({ object: next([0, ...app.trace.pools, ...app.trace.heaps], app.object, 1) }),
  O: app => app.set({ object: next([0, ...app.trace.pools, ...app.trace.heaps], app.object, -1) }),
  g: app => app.set({ by: next(groupingsFor(app.trace), app.by, 1) }),
  G: app => app.set({ by: next(groupingsFor(app.trace), app.by, -1) }),
  Escape: app => app.set({ filter: null, life: -1 }), d: toggleTheme, '?': toggleHelp
};

function onArrow(app, event) {
  const by = event.key === 'ArrowLeft' || event.key === 'ArrowDown' ? -1 : 1;
  if (event.target.getAttribute?.('role') === 'tab' && !event.shiftKey && /Left|Right/.test(event.key)) {
    const tabs = [...document.querySelectorAll('[role=tab]')], tab = next(tabs, event.target, by);
    app.set({ view: tab.dataset.view });
    tab.focus();
  } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
    if (app.view !== 'lives')
      return;
    livesView.step(app, by);
  } else if (event.shiftKey) {
    stepTime(app, by);
  } else {
    app.pan(by * 0.12);
  }
  event.preventDefault();
}

function onKey(app, event) {
  if (event.ctrlKey || event.altKey || event.metaKey || document.getElementById('help').open && event.key !== '?')
    return;
  if (/^(SELECT|INPUT)$/.test(event.target.tagName) && (event.key.startsWith('Arrow') || event.target.tagName === 'SELECT'))
    return;
  const view = [...document.querySelectorAll('[role=tab]')].find(it => it.textContent.startsWith(event.key));
  if (/^[1-9]$/.test(event.key) && view)
    app.set({ view: view.dataset.view });
  else if (event.key.startsWith('Arrow'))
    onArrow(app, event);
  else if (Object.hasOwn(ACTIONS, event.key))
    ACTIONS[event.key](app);
  else
    return;
}

/* Measures how many milliseconds the page needs to draw the view Lives: after each of several zooms
 * and moves, and once without zoom.  Stores the times in the data of the root element, for tests. */
function measure(app) {
  const times = [], rounds = 24;
  app.view = 'lives';
  app.reset();
  app.draw();
  for (let i = 0; i < rounds; i++) {
    const begin = performance.now();
    if (i < rounds / 2)
      app.zoom(0.7, app.trace.duration * 0.4);
    else
      app.pan(0.1);
    app.draw();
    document.getElementById('lives').getContext('2d').getImageData(0, 0, 1, 1);
    times.push(performance.now() - begin);
  }
  app.reset();
  const begin = performance.now();
  app.draw();
  times.sort((a, b) => a - b);
  Object.assign(document.documentElement.dataset, { frameMedian: times[rounds / 2].toFixed(1),
    frameLongest: times[rounds - 1].toFixed(1), frameWhole: (performance.now() - begin).toFixed(1) });
}

/* A global variable, so that tests can use it. */
let app = null;

async function start() {
  const message = document.getElementById('message'), { dataset } = document.documentElement;
  try {
    const place = document.getElementById('data'), text = place.textContent;
    place.remove();
    const bytes = await unpack(text), unpacked = performance.now();
    const trace = decode(bytes), decoded = performance.now();
    app = new App(trace);
    makeTabs(app);
    makeChoices(app);
    makeHelp(trace);
    if (trace.isSnapshot) {
      showSnapshotFacts(trace);
      showNote(trace);
      hideTime();
    } else {
      showFacts(trace);
    }
    followMice(app);
    followTheme(app);
    app.readAddress();
    document.addEventListener('keydown', event => onKey(app, event));
    addEventListener('resize', () => app.redraw());
    addEventListener('hashchange', () => app.readAddress());
    app.draw();
    Object.assign(dataset, { ready: 1, lives: trace.nLives, unpackedMs: unpacked.toFixed(0),
      decodedMs: decoded.toFixed(0), openMs: performance.now().toFixed(0) });
  } catch (error) {
    dataset.error = message.textContent = String(error.message || error);
    message.hidden = false;
    message.className = 'bad';
  }
}
