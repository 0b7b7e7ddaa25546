import { get } from "./api.js";
import { amount, card, fill, h, jobLink, nothing, setOptions, table } from "./dom.js";
import { legend } from "./charts.js";
import { byName, clusterMap, colourOf, owners } from "./map.js";

const LEGEND = 14; // jobs or queues with a colour in the legend

export function nodes() {
  let resource = "";
  let chosen = "";
  let find = "";
  const select = h("select", { onchange: () => { resource = select.value; refresh(); } });
  const colours = h("select", { onchange: () => refresh() }, ["job", "queue"].map((each) => h("option", { value: each }, each)));
  const groups = h("select", { onchange: () => refresh() }, [["rack", "HyperNode"], ["queue", "queue"], ["", "none"]].map(([value, text]) => h("option", { value }, text)));
  const search = h("input", { type: "search", placeholder: "node name", oninput: () => { find = search.value; refresh(); } });
  const map = h("div", { class: "card" }, h("p", { class: "empty" }, "Loading"));
  const detail = h("div");
  const element = h("div", {}, h("h1", {}, "Nodes"),
    h("div", { class: "tools" }, h("label", {}, "Resource", select), h("label", {}, "Colour by", colours), h("label", {}, "Group by", groups), h("label", {}, "Filter", search)), map, detail);

  async function refresh() {
    const data = await get("/api/nodes");
    resource = data.resources.includes(resource) ? resource : data.resources[0] ?? "";
    setOptions(select, data.resources, resource);
    const shown = { ...data, nodes: grouped(data, data.nodes.filter((node) => node[0].includes(find)), data.resources.indexOf(resource)) };
    if (!data.nodes.length) fill(map, nothing(data, ["nodes"], "The cluster has no nodes."));
    else if (!shown.nodes.length) fill(map, h("p", { class: "empty" }, `None of ${data.nodes.length} nodes matches.`));
    else fill(map, clusterMap(shown, resource, { by: colours.value }, (node) => { chosen = node[0]; show(data); }),
      owned(shown),
      h("p", { class: "dim" }, "Hatched: reserved for pods that wait for evicted ones to end. Dotted: stranded, free while cpu or memory of the node is used up. Empty: none of this resource. Red border: not ready or cordoned. Click a node for its jobs."));
    show(data);
  }

  // The largest jobs or queues with their colours, and how many others there are.
  function owned(data) {
    const all = owners(data, resource, colours.value);
    const entries = all.slice(0, LEGEND).map(([name, units]) => [`${name}: ${amount(resource, units)} ${resource}`, colourOf(name)]);
    return [legend(entries), all.length > LEGEND ? h("p", { class: "dim" }, `and ${all.length - LEGEND} more, named when you point at a node`) : null];
  }

  // The nodes in groups: by HyperNode as they are, or by the queue that uses most of the resource of a node.
  function grouped(data, nodes, place) {
    const group = ([, , , , uses]) => {
      const sums = new Map();
      for (const [job, , amounts] of uses) sums.set(data.queues[job], (sums.get(data.queues[job]) ?? 0) + amounts[place]);
      return [...sums].sort((first, second) => second[1] - first[1])[0]?.[0] || "free";
    };
    const named = groups.value === "rack" ? [...nodes] : nodes.map((node) => node.with(1, groups.value ? group(node) : ""));
    return named.sort((first, second) => first[1].localeCompare(second[1]) || byName(first, second));
  }

  function show(data) {
    const node = data.nodes.find((each) => each[0] === chosen);
    if (!node) return fill(detail, );
    const [name, rack, state, allocatable, uses] = node;
    const shown = data.resources.map((_, place) => place).filter((place) => allocatable[place]);
    const jobs = new Map();
    for (const [job, reserved, amounts] of uses) {
      const key = `${data.jobs[job]}${reserved ? " (reserved)" : ""}`;
      const entry = jobs.get(key) ?? { job: data.jobs[job], reserved, pods: 0, amounts: amounts.map(() => 0) };
      entry.pods += 1;
      amounts.forEach((units, place) => (entry.amounts[place] += units));
      jobs.set(key, entry);
    }
    fill(detail, card(`${name}${rack ? ` in ${rack}` : ""}${state ? `, ${state}` : ""}`,
      h("p", {}, shown.map((place) => `${data.resources[place]} ${amount(data.resources[place], allocatable[place])}`).join(", ")),
      table(["JOB", "PODS", ...shown.map((place) => data.resources[place].toUpperCase())].map((title, place) => ({ title, kind: place ? "number" : "name" })),
        [...jobs.values()].map((entry) => [[jobLink(entry.job), entry.reserved ? " (reserved)" : ""], entry.pods, ...shown.map((place) => amount(data.resources[place], entry.amounts[place]))]),
        { empty: "no pods" })));
  }

  return { element, refresh };
}
