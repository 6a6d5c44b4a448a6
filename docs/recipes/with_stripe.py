"""Receives deliveries in FastAPI with Stripe's library: pip install stripe fastapi uvicorn.
Run: WEBHOOK_SECRET=whsec_... uvicorn with_stripe:app --port 9000"""

import json, os
import stripe
from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/hooks")
async def receive(request: Request):
    body = await request.body()  # the raw bytes
    header = request.headers.get("X-Service-Signature", "")
    try:
        stripe.WebhookSignature.verify_header(
            body.decode(), header, os.environ["WEBHOOK_SECRET"], tolerance=300
        )
    except (ValueError, stripe.SignatureVerificationError):
        print("refused wrong signature", flush=True)
        return Response(status_code=401)
    event = json.loads(body)["event"]
    print(f"accepted {request.headers['X-Service-Delivery']} {event}", flush=True)
    return Response(status_code=204)
