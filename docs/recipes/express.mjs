// Receives deliveries in Express: npm install express.
// Run: PORT=9000 WEBHOOK_SECRETS=whsec_... node express.mjs

import { createHmac, timingSafeEqual } from "node:crypto";
import express from "express";

const SECRETS = process.env.WEBHOOK_SECRETS.split(",").filter(Boolean);
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

const app = express();

// Before express.json(), and for any type: a parsed body has lost its bytes.
app.post("/hooks", express.raw({ type: () => true, limit: "4mb" }), (request, response) => {
  try {
    verify(request.get("X-Service-Signature") ?? "", request.body, SECRETS);
  } catch (why) {
    console.log(`refused ${why.message}`);
    return response.status(401).end();
  }
  const delivery = request.get("X-Service-Delivery");
  const { event } = JSON.parse(request.body); // from the body: the headers are not signed
  const isNew = !seen.has(delivery);
  seen.add(delivery); // for a real one: store the id and the work to do in one transaction
  console.log(isNew ? `accepted ${delivery} ${event}` : `duplicate ${delivery}`);
  response.status(204).end();
});

app.use(express.json()); // for the routes that follow

const server = app.listen(Number(process.env.PORT), "127.0.0.1", () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
