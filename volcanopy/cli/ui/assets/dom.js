// Elements from data. Text is always a text node: nothing that comes from the cluster is ever parsed as HTML.

const HANDLERS = ["onchange", "onclick", "oninput", "ontoggle"];

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
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

// Makes the content of an element equal to these children. Elements that are there already are changed and not replaced,
// so that focus, selected text, open details and scrolled positions survive.
export function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const href = focused?.getAttribute("href");
  reconcile(element, shown(children).map((child) => (child instanceof Node ? child : document.createTextNode(child))));
  if (!href || (document.activeElement === focused && focused.getAttribute("href") === href)) return;
  [...element.querySelectorAll("a")].find((link) => link.getAttribute("href") === href)?.focus({ preventScroll: true });
}

function reconcile(parent, wanted) {
  const rows = new Map([...parent.childNodes].map((old) => [target(old), old]));
  wanted.forEach((next, place) => {
    const key = target(next), row = key && rows.get(key), present = parent.childNodes[place];
    if (row && row !== present) parent.insertBefore(row, present ?? null);
    rows.delete(key);
    const old = row ?? present;
    if (!old || (key && !row)) parent.insertBefore(next, old ?? null);
    else if (old !== next && !adopts(old, next)) old.replaceWith(next);
  });
  for (const old of [...parent.childNodes].slice(wanted.length)) old.remove();
}

// What a row is about, for one that moves: where its first link leads.
function target(node) {
  return node.nodeName === "TR" ? node.querySelector("a")?.getAttribute("href") : undefined;
}

// Makes an element that is shown equal to a new one; false if it must be replaced. What has a state of its own has a method
// `adopt` for this; controls keep what was put in, so that they are replaced.
function adopts(old, next) {
  if (old.nodeName !== next.nodeName || /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName)) return false;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return true;
  }
  if (old.adopt || next.adopt) {
    if (old.adopt && next.adopt) old.adopt(next);
    return Boolean(old.adopt && next.adopt);
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "open" && name !== "style") old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const name of HANDLERS) old[name] = next[name];
  reconcile(old, [...next.childNodes]);
  return true;
}

// The text where there is nothing to show: that objects do not exist, unless they cannot be read.
export function nothing(data, plurals, text) {
  const unread = plurals.filter((plural) => data.unknown.includes(plural));
  return h("p", { class: "empty" }, unread.length ? `not known: ${unread.join(", ")} cannot be read` : text);
}

// A table. A column is its title, or { title, head, kind, sort }: the title, the content of its heading if that is more than
// the title, the CSS class of its cells, and the order in which the rows are sorted by it. On phones a row is a paragraph with
// the titles before the values.
export function table(columns, rows, { empty = "none" } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const all = columns.map((column) => (typeof column === "string" ? { title: column } : column));
  const labels = all.map(({ title, kind }) => (kind === "name" ? null : title || null));
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, all.map(({ title, head = title, kind, sort }) => h("th", { scope: "col", class: kind, "aria-sort": sort }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", { class: cell === "-" ? `${all[place].kind ?? ""} none` : all[place].kind, "data-label": labels[place] }, cell)))))));
}

// Gives a control these options, with an empty one first if that has a text, and chooses one of them.
export function setOptions(select, names, chosen, empty = "") {
  const wanted = [...(empty ? [""] : []), ...new Set([...names, ...(chosen ? [chosen] : [])])];
  if ([...select.options].map((option) => option.value).join("\n") !== wanted.join("\n"))
    select.replaceChildren(...wanted.map((name) => h("option", { value: name }, name || empty)));
  select.value = chosen;
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

export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

// Whether amounts of a resource are bytes.
export const isBinary = (resource) => /memory|storage|hugepages/.test(resource);

const BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi"];

// Amounts are in base units: thousandths of a cpu, bytes, or counts.
export function amount(resource, units) {
  if (units === null || units === undefined) return "-";
  if (resource === "cpu") return trimmed(units / 1000);
  if (isBinary(resource)) {
    let value = units, suffix = "";
    for (const next of BINARY) {
      if (value < 1024) break;
      value /= 1024;
      suffix = next;
    }
    return trimmed(value < 100 ? value : Math.round(value)) + suffix;
  }
  return String(units);
}

function trimmed(value) {
  return String(Math.round(value * 100) / 100);
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)}%` : "-";
}

// Lightness and chroma of the colours of charts: OKLCH, so that every hue contrasts alike with what is behind it.
const LIGHT = "0.6 0.14", DARK = "0.7 0.12";

// Colours that differ as much as possible, for the places of a short list.
export function distinct(place, dark = matchMedia("(prefers-color-scheme: dark)").matches) {
  return `oklch(${dark ? DARK : LIGHT} ${(250 + place * 137.5) % 360})`;
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

let spoken = null;

// Lets screen readers say a text.
export function say(text) {
  spoken ??= document.body.appendChild(h("div", { class: "spoken", role: "status" }));
  spoken.textContent = text;
}
