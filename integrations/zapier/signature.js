'use strict';

const { createHmac, timingSafeEqual } = require('node:crypto');

const AGE_MAX_SECONDS = 300;

/**
 * Why the request is refused (malformed, stale, mismatch), or null if one of the secrets signed this
 * body within 5 minutes of now. An empty secret verifies nothing.
 */
const problemOf = (header, body, secrets, now) => {
  const [, t, v1] = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(header ?? '') ?? [];
  if (!v1) return 'malformed';
  if (Math.abs(Math.floor(now) - Number(t)) > AGE_MAX_SECONDS) return 'stale';
  const given = Buffer.from(v1, 'hex');
  const signs = (secret) =>
    timingSafeEqual(createHmac('sha256', secret).update(`${t}.`).update(body).digest(), given);
  return secrets.filter(Boolean).some(signs) ? null : 'mismatch';
};

/** The secrets of a connection. A connection without one is refused: everybody could send events. */
const secretsOf = ({ signing_secret }, z) => {
  const secrets = (signing_secret ?? '').split(/[\s,]+/).filter(Boolean);
  if (secrets.length > 0) return secrets;
  throw new z.errors.Error(
    'The connection has no webhook signing secret. Edit the connection, and enter the secret of the firm: it begins with whsec_.',
    'no_secret',
    400,
  );
};

/** Zapier writes names of headers in its own way, sometimes with `Http-` before them. */
const headerOf = (headers, name) => {
  const wanted = [name, `http-${name}`];
  const found = Object.entries(headers ?? {}).find(([it]) => wanted.includes(it.toLowerCase()));
  return found?.[1];
};

module.exports = { headerOf, problemOf, secretsOf };
