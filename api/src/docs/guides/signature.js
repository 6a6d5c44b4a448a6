// Checks a signature in the browser. Nothing is sent or kept: the policy of the page forbids it.
// `check` has all rules and touches no page.

const AGE_MAX = 300; // seconds, in either direction
const SECRET_LENGTH = 49; // whsec_ and 43 characters
const utf8 = new TextEncoder();

/** The parts of a header, or why it cannot be read. */
function read(header) {
  const line = header.trim().replace(/^x-service-signature\s*:\s*/i, "");
  if (!line) return { why: "The header is empty." };
  const parts = line.split(",").map((part) => /^\s*(\w+)=(.*?)\s*$/.exec(part) ?? [part]);
  const odd = parts.find((part) => part.length === 1);
  if (odd) return { why: `“${odd[0]}” has not the form name=value.` };
  const values = (name) => parts.filter((part) => part[1] === name).map((part) => part[2]);
  const [times, v1s] = [values("t"), values("v1")];
  if (times.length !== 1) return { why: `t is there ${times.length} times, not once.` };
  const [t] = times;
  if (/^[0-9]{13}$/.test(t)) return { why: "t has milliseconds. It counts seconds." };
  if (!/^[0-9]{1,12}$/.test(t)) return { why: "t is not a number of seconds." };
  if (v1s.length === 0) return { why: "There is no v1." };
  for (const v1 of v1s) {
    if (v1.length !== 64) return { why: `A v1 has ${v1.length} characters, not 64.` };
    if (/^[0-9A-F]*$/.test(v1) && /[A-F]/.test(v1)) return { why: "A v1 is in upper case." };
    if (!/^[0-9a-f]*$/.test(v1)) return { why: "A v1 is not lower-case hexadecimal." };
  }
  return { t, v1s, exact: line === `t=${t},v1=${v1s[0]}` };
}

/** HMAC-SHA256 of "<t>.<body>" in hexadecimal. */
async function sign(secret, t, body) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", utf8.encode(secret), algorithm, false, ["sign"]);
  const text = await new Blob([`${t}.`, body]).arrayBuffer();
  const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, text));
  return Array.from(signed, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The text of a body, if it is UTF-8. */
function textOf(body) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return null;
  }
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON without white space between its tokens. */
function compact(text) {
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
}

/** Secrets that a known mistake turns into this one, each with the mistake. */
function secretsBefore(secret) {
  const bare = secret.trim().replace(/^(["'])(.*)\1$/, "$2");
  return [
    ["", secret],
    ["The secret has white space or quotes round it.", bare || secret],
    ["The secret lacks its beginning, whsec_, which belongs to the key.", `whsec_${bare}`],
  ];
}

/** Bodies that a known mistake turns into this one, each with the mistake. */
function bodiesBefore(body, text) {
  const before = [["", body]];
  if (text === null) return before;
  before.push(["The body begins or ends with white space that was not sent.", text.trim()]);
  if (isJson(text)) {
    const parsed = "The body was parsed and written again. Keep the raw bytes, before any parsing.";
    before.push([parsed, compact(text)], [parsed, JSON.stringify(JSON.parse(text))]);
  }
  return before;
}

/** Likely reasons, if no known mistake explains the signature. */
function hints(secret, body, text) {
  if (secret.startsWith("ffk_")) return ["The secret is an API key, not the webhook secret."];
  const hints = [];
  if (!secret.startsWith("whsec_")) hints.push("The secret does not begin with whsec_.");
  else if (secret.length !== SECRET_LENGTH) {
    hints.push(`The secret has ${secret.length} characters, not ${SECRET_LENGTH}.`);
  }
  if (body.length === 0) hints.push("The body is empty.");
  else if (text === null) hints.push("The body is not UTF-8: its bytes were changed.");
  else if (!isJson(text)) hints.push("The body is not JSON: it was cut or changed.");
  else if (compact(text) !== text) {
    hints.push("The body has white space between its parts: it was written again.");
  } else if (hints.length === 0) {
    hints.push("The body looks whole. The secret may be another firm's, or an old one.");
  }
  return hints;
}

/** Seconds in words. */
function span(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const words = units.map(([unit, length]) => {
    const count = Math.floor(seconds / length);
    seconds %= length;
    return count && `${count} ${unit}${count === 1 ? "" : "s"}`;
  });
  return words.filter(Boolean).join(" ") || "0 seconds";
}

/**
 * Whether a signature holds. `body` is bytes, `now` is in seconds. The verdict is one of `holds`,
 * `old`, `early`, `differs`, `unreadable` and `incomplete`. `says` are sentences for people.
 */
export async function check({ header, body, secret, now }) {
  const { why, t, v1s, exact } = read(header);
  if (why) return { verdict: "unreadable", says: [why] };
  if (!secret.trim()) return { verdict: "incomplete", says: ["The secret is empty."] };
  const age = now - Number(t);
  const at = new Date(Number(t) * 1000).toISOString();
  const time = `t is ${span(Math.abs(age))} ${age < 0 ? "ahead of your clock" : "old"}: ${at}.`;
  const odd = "The service writes t, then one v1, without spaces. Strict receivers refuse more.";
  const form = exact ? [] : [odd];
  const text = textOf(body);
  for (const [wrongSecret, oneSecret] of secretsBefore(secret)) {
    for (const [wrongBody, oneBody] of bodiesBefore(body, text)) {
      const place = v1s.indexOf(await sign(oneSecret, t, oneBody));
      if (place < 0) continue;
      if (wrongSecret || wrongBody) {
        return { verdict: "differs", says: [wrongSecret, wrongBody, time].filter(Boolean) };
      }
      const verdict = age > AGE_MAX ? "old" : age < -AGE_MAX ? "early" : "holds";
      const which = v1s.length > 1 ? [`Number ${place + 1} of ${v1s.length} v1 is the one.`] : [];
      return { verdict, says: [time, ...which, ...form] };
    }
  }
  return { verdict: "differs", says: [...hints(secret, body, text), time, ...form] };
}

const TITLES = {
  holds: "The signature holds.",
  old: "The signature holds, and t is too old: a receiver refuses more than 5 minutes.",
  early: "The signature holds, and t is in the future: a receiver refuses more than 5 minutes.",
  differs: "The signature differs.",
  unreadable: "The header cannot be read.",
  incomplete: "Something is missing.",
};

/** Joins `check` to the page. */
function start() {
  const [tool, header, body, file, secret, verdict] = [
    "tool", "header", "body", "file", "secret", "verdict",
  ].map((id) => document.getElementById(id));
  let newest = 0;

  function show(kind, title, says) {
    const heading = document.createElement("strong");
    heading.textContent = title;
    const items = says.map((sentence) => {
      const item = document.createElement("li");
      item.textContent = sentence;
      return item;
    });
    const list = document.createElement("ul");
    list.append(...items);
    verdict.className = kind;
    verdict.replaceChildren(heading, list);
  }

  async function update() {
    const mine = ++newest;
    if (!header.value && !secret.value) return verdict.replaceChildren();
    const chosen = file.files[0];
    const bytes = chosen ? new Uint8Array(await chosen.arrayBuffer()) : utf8.encode(body.value);
    const now = Math.floor(Date.now() / 1000);
    const { verdict: kind, says } = await check({
      header: header.value, body: bytes, secret: secret.value, now,
    });
    if (mine === newest) show(kind, TITLES[kind], says);
  }

  async function example() {
    secret.value = "whsec_for-trying-only-0123456789abcdefghijklmnopq";
    body.value = '{"event":"form_submitted","response":{"lang":"en"}}';
    file.value = "";
    const t = Math.floor(Date.now() / 1000);
    header.value = `t=${t},v1=${await sign(secret.value, t, utf8.encode(body.value))}`;
    await update();
  }

  tool.hidden = false;
  if (!crypto.subtle) {
    show("unreadable", "This browser computes signatures on https pages only.", []);
    return;
  }
  body.addEventListener("input", () => (file.value = ""));
  file.addEventListener("input", () => (body.value = ""));
  tool.addEventListener("input", update);
  document.getElementById("example").addEventListener("click", example);
}

if (typeof document !== "undefined") start();
