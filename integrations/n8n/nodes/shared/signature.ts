import { createHmac, timingSafeEqual } from 'node:crypto';

const AGE_MAX_SECONDS = 300;

/** A request can be repeated until its time is 5 minutes past, and that may be 5 minutes ahead. */
const REPEAT_MAX_SECONDS = 2 * AGE_MAX_SECONDS;

interface Accepted {
	deliveryId: string | undefined;
	until: number;
}

/** Signatures that were accepted at a URL, the oldest first. */
const accepted = new Map<string, Accepted>();

export type SignatureProblem = 'malformed' | 'stale' | 'mismatch';

/**
 * Why the request is refused, or undefined if one of the secrets signed this body within 5 minutes of
 * now (unix seconds). An empty secret verifies nothing.
 */
export function problemOf(
	header: string | undefined,
	body: Uint8Array,
	secrets: readonly string[],
	now: number,
): SignatureProblem | undefined {
	const [, t, v1] = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(header ?? '') ?? [];
	if (!v1) return 'malformed';
	if (Math.abs(Math.floor(now) - Number(t)) > AGE_MAX_SECONDS) return 'stale';
	const given = Buffer.from(v1, 'hex');
	const signs = (secret: string) =>
		timingSafeEqual(createHmac('sha256', secret).update(`${t}.`).update(body).digest(), given);
	return secrets.filter(Boolean).some(signs) ? undefined : 'mismatch';
}

export function secretsOf(credentials: { signingSecret?: string }): string[] {
	return (credentials.signingSecret ?? '').split(/[\s,]+/).filter(Boolean);
}

/**
 * Whether this verified signature came to this URL before, under another delivery id. The id is not
 * signed, and each attempt of the service has a signature of its own. Two subscriptions, which have
 * two URLs, may share one. This process alone remembers.
 */
export function isRepeated(
	url: string,
	signature: string,
	deliveryId: string | undefined,
	now: number,
): boolean {
	for (const [old, { until }] of accepted) {
		if (until > now) break;
		accepted.delete(old);
	}
	const name = `${url} ${signature}`;
	const known = accepted.get(name);
	if (!known) accepted.set(name, { deliveryId, until: now + REPEAT_MAX_SECONDS });
	return known !== undefined && known.deliveryId !== deliveryId;
}
