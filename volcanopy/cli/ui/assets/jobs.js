import { get } from "./api.js";
import { meter } from "./charts.js";
import { fill, h, jobLink, nothing, setOptions, table } from "./dom.js";

// Columns whose content must not be broken, and those that are left out where the window is not wide.
const KINDS = { NAME: "name", NAMESPACE: "short", QUEUE: "short", REASON: "text", "ESTIMATED START": "note", MIN: "extra", PROGRESS: "progress", RETRIES: "extra", USER: "note" };

const SHOWN = ["NAMESPACE", "NAME", "PHASE", "PROGRESS", "QUEUE", "USER", "AGE", "RUN TIME", "POSITION", "ESTIMATED START", "MIN", "RETRIES", "REASON"];

export function jobs() {
  const query = { text: "", queue: "", phase: "", sort: "", page: 1, ...Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? "")) };
  const change = (fields) => {
    Object.assign(query, { page: 1 }, fields);
    // The way back from a job, a reload and a copied address show the same jobs.
    history.replaceState(null, "", `#/jobs?${new URLSearchParams(query)}`);
    refresh().catch(fail);
  };
  const text = h("input", { type: "search", placeholder: "namespace or name", value: query.text, oninput: () => change({ text: text.value }) });
  const queue = h("select", { onchange: () => change({ queue: queue.value }) });
  const phase = h("select", { onchange: () => change({ phase: phase.value }) });
  // On phones the table has no headings to click.
  const sort = h("select", { onchange: () => change({ sort: sort.value }) });
  const content = h("div", { class: "card" }, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, "Jobs"),
    h("div", { class: "tools" }, h("label", {}, "Filter", text), h("label", {}, "Queue", queue), h("label", {}, "Phase", phase), h("label", { class: "narrow" }, "Sort by", sort)), content);

  function fail(error) {
    fill(content, h("p", { class: "error", role: "alert" }, error.message));
  }

  let number = 0;
  async function refresh() {
    const mine = ++number;
    const data = await get(`/api/jobs?${new URLSearchParams(query)}`);
    if (mine !== number) return;
    setOptions(queue, data.queues, query.queue, "all queues");
    setOptions(phase, data.phases, query.phase, "all phases");
    setOptions(sort, data.headings, query.sort.replace("-", ""), "waiting first");
    if (!data.all) return fill(content, nothing(data, ["batchjobs"], "There are no jobs. Create one with: volcanopy job run --image busybox -- echo hello"));
    if (!data.total) return fill(content, h("p", { class: "empty" }, `None of ${data.all} jobs matches.`));
    fill(content, jobTable(data, SHOWN, column),
      h("div", { class: "tools" },
        h("button", { class: "action", disabled: data.page <= 1, onclick: () => change({ page: data.page - 1 }) }, "Previous"),
        h("span", {}, `page ${data.page} of ${data.pages}, ${data.total} of ${data.all} jobs`),
        h("button", { class: "action", disabled: data.page >= data.pages, onclick: () => change({ page: data.page + 1 }) }, "Next")));
  }

  function column(title) {
    if (title === "PROGRESS") return { title, kind: KINDS[title] };
    const sorted = query.sort === title ? "ascending" : query.sort === `-${title}` ? "descending" : "none";
    const mark = { ascending: " ▲", descending: " ▼", none: "" }[sorted];
    const head = h("button", { onclick: () => change({ sort: sorted === "ascending" ? `-${title}` : title }) }, title + mark);
    return { title, head, sort: sorted, kind: KINDS[title] };
  }

  return { element, refresh };
}

// A table of jobs with these columns; PROGRESS is READY and TOTAL as a bar.
export function jobTable(data, titles, column = (title) => ({ title, kind: KINDS[title] })) {
  const places = titles.map((title) => data.headings.indexOf(title));
  const cell = (title, row, number) => {
    const text = data.rows[row][places[number]];
    if (title === "NAME") return [jobLink(data.keys[row], text, data.apis[row]), kind(data.apis[row])];
    if (title === "PHASE") return phaseChip(text);
    if (title === "ESTIMATED START") return text && h("span", { title: text }, text.replace(/^unknown: .*|, \d{4}-.*/, (rest) => (rest.startsWith(",") ? "" : "unknown"))); // the job's page has all
    if (title !== "PROGRESS") return text;
    const [succeeded, running, failed, total] = data.progress[row];
    const parts = [[(succeeded + running + failed) / total, "failed"], [(succeeded + running) / total, "share"], [succeeded / total, "own"]];
    return [meter(`${succeeded} succeeded, ${running} running, ${failed} failed of ${total} pods`, parts.filter(([part]) => part)), `${succeeded + running}/${total}`];
  };
  return h("div", { class: "jobs" }, table(titles.map(column), data.rows.map((_, row) => titles.map((title, number) => cell(title, row, number)))));
}

export const phaseChip = (phase) => h("span", { class: `chip phase ${phase}` }, phase);

// Jobs of volcanopy's own API have no mark.
function kind(api) {
  return api === "volcanopy" ? null : [" ", h("span", { class: "chip", title: `a job of the API of ${api}` }, api)];
}
