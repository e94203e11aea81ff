/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Formats numbers, chooses colours, and draws the parts that all drawings over time have. */

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function formatBytes(bytes) {
  let unit = 0, value = Math.abs(bytes);
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 1000 ? 0 : value >= 100 ? 1 : 2;
  return (bytes < 0 ? '−' : '') + value.toFixed(digits) + ' ' + (bytes === 1 ? 'byte' : UNITS[unit]);
}

/* Formats a power of two. */
function formatRound(bytes) {
  return formatBytes(bytes).replace(/\.0+ /, ' ');
}

/* Formats a number of things, as in "1 block" and "2 blocks". */
function formatCountOf(n, one, more = one + 's') {
  return formatCount(n) + ' ' + (n === 1 ? one : more);
}

function formatCount(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ',');
}

function formatExact(bytes) {
  return bytes < 1024 ? formatBytes(bytes) : formatBytes(bytes) + ' (' + formatCount(bytes) + ')';
}

/* Formats nanoseconds.  Times that differ by @step look different. */
function formatTime(time, step) {
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
  const [scale, name] = units.find(it => Math.abs(time) >= it[0]) || units[3];
  if (time === 0)
    return '0';
  const digits = step === undefined ? (Math.abs(time) / scale >= 100 ? 1 : Math.abs(time) / scale >= 10 ? 2 : 3)
    : Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / scale) - 1e-9)));
  return (time / scale).toFixed(scale === 1 ? 0 : digits) + ' ' + name;
}

/* Functions for colours */

/* COLORS: the colours of groups; groups without a colour of their own share the last one.  SHADES:
 * the colours of sizes, from small to large. */
const COLORS = ['#4e79a7', '#f28e2b', '#59a14f', '#e15759', '#76b7b2', '#edc948', '#b07aa1', '#ff9da7',
  '#9c755f', '#86bcb6', '#d37295', '#8cd17d', '#a5abb3'];
const SHADES = ['#3b2f6b', '#414487', '#355f8d', '#2a788e', '#21918c', '#22a884', '#44bf70', '#7ad151',
  '#bddf26', '#fde725'];
const N_COLORS = COLORS.length, N_SHADES = SHADES.length;
const ALL_COLORS = [...COLORS, ...SHADES];

/* Converts a colour, made lighter or darker by @factor, to a pixel: a word of an image's data. */
function toWord(color, factor) {
  const channel = at => Math.min(255, Math.round(parseInt(color.slice(at, at + 2), 16) * factor));
  return (0xff000000 | channel(5) << 16 | channel(3) << 8 | channel(1)) >>> 0;
}

/* Mixes two colours, and converts the result to a pixel. */
function mixWord(color, other) {
  const channel = at => Math.round((parseInt(color.slice(at, at + 2), 16) + parseInt(other.slice(at, at + 2), 16)) / 2);
  return (0xff000000 | channel(5) << 16 | channel(3) << 8 | channel(1)) >>> 0;
}

/* Neighbouring lives of one group differ a little in brightness, and have a dark edge. */
const FACTORS = [1, 0.93, 1.07, 0.97];
const WORDS = FACTORS.map(factor => Uint32Array.from(ALL_COLORS, it => toWord(it, factor)));
const EDGE_WORDS = Uint32Array.from(ALL_COLORS, it => toWord(it, 0.72));

let theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  theme = {};
  for (const name of ['back', 'panel', 'ink', 'dim', 'line', 'grid', 'accent', 'active', 'managed', 'held',
    'free', 'bad', 'rest', 'used', 'hole', 'mark'])
    theme[name] = style.getPropertyValue('--' + name).trim();
}

/* Functions that draw on canvases */

const FONT = '11px system-ui, "DejaVu Sans", sans-serif';

/* Prepares a canvas of the size at which it is shown.  Returns null if it is not shown. */
function prepare(canvas, height) {
  const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const width = Math.round(box.width), tall = Math.round(height || box.height);
  if (width < 10 || tall < 10)
    return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, tall);
  context.font = FONT;
  context.textBaseline = 'middle';
  return { context, width, height: tall, ratio };
}

/* Chooses the distance of ticks: 1, 2 or 5 times a power of ten; for bytes a power of two. */
function chooseStep(range, n, isBytes) {
  const rough = Math.max(range / n, 1e-9);
  if (isBytes)
    return 2 ** Math.max(0, Math.ceil(Math.log2(rough)));
  const power = 10 ** Math.floor(Math.log10(rough)), factor = rough / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

/* Gets the place of a time on a plot. */
function placeOf(plot, t0, t1, time) {
  return plot.left + (time - t0) / (t1 - t0) * plot.width;
}

function drawTimeAxis(context, plot, t0, t1) {
  const step = Math.max(chooseStep(t1 - t0, Math.max(plot.width / 110, 1)), 1);
  context.fillStyle = theme.dim;
  context.strokeStyle = theme.grid;
  context.textAlign = 'center';
  context.beginPath();
  for (let i = Math.ceil(t0 / step), n = 0; i * step <= t1 && n < 100; i++, n++) {
    const x = Math.round(placeOf(plot, t0, t1, i * step)) + 0.5;
    context.moveTo(x, plot.top);
    context.lineTo(x, plot.top + plot.height);
    if (x > plot.left + 20 && x < plot.left + plot.width - 20)
      context.fillText(formatTime(i * step, step), x, plot.top + plot.height + 11);
  }
  context.stroke();
}

function drawBytesAxis(context, plot, b0, b1) {
  const step = chooseStep(b1 - b0, Math.max(plot.height / 44, 1), true);
  context.fillStyle = theme.dim;
  context.strokeStyle = theme.grid;
  context.textAlign = 'right';
  context.beginPath();
  for (let i = Math.ceil(b0 / step), n = 0; i * step <= b1 && n < 100; i++, n++) {
    const y = Math.round(plot.top + plot.height * (1 - (i * step - b0) / (b1 - b0))) + 0.5;
    context.moveTo(plot.left, y);
    context.lineTo(plot.left + plot.width, y);
    context.fillText(i === 0 ? '0' : formatRound(i * step), plot.left - 7, y);
  }
  context.stroke();
}

function drawCursor(context, plot, t0, t1, time) {
  if (time < t0 || time > t1)
    return;
  const x = Math.round(placeOf(plot, t0, t1, time)) + 0.5;
  context.strokeStyle = theme.accent;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, plot.top);
  context.lineTo(x, plot.top + plot.height);
  context.stroke();
}

/* Marks the times at which memory ran out.  Times within a few pixels share a mark. */
function drawShortages(context, plot, t0, t1, times) {
  let last = -Infinity;
  context.fillStyle = theme.bad;
  for (let i = countUpTo(times, t0 - 1); i < times.length && times[i] <= t1; i++) {
    const x = placeOf(plot, t0, t1, times[i]);
    if (x - last < 3)
      continue;
    last = x;
    context.fillRect(Math.round(x), plot.top, 1, plot.height);
    context.beginPath();
    context.moveTo(x - 4, plot.top);
    context.lineTo(x + 5, plot.top);
    context.lineTo(x + 0.5, plot.top + 7);
    context.fill();
  }
}

/* Functions that make elements of the page */

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name === 'on')
      for (const [event, listener] of Object.entries(value))
        element.addEventListener(event, listener);
    else if (name === 'color')
      element.style.background = value;
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value);
  element.append(...children.filter(it => it !== null && it !== undefined));
  return element;
}

function swatch(color) {
  return make('span', { class: 'swatch', color, 'aria-hidden': 'true' });
}

function figure(number, label, name) {
  return make('div', { 'data-figure': name }, make('b', {}, number), label);
}

function terms(pairs) {
  const list = make('dl');
  for (const [term, value] of pairs)
    if (value !== null)
      list.append(make('dt', {}, term), make('dd', {}, value));
  return list;
}
