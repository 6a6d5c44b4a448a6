"""Reports firms with forms to a running service and makes keys for them: a key has 120 calls a
minute, a firm 25 keys. Prints them as JSON: [{"key": ..., "form": ..., "firm": ...}, ...]."""

import json
import sys
import urllib.request
import uuid

FIRMS = 4
KEYS = 25
TIME = "2026-11-01T09:00:00.000Z"
internal, token = sys.argv[1:]


def post(path, kind, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    data = json.dumps(body).encode()
    request = urllib.request.Request(internal + path, data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def event(firm, kind, data):
    return {
        "specversion": "1.0", "id": str(uuid.uuid4()), "source": "urn:schemathesis", "type": kind,
        "time": TIME, "firmid": firm, "data": data,
    }


def form(form_id, status):
    return {
        "form_id": form_id, "title": "Intake", "slug": "intake", "status": status,
        "url": "https://forms.example.com/f/intake", "created_at": TIME,
        "hidden_fields": [{"key": "partner", "label": "Partner"}],
    }


def response(form_id):
    return {
        "response_id": str(uuid.uuid4()), "form_id": form_id, "submitted_at": TIME,
        "respondent": {"name": "Ann Example", "email": "ann@example.com"},
        "answers": [{"id": "q1", "question": "Why?", "type": "long_text", "answer": "Because"}],
        "variables": {"score": 7.5, "tags": ["a"]}, "hidden": {"partner": "Northwind"},
    }


def open_firm(number):
    firm, owner, published = (str(uuid.uuid4()) for _ in range(3))
    plan = {"leads_in_full": True}
    events = [
        event(firm, "firm.opened", {"name": f"Firm {number}", "plan": plan}),
        event(firm, "member.joined", {"member_id": owner, "role": "owner"}),
        event(firm, "form.created", form(str(uuid.uuid4()), "draft")),
        event(firm, "form.created", form(published, "published")),
    ]
    if number % 2:
        events.append(event(firm, "response.submitted", response(published)))
    post("/internal/v1/activity", "application/cloudevents-batch+json", events)
    keys = f"/internal/v1/firms/{firm}/keys"
    for n in range(KEYS):
        made = post(keys, "application/json", {"member_id": owner, "name": f"key {n}"})
        yield {"key": made["key"], "form": published, "firm": firm}


print(json.dumps([key for number in range(FIRMS) for key in open_firm(number)]))
