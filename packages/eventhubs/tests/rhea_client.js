// Does with a hub what a client does, over rhea, and prints what it has seen as JSON.
// Usage: node rhea_client.js PORT KEY, with rhea where node finds it.
"use strict";
const crypto = require("crypto");
const rhea = require("rhea");

const HUB = "clicks";
const PARTITION = `${HUB}/ConsumerGroups/$Default/Partitions/2`;
const seen = { tokens: null, partitions: null, bounds: null, received: [], outcomes: [], errors: [] };

const connection = rhea.connect({
  host: "127.0.0.1",
  port: Number(process.argv[2]),
  reconnect: false,
  username: "anonymous",
});

function token(resource) {
  const expiry = Math.floor(Date.now() / 1000) + 600;
  const name = encodeURIComponent(resource);
  const signed = crypto.createHmac("sha256", process.argv[3]).update(`${name}\n${expiry}`).digest("base64");
  return `SharedAccessSignature sr=${name}&sig=${encodeURIComponent(signed)}&se=${expiry}&skn=test`;
}

function attached(kind, options) {
  return new Promise((resolve, reject) => {
    const link = kind === "sender" ? connection.open_sender(options) : connection.open_receiver(options);
    link.once(kind === "sender" ? "sendable" : "receiver_open", () => resolve(link));
    link.once(`${kind}_error`, () => reject(new Error(link.error.condition)));
  });
}

async function asked(node, properties, body) {
  const answers = await attached("receiver", { source: node, target: "answers" });
  const sender = await attached("sender", { target: node, source: "answers" });
  const answer = new Promise((resolve) => answers.once("message", (context) => resolve(context.message)));
  sender.send({ message_id: "1", reply_to: "answers", application_properties: properties, body });
  const message = await answer;
  answers.close();
  sender.close();
  return { status: message.application_properties["status-code"], body: message.body };
}

async function sent(address, message) {
  const sender = await attached("sender", { target: address });
  return new Promise((resolve) => {
    sender.once("accepted", () => resolve("accepted"));
    sender.once("rejected", (context) => resolve(context.delivery.remote_state.error.condition));
    sender.send(message);
  });
}

function reading(selector, epoch) {
  return {
    source: { address: PARTITION, filter: rhea.filter.selector(selector) },
    properties: { "com.microsoft:epoch": rhea.types.wrap_long(epoch) },
    credit_window: 0,
  };
}

function refused(kind, link) {
  return new Promise((resolve) => link.once(`${kind}_error`, () => resolve(link.error.condition)));
}

function data(text) {
  return rhea.message.data_section(Buffer.from(text));
}

async function run() {
  const resource = `sb://localhost/${HUB}`;
  const put = { operation: "put-token", type: "servicebus.windows.net:sastoken", name: resource };
  seen.tokens = [
    (await asked("$cbs", put, "SharedAccessSignature sr=x&sig=x&se=9999999999&skn=test")).status,
    (await asked("$cbs", put, token(resource))).status,
  ];
  const management = { operation: "READ", name: HUB, security_token: token(resource) };
  const hub = await asked("$management", { ...management, type: "com.microsoft:eventhub" });
  seen.partitions = hub.body.partition_ids;
  const large = "x".repeat(200000);
  const address = `${HUB}/Partitions/2`;
  const kinds = { kind: "click", number: 7, flag: true };
  seen.outcomes.push(await sent(address, { application_properties: kinds, body: data("three") }));
  seen.outcomes.push(await sent(address, { body: data(large) }));
  seen.outcomes.push(await sent(address, { body: data("x".repeat(2 << 20)) }));

  const first = await attached("receiver", reading("amqp.annotation.x-opt-sequence-number > '0'", 1));
  first.add_credit(3);
  await new Promise((resolve) => {
    first.on("message", ({ message }) => {
      const annotations = message.message_annotations;
      seen.received.push([
        annotations["x-opt-sequence-number"],
        message.body.content.length,
        message.application_properties || null,
      ]);
      if (seen.received.length === 3) resolve();
    });
  });
  const partition = { ...management, type: "com.microsoft:partition", partition: "2" };
  const bounds = (await asked("$management", partition)).body;
  seen.bounds = [bounds.begin_sequence_number, bounds.last_enqueued_sequence_number];

  const stolen = refused("receiver", first);
  const second = await attached("receiver", reading("amqp.annotation.x-opt-offset > '@latest'", 2));
  seen.errors.push(await stolen);
  const lower = connection.open_receiver(reading("amqp.annotation.x-opt-offset > '-1'", 1));
  seen.errors.push(await refused("receiver", lower));
  second.close();
  seen.errors.push(await refused("sender", connection.open_sender({ target: "other" })));
  console.log(JSON.stringify(seen));
  connection.close();
}

connection.once("connection_open", () => {
  run().catch((error) => {
    console.error(error);
    process.exit(1);
  });
});
setTimeout(() => {
  console.error(`nothing more comes: ${JSON.stringify(seen)}`);
  process.exit(2);
}, 20000).unref();
