// hive-driver: HiveServer2 from a third language. Run with its folder as NODE_PATH; the task comes on standard input.
"use strict";
const fs = require("fs");
const hive = require("hive-driver");
const { TCLIService, TCLIService_types: types } = hive.thrift;
const utils = new hive.HiveUtils(types);
const job = JSON.parse(fs.readFileSync(0, "utf8"));

const answer = (name, fields) => console.log(JSON.stringify({ name, ...fields }));

function plain(value) {
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return { bytes: value.toString("hex") };
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "bigint") return { bigint: value.toString() };
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object") return { object: value };
  return value;
}

async function connect(token) {
  const client = new hive.HiveClient(TCLIService, types);
  client.on("error", () => {});
  await client.connect(
    { host: job.host, port: job.thrift_port, options: { ssl: true, ca: fs.readFileSync(job.ca), servername: job.host } },
    new hive.connections.TcpConnection(),
    new hive.auth.PlainTcpAuthentication({ username: "ann", password: token }),
  );
  const session = await client.openSession({ client_protocol: types.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10 });
  return { client, session };
}

async function ended(operation) {
  try {
    await utils.waitUntilReady(operation, false, () => {});
  } catch (failure) {
    const status = await operation.status(false); // the driver's own error does not say why
    throw new Error(status.errorMessage ?? failure.message);
  }
}

async function fetchAll(operation) {
  await ended(operation);
  await utils.fetchAll(operation);
  const rows = utils.getResult(operation).getValue();
  const columns = (operation.getSchema()?.columns ?? []).map((column) => column.columnName);
  await operation.close();
  return { columns, rows };
}

async function run(session, name, sql, fetch) {
  const operation = await session.executeStatement(sql, { runAsync: true });
  if (!fetch) {
    await ended(operation);
    await operation.close();
    return;
  }
  const { columns, rows } = await fetchAll(operation);
  // The driver gives objects: columns of the same name are one.
  answer(name, { columns, rows: rows.map((row) => columns.map((column) => plain(row[column]))) });
}

async function metadata(session) {
  const call = async (promise) => (await fetchAll(await promise)).rows;
  answer("metadata", {
    tables: (await call(session.getTables({ schemaName: job.database }))).map((row) => [row.TABLE_NAME, row.TABLE_TYPE]),
    schemas: (await call(session.getSchemas({ schemaName: job.database }))).map((row) => row.TABLE_SCHEM),
    columns: (await call(session.getColumns({ schemaName: job.database, tableName: "t" }))).map((row) => [row.COLUMN_NAME, row.TYPE_NAME]),
    types: (await call(session.getTypeInfo())).map((row) => row.TYPE_NAME),
    tableTypes: (await call(session.getTableTypes())).map((row) => row.TABLE_TYPE),
    catalogs: await call(session.getCatalogs()),
    functions: (await call(session.getFunctions({ functionName: "upper" }))).map((row) => row.FUNCTION_NAME),
  });
}

async function cancel(session) {
  const operation = await session.executeStatement(job.endless, { runAsync: true });
  const state = async () => (await operation.status(false)).operationState;
  const until = async (wanted) => {
    for (let n = 0; n < 400; n++) {
      if ((await state()) === wanted) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`state ${await state()} instead of ${wanted}`);
  };
  await until(types.TOperationState.RUNNING_STATE);
  await operation.cancel();
  await until(types.TOperationState.CANCELED_STATE);
  await operation.close();
  await run(session, "cancel", "SELECT 'alive' AS after", true);
}

async function guarded(name, action) {
  try {
    await action();
  } catch (error) {
    answer(name, { error: String(error?.message ?? error), kind: error?.name ?? typeof error });
  }
}

async function main() {
  const { client, session } = await connect(job.token);
  for (const [name, sql, fetch] of job.queries) await guarded(name, () => run(session, name, sql, fetch));
  await guarded("metadata", () => metadata(session));
  await guarded("wrong_token", async () => {
    await connect("wrong");
    answer("wrong_token", { value: "let in" });
  });
  await guarded("cancel", () => cancel(session));
  await session.close();
  client.close();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
