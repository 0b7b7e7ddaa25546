// The nodes of the cluster on a canvas: each a box, filled from below by what each job uses of one resource.

import { amount, colour, h, hideTip, percent, showTip } from "./dom.js";

const GAP = 3;
const TITLE = 18;

// Draws `data` (nodes, jobs, resources). A what-if answer is drawn with `changes`: `planned` and `evicted` map node names to
// the pods that it places there and evicts from there.
export function clusterMap(data, resource, { planned = {}, evicted = {} } = {}, onNode = () => {}) {
  const element = h("canvas", { role: "application", tabindex: 0, "aria-label": `${describe(data, resource)}. Arrow keys move between nodes, Enter opens one.` });
  const spoken = h("span", { class: "spoken", role: "status" });
  const smallest = leastRequests(data);
  let boxes = [];
  let focused = -1;
  const place = data.resources.indexOf(resource);
  const isGpu = data.gpus.includes(resource);

  function paint() {
    const width = element.clientWidth;
    if (!width) return;
    const racks = grouped(data.nodes);
    const size = sizeFor(data.nodes.length, width);
    const columns = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
    let y = 0;
    boxes = [];
    const titles = [];
    for (const [rack, nodes] of racks) {
      if (rack) {
        titles.push([rack, y + TITLE - 5]);
        y += TITLE;
      }
      nodes.forEach((node, number) => boxes.push({ node, x: (number % columns) * (size + GAP), y: y + Math.floor(number / columns) * (size + GAP), size }));
      y += Math.ceil(nodes.length / columns) * (size + GAP) + (rack ? 6 : 0);
    }
    element.style.height = `${Math.max(y, 20)}px`;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(Math.max(y, 20) * scale);
    const context = element.getContext("2d");
    context.scale(scale, scale);
    const css = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const fills = data.jobs.map((name) => colour(name, dark));
    const look = { free: css.getPropertyValue("--free"), line: css.getPropertyValue("--line"), error: css.getPropertyValue("--error"), link: css.getPropertyValue("--link"), dim: css.getPropertyValue("--dim"), text: css.getPropertyValue("--text") };
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = look.dim;
    for (const [rack, line] of titles) context.fillText(rack, 0, line);
    for (const box of boxes) drawNode(context, box, fills, look);
    if (boxes[focused]) {
      const { x, y, size } = boxes[focused];
      context.lineWidth = 3;
      context.strokeStyle = look.text;
      context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
    }
  }

  function drawNode(context, { node, x, y, size }, fills, look) {
    const [name, , state, allocatable, uses, cards] = node;
    const total = allocatable[place] ?? 0;
    context.fillStyle = look.free;
    if (total) context.fillRect(x, y, size, size);
    if (isShared(resource) && cards.length && cards.length <= 64 && size >= 12) drawCells(context, cards.map((parts) => parts.map(([job, part]) => [fills[job], part, false])), x, y, size, look);
    else if (isGpu && total > 0 && total <= 64 && size >= 12) drawCells(context, wholeCards(node, fills), x, y, size, look);
    else if (total) {
      let filled = 0;
      for (const [job, reserved, amounts] of uses) {
        const height = (amounts[place] / total) * size;
        if (!height) continue;
        fillUse(context, x, y + size - filled - height, size, height, fills[job], reserved);
        filled += height;
      }
      if (filled < size && strandedBy(data, node, place, smallest)) dots(context, x, y, size, size - filled, look.dim);
    }
    const changed = planned[name] || evicted[name];
    context.lineWidth = state || changed ? 2 : 1;
    context.strokeStyle = state ? look.error : changed ? look.link : look.line;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (!evicted[name]) return;
    context.strokeStyle = look.error;
    context.beginPath();
    context.moveTo(x + 2, y + 2);
    context.lineTo(x + size - 2, y + size - 2);
    context.moveTo(x + size - 2, y + 2);
    context.lineTo(x + 2, y + size - 2);
    context.stroke();
  }

  // The GPUs of a node that no pods share, each with the job that has it.
  function wholeCards([, , , allocatable, uses], fills) {
    const owners = uses.flatMap(([job, reserved, amounts]) => Array.from({ length: amounts[place] }, () => [[fills[job], 1, reserved]]));
    return Array.from({ length: allocatable[place] }, (_, card) => owners[card] ?? []);
  }

  // One cell for each GPU, filled from below by the part that each job uses of it.
  function drawCells(context, cards, x, y, size, look) {
    const least = Math.ceil(Math.sqrt(cards.length));
    let columns = least;
    while (cards.length % columns && columns < 2 * least) columns += 1;
    const across = (size - 2) / columns;
    const down = (size - 2) / Math.ceil(cards.length / columns);
    cards.forEach((parts, card) => {
      const left = x + 1 + (card % columns) * across;
      const top = y + 1 + Math.floor(card / columns) * down;
      let filled = 0;
      for (const [fill, part, reserved] of parts) {
        const height = part * (down - 1);
        fillUse(context, left, top + down - 1 - filled - height, across - 1, height, fill, reserved);
        filled += height;
      }
      context.lineWidth = 1;
      context.strokeStyle = look.line;
      context.strokeRect(left + 0.5, top + 0.5, across - 2, down - 2);
    });
  }

  // Reserved room, for pods that wait there for evicted ones to end, is hatched.
  function fillUse(context, x, y, width, height, fill, reserved) {
    context.fillStyle = fill;
    context.globalAlpha = reserved ? 0.3 : 0.9;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    if (!reserved) return;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = fill;
    for (let offset = -height; offset < width; offset += 5) {
      context.beginPath();
      context.moveTo(x + offset, y + height);
      context.lineTo(x + offset + height, y);
      context.stroke();
    }
    context.restore();
  }

  function nodeAt(event) {
    const frame = element.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    return boxes.find((box) => x >= box.x && x < box.x + box.size && y >= box.y && y < box.y + box.size)?.node;
  }

  element.addEventListener("mousemove", (event) => {
    const node = nodeAt(event);
    if (node) showTip(event, text(node));
    else hideTip();
  });
  element.addEventListener("mouseleave", hideTip);
  element.addEventListener("blur", () => {
    focused = -1;
    hideTip();
    paint();
  });
  element.addEventListener("keydown", (event) => {
    const box = boxes[focused];
    if (event.key === "Enter" && box) onNode(box.node);
    const next = { ArrowRight: focused + 1, ArrowLeft: Math.max(0, focused - 1), Home: 0, End: boxes.length - 1, ArrowDown: below(box), ArrowUp: above(box) }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    focused = Math.min(Math.max(next, 0), boxes.length - 1);
    paint();
    const { node, x, y, size } = boxes[focused];
    const frame = element.getBoundingClientRect();
    spoken.textContent = text(node);
    showTip({ clientX: frame.left + x + size, clientY: frame.top + y + size }, text(node));
  });
  element.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node) onNode(node);
  });
  new ResizeObserver(() => { if (element.clientWidth !== element.dataset.width * 1) { element.dataset.width = element.clientWidth; paint(); } }).observe(element);

  const text = (node) => summary(data, node, { planned, evicted }, smallest);
  const below = (box) => (box ? boxes.findIndex((each) => each.y > box.y && each.x >= box.x) : 0);
  const above = (box) => (box ? boxes.findLastIndex((each) => each.y < box.y && each.x <= box.x) : 0);
  return h("div", {}, element, spoken);
}

function isShared(resource) {
  return /gpu-memory$|vgpu-number$|\/gpu-number$/.test(resource);
}

function dots(context, x, y, width, height, colour) {
  context.fillStyle = colour;
  context.globalAlpha = 0.5;
  for (let top = y + 2; top < y + height - 1; top += 5) for (let left = x + 2; left < x + width - 1; left += 5) context.fillRect(left, top, 1.5, 1.5);
  context.globalAlpha = 1;
}

// The least amounts of cpu and memory that any pod on a node requests.
function leastRequests(data) {
  const least = data.resources.map(() => Infinity);
  for (const [, , , , uses] of data.nodes) for (const [, , amounts] of uses) amounts.forEach((units, place) => { if (units) least[place] = Math.min(least[place], units); });
  return least;
}

// The resource of which less is free than the smallest pod requests, so that what is free of another one is of no use.
function strandedBy(data, [, , , allocatable, uses], place, least) {
  const free = (other) => allocatable[other] - uses.reduce((sum, [, , amounts]) => sum + amounts[other], 0);
  if (free(place) <= 0) return "";
  return data.resources.find((name, other) => (name === "cpu" || name === "memory") && other !== place && least[other] < Infinity && free(other) < least[other]) ?? "";
}

function summary(data, node, { planned, evicted }, smallest) {
  const [name, rack, state, allocatable, uses, cards] = node;
  const lines = [`${name}${rack ? ` in ${rack}` : ""}${state ? `, ${state}` : ""}`];
  data.resources.forEach((resource, place) => {
    const used = uses.reduce((sum, [, reserved, amounts]) => sum + (reserved ? 0 : amounts[place]), 0);
    if (allocatable[place]) lines.push(`${resource}: ${amount(resource, used)} of ${amount(resource, allocatable[place])} (${percent(used, allocatable[place])})${stranded(strandedBy(data, node, place, smallest))}`);
  });
  if (cards.length) lines.push(`shared GPUs: ${cards.map((parts) => percent(parts.reduce((sum, [, part]) => sum + part, 0), 1)).join(", ")}`);
  const jobs = [...new Set(uses.map(([job]) => data.jobs[job]))];
  if (jobs.length) lines.push(`jobs: ${jobs.slice(0, 8).join(", ")}${jobs.length > 8 ? ` and ${jobs.length - 8} more` : ""}`);
  if (planned[name]) lines.push(`would start here: ${some(planned[name])}`);
  if (evicted[name]) lines.push(`would be evicted: ${some(evicted[name])}`);
  return lines.join("\n");
}

function stranded(other) {
  return other ? `, the rest is stranded: ${other} is used up` : "";
}

function some(pods) {
  return pods.slice(0, 6).join(", ") + (pods.length > 6 ? ` and ${pods.length - 6} more` : "");
}

function describe(data, resource) {
  const place = data.resources.indexOf(resource);
  const total = data.nodes.reduce((sum, node) => sum + (node[3][place] ?? 0), 0);
  const used = data.nodes.reduce((sum, node) => sum + node[4].reduce((part, [, reserved, amounts]) => part + (reserved ? 0 : amounts[place] ?? 0), 0), 0);
  return `${data.nodes.length} nodes, ${amount(resource, used)} of ${amount(resource, total)} ${resource} allocated`;
}

function grouped(nodes) {
  const racks = new Map();
  for (const node of nodes) {
    if (!racks.has(node[1])) racks.set(node[1], []);
    racks.get(node[1]).push(node);
  }
  return racks;
}

// The largest box with which all nodes fit into about a screen.
function sizeFor(count, width) {
  const area = width * Math.max(320, innerHeight * 0.6);
  return Math.max(7, Math.min(84, Math.floor(Math.sqrt(area / Math.max(1, count)) - GAP)));
}
