import { createHmac, timingSafeEqual } from "node:crypto";

export * from "./events.js";

/** A signature is at most so far from the current time, in either direction. */
export const AGE_MAX_SECONDS = 300;

/** Why a request is refused. */
export type SignatureProblem = "malformed" | "stale" | "mismatch";

const SENTENCES: Record<SignatureProblem, string> = {
  malformed: "malformed signature",
  stale: "stale signature",
  mismatch: "wrong signature",
};

/** The request is not from the service, or too old. Answer 401. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";
  readonly reason: SignatureProblem;

  constructor(reason: SignatureProblem) {
    super(SENTENCES[reason]);
    this.reason = reason;
  }
}

/**
 * Throws a {@link SignatureError} unless one of the secrets signed this body within 5 minutes of
 * now. An empty secret verifies nothing. The comparison takes constant time.
 *
 * @param header the value of `X-Service-Signature`; none is malformed
 * @param body the bytes as they arrived, before anything parsed them
 * @param secrets the firm's secret, or two while one is rotated
 * @param now unix seconds; the clock of this machine if left out
 */
export function verify(
  header: string | null | undefined,
  body: Uint8Array | string,
  secrets: string | readonly string[],
  now: number = Date.now() / 1000,
): void {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new TypeError("verify takes the raw body, before anything parses it");
  }
  const [, t, v1] = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(header ?? "") ?? [];
  if (t === undefined || v1 === undefined) throw new SignatureError("malformed");
  // NaN is no time, so it refuses.
  if (!(Math.abs(Math.floor(now) - Number(t)) <= AGE_MAX_SECONDS))
    throw new SignatureError("stale");
  const given = Buffer.from(v1, "hex");
  for (const secret of typeof secrets === "string" ? [secrets] : secrets) {
    if (!secret) continue;
    const signed = createHmac("sha256", secret).update(`${t}.`).update(body).digest();
    if (timingSafeEqual(signed, given)) return;
  }
  throw new SignatureError("mismatch");
}
