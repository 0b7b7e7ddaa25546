import { get, theSession } from "./api.js";
import { clock, legend, timeline } from "./charts.js";
import { amount, card, distinct, fill, h, nothing, table } from "./dom.js";
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
    if ([...select.options].map((option) => option.value).join() !== data.resources.join())
      select.replaceChildren(...data.resources.map((name) => h("option", { value: name }, name)));
    select.value = chosen;
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
      card("Allocated over time", history(period ? kept.data : data.history, leaves, decisions.decisions)));
  }
  return { element, refresh };
}

function row(queue, depth, amounts, resource, scale) {
  const borrowed = amounts.fairShare ? Math.max(0, amounts.allocated - amounts.fairShare) : 0;
  return [queueLink(queue, depth), queueBar(queue.name, amounts, resource, scale),
    ...[amounts.allocated, amounts.fairShare || null, borrowed || null, amounts.capability, amounts.waiting || null].map((units) => amount(resource, units)),
    queue.stopPolicy === "None" ? queue.state : `${queue.state}, ${queue.stopPolicy}`];
}

// The allocation of the leaf queues that have had any, with their limits while few enough lines are drawn to be told apart.
function history(data, leaves, decisions) {
  const { times, resource } = data;
  const named = leaves.filter((name) => data.queues[name]?.allocated.some((units) => units));
  if (times.length < 2) return h("p", { class: "empty" }, "recording: the chart appears after a few seconds");
  if (!named.length) return h("p", { class: "empty" }, `no ${resource} was allocated in this time`);
  const queues = named.map((name, place) => ({ name, fill: distinct(place), ...data.queues[name] }));
  const points = (values) => values.map((each, place) => [times[place], each]);
  const lines = queues.length > 6 ? [] : queues.flatMap(({ name, fill: stroke, fairShare, capability }) => [
    { name: `${name}, fair share`, points: points(fairShare), stroke, dash: [6, 4] },
    ...(capability.some((each) => each !== null) ? [{ name: `${name}, capability`, points: points(capability), stroke, dash: [2, 4] }] : []),
  ]);
  const whole = data.queues.root?.fairShare;
  if (whole) lines.push({ name: "the whole cluster", points: points(whole), stroke: "gray", dash: [6, 4] });
  const marks = decisions.filter((each) => each.action === "evicted").map((each) => Date.parse(each.time) / 1000);
  const areas = { times, series: queues.map(({ name, fill: colour, allocated }) => ({ name, values: allocated, fill: colour })) };
  return [
    timeline({ areas, lines, marks, value: (units) => amount(resource, Math.round(units)), time: clock }, `allocated ${resource} of ${named.join(", ")} over time`),
    legend([...queues.map(({ name, fill: colour }) => [name, colour]), ...(marks.length ? [["eviction", "var(--error)"]] : [])]),
    h("p", { class: "dim" }, "Stacked areas: allocated. Lines, each from 0: dashed, the fair share of a queue, in grey the whole cluster; dotted, capability. Vertical lines: evictions."),
  ];
}
