// The nodes of the cluster on a canvas: each a box, filled from below by what each job uses of one resource.

import { amount, colour, h, hideTip, percent, showTip } from "./dom.js";

const GAP = 3;
const TITLE = 18;

// Draws `data` (nodes, jobs, resources); `planned` maps node names to pods that a what-if answer places there.
export function clusterMap(data, resource, planned = {}, onNode = () => {}) {
  const element = h("canvas", { role: "img", tabindex: 0, "aria-label": describe(data, resource) });
  let boxes = [];
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
    const look = { free: css.getPropertyValue("--free"), line: css.getPropertyValue("--line"), error: css.getPropertyValue("--error"), link: css.getPropertyValue("--link"), dim: css.getPropertyValue("--dim") };
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = look.dim;
    for (const [rack, line] of titles) context.fillText(rack, 0, line);
    for (const box of boxes) drawNode(context, box, fills, look);
  }

  function drawNode(context, { node, x, y, size }, fills, look) {
    const [name, , state, allocatable, uses] = node;
    const total = allocatable[place] ?? 0;
    context.fillStyle = look.free;
    if (total) context.fillRect(x, y, size, size);
    if (isGpu && total > 0 && total <= 64 && size >= 12) drawCells(context, node, x, y, size, fills, look);
    else if (total) {
      let filled = 0;
      for (const [job, reserved, amounts] of uses) {
        const height = (amounts[place] / total) * size;
        if (!height) continue;
        fillUse(context, x, y + size - filled - height, size, height, fills[job], reserved);
        filled += height;
      }
    }
    context.lineWidth = state || planned[name] ? 2 : 1;
    context.strokeStyle = state ? look.error : planned[name] ? look.link : look.line;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }

  function drawCells(context, [, , , allocatable, uses], x, y, size, fills, look) {
    const cards = allocatable[place];
    const least = Math.ceil(Math.sqrt(cards));
    let columns = least;
    while (cards % columns && columns < 2 * least) columns += 1;
    const cell = (size - 2) / columns;
    const owners = [];
    for (const [job, reserved, amounts] of uses) for (let card = 0; card < amounts[place]; card++) owners.push([fills[job], reserved]);
    for (let card = 0; card < cards; card++) {
      const left = x + 1 + (card % columns) * cell;
      const top = y + 1 + Math.floor(card / columns) * cell;
      if (owners[card]) fillUse(context, left, top, cell - 1, cell - 1, ...owners[card]);
      else {
        context.strokeStyle = look.line;
        context.strokeRect(left + 0.5, top + 0.5, cell - 2, cell - 2);
      }
    }
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
    if (node) showTip(event, summary(data, node, planned));
    else hideTip();
  });
  element.addEventListener("mouseleave", hideTip);
  element.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node) onNode(node);
  });
  new ResizeObserver(() => { if (element.clientWidth !== element.dataset.width * 1) { element.dataset.width = element.clientWidth; paint(); } }).observe(element);
  return element;
}

export function summary(data, [name, rack, state, allocatable, uses], planned = {}) {
  const lines = [`${name}${rack ? ` in ${rack}` : ""}${state ? `, ${state}` : ""}`];
  data.resources.forEach((resource, place) => {
    const used = uses.reduce((sum, [, reserved, amounts]) => sum + (reserved ? 0 : amounts[place]), 0);
    if (allocatable[place]) lines.push(`${resource}: ${amount(resource, used)} of ${amount(resource, allocatable[place])} (${percent(used, allocatable[place])})`);
  });
  const jobs = [...new Set(uses.map(([job]) => data.jobs[job]))];
  if (jobs.length) lines.push(`jobs: ${jobs.slice(0, 8).join(", ")}${jobs.length > 8 ? ` and ${jobs.length - 8} more` : ""}`);
  if (planned[name]) lines.push(`would start here: ${planned[name].slice(0, 6).join(", ")}`);
  return lines.join("\n");
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
