import { get } from "./api.js";
import { bars } from "./charts.js";
import { ago, card, h, jobLink, table } from "./dom.js";

export function decisions() {
  let action = "";
  const select = h("select", { onchange: () => { action = select.value; refresh(); } },
    [["", "all"], "admitted", "placed", "nominated", "evicted", "waits"].map((each) => {
      const [value, text] = Array.isArray(each) ? each : [each, each];
      return h("option", { value }, text);
    }));
  const content = h("div");
  const element = h("div", {}, h("h1", {}, "Decisions"), h("div", { class: "tools" }, h("label", {}, "Show", select)), content);
  async function refresh() {
    const data = await get("/api/decisions");
    const rows = data.decisions.filter((each) => !action || each.action === action);
    content.replaceChildren(
      card("Pods placed per minute", bars(data.perMinute.placed, "pods placed per minute")),
      card("Latest", table(["AGE", "DECISION", "JOB", "PODS", "NODES", "DETAILS"],
        rows.map((each) => [ago(each.time), each.action, jobLink(each.job), each.pods || "-", each.nodes.join(", ") || "-", each.message]),
        { empty: "no decision since this page's server started" })));
  }
  return { element, refresh };
}
