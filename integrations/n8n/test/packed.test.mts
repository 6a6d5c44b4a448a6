// The package as n8n gets it: packed, and installed from the archive.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'n8n-nodes-firmforms-'));
after(() => rmSync(folder, { recursive: true }));

const npm = (cwd: string, ...options: string[]) =>
	execFileSync('npm', options, { cwd, encoding: 'utf8' });

test('the archive has all that n8n loads, and no test', () => {
	const packed = npm(here, 'pack', '--json', '--pack-destination', folder);
	const [{ filename, files }] = JSON.parse(packed) as [
		{ filename: string; files: Array<{ path: string }> },
	];
	assert.deepEqual(
		files.filter(({ path }) => /test|\.mts/.test(path)),
		[],
	);
	writeFileSync(join(folder, 'package.json'), '{"private": true}');
	// n8n has the peer already: the node gets its own.
	npm(folder, 'install', '--offline', '--ignore-scripts', '--legacy-peer-deps', `./${filename}`);
	const installed = join(folder, 'node_modules/n8n-nodes-firmforms');
	const { n8n, dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
	assert.equal(dependencies, undefined, 'no run-time dependency');
	for (const path of [...n8n.credentials, ...n8n.nodes] as string[]) {
		assert.ok(existsSync(join(installed, path)), path);
	}
	for (const name of ['Firmforms', 'FirmformsTrigger']) {
		const codex = join(installed, `dist/nodes/${name}/${name}.node.json`);
		assert.match(readFileSync(codex, 'utf8'), /n8n-nodes-firmforms\.firmforms/);
	}
	for (const icon of ['firmforms.svg', 'firmforms.dark.svg']) {
		assert.ok(existsSync(join(installed, 'dist/icons', icon)), icon);
	}
	assert.ok(existsSync(join(installed, 'LICENSE.md')));
});
