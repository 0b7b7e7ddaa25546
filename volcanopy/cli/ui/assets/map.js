// The nodes of the cluster on a canvas: each a box, filled from below by what each job uses of one resource.

import { style } from "./charts.js";
import { amount, counted, distinct, h, hideTip, percent, say, showTip } from "./dom.js";

const GAP = 3;
const TITLE = 18;
const BETWEEN = 14;
const THINNEST = 3;
const FONT = "12px system-ui, sans-serif";
const LONGEST_TITLE = 140;
const NAMED = 56; // the least box with the name of its node

// Colours by name: those used most get the first places, whose hues are far apart, and keep them while the page is open.
const places = new Map();

export function colourOf(name) {
  if (!places.has(name)) places.set(name, places.size);
  return distinct(places.get(name));
}

// What colours and groups stand for: [name, amount of the resource], the largest first.
export function owners(data, resource, by) {
  const place = data.resources.indexOf(resource);
  const sums = new Map();
  for (const [, , , , uses] of data.nodes) for (const [job, reserved, amounts] of uses)
    if (!reserved && amounts[place]) sums.set(ownerOf(data, job, by), (sums.get(ownerOf(data, job, by)) ?? 0) + amounts[place]);
  return [...sums].sort((first, second) => second[1] - first[1]);
}

function ownerOf(data, job, by) {
  return (by === "queue" && data.queues[job]) || data.jobs[job];
}

// The order of nodes by name: node-2 before node-10.
export const byName = (first, second) => first[0].localeCompare(second[0], undefined, { numeric: true });

// Draws `data` (nodes, jobs, resources). A what-if answer is drawn with `changes`: `planned` and `evicted` map node names to
// the pods that it places there and evicts from there.
export function clusterMap(data, resource, { planned = {}, evicted = {}, by = "job" } = {}, onNode = () => {}) {
  const element = h("canvas", { role: "application", tabindex: 0 });
  let boxes = [], focused = -1, smallest, place, isGpu;

  element.adopt = ({ view }) => {
    element.view = view;
    ({ data, resource, planned, evicted, by, onNode } = view);
    smallest = leastRequests(data);
    place = data.resources.indexOf(resource);
    isGpu = data.gpus.includes(resource);
    element.setAttribute("aria-label", `${describe(data, resource)}. Arrow keys move between nodes, Enter opens one.`);
    element.paint();
  };

  element.paint = () => {
    const width = element.clientWidth;
    if (!width) return;
    const context = element.getContext("2d");
    context.font = FONT;
    const { placed, titles, height } = arranged(data.nodes, width, (text) => context.measureText(text).width);
    boxes = placed;
    element.style.height = `${height}px`;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    context.scale(scale, scale);
    for (const [name] of owners(data, resource, by)) colourOf(name);
    const fills = data.jobs.map((_, job) => colourOf(ownerOf(data, job, by)));
    const look = Object.fromEntries(["free", "line", "error", "link", "dim", "text", "card"].map((name) => [name, style(`--${name}`)]));
    context.font = FONT; // the size of a canvas sets it back
    context.fillStyle = look.dim;
    for (const { text, x, y } of titles) context.fillText(text, x, y);
    for (const box of boxes) drawNode(context, box, fills, look);
    if (boxes[focused]) {
      const { x, y, size } = boxes[focused];
      context.lineWidth = 3;
      context.strokeStyle = look.text;
      context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
    }
  };

  function drawNode(context, box, fills, look) {
    const { node, x, y, size } = box;
    const [name, , state, allocatable, uses, cards] = node;
    const total = allocatable[place] ?? 0;
    context.fillStyle = look.free;
    if (total) context.fillRect(x, y, size, size);
    if (isShared(resource) && cards.length && cards.length <= 64 && size >= 12) drawCells(context, cards.map((parts) => parts.map(([job, part]) => [fills[job], part, false])), x, y, size, look);
    else if (isGpu && total > 0 && total <= 64 && size >= 12) drawCells(context, wholeCards(node, fills), x, y, size, look);
    else if (total) {
      let filled = 0;
      for (const [job, reserved, amounts] of uses) {
        if (!amounts[place]) continue;
        const height = Math.max((amounts[place] / total) * size, reserved ? THINNEST : 0);
        fillUse(context, x, y + size - filled - height, size, height, fills[job], reserved);
        filled += height;
      }
      if (filled < size && strandedBy(data, node, place, smallest)) dots(context, x, y, size, size - filled, look.dim);
    }
    if (size >= NAMED) drawName(context, box, total, look);
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

  // The end of the node's name above its use in percent, on the colour of a card.
  function drawName(context, { node: [name, , , , uses], x, y, size }, total, look) {
    const sum = (chosen) => uses.filter(chosen).reduce((units, [, , amounts]) => units + amounts[place], 0);
    const used = sum(([, reserved]) => !reserved);
    const later = planned[name] ? ` → ${percent(Math.min(total, sum(() => true)), total)}` : "";
    const texts = [ending(name, size - 10, (text) => context.measureText(text).width), total ? percent(used, total) + later : "none"];
    texts.forEach((text, line) => {
      context.fillStyle = look.card;
      context.fillRect(x + 3, y + 3 + 16 * line, context.measureText(text).width + 5, 15);
      context.fillStyle = look.text;
      context.fillText(text, x + 5, y + 15 + 16 * line);
    });
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
    context.lineWidth = 1;
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
    element.paint();
  });
  element.addEventListener("keydown", (event) => {
    const box = boxes[focused];
    if (event.key === "Enter" && box) onNode(box.node);
    const next = { ArrowRight: focused + 1, ArrowLeft: Math.max(0, focused - 1), Home: 0, End: boxes.length - 1, ArrowDown: beyond(box, 1), ArrowUp: beyond(box, -1) }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    focused = Math.min(Math.max(next, 0), boxes.length - 1);
    element.paint();
    const { node, x, y, size } = boxes[focused];
    const frame = element.getBoundingClientRect();
    say(text(node));
    showTip({ clientX: frame.left + x + size, clientY: frame.top + y + size }, text(node));
  });
  element.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node) onNode(node);
  });
  let drawn = 0;
  new ResizeObserver(() => { if (element.clientWidth !== drawn) { drawn = element.clientWidth; element.paint(); } }).observe(element);

  const text = (node) => summary(data, node, { planned, evicted }, smallest);
  // The nearest box below (1) or above (-1) a box; the box itself where there is none.
  const beyond = (box, direction) => {
    let best = Math.max(0, focused), least = Infinity;
    if (box) boxes.forEach((each, number) => {
      const away = direction * (each.y - box.y), distance = away + 2 * Math.abs(each.x - box.x);
      if (away > 0 && distance < least) [best, least] = [number, distance];
    });
    return best;
  };
  element.adopt({ view: { data, resource, planned, evicted, by, onNode } });
  return element;
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
  return `${counted(data.nodes.length, "node")}, ${amount(resource, used)} of ${amount(resource, total)} ${resource} allocated`;
}

// The boxes of nodes by rack, racks beside each other where the width allows it, with their titles.
function arranged(nodes, width, length) {
  const size = sizeFor(nodes.length, width);
  const most = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
  const racks = grouped(nodes);
  const title = racks.size > 1 || !racks.has("") ? TITLE : 0;
  const placed = [], titles = [];
  let x = 0, y = 0, bottom = 0;
  for (const [rack, members] of racks) {
    const columns = Math.min(most, members.length);
    const text = title ? shortened(rack || "no HyperNode", Math.max(columns * (size + GAP), LONGEST_TITLE), length) : "";
    const across = Math.max(columns * (size + GAP) - GAP, length(text));
    if (x && x + across > width) [x, y] = [0, bottom];
    if (title) titles.push({ text, x, y: y + TITLE - 5 });
    members.forEach((node, number) => placed.push({ node, x: x + (number % columns) * (size + GAP), y: y + title + Math.floor(number / columns) * (size + GAP), size }));
    bottom = Math.max(bottom, y + title + Math.ceil(members.length / columns) * (size + GAP) + (title ? 6 : 0));
    x += across + BETWEEN;
  }
  return { placed, titles, height: Math.max(bottom, 20) };
}

function shortened(text, width, length) {
  if (length(text) <= width) return text;
  let kept = text.length - 1;
  while (kept > 1 && length(`${text.slice(0, kept)}…`) > width) kept -= 1;
  return `${text.slice(0, kept)}…`;
}

// The end of a name, which tells nodes apart.
function ending(text, width, length) {
  let begin = 0;
  while (begin < text.length - 1 && length((begin ? "…" : "") + text.slice(begin)) > width) begin += 1;
  return (begin ? "…" : "") + text.slice(begin);
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
