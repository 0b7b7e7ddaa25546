// The page of one queue: amounts and limits, over time, users, and its jobs in their order.

import { get } from "./api.js";
import { card, fill, h, nothing, setOptions, table } from "./dom.js";
import { jobTable } from "./jobs.js";
import { chartLegend, evictionsOf, queueChart, queuePageLink } from "./queues.js";

export function queue(name) {
  let resource = "";
  const select = h("select", { onchange: () => { resource = select.value; refresh(); } });
  const content = h("div", {}, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, `Queue ${name}`), h("div", { class: "tools" }, h("label", {}, "Resource", select)), content);

  async function refresh() {
    const [data, { decisions }] = await Promise.all([get(`/api/queue?${new URLSearchParams({ name, resource })}`), get("/api/decisions")]);
    setOptions(select, data.resources, data.resource);
    const marks = evictionsOf(decisions);
    fill(content,
      h("div", { class: "grid" },
        card("Amounts", h("p", { class: "dim" }, `${data.state}, weight ${data.weight}`, data.parent ? [", in ", queuePageLink(data.parent)] : null),
          table(["RESOURCE", ...["ALLOCATED", "FAIR SHARE", "WAITING", "CAPABILITY", "GUARANTEE"].map((title) => ({ title, kind: "number" }))],
            data.limits.map((each) => [each.resource, each.allocated || "0", ...[each.fairShare, each.waiting, each.capability, each.guarantee].map((text) => text || "-")]))),
        card(`Users${data.where}`, data.users.length ? table([{ title: "USER", kind: "name" }, ...["WAITING JOBS", "RUNNING JOBS", "RUNNING PODS"].map((title) => ({ title, kind: "number" }))], data.users)
          : nothing(data, ["batchjobs"], "no job waits or runs"))),
      card(`${data.resource} over time`, data.history.times.length > 1 && data.history.queues[name]
        ? [queueChart(data.history, name, { marks }), chartLegend([data.history.queues[name]], marks)] : h("p", { class: "empty" }, "recording: the chart appears after a few seconds")),
      card(`Jobs${data.where}`, data.jobs.total ? jobTable(data.jobs, ["NAMESPACE", "NAME", "PHASE", "PROGRESS", "AGE", "RUN TIME", "USER", "POSITION", "ESTIMATED START", "REASON"])
        : nothing(data, ["batchjobs"], "no jobs"),
        data.jobs.pages > 1 ? h("p", {}, h("a", { href: `#/jobs?queue=${encodeURIComponent(name)}` }, `all ${data.jobs.total} jobs`)) : null));
  }

  return { element, refresh };
}
