import type {
	IDataObject,
	IHookFunctions,
	INodeType,
	INodeTypeDescription,
	IWebhookFunctions,
	IWebhookResponseData,
} from 'n8n-workflow';
import { NodeConnectionTypes, NodeOperationError } from 'n8n-workflow';

import { ask, call, errorOf, getForms } from '../shared/api';
import { isRepeated, problemOf, secretsOf } from '../shared/signature';

interface Hook {
	id: string;
	trigger: string;
	target_url: string;
	form_id: string | null;
}

interface Wanted {
	url: string;
	trigger: string;
	formId: string | null;
}

/** Ids of subscriptions: the test URL and the production URL of a node each have their own. */
type HookIds = Partial<Record<'test' | 'production', string>>;

function wantedOf(context: IHookFunctions): Wanted {
	const url = context.getNodeWebhookUrl('default');
	if (!url) throw new NodeOperationError(context.getNode(), 'The node has no webhook URL');
	return {
		url,
		trigger: context.getNodeParameter('event') as string,
		formId: (context.getNodeParameter('formId', '') as string) || null,
	};
}

const NO_SECRET = 'the credentials have no signing secret';

/** Without a secret everybody could start the workflow. */
async function needSecret(context: IHookFunctions): Promise<void> {
	const credentials = await context.getCredentials<{ signingSecret?: string }>('firmformsApi');
	if (secretsOf(credentials).length > 0) return;
	throw new NodeOperationError(context.getNode(), NO_SECRET, {
		description: 'Enter the webhook signing secret of the firm. It begins with whsec_.',
	});
}

function kindOf(context: IHookFunctions): keyof HookIds {
	return context.getMode() === 'manual' ? 'test' : 'production';
}

function hookIds(context: IHookFunctions): HookIds {
	const data = context.getWorkflowStaticData('node');
	data.hookIds ??= {};
	return data.hookIds as HookIds;
}

/** The subscriptions of this node: at its URL, or known by id from an earlier URL. */
async function ownHooks(context: IHookFunctions, url: string): Promise<Hook[]> {
	const id = hookIds(context)[kindOf(context)];
	const hooks = await call<Hook[]>(context, { method: 'GET', path: ['hooks'] });
	return hooks.filter((hook) => hook.target_url === url || hook.id === id);
}

async function remove(context: IHookFunctions, id: string): Promise<void> {
	const answer = await ask(context, { method: 'DELETE', path: ['hooks', id] });
	// Two answers of 410, or the end of its key, may have removed it before.
	if (answer.status >= 400 && answer.status !== 404) throw errorOf(context, answer);
}

/** An event has the same id when it comes again. */
function idOf({ event, response, report, booking }: IDataObject): string {
	const name = event as string;
	const [answered, reported, booked] = [response, report, booking] as Array<
		IDataObject | undefined
	>;
	if (name === 'booking_rescheduled' && booked) return `${name}:${booked.id}:${booked.starts_at}`;
	if (name.startsWith('booking_') && booked) return `${name}:${booked.id}`;
	if (name.startsWith('report_') && reported) return `${name}:${reported.id}`;
	return `${name}:${answered?.id}`;
}

async function rawBodyOf(context: IWebhookFunctions): Promise<Buffer> {
	const request = context.getRequestObject() as unknown as {
		rawBody?: Buffer;
		readRawBody?: () => Promise<void>;
	};
	if (!request.rawBody) await request.readRawBody?.();
	return request.rawBody ?? Buffer.alloc(0);
}

function answer(context: IWebhookFunctions, status: number, text: string): IWebhookResponseData {
	context.getResponseObject().status(status).send(text).end();
	return { noWebhookResponse: true };
}

export class FirmformsTrigger implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Firm Forms Trigger',
		name: 'firmformsTrigger',
		icon: { light: 'file:../../icons/firmforms.svg', dark: 'file:../../icons/firmforms.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{$parameter["event"]}}',
		description: 'Starts the workflow when something happens in Firm Forms',
		defaults: { name: 'Firm Forms Trigger' },
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'firmformsApi', required: true }],
		webhooks: [
			{
				name: 'default',
				httpMethod: 'POST',
				responseMode: 'onReceived',
				path: 'webhook',
			},
		],
		properties: [
			{
				displayName: 'Event',
				name: 'event',
				type: 'options',
				default: 'form_submitted',
				options: [
					{ name: 'Call Booked', value: 'booking_made', description: 'Someone books a call' },
					{
						name: 'Call Cancelled',
						value: 'booking_cancelled',
						description: 'A booked call is cancelled',
					},
					{
						name: 'Call Rescheduled',
						value: 'booking_rescheduled',
						description: 'A booked call moves to a new time',
					},
					{
						name: 'Form Left Unfinished',
						value: 'partial_submission',
						description: 'Someone answers some questions, then stops for an hour',
					},
					{
						name: 'Form Submitted',
						value: 'form_submitted',
						description: 'Someone finishes the form',
					},
					{
						name: 'Lead Became Hot',
						value: 'lead_hot',
						description: 'The lead score of a person reaches Hot for the first time',
					},
					{
						name: 'Payment Received',
						value: 'payment_received',
						description: 'Someone pays for a report or a consultation',
					},
					{
						name: 'Report Approved',
						value: 'report_approved',
						description: 'A reviewer approves the report',
					},
					{
						name: 'Report Opened',
						value: 'report_opened',
						description: 'The client opens the report for the first time',
					},
					{
						name: 'Report Sent',
						value: 'report_sent',
						description: 'The report was sent by email',
					},
				],
			},
			{
				displayName: 'Form Name or ID',
				name: 'formId',
				type: 'options',
				typeOptions: { loadOptionsMethod: 'getForms' },
				default: '',
				description:
					'Only events of this form; leave it empty for all forms. Choose from the list, or specify an ID using an <a href="https://docs.n8n.io/code/expressions/">expression</a>.',
			},
		],
	};

	methods = { loadOptions: { getForms } };

	webhookMethods = {
		default: {
			async checkExists(this: IHookFunctions): Promise<boolean> {
				await needSecret(this);
				const { url, trigger, formId } = wantedOf(this);
				const ids = hookIds(this);
				const isRight = (hook: Hook) =>
					hook.target_url === url && hook.trigger === trigger && hook.form_id === formId;
				const own = await ownHooks(this, url);
				const right = own.find(isRight);
				// Others would send twice, or events that the node does not ask for any more.
				for (const hook of own) {
					if (hook !== right) await remove(this, hook.id);
				}
				if (right) ids[kindOf(this)] = right.id;
				else delete ids[kindOf(this)];
				return right !== undefined;
			},

			async create(this: IHookFunctions): Promise<boolean> {
				await needSecret(this);
				const { url, trigger, formId } = wantedOf(this);
				const body = { target_url: url, trigger, form_id: formId };
				const hook = await call<Hook>(this, { method: 'POST', path: ['hooks'], body });
				hookIds(this)[kindOf(this)] = hook.id;
				return true;
			},

			async delete(this: IHookFunctions): Promise<boolean> {
				for (const hook of await ownHooks(this, wantedOf(this).url)) {
					await remove(this, hook.id);
				}
				delete hookIds(this)[kindOf(this)];
				return true;
			},
		},
	};

	async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
		const body = await rawBodyOf(this);
		const headers = this.getHeaderData();
		const credentials = await this.getCredentials<{ signingSecret?: string }>('firmformsApi');
		const secrets = secretsOf(credentials);
		if (secrets.length === 0) return answer(this, 401, NO_SECRET);
		const now = Date.now() / 1000;
		const header = headers['x-service-signature'] as string | undefined;
		const problem = problemOf(header, body, secrets, now);
		if (problem) return answer(this, 401, `the signature is ${problem}`);
		const deliveryId = headers['x-service-delivery'] as string | undefined;
		const url = this.getNodeWebhookUrl('default') ?? '';
		if (isRepeated(url, header ?? '', deliveryId, now)) {
			return answer(this, 401, 'the signature came before, under another delivery id');
		}
		// An operator's test of the address carries made-up data.
		if (headers['x-service-test'] === '1') return answer(this, 200, 'a test starts no workflow');
		let payload: IDataObject;
		try {
			payload = JSON.parse(body.toString('utf8')) as IDataObject;
		} catch {
			return answer(this, 400, 'the body is not JSON');
		}
		if (payload.event !== this.getNodeParameter('event')) {
			return answer(this, 200, 'the node listens to another event');
		}
		const json = { id: idOf(payload), ...payload, delivery_id: deliveryId };
		return { workflowData: [[{ json }]] };
	}
}
