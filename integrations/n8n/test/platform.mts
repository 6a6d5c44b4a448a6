// n8n as a node sees it: the functions that the platform hands to a node, over real HTTP. Their types
// are the platform's own.

import type {
	IDataObject,
	IExecuteFunctions,
	IHookFunctions,
	IHttpRequestOptions,
	ILoadOptionsFunctions,
	INode,
	INodeParameters,
	IWebhookFunctions,
	WorkflowExecuteMode,
} from 'n8n-workflow';

import { FirmformsApi } from '../dist/credentials/FirmformsApi.credentials.js';

export type Credentials = { baseUrl: string; apiKey: string; signingSecret?: string };

/** A request that arrived at the node's URL. */
export interface Arrived {
	headers: Record<string, string>;
	body: Buffer;
}

/** An answer that the node gave itself. */
export interface Given {
	status: number;
	text: string;
}

/** The credential's own header, with its expression worked out. */
function authenticated(credentials: Credentials): Record<string, string> {
	const { headers } = new FirmformsApi().authenticate.properties;
	const entries = Object.entries(headers as Record<string, string>).map(([name, value]) => {
		const field = /^=\{\{\$credentials\.(\w+)\}\}$/.exec(value)?.[1] as keyof Credentials;
		return [name, String(credentials[field])] as const;
	});
	return Object.fromEntries(entries);
}

/** A node in a workflow: its parameters, credentials, static data and URLs. */
export class PlacedNode {
	parameters: INodeParameters;
	credentials: Credentials;
	staticData: IDataObject = {};
	urls: { manual: string; trigger: string };
	continues = false;

	constructor(credentials: Credentials, parameters: INodeParameters, url: string) {
		this.credentials = credentials;
		this.parameters = parameters;
		this.urls = { manual: `${url}/webhook-test/1`, trigger: `${url}/webhook/1` };
	}

	/** The process of n8n ends and begins: static data come from its database. */
	restart(): void {
		this.staticData = JSON.parse(JSON.stringify(this.staticData)) as IDataObject;
	}

	#shared() {
		const credentials = this.credentials;
		const node: INode = {
			id: '1',
			name: 'Firm Forms',
			type: 'firmforms',
			typeVersion: 1,
			position: [0, 0],
			parameters: this.parameters,
		};
		return {
			getNode: () => node,
			getCredentials: async <T extends object>() => credentials as T,
			getWorkflowStaticData: () => this.staticData,
			getNodeParameter: (name: string, ...rest: unknown[]) => {
				const fallback = rest.length > 1 ? rest[1] : rest[0];
				return this.parameters[name] ?? fallback;
			},
			helpers: {
				async httpRequestWithAuthentication(_: string, options: IHttpRequestOptions) {
					const { method, url, body, ignoreHttpStatusErrors, returnFullResponse } = options;
					if (!ignoreHttpStatusErrors || !returnFullResponse) throw new Error('not played here');
					const headers = { 'Content-Type': 'application/json', ...authenticated(credentials) };
					const answer = await fetch(url, {
						method,
						headers,
						body: body ? JSON.stringify(body) : undefined,
					});
					const text = await answer.text();
					const parsed: unknown = answer.headers.get('content-type')?.includes('json')
						? JSON.parse(text)
						: text;
					const all = Object.fromEntries(answer.headers);
					return { statusCode: answer.status, headers: all, body: parsed };
				},
			},
		};
	}

	/** As n8n switches the workflow on or off, or listens for a test. */
	hook(mode: 'manual' | 'trigger' = 'trigger'): IHookFunctions {
		const own: Pick<IHookFunctions, 'getMode' | 'getNodeWebhookUrl'> = {
			getMode: (): WorkflowExecuteMode => mode,
			getNodeWebhookUrl: () => this.urls[mode],
		};
		return { ...this.#shared(), ...own } as unknown as IHookFunctions;
	}

	/** As n8n hands a request over. A late body is read only when the node asks for it. */
	webhook(
		{ headers, body }: Arrived,
		reading: 'early' | 'late',
		given: Given[],
	): IWebhookFunctions {
		const request: { rawBody?: Buffer; readRawBody: () => Promise<void> } = {
			readRawBody: async () => {
				request.rawBody = body;
			},
		};
		if (reading === 'early') request.rawBody = body;
		const own = {
			getHeaderData: () => headers,
			getNodeWebhookUrl: () => this.urls.trigger,
			getRequestObject: () => request,
			getResponseObject: () => ({
				status: (status: number) => ({
					send: (text: string) => {
						given.push({ status, text });
						return { end: () => undefined };
					},
				}),
			}),
		};
		return { ...this.#shared(), ...own } as unknown as IWebhookFunctions;
	}

	load(): ILoadOptionsFunctions {
		const own: Pick<ILoadOptionsFunctions, 'getCurrentNodeParameter'> = {
			getCurrentNodeParameter: (name: string) => this.parameters[name],
		};
		return { ...this.#shared(), ...own } as unknown as ILoadOptionsFunctions;
	}

	/** As n8n runs the node for so many items. */
	execute(items = 1): IExecuteFunctions {
		const own: Pick<IExecuteFunctions, 'getInputData' | 'continueOnFail'> = {
			getInputData: () => Array.from({ length: items }, () => ({ json: {} })),
			continueOnFail: () => this.continues,
		};
		return { ...this.#shared(), ...own } as unknown as IExecuteFunctions;
	}
}
