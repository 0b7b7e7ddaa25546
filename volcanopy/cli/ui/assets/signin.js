// Signing in with a bearer token of the cluster, which the server keeps in a cookie that no script can read.

import { post } from "./api.js";
import { card, h } from "./dom.js";

export function signIn(reason) {
  const token = h("input", { type: "password", autocomplete: "off", required: true, size: 60 });
  const message = h("p", { class: "error", role: "alert" });
  const send = async (event) => {
    event.preventDefault();
    try {
      await post("/api/signin", { token: token.value });
      location.reload();
    } catch (error) {
      message.textContent = error.message;
    }
  };
  return card("Sign in", h("p", {}, `${reason[0].toUpperCase()}${reason.slice(1)}.`),
    h("form", { onsubmit: send }, h("label", {}, "Token", token), h("div", { class: "tools" }, h("button", { class: "action main" }, "Sign in"))), message,
    h("p", { class: "dim" }, "You see and change what the cluster allows you. A token of a service account: ", h("code", {}, "kubectl create token NAME")));
}

// The user's name, the choice of a namespace, and the button that ends it.
export function userControls({ user, namespace, namespaces, choosesNamespace, signsOut }) {
  const onchange = () => {
    document.cookie = `volcanopy-namespace=${encodeURIComponent(chosen.value.trim())}; path=/; samesite=strict`;
    location.reload();
  };
  const chosen = namespaces.length ? h("select", { onchange }, namespaces.map((name) => h("option", { selected: name === namespace }, name)))
    : h("input", { value: namespace ?? "", placeholder: "all", size: 14, onchange });
  const leave = () => post("/api/signout").then(() => location.reload());
  return [choosesNamespace && h("label", {}, "Namespace", chosen), user && h("span", {}, user), signsOut && h("button", { class: "action", onclick: leave }, "Sign out")].filter(Boolean);
}
