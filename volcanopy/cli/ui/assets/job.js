import { get, post, theSession } from "./api.js";
import { clock, gantt, legend } from "./charts.js";
import { ago, amount, card, fill, h, jobLink, table } from "./dom.js";
import { phaseChip } from "./jobs.js";

const MARKS = { passed: "✓", blocked: "✗", "not checked": "·", "not required": "·" };

// An estimated start as on the command line, how far away it is and the time, with the time of the browser.
function estimate(text, expected) {
  const time = text.match(/\d\S+Z/);
  return time ? expected.replace(/\d{4}-[^(]+/, `${clock(Date.parse(time[0]) / 1000, 86400)} `) : text;
}

export function job(namespace, name) {
  const path = `/api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const api = new URLSearchParams(location.hash.split("?")[1] ?? "").get("api") ?? "";
  const query = new URLSearchParams(api ? { api } : {});
  const first = h("div", {}, h("p", { class: "empty" }, "Loading"));
  const second = h("div");
  const result = h("span", { role: "status" });
  const buttons = h("div", { class: "tools" });
  const log = h("div");
  const element = h("div", {}, h("h1", {}, `${namespace}/${name}`), buttons, first, log, second);
  let remedies = null;
  let complete = false;
  let searched = "";
  let stopLog = null;
  let allowed = null;
  let running = 0;

  async function refresh() {
    const data = await get(`${path}?${query}`);
    const report = data.report;
    running = data.pods.items.filter((pod) => pod.phase === "Running").length;
    fill(first,
      h("div", { class: "grid" },
        card("State", h("p", {}, phaseChip(data.phase), ` in queue ${data.queue}`, data.api === "volcanopy" ? null : `, ${data.kind}`), h("p", {}, report.summary),
          report.estimatedStart ? h("p", {}, `Estimated start: ${estimate(report.estimatedStart, data.expectedStart)}`) : null,
          report.blockedBy?.length ? h("p", {}, "Blocked by: ", report.blockedBy.map((each, place) => [place ? ", " : "", blocking(each)])) : null,
          (report.notes ?? []).map((note) => h("p", { class: "dim" }, note)), times(data.times)),
        report.gates?.length ? card("Gates", gates(report)) : null,
        changes(report, data)),
      card(`Pods (${data.pods.total})`, data.pods.note ? h("p", { class: "warning" }, data.pods.note) : null, pods(data.pods.items)));
    fill(second,
      card("Tasks", table(["TASK", { title: "REPLICAS", kind: "number" }, { title: "MIN", kind: "number" }, { title: "PODS BY PHASE", kind: "text" }], data.tasks.map((task) => [task.name, task.replicas, task.minimum, Object.entries(task.phases).map(([phase, count]) => `${count} ${phase}`).join(", ") || "-"]))),
      card("Events", data.events === null ? h("p", { class: "warning" }, "you may not list events")
        : table(["AGE", "TYPE", "REASON", { title: "OBJECT", kind: "note" }, { title: "MESSAGE", kind: "text" }], data.events.map((event) => [event.time ? ago(event.time) : "-", event.type, event.count > 1 ? `${event.reason} (x${event.count})` : event.reason, event.object, event.message]))),
      card("History", table(["QUEUED", "PHASE", "WAITED", "RAN", "RESTARTS", "EVICTED PODS", "CPU-SECONDS"], data.history.map((each) => [
        each.queued ? `${ago(each.queued)} ago` : "-", each.phase ?? "-", between(each.queued, each.placed), between(each.placed, each.finished), each.restarts ?? 0, each.evictedPods, each.resourceSeconds?.cpu ?? "-"])),
        evictions(data.history[0])),
      h("details", { class: "card" }, h("summary", {}, "Manifest"), h("pre", {}, data.manifest)));
    await actions(data);
    if (report.state === "pending" && searched !== report.summary) {
      searched = report.summary;
      search(searched).catch(({ message }) => { remedies ??= { notes: [message] }; });
    }
  }

  // Shows the first changes that let the job start while the scheduler is asked for all of them.
  async function search(summary) {
    for (const part of ["first", "all"]) {
      const answer = (await get(`${path}?${query}&remedies=${part}`)).report;
      if (searched !== summary) return;
      complete = part === "all" || !answer.searchEnded;
      if (complete || answer.remedies?.length) remedies = answer;
      await refresh();
      if (complete) return;
    }
  }

  function changes(report) {
    if (report.state !== "pending") return null;
    if (!remedies) return card("Starts with", h("p", { class: "empty" }, "asking the scheduler"));
    const rows = remedies.remedies ?? [];
    if (!rows.length) return card("Starts with", h("p", { class: "dim" }, unknown(remedies)));
    return card("Starts with", h("ul", {}, rows.map((remedy) => h("li", {}, remedy.text))), h("p", { class: "dim" }, "One of these changes is enough. Each was tried by the scheduler on a copy of the cluster.", complete ? null : " The search goes on."));
  }

  // Buttons for what the viewer may do, and the phase of the job accepts.
  async function actions(data) {
    if ((await theSession()).readOnly) return;
    allowed ??= (await get(`/api/session?namespace=${encodeURIComponent(namespace)}&api=${encodeURIComponent(data.api)}`)).changes;
    const verbs = data.actions.filter((verb) => allowed.includes(verb));
    if (buttons.dataset.verbs === verbs.join()) return;
    buttons.dataset.verbs = verbs.join();
    fill(buttons, verbs.map((verb) => h("button", { class: verb === "delete" ? "action danger" : "action", onclick: () => act(verb) }, verb[0].toUpperCase() + verb.slice(1))), result);
  }

  async function act(verb) {
    if (verb === "delete" && !(await confirmed(`Delete job ${namespace}/${name}?`, running ? `${running} running pods are killed, and their logs are lost.` : "Its pods and logs are deleted too."))) return;
    try {
      result.textContent = (await post(`${path}/${verb}?${query}`)).message;
    } catch (error) {
      result.textContent = error.message;
    }
  }

  function pods(list) {
    if (!list.length) return h("p", { class: "empty" }, "no pods yet");
    const now = Date.now();
    const begin = Math.min(...list.map((pod) => Date.parse(pod.created)));
    const end = list.every((pod) => pod.ended) ? Math.max(...list.map((pod) => Date.parse(pod.ended))) : now;
    const rows = list.map((pod) => {
      const created = Date.parse(pod.created), finish = pod.ended ? Date.parse(pod.ended) : now;
      const scheduled = pod.scheduled ? Date.parse(pod.scheduled) : finish, started = pod.started ? Date.parse(pod.started) : finish;
      return {
        head: [h("button", { class: "action", title: `show the log of ${pod.name}`, onclick: () => showLog(pod) }, pod.name), h("span", { class: "dim" }, usage(pod))],
        label: `${pod.name}: ${pod.state}${pod.node ? ` on ${pod.node}` : ""}`,
        strips: [
          { from: created, until: scheduled, kind: "waiting", title: "waits for a node" },
          ...(pod.scheduled ? [{ from: scheduled, until: started, kind: "starting", title: `starts on ${pod.node}` }] : []),
          ...(pod.started ? [{ from: started, until: finish, kind: pod.phase === "Failed" ? "failed" : "running", title: `${pod.state} on ${pod.node}` }] : []),
        ].filter(({ from, until }) => until > from),
      };
    });
    return [gantt(rows, { begin, end, time: (moment, span) => clock(moment / 1000, span / 1000) }),
      legend([["waits for a node", "var(--waits)"], ["starts", "var(--share)"], ["runs or has succeeded", "var(--own)"], ["failed", "var(--error)"]])];
  }

  async function showLog(pod) {
    stopLog?.abort();
    stopLog = new AbortController();
    const text = h("pre", { tabindex: 0, "aria-label": `log of ${pod.name}` });
    const container = pod.containers.at(-1) ?? "";
    log.replaceChildren(card(`Log of ${pod.name}`, text));
    log.scrollIntoView({ block: "nearest" });
    try {
      const url = `${path}/logs/${encodeURIComponent(pod.name)}?container=${encodeURIComponent(container)}`;
      const response = await fetch(url, { signal: stopLog.signal });
      if (!response.ok) throw new Error((await response.json()).error);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text.textContent = (text.textContent + value).slice(-200000);
        text.scrollTop = text.scrollHeight;
      }
      if (!text.textContent) text.textContent = "(empty)";
    } catch (error) {
      if (error.name !== "AbortError") text.textContent += error.message;
    }
  }

  return { element, refresh, close: () => stopLog?.abort() };
}

// Where a pod is, and what it uses of what it requests.
function usage({ node, used, requested, state }) {
  const parts = used ? Object.entries(used).map(([name, units]) => `${name} ${amount(name, units)}${requested[name] ? ` of ${amount(name, requested[name])}` : ""}`) : [];
  return [node ? ` on ${node}` : ` ${state}`, ...parts].join(", ");
}

// Asks in a dialog; Cancel has the focus.
function confirmed(question, consequence) {
  return new Promise((resolve) => {
    const end = (answer) => { dialog.remove(); resolve(answer); };
    const cancel = h("button", { class: "action", onclick: () => end(false) }, "Cancel");
    const dialog = h("dialog", { "aria-label": question }, h("h2", {}, question), h("p", {}, consequence),
      h("div", { class: "tools" }, cancel, h("button", { class: "action danger", onclick: () => end(true) }, "Delete")));
    dialog.addEventListener("cancel", () => end(false));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
  });
}

function evictions({ evictions: list = [] }) {
  return list.length ? h("ul", {}, list.map((each) => h("li", {}, `${ago(each.time)} ago: ${each.pods > 1 ? `${each.pods} pods` : "1 pod"} evicted, ${each.by || "cause unknown"}`))) : null;
}

function between(begin, end) {
  return begin && end ? ago(begin, Date.parse(end)) : "-";
}

function times(entries) {
  const rows = Object.entries(entries).map(([what, time]) => `${what} ${ago(time)} ago`);
  return rows.length ? h("p", { class: "dim" }, rows.join(", ")) : null;
}

// A link if it is a job, `job NAMESPACE/NAME`.
function blocking(text) {
  const [, key] = /^job ([^/ ]+\/[^/ ]+)$/.exec(text) ?? [];
  return key ? ["job ", jobLink(key)] : text;
}

// Why there are no remedies.
function unknown({ result, searchEnded, notes = [] }) {
  if (result === "starts now") return "it starts now";
  if (searchEnded) return "the search ended before a change was found";
  return result ? "no change of this job, one queue or one node lets it start" : notes.join("; ") || "not known";
}

function gates(report) {
  const numbers = Object.entries(report.numbers ?? {});
  return [
    h("ul", { class: "gates" }, report.gates.map((gate) => h("li", { class: gate.state === "blocked" ? "blocked" : null },
      h("span", { "aria-label": gate.state }, MARKS[gate.state] ?? "·"), h("span", {}, gate.name), h("span", {}, gate.message ?? (gate.state === "passed" ? "" : gate.state))))),
    Object.keys(report.nodes ?? {}).length ? table(["NODES", "REASON"], Object.entries(report.nodes).map(([reason, count]) => [count, reason])) : null,
    numbers.length ? h("p", { class: "dim" }, numbers.map(([key, value]) => `${key} ${value}`).join(", ")) : null,
  ];
}
