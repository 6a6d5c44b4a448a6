// Calls a service with the client that hey-api made, and with the types of openapi-typescript.

import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import { client } from "./hey/client.gen";
import { createHook, deleteHook, getMe, listHooks } from "./hey/sdk.gen";
import type { components, paths, webhooks } from "./schema";

const url = process.env.CLIENTS_URL!;
const { key } = JSON.parse(readFileSync(process.env.CLIENTS_KEYS!, "utf8"))[1];

function check(holds: boolean, what: unknown): asserts holds {
    if (!holds) throw new Error(JSON.stringify(what));
}

client.setConfig({ baseUrl: url, auth: () => key });
const me = await getMe();
check(me.data?.key.name === "key 1", me);
check(me.response?.headers.get("ratelimit-policy") === '"key";q=120;w=60', me);
const body = { trigger: "form_submitted", target_url: "https://93.184.216.34/catch" } as const;
const headers = { "Idempotency-Key": "clients 2" };
const hook = await createHook({ body, headers });
const again = await createHook({ body, headers });
check(hook.data !== undefined && hook.data.id === again.data?.id, [hook, again]);
check((await listHooks()).data?.length === 1, "one subscription");
check((await deleteHook({ path: { id: hook.data.id } })).data?.ok === true, hook);
const gone = await deleteHook({ path: { id: hook.data.id } });
check(gone.error?.code === "not_found", gone);
console.log("clients: hey-api calls");

const typed = createClient<paths>({ baseUrl: url, headers: { "X-API-Key": key } });
const triggers = await typed.GET("/triggers");
check(triggers.data?.length === 10, triggers);
const refused = await typed.POST("/hooks", { body: { target_url: "https://10.0.0.1/", trigger: "lead_hot" } });
const error: components["schemas"]["Error"] | undefined = refused.error;
check(error?.code === "invalid_target", refused);
type Submitted = webhooks["form_submitted"]["post"]["requestBody"]["content"]["application/json"];
const event: Submitted["event"] = "form_submitted";
check(event === "form_submitted", event);
console.log("clients: openapi-fetch calls");
