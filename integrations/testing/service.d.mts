/** A request that arrived. */
export interface ReceivedRequest {
  path: string;
  headers: Record<string, string>;
  rawHeaders: string[];
  body: Buffer;
}

export class Receiver {
  static start(): Promise<Receiver>;
  requests: ReceivedRequest[];
  status: number;
  url(path?: string): string;
  next(path?: string): Promise<ReceivedRequest>;
  stop(): Promise<void>;
}

export class Firm {
  id: string;
  owner: string;
  form: string;
  draft: string;
  key: string;
  keyId: string;
  secret: string;
  makeKey(name: string): Promise<{ key: string; keyId: string }>;
  revokeKey(id: string): Promise<void>;
  rotateSecret(): Promise<void>;
  submit(form?: string): Promise<{ response_id: string }>;
  happen(event: string): Promise<unknown>;
}

export class Service {
  static start(): Promise<Service>;
  url: string;
  resume(): Promise<void>;
  pause(): Promise<void>;
  stop(): Promise<void>;
  mails(): string[];
  internal(method: string, path: string, body?: object): Promise<unknown>;
  openFirm(name: string): Promise<Firm>;
}

export function until<T>(what: string, holds: () => Promise<T> | T): Promise<T>;
