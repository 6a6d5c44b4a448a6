// Keys, copying, newer rows and the viewer's time zone. Every page works without this file.

const NEWER_EVERY_MS = 15_000;

const rows = () => [...document.querySelectorAll("tbody tr")];
const here = () => document.activeElement?.closest("tbody tr");
const linkOf = (row) => row?.querySelector("a");

function say(text) {
  let line = document.getElementById("said");
  if (!line) {
    line = document.createElement("p");
    line.id = "said";
    line.setAttribute("role", "status");
    document.body.append(line);
  }
  line.textContent = text;
}

function move(by) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(here());
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  const row = all[Math.min(Math.max(next, 0), all.length - 1)];
  const target = linkOf(row);
  target?.focus();
  row.scrollIntoView({ block: "nearest" });
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`copied ${what}`);
  } catch {
    say(text);
  }
}

function copyId() {
  const row = here() ?? document.querySelector("main");
  const id = row?.querySelector("[data-id]")?.dataset.id;
  if (id) copy(id, "the id");
}

function follow(selector) {
  document.querySelector(selector)?.click();
}

let waitsForPlace = false;

const keys = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => document.getElementById("help")?.showModal(),
  j: () => move(1),
  k: () => move(-1),
  o: () => {
    const link = linkOf(here());
    if (link) window.open(link.href, "_blank", "noopener");
  },
  l: () => follow("nav.pages a[rel=next]"),
  h: () => history.back(),
  c: copyId,
  y: () => copy(location.href, "the link"),
  e: () => follow("a[data-form='.csv']"),
  g: () => {
    waitsForPlace = true;
  },
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape" && field) field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      keys["/"]();
    }
    return;
  }
  if (waitsForPlace) {
    waitsForPlace = false;
    follow(`[data-go="${CSS.escape(event.key)}"]`);
    return;
  }
  const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
  if (act) {
    event.preventDefault();
    act();
  }
});

document.addEventListener("dblclick", (event) => {
  const id = event.target.closest?.("[data-id]")?.dataset.id;
  if (id) copy(id, "the id");
});

for (const time of document.querySelectorAll("time")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) time.title = at.toString();
}

// The rows stay as they are: a line says how many are newer.
const newer = document.querySelector("[data-newer]");

async function lookForNewer() {
  if (document.visibilityState !== "visible") return;
  const answer = await fetch(newer.dataset.newer, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const { newer: count } = await answer.json();
  newer.hidden = count === 0;
  newer.querySelector("a").textContent = `${count > 20 ? "more than 20" : count} newer: show`;
}

if (newer) setInterval(() => lookForNewer().catch(() => {}), NEWER_EVERY_MS);
