"""From a key to a delivery. Run: BASE=... KEY=ffk_... TARGET=https://... python3 quickstart.py"""

import json, os, urllib.request

BASE, KEY, TARGET = (os.environ[name] for name in ("BASE", "KEY", "TARGET"))


def call(method, path, body=None):
    """One call. Raises urllib.error.HTTPError unless the answer is a 2xx."""
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


# 1. Test the key
me = call("GET", "/me")
print(me["firm"]["name"], "-", me["key"]["name"])

# 2. List the triggers
for trigger in call("GET", "/triggers"):
    print(trigger["key"], "-", trigger["hint"])

# 3. See a sample
[sample] = call("GET", "/triggers/form_submitted/sample")
print(json.dumps(sample, indent=2))

# 4. Subscribe
hook = call("POST", "/hooks", {"trigger": "form_submitted", "target_url": TARGET})
print("subscribed", hook["id"], flush=True)

# 5. Receive
input("Submit a form, then press Enter.\n")

# 6. Unsubscribe
print(call("DELETE", f"/hooks/{hook['id']}"))
