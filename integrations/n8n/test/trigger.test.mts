// The trigger's life against the real service.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, test } from 'node:test';

import type { IDataObject } from 'n8n-workflow';

import { FirmformsTrigger } from '../dist/nodes/FirmformsTrigger/FirmformsTrigger.node.js';
import { type Firm, Receiver, Service, until } from '../../testing/service.mjs';
import { type Arrived, type Given, PlacedNode } from './platform.mts';

interface Hook {
	id: string;
	trigger: string;
	target_url: string;
	form_id: string | null;
}

const node = new FirmformsTrigger();
const { checkExists, create, delete: remove } = node.webhookMethods.default;

let service: Service;
let receiver: Receiver;
let firm: Firm;

before(async () => {
	service = await Service.start();
	receiver = await Receiver.start();
});

after(async () => {
	await receiver?.stop();
	await service?.stop();
});

/** A node of a firm of its own. */
async function placed(event = 'form_submitted'): Promise<PlacedNode> {
	firm = await service.openFirm('Harrow Lane');
	const credentials = { baseUrl: service.url, apiKey: firm.key, signingSecret: firm.secret };
	return new PlacedNode(credentials, { event, formId: '' }, receiver.url(`/${firm.id}`));
}

async function ask(method: string, path: string, body?: object): Promise<unknown> {
	const headers = { 'X-API-Key': firm.key, 'Content-Type': 'application/json' };
	const options = { method, headers, body: body && JSON.stringify(body) };
	return (await fetch(service.url + path, options)).json();
}

const hooks = async () => (await ask('GET', '/hooks')) as Hook[];

const urls = async () => (await hooks()).map((hook) => hook.target_url).sort();

/** As n8n switches a webhook on. */
async function activate(it: PlacedNode, mode: 'manual' | 'trigger' = 'trigger'): Promise<string> {
	if (await checkExists.call(it.hook(mode))) return 'found';
	assert.equal(await create.call(it.hook(mode)), true);
	return 'made';
}

const deactivate = (it: PlacedNode, mode: 'manual' | 'trigger' = 'trigger') =>
	remove.call(it.hook(mode));

const arrives = (it: PlacedNode): Promise<Arrived> =>
	receiver.next(new URL(it.urls.trigger).pathname);

/** Hands a request to the node: the item that starts the workflow, or the answer of the node. */
async function hand(it: PlacedNode, request: Arrived, reading: 'early' | 'late' = 'early') {
	const given: Given[] = [];
	const result = await node.webhook.call(it.webhook(request, reading, given));
	assert.equal(result.noWebhookResponse ?? false, given.length > 0);
	return { item: result.workflowData?.[0]?.[0]?.json, answer: given[0] };
}

/** The request with another body, which the firm signed now. */
function signed(request: Arrived, body: Buffer): Arrived {
	const t = Math.floor(Date.now() / 1000);
	const v1 = createHmac('sha256', firm.secret).update(`${t}.`).update(body).digest('hex');
	return { headers: { ...request.headers, 'x-service-signature': `t=${t},v1=${v1}` }, body };
}

for (const { value } of node.description.properties[0]!.options as Array<{ value: string }>) {
	test(`${value}: is made, receives, verifies, and is removed`, async () => {
		const it = await placed(value);
		assert.equal(await activate(it), 'made');
		await firm.happen(value);
		const request = await arrives(it);
		const { item } = await hand(it, request);
		assert.equal(item!.event, value);
		assert.match(item!.id as string, new RegExp(`^${value}:[0-9a-f-]{36}`));
		assert.equal(item!.delivery_id, request.headers['x-service-delivery']);
		assert.equal((item!.respondent as IDataObject).name, 'Zoé </script> 🎉');
		assert.deepEqual((await hand(it, request, 'late')).item, item);
		assert.equal(await deactivate(it), true);
		assert.deepEqual(await hooks(), []);
		assert.equal(await deactivate(it), true, 'it is gone already');
	});
}

test('the node has an option for each event that the service offers', async () => {
	await placed();
	const offered = ((await ask('GET', '/triggers')) as Array<{ key: string }>).map(({ key }) => key);
	const options = node.description.properties[0]!.options as Array<{ value: string }>;
	assert.deepEqual(options.map(({ value }) => value).sort(), offered.sort());
});

test('after a restart of n8n the subscription is found, and there is one', async () => {
	const it = await placed();
	await activate(it);
	const [hook] = await hooks();
	it.restart();
	assert.equal(await activate(it), 'found');
	assert.deepEqual(await hooks(), [hook]);
});

test('after a restart of the service the subscription is found, and receives', async () => {
	const it = await placed();
	await activate(it);
	await service.pause();
	await assert.rejects(checkExists.call(it.hook()), 'no answer is no answer of the service');
	await service.resume();
	assert.equal(await activate(it), 'found');
	await firm.submit();
	assert.equal((await hand(it, await arrives(it))).item!.event, 'form_submitted');
});

test('lost static data: the subscription is found by its URL, and removed', async () => {
	const it = await placed();
	await activate(it);
	it.staticData = {};
	assert.equal(await activate(it), 'found');
	assert.equal((await hooks()).length, 1);
	it.staticData = {};
	await deactivate(it);
	assert.deepEqual(await hooks(), []);
});

test('a subscription that the service removed is made again', async () => {
	const it = await placed();
	await activate(it);
	receiver.status = 410;
	for (let answers = 0; answers < 2; answers++) {
		await firm.submit();
		await arrives(it);
	}
	await until('the subscription is removed', async () => (await hooks()).length === 0);
	receiver.status = 204;
	assert.equal(await activate(it), 'made');
	await firm.submit();
	assert.ok((await hand(it, await arrives(it))).item);
});

test('drift: another event or form replaces the subscription', async () => {
	const it = await placed();
	await activate(it);
	const [first] = await hooks();
	it.parameters.event = 'lead_hot';
	assert.equal(await activate(it), 'made');
	it.parameters.formId = firm.form;
	assert.equal(await activate(it), 'made');
	const [last, ...more] = await hooks();
	assert.equal(more.length, 0);
	assert.deepEqual([last!.trigger, last!.form_id], ['lead_hot', firm.form]);
	assert.notEqual(last!.id, first!.id);
	assert.equal(await activate(it), 'found');
});

test('doubles at the URL of the node are removed but one', async () => {
	const it = await placed();
	await activate(it);
	for (const trigger of ['form_submitted', 'report_sent']) {
		await ask('POST', '/hooks', { trigger, target_url: it.urls.trigger });
	}
	assert.equal((await hooks()).length, 3);
	assert.equal(await activate(it), 'found');
	assert.deepEqual(
		(await hooks()).map(({ trigger }) => trigger),
		['form_submitted'],
	);
});

test('the test URL and the production URL have a subscription each', async () => {
	const it = await placed();
	await activate(it);
	assert.equal(await activate(it, 'manual'), 'made');
	assert.deepEqual(await urls(), [it.urls.manual, it.urls.trigger].sort());
	assert.equal(await activate(it), 'found', 'the test leaves production alone');
	await deactivate(it, 'manual');
	assert.deepEqual(await urls(), [it.urls.trigger]);
	await activate(it, 'manual');
	await deactivate(it);
	assert.deepEqual(await urls(), [it.urls.manual]);
});

test('at a new address of n8n the old subscription goes', async () => {
	const it = await placed();
	await activate(it);
	it.urls.trigger = receiver.url('/moved');
	assert.equal(await activate(it), 'made');
	assert.deepEqual(await urls(), [receiver.url('/moved')]);
});

test('subscriptions of other nodes are left alone', async () => {
	const it = await placed();
	const target_url = receiver.url('/other');
	await ask('POST', '/hooks', { trigger: 'form_submitted', target_url });
	await activate(it);
	await deactivate(it);
	assert.deepEqual(await urls(), [target_url]);
});

test('a revoked key is an error at every step', async () => {
	const it = await placed();
	await activate(it);
	await firm.revokeKey(firm.keyId);
	for (const step of [checkExists, create, remove]) {
		await assert.rejects(step.call(it.hook()), { name: 'NodeApiError', httpCode: '401' });
	}
});

test('a target that the service refuses is an error with its words', async () => {
	const it = await placed();
	it.urls.trigger = 'https://user@example.com/';
	await assert.rejects(create.call(it.hook()), {
		httpCode: '400',
		description: 'Code: invalid_target',
	});
});

test('requests that the firm did not sign are answered with 401', async () => {
	const it = await placed();
	await activate(it);
	await firm.submit();
	const request = await arrives(it);
	const { 'x-service-signature': header, ...unsigned } = request.headers;
	const signed = (value: string) => ({ ...unsigned, 'x-service-signature': value });
	const written = Buffer.from(JSON.stringify(JSON.parse(request.body.toString()), null, 1));
	const cases: Array<[string, Arrived]> = [
		['malformed', { ...request, headers: unsigned }],
		['stale', { ...request, headers: signed(header!.replace(/^t=[0-9]+/, 't=1700000000')) }],
		['mismatch', { ...request, body: written }],
		['mismatch', { ...request, headers: signed(header!.replace(/v1=.*/, `v1=${'0'.repeat(64)}`)) }],
	];
	for (const [problem, forged] of cases) {
		const { item, answer } = await hand(it, forged);
		assert.equal(item, undefined);
		assert.deepEqual(answer, { status: 401, text: `the signature is ${problem}` });
	}
});

// A blank secret verified nothing, and every request started the workflow.
test('without a signing secret nothing is made, and nothing starts', async () => {
	const it = await placed();
	await activate(it);
	await firm.submit();
	const request = await arrives(it);
	for (const signingSecret of [undefined, '', ' , ']) {
		it.credentials.signingSecret = signingSecret;
		const { item, answer } = await hand(it, request);
		assert.equal(item, undefined);
		assert.deepEqual(answer, { status: 401, text: 'the credentials have no signing secret' });
		for (const step of [checkExists, create]) {
			await assert.rejects(step.call(it.hook()), {
				message: 'the credentials have no signing secret',
				description: /begins with whsec_/,
			});
		}
	}
	assert.equal(await deactivate(it), true);
	assert.deepEqual(await hooks(), []);
});

// The id is not signed: a recorded request passed for another delivery.
test('a recorded request under another delivery id is refused', async () => {
	const it = await placed();
	await activate(it);
	await firm.submit();
	const request = await arrives(it);
	assert.ok((await hand(it, request)).item);
	for (const id of ['00000000-0000-4000-8000-000000000001', undefined]) {
		const { 'x-service-delivery': _, ...headers } = request.headers;
		const renamed = id ? { ...headers, 'x-service-delivery': id } : headers;
		const { item, answer } = await hand(it, { ...request, headers: renamed });
		assert.equal(item, undefined);
		assert.equal(answer!.status, 401);
	}
	assert.ok((await hand(it, request)).item, 'its own id is its repeat');
	const other = new PlacedNode(it.credentials, it.parameters, receiver.url('/other'));
	const shared = { ...request.headers, 'x-service-delivery': firm.id };
	assert.ok((await hand(other, { ...request, headers: shared })).item, 'of another subscription');
});

test('while the secret is rotated both hold', async () => {
	const it = await placed();
	await activate(it);
	const old = firm.secret;
	await firm.submit();
	const before = await arrives(it);
	await firm.rotateSecret();
	await firm.submit();
	const since = await arrives(it);
	assert.equal((await hand(it, since)).answer!.status, 401);
	it.credentials.signingSecret = `${firm.secret}, ${old}`;
	for (const request of [before, since]) assert.ok((await hand(it, request)).item);
});

test("an operator's test, another event and a body that is not JSON start nothing", async () => {
	const it = await placed();
	await activate(it);
	const [hook] = await hooks();
	await service.internal('POST', `/firms/${firm.id}/hooks/${hook!.id}/test`, { reason: 'a test' });
	const sample = await arrives(it);
	assert.equal(sample.headers['x-service-test'], '1');
	assert.equal((await hand(it, sample)).answer!.status, 200);
	await firm.submit();
	const request = await arrives(it);
	it.parameters.event = 'lead_hot';
	assert.equal((await hand(it, request)).answer!.status, 200);
	const xml = signed(request, Buffer.from('<xml>'));
	assert.equal((await hand(it, xml)).answer!.status, 400);
});
