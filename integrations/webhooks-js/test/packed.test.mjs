// The package as a receiver's author gets it: packed, and installed from the archive.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { vectors } from "../../testing/vectors.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "firmforms-webhooks-"));
after(() => rmSync(folder, { recursive: true }));

const run = (program, ...options) =>
  execFileSync(program, options, { cwd: folder, encoding: "utf8" });

const PROGRAM = `
const { name, header, body, secrets, now } = ${JSON.stringify({ ...vectors[0], body: vectors[0].body.toString() })};
verify(header, body, secrets, now);
try {
  verify(header, body + " ", secrets, now);
} catch (error) {
  console.log(error instanceof SignatureError, error.reason, EVENTS.length);
}
`;

const TYPED = `
import { type KnownEvent, SignatureError, verify } from "firmforms-webhooks";

export function receive(header: string | undefined, body: Buffer): string {
  try {
    verify(header, body, ["whsec_new", "whsec_old"]);
  } catch (error) {
    if (error instanceof SignatureError && error.reason === "stale") return "old";
    throw error;
  }
  const event: KnownEvent = JSON.parse(body.toString());
  switch (event.event) {
    case "booking_made":
      return event.booking?.invitee.email ?? "";
    case "partial_submission":
      return String(event.partial?.answered);
    default:
      return event.report?.title ?? event.respondent.name;
  }
}
`;

test("the archive has the built package, its licence and nothing else", () => {
  const [{ files, filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", folder], {
      cwd: here,
      encoding: "utf8",
    }),
  );
  const paths = files.map(({ path }) => path).sort();
  const built = ["esm", "cjs"].flatMap((kind) =>
    ["events.d.ts", "events.js", "index.d.ts", "index.js", "package.json"].map(
      (file) => `dist/${kind}/${file}`,
    ),
  );
  assert.deepEqual(paths, ["LICENSE", "README.md", "package.json", ...built].sort());
  writeFileSync(join(folder, "package.json"), '{"private": true}');
  run("npm", "install", "--offline", "--ignore-scripts", `./${filename}`);
});

test("it is imported, and required", () => {
  const names = "{ EVENTS, SignatureError, verify }";
  writeFileSync(join(folder, "a.mjs"), `import ${names} from "firmforms-webhooks";${PROGRAM}`);
  writeFileSync(join(folder, "b.cjs"), `const ${names} = require("firmforms-webhooks");${PROGRAM}`);
  for (const file of ["a.mjs", "b.cjs"]) {
    assert.equal(run(process.execPath, file), "true mismatch 10\n");
  }
});

test("its types serve both kinds of module", () => {
  const modules = join(here, "node_modules");
  for (const file of ["typed.mts", "typed.cts"]) {
    writeFileSync(join(folder, file), TYPED);
    const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"];
    const types = ["--types", "node", "--typeRoots", join(modules, "@types")];
    run(process.execPath, join(modules, "typescript/bin/tsc"), ...options, ...types, file);
  }
});
