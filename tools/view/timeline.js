/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Draws the overview, which stays at the top, and bytes over time.  Handles the mouse in all
 * drawings over time. */

const MAX_OBJECTS = 100;
const OVERVIEW_PAD = { left: 74, right: 8 };

/* Draws the greatest value at each pixel as an area, and the least one as a darker area. */
function drawArea(context, plot, steps, t0, t1, scale, color) {
  const n = Math.max(1, Math.round(plot.width * (window.devicePixelRatio || 1)));
  const { least, most } = steps.sample(t0, t1, n), bottom = plot.top + plot.height;
  for (const [values, alpha] of [[most, 0.45], [least, 0.75]]) {
    context.fillStyle = color;
    context.globalAlpha = alpha;
    context.beginPath();
    context.moveTo(plot.left, bottom);
    for (let x = 0; x < n; x++) {
      const y = bottom - values[x] * scale;
      context.lineTo(plot.left + x / n * plot.width, y);
      context.lineTo(plot.left + (x + 1) / n * plot.width, y);
    }
    context.lineTo(plot.left + plot.width, bottom);
    context.fill();
  }
  context.globalAlpha = 1;
}

/* Draws a line of the greatest value at each pixel, and below it a light area down to the least
 * one. */
function drawLine(context, plot, steps, t0, t1, scale, color) {
  const n = Math.max(1, Math.round(plot.width)), { least, most } = steps.sample(t0, t1, n);
  const bottom = plot.top + plot.height, per = plot.width / n;
  context.fillStyle = context.strokeStyle = color;
  context.globalAlpha = 0.3;
  for (let x = 0; x < n; x++)
    if (most[x] > least[x])
      context.fillRect(plot.left + x * per, bottom - most[x] * scale, per, (most[x] - least[x]) * scale);
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let x = 0; x < n; x++) {
    context.lineTo(plot.left + x * per, bottom - most[x] * scale);
    context.lineTo(plot.left + (x + 1) * per, bottom - most[x] * scale);
  }
  context.stroke();
}

function drawPeak(context, plot, t0, t1, time, y, color, label, isAbove) {
  if (time < t0 || time > t1)
    return;
  const x = placeOf(plot, t0, t1, time), isLeft = x > plot.left + plot.width - 170;
  context.fillStyle = color;
  context.beginPath();
  context.arc(x, y, 3.5, 0, 7);
  context.fill();
  context.textAlign = isLeft ? 'right' : 'left';
  context.lineWidth = 3;
  context.strokeStyle = theme.back;
  context.strokeText(label, x + (isLeft ? -8 : 8), isAbove ? y - 11 : y + 12);
  context.fillText(label, x + (isLeft ? -8 : 8), isAbove ? y - 11 : y + 12);
}

const overview = {
  draw(app) {
    const frame = prepare(document.getElementById('overview'));
    if (frame === null)
      return;
    const { context, width, height } = frame, { trace, selection } = app;
    const plot = this.plot = { left: OVERVIEW_PAD.left, top: 2, height: height - 4,
      width: width - OVERVIEW_PAD.left - OVERVIEW_PAD.right };
    const { t0, t1 } = app.range, from = placeOf(plot, 0, trace.duration, t0);
    const to = placeOf(plot, 0, trace.duration, t1);
    drawImage(context, plot, [selection, width, height, theme.active, window.devicePixelRatio], image => {
      drawArea(image, { ...plot, left: 0, top: 0 }, selection.active, 0, trace.duration,
        selection.peak > 0 ? plot.height * 0.94 / selection.peak : 0, theme.active);
    });
    context.fillStyle = theme.back;
    context.globalAlpha = 0.72;
    context.fillRect(plot.left, plot.top, from - plot.left, plot.height);
    context.fillRect(to, plot.top, plot.left + plot.width - to, plot.height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.dim;
    context.lineWidth = 1;
    context.strokeRect(Math.round(from) + 0.5, plot.top + 0.5, Math.max(Math.round(to - from) - 1, 1),
      plot.height - 1);
    drawShortages(context, plot, 0, trace.duration, app.shortages);
    drawCursor(context, plot, 0, trace.duration, app.time);
    context.fillStyle = theme.dim;
    context.textAlign = 'right';
    context.fillText('all of it', plot.left - 7, plot.top + 8);
    context.fillText(formatBytes(selection.peak), plot.left - 7, plot.top + 24);
    context.fillText(formatTime(trace.duration), plot.left - 7, plot.top + 40);
  }
};

/* A cached drawing, which drawImage () draws again only if one of the keys has changed. */
const images = { keys: [], canvas: null };

function drawImage(context, plot, keys, draw) {
  const ratio = window.devicePixelRatio || 1;
  if (images.canvas === null || keys.some((key, i) => key !== images.keys[i])) {
    images.canvas = document.createElement('canvas');
    images.canvas.width = Math.max(1, Math.round(plot.width * ratio));
    images.canvas.height = Math.max(1, Math.round(plot.height * ratio));
    const image = images.canvas.getContext('2d');
    image.scale(ratio, ratio);
    draw(image);
    images.keys = keys;
  }
  context.drawImage(images.canvas, plot.left, plot.top, plot.width, plot.height);
}

const bytesView = {
  shown: { active: true, held: true, managed: true },

  names(isHeap) {
    return isHeap ? { active: 'in use', held: 'free in pieces', managed: 'in pieces' }
      : { active: 'active', held: 'held', managed: 'managed' };
  },

  draw(app) {
    const canvas = document.getElementById('bytes'), frame = prepare(canvas);
    if (frame === null)
      return;
    const { context, width, height } = frame, { selection, trace } = app, { t0, t1 } = app.range;
    const plot = this.plot = { left: OVERVIEW_PAD.left, top: 14, height: height - 38,
      width: width - OVERVIEW_PAD.left - OVERVIEW_PAD.right };
    const shown = ['managed', 'active', 'held'].filter(it => this.shown[it]
      && (app.filter === null || it === 'active'));
    const most = Math.max(1, ...shown.map(it => maxima(selection[it].sample(t0, t1, 200).most)[0]));
    const top = most * 1.08, scale = plot.height / top;
    drawTimeAxis(context, plot, t0, t1);
    drawBytesAxis(context, plot, 0, top);
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top - 8, plot.width, plot.height + 9);
    context.clip();
    if (shown.includes('active'))
      drawArea(context, plot, selection.active, t0, t1, scale, theme.active);
    for (const it of ['held', 'managed'])
      if (shown.includes(it))
        drawLine(context, plot, selection[it], t0, t1, scale, theme[it]);
    drawShortages(context, plot, t0, t1, app.shortages);
    const names = this.names(selection.isHeap);
    for (const it of shown)
      if (selection[it].peakAt >= 0 && it !== 'held')
        drawPeak(context, plot, t0, t1, selection[it].times[selection[it].peakAt],
          plot.top + plot.height - selection[it].peak * scale, it === 'active' ? theme.mark : theme[it],
          'peak ' + names[it] + ' ' + formatBytes(selection[it].peak), it === 'managed');
    drawCursor(context, plot, t0, t1, app.time);
    context.restore();
    canvas.setAttribute('aria-label', 'Bytes over time, ' + app.objectName() + ': at most '
      + formatBytes(selection.peak) + ' in use, ' + formatTime(trace.timeOf(selection.peakMoment))
      + ' after the start');
    this.label(app, names);
    this.list(app);
  },

  label(app, names) {
    const { selection, time } = app;
    const buttons = ['active', 'held', 'managed'].map(it => make('button', {
      type: 'button', 'aria-pressed': String(this.shown[it]), 'data-curve': it,
      title: 'Show or hide', on: { click: () => { this.shown[it] = !this.shown[it]; app.redraw(); } }
    }, swatch(theme[it]), names[it] + ' ',
    make('b', {}, formatBytes(it === 'active' ? selection.active.at(time) : selection[it].at(time)))));
    keepFocus(document.getElementById('bytes-legend'), [make('span', { class: 'dim' }, 'At the cursor:'), ...buttons,
      app.shortages.length > 0 ? make('button', { type: 'button', disabled: true }, swatch(theme.bad),
        'out of memory: ' + app.shortages.length) : null]);
  },

  /* Lists pools and heaps. */
  list(app) {
    const { trace } = app, { sums } = app, now = sumObjectsAt(trace, app.moment, app.time);
    const head = ['', 'peak in use', 'peak managed', 'in use at the cursor', 'managed', 'in use at the end', 'limit'];
    const all = [...trace.pools, ...trace.heaps], rows = all.slice(0, MAX_OBJECTS).map(object => {
      const limit = limitOf(trace, object);
      return make('tr', { tabindex: 0, class: app.object === object ? 'chosen' : null,
        'data-object': object, on: onChoice(() => app.set({ object: app.object === object ? 0 : object })) },
      make('td', { class: 'name' }, trace.objectNames[object]),
      ...[sums.peak, sums.managedPeak, now.active, now.managed, sums.active].map(it =>
        make('td', { class: 'number' }, formatBytes(it[object]))),
      make('td', { class: 'number' }, limit > 0 ? formatBytes(limit) : '–'));
    });
    keepFocus(document.getElementById('objects'), [make('table', {},
      make('thead', {}, make('tr', {}, ...head.map((it, i) =>
        make('th', { class: i > 0 ? 'number' : null, scope: 'col' }, it)))),
      make('tbody', {}, ...rows)),
    all.length > MAX_OBJECTS ? make('p', { class: 'dim' }, formatCount(all.length - MAX_OBJECTS) + ' more') : null]);
  }
};

/* Gets the limit of an object (TARN_TRACE_LIMIT_BYTES). */
function limitOf(trace, object) {
  const found = (trace.meta.objects[object].properties || []).find(it => it[0] === 2);
  return found ? found[1] : 0;
}

function onChoice(choose) {
  return {
    click: choose,
    keydown: event => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        event.stopPropagation();
        choose();
      }
    }
  };
}

/* Replaces the children of an element.  If a child had the keyboard focus, the new child in the
 * same place gets it. */
function keepFocus(parent, children) {
  const old = [...parent.querySelectorAll('button, [tabindex]')].indexOf(document.activeElement);
  parent.replaceChildren(...children.filter(it => it !== null));
  if (old >= 0)
    parent.querySelectorAll('button, [tabindex]')[old]?.focus({ preventScroll: true });
}

/* Handles the mouse: the wheel zooms around the time under the mouse, dragging moves, dragging with
 * shift chooses a time, and a click sets the cursor.  plotOf () and rangeOf () give the plot's
 * place and times. */
function followMouse(app, canvas, { plotOf, rangeOf, hover, click, isOverview }) {
  let drag = null, last = '';
  const timeAt = event => {
    const plot = plotOf(), { t0, t1 } = rangeOf();
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return t0 + (x - plot.left) / plot.width * (t1 - t0);
  };
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
      app.pan(event.deltaX / plotOf().width);
    else if (event.shiftKey && app.view === 'lives')
      app.zoomBytes(Math.exp(-event.deltaY * 0.002));
    else
      app.zoom(Math.exp(event.deltaY * 0.0018), isOverview ? app.time : timeAt(event));
  }, { passive: false });
  canvas.addEventListener('pointerdown', event => {
    if (event.button !== 0)
      return;
    drag = { x: event.clientX, y: event.clientY, time: timeAt(event), range: app.range, moved: false,
      selects: event.shiftKey || isOverview };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (drag === null) {
      /* Browsers also report a move of the mouse when only the page has moved. */
      const place = event.clientX + ' ' + event.clientY;
      if (place !== last)
        hover?.(event, timeAt(event));
      last = place;
      return;
    }
    drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
    if (!drag.moved)
      return;
    hideTip();
    if (drag.selects)
      app.setRange(Math.min(drag.time, timeAt(event)), Math.max(drag.time, timeAt(event)));
    else
      app.setRange(...shift(drag.range, (drag.x - event.clientX) / plotOf().width));
  });
  const end = event => {
    if (drag !== null && !drag.moved && event.type === 'pointerup') {
      app.setTime(drag.time);
      click?.(event, drag.time);
    }
    drag = null;
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', () => { last = ''; hideTip(); hover?.(null); });
  canvas.addEventListener('dblclick', event => app.zoom(0.4, timeAt(event)));
}

function shift(range, share) {
  const by = (range.t1 - range.t0) * share;
  return [range.t0 + by, range.t1 + by];
}

/* Functions for the tip beside the mouse */

function showTip(event, ...children) {
  const tip = document.getElementById('tip');
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + 'px';
  tip.style.top = Math.max(4, event.clientY + 16 + box.height > innerHeight
    ? event.clientY - box.height - 10 : event.clientY + 16) + 'px';
}

function hideTip() {
  document.getElementById('tip').hidden = true;
}
