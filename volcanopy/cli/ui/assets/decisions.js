import { get, theSession } from "./api.js";
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
  const snapshot = h("a", { class: "action", href: "/api/snapshot", download: "", hidden: true, title: "The cluster as the scheduler sees it. Replay it with: volcanopy plan -f FILE" }, "Download a snapshot");
  theSession().then((session) => { snapshot.hidden = !session.readsCluster; }).catch(() => {});
  const element = h("div", {}, h("h1", {}, "Decisions"), h("div", { class: "tools" }, h("label", {}, "Show", select), snapshot), content);
  async function refresh() {
    const data = await get("/api/decisions");
    const jobs = new Map(); // a row for each job, with its decisions in it
    for (const each of data.decisions) if (!action || each.action === action) jobs.set(each.job, [...(jobs.get(each.job) ?? []), each]);
    fill(content,
      card("Pods placed per minute", bars(data.perMinute.placed, "pods placed per minute", "30 minutes ago")),
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
