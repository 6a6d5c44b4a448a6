'use strict';

/** The service, with `/api/v1` at the end. It is the same for all connections of the app. */
const baseUrl = () => {
  const url = process.env.BASE_URL;
  if (!url) throw new Error('BASE_URL is not set: see the README of this app');
  return url.replace(/\/+$/, '');
};

/** The URL of a call. Parts of the path are encoded. */
const at = (...parts) => [baseUrl(), ...parts.map(encodeURIComponent)].join('/');

/** Gives calls of the service the key. No other host gets it. */
const authorize = (request, z, bundle) => {
  if (!request.url.startsWith(`${baseUrl()}/`)) return request;
  const headers = { ...request.headers, 'X-API-Key': bundle.authData.api_key };
  return { ...request, headers };
};

/** What the service says; a proxy before it may say something else. */
const readError = ({ content, status }) => {
  try {
    const { error, code } = JSON.parse(content);
    if (typeof error === 'string' && typeof code === 'string') return { error, code };
  } catch {
    // not JSON
  }
  return { error: `The service answered ${status}.`, code: 'internal_error' };
};

/** The error of Zapier for an error of the service. */
const errorOf = (response, z) => {
  const { error, code } = readError(response);
  if (response.status === 429) {
    return new z.errors.ThrottledError(error, Number(response.getHeader('retry-after')) || 60);
  }
  // A key that is revoked stays revoked: the person connects again.
  if (response.status === 401) return new z.errors.ExpiredAuthError(error);
  return new z.errors.Error(error, code, response.status);
};

/** Throws the service's own words, unless the call takes errors itself. */
const explain = (response, z) => {
  if (response.status >= 400 && !response.request.skipThrowForStatus) throw errorOf(response, z);
  return response;
};

module.exports = { at, authorize, errorOf, explain };
