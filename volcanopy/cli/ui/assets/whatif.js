import { get, post } from "./api.js";
import { card, fill, h, jobLink, setOptions, table } from "./dom.js";
import { byName, clusterMap } from "./map.js";

const EXAMPLE = `apiVersion: batch.volcanopy.io/v1alpha1
kind: BatchJob
metadata: {name: question}
spec:
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - {name: main, image: busybox, resources: {requests: {cpu: 2}}}
`;

export function whatif() {
  const like = h("select");
  const count = h("input", { type: "number", min: 0, max: 1000, value: "0" });
  const remove = h("input", { placeholder: "node names, separated by spaces" });
  const queue = h("select");
  const weight = h("input", { type: "number", min: 1, placeholder: "unchanged" });
  const capability = h("input", { placeholder: "such as cpu=20,memory=64Gi" });
  const pods = h("input", { type: "number", min: 0, max: 10000, value: "0" });
  const cpu = h("input", { value: "1", size: 6 });
  const memory = h("input", { value: "1Gi", size: 6 });
  const gpus = h("input", { type: "number", min: 0, value: "0" });
  const target = h("select");
  const manifest = h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Manifests", placeholder: "Manifests of jobs, queues or nodes (YAML)" });
  const ask = h("button", { class: "action main", onclick: run }, "Ask the scheduler");
  const answer = h("div", { "aria-live": "polite" });
  const element = h("div", {}, h("h1", {}, "What if"),
    h("p", { class: "dim" }, "The scheduler answers on a copy of the cluster. Nothing is written."),
    h("div", { class: "grid halves" },
      card("Nodes", h("div", { class: "tools" }, h("label", {}, "Add nodes like", like), h("label", {}, "Count", count), h("label", {}, "Remove", remove))),
      card("Queue", h("div", { class: "tools" }, h("label", {}, "Queue", queue), h("label", {}, "Weight", weight), h("label", {}, "Capability", capability))),
      h("div", { class: "wide" }, card("New job", h("div", { class: "tools" }, h("label", {}, "Pods that start together", pods), h("label", {}, "CPUs of each", cpu), h("label", {}, "Memory of each", memory), h("label", {}, "GPUs of each", gpus), h("label", {}, "In queue", target)),
        h("details", {}, h("summary", {}, "Manifests"), manifest,
          h("div", { class: "tools" }, h("button", { class: "action", onclick: () => { manifest.value = EXAMPLE; } }, "Example")))))),
    h("div", { class: "tools ask" }, ask),
    answer);
  let loaded = false;

  async function refresh() {
    if (loaded) return;
    const [nodes, queues] = await Promise.all([get("/api/nodes"), get("/api/queues")]);
    like.replaceChildren(...nodes.nodes.toSorted(byName).map((node) => h("option", { value: node[0] }, node[0])));
    const names = [];
    const walk = (each) => { names.push(each.name); (each.children ?? []).forEach(walk); };
    queues.tree.queues.forEach(walk);
    const targets = names.filter((name) => name !== "root");
    setOptions(target, targets, targets.includes("default") ? "default" : targets[0] ?? "");
    setOptions(queue, targets, "", "no change");
    loaded = true;
  }

  function question() {
    const wrong = [...element.querySelectorAll("input")].find((input) => !input.checkValidity());
    if (wrong) throw new Error(`${wrong.closest("label").firstChild.data}: ${wrong.validationMessage}`);
    const fields = {};
    if (weight.value) fields.weight = Number(weight.value);
    if (capability.value.trim()) {
      fields.capability = {};
      for (const part of capability.value.split(",")) {
        const [name, units] = part.split("=").map((text) => text.trim());
        if (!name || !units) throw new Error(`capability: ${part.trim()} is not RESOURCE=AMOUNT, such as cpu=20`);
        fields.capability[name] = units;
      }
    }
    const changed = Object.keys(fields).length > 0;
    if (changed && !queue.value) throw new Error("queue: choose the queue to change");
    return {
      like: like.value, count: Number(count.value) || 0, remove: remove.value.split(/[\s,]+/).filter(Boolean),
      queues: changed ? { [queue.value]: fields } : {}, manifest: [manifest.value.trim(), newJob()].filter(Boolean).join("\n---\n"),
    };
  }

  // The manifest of the new job; empty without pods.
  function newJob() {
    const replicas = Number(pods.value) || 0;
    if (!replicas) return "";
    const requests = { cpu: cpu.value.trim(), memory: memory.value.trim() };
    const limits = Number(gpus.value) ? { "nvidia.com/gpu": gpus.value } : undefined;
    const container = { name: "main", image: "new", resources: { requests: { ...requests, ...limits }, limits } };
    const task = { name: "worker", replicas, template: { spec: { containers: [container] } } };
    return JSON.stringify({ apiVersion: "batch.volcanopy.io/v1alpha1", kind: "BatchJob", metadata: { name: "new-job" }, spec: { queue: target.value, minAvailable: replicas, tasks: [task] } });
  }

  async function run() {
    ask.disabled = true;
    answer.replaceChildren(h("p", { class: "empty" }, "asking the scheduler"));
    try {
      const asked = question();
      const [result, nodes] = await Promise.all([post("/api/whatif", asked), get("/api/nodes")]);
      answer.replaceChildren(...shown(result, withNew(nodes, asked, result.placements)));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    } finally {
      ask.disabled = false;
    }
  }

  return { element, refresh };
}

// The map with the nodes of the question, and its pods as reserved.
function withNew(data, asked, placements) {
  const model = data.nodes.find((node) => node[0] === asked.like);
  const added = model ? Array.from({ length: asked.count }, (_, place) => [`${asked.like}-whatif-${place + 1}`, model[1], "", model[3], [], model[5].map(() => [])]) : [];
  const removed = new Set(asked.remove);
  const jobs = [...data.jobs];
  const number = (job) => (jobs.includes(job) ? jobs.indexOf(job) : jobs.push(job) - 1);
  const nodes = [...data.nodes.filter((node) => !removed.has(node[0])).sort(byName), ...added].map((node) => {
    const placed = (placements[node[0]] ?? []).map(({ job, amounts }) => [number(job), 1, data.resources.map((resource) => amounts[resource] ?? 0)]);
    return placed.length ? node.with(4, [...node[4], ...placed]) : node;
  });
  return { ...data, jobs, nodes };
}

function shown(result, nodes) {
  const changed = result.jobs.filter((job) => job.changed);
  const same = result.jobs.length - changed.length;
  const parts = [];
  if (result.rejected.length) parts.push(card("Rejected", h("ul", {}, result.rejected.map((each) => h("li", { class: "error" }, `${each.kind} ${each.job}: ${each.message}`)))));
  parts.push(card("Jobs", changed.length
    ? table([{ title: "JOB", kind: "name" }, "QUEUE", "NOW", "WITH THE CHANGES", { title: "DETAILS", kind: "text" }], changed.map((job) => [jobLink(job.job), job.queue, job.before, job.after, details(job)]))
    : h("p", {}, "No job starts at another time."), same ? h("p", { class: "dim" }, `${same} other waiting ${same === 1 ? "job is" : "jobs are"} unchanged.`) : null));
  if (result.evictions.length) parts.push(card("Evicted", table([{ title: "POD", kind: "name" }, "NODE", { title: "FOR", kind: "text" }], result.evictions.map((each) => [each.pod, each.node || "-", each.for || each.reason]))));
  const evicted = {};
  for (const { node, pod } of result.evictions) if (node) (evicted[node] ??= []).push(pod);
  if (Object.keys(result.placements).length || result.evictions.length) {
    const planned = Object.fromEntries(Object.entries(result.placements).map(([node, pods]) => [node, pods.map((each) => each.pod)]));
    const place = h("div");
    const select = h("select", { onchange: () => draw(select.value) }, nodes.resources.map((name) => h("option", { value: name }, name)));
    const draw = (resource) => fill(place, clusterMap(nodes, resource, { planned, evicted }));
    // A GPU if pods with GPUs are placed: cpu hardly shows them.
    const used = nodes.resources.filter((name) => Object.values(result.placements).some((pods) => pods.some(({ amounts }) => amounts[name])));
    select.value = used.find((name) => nodes.gpus.includes(name)) ?? nodes.resources[0];
    draw(select.value);
    parts.push(card("Placements", h("div", { class: "tools" }, h("label", {}, "Resource", select)), place,
      h("p", { class: "dim" }, "Hatched, with a blue border: pods would start on this node. Red cross: pods would be evicted from it.")));
  }
  if (result.ended) parts.push(h("p", { class: "warning" }, "The time for the answer ended before everything was known."));
  if (!result.configured) parts.push(h("p", { class: "dim" }, "The scheduler's configuration was not found: the answer is for the default one."));
  return parts;
}

function details(job) {
  if (job.after === "starts now") return [`on ${job.nodes.join(", ")}`, job.evictions.length ? `, evicts ${job.evictions.join(", ")}` : ""];
  return job.message;
}
