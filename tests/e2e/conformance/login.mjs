// Signs in as the TypeScript client does by itself, calls two tools, and prints what it asked for on the way and what it got.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [installed, url, who, issuer, id, secret, token] = process.argv.slice(2);
const require = createRequire(`${installed}/`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { UnauthorizedError } = await load("client/auth.js");
const { ClientCredentialsProvider } = await load("client/auth-extensions.js");

const asked = [];
const noting = async (address, init) => {
  const response = await fetch(address, init);
  asked.push(`${init?.method ?? "GET"} ${new URL(address).pathname} ${response.status}`);
  return response;
};

// A person has a browser; here it is a request whose redirection is not followed.
class Person {
  redirectUrl = "http://127.0.0.1:1/callback";
  clientMetadata = { client_name: "a test", redirect_uris: [this.redirectUrl], grant_types: ["authorization_code"] };
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.kept; }
  saveTokens(tokens) { this.kept = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  async redirectToAuthorization(address) {
    const response = await fetch(address, { redirect: "manual" });
    this.code = new URL(response.headers.get("location")).searchParams.get("code");
  }
}

const machine = { clientId: id, clientSecret: secret, expectedIssuer: issuer, scope: "search fetch" };
const provider = who === "person" ? new Person() : new ClientCredentialsProvider(machine);
if (token) provider.saveTokens({ access_token: token, token_type: "Bearer" });

const client = new Client({ name: "typescript-test", version: "1.0.0" });
const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider, fetch: noting });
try {
  await client.connect(transport());
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
  const returning = transport();
  await returning.finishAuth(provider.code);
  await client.connect(returning);
}
const found = await client.callTool({ name: "lancedb_search", arguments: { query: "rotate_signing_key" } });
const read = await client.callTool({ name: "lancedb_fetch", arguments: { path: "keys.md" } });
await client.close();
process.stdout.write(JSON.stringify({ asked, found: found.structuredContent, read: read.structuredContent }));
