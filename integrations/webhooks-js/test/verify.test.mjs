import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { test } from "node:test";
import * as esm from "../dist/esm/index.js";
import { vectors } from "../../testing/vectors.mjs";

const cjs = createRequire(import.meta.url)("../dist/cjs/index.js");

function verdict({ verify, SignatureError }, ...input) {
  try {
    verify(...input);
    return "valid";
  } catch (error) {
    assert(error instanceof SignatureError, error);
    return error.reason;
  }
}

for (const [kind, module] of Object.entries({ esm, cjs })) {
  test(`every vector has its verdict, as ${kind}`, () => {
    assert(vectors.length > 50);
    for (const { name, header, body, secrets, now, verdict: expected } of vectors) {
      assert.equal(verdict(module, header, body, secrets, now), expected, name);
    }
  });
}

test("a body can be text, and a secret can stand alone", () => {
  const { header, body, secrets, now } = vectors[0];
  assert.equal(verdict(esm, header, body.toString(), secrets[0], now), "valid");
  assert.equal(verdict(esm, header, new Uint8Array(body), secrets[0], now), "valid");
});

test("without a time the clock of this machine is asked", () => {
  const { header, body, secrets } = vectors[0];
  assert.equal(verdict(esm, header, body, secrets), "stale");
  const t = Math.floor(Date.now() / 1000);
  const v1 = createHmac("sha256", secrets[0]).update(`${t}.`).update(body).digest("hex");
  assert.equal(verdict(esm, `t=${t},v1=${v1}`, body, secrets), "valid");
  assert.equal(verdict(esm, `t=${t},v1=${v1}`, body, secrets, Number.NaN), "stale");
});

test("no header is malformed", () => {
  for (const header of [null, undefined]) {
    assert.equal(verdict(esm, header, vectors[0].body, vectors[0].secrets), "malformed");
  }
});

test("a parsed body is a mistake of the program and no bad signature", () => {
  const { header, secrets, now } = vectors[0];
  assert.throws(() => esm.verify(header, { event: "lead_hot" }, secrets, now), {
    name: "TypeError",
    message: /raw body/,
  });
});
