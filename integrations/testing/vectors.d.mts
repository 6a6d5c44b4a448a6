/** A case of docs/reference/signature-vectors.json. */
export interface Vector {
  name: string;
  header: string;
  body: Buffer;
  secrets: string[];
  now: number;
  verdict: "valid" | "malformed" | "stale" | "mismatch";
  lenient: boolean;
}

export const vectors: Vector[];
