// Every call of the published client for Node, against whatever listens on AGONES_SDK_GRPC_PORT.
const assert = require("node:assert/strict");
const AgonesSDK = require("@google-cloud/agones-sdk");

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const sdk = new AgonesSDK();
  await sdk.connect();
  const states = [];
  sdk.watchGameServer((server) => states.push(server.status.state), () => {});
  const state = async () => (await sdk.getGameServer()).status.state;
  const until = async (wanted) => {
    while ((await state()) !== wanted) await sleep(20);
  };
  sdk.health();
  await sdk.ready();
  await until("Ready");
  await sdk.allocate();
  await until("Allocated");
  await sdk.reserve(1);
  await until("Reserved");
  await until("Ready");
  await sdk.setLabel("map", "desert");
  await sdk.setAnnotation("note", "any text");
  const meta = (await sdk.getGameServer()).objectMeta;
  const map = (pairs, key) => pairs.find(([name]) => name === key)[1];
  assert.equal(map(meta.labelsMap, "agones.dev/sdk-map"), "desert");
  assert.equal(map(meta.annotationsMap, "agones.dev/sdk-note"), "any text");
  await counters(sdk.beta);
  await lists(sdk.beta);
  await players(sdk.alpha);
  await sdk.shutdown();
  await until("Shutdown");
  while (!states.includes("Shutdown")) await sleep(20);
  sdk.close();
  console.log("every call was answered");
  // The client leaves some of its connections open.
  process.exit(0);
}

async function counters(beta) {
  assert.equal(await beta.getCounterCount("rooms"), 1);
  await beta.incrementCounter("rooms", 9);
  await beta.decrementCounter("rooms", 10);
  await beta.setCounterCount("rooms", 10);
  assert.equal(await beta.getCounterCount("rooms"), 10);
  assert.equal(await beta.getCounterCapacity("rooms"), 10);
  await beta.setCounterCapacity("rooms", 1);
  assert.equal(await beta.getCounterCount("rooms"), 1);
  await assert.rejects(beta.incrementCounter("rooms", 1), { code: 11 });
  await assert.rejects(beta.getCounterCount("none"), { code: 5 });
}

async function lists(beta) {
  assert.equal(await beta.listContains("players", "test1"), true);
  assert.equal(await beta.getListLength("players"), 3);
  assert.deepEqual(await beta.getListValues("players"), ["test0", "test1", "test2"]);
  await beta.appendListValue("players", "test3");
  await beta.deleteListValue("players", "test2");
  assert.equal(await beta.getListCapacity("players"), 100);
  // The client sends a mask without fields here.
  await beta.setListCapacity("players", 2);
  assert.equal(await beta.getListCapacity("players"), 2);
  assert.deepEqual(await beta.getListValues("players"), ["test0", "test1"]);
}

async function players(alpha) {
  await alpha.setPlayerCapacity(10);
  assert.equal(await alpha.getPlayerCapacity(), 10);
  assert.equal(await alpha.playerConnect("1234"), true);
  assert.equal(await alpha.isPlayerConnected("1234"), true);
  assert.deepEqual(await alpha.getConnectedPlayers(), ["1234"]);
  assert.equal(await alpha.playerDisconnect("1234"), true);
  assert.equal(await alpha.getPlayerCount(), 0);
}

setTimeout(() => {
  console.error("it takes too long");
  process.exit(1);
}, 60000).unref();
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
