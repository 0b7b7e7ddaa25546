import { get } from "./api.js";
import { amount, card, fill, h, percent } from "./dom.js";
import { bars } from "./charts.js";

export function overview() {
  const element = h("div", {}, h("p", { class: "empty" }, "Loading"));
  async function refresh() {
    const data = await get("/api/overview");
    fill(element,
      h("h1", {}, "Overview"),
      data.alerts.length
        ? h("ul", { class: "card", role: "list", "aria-label": "Attention" }, data.alerts.map((alert) => h("li", { class: alert.severity }, alert.message)))
        : null,
      h("div", { class: "grid" },
        card("Cluster", figures(data), data.resources.length ? resources(data.resources) : h("p", { class: "empty" }, "no nodes")),
        card("Waiting jobs by reason", waiting(data.waiting)),
        card("Queues", tree(data.queues.queues)),
        card("Decisions per minute, last 30 minutes", decisions(data.decisions))));
  }
  return { element, refresh };
}

function figures(data) {
  const phases = Object.entries(data.jobs).sort();
  return h("p", {}, h("a", { href: "#/nodes" }, `${data.nodes} nodes`), `, ${data.pods} pods, `,
    h("a", { href: "#/jobs" }, `${phases.reduce((sum, [, count]) => sum + count, 0)} jobs`),
    phases.length ? ": " : "", phases.map(([phase, count], place) => [place ? ", " : "", `${count} ${phase}`]));
}

function resources(rows) {
  return h("table", {}, h("tbody", {}, rows.map((row) => h("tr", {},
    h("td", { class: "name" }, row.name),
    h("td", {}, bar(row.allocated, 0, 0, row.allocatable, `${row.name}: ${row.allocatedText} of ${row.allocatableText} allocated`)),
    h("td", { class: "number" }, `${amount(row.name, row.allocated)} / ${amount(row.name, row.allocatable)}`),
    h("td", { class: "number" }, percent(row.allocated, row.allocatable))))));
}

// A bar: the allocated amount up to the fair share, what is borrowed beyond it, the fair share, the scale.
export function bar(allocated, share, _limit, scale, label) {
  const own = share ? Math.min(allocated, share) : allocated;
  const width = (value) => ({ width: `${scale ? Math.min(100, (100 * value) / scale) : 0}%` });
  return h("div", { class: "bar", role: "img", "aria-label": label, title: label },
    share ? h("i", { class: "share", style: width(share) }) : null,
    allocated > own ? h("i", { class: "borrowed", style: width(allocated) }) : null,
    h("i", { class: "own", style: width(own) }));
}

function waiting(rows) {
  if (!rows.length) return h("p", { class: "empty" }, "no job waits");
  return h("ul", { class: "reasons" }, rows.map((row) => h("li", {}, h("span", { class: "chip" }, String(row.count)), h("b", {}, row.gate), h("span", { class: "dim" }, row.example))));
}

function tree(roots) {
  const lines = [];
  const walk = (queue, depth) => {
    lines.push(h("div", { style: { "padding-left": `${depth * 16}px` } },
      h("a", { href: "#/queues" }, queue.name), " ",
      h("span", { class: "dim" }, Object.entries(queue.allocated ?? {}).filter(([name]) => name !== "pods").map(([name, text]) => `${name} ${text}`).join(", ") || "nothing allocated",
        queue.state === "Open" ? "" : `, ${queue.state}`)));
    for (const child of queue.children ?? []) walk(child, depth + 1);
  };
  roots.forEach((queue) => walk(queue, 0));
  return lines.length ? lines : h("p", { class: "empty" }, "no queues");
}

function decisions(perMinute) {
  const names = { admitted: "admitted jobs", placed: "placed pods", evicted: "evicted pods" };
  return Object.entries(perMinute).map(([action, counts]) =>
    h("div", {}, h("span", { class: "dim" }, `${names[action]}: ${counts.reduce((sum, count) => sum + count, 0)}`), bars(counts, `${names[action]} per minute`)));
}
