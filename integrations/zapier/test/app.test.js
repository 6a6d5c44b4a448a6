// The app, in the platform's own tester, against the real service.

'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const zapier = require('zapier-platform-core');

const App = require('../index');
const EVENTS = Object.keys(require('../samples.json'));

const appTester = zapier.createAppTester(App);
const { send_form, prefilled_link } = App.creates;

let Receiver;
let service;
let receiver;
let firm;
let authData;

before(async () => {
  const testing = await import('../../testing/service.mjs');
  ({ Receiver } = testing);
  service = await testing.Service.start();
  receiver = await Receiver.start();
  process.env.BASE_URL = service.url;
  firm = await service.openFirm('Harrow Lane');
  authData = { api_key: firm.key, signing_secret: firm.secret };
});

after(async () => {
  await receiver?.stop();
  await service?.stop();
});

/** What Zapier hands to the app for a request that arrived. */
function arrived({ rawHeaders, body, path }) {
  const headers = {};
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at].replace(/(^|-)[a-z]/g, (it) => it.toUpperCase());
    headers[name.startsWith('Content-') ? name : `Http-${name}`] = rawHeaders[at + 1];
  }
  const content = body.toString();
  return {
    rawRequest: { method: 'POST', querystring: '', headers, content },
    cleanedRequest: { method: 'POST', headers, content: JSON.parse(content), path },
  };
}

const operation = (event) => App.triggers[event].operation;

const subscribe = (event, path, inputData = {}) =>
  appTester(operation(event).performSubscribe, {
    authData,
    inputData,
    targetUrl: receiver.url(path),
  });

const unsubscribe = (event, subscribeData) =>
  appTester(operation(event).performUnsubscribe, { authData, subscribeData });

const perform = (event, request, auth = authData) =>
  appTester(operation(event).perform, { authData: auth, ...arrived(request) });

async function hooks() {
  const answer = await fetch(`${service.url}/hooks`, { headers: { 'X-API-Key': firm.key } });
  return answer.json();
}

/** Zapier reads the properties of an error from its message. */
async function failure(promise) {
  const error = await promise.then(
    () => assert.fail('it succeeds'),
    (thrown) => thrown,
  );
  try {
    return { name: error.name, ...JSON.parse(error.message) };
  } catch {
    return { name: error.name, message: error.message };
  }
}

test('a key is tested, and named by firm and key', async () => {
  const me = await appTester(App.authentication.test, { authData });
  assert.equal(me.firm.id, firm.id);
  const label = await appTester(App.authentication.connectionLabel, { authData, inputData: me });
  assert.equal(label, 'Harrow Lane / first');
  const wrong = { ...authData, api_key: 'ffk_wrong' };
  const refused = await failure(appTester(App.authentication.test, { authData: wrong }));
  assert.equal(refused.name, 'ExpiredAuthError');
});

// A blank secret verified nothing, and every event was taken without a word.
test('a connection without a secret is refused with a sentence', async () => {
  for (const signing_secret of [undefined, '', ' , ']) {
    const auth = { authData: { api_key: firm.key, signing_secret } };
    const refused = await failure(appTester(App.authentication.test, auth));
    assert.equal(refused.code, 'no_secret');
    assert.match(refused.message, /enter the secret of the firm/);
    const input = { ...auth, inputData: {}, targetUrl: receiver.url('/blank') };
    const subscribed = failure(appTester(operation(EVENTS[0]).performSubscribe, input));
    assert.equal((await subscribed).code, 'no_secret');
  }
  assert.deepEqual(await hooks(), []);
});

test('the key goes to the service only', async () => {
  const other = { url: receiver.url('/elsewhere') };
  await appTester((z) => z.request(other).then(() => ({})), { authData });
  assert.equal((await receiver.next('/elsewhere')).headers['x-api-key'], undefined);
});

test('the app has a trigger for each event that the service offers', async () => {
  const answer = await fetch(`${service.url}/triggers`, { headers: { 'X-API-Key': firm.key } });
  const offered = (await answer.json()).map(({ key }) => key);
  assert.deepEqual(offered.sort(), [...EVENTS].sort());
  const { form, ...events } = App.triggers;
  assert.deepEqual(Object.keys(events).sort(), offered);
  assert.equal(form.display.hidden, true);
});

for (const event of EVENTS) {
  test(`${event}: subscribes, receives, verifies, unsubscribes`, async () => {
    const path = `/${event}`;
    const subscribed = await subscribe(event, path);
    assert.equal((await hooks()).length, 1);
    await firm.happen(event);
    const request = await receiver.next(path);

    const [payload, ...more] = await perform(event, request);
    assert.equal(more.length, 0);
    assert.equal(payload.event, event);
    assert.match(payload.id, new RegExp(`^${event}:[0-9a-f-]{36}`));
    assert.equal(payload.respondent.name, 'Zoé </script> 🎉');
    assert.deepEqual(await perform(event, request), [payload], 'a repeat has its id');

    const forged = { ...request, body: Buffer.from(request.body.toString().replace('Zoé', 'Zoe')) };
    const refused = await failure(perform(event, forged));
    assert.equal(refused.code, 'wrong_signature');
    const another = { ...authData, signing_secret: `whsec_${'A'.repeat(43)}` };
    assert.match((await failure(perform(event, request, another))).message, /mismatch/);
    const rotating = { ...authData, signing_secret: `whsec_${'A'.repeat(43)}, ${firm.secret}` };
    assert.equal((await perform(event, request, rotating)).length, 1);
    for (const signing_secret of [undefined, '', ' , ']) {
      const blank = { api_key: firm.key, signing_secret };
      assert.equal((await failure(perform(event, request, blank))).code, 'no_secret');
    }

    await unsubscribe(event, subscribed);
    assert.deepEqual(await hooks(), []);
    await unsubscribe(event, subscribed); // it is gone already
  });

  test(`${event}: the list is a sample with the fields of the static one`, async () => {
    const [sample, ...more] = await appTester(operation(event).performList, {
      authData,
      inputData: {},
      meta: { isLoadingSample: true },
    });
    assert.equal(more.length, 0);
    assert.equal(sample.event, event);
    const fields = Object.keys(operation(event).sample);
    assert.deepEqual(
      fields.filter((field) => !(field in sample)),
      [],
    );
    assert.match(operation(event).sample.id, new RegExp(`^${event}:`));
  });
}

test('a subscription to one form gets events of this form only', async () => {
  const [event, path] = ['form_submitted', '/one-form'];
  const subscribed = await subscribe(event, path, { form_id: firm.form });
  assert.equal((await hooks())[0].form_id, firm.form);
  await firm.submit(firm.draft);
  const { response_id } = await firm.submit();
  const [payload] = await perform(event, await receiver.next(path));
  assert.equal(payload.id, `form_submitted:${response_id}`);
  await unsubscribe(event, subscribed);
});

test('a stale signature, none, and one of a parsed body are refused', async () => {
  const event = 'form_submitted';
  const subscribed = await subscribe(event, '/stale');
  await firm.submit();
  const request = await receiver.next('/stale');
  const rawHeaders = request.rawHeaders.map((it) => it.replace(/^t=[0-9]+/, 't=1700000000'));
  assert.match((await failure(perform(event, { ...request, rawHeaders }))).message, /stale/);
  assert.match(
    (await failure(perform(event, { ...request, rawHeaders: [] }))).message,
    /malformed/,
  );
  const body = Buffer.from(JSON.stringify(JSON.parse(request.body), null, 1));
  assert.match((await failure(perform(event, { ...request, body }))).message, /mismatch/);
  await unsubscribe(event, subscribed);
});

test("an operator's test and another event start nothing", async () => {
  const subscribed = await subscribe('form_submitted', '/tested');
  const path = `/firms/${firm.id}/hooks/${subscribed.id}/test`;
  await service.internal('POST', path, { reason: 'a test' });
  const request = await receiver.next('/tested');
  assert.equal(request.headers['x-service-test'], '1');
  assert.deepEqual(await perform('form_submitted', request), []);
  await firm.submit();
  const other = await receiver.next('/tested');
  assert.deepEqual(await perform('lead_hot', other), []);
  await unsubscribe('form_submitted', subscribed);
});

test('a removal after two answers of 410 leaves nothing to unsubscribe', async () => {
  const { until } = await import('../../testing/service.mjs');
  const gone = await Receiver.start();
  gone.status = 410;
  const targetUrl = gone.url('/gone');
  const subscribed = await appTester(operation('form_submitted').performSubscribe, {
    authData,
    inputData: {},
    targetUrl,
  });
  for (let removed = 0; removed < 2; removed++) {
    await firm.submit();
    await gone.next('/gone');
  }
  await until('the subscription is removed', async () => (await hooks()).length === 0);
  await unsubscribe('form_submitted', subscribed);
  await gone.stop();
});

test('a revoked key cannot unsubscribe, and says so', async () => {
  const { key, keyId } = await firm.makeKey('short-lived');
  const auth = { ...authData, api_key: key };
  const subscribeData = await appTester(operation('lead_hot').performSubscribe, {
    authData: auth,
    inputData: {},
    targetUrl: receiver.url('/revoked'),
  });
  await firm.revokeKey(keyId);
  const ended = appTester(operation('lead_hot').performUnsubscribe, {
    authData: auth,
    subscribeData,
  });
  assert.equal((await failure(ended)).name, 'ExpiredAuthError');
});

test("errors have the service's words and code", async () => {
  const nowhere = { authData, inputData: {}, targetUrl: 'https://user@example.com/' };
  const refused = await failure(appTester(operation('lead_hot').performSubscribe, nowhere));
  assert.equal(refused.code, 'invalid_target');
  assert.equal(refused.status, 400);
  const inputData = { form_id: firm.id };
  const missing = await failure(
    appTester(operation('lead_hot').performList, { authData, inputData }),
  );
  assert.equal(missing.code, 'form_not_found');
});

test('the choices of a form name it, and whether it is a draft', async () => {
  const forms = await appTester(App.triggers.form.operation.perform, { authData });
  const names = forms.map(({ id, name }) => [id, name]).sort();
  assert.deepEqual(
    names,
    [
      [firm.draft, 'Draft (draft)'],
      [firm.form, 'Intake'],
    ].sort(),
  );
});

test('both actions have a field for each hidden field of the form', async () => {
  for (const create of [send_form, prefilled_link]) {
    const dynamic = create.operation.inputFields.find((it) => typeof it === 'function');
    const inputData = { form_id: firm.form };
    const fields = await appTester(dynamic, { authData, inputData });
    assert.deepEqual(
      fields.map(({ key, label }) => [key, label]),
      [
        ['hidden__partner', 'Partner'],
        ['hidden__clé', 'Clé'],
      ],
    );
    assert.deepEqual(await appTester(dynamic, { authData, inputData: {} }), []);
  }
});

test('a link is prefilled', async () => {
  const inputData = {
    form_id: firm.form,
    lang: 'fr',
    hidden__partner: 'Northwind & Cie',
    hidden__clé: '',
    more_hidden: { utm_source: 'zapier', colour: 'red' },
  };
  const link = await appTester(prefilled_link.operation.perform, { authData, inputData });
  const { searchParams } = new URL(link.url);
  assert.equal(searchParams.get('partner'), 'Northwind & Cie');
  assert.equal(searchParams.get('utm_source'), 'zapier');
  assert.deepEqual(link.ignored, ['colour']);
  assert.equal(link.published, true);
});

test('a form is sent by mail, and a second time it is skipped with a reason', async () => {
  const inputData = {
    form_id: firm.form,
    email: 'ann@example.com',
    first_name: 'Ann',
    message: 'As we said.',
    hidden__partner: 'Northwind',
  };
  const send = (data) => appTester(send_form.operation.perform, { authData, inputData: data });
  const sent = await send(inputData);
  assert.equal(sent.status, 'sent');
  assert.match(sent.url, /partner=Northwind/);
  assert.match(service.mails().join('\n'), /As we said\./);
  const skipped = await send(inputData);
  assert.equal(skipped.status, 'skipped');
  assert.equal(skipped.reason, 'already_sent_today');
  const draft = await failure(send({ ...inputData, form_id: firm.draft }));
  assert.equal(draft.code, 'form_not_published');
});

test('too many calls are throttled for the time that the service names', async () => {
  const { key } = await firm.makeKey('busy');
  const headers = { 'X-API-Key': key };
  for (let calls = 0; calls < 120; calls++) {
    assert.equal((await fetch(`${service.url}/me`, { headers })).status, 200);
  }
  const throttled = await failure(
    appTester(App.authentication.test, { authData: { ...authData, api_key: key } }),
  );
  assert.equal(throttled.name, 'ThrottledError');
  assert.ok(throttled.delay >= 1 && throttled.delay <= 60, JSON.stringify(throttled));
});

test('an answer that is not of the service is an error, too', async () => {
  const proxy = await Receiver.start();
  proxy.status = 502;
  process.env.BASE_URL = proxy.url('/api/v1/');
  const failed = await failure(appTester(App.authentication.test, { authData }));
  assert.equal(failed.status, 502);
  assert.equal((await proxy.next()).path, '/api/v1/me');
  delete process.env.BASE_URL;
  assert.match(
    (await failure(appTester(App.authentication.test, { authData }))).message,
    /BASE_URL/,
  );
  process.env.BASE_URL = service.url;
  await proxy.stop();
});
