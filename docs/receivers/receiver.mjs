// Receives deliveries. Run: PORT=9000 WEBHOOK_SECRETS=whsec_... node receiver.mjs

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const SECRETS = process.env.WEBHOOK_SECRETS.split(",").filter(Boolean);
const GONE = process.env.GONE; // the path of a subscription that you want to end
const BODY_MAX = 4 * 1024 * 1024;
// For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
const seen = new Set();

/** Throws unless one of the secrets signed this body within 5 minutes of now. */
function verify(header, body, secrets) {
  const [, t, v1] = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(header) ?? [];
  if (!v1) throw new Error("malformed signature");
  if (Math.abs(Math.floor(Date.now() / 1000) - Number(t)) > 300) throw new Error("stale signature");
  for (const secret of secrets) {
    const signed = createHmac("sha256", secret).update(`${t}.`).update(body).digest();
    if (timingSafeEqual(signed, Buffer.from(v1, "hex"))) return;
  }
  throw new Error("wrong signature");
}

/** The raw bytes, before anything parses them. */
async function rawBody(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > BODY_MAX) throw Object.assign(new Error("too large"), { status: 413 });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function receive(request) {
  const body = await rawBody(request);
  verify(request.headers["x-service-signature"] ?? "", body, SECRETS);
  const delivery = request.headers["x-service-delivery"];
  if (!delivery) return [400, "refused no delivery id"];
  if (request.url === GONE) return [410, "refused gone"];
  const { event } = JSON.parse(body); // from the body: the headers are not signed
  if (seen.has(delivery)) return [204, `duplicate ${delivery}`];
  seen.add(delivery); // for a real one: store the id and the work to do in one transaction
  return [204, `accepted ${delivery} ${event}`];
}

const server = createServer(async (request, response) => {
  const refuse = (why) => [why.status ?? 401, `refused ${why.message}`];
  const [status, line] = await receive(request).catch(refuse);
  console.log(line);
  response.writeHead(status).end();
});
server.listen(Number(process.env.PORT), "127.0.0.1", () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
