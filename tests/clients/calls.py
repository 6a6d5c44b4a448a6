"""Calls a service with the client that openapi-python-client made."""

import json
import os
import sys
import uuid

sys.path.insert(0, os.getcwd())

from firm_forms import AuthenticatedClient
from firm_forms.api.account import get_me
from firm_forms.api.forms import create_link, get_form, list_forms
from firm_forms.api.hooks import create_hook, delete_hook, list_hooks
from firm_forms.models import Error, NewHook, NewLink, TriggerKey

with open(os.environ["CLIENTS_KEYS"]) as file:
    one = json.load(file)[0]
url = os.environ["CLIENTS_URL"]
client = AuthenticatedClient(base_url=url, token=one["key"])

me = get_me.sync_detailed(client=client, x_request_id="clients:1")
assert me.status_code == 200 and me.parsed.firm.name == "Firm 0", me
assert me.headers["x-request-id"] == "clients:1", me.headers
assert me.headers["ratelimit"].startswith('"key";r=119;t='), me.headers

forms = list_forms.sync_detailed(client=client)
assert len(forms.parsed) == 2, forms
assert list_forms.sync_detailed(client=client, if_none_match=forms.headers["etag"]).status_code == 304
form = get_form.sync(uuid.UUID(one["form"]), client=client)
assert form.hidden_fields[0].key == "partner", form
link = create_link.sync(uuid.UUID(one["form"]), client=client, body=NewLink())
assert link.url == form.url, link

new = NewHook(target_url="https://93.184.216.34/catch", trigger=TriggerKey.FORM_SUBMITTED)
hook, again = (
    create_hook.sync(client=client, body=new, idempotency_key="clients 1") for _ in range(2)
)
assert hook == again and hook.trigger == "form_submitted", (hook, again)
assert [one.id for one in list_hooks.sync(client=client)] == [hook.id]
assert delete_hook.sync(hook.id, client=client).ok
gone = delete_hook.sync(hook.id, client=client)
assert isinstance(gone, Error) and gone.code == "not_found", gone
nobody = get_me.sync(client=AuthenticatedClient(base_url=url, token="wrong"))
assert isinstance(nobody, Error) and nobody.code == "unauthorized", nobody
print("clients: openapi-python-client calls")
