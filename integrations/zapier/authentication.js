'use strict';

const { at } = require('./api');
const { secretsOf } = require('./signature');

module.exports = {
  type: 'custom',
  fields: [
    {
      key: 'api_key',
      label: 'API key',
      type: 'password',
      required: true,
      helpText: 'An owner or admin of the firm makes one under Settings, Integrations.',
    },
    {
      key: 'signing_secret',
      label: 'Webhook signing secret',
      type: 'password',
      required: true,
      helpText:
        'It begins with `whsec_` and stands beside the API keys. Events that the firm did not send are refused by it. While you rotate it, enter both with a comma between.',
    },
  ],
  test: async (z, bundle) => {
    secretsOf(bundle.authData, z);
    return (await z.request(at('me'))).data;
  },
  // The answer of the test is the input of the label.
  connectionLabel: (z, bundle) => `${bundle.inputData.firm.name} / ${bundle.inputData.key.name}`,
};
