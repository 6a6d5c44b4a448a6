import type {
	IAuthenticateGeneric,
	Icon,
	ICredentialTestRequest,
	ICredentialType,
	INodeProperties,
} from 'n8n-workflow';

export class FirmformsApi implements ICredentialType {
	name = 'firmformsApi';

	displayName = 'Firm Forms API';

	icon: Icon = { light: 'file:../icons/firmforms.svg', dark: 'file:../icons/firmforms.dark.svg' };

	documentationUrl = 'https://forms.example.com/docs';

	properties: INodeProperties[] = [
		{
			displayName: 'Base URL',
			name: 'baseUrl',
			type: 'string',
			default: '',
			required: true,
			placeholder: 'https://api.example.com/api/v1',
			description: 'The address of the API, with <code>/api/v1</code> at the end',
		},
		{
			displayName: 'API Key',
			name: 'apiKey',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			required: true,
			description: 'An owner or admin of the firm makes one under Settings, Integrations',
		},
		{
			displayName: 'Signing Secret',
			name: 'signingSecret',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			required: true,
			description:
				'The webhook signing secret of the firm, from <code>whsec_</code> on. By it the trigger refuses requests that the firm did not send. While you rotate it, enter both with a comma between.',
		},
	];

	authenticate: IAuthenticateGeneric = {
		type: 'generic',
		properties: { headers: { 'X-API-Key': '={{$credentials.apiKey}}' } },
	};

	test: ICredentialTestRequest = {
		request: { baseURL: '={{$credentials.baseUrl}}', url: '/me', method: 'GET' },
	};
}
