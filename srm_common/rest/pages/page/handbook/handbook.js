// The handbook needs none of this: its colours follow Airflow's, and "back" leads to where the reader was.

import { followScheme } from "../scheme.js";

followScheme(() => {});

const from = document.referrer ? new URL(document.referrer) : null;
const replications = new URL("../", location.href).pathname;
if (from?.origin === location.origin && [replications, `${replications}ui`].includes(from.pathname)) {
  document.querySelector(".to-replications").onclick = (event) => {
    event.preventDefault();
    history.back();
  };
}
