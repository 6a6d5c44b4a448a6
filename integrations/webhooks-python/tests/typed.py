"""Checked by mypy, and not run: the types that a receiver's author sees."""

import json
from typing import Optional

from firmforms_webhooks import EventPayload, SignatureError, verify


def receive(header: Optional[str], body: bytes) -> str:
    try:
        verify(header, body, ["whsec_new", "whsec_old"])
    except SignatureError as error:
        return error.reason
    event: EventPayload = json.loads(body)
    if "booking" in event:
        return event["booking"]["invitee"]["email"]
    report = event["report"]
    return event["respondent"]["name"] if report is None else report["title"]
