'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { headerOf, problemOf } = require('../signature');

test('every vector has its verdict', async () => {
  const { vectors } = await import('../../testing/vectors.mjs');
  for (const { name, header, body, secrets, now, verdict } of vectors) {
    assert.equal(problemOf(header, body, secrets, now) ?? 'valid', verdict, name);
  }
});

test('a header is found whatever Zapier makes of its name', () => {
  for (const name of ['X-Service-Test', 'x-service-test', 'Http-X-Service-Test']) {
    assert.equal(headerOf({ Accept: '*/*', [name]: '1' }, 'x-service-test'), '1');
  }
  assert.equal(headerOf(undefined, 'x-service-test'), undefined);
});
