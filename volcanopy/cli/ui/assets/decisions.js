import { get } from "./api.js";
import { bars } from "./charts.js";
import { ago, card, fill, h, jobLink, table } from "./dom.js";

export function decisions() {
  let action = "";
  const select = h("select", { onchange: () => { action = select.value; refresh(); } },
    [["", "all"], "admitted", "placed", "nominated", "evicted", "waits"].map((each) => {
      const [value, text] = Array.isArray(each) ? each : [each, each];
      return h("option", { value }, text);
    }));
  const content = h("div");
  const element = h("div", {}, h("h1", {}, "Decisions"), h("div", { class: "tools" }, h("label", {}, "Show", select),
    h("a", { class: "action", href: "/api/snapshot", download: "", title: "The cluster as the scheduler sees it. Replay it with: volcanopy plan -f FILE" }, "Download a snapshot")), content);
  async function refresh() {
    const [data, timings] = await Promise.all([get("/api/decisions"), get("/api/timings")]);
    const jobs = new Map(); // a row for each job, with its decisions in it
    for (const each of data.decisions) if (!action || each.action === action) jobs.set(each.job, [...(jobs.get(each.job) ?? []), each]);
    fill(content,
      card("Pods placed per minute", bars(data.perMinute.placed, "pods placed per minute", "30 minutes ago")),
      h("details", { class: "card" }, h("summary", {}, "Time of scheduling cycles"), durations(timings)),
      card("Latest", table(["AGE", { title: "JOB", kind: "name" }, "DECISION", { title: "DETAILS", kind: "text" }],
        [...jobs].map(([job, [last, ...earlier]]) => [ago(last.time), jobLink(job), last.action, [details(last), folded(earlier)]]),
        { empty: "no decision since this page's server started" })));
  }
  return { element, refresh };
}

function details({ pods, nodes, message, ...eviction }) {
  const where = [pods > 1 ? `${pods} pods` : "", nodes.length ? `on ${nodes.join(", ")}` : ""].filter(Boolean).join(" ");
  return [[where, message].filter(Boolean).join(": "), paid(eviction)];
}

// The earlier decisions about a job.
function folded(list) {
  if (!list.length) return null;
  return h("details", {}, h("summary", {}, `${list.length} earlier`), h("ul", {}, list.map((each) => h("li", {}, `${ago(each.time)} ago: ${each.action}${each.pods || each.message ? ", " : ""}`, details(each)))));
}

// Whether the job for which pods were evicted has started since.
function paid({ preemptor, paidAfter }) {
  if (!preemptor) return null;
  return paidAfter === null
    ? h("span", { class: "warning" }, "; no pod of ", jobLink(preemptor), " was placed since")
    : h("span", { class: "dim" }, "; ", jobLink(preemptor), ` was placed ${Math.round(paidAfter)}s later`);
}

// How long each stage, action and plugin took, in the last minutes or since the scheduler's start.
function durations(data) {
  if (data.message) return [h("p", { class: "empty" }, data.message)];
  const period = data.seconds ? `in the last ${data.seconds < 120 ? `${data.seconds} s` : `${Math.round(data.seconds / 60)} minutes`}` : "since the scheduler's start";
  const rows = [["stage", data.stages], ["action", data.actions], ["plugin", data.plugins]].flatMap(([kind, list]) =>
    list.map((each) => [kind, each.name, each.runs, each.mean.toFixed(2), each.sum.toFixed(1)]));
  return [h("p", {}, `Per cycle, ${period}. A plugin's time is that of opening the session.`),
    table(["PART", { title: "NAME", kind: "wide" }, ...["CYCLES", "MEAN (ms)", "TOTAL (ms)"].map((title) => ({ title, kind: "number" }))], rows, { empty: "no cycle yet" })];
}
