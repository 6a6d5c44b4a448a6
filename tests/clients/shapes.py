"""The models that the generators made: plain ones, with the fields that the API has, and one error
for all of it. Works in the folder of ./scripts/clients."""

import inspect
import os
import sys

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "generated")]

import firm_forms.models as by_openapi_python_client
import models as by_datamodel_code_generator
import openapi_client.models as by_openapi_generator

EXPECTED = {
    "NewHook": {"target_url", "trigger", "event", "form_id"},
    "FormInvite": {"ok", "status", "reason", "email_id", "url", "ignored"},
    "Error": {"error", "code"},
    "Hook": {"id", "trigger", "target_url", "form_id", "created_at"},
}


def fields(model):
    found = getattr(model, "model_fields", None) or inspect.signature(model).parameters
    return {name.rstrip("_") for name in found} - {"additional_properties"}


for module in (by_openapi_python_client, by_datamodel_code_generator, by_openapi_generator):
    for name, expected in EXPECTED.items():
        assert fields(getattr(module, name)) == expected, (module.__name__, name)
    odd = [name for name in dir(module) if name.startswith(("CreateHookResponse", "NewHookType"))]
    assert not odd, (module.__name__, odd)
print("clients: the models are plain")
