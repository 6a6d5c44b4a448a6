// Receives deliveries in Express with Stripe's library: npm install express stripe.
// Run: PORT=9000 WEBHOOK_SECRET=whsec_... node with_stripe.mjs

import express from "express";
import { Stripe } from "stripe";

const stripe = new Stripe("sk_unused"); // verifying needs no key of Stripe
const app = express();

app.post("/hooks", express.raw({ type: () => true, limit: "4mb" }), (request, response) => {
  let payload;
  try {
    const header = request.get("X-Service-Signature") ?? "";
    payload = stripe.webhooks.constructEvent(request.body, header, process.env.WEBHOOK_SECRET);
  } catch {
    console.log("refused wrong signature");
    return response.status(401).end();
  }
  console.log(`accepted ${request.get("X-Service-Delivery")} ${payload.event}`);
  response.status(204).end();
});

const server = app.listen(Number(process.env.PORT), "127.0.0.1", () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
