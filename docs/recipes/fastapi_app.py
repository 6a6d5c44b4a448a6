"""Receives deliveries in FastAPI: pip install fastapi uvicorn.
Run: WEBHOOK_SECRETS=whsec_... uvicorn fastapi_app:app --port 9000"""

import hashlib, hmac, json, os, re, time
from fastapi import FastAPI, Request, Response

SECRETS = [secret for secret in os.environ["WEBHOOK_SECRETS"].split(",") if secret]
# For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
SEEN = set()


def verify(header, body, secrets):
    """Raises ValueError unless one of the secrets signed this body within 5 minutes of now."""
    parts = re.fullmatch("t=([0-9]{1,12}),v1=([0-9a-f]{64})", header)
    if not parts:
        raise ValueError("malformed signature")
    t, v1 = parts.groups()
    if abs(int(time.time()) - int(t)) > 300:
        raise ValueError("stale signature")
    for secret in secrets:
        signed = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256)
        if hmac.compare_digest(signed.hexdigest(), v1):
            return
    raise ValueError("wrong signature")


app = FastAPI()


@app.post("/hooks")
async def receive(request: Request):  # no model as a parameter: FastAPI would parse the body
    body = await request.body()  # the raw bytes
    try:
        verify(request.headers.get("X-Service-Signature", ""), body, SECRETS)
    except ValueError as why:
        print(f"refused {why}", flush=True)
        return Response(status_code=401)
    delivery = request.headers.get("X-Service-Delivery")
    event = json.loads(body)["event"]  # from the body: the headers are not signed
    new = delivery not in SEEN
    SEEN.add(delivery)  # for a real one: store the id and the work to do in one transaction
    print(f"accepted {delivery} {event}" if new else f"duplicate {delivery}", flush=True)
    return Response(status_code=204)
