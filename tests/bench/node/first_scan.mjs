// Run in a fresh process: loads what a retrieval server in TypeScript is made of, opens the table and runs one scan.
import { existsSync, readFileSync } from "node:fs";
import { connect } from "@lancedb/lancedb";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { S3Client } from "@aws-sdk/client-s3";

const [, , database, name, condition] = process.argv;
new S3Client({ region: "eu-west-1" });
const server = new McpServer({ name: "bench", version: "1" });
await server.connect(new StreamableHTTPServerTransport({ sessionIdGenerator: undefined }));
const table = await (await connect(database)).openTable(name);
const rows = await table.query().where(condition).limit(20).toArray();
const at = Number(process.hrtime.bigint()) / 1e9;
const status = existsSync("/proc/self/status") ? readFileSync("/proc/self/status", "utf8") : "";
const said = { at, rows: rows.length, peak_kb: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) };
process.stdout.write(JSON.stringify(said) + "\n", () => process.reallyExit(0));
