"""Receivers in frameworks and with Stripe's libraries, against deliveries of a running service. Each
accepts a real delivery and refuses forged ones. Works in the folder of ./scripts/clients."""

import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import uuid

RECIPES = os.environ["CLIENTS_RECIPES"]
INTERNAL, TOKEN = os.environ["CLIENTS_INTERNAL"], os.environ["CLIENTS_TOKEN"]
PUBLIC, BINARY = os.environ["CLIENTS_URL"], os.environ["CLIENTS_BINARY"]
with open(os.environ["CLIENTS_KEYS"]) as file:
    ONE = json.load(file)[2]
revealed = subprocess.check_output(
    [BINARY, "secrets", "reveal", "--quiet", "--firm", ONE["firm"]], text=True
)
SECRET = revealed.strip()
OTHER = "whsec_" + "A" * 43

UVICORN = [sys.executable, "-m", "uvicorn", "--port", "0", "--app-dir", RECIPES]
CONFIG_RU = os.path.join(os.path.dirname(__file__), "config.ru")
# Node looks for packages in the folder of a file: the script has copied the recipes there.
COMMANDS = {
    "Express": ["node", "npm/express.mjs"],
    "FastAPI": [*UVICORN, "fastapi_app:app"],
    "Stripe's library in Node": ["node", "npm/with_stripe.mjs"],
    "Stripe's library in Python": [*UVICORN, "with_stripe:app"],
    "Rails": ["puma", "-b", "tcp://127.0.0.1:0", CONFIG_RU],
}


def call(url, method="GET", body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def submit():
    """Reports a response to the form, with texts that another JSON library writes differently."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    data = {
        "response_id": str(uuid.uuid4()), "form_id": ONE["form"], "submitted_at": now,
        "respondent": {"name": "Zoé </script> 🎉", "email": "zoe@example.com"},
        "answers": [{"id": "q1", "question": "Why?", "type": "long_text", "answer": "a\n\"b\" / c"}],
        "variables": {"score": 1.50}, "hidden": {"partner": "Northwind"},
    }
    event = {
        "specversion": "1.0", "id": str(uuid.uuid4()), "source": "urn:clients", "time": now,
        "type": "response.submitted", "firmid": ONE["firm"], "data": data,
    }
    headers = {"Authorization": f"Bearer {TOKEN}"}
    kind = {"Content-Type": "application/cloudevents-batch+json"}
    call(f"{INTERNAL}/internal/v1/activity", "POST", [event], **headers, **kind)


def sign(secret, t, body):
    return f"t={t},v1={hmac.new(secret.encode(), b'%d.' % t + body, hashlib.sha256).hexdigest()}"


class Receiver:
    """A receiver as a process, and the lines that it prints."""

    def __init__(self, command):
        secrets = {"WEBHOOK_SECRETS": f"{OTHER[:-1]}B,{SECRET}", "WEBHOOK_SECRET": SECRET}
        env = {**os.environ, **secrets, "PORT": "0", "FORCE_COLOR": "0", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.port = int(self.line(r"127\.0\.0\.1:([0-9]+)")[1])

    def line(self, pattern):
        said = []
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found
            said.append(line)
        raise AssertionError(f"the receiver ended: {''.join(said)}")

    def post(self, body, signature, delivery):
        headers = {"Content-Type": "application/json", "X-Service-Delivery": delivery}
        if signature is not None:
            headers["X-Service-Signature"] = signature
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/hooks", body, headers)
        return connection.getresponse().status

    def stop(self):
        self.process.terminate()
        self.process.wait()


def takes_real_deliveries_only(name, receiver):
    key = {"X-API-Key": ONE["key"], "Content-Type": "application/json"}
    target = f"http://127.0.0.1:{receiver.port}/hooks"
    new = {"trigger": "form_submitted", "target_url": target}
    hook = call(f"{PUBLIC}/hooks", "POST", new, **key)
    submit()
    said = receiver.line(r"(accepted|refused) (\S+)( form_submitted)?")
    assert said[1] == "accepted" and said[3], said[0]
    call(f"{PUBLIC}/hooks/{hook['id']}", "DELETE", **key)

    body = '{"event": "lead_hot", "name": "Zoé"}'.encode()
    now = int(time.time())
    good = sign(SECRET, now, body)
    forged = {
        "no header": (body, None),
        "an empty header": (body, ""),
        "another body": (body.replace(b"hot", b"hat"), good),
        "another time": (body, good.replace(f"t={now}", f"t={now + 1}")),
        "another secret": (body, sign(OTHER, now, body)),
        "an old signature": (body, sign(SECRET, now - 400, body)),
        "a body that is not UTF-8": (b"\xff", good),
    }
    delivery = str(uuid.uuid4())
    for what, (sent, signature) in forged.items():
        status = receiver.post(sent, signature, delivery)
        assert status == 401, (name, what, status)
        receiver.line("^refused")
    assert receiver.post(body, good, delivery) == 204
    assert receiver.line(r"accepted (\S+) lead_hot")[1] == delivery
    print(f"clients: {name} takes a real delivery and refuses {len(forged)} forged ones")


for name, command in COMMANDS.items():
    if not shutil.which(command[0]):
        print(f"clients: SKIPPED {name}: no {command[0]} on this machine")
        continue
    receiver = Receiver(command)
    try:
        takes_real_deliveries_only(name, receiver)
    finally:
        receiver.stop()
