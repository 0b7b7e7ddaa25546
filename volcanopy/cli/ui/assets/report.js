// Draws the figures of a simulation report, with the charts of the pages. The data is in the element "data".

import { gantt, legend, meter, timeline } from "./charts.js";
import { card, distinct, h } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

// A time since the beginning of the simulation.
function elapsed(seconds) {
  const [unit, size] = UNITS.find(([, length]) => seconds >= 2 * length) ?? ["s", 1];
  return `${number(Math.round((seconds / size) * 10) / 10)} ${unit}`;
}

function number(value) {
  return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : 2 });
}

const KINDS = {
  timeline({ title, lines = [], areas = { times: [], series: [] }, marks, unit, top, end }) {
    const drawn = lines.map((line) => ({ ...line, stroke: distinct(line.colour), dash: line.dashed ? [6, 4] : [] }));
    const filled = { times: areas.times, series: areas.series.map((each) => ({ ...each, fill: distinct(each.colour) })) };
    const view = { lines: drawn, areas: filled, marks, end, top, value: (value) => `${number(value)}${unit}`, time: elapsed };
    const named = areas.series.length ? filled.series.map(({ name, fill }) => [name, fill]) : drawn.map(({ name, stroke, dashed }) => [name, stroke, dashed]);
    return [timeline(view, title), legend(marks?.length ? [...named, ["eviction", "var(--error)"]] : named)];
  },
  classes({ rows, series }) {
    const most = Math.max(1e-9, ...rows.flatMap(({ values }) => values.map(([value]) => value ?? 0)));
    return [
      h("div", { class: "classes" }, rows.map(({ name, values }) => values.map(([value, text], place) => [
        h("span", { class: "dim" }, place ? "" : name), meter(`${name}, ${series[place]}: ${text}`, [[(value ?? 0) / most, null, distinct(place)]]), h("span", {}, text),
      ]))),
      series.length > 1 ? legend(series.map((name, place) => [name, distinct(place)])) : null,
    ];
  },
  gantt({ title, rows, end, queues }) {
    const lanes = rows.map((runs) => ({
      label: runs.map(({ title: text }) => text).join("; "),
      strips: runs.map(({ from, until, colour, title: text }) => ({ from, until, fill: distinct(colour), title: text })),
    }));
    return [gantt(lanes, { begin: 0, end, time: elapsed, dense: true, label: title }), queues.length > 1 ? legend(queues.map(([name, place]) => [name, distinct(place)])) : null];
  },
  text: () => [],
};

function figure(data) {
  const element = card(data.title, KINDS[data.kind](data), data.note ? h("p", { class: "dim" }, data.note) : null);
  if (data.wide) element.classList.add("wide");
  return element;
}

document.getElementById("figures").append(...JSON.parse(document.getElementById("data").textContent).map(figure));
