'use strict';

const { at } = require('../api');
const { bodyOf, chosenForm, hiddenFields, langField, moreField } = require('../fields');

module.exports = {
  key: 'send_form',
  noun: 'Form',
  display: { label: 'Send Form', description: 'Emails a published form to a person.' },
  operation: {
    inputFields: [
      chosenForm,
      { key: 'email', label: 'Email', required: true },
      { key: 'name', label: 'Full name' },
      { key: 'first_name', label: 'First name', helpText: 'Used in the greeting.' },
      { key: 'message', label: 'Message', type: 'text', helpText: 'A short note in the email.' },
      langField,
      hiddenFields,
      moreField,
    ],
    // A skipped email is a success that says why: it must not be sent again.
    perform: async (z, { inputData }) => {
      const url = at('forms', inputData.form_id, 'send');
      return (await z.request({ url, method: 'POST', body: bodyOf(inputData) })).data;
    },
    sample: {
      ok: true,
      status: 'sent',
      email_id: '00000000-0000-4000-8000-000000000003',
      url: 'https://forms.example.com/f/sample?partner=Northwind',
      ignored: [],
    },
  },
};
