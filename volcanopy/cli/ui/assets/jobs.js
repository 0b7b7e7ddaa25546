import { get } from "./api.js";
import { h, jobLink, nothing } from "./dom.js";

export function jobs() {
  const start = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const query = { text: "", queue: start.get("queue") ?? "", phase: start.get("phase") ?? "", sort: "", page: 1 };
  const change = (fields) => { Object.assign(query, { page: 1 }, fields); refresh().catch(fail); };
  const text = h("input", { type: "search", placeholder: "namespace or name", oninput: () => change({ text: text.value }) });
  const queue = h("select", { onchange: () => change({ queue: queue.value }) });
  const phase = h("select", { onchange: () => change({ phase: phase.value }) });
  const content = h("div", { class: "card" }, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, "Jobs"),
    h("div", { class: "tools" }, h("label", {}, "Filter", text), h("label", {}, "Queue", queue), h("label", {}, "Phase", phase)), content);

  function fail(error) {
    content.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }

  let number = 0;
  async function refresh() {
    const mine = ++number;
    const data = await get(`/api/jobs?${new URLSearchParams(query)}`);
    if (mine !== number) return;
    options(queue, "all queues", data.queues, query.queue);
    options(phase, "all phases", data.phases, query.phase);
    if (!data.all) return content.replaceChildren(nothing(data, ["batchjobs"], "There are no jobs. Create one with: volcanopy job run --image busybox -- echo hello"));
    if (!data.total) return content.replaceChildren(h("p", { class: "empty" }, `None of ${data.all} jobs matches.`));
    content.replaceChildren(
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, data.headings.map(heading))),
        h("tbody", {}, data.rows.map((row, place) => h("tr", {}, row.map((cell, column) =>
          h("td", { class: column < 2 ? "name" : null }, data.headings[column] === "NAME" ? [jobLink(data.keys[place], cell, data.apis[place]), kind(data.apis[place])] : cell))))))),
      h("div", { class: "tools" },
        h("button", { class: "action", disabled: data.page <= 1, onclick: () => change({ page: data.page - 1 }) }, "Previous"),
        h("span", {}, `page ${data.page} of ${data.pages}, ${data.total} of ${data.all} jobs`),
        h("button", { class: "action", disabled: data.page >= data.pages, onclick: () => change({ page: data.page + 1 }) }, "Next")));
  }

  function heading(name) {
    const direction = query.sort === name ? "ascending" : query.sort === `-${name}` ? "descending" : "none";
    const mark = { ascending: " ▲", descending: " ▼", none: "" }[direction];
    return h("th", { scope: "col", "aria-sort": direction }, h("button", { onclick: () => change({ sort: direction === "ascending" ? `-${name}` : name }) }, name + mark));
  }

  return { element, refresh };
}

// Jobs of volcanopy's own API have no mark.
function kind(api) {
  return api === "volcanopy" ? null : [" ", h("span", { class: "chip", title: `a job of the API of ${api}` }, api)];
}

function options(select, all, names, chosen) {
  const wanted = ["", ...new Set([...names, ...(chosen ? [chosen] : [])])];
  if ([...select.options].map((option) => option.value).join("\n") === wanted.join("\n")) return;
  select.replaceChildren(...wanted.map((name) => h("option", { value: name }, name || all)));
  select.value = chosen;
}
