import { get } from "./api.js";
import { amount, card, fill, h, nothing, percent } from "./dom.js";
import { bars, legend } from "./charts.js";

export function overview() {
  const element = h("div", {}, h("p", { class: "empty" }, "Loading"));
  async function refresh() {
    const data = await get("/api/overview");
    fill(element,
      h("h1", {}, "Overview"),
      data.alerts.length
        ? h("ul", { class: "card", role: "list", "aria-label": "Attention" }, data.alerts.map((alert) => h("li", { class: alert.severity }, alert.message)))
        : null,
      h("div", { class: "grid halves" },
        card("Cluster", figures(data), data.resources.length ? resources(data.resources) : nothing(data, ["nodes"], "no nodes")),
        card("Waiting jobs by reason", waiting(data)),
        card(`Queues, ${data.queues.resource}`, tree(data.queues)),
        card("Decisions per minute, last 30 minutes", decisions(data.decisions))));
  }
  return { element, refresh };
}

function figures(data) {
  const phases = Object.entries(data.jobs).sort();
  const count = (plural, number) => (data.unknown.includes(plural) ? "?" : number);
  return h("p", {}, h("a", { href: "#/nodes" }, `${count("nodes", data.nodes)} nodes`), `, ${count("pods", data.pods)} pods, `,
    h("a", { href: "#/jobs" }, `${count("batchjobs", phases.reduce((sum, [, jobs]) => sum + jobs, 0))} jobs`),
    phases.length ? ": " : "", phases.map(([phase, count], place) => [place ? ", " : "", `${count} ${phase}`]));
}

function resources(rows) {
  return h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map((row) => h("tr", {},
    h("td", { class: "name" }, row.name),
    h("td", { class: "fill" }, bar(row.allocated, 0, null, row.allocatable, `${row.name}: ${row.allocatedText} of ${row.allocatableText} allocated`)),
    h("td", { class: "number" }, `${amount(row.name, row.allocated)} / ${amount(row.name, row.allocatable)}`),
    h("td", { class: "number" }, percent(row.allocated, row.allocatable)))))));
}

// A bar: the allocated amount up to the fair share, what is borrowed beyond it, the fair share, a mark at the limit, the scale.
export function bar(allocated, share, limit, scale, label) {
  const own = share ? Math.min(allocated, share) : allocated;
  const width = (value) => ({ width: `${scale ? Math.min(100, (100 * value) / scale) : 0}%` });
  return h("div", { class: "bar", role: "img", "aria-label": label, title: label },
    share ? h("i", { class: "share", style: width(share) }) : null,
    allocated > own ? h("i", { class: "borrowed", style: width(allocated) }) : null,
    h("i", { class: "own", style: width(own) }),
    limit ? h("i", { class: "limit", style: { left: `calc(${scale ? Math.min(100, (100 * limit) / scale) : 0}% - 2px)` } }) : null);
}

function waiting(data) {
  const rows = data.waiting;
  if (!rows.length) return nothing(data, ["podgroups"], "no job waits");
  return h("ul", { class: "reasons" }, rows.map((row) => h("li", {}, h("span", { class: "chip" }, String(row.count)), h("b", {}, row.gate), h("span", { class: "dim" }, row.example))));
}

function tree(data) {
  const { tree: { queues }, amounts, resource } = data;
  const rows = [];
  const scale = scaleOf(amounts);
  const walk = (queue, depth) => {
    const { allocated, fairShare } = amounts[queue.name];
    rows.push(h("tr", {},
      h("td", { class: "name", style: { "padding-left": `${depth * 16}px` } }, h("a", { href: `#/jobs?queue=${encodeURIComponent(queue.name)}` }, queue.name), queue.state === "Open" ? null : h("span", { class: "dim" }, ` ${queue.state}`)),
      h("td", { class: "fill" }, queueBar(queue.name, amounts[queue.name], resource, scale)),
      h("td", { class: "number" }, fairShare ? `${amount(resource, allocated)} / ${amount(resource, fairShare)}` : amount(resource, allocated))));
    for (const child of queue.children ?? []) walk(child, depth + 1);
  };
  queues.forEach((queue) => walk(queue, 0));
  if (!rows.length) return nothing(data, ["queues"], "no queues");
  const headings = ["QUEUE", "", "ALLOCATED / FAIR SHARE"].map((text, place) => h("th", { scope: "col", class: place ? "number" : null }, text));
  return [h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, headings)), h("tbody", {}, rows))), QUEUE_LEGEND()];
}

export const QUEUE_LEGEND = () => legend([["allocated", "var(--own)"], ["borrowed", "var(--borrowed)"], ["fair share", "var(--share)"], ["capability", "var(--text)"]]);

// The amount that is as long as a whole bar.
export function scaleOf(amounts) {
  return Math.max(1, ...Object.values(amounts).map((each) => Math.max(each.allocated, each.fairShare, each.capability ?? 0)));
}

export function queueBar(name, { allocated, fairShare, capability }, resource, scale) {
  const limit = capability === null ? "" : `, capability ${amount(resource, capability)}`;
  return bar(allocated, fairShare, capability, scale, `${name}: ${amount(resource, allocated)} allocated, fair share ${amount(resource, fairShare)}${limit}`);
}

function decisions(perMinute) {
  const names = { admitted: "admitted jobs", placed: "placed pods", evicted: "evicted pods" };
  return Object.entries(perMinute).map(([action, counts]) =>
    h("div", {}, h("span", { class: "dim" }, `${names[action]}: ${counts.reduce((sum, count) => sum + count, 0)}`), bars(counts, `${names[action]} per minute`)));
}
