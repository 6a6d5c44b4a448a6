"""Runs against the installed package: python -m unittest discover integrations/webhooks-python/tests"""

import hashlib
import hmac
import json
import math
import time
import unittest

import firmforms_webhooks
from firmforms_webhooks import EVENTS, EventPayload, SignatureError, events, verify
from vectors import ROOT, VECTORS


def verdict(*given):
    try:
        verify(*given)
    except SignatureError as error:
        return error.reason
    return "valid"


class TestVerify(unittest.TestCase):
    def test_the_package_is_the_installed_one(self):
        self.assertIn("site-packages", firmforms_webhooks.__file__)

    def test_every_vector_has_its_verdict(self):
        self.assertGreater(len(VECTORS), 50)
        for it in VECTORS:
            with self.subTest(it["name"]):
                given = it["header"], it["body"], it["secrets"], it["now"]
                self.assertEqual(verdict(*given), it["verdict"])

    def test_a_secret_can_stand_alone_and_secrets_can_come_one_by_one(self):
        header, body, (first, second), now = (VECTORS[1][n] for n in ("header", "body", "secrets", "now"))
        self.assertEqual(verdict(header, body, second, now), "valid")
        self.assertEqual(verdict(header, body, iter([first, second]), now), "valid")
        self.assertEqual(verdict(header, memoryview(body), second, now), "valid")

    def test_without_a_time_the_clock_of_this_machine_is_asked(self):
        header, body, secrets = (VECTORS[0][name] for name in ("header", "body", "secrets"))
        self.assertEqual(verdict(header, body, secrets), "stale")
        t = str(int(time.time())).encode()
        v1 = hmac.new(secrets[0].encode(), t + b"." + body, hashlib.sha256).hexdigest()
        self.assertEqual(verdict(f"t={t.decode()},v1={v1}", body, secrets), "valid")
        self.assertEqual(verdict(f"t={t.decode()},v1={v1}", body, secrets, math.nan), "stale")

    def test_no_header_is_malformed(self):
        self.assertEqual(verdict(None, b"", ["whsec_"]), "malformed")

    def test_a_parsed_body_is_a_mistake_of_the_program_and_no_bad_signature(self):
        for body in ({"event": "lead_hot"}, "text"):
            with self.assertRaisesRegex(TypeError, "raw body"):
                verify(VECTORS[0]["header"], body, ["whsec_"], VECTORS[0]["now"])

    def test_stripes_library_agrees_with_the_vectors(self):
        from unittest import mock

        from stripe import SignatureVerificationError, WebhookSignature

        def accepts(it, secret):
            try:
                body = it["body"].decode()
                with mock.patch("time.time", return_value=it["now"]):
                    return WebhookSignature.verify_header(body, it["header"], secret, 300)
            except (SignatureVerificationError, ValueError, TypeError):
                return False  # a header that is not ASCII is a TypeError

        for it in VECTORS:
            try:
                it["body"].decode()
            except UnicodeDecodeError:
                continue  # Stripe's library takes text
            with self.subTest(it["name"]):
                # It would take an empty secret for one.
                accepted = any(accepts(it, secret) for secret in it["secrets"] if secret)
                if not (accepted and it["lenient"]):
                    self.assertEqual(accepted, it["verdict"] == "valid")

    def test_every_example_of_the_description_has_the_typed_fields(self):
        webhooks = json.loads((ROOT / "tests/snapshots/openapi.json").read_text())["webhooks"]
        self.assertEqual(sorted(webhooks), sorted(EVENTS))
        for webhook in webhooks.values():
            json_body = webhook["post"]["requestBody"]["content"]["application/json"]
            example = json_body["examples"]["example"]["value"]
            self.assertLessEqual(EventPayload.__required_keys__, set(example))
            self.assertLessEqual(set(example), set(EventPayload.__annotations__))
            self.assertEqual(set(example["respondent"]), set(events.Respondent.__annotations__))


if __name__ == "__main__":
    unittest.main()
