import { get } from "./api.js";
import { clock } from "./charts.js";
import { ago, card, fill, h, jobLink, table } from "./dom.js";
import { phaseChip } from "./jobs.js";

const HEIGHT = 62, BETWEEN = 44, BESIDE = 14, PHONE = matchMedia("(max-width: 600px)");

export function flows() {
  const content = h("div", {}, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, "Job flows"), content);
  async function refresh() {
    const data = await get("/api/flows");
    fill(content, h("div", { class: "card" }, table(
      [{ title: "NAME", kind: "name" }, "NAMESPACE", "PHASE", "COMPLETED", "AGE", { title: "REASON", kind: "text" }],
      data.flows.map((flow) => [link(flow), flow.namespace, phaseChip(flow.phase), `${flow.completed}/${flow.total}`, flow.created ? ago(flow.created) : "-", flow.reason]),
      { empty: "no job flows" })));
  }
  return { element, refresh };
}

export function flow(namespace, name) {
  const content = h("div", {}, h("p", { class: "empty" }, "Loading"));
  const element = h("div", {}, h("h1", {}, `${namespace}/${name}`), content);
  async function refresh() {
    const data = await get(`/api/flows/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
    fill(content,
      card("State", h("p", {}, phaseChip(data.phase), ` ${data.reason || `${data.completed}/${data.total} jobs completed`}`), h("p", {}, end(data))),
      card("Jobs by their dependencies", h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Picture of the flow" }, picture(data)),
        h("p", { class: "dim" }, `Critical path: ${data.criticalPath.join(" -> ")} (${duration(data.criticalPathSeconds)}). What delays one of these jobs delays the end.`)));
  }
  return { element, refresh };
}

function link({ namespace, name }) {
  return h("a", { href: `#/flows/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, name);
}

function end({ expectedEnd, unknownTemplates }) {
  if (expectedEnd) return `Expected end: ${clock(Date.parse(expectedEnd) / 1000, 86400)}, from completed jobs and the estimates of the templates`;
  return unknownTemplates.length ? `Expected end: unknown: no completed job and no runningEstimate of template ${unknownTemplates.join(", ")}` : null;
}

// Jobs as boxes, a column for each level, on phones a row, with a line from each job to those that depend on it.
function picture(data) {
  const numbers = {}, places = {}, down = PHONE.matches, boxWidth = down ? 150 : 190;
  for (const { name, level } of data.jobs) {
    numbers[level] = (numbers[level] ?? -1) + 1;
    places[name] = down
      ? [numbers[level] * (boxWidth + BESIDE), (level - 1) * (HEIGHT + BETWEEN)]
      : [(level - 1) * (boxWidth + BETWEEN), numbers[level] * (HEIGHT + BESIDE)];
  }
  const width = Math.max(...Object.values(places).map(([x]) => x)) + boxWidth;
  const height = Math.max(...Object.values(places).map(([, y]) => y)) + HEIGHT;
  const critical = new Set(data.criticalPath);
  const lines = data.jobs.flatMap((job) => job.dependsOn.filter((name) => places[name]).map((name) => line(places[name], places[job.name], boxWidth, down, critical.has(name) && critical.has(job.name))));
  return h("div", { class: "flow", style: { width: `${width}px`, height: `${height}px` } },
    drawing("svg", { width, height, "aria-hidden": "true" }, lines),
    data.jobs.map((job) => box(job, data, places[job.name], boxWidth, critical.has(job.name))));
}

function box(job, data, [x, y], boxWidth, isCritical) {
  const times = [job.seconds === undefined ? null : duration(job.seconds), job.expectedSeconds === undefined || job.phase === "Completed" ? null : `expected ${duration(job.expectedSeconds)}`].filter(Boolean);
  const after = job.dependsOn.length ? `, after ${job.dependsOn.join(", ")}` : "";
  return h("div", { class: `step ${isCritical ? "critical" : ""}`, role: "group", "aria-label": `${job.name}: ${job.phase || "waiting"}${after}`, style: { left: `${x}px`, top: `${y}px`, width: `${boxWidth}px`, height: `${HEIGHT}px` } },
    job.phase ? jobLink(`${data.namespace}/${data.name}-${job.name}`, job.name) : h("span", {}, job.name),
    h("span", {}, job.phase || "waiting"), h("span", { class: "dim" }, times.join(", ")));
}

function line([fromX, fromY], [toX, toY], boxWidth, down, isCritical) {
  const begin = down ? [fromX + boxWidth / 2, fromY + HEIGHT] : [fromX + boxWidth, fromY + HEIGHT / 2];
  const finish = down ? [toX + boxWidth / 2, toY] : [toX, toY + HEIGHT / 2];
  const [bendX, bendY] = down ? [0, BETWEEN / 2] : [BETWEEN / 2, 0];
  const path = `M${begin} C${begin[0] + bendX},${begin[1] + bendY} ${finish[0] - bendX},${finish[1] - bendY} ${finish}`;
  return drawing("path", { d: path, class: isCritical ? "critical" : "" });
}

function drawing(tag, attributes, children = []) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function duration(seconds) {
  return ago(new Date(0).toISOString(), seconds * 1000);
}
