"""Load on one cell through a router, beside a look at another if there is one: reports submissions
until a file says stop, receives the deliveries, and tells what was lost, what came twice, and the
longest wait of a caller. Started by scripts/rehearse-cell-move and scripts/rehearse-upgrade."""

import hashlib
import http.client
import json
import os
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PUBLIC, INTERNAL = os.environ["LOAD_PUBLIC"], os.environ["LOAD_INTERNAL"]
with open(os.environ["LOAD_CELLS"]) as file:
    LOADED, *OTHERS = json.load(file)
STOP = os.environ["LOAD_STOP"]
# Seconds without a new delivery after which nothing more is expected.
PATIENCE = 30

arrived = {}
lock = threading.Lock()


class Receiver(BaseHTTPRequestHandler):
    """Takes each delivery, and keeps the digest of its body by its id."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            digests = arrived.setdefault(self.headers["X-Service-Delivery"], [])
            digests.append((hashlib.sha256(body).hexdigest(), json.loads(body)["response"]["id"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def call(address, method, path, headers, body=None):
    """The status and the JSON of an answer; None without one."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError):
        return None, None
    finally:
        connection.close()


def submission():
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    data = {
        "response_id": str(uuid.uuid4()), "form_id": LOADED["form"], "submitted_at": now,
        "respondent": {"name": "Ann", "email": "ann@example.com"},
        "answers": [{"id": "q1", "question": "Why?", "type": "short_text", "answer": "because"}],
    }
    return data["response_id"], {
        "specversion": "1.0", "id": str(uuid.uuid4()), "source": "urn:load", "time": now,
        "type": "response.submitted", "firmid": LOADED["firm"], "data": data,
    }


class Waits:
    """The longest time that a caller waited for a good answer, with all tries."""

    def __init__(self):
        self.since, self.longest, self.failed = None, 0.0, 0

    def begins(self):
        """A call begins. After a failure it is another try."""
        if self.since is None:
            self.since = time.monotonic()

    def ends(self, is_good):
        self.failed += not is_good
        self.longest = max(self.longest, time.monotonic() - self.since)
        if is_good:
            self.since = None

    def told(self):
        return f"longest wait {self.longest:.1f} s, {self.failed} failed calls"


def report(taken, waits):
    """Reports submissions one by one, each until it is taken."""
    headers = {
        "Authorization": f"Bearer {LOADED['token']}", "X-Firmforms-Cell": LOADED["cell"],
        "Content-Type": "application/cloudevents-batch+json",
    }
    while not os.path.exists(STOP):
        response, event = submission()
        while True:
            waits.begins()
            status, _ = call(INTERNAL, "POST", "/internal/v1/activity", headers, json.dumps([event]))
            waits.ends(status == 202)
            if status == 202:
                break
            time.sleep(0.05)
        taken.add(response)


def ask(cell, waits):
    """Asks the public API as an integrator of this cell."""
    while not os.path.exists(STOP):
        waits.begins()
        status, _ = call(PUBLIC, "GET", "/api/v1/me", {"X-API-Key": cell["keys"][0]})
        # A rate that is used up is an answer.
        waits.ends(status in (200, 429))
        time.sleep(0.1)


def subscribe(waits):
    """Subscribes and unsubscribes with a key of its own, which stays within its rate."""
    headers = {"X-API-Key": LOADED["keys"][1], "Content-Type": "application/json"}
    hook = json.dumps({"trigger": "lead_hot", "target_url": "https://hooks.example.com/load"})
    while not os.path.exists(STOP):
        waits.begins()
        status, made = call(PUBLIC, "POST", "/api/v1/hooks", headers, hook)
        waits.ends(status == 201)
        time.sleep(1)
        if status == 201:
            waits.begins()
            status, _ = call(PUBLIC, "DELETE", f"/api/v1/hooks/{made['id']}", headers)
            waits.ends(status == 200)
            time.sleep(1)


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    target = f"http://127.0.0.1:{server.server_port}/"
    hook = json.dumps({"trigger": "form_submitted", "target_url": target})
    headers = {"X-API-Key": LOADED["keys"][0], "Content-Type": "application/json"}
    status, made = call(PUBLIC, "POST", "/api/v1/hooks", headers, hook)
    assert status == 201, (status, made)
    taken, of_reports, of_loaded, of_others = set(), Waits(), Waits(), Waits()
    of_hooks = Waits()
    workers = [
        threading.Thread(target=report, args=(taken, of_reports)),
        threading.Thread(target=ask, args=(LOADED, of_loaded)),
        threading.Thread(target=subscribe, args=(of_hooks,)),
        *(threading.Thread(target=ask, args=(other, of_others)) for other in OTHERS),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with lock:
            there = {response for digests in arrived.values() for _, response in digests}
        if taken <= there:
            break
        time.sleep(0.2)
    lost = taken - there
    doubled = [digests for digests in arrived.values() if len(digests) > 1]
    other_bytes = [digests for digests in doubled if len({digest for digest, _ in digests}) > 1]
    deliveries_of = {}
    for delivery, digests in arrived.items():
        deliveries_of.setdefault(digests[0][1], set()).add(delivery)
    other_ids = [ids for ids in deliveries_of.values() if len(ids) > 1]
    print(f"submissions {len(taken)}, lost {len(lost)}, doubled {len(doubled)}, "
          f"of them with other bytes {len(other_bytes)} or another id {len(other_ids)}")
    print(f"reports: {of_reports.told()}")
    print(f"integrators: {of_loaded.told()}")
    print(f"subscriptions: {of_hooks.told()}")
    if OTHERS:
        print(f"the other cell: {of_others.told()}")
    longest = max(of_reports.longest, of_loaded.longest, of_hooks.longest)
    if lost or other_bytes or other_ids or of_others.failed or longest >= 10 or not taken:
        sys.exit("something was lost, doubled or held up too long")


main()
