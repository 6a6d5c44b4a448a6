// The vectors of the service's signer.

import { readFileSync } from "node:fs";

const file = new URL("../../docs/reference/signature-vectors.json", import.meta.url);

export const vectors = JSON.parse(readFileSync(file, "utf8")).vectors.map(
  ({ body_base64, ...vector }) => ({ ...vector, body: Buffer.from(body_base64, "base64") }),
);
