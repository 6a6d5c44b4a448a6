import { createHmac, timingSafeEqual } from 'node:crypto';

const AGE_MAX_SECONDS = 300;

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
