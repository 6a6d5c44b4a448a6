'use strict';

const { at } = require('../api');
const { bodyOf, chosenForm, hiddenFields, langField, moreField } = require('../fields');

module.exports = {
  key: 'prefilled_link',
  noun: 'Link',
  display: {
    label: 'Make Prefilled Link',
    description: 'Makes a link to a form with hidden values in it. Nothing is sent.',
  },
  operation: {
    inputFields: [chosenForm, langField, hiddenFields, moreField],
    perform: async (z, { inputData }) => {
      const url = at('forms', inputData.form_id, 'links');
      return (await z.request({ url, method: 'POST', body: bodyOf(inputData) })).data;
    },
    sample: {
      url: 'https://forms.example.com/f/sample?partner=Northwind',
      form_id: '00000000-0000-4000-8000-000000000001',
      published: true,
      hidden: { partner: 'Northwind' },
      ignored: [],
    },
  },
};
