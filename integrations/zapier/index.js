'use strict';

const zapier = require('zapier-platform-core');

const authentication = require('./authentication');
const { authorize, explain } = require('./api');
const { eventTriggers } = require('./triggers/events');
const form = require('./triggers/form');
const prefilledLink = require('./creates/prefilled_link');
const sendForm = require('./creates/send_form');
const { version } = require('./package.json');

const byKey = (parts) => Object.fromEntries(parts.map((part) => [part.key, part]));

module.exports = {
  version,
  platformVersion: zapier.version,
  authentication,
  beforeRequest: [authorize],
  afterResponse: [explain],
  triggers: byKey([...eventTriggers, form]),
  creates: byKey([sendForm, prefilledLink]),
};
