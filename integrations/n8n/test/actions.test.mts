// Credentials, choices and actions against the real service.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import type { INodeParameters } from 'n8n-workflow';

import { FirmformsApi } from '../dist/credentials/FirmformsApi.credentials.js';
import { Firmforms } from '../dist/nodes/Firmforms/Firmforms.node.js';
import { type Firm, Receiver, Service } from '../../testing/service.mjs';
import { PlacedNode } from './platform.mts';

const node = new Firmforms();
const { getForms, getHiddenFields } = node.methods.loadOptions;

let service: Service;
let firm: Firm;

before(async () => {
	service = await Service.start();
	firm = await service.openFirm('Harrow Lane');
});

after(() => service?.stop());

const placed = (parameters: INodeParameters, apiKey = firm.key) =>
	new PlacedNode({ baseUrl: `${service.url}/`, apiKey }, parameters, 'http://127.0.0.1');

async function run(it: PlacedNode, items = 1) {
	const [results] = await node.execute.call(it.execute(items));
	return results!.map(({ json, pairedItem }) => ({ json, pairedItem }));
}

test('the test of the credentials tells a good key from a bad one', async () => {
	const { request } = new FirmformsApi().test;
	assert.equal(request.baseURL, '={{$credentials.baseUrl}}');
	const status = async (key: string) =>
		(await fetch(service.url + request.url, { headers: { 'X-API-Key': key } })).status;
	assert.deepEqual([await status(firm.key), await status('ffk_wrong')], [200, 401]);
});

test('the choices are the forms, their hidden fields, and the tags of campaigns', async () => {
	const forms = await getForms.call(placed({}).load());
	assert.deepEqual(forms.map(({ name }) => name).sort(), ['Draft (draft)', 'Intake']);
	const fields = await getHiddenFields.call(placed({ formId: firm.form }).load());
	const values = fields.map(({ value }) => value);
	assert.deepEqual(values.slice(0, 3), ['partner', 'clé', 'utm_source']);
	assert.equal((await getHiddenFields.call(placed({ formId: '' }).load())).length, 5);
	await assert.rejects(getHiddenFields.call(placed({ formId: firm.id }).load()), {
		httpCode: '404',
	});
});

test('forms are listed, one item each', async () => {
	const results = await run(placed({ operation: 'getAll' }));
	assert.deepEqual(results.map(({ json }) => json.title).sort(), ['Draft', 'Intake']);
});

test('a link is prefilled for each item', async () => {
	const values = [
		{ key: 'partner', value: 'Northwind & Cie' },
		{ key: 'colour', value: 'red' },
	];
	const parameters = {
		operation: 'link',
		formId: firm.form,
		hidden: { values },
		options: { lang: 'fr' },
	};
	const results = await run(placed(parameters), 2);
	assert.deepEqual(
		results.map(({ pairedItem }) => pairedItem),
		[{ item: 0 }, { item: 1 }],
	);
	const { url, ignored } = results[0]!.json;
	assert.equal(new URL(url as string).searchParams.get('partner'), 'Northwind & Cie');
	assert.deepEqual(ignored, ['colour']);
});

test('a form is sent by mail, and a second time it is skipped with a reason', async () => {
	const options = { first_name: 'Ann', name: '', message: 'As we said.', lang: 'en' };
	const it = placed({ operation: 'send', formId: firm.form, email: 'ann@example.com', options });
	assert.equal((await run(it))[0]!.json.status, 'sent');
	assert.match(service.mails().join('\n'), /As we said\./);
	assert.equal((await run(it))[0]!.json.reason, 'already_sent_today');
});

test("an error has the service's words and code, and an item if the node goes on", async () => {
	const it = placed({ operation: 'send', formId: firm.draft, email: 'ann@example.com' });
	await assert.rejects(run(it), { httpCode: '409', description: 'Code: form_not_published' });
	it.continues = true;
	const [failed, ...more] = await run(it, 2);
	assert.match(failed!.json.error as string, /published/);
	assert.deepEqual(more[0]!.pairedItem, { item: 1 });
});

test('too many calls are an error that says how long to wait', async () => {
	const { key } = await firm.makeKey('busy');
	for (let calls = 0; calls < 120; calls++) {
		assert.equal((await fetch(`${service.url}/me`, { headers: { 'X-API-Key': key } })).status, 200);
	}
	const busy = run(placed({ operation: 'getAll' }, key));
	await assert.rejects(busy, { httpCode: '429', description: /Try again in [0-9]+ seconds/ });
});

test('an answer that is not of the service is an error, too', async () => {
	const proxy = await Receiver.start();
	proxy.status = 502;
	const credentials = { baseUrl: proxy.url(''), apiKey: firm.key };
	const it = new PlacedNode(credentials, { operation: 'getAll' }, 'http://127.0.0.1');
	await assert.rejects(run(it), { httpCode: '502', message: /answered 502/ });
	await proxy.stop();
});
