// Charts on canvases, drawn at the resolution of the screen.

import { amount, h, hideTip, showTip } from "./dom.js";

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A canvas that draws itself when it is laid out, and again when its width changes.
export function canvas(height, label, draw) {
  const element = h("canvas", { role: "img", "aria-label": label, style: { height: `${height}px` } });
  const paint = () => {
    const width = element.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    const context = element.getContext("2d");
    context.scale(scale, scale);
    draw(context, width, height);
  };
  new ResizeObserver(paint).observe(element);
  return element;
}

export function bars(counts, label) {
  const most = Math.max(1, ...counts);
  return canvas(34, `${label}: ${counts.join(", ")}`, (context, width, height) => {
    const step = width / counts.length;
    context.fillStyle = style("--limit");
    context.fillRect(0, height - 1, width, 1);
    context.fillStyle = style("--own");
    counts.forEach((count, place) => {
      const size = (count / most) * (height - 3);
      context.fillRect(place * step, height - 1 - size, Math.max(1, step - 2), size);
    });
  });
}

// Stacked areas over time, one for each series, with a dashed line for each line; marks are vertical lines.
export function stacked({ times, series, lines, resource, marks = [] }, label) {
  const totals = times.map((_, place) => series.reduce((sum, each) => sum + each.values[place], 0));
  const top = Math.max(1, ...totals, ...lines.flatMap((line) => line.values.filter((value) => value !== null)));
  const left = 60, bottom = 18;
  const long = times.length > 1 && times.at(-1) - times[0] > 12 * 3600;
  const told = (seconds) => long ? new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : clock(seconds);
  const height = 240;
  const element = canvas(height, label, (context, width) => {
    const x = (place) => left + (times.length > 1 ? (place / (times.length - 1)) * (width - left - 4) : 0);
    const y = (value) => 4 + (1 - value / top) * (height - bottom - 8);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = style("--dim");
    context.strokeStyle = style("--line");
    for (const part of [0, 0.5, 1]) {
      context.fillText(amount(resource, Math.round(top * part)), 0, y(top * part) + 4);
      context.beginPath();
      context.moveTo(left, y(top * part));
      context.lineTo(width, y(top * part));
      context.stroke();
    }
    const base = times.map(() => 0);
    for (const each of series) {
      context.beginPath();
      base.forEach((value, place) => context.lineTo(x(place), y(value)));
      for (let place = times.length - 1; place >= 0; place--) context.lineTo(x(place), y(base[place] + each.values[place]));
      context.closePath();
      context.fillStyle = each.colour;
      context.globalAlpha = 0.8;
      context.fill();
      context.globalAlpha = 1;
      each.values.forEach((value, place) => (base[place] += value));
    }
    context.strokeStyle = style("--error");
    for (const mark of marks) {
      const place = times.findIndex((time) => time >= mark);
      if (place < 0) continue;
      context.beginPath();
      context.moveTo(x(place), 4);
      context.lineTo(x(place), height - bottom - 4);
      context.stroke();
    }
    for (const line of lines) {
      context.strokeStyle = line.colour;
      context.setLineDash(line.dash ?? [5, 4]);
      context.lineWidth = 1.5;
      context.beginPath();
      line.values.forEach((value, place) => (value === null ? null : context.lineTo(x(place), y(value))));
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
    }
    context.fillStyle = style("--dim");
    if (times.length) {
      context.fillText(told(times[0]), left, height - 4);
      const last = told(times.at(-1));
      context.fillText(last, width - context.measureText(last).width, height - 4);
    }
  });
  element.addEventListener("mousemove", (event) => {
    const box = element.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left - left) / (box.width - left - 4)));
    const place = Math.round(part * (times.length - 1));
    if (!times.length) return;
    showTip(event, [told(times[place]), ...series.map((each) => `${each.name}: ${amount(resource, each.values[place])}`)].join("\n"));
  });
  element.addEventListener("mouseleave", hideTip);
  return element;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

export function legend(entries) {
  return h("div", { class: "legend" }, entries.map(([text, fill]) => h("span", {}, h("b", { style: { background: fill } }), text)));
}
