"""Receives deliveries. Run: PORT=9000 WEBHOOK_SECRETS=whsec_... python3 receiver.py"""

import hashlib, hmac, json, os, re, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = [secret for secret in os.environ["WEBHOOK_SECRETS"].split(",") if secret]
GONE = os.environ.get("GONE")  # the path of a subscription that you want to end
BODY_MAX = 4 * 1024 * 1024
# For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
SEEN, LOCK = set(), threading.Lock()


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


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a sender that is silent

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_MAX:
            return self.answer(413, "refused too large")
        body = self.rfile.read(int(length))  # the raw bytes, before anything parses them
        try:
            verify(self.headers.get("X-Service-Signature", ""), body, SECRETS)
            event = json.loads(body)["event"]  # from the body: the headers are not signed
        except ValueError as why:
            return self.answer(401, f"refused {why}")
        if not (delivery := self.headers.get("X-Service-Delivery")):
            return self.answer(400, "refused no delivery id")
        if self.path == GONE:
            return self.answer(410, "refused gone")
        with LOCK:  # for a real one: store the id and the work to do in one transaction
            new = delivery not in SEEN
            SEEN.add(delivery)
        self.answer(204, f"accepted {delivery} {event}" if new else f"duplicate {delivery}")

    do_PUT = do_PATCH = do_POST  # a workflow step may use these

    def answer(self, status, line):
        print(f"{line}\n", end="", flush=True)  # in one piece: there are many threads
        self.send_response_only(status)
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver)
print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
