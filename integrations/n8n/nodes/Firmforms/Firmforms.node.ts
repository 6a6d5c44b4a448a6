import type {
	IDataObject,
	IExecuteFunctions,
	INodeExecutionData,
	INodeType,
	INodeTypeDescription,
	JsonObject,
} from 'n8n-workflow';
import { NodeApiError, NodeConnectionTypes } from 'n8n-workflow';

import type { Call } from '../shared/api';
import { call, getForms, getHiddenFields } from '../shared/api';

interface HiddenValues {
	values?: Array<{ key: string; value: string }>;
}

/** The body of both actions. Fields that are left empty stay out. */
function bodyOf(context: IExecuteFunctions, itemIndex: number): IDataObject {
	const operation = context.getNodeParameter('operation', itemIndex);
	const body: IDataObject = {};
	if (operation === 'send') body.email = context.getNodeParameter('email', itemIndex) as string;
	const options = context.getNodeParameter('options', itemIndex, {}) as IDataObject;
	for (const [key, value] of Object.entries(options)) {
		if (value !== '') body[key] = value;
	}
	const { values = [] } = context.getNodeParameter('hidden', itemIndex, {}) as HiddenValues;
	if (values.length > 0) {
		body.hidden = Object.fromEntries(values.map(({ key, value }) => [key, value]));
	}
	return body;
}

function callOf(context: IExecuteFunctions, itemIndex: number): Call {
	const operation = context.getNodeParameter('operation', itemIndex);
	if (operation === 'getAll') return { method: 'GET', path: ['forms'], itemIndex };
	const formId = context.getNodeParameter('formId', itemIndex) as string;
	const action = operation === 'send' ? 'send' : 'links';
	const body = bodyOf(context, itemIndex);
	return { method: 'POST', path: ['forms', formId, action], body, itemIndex };
}

export class Firmforms implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Firm Forms',
		name: 'firmforms',
		icon: { light: 'file:../../icons/firmforms.svg', dark: 'file:../../icons/firmforms.dark.svg' },
		group: ['output'],
		version: 1,
		subtitle: '={{$parameter["operation"] + ": " + $parameter["resource"]}}',
		description: 'Sends forms by email, and makes prefilled links',
		defaults: { name: 'Firm Forms' },
		usableAsTool: true,
		inputs: [NodeConnectionTypes.Main],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'firmformsApi', required: true }],
		properties: [
			{
				displayName: 'Resource',
				name: 'resource',
				type: 'options',
				noDataExpression: true,
				options: [{ name: 'Form', value: 'form' }],
				default: 'form',
			},
			{
				displayName: 'Operation',
				name: 'operation',
				type: 'options',
				noDataExpression: true,
				displayOptions: { show: { resource: ['form'] } },
				options: [
					{
						name: 'Get Many',
						value: 'getAll',
						action: 'Get many forms',
						description: 'Get many forms, newest first',
					},
					{
						name: 'Make Prefilled Link',
						value: 'link',
						action: 'Make a prefilled link to a form',
						description: 'Make a link with hidden values in it; nothing is sent',
					},
					{
						name: 'Send',
						value: 'send',
						action: 'Send a form',
						description: 'Email a published form to a person',
					},
				],
				default: 'send',
			},
			{
				displayName: 'Form Name or ID',
				name: 'formId',
				type: 'options',
				typeOptions: { loadOptionsMethod: 'getForms' },
				displayOptions: { show: { resource: ['form'], operation: ['send', 'link'] } },
				required: true,
				default: '',
				description:
					'Choose from the list, or specify an ID using an <a href="https://docs.n8n.io/code/expressions/">expression</a>',
			},
			{
				displayName: 'Email',
				name: 'email',
				type: 'string',
				placeholder: 'name@email.com',
				displayOptions: { show: { resource: ['form'], operation: ['send'] } },
				required: true,
				default: '',
			},
			{
				displayName: 'Hidden Values',
				name: 'hidden',
				type: 'fixedCollection',
				typeOptions: { multipleValues: true },
				displayOptions: { show: { resource: ['form'], operation: ['send', 'link'] } },
				placeholder: 'Add Value',
				default: {},
				options: [
					{
						displayName: 'Values',
						name: 'values',
						values: [
							{
								displayName: 'Field Name or ID',
								name: 'key',
								type: 'options',
								typeOptions: {
									loadOptionsMethod: 'getHiddenFields',
									loadOptionsDependsOn: ['formId'],
								},
								default: '',
								description:
									'Choose from the list, or specify an ID using an <a href="https://docs.n8n.io/code/expressions/">expression</a>',
							},
							{ displayName: 'Value', name: 'value', type: 'string', default: '' },
						],
					},
				],
			},
			{
				displayName: 'Options',
				name: 'options',
				type: 'collection',
				displayOptions: { show: { resource: ['form'], operation: ['send'] } },
				placeholder: 'Add Option',
				default: {},
				options: [
					{
						displayName: 'First Name',
						name: 'first_name',
						type: 'string',
						default: '',
						description: 'Used in the greeting',
					},
					{ displayName: 'Full Name', name: 'name', type: 'string', default: '' },
					{
						displayName: 'Language',
						name: 'lang',
						type: 'options',
						options: [
							{ name: 'English', value: 'en' },
							{ name: 'French', value: 'fr' },
							{ name: 'Spanish', value: 'es' },
						],
						default: 'en',
					},
					{
						displayName: 'Message',
						name: 'message',
						type: 'string',
						typeOptions: { rows: 4 },
						default: '',
						description: 'A short note in the email',
					},
				],
			},
			{
				displayName: 'Options',
				name: 'options',
				type: 'collection',
				displayOptions: { show: { resource: ['form'], operation: ['link'] } },
				placeholder: 'Add Option',
				default: {},
				options: [
					{
						displayName: 'Language',
						name: 'lang',
						type: 'options',
						options: [
							{ name: 'English', value: 'en' },
							{ name: 'French', value: 'fr' },
							{ name: 'Spanish', value: 'es' },
						],
						default: 'en',
					},
				],
			},
		],
	};

	methods = { loadOptions: { getForms, getHiddenFields } };

	async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
		const results: INodeExecutionData[] = [];
		for (let index = 0; index < this.getInputData().length; index++) {
			try {
				const data = await call<IDataObject | IDataObject[]>(this, callOf(this, index));
				const items = Array.isArray(data) ? data : [data];
				results.push(...items.map((json) => ({ json, pairedItem: { item: index } })));
			} catch (error) {
				if (!this.continueOnFail()) {
					throw new NodeApiError(this.getNode(), error as JsonObject, { itemIndex: index });
				}
				const json = { error: (error as Error).message };
				results.push({ json, pairedItem: { item: index } });
			}
		}
		return [results];
	}
}
