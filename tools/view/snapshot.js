/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pages of snapshots.  They have one moment instead of a trace's time, ages of blocks, and counters
 * of pools and heaps. */

const SNAPSHOT_VIEWS = ['objects', 'heap', 'cursor'];
const REASONS = { asked: 'asked for', signal: 'on a signal', 'out-of-memory': 'memory ran out' };

const SNAPSHOT_KEYS = [
  ['1 to 3', 'the views'], ['o  O', 'the next pool or heap, the one before'],
  ['g  G', 'the next way to group, the one before'], ['d', 'dark or light'], ['?', 'this help']
];

/* Tells whether a life's age is known.  The ages of a heap's memory, and of blocks that were not
 * traced, are unknown. */
const isAgeKnown = (trace, life) => trace.sort[life] !== 0 && trace.sort[life] < EXTENT;

/* Formats when a life began: after the start of a trace, or before a snapshot. */
function formatSince(trace, life) {
  if (!trace.isSnapshot)
    return formatTime(trace.birth(life), 1e3);
  return isAgeKnown(trace, life) ? formatTime(trace.duration - trace.birth(life)) + ' ago' : 'not known';
}

/* Groups lives by age.  Group 0 has unknown ages.  The number of each other group is one more than the
 * number of digits of the age in nanoseconds. */
function ages(trace) {
  return Uint8Array.from(trace.sort, (_, life) => !isAgeKnown(trace, life) ? 0
    : String(Math.max(Math.round(trace.duration - trace.birth(life)), 0)).length + 1);
}

function ageName(id) {
  return id === 0 ? '(age not known)' : id <= 4 ? 'less than 1 µs'
    : formatTime(10 ** (id - 2)) + ' to ' + formatTime(10 ** (id - 1));
}

/* For each counter: its name, its TarnTraceProperty for a pool, and its TarnTraceProperty for a heap.
 * null: there is no such property. */
const COUNTERS = [
  ['in use', 40, 46], ['blocks in use', 38, null], ['held, or free', 41, 48], ['managed', 39, 44],
  ['peak in use', 43, 47], ['peak managed', 42, 45], ['limit', 2, 2], ['requests', null, null], ['failed', 34, null]
];
const COUNTS = new Set(['blocks in use', 'requests', 'failed']);

function propertyOf(trace, object, property) {
  const found = (trace.meta.objects[object].properties || []).find(it => it[0] === property);
  return found ? found[1] : null;
}

function counterOf(trace, object, [name, ofPool, ofHeap]) {
  const get = property => propertyOf(trace, object, property);
  if (name === 'requests')
    return trace.isHeap(object) || get(32) === null ? null : get(32) + get(33);
  return get(trace.isHeap(object) ? ofHeap : ofPool);
}

const objectsView = {
  draw(app) {
    const { trace } = app, head = ['', 'over', ...COUNTERS.map(it => it[0])];
    const format = (name, number) => number === null || name === 'limit' && number === 0 ? '–'
      : COUNTS.has(name) ? formatCount(number) : formatBytes(number);
    const rows = [...trace.pools, ...trace.heaps].slice(0, MAX_OBJECTS).map(object => make('tr', {
      tabindex: 0, class: app.object === object ? 'chosen' : null, 'data-object': object,
      on: onChoice(() => app.set({ object: app.object === object ? 0 : object })) },
    make('td', { class: 'name' }, trace.objectNames[object]),
    make('td', {}, trace.meta.objects[object].upstream > 0 ? trace.objectNames[trace.meta.objects[object].upstream] : '–'),
    ...COUNTERS.map(it => make('td', { class: 'number', 'data-counter': it[0] },
      format(it[0], counterOf(trace, object, it))))));
    keepFocus(document.getElementById('objects-table'), [rows.length === 0
      ? make('p', { class: 'dim' }, 'There are no pools and no heaps.')
      : make('table', {}, make('thead', {}, make('tr', {}, ...head.map((it, i) =>
        make('th', { class: i > 1 ? 'number' : null, scope: 'col' }, it)))), make('tbody', {}, ...rows))]);
  }
};

/* Shows a note below the header: why there is a snapshot, and what it does not have. */
function showNote(trace) {
  const { meta } = trace, place = document.getElementById('note');
  place.hidden = false;
  place.append(...[
    meta.message ? make('p', { class: 'bad' }, meta.message) : '',
    make('p', { class: 'dim' }, 'What is there at one moment: a snapshot does not know what was freed before.'),
    meta.followed ? '' : make('p', { class: 'dim' }, 'Blocks were not followed, so tags, threads and ages are not known: '
      + 'see tarn_snapshot_set_follow () and TARN_SNAPSHOT_ON_OOM.')].filter(it => it !== ''));
}

function showSnapshotFacts(trace) {
  const { meta } = trace, place = document.getElementById('facts');
  const fact = (label, value, kind) => make('li', {}, label, make('b', { class: kind }, value));
  const blocks = trace.sort.reduce((n, sort) => n + (sort < EXTENT ? 1 : 0), 0);
  document.getElementById('name').textContent = meta.name;
  place.setAttribute('aria-label', 'The snapshot');
  place.append(...[
    meta.program ? fact('program ', meta.program) : null,
    fact('process ', meta.pid),
    meta.real_time > 0 ? fact('', new Date(meta.real_time).toISOString().replace('T', ' ').slice(0, 19) + ' UTC') : null,
    fact('snapshot: ', REASONS[meta.reason] ?? (meta.reason || 'why is not said'), meta.reason === 'out-of-memory' ? 'bad' : null),
    fact('', formatCount(trace.pools.length) + (trace.pools.length === 1 ? ' pool' : ' pools')),
    fact('', formatCount(trace.heaps.length) + (trace.heaps.length === 1 ? ' heap' : ' heaps')),
    fact('', formatCount(blocks) + (blocks === 1 ? ' block in use' : ' blocks in use')),
    meta.version ? fact('Tarn ', meta.version) : null].filter(it => it !== null));
}

/* Hides the controls of time: a snapshot has one moment. */
function hideTime() {
  for (const it of document.querySelectorAll('#overview-frame, #panel-heap label.grow, [data-go]'))
    it.hidden = true;
}
