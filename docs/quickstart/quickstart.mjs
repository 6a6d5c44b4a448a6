// From a key to a delivery. Run: BASE=... KEY=ffk_... TARGET=https://... node quickstart.mjs

import { createInterface } from "node:readline/promises";

const { BASE, KEY, TARGET } = process.env;

/** One call. Throws unless the answer is a 2xx. */
async function call(method, path, body) {
  const headers = { "X-API-Key": KEY, "Content-Type": "application/json" };
  const answer = await fetch(BASE + path, { method, headers, body: body && JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status} ${value.code}: ${value.error}`);
  return value;
}

// 1. Test the key
const me = await call("GET", "/me");
console.log(me.firm.name, "-", me.key.name);

// 2. List the triggers
for (const trigger of await call("GET", "/triggers")) {
  console.log(trigger.key, "-", trigger.hint);
}

// 3. See a sample
const [sample] = await call("GET", "/triggers/form_submitted/sample");
console.log(JSON.stringify(sample, null, 2));

// 4. Subscribe
const hook = await call("POST", "/hooks", { trigger: "form_submitted", target_url: TARGET });
console.log("subscribed", hook.id);

// 5. Receive
const terminal = createInterface({ input: process.stdin, output: process.stdout });
await terminal.question("Submit a form, then press Enter.\n");
terminal.close();

// 6. Unsubscribe
console.log(await call("DELETE", `/hooks/${hook.id}`));
