// Drives a server as a TypeScript client does, and prints what it saw as one JSON value.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [installed, url, token] = process.argv.slice(2);
const require = createRequire(`${installed}/`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "typescript-test", version: "1.0.0" });
const headers = token ? { authorization: `Bearer ${token}` } : {};
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
const seen = {
  server: client.getServerVersion(),
  session: transport.sessionId ?? null,
  // Listing first makes the client check every result against the tool's output schema.
  tools: (await client.listTools()).tools,
  found: await client.callTool({ name: "lancedb_search", arguments: { query: "rotate_signing_key" } }),
  refused: await client.callTool({ name: "lancedb_search", arguments: { query: "key", limit: 100000 } }),
};
await client.close();
process.stdout.write(JSON.stringify(seen));
