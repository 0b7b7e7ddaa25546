// Charts of the pages and of the report of a simulation. Curves over time are drawn by uPlot, whose script precedes this module.

import { h, hideTip, say, showTip } from "./dom.js";

const HEIGHT = 240;
const ELAPSED = [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000]; // round steps of times

export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const element of document.querySelectorAll("canvas, .plot")) element.paint?.();
});

// Counts in equal periods up to now, the last one at the right.
export function bars(counts, label, begin) {
  const most = Math.max(1, ...counts);
  return h("div", { class: "bars", role: "img", "aria-label": `${label}: ${counts.join(", ")}` },
    h("span", {}, String(most)),
    h("div", {}, counts.map((count) => h("i", { title: String(count), style: { height: `${(100 * count) / most}%` } }))),
    h("span", {}, "0"), h("div", { class: "ticks" }, h("span", {}, begin), h("span", {}, "now")));
}

// Stacked areas and lines over time, and marks as vertical lines. Areas are { times, series: [{ name, values, fill }] }, lines
// { name, points: [[time, value]], stroke, dash }; a value that is null interrupts a line. `end` is that of the axis. `value` and `time` make texts; times
// of day are seconds since 1970. Dragging enlarges a period, a double click shows all; pointer and arrow keys read values.
export function timeline(view, label, height = HEIGHT) {
  const element = h("div", { class: "plot", style: { height: `${height}px` }, role: "application", tabindex: 0, "aria-label": `${label}. Arrow keys read values.` });
  let plot = null, spoken = false;
  element.adopt = (next) => {
    const [zoomed, before] = [plot && (plot.scales.x.min > plot.data[0][0] || plot.scales.x.max < plot.data[0].at(-1)), element.view];
    element.view = next.view;
    element.setAttribute("aria-label", next.getAttribute("aria-label"));
    if (plot && named(before) === named(next.view)) plot.setData(columns(next.view), !zoomed);
    else element.paint();
    if (zoomed) plot?.redraw();
  };
  element.paint = () => {
    plot?.destroy();
    plot = element.clientWidth ? new uPlot(options(element, read, height), columns(element.view), element) : null;
  };
  const read = ({ cursor: { idx: place, left }, over }) => {
    if (place === null || place === undefined || left < 0) return hideTip();
    const box = over.getBoundingClientRect();
    const text = reading(element.view, plot.data, place);
    showTip({ clientX: box.left + left, clientY: box.top + 14 }, text);
    if (spoken) say(text);
  };
  element.onblur = hideTip;
  element.onkeydown = (event) => {
    if (!plot) return;
    const [times, { min, max }, place] = [plot.data[0], plot.scales.x, plot.cursor.idx];
    const [first, last] = [times.findIndex((moment) => moment >= min), times.findLastIndex((moment) => moment <= max)];
    const next = { ArrowRight: (place ?? first - 1) + 1, ArrowLeft: (place ?? last + 1) - 1, Home: first, End: last }[event.key];
    if (next === undefined || first < 0) return;
    event.preventDefault();
    spoken = true;
    plot.setCursor({ left: plot.valToPos(times[Math.min(Math.max(next, first), last)], "x"), top: 1 });
    spoken = false;
  };
  element.view = view;
  new ResizeObserver(() => { if (plot && element.clientWidth) plot.setSize({ width: element.clientWidth, height }); else element.paint(); }).observe(element);
  return element;
}

const parts = ({ areas = { times: [], series: [] }, lines = [] }) => ({ times: areas.times, series: areas.series, lines });

function named(view) {
  const { series, lines } = parts(view);
  return JSON.stringify([...series, ...lines].map((each) => [each.name, each.fill ?? each.stroke]));
}

// The times of all areas and lines, the areas' values each on top of those before, and each line's values twice: for its edge too.
function columns(view) {
  const { times, series, lines } = parts(view);
  let below = times.map(() => 0);
  const stacked = series.map(({ values }) => (below = below.map((sum, place) => sum + values[place])));
  const curves = lines.map(({ points }) => [points.map(([moment]) => moment), points.map(([, amount]) => amount)]);
  return uPlot.join([[times, ...stacked], ...curves.flatMap((curve) => [curve, curve])]);
}

function reading(view, data, place) {
  const { series, lines } = parts(view);
  const amounts = data.slice(1).map((column) => column[place]);
  const shown = series.map(({ name }, number) => [name, amounts[number] - (number ? amounts[number - 1] : 0)])
    .concat(lines.map(({ name }, number) => [name, amounts[series.length + 2 * number]]));
  const texts = shown.filter(([name, amount]) => name && Number.isFinite(amount)).map(([name, amount]) => `${name}: ${view.value(amount)}`);
  return [view.time(data[0][place], data[0].at(-1) - data[0][0]), ...texts].join("\n");
}

// A line has an edge in the colour of the card, so that it is seen on areas of its own colour.
function options(element, read, height) {
  const { series, lines } = parts(element.view);
  const points = { show: false }, paths = uPlot.paths.stepped({ align: 1 }); // an amount lasts until the next one
  const paint = { stroke: () => style("--dim"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const edges = (line) => [[() => style("--card"), 4], [line.stroke, 2]].map(([stroke, width]) => ({ stroke, width, dash: line.dash ?? [], points, paths }));
  return {
    width: element.clientWidth, height, legend: { show: false }, padding: [8, 2, 0, 0],
    series: [{}, ...series.map(({ fill }) => ({ fill, points, paths, alpha: 0.8, width: 0 })), ...lines.flatMap(edges)],
    bands: series.slice(1).map((_, place) => ({ series: [place + 2, place + 1] })),
    cursor: { y: false, points, drag: { x: true, y: false } },
    scales: { x: { time: element.view.time === clock, ...(element.view.end ? { range: whole(element) } : {}) }, y: { range: (_, __, most) => [0, element.view.top || above(most || 1, element.view)] } },
    axes: [
      { ...paint, grid: { show: false }, size: 24, space: 130, ...(element.view.time === clock ? {} : { incrs: ELAPSED }), values: (plot, moments) => moments.map((moment) => tick(plot, moment, element.view.time)) },
      { ...paint, grid: { stroke: () => style("--line"), width: 1 }, splits: (plot) => [0, plot.scales.y.max / 2, plot.scales.y.max],
        values: (_, amounts) => amounts.map(element.view.value), size: (_, texts) => 16 + 6.4 * Math.max(0, ...(texts ?? []).map((text) => text.length)) },
    ],
    hooks: { setCursor: [read], draw: [(plot) => marks(plot, element.view.marks ?? [])] },
  };
}

// The end of an axis: 1, 2, 4, 6 or 8 times a power of ten that is not below a value, so that its half is a round number too.
// With `binary` that is of Ki, Mi and so on; `least` is the least end.
function above(value, { binary = false, least = 0 }) {
  const prefix = binary ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
  const power = prefix * 10 ** Math.floor(Math.log10(value / prefix));
  return Math.max(least, [1, 2, 4, 6, 8, 10].map((step) => step * power).find((each) => each >= value * (1 - 1e-9)));
}

// The text of a moment on the time axis; none so near to the right edge that it would be cut.
function tick({ scales: { x }, width }, moment, time) {
  const period = x.max - x.min;
  return ((x.max - moment) / period) * width < 36 ? "" : time(moment, period);
}

// The range of a time axis that is as long as that of other charts; a period that was enlarged is shown as it is.
const whole = (element) => (plot, first, last) => [first, last === plot.data[0].at(-1) ? Math.max(last, element.view.end) : last];

function marks({ ctx, bbox, scales, valToPos }, moments) {
  ctx.fillStyle = style("--error");
  for (const moment of moments)
    if (moment >= scales.x.min && moment <= scales.x.max) ctx.fillRect(Math.round(valToPos(moment, "x", true)), bbox.top, devicePixelRatio || 1, bbox.height);
}

// Strips over time: rows of { head, label, strips: [{ from, until, kind, fill, title }] }; `kind` is a CSS class.
export function gantt(rows, { begin, end, time, dense = false }) {
  const length = Math.max(1e-9, end - begin);
  const lanes = rows.map(({ head = null, label, strips }) => [
    dense ? null : h("div", { class: "head" }, head),
    h("div", { class: "lane", role: "img", "aria-label": label }, strips.map(({ from, until, kind, fill, title }) => h("i", {
      class: kind, title, style: { left: `${(100 * (from - begin)) / length}%`, width: `${Math.max((100 * (until - from)) / length, 0.2)}%`, ...(fill ? { background: fill } : {}) },
    }))),
  ]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", {}, time(begin + part * (end - begin), end - begin)));
  return h("div", { class: dense ? "gantt dense" : "gantt" }, lanes, dense ? null : h("span"), h("div", { class: "ticks" }, ticks));
}

// A bar of overlapping parts [part of the whole, CSS class, colour], the last one on top, with a mark at `limit`.
export function meter(label, parts, limit = null) {
  const percent = (part) => `${100 * Math.min(1, Math.max(0, part))}%`;
  return h("div", { class: "bar", role: "img", "aria-label": label, title: label },
    parts.map(([part, kind, fill]) => h("i", { class: kind, style: { width: percent(part), ...(fill ? { background: fill } : {}) } })),
    limit === null ? null : h("i", { class: "limit", style: { left: `calc(${percent(limit)} - 2px)` } }));
}

// Texts with the colours of what they stand for; `dashed` for lines.
export function legend(entries) {
  return h("div", { class: "legend" }, entries.map(([text, fill, dashed = false]) =>
    h("span", {}, h("b", dashed ? { class: "dashed", style: { "border-color": fill } } : { style: { background: fill } }), text)));
}

// The time of day in seconds since 1970; with the day where the time shown is long.
export function clock(seconds, span = 0) {
  const moment = new Date(seconds * 1000);
  return span > 12 * 3600 ? moment.toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : moment.toLocaleTimeString();
}
