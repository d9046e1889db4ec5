// The REST API, relative to the page's own address, so that the page works under any prefix.

import { setClock } from "./format.js";

const ROOT = new URL("api/v2/", document.baseURI);
const PATIENCE_MS = 30000;

/** A response that is not a success: one sentence, and the API's stable code. */
export class ApiFault extends Error {
  constructor(status, errors) {
    super(errors.map((one) => one.message).join(" "));
    this.status = status;
    this.errors = errors;
    this.code = errors[0]?.code;
  }
}

/** Path of a flow in the API and in the page's own addresses. */
export const flowPath = (source, target) => `flows/${encodeURIComponent(source)}/${encodeURIComponent(target)}`;

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}) => ask("POST", path, { body });
export const put = (path, body) => ask("PUT", path, { body });

async function ask(method, path, { query = {}, body, signal }) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat())
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
  }
  const limits = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
  const headers = { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  let response;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any(limits),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const late = error.name === "TimeoutError" ? `did not respond within ${PATIENCE_MS / 1000} s` : "cannot be reached";
    throw new ApiFault(0, [{ code: "unreachable", message: `The server ${late}.` }]);
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) {
    setClock(answer.now_ms);
    return answer;
  }
  throw new ApiFault(response.status, faults(response, answer));
}

function faults(response, answer) {
  if (Array.isArray(answer?.errors) && answer.errors.length) return answer.errors;
  if (response.status === 401)
    return [{ code: "unauthorized", message: "Your session has ended or you are not logged in: log in, then reload." }];
  if (response.status === 403) return [{ code: "forbidden", message: "Your role does not allow this." }];
  return [
    { code: `http_${response.status}`, message: `The server responded ${response.status} ${response.statusText}.` },
  ];
}
