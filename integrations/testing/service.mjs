// The real service for tests: started on databases of its own, with firms, keys and activity.
// FIRMFORMS_BINARY names the program; scripts/test-integrations sets it.

import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = process.env.FIRMFORMS_BINARY;

const DATABASES = ["DATABASE_URL", "DATABASE_URL_FILE", "FIRMFORMS_KEYRING_URL"];

/** How long something may take that has to happen, in milliseconds. */
const PATIENCE = 60_000;

/** Asks again until the answer is true. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const answer = await holds();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const isOpen = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("close", () => socket.destroy()).on("connect", () => socket.end());
  });

/** A receiver on a real socket. It keeps what arrives, and answers with `status`. */
export class Receiver {
  requests = [];
  status = 204;
  #server;

  static async start() {
    const receiver = new Receiver();
    receiver.#server = createServer(async (request, response) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      const { headers, url, rawHeaders } = request;
      receiver.requests.push({ path: url, headers, rawHeaders, body: Buffer.concat(parts) });
      response.writeHead(receiver.status).end();
    });
    await new Promise((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    return receiver;
  }

  url(path = "/") {
    return `http://127.0.0.1:${this.#server.address().port}${path}`;
  }

  /** The next request that is not taken yet, at this path if one is named. */
  async next(path) {
    const isWanted = (request) => path === undefined || request.path === path;
    const found = await until(
      `a request at ${path ?? "any path"}`,
      () => this.requests.findIndex(isWanted) + 1,
    );
    return this.requests.splice(found - 1, 1)[0];
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A running service. */
export class Service {
  #process;
  #folder;
  #operator;
  #product;
  #internal;
  #ports;

  static async start() {
    if (!BINARY)
      throw new Error("FIRMFORMS_BINARY names no program: use scripts/test-integrations");
    const service = new Service();
    service.#folder = mkdtempSync(join(tmpdir(), "firmforms-integrations-"));
    chmodSync(service.#folder, 0o711); // the account that runs PostgreSQL passes
    service.#ports = [await freePort(), await freePort()];
    const [open, internal] = service.#ports;
    service.url = `http://127.0.0.1:${open}/api/v1`;
    service.#internal = `http://127.0.0.1:${internal}/internal/v1`;
    await service.resume();
    service.#operator = service.#makeToken("operator");
    service.#product = service.#makeToken("product");
    return service;
  }

  get #environment() {
    const environment = { ...process.env, FIRMFORMS_DATA_DIR: join(this.#folder, "data") };
    DATABASES.forEach((name) => delete environment[name]);
    return environment;
  }

  #makeToken(role) {
    const options = ["tokens", "create", "--quiet", "--role", role, "--name", role];
    const printed = execFileSync(BINARY, options, { env: this.#environment, encoding: "utf8" });
    return printed.trim();
  }

  /** Starts the process again after `pause`. */
  async resume() {
    const log = openSync(join(this.#folder, "log"), "a");
    const [open, internal] = this.#ports.map((port) => `127.0.0.1:${port}`);
    const doors = ["serve", "--addr", open, "--internal-addr", internal];
    const mail = ["--mail-dir", this.#mails, "--mail-from", "forms@example.com"];
    const targets = ["--allow-targets", "127.0.0.0/8", "--allow-http-targets"];
    // An hour without an answer makes a partial submission: here it takes a second.
    targets.push("--time-scale", "3600");
    const service = spawn(BINARY, [...doors, ...mail, ...targets], {
      env: this.#environment,
      stdio: ["ignore", log, log],
    });
    this.#process = service;
    await until("the service is ready", async () => {
      if (service.exitCode !== null)
        throw new Error(readFileSync(join(this.#folder, "log"), "utf8"));
      if (!(await isOpen(this.#ports[1]))) return false;
      return (await fetch(`http://${internal}/readyz`)).ok;
    });
  }

  async pause() {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await ended;
  }

  async stop() {
    await this.pause();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #mails() {
    return join(this.#folder, "mails");
  }

  /** The mails that were sent so far. */
  mails() {
    return readdirSync(this.#mails).map((name) => readFileSync(join(this.#mails, name), "utf8"));
  }

  async internal(method, path, body, kind = "application/json", token = this.#operator) {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": kind };
    const options = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await fetch(this.#internal + path, options);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /** As the product's back end calls. */
  product(method, path, body, kind) {
    return this.internal(method, path, body, kind, this.#product);
  }

  /** A firm with an owner, a published form, a draft, and a key. */
  async openFirm(name) {
    const firm = new Firm(this, name);
    await firm.open();
    return firm;
  }
}

/** A firm of the service. */
export class Firm {
  id = randomUUID();
  owner = randomUUID();
  form = randomUUID();
  draft = randomUUID();

  constructor(service, name) {
    this.service = service;
    this.name = name;
  }

  async open() {
    const form = (form_id, title, status) => ({
      form_id,
      title,
      slug: title.toLowerCase(),
      status,
      url: `https://forms.example.com/f/${title.toLowerCase()}`,
      created_at: new Date().toISOString(),
      hidden_fields: [
        { key: "partner", label: "Partner" },
        { key: "clé", label: "Clé" },
      ],
    });
    await this.report(
      ["firm.opened", { name: this.name, plan: { leads_in_full: true } }],
      ["member.joined", { member_id: this.owner, role: "owner" }],
      ["form.created", form(this.draft, "Draft", "draft")],
      ["form.created", form(this.form, "Intake", "published")],
    );
    Object.assign(this, await this.makeKey("first"));
    const { secret } = await this.service.product("GET", `/firms/${this.id}/webhook-secret`);
    this.secret = secret;
  }

  /** Reports what happened, as pairs of type and data. */
  async report(...events) {
    const time = new Date().toISOString();
    const wrapped = events.map(([type, data]) => ({
      specversion: "1.0",
      id: randomUUID(),
      source: "urn:integrations",
      type,
      time,
      firmid: this.id,
      ...(data && { data }),
    }));
    const kind = "application/cloudevents-batch+json";
    return this.service.product("POST", "/activity", wrapped, kind);
  }

  async makeKey(name) {
    const body = { member_id: this.owner, name };
    const made = await this.service.product("POST", `/firms/${this.id}/keys`, body);
    return { key: made.key, keyId: made.id };
  }

  revokeKey(id) {
    return this.service.product("DELETE", `/firms/${this.id}/keys/${id}`);
  }

  async rotateSecret() {
    const { secret } = await this.service.product(
      "POST",
      `/firms/${this.id}/webhook-secret/rotate`,
      {},
    );
    this.secret = secret;
  }

  /** A response to a form, with texts that another JSON library writes differently. */
  response(form_id = this.form) {
    const at = new Date().toISOString();
    return {
      response_id: randomUUID(),
      form_id,
      submitted_at: at,
      device: "mobile",
      lang: "fr",
      respondent: { name: "Zoé </script> 🎉", email: `zoe-${randomUUID()}@example.com` },
      answers: [{ id: "q1", question: "Why?", type: "long_text", answer: 'a\n"b" / c' }],
      variables: { score: 1.5 },
      hidden: { partner: "Northwind" },
    };
  }

  async submit(form_id) {
    const response = this.response(form_id);
    await this.report(["response.submitted", response]);
    return response;
  }

  /** Lets this event happen. */
  async happen(event) {
    const { submitted_at, ...unfinished } = this.response();
    if (event === "partial_submission") {
      const saved_at = new Date().toISOString();
      return this.report(["response.saved", { ...unfinished, saved_at }]);
    }
    const response = await this.submit();
    const { response_id } = response;
    const at = new Date().toISOString();
    const report = { report_id: randomUUID(), response_id };
    const created = {
      ...report,
      title: "Report",
      status: "draft",
      review_url: "https://forms.example.com/r/1",
      summary: "Short",
      highlights: ["One"],
    };
    const booking = {
      booking_id: randomUUID(),
      response_id,
      title: "Call",
      status: "confirmed",
      starts_at: "2030-05-01T10:00:00.000Z",
      ends_at: "2030-05-01T10:30:00.000Z",
      duration_min: 30,
      time_zone: "Europe/London",
    };
    const { title, status, response_id: _, ...moved } = booking;
    const of = (type) => [type, { report_id: report.report_id, at }];
    const money = { payment_id: randomUUID(), response_id, amount: 100, currency: "EUR", at };
    const steps = {
      form_submitted: [],
      report_approved: [["report.created", created], of("report.approved")],
      report_sent: [["report.created", created], of("report.sent")],
      report_opened: [["report.created", created], of("report.opened")],
      payment_received: [["payment.received", money]],
      booking_made: [["booking.made", booking]],
      booking_rescheduled: [
        ["booking.made", booking],
        [
          "booking.rescheduled",
          {
            ...moved,
            starts_at: "2030-05-02T10:00:00.000Z",
            ends_at: "2030-05-02T10:30:00.000Z",
            moved_at: at,
          },
        ],
      ],
      booking_cancelled: [
        ["booking.made", booking],
        ["booking.cancelled", { booking_id: booking.booking_id }],
      ],
      lead_hot: [
        ["lead.scored", { person: response.respondent.email, response_id, band: "hot", score: 90 }],
      ],
    }[event];
    if (steps.length) await this.report(...steps);
    return response;
  }
}
