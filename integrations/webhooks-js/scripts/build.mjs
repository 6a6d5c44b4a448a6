// Builds the package twice: as an ES module and as CommonJS.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const tsc = "node_modules/typescript/bin/tsc";

rmSync("dist", { recursive: true, force: true });
for (const [folder, kind, module, resolution] of [
  ["dist/esm", "module", "nodenext", "nodenext"],
  ["dist/cjs", "commonjs", "commonjs", "node10"],
]) {
  const options = ["--outDir", folder, "--module", module, "--moduleResolution", resolution];
  execFileSync(process.execPath, [tsc, ...options], { stdio: "inherit" });
  writeFileSync(`${folder}/package.json`, `${JSON.stringify({ type: kind })}\n`);
}
