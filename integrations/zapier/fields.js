'use strict';

const { at } = require('./api');

const PREFIX = 'hidden__';

const formField = { key: 'form_id', label: 'Form', dynamic: 'form.id.name' };

const langField = {
  key: 'lang',
  label: 'Language',
  choices: { en: 'English', fr: 'French', es: 'Spanish' },
  helpText: 'The language of the form, if it should not follow the browser.',
};

const moreField = {
  key: 'more_hidden',
  label: 'Further hidden values',
  dict: true,
  helpText: 'For example `utm_source`. Keys that the form does not take come back in `ignored`.',
};

/** A field for each hidden field of the chosen form. */
const hiddenFields = async (z, bundle) => {
  if (!bundle.inputData.form_id) return [];
  const { data } = await z.request(at('forms', bundle.inputData.form_id));
  return data.hidden_fields.map(({ key, label }) => ({ key: `${PREFIX}${key}`, label }));
};

/** The input without the empty fields, and hidden values by their keys. */
const bodyOf = ({ form_id, more_hidden, ...input }) => {
  const body = {};
  const hidden = { ...more_hidden };
  for (const [key, value] of Object.entries(input)) {
    if (value === undefined || value === null || value === '') continue;
    if (key.startsWith(PREFIX)) hidden[key.slice(PREFIX.length)] = value;
    else body[key] = value;
  }
  return Object.keys(hidden).length > 0 ? { ...body, hidden } : body;
};

const chosenForm = { ...formField, required: true, altersDynamicFields: true };

module.exports = { bodyOf, chosenForm, formField, hiddenFields, langField, moreField };
