import { get, theSession } from "./api.js";
import { clock, legend, style, timeline } from "./charts.js";
import { amount, card, fill, h, isBinary, nothing, setOptions, table } from "./dom.js";
import { QUEUE_LEGEND, queueBar, queueLink, scaleOf } from "./overview.js";

export function queues() {
  let resource = "", period = "", kept = null;
  const select = h("select", { onchange: () => { resource = select.value; refresh(); } });
  const periods = h("select", { onchange: () => { period = periods.value; kept = null; refresh(); } });
  const spans = h("label", { hidden: true }, "Period", periods);
  theSession().then((session) => {
    spans.hidden = !session.periods.length;
    periods.replaceChildren(...[["", "30m"], ...session.periods.map((each) => [each, each])].map(([value, text]) => h("option", { value }, text)));
  }).catch(() => {});
  const content = h("div", {}, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, "Queues"), h("div", { class: "tools" }, h("label", {}, "Resource", select), spans), content);
  async function refresh() {
    const data = await get(`/api/queues?resource=${encodeURIComponent(resource)}`);
    const chosen = data.history.resource;
    setOptions(select, data.resources, chosen);
    const [decisions, rows] = [await get("/api/decisions"), []];
    if (period && (kept?.key !== `${period} ${chosen}` || Date.now() - kept.time > 60000))
      kept = { key: `${period} ${chosen}`, time: Date.now(), data: await get(`/api/queues/history?period=${period}&resource=${encodeURIComponent(chosen)}`) };
    const scale = scaleOf(data.amounts);
    const leaves = [];
    const walk = (queue, depth) => {
      rows.push(row(queue, depth, data.amounts[queue.name], chosen, scale));
      if (!queue.children?.length) leaves.push(queue.name);
      for (const child of queue.children ?? []) walk(child, depth + 1);
    };
    data.tree.queues.forEach((queue) => walk(queue, 0));
    fill(content,
      h("div", { class: "card" },
        rows.length ? table([{ title: "QUEUE", kind: "name" }, { title: chosen.toUpperCase(), kind: "fill" }, ...["ALLOCATED", "FAIR SHARE", "BORROWED", "CAPABILITY", "WAITING"].map((title) => ({ title, kind: "number" })), "STATE"], rows)
          : nothing(data, ["queues"], "no queues"),
        QUEUE_LEGEND()),
      card("Over time", history(period ? kept.data : data.history, leaves, decisions.decisions)));
  }
  return { element, refresh };
}

function row(queue, depth, amounts, resource, scale) {
  const borrowed = amounts.fairShare ? Math.max(0, amounts.allocated - amounts.fairShare) : 0;
  return [queueLink(queue, depth), queueBar(queue.name, amounts, resource, scale),
    ...[amounts.allocated, amounts.fairShare || null, borrowed || null, amounts.capability, amounts.waiting || null].map((units) => amount(resource, units)),
    queue.stopPolicy === "None" ? queue.state : `${queue.state}, ${queue.stopPolicy}`];
}

// One chart for each leaf queue that has or waits for anything, each with its own scale.
function history(data, leaves, decisions) {
  const { times, resource } = data;
  const named = leaves.filter((name) => inUse(data.queues[name]));
  const marks = evictionsOf(decisions);
  if (times.length < 2) return h("p", { class: "empty" }, "recording: the chart appears after a few seconds");
  if (!named.length) return h("p", { class: "empty" }, `no ${resource} was allocated in this time`);
  return [h("div", { class: "small" }, named.map((name) => h("div", {}, h("h3", {}, queuePageLink(name), h("span", { class: "dim" }, ` ${latest(data, name)}`)), queueChart(data, name, { height: 130, marks })))), chartLegend(named.map((name) => data.queues[name]), marks)];
}

// The amounts at the end of the chart.
function latest({ resource, queues }, name) {
  const { allocated, fairShare, waiting = [] } = queues[name];
  const parts = [`${amount(resource, allocated.at(-1))} of ${amount(resource, fairShare.at(-1))}`];
  if (waiting.at(-1)) parts.push(`${amount(resource, waiting.at(-1))} waiting`);
  return parts.join(", ");
}

const isLimited = ({ capability }) => capability.some((each) => each !== null);

const inUse = (series) => series && [...series.allocated, ...(series.waiting ?? [])].some((units) => units);

export const evictionsOf = (decisions) => decisions.filter((each) => each.action === "evicted").map((each) => Date.parse(each.time) / 1000);

export const queuePageLink = (name) => h("a", { href: `#/queues/${encodeURIComponent(name)}` }, name);

// What is allocated as an area, with what waits on top of it, and the fair share and capability as lines.
export function queueChart(data, name, { height = 240, marks = [] } = {}) {
  const { times, resource } = data;
  const { allocated, fairShare, capability, waiting = [] } = data.queues[name];
  const points = (values) => values.map((each, place) => [times[place], each]);
  const lines = [{ name: "fair share", points: points(fairShare), stroke: style("--share"), dash: [6, 4] }];
  if (isLimited(data.queues[name])) lines.push({ name: "capability", points: points(capability), stroke: style("--text"), dash: [2, 4] });
  const areas = { times, series: [{ name: "allocated", values: allocated, fill: style("--own") }, ...(waiting.length ? [{ name: "waiting", values: waiting, fill: style("--waits") }] : [])] };
  return timeline({ areas, lines, marks, binary: isBinary(resource), least: 2, value: (units) => amount(resource, Math.round(units)), time: clock }, `${resource} of queue ${name} over time`, height);
}

export const chartLegend = (charts, marks) => legend([["allocated", "var(--own)"], ["waiting, on top of what is allocated", "var(--waits)"], ["fair share", "var(--share)", true], ...(charts.some(isLimited) ? [["capability", "var(--text)", true]] : []), ...(marks.length ? [["eviction", "var(--error)"]] : [])]);
