// Charts of the pages and of the report of a simulation. Canvases are drawn at the resolution of the screen.

import { h, hideTip, say, showTip } from "./dom.js";

const HEIGHT = 240;
const LABEL = 13;

export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const element of document.querySelectorAll("canvas")) element.paint?.();
});

// A canvas that draws itself when it is laid out, and again when its width or what it shows changes. `view` is
// { label, height, draw(context, width, height), readings }; `readings` are { at(width), text } for the pointer and the arrow keys.
function canvas(view) {
  const readings = view.readings ?? [];
  const element = h("canvas", { role: readings.length ? "application" : "img", tabindex: readings.length ? 0 : null });
  let chosen = -1;
  element.paint = () => {
    const width = element.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(element.view.height * scale);
    const context = element.getContext("2d");
    context.scale(scale, scale);
    context.font = "11px system-ui, sans-serif";
    element.view.draw(context, width, element.view.height);
  };
  element.adopt = ({ view: next }) => {
    element.view = next;
    element.setAttribute("aria-label", next.label + (next.readings?.length ? ". Arrow keys read values." : ""));
    element.style.height = `${next.height}px`;
    element.paint();
  };
  element.onmousemove = (event) => {
    const near = nearest(element.view.readings ?? [], event.clientX - element.getBoundingClientRect().left, element.clientWidth);
    if (near) showTip(event, near.text);
  };
  element.onmouseleave = element.onblur = hideTip;
  element.onkeydown = (event) => {
    const known = element.view.readings ?? [];
    const next = { ArrowRight: chosen + 1, ArrowLeft: chosen < 0 ? known.length - 1 : chosen - 1, Home: 0, End: known.length - 1 }[event.key];
    if (next === undefined || !known.length) return;
    event.preventDefault();
    chosen = Math.min(Math.max(next, 0), known.length - 1);
    const box = element.getBoundingClientRect();
    showTip({ clientX: box.left + known[chosen].at(element.clientWidth), clientY: box.top + 20 }, known[chosen].text);
    say(known[chosen].text);
  };
  element.adopt({ view });
  new ResizeObserver(element.paint).observe(element);
  return element;
}

function nearest(readings, x, width) {
  let best = null;
  for (const each of readings) if (!best || Math.abs(each.at(width) - x) < Math.abs(best.at(width) - x)) best = each;
  return best;
}

// Counts in equal periods up to now, the last one at the right.
export function bars(counts, label, begin) {
  const most = Math.max(1, ...counts);
  const left = 30;
  return canvas({
    label: `${label}: ${counts.join(", ")}`,
    height: 66,
    draw(context, width, height) {
      const base = height - LABEL - 6;
      const step = (width - left) / counts.length;
      context.fillStyle = style("--line");
      context.fillRect(left, base, width - left, 1);
      context.fillStyle = style("--own");
      counts.forEach((count, place) => {
        const size = (count / most) * (base - 4);
        context.fillRect(left + place * step, base - size, Math.max(1, step - 2), size);
      });
      context.fillStyle = style("--dim");
      right(context, String(most), left - 5, 11);
      right(context, "0", left - 5, base);
      context.fillText(begin, left, height - 5);
      right(context, "now", width, height - 5);
    },
  });
}

function right(context, text, x, y) {
  context.fillText(text, x - context.measureText(text).width, y);
}

// Stacked areas and lines over time, and marks as vertical lines. Areas are { times, series: [{ name, values, fill }] }, lines
// { name, points: [[time, value]], stroke, dash }; a value that is null interrupts a line. `value` and `time` make texts.
export function timeline({ areas = { times: [], series: [] }, lines = [], marks = [], top = 0, value, time }, label) {
  const { times, series } = areas;
  const moments = [...new Set([...times, ...lines.flatMap(({ points }) => points.map(([moment]) => moment))])].sort((a, b) => a - b);
  const [begin, end] = [moments[0] ?? 0, moments.at(-1) ?? 0];
  const totals = times.map((_, place) => series.reduce((sum, each) => sum + each.values[place], 0));
  let most = 0;
  for (const total of totals) most = Math.max(most, total);
  for (const { points } of lines) for (const [, amount] of points) most = Math.max(most, amount ?? 0);
  top ||= most || 1;
  const ticks = [0, 0.5, 1].map((part) => [top * part, value(top * part)]);
  const left = 8 + 6.4 * Math.max(...ticks.map(([, text]) => text.length));
  const across = (moment, width) => left + (end > begin ? (moment - begin) / (end - begin) : 0) * (width - left - 2);
  const base = HEIGHT - LABEL - 8;
  const up = (amount) => 6 + (1 - Math.min(amount, top) / top) * (base - 6);
  return canvas({
    label,
    height: HEIGHT,
    readings: moments.map((moment) => ({
      at: (width) => across(moment, width),
      get text() { return reading(moment, { areas, lines, value, text: time(moment, end - begin) }); },
    })),
    draw(context, width) {
      frame(context, { ticks, left, width, up });
      timeAxis(context, { begin, end, left, width, text: (moment) => time(moment, end - begin) });
      const x = (moment) => across(moment, width);
      drawAreas(context, areas, x, up);
      for (const moment of marks) if (moment >= begin && moment <= end) vertical(context, x(moment), base);
      for (const line of lines) drawLine(context, line, x, up);
    },
  });
}

function reading(moment, { areas, lines, value, text }) {
  const place = areas.times.indexOf(moment);
  const parts = place < 0 ? [] : areas.series.map((each) => `${each.name}: ${value(each.values[place])}`);
  for (const { name, points } of lines) {
    const point = name && points.find(([at]) => at === moment);
    if (point && point[1] !== null) parts.push(`${name}: ${value(point[1])}`);
  }
  return [text, ...parts].join("\n");
}

function frame(context, { ticks, left, width, up }) {
  context.fillStyle = style("--dim");
  context.strokeStyle = style("--line");
  for (const [amount, text] of ticks) {
    right(context, text, left - 6, up(amount) + 4);
    context.beginPath();
    context.moveTo(left, up(amount) + 0.5);
    context.lineTo(width, up(amount) + 0.5);
    context.stroke();
  }
}

function timeAxis(context, { begin, end, left, width, text }) {
  const count = Math.max(1, Math.min(6, Math.floor((width - left) / 130)));
  for (let place = 0; place <= count; place++) {
    const label = text(begin + ((end - begin) * place) / count);
    const at = left + ((width - left) * place) / count - (context.measureText(label).width * place) / count;
    context.fillText(label, at, HEIGHT - 4);
  }
}

function drawAreas(context, { times, series }, x, up) {
  const below = times.map(() => 0);
  for (const each of series) {
    context.beginPath();
    below.forEach((amount, place) => context.lineTo(x(times[place]), up(amount)));
    for (let place = times.length - 1; place >= 0; place--) context.lineTo(x(times[place]), up(below[place] + each.values[place]));
    context.closePath();
    context.fillStyle = each.fill;
    context.globalAlpha = 0.8;
    context.fill();
    context.globalAlpha = 1;
    each.values.forEach((amount, place) => (below[place] += amount));
  }
}

function vertical(context, x, base) {
  context.strokeStyle = style("--error");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, 6);
  context.lineTo(x, base);
  context.stroke();
}

// A line has an edge in the colour of the card, so that it is seen on areas of its own colour.
function drawLine(context, { points, stroke, dash = [] }, x, up) {
  const path = new Path2D();
  let joined = false;
  for (const [moment, amount] of points) {
    if (amount === null) joined = false;
    else {
      if (joined) path.lineTo(x(moment), up(amount));
      else path.moveTo(x(moment), up(amount));
      joined = true;
    }
  }
  for (const [colour, width] of [[style("--card"), 4], [stroke, 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke(path);
  }
  context.setLineDash([]);
  context.lineWidth = 1;
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
