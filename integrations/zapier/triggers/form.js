'use strict';

const { at } = require('../api');

const named = ({ id, title, status }) => ({
  id,
  name: status === 'published' ? title : `${title} (${status})`,
});

/** The choices of the fields that name a form. */
module.exports = {
  key: 'form',
  noun: 'Form',
  display: {
    label: 'List of Forms',
    description: 'Lists the forms of the firm for a choice in a field.',
    hidden: true,
  },
  operation: {
    perform: async (z) => (await z.request(at('forms'))).data.map(named),
    sample: { id: '00000000-0000-4000-8000-000000000001', name: 'Sample form' },
  },
};
