import { get } from "./api.js";
import { bars, legend, meter } from "./charts.js";
import { amount, card, counted, fill, h, jobLink, nothing, percent, table } from "./dom.js";

export function overview() {
  const element = h("div", {}, h("p", { class: "empty" }, "Loading"));
  async function refresh() {
    const data = await get("/api/overview");
    fill(element,
      h("h1", {}, "Overview"),
      data.alerts.length
        ? h("ul", { class: "card", role: "list", "aria-label": "Attention" }, data.alerts.map((alert) => h("li", { class: alert.severity }, alert.message)))
        : null,
      h("div", { class: "grid halves quarters" },
        card("Cluster", figures(data), data.resources.length ? resources(data.resources) : nothing(data, ["nodes"], "no nodes")),
        card("Waiting jobs by reason", waiting(data)),
        card(`Queues, ${data.queues.resource}`, tree(data.queues)),
        card("Decisions per minute, last 30 minutes", decisions(data.decisions))));
  }
  return { element, refresh };
}

function figures(data) {
  const phases = Object.entries(data.jobs).sort();
  const count = (plural, number, noun) => (data.unknown.includes(plural) ? `? ${noun}s` : counted(number, noun));
  return h("p", {}, h("a", { href: "#/nodes" }, count("nodes", data.nodes, "node")), `, ${count("pods", data.pods, "pod")}, `,
    h("a", { href: "#/jobs" }, count("batchjobs", phases.reduce((sum, [, jobs]) => sum + jobs, 0), "job")),
    phases.length ? ": " : "", phases.map(([phase, count], place) => [place ? ", " : "", `${count} ${phase}`]));
}

function resources(rows) {
  return table([{ title: "RESOURCE", kind: "name" }, { title: "USE", kind: "fill" }, { title: "ALLOCATED / TOTAL", kind: "number" }, { title: "USED", kind: "number" }], rows.map((row) => [
    row.name,
    meter(`${row.name}: ${row.allocatedText} of ${row.allocatableText} allocated`, [[row.allocatable ? row.allocated / row.allocatable : 0, "own"]]),
    `${amount(row.name, row.allocated)} / ${amount(row.name, row.allocatable)}`,
    percent(row.allocated, row.allocatable),
  ]));
}

function waiting(data) {
  const rows = data.waiting;
  if (!rows.length) return nothing(data, ["podgroups"], "no job waits");
  return h("ul", { class: "reasons" }, rows.map((row) => h("li", {}, h("span", { class: "chip" }, String(row.count)), h("b", {}, row.gate),
    h("span", { class: "dim" }, "such as ", jobLink(row.example.job), `: ${row.example.message}`))));
}

function tree(data) {
  const { tree: { queues }, amounts, resource } = data;
  const rows = [];
  const scale = scaleOf(amounts);
  const walk = (queue, depth) => {
    const { allocated, fairShare } = amounts[queue.name];
    rows.push([[queueLink(queue, depth), queue.state === "Open" ? null : h("span", { class: "dim" }, ` ${queue.state}`)],
      queueBar(queue.name, amounts[queue.name], resource, scale),
      fairShare ? `${amount(resource, allocated)} / ${amount(resource, fairShare)}` : amount(resource, allocated)]);
    for (const child of queue.children ?? []) walk(child, depth + 1);
  };
  queues.forEach((queue) => walk(queue, 0));
  if (!rows.length) return nothing(data, ["queues"], "no queues");
  return [table([{ title: "QUEUE", kind: "name" }, { title: "USE", kind: "fill" }, { title: "ALLOCATED / FAIR SHARE", kind: "number" }], rows), QUEUE_LEGEND()];
}

// A link to the page of a queue, indented by its depth in the tree.
export function queueLink(queue, depth) {
  return h("a", { href: `#/queues/${encodeURIComponent(queue.name)}`, style: { "padding-left": `${depth * 16}px` } }, queue.name);
}

export const QUEUE_LEGEND = () => legend([["allocated", "var(--own)"], ["borrowed", "var(--borrowed)"], ["fair share", "var(--share)"], ["capability", "var(--text)"]]);

// The amount that is as long as a whole bar.
export function scaleOf(amounts) {
  return Math.max(1, ...Object.values(amounts).map((each) => Math.max(each.allocated, each.fairShare, each.capability ?? 0)));
}

export function queueBar(name, { allocated, fairShare, capability }, resource, scale) {
  const limit = capability === null ? "" : `, capability ${amount(resource, capability)}`;
  const own = fairShare ? Math.min(allocated, fairShare) : allocated;
  const parts = [[fairShare / scale, "share"], [allocated > own ? allocated / scale : 0, "borrowed"], [own / scale, "own"]];
  return meter(`${name}: ${amount(resource, allocated)} allocated, fair share ${amount(resource, fairShare)}${limit}`, parts.filter(([part]) => part), capability ? capability / scale : null);
}

function decisions(perMinute) {
  const names = { admitted: "admitted jobs", placed: "placed pods", evicted: "evicted pods" };
  return Object.entries(perMinute).map(([action, counts]) =>
    h("div", {}, h("span", { class: "dim" }, `${names[action]}: ${counts.reduce((sum, count) => sum + count, 0)}`), bars(counts, `${names[action]} per minute`, "30 minutes ago")));
}
