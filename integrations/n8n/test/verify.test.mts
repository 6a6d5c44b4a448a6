import assert from 'node:assert/strict';
import { test } from 'node:test';

import { problemOf } from '../dist/nodes/shared/signature.js';
import { vectors } from '../../testing/vectors.mjs';

test('every vector has its verdict', () => {
	for (const { name, header, body, secrets, now, verdict } of vectors) {
		assert.equal(problemOf(header, body, secrets, now) ?? 'valid', verdict, name);
	}
});
