'use strict';

const { at, errorOf } = require('../api');
const { formField } = require('../fields');
const samples = require('../samples.json');
const { headerOf, problemOf, secretsOf } = require('../signature');

const EVENTS = [
  ['form_submitted', 'Response', 'Form Submitted', 'someone finishes a form'],
  [
    'partial_submission',
    'Unfinished Response',
    'Form Left Unfinished',
    'someone answers some questions, then stops for an hour without submitting',
  ],
  ['report_approved', 'Report', 'Report Approved', 'a reviewer approves a report'],
  ['report_sent', 'Report', 'Report Sent', 'a report was sent by email'],
  ['report_opened', 'Report', 'Report Opened', 'the client opens a report for the first time'],
  [
    'payment_received',
    'Payment',
    'Payment Received',
    'someone pays for a report or a consultation',
  ],
  ['booking_made', 'Booking', 'Call Booked', 'someone books a call'],
  ['booking_rescheduled', 'Booking', 'Call Rescheduled', 'a booked call moves to a new time'],
  ['booking_cancelled', 'Booking', 'Call Cancelled', 'a booked call is cancelled'],
  ['lead_hot', 'Lead', 'Lead Became Hot', "a person's lead score reaches Hot for the first time"],
];

/** The object that an event is about, so that a repeat of the event has the same id. */
const subjectOf = ({ event, response, report, booking }) => {
  if (event === 'booking_rescheduled' && booking) return `${booking.id}:${booking.starts_at}`;
  if (event.startsWith('booking_') && booking) return booking.id;
  if (event.startsWith('report_') && report) return report.id;
  return response.id;
};

/** A payload has no id of its own. */
const withId = (payload) => ({ id: `${payload.event}:${subjectOf(payload)}`, ...payload });

const subscribe = (trigger) => async (z, bundle) => {
  secretsOf(bundle.authData, z);
  const form_id = bundle.inputData.form_id || null;
  const body = { trigger, target_url: bundle.targetUrl, form_id };
  return (await z.request({ url: at('hooks'), method: 'POST', body })).data;
};

const unsubscribe = async (z, bundle) => {
  const { id } = bundle.subscribeData;
  const options = { url: at('hooks', id), method: 'DELETE', skipThrowForStatus: true };
  const response = await z.request(options);
  // Two answers of 410, or the end of its key, may have removed it before.
  if (response.status >= 400 && response.status !== 404) throw errorOf(response, z);
  return { id };
};

const verify = (z, { rawRequest, authData }) => {
  const secrets = secretsOf(authData, z);
  const header = headerOf(rawRequest.headers, 'x-service-signature');
  const problem = problemOf(header, rawRequest.content, secrets, Date.now() / 1000);
  if (!problem) return;
  throw new z.errors.Error(
    `The event is refused: its signature is ${problem}. Compare the signing secret of the connection with the firm's.`,
    'wrong_signature',
    401,
  );
};

const receive = (trigger) => (z, bundle) => {
  verify(z, bundle);
  // An operator's test of the address carries made-up data.
  if (headerOf(bundle.rawRequest.headers, 'x-service-test') === '1') return [];
  const payload = JSON.parse(bundle.rawRequest.content);
  return payload.event === trigger ? [withId(payload)] : [];
};

const list = (trigger) => async (z, bundle) => {
  const { form_id } = bundle.inputData;
  const params = form_id ? { form_id } : {};
  const response = await z.request({ url: at('triggers', trigger, 'sample'), params });
  return response.data.map(withId);
};

const eventTrigger = ([key, noun, label, when]) => ({
  key,
  noun,
  display: { label, description: `Triggers when ${when}.` },
  operation: {
    type: 'hook',
    inputFields: [{ ...formField, required: false, helpText: 'Leave it empty for all forms.' }],
    performSubscribe: subscribe(key),
    performUnsubscribe: unsubscribe,
    perform: receive(key),
    performList: list(key),
    sample: withId(samples[key]),
  },
});

module.exports = { eventTriggers: EVENTS.map(eventTrigger), withId };
