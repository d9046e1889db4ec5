// What the reader may do. The server decides; the page only says beforehand what it would refuse.

import { get } from "./api.js";

const NEEDS = {
  trigger: "Read-only: this needs a role that may trigger and pause flows (User in Airflow)",
  edit: "This needs a role that may edit flows (Op in Airflow)",
};

const session = { known: false, rights: new Set() };

/** Request the caller's permissions once; retried with the next refresh if that failed. */
export async function startSession() {
  if (session.known) return;
  const answer = await get("whoami");
  Object.assign(session, { known: true, rights: new Set(answer.rights) });
}

/** Why the reader may not do this with a flow, in a sentence; null when they may. */
export function whyNot(right, flow) {
  if (flow?.service) return `This flow is reported by the service ${flow.service}: manage it there`;
  return session.rights.has(right) ? null : NEEDS[right];
}
