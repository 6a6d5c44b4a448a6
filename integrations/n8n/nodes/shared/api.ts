import type {
	IDataObject,
	IExecuteFunctions,
	IHookFunctions,
	IHttpRequestMethods,
	ILoadOptionsFunctions,
	INodePropertyOptions,
	JsonObject,
} from 'n8n-workflow';
import { NodeApiError } from 'n8n-workflow';

type Context = IExecuteFunctions | IHookFunctions | ILoadOptionsFunctions;

/** A call of the service. Parts of its path are encoded. */
export interface Call {
	method: IHttpRequestMethods;
	path: string[];
	body?: IDataObject;
	itemIndex?: number;
}

export interface Answer {
	status: number;
	body: unknown;
	retryAfter?: string;
}

export interface Form {
	id: string;
	title: string;
	status: string;
	hidden_fields: Array<{ key: string; label: string }>;
}

/** Calls the service. An error of the service is an answer, too. */
export async function ask(context: Context, { method, path, body }: Call): Promise<Answer> {
	const { baseUrl } = await context.getCredentials<{ baseUrl: string }>('firmformsApi');
	const url = [baseUrl.replace(/\/+$/, ''), ...path.map(encodeURIComponent)].join('/');
	const answer = await context.helpers.httpRequestWithAuthentication.call(context, 'firmformsApi', {
		method,
		url,
		body,
		json: true,
		ignoreHttpStatusErrors: true,
		returnFullResponse: true,
	});
	return {
		status: answer.statusCode,
		body: answer.body,
		retryAfter: answer.headers?.['retry-after'],
	};
}

/** The error of n8n for an error of the service: its own words, and its code. */
export function errorOf(context: Context, answer: Answer, itemIndex?: number): NodeApiError {
	const said = (answer.body ?? {}) as Partial<Record<'error' | 'code', string>>;
	const message = said.error ?? `The service answered ${answer.status}`;
	const wait = answer.status === 429 ? `Try again in ${answer.retryAfter} seconds` : undefined;
	return new NodeApiError(context.getNode(), said as JsonObject, {
		message,
		description: wait ?? (said.code ? `Code: ${said.code}` : undefined),
		httpCode: String(answer.status),
		itemIndex,
	});
}

/** Calls the service, and throws its errors. */
export async function call<T>(context: Context, request: Call): Promise<T> {
	const answer = await ask(context, request);
	if (answer.status >= 400) throw errorOf(context, answer, request.itemIndex);
	return answer.body as T;
}

/** The firm's forms, as choices of a field. */
export async function getForms(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
	const forms = await call<Form[]>(this, { method: 'GET', path: ['forms'] });
	return forms.map(({ id, title, status }) => ({
		name: status === 'published' ? title : `${title} (${status})`,
		value: id,
	}));
}

/** The hidden fields of the chosen form, and the campaign tags that every form takes. */
export async function getHiddenFields(
	this: ILoadOptionsFunctions,
): Promise<INodePropertyOptions[]> {
	const tags = ['source', 'medium', 'campaign', 'term', 'content'].map((tag) => `utm_${tag}`);
	const formId = this.getCurrentNodeParameter('formId') as string | undefined;
	const own = formId
		? (await call<Form>(this, { method: 'GET', path: ['forms', formId] })).hidden_fields
		: [];
	return [
		...own.map(({ key, label }) => ({ name: label, value: key })),
		...tags.map((tag) => ({ name: tag, value: tag })),
	];
}
