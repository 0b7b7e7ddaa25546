import { get, theSession } from "./api.js";
import { amount, card, distinct, fill, h, nothing } from "./dom.js";
import { QUEUE_LEGEND, queueBar, scaleOf } from "./overview.js";
import { legend, stacked } from "./charts.js";

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
        rows.length ? h("div", { class: "scroll" }, h("table", {},
          h("thead", {}, h("tr", {}, ["QUEUE", chosen.toUpperCase(), "ALLOCATED", "FAIR SHARE", "BORROWED", "CAPABILITY", "WAITING", "STATE"].map((text, place) => h("th", { scope: "col", class: place > 1 && place < 7 ? "number" : null }, text)))),
          h("tbody", {}, rows))) : nothing(data, ["queues"], "no queues"),
        QUEUE_LEGEND()),
      card("Allocated over time", history(period ? kept.data : data.history, leaves, decisions.decisions)));
  }
  return { element, refresh };
}

function row(queue, depth, amounts, resource, scale) {
  const borrowed = amounts.fairShare ? Math.max(0, amounts.allocated - amounts.fairShare) : 0;
  return h("tr", {},
    h("td", { class: "name", style: { "padding-left": `${depth * 16}px` } }, h("a", { href: `#/jobs?queue=${encodeURIComponent(queue.name)}` }, queue.name)),
    h("td", { class: "fill" }, queueBar(queue.name, amounts, resource, scale)),
    [amounts.allocated, amounts.fairShare || null, borrowed || null, amounts.capability, amounts.waiting || null].map((units) => h("td", { class: "number" }, amount(resource, units))),
    h("td", {}, queue.stopPolicy === "None" ? queue.state : `${queue.state}, ${queue.stopPolicy}`));
}

function history(data, leaves, decisions) {
  const named = leaves.filter((name) => data.queues[name]);
  if (data.times.length < 2 || !named.length) return h("p", { class: "empty" }, "recording: the chart appears after a few seconds");
  const colours = named.map((_, place) => distinct(place));
  const series = named.map((name, place) => ({ name, values: data.queues[name].allocated, colour: colours[place] }));
  const lines = named.length <= 6 ? named.map((name, place) => ({ values: data.queues[name].fairShare, colour: colours[place] })) : [];
  named.forEach((name, place) => {
    const values = data.queues[name].capability;
    if (named.length <= 6 && values.some((each) => each !== null)) lines.push({ values, colour: colours[place], dash: [1, 3] });
  });
  const limit = data.queues.root?.fairShare;
  if (limit) lines.push({ values: limit, colour: "gray" });
  const marks = decisions.filter((each) => each.action === "evicted").map((each) => Date.parse(each.time) / 1000);
  return [
    stacked({ times: data.times, series, lines, resource: data.resource, marks }, `allocated ${data.resource} of ${named.join(", ")} over time`),
    legend(named.map((name, place) => [name, colours[place]])),
    h("p", { class: "dim" }, "Areas: allocated. Dashed lines: fair shares, and in grey the whole cluster. Dotted lines: capability. Red lines: evictions."),
  ];
}
