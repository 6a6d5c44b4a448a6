"""Reports a firm with a form to each cell through the router, and makes two keys of it. Prints them as
JSON: [{"cell": ..., "firm": ..., "form": ..., "keys": [...], "token": ...}, ...]."""

import json
import sys
import urllib.request
import uuid

TIME = "2026-11-01T09:00:00.000Z"
internal, *token_files = sys.argv[1:]


def cell(number, token):
    def post(path, kind, body):
        headers = {
            "Authorization": f"Bearer {token}", "Content-Type": kind, "X-Firmforms-Cell": number,
        }
        request = urllib.request.Request(
            f"http://{internal}/internal/v1{path}", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def event(kind, data):
        return {
            "specversion": "1.0", "id": str(uuid.uuid4()), "source": "urn:load", "type": kind,
            "time": TIME, "firmid": firm, "data": data,
        }

    firm, owner, form = (str(uuid.uuid4()) for _ in range(3))
    plan = {"leads_in_full": True}
    new_form = {
        "form_id": form, "title": "Intake", "slug": "intake", "status": "published",
        "url": "https://forms.example.com/f/intake", "created_at": TIME, "hidden_fields": [],
    }
    events = [
        event("firm.opened", {"name": f"Firm {number}", "plan": plan}),
        event("member.joined", {"member_id": owner, "role": "owner"}),
        event("form.created", new_form),
    ]
    post("/activity", "application/cloudevents-batch+json", events)
    new_key = {"member_id": owner, "name": "load"}
    keys = [post(f"/firms/{firm}/keys", "application/json", new_key)["key"] for _ in range(2)]
    return {"cell": number, "firm": firm, "form": form, "keys": keys, "token": token}


made = []
for number, file in enumerate(token_files):
    with open(file) as token:
        made.append(cell(str(number), token.read().strip()))
print(json.dumps(made))
