// Elements from data. Text is always a text node: nothing that comes from the cluster is ever parsed as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...shown(children));
  return element;
}

function shown(children) {
  return children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
}

// Replaces what is in an element.
export function fill(element, ...children) {
  element.replaceChildren(...shown(children));
}

// The text where there is nothing to show: that objects do not exist, unless they cannot be read.
export function nothing(data, plurals, text) {
  const unread = plurals.filter((plural) => data.unknown.includes(plural));
  return h("p", { class: "empty" }, unread.length ? `not known: ${unread.join(", ")} cannot be read` : text);
}

export function table(headings, rows, { empty = "none" } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, headings.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}

export function card(title, ...content) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), content);
}

// A link to the page of a job, `namespace/name`; `api` where jobs of two APIs may have this name.
export function jobLink(key, text = key, api = "") {
  const query = api && api !== "volcanopy" ? `?api=${encodeURIComponent(api)}` : "";
  return h("a", { href: `#/jobs/${key.split("/").map(encodeURIComponent).join("/")}${query}` }, text);
}

export function ago(text, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(text)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi"];

// Amounts are in base units: thousandths of a cpu, bytes, or counts.
export function amount(resource, units) {
  if (units === null || units === undefined) return "-";
  if (resource === "cpu") return trimmed(units / 1000);
  if (/memory|storage|hugepages/.test(resource)) {
    let value = units, suffix = "";
    for (const next of BINARY) {
      if (value < 1024) break;
      value /= 1024;
      suffix = next;
    }
    return trimmed(value) + suffix;
  }
  return String(units);
}

function trimmed(value) {
  return String(Math.round(value * 100) / 100);
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)}%` : "-";
}

// A colour for a name: the same name has the same colour on every page.
export function colour(name, dark = matchMedia("(prefers-color-scheme: dark)").matches) {
  let hash = 2166136261;
  for (let place = 0; place < name.length; place++) hash = Math.imul(hash ^ name.charCodeAt(place), 16777619);
  const hue = (hash >>> 0) % 360;
  return `hsl(${hue} ${dark ? 50 : 55}% ${dark ? 55 : 50}%)`;
}

// Colours that differ as much as possible, for the places of a short list.
export function distinct(place, dark = matchMedia("(prefers-color-scheme: dark)").matches) {
  return `hsl(${(210 + place * 137.5) % 360} ${dark ? 50 : 55}% ${dark ? 58 : 48}%)`;
}

let tip = null;

export function showTip(event, text) {
  hideTip();
  tip = h("div", { class: "tip", role: "tooltip" }, text);
  document.body.append(tip);
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6))}px`;
}

export function hideTip() {
  tip?.remove();
  tip = null;
}
