// Documents of the server, and the stream of changes.

const known = new Map();
let session = null;

class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function get(path) {
  const before = known.get(path);
  const response = await fetch(path, { headers: before ? { "If-None-Match": before.tag } : {}, cache: "no-store" });
  if (response.status === 304) return before.document;
  const document = await parsed(response);
  const tag = response.headers.get("ETag");
  if (known.size > 50) known.clear();
  if (tag) known.set(path, { tag, document });
  return document;
}

export async function post(path, body) {
  const signing = path === "/api/signin" || path === "/api/signout";
  const headers = { "Content-Type": "application/json", ...(signing ? {} : { "X-Volcanopy-Token": (await theSession()).token }) };
  return parsed(await fetch(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) }));
}

export async function theSession() {
  session ??= await get("/api/session");
  return session;
}

async function parsed(response) {
  const document = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
  if (!response.ok) {
    if (response.status === 403) session = null;
    throw new ApiError(response.status, document.error ?? `status ${response.status}`);
  }
  return document;
}

// Calls `changed` at every change of the cluster, and `state` with what is not up to date (null while disconnected)
// and what the user may not list.
export function follow(changed, state) {
  const source = new EventSource("/api/changes");
  let revision = 0;
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    state(message.missing, message.forbidden);
    if (message.revision !== revision) {
      revision = message.revision;
      changed(revision);
    }
  };
  source.onerror = () => {
    session = null;
    revision = 0;
    state(null);
  };
  return source;
}
