// Shows the page that the address names, and refreshes it when the cluster changes.

import { follow, theSession } from "./api.js";
import { h, hideTip } from "./dom.js";
import { signIn, userControls } from "./signin.js";
import { overview } from "./overview.js";
import { queues } from "./queues.js";
import { queue } from "./queue.js";
import { jobs } from "./jobs.js";
import { job } from "./job.js";
import { flow, flows } from "./flows.js";
import { nodes } from "./nodes.js";
import { whatif } from "./whatif.js";
import { decisions } from "./decisions.js";

const ROUTES = [
  [/^\/?$/, overview, "Overview"],
  [/^\/queues$/, queues, "Queues"],
  [/^\/queues\/([^/]+)$/, queue, "Queue"],
  [/^\/jobs$/, jobs, "Jobs"],
  [/^\/jobs\/([^/]+)\/([^/]+)$/, job, "Job"],
  [/^\/flows$/, flows, "Flows"],
  [/^\/flows\/([^/]+)\/([^/]+)$/, flow, "Flow"],
  [/^\/nodes$/, nodes, "Nodes"],
  [/^\/whatif$/, whatif, "What if"],
  [/^\/decisions$/, decisions, "Decisions"],
];
const main = document.getElementById("main");
const live = document.getElementById("live");
const problem = document.getElementById("problem");
let current = null;
let refreshing = false;
let again = false;
let notBefore = 0;

// A page is { element, refresh(), close?() }: made once, refreshed at every change.
async function show() {
  hideTip();
  current?.close?.();
  const path = decodeURI(location.hash.replace(/^#/, "") || "/").split("?")[0];
  const route = ROUTES.find(([pattern]) => pattern.test(path));
  mark(path);
  if (!route) {
    current = null;
    main.replaceChildren(h("p", { class: "empty" }, `There is no page ${path}.`));
    return;
  }
  const [pattern, make, title] = route;
  const parts = path.match(pattern).slice(1).map(decodeURIComponent);
  document.title = `${parts.length ? parts.join("/") : title} - volcanopy`;
  const page = make(...parts);
  current = page;
  main.replaceChildren(page.element);
  await refresh();
}

function mark(path) {
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href").slice(1);
    const active = target === "/" ? path === "/" || path === "" : path.startsWith(target);
    if (active) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  const page = current;
  const started = performance.now();
  try {
    await page?.refresh();
    page?.element.removeAttribute("data-stale");
    if (page) page.element.dataset.ready = "true";
  } catch (error) {
    if (page === current) report(page, error);
  } finally {
    refreshing = false;
    // A page that takes long, such as a map of thousands of nodes, is refreshed less often: at most a fifth of the time.
    const took = performance.now() - started;
    notBefore = page === current ? performance.now() + Math.min(15000, 4 * took) : 0;
    if (again) {
      again = false;
      later();
    }
  }
}

let planned = null;

// Refreshes as soon as the pace allows it.
function later() {
  planned ??= setTimeout(() => {
    planned = null;
    refresh();
  }, Math.max(0, notBefore - performance.now()));
}

function report(page, error) {
  if (error.status === 401) {
    current = null;
    return main.replaceChildren(signIn(error.message));
  }
  if (error instanceof TypeError && page.element.dataset.ready) return; // the status shows that the server is gone
  page.element.dataset.stale = "true";
  const text = error.message || String(error);
  page.element.replaceChildren(h("p", { class: "error", role: "alert" }, text));
  delete page.element.dataset.ready;
  current = { ...page, refresh: async () => show() };
}

function state(missing, forbidden) {
  live.classList.toggle("off", missing === null || missing.length > 0);
  live.textContent = missing === null ? "disconnected: shown is the last known state" : missing.length ? "not up to date" : "live";
  const problems = [...(missing ?? []), forbidden].filter(Boolean);
  problem.hidden = !problems.length;
  problem.className = missing?.length ? "error" : "dim";
  problem.textContent = problems.join("; ");
}

// A refresh that a control of the page has begun.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  if (current) report(current, event.reason);
});
addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
});
show();
follow(later, state);
setInterval(later, 15000); // ages grow
theSession().then((session) => document.getElementById("user").replaceChildren(...userControls(session))).catch(() => {});
