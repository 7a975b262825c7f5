/** Starts the page. */

import "./style/tokens.css";
import "./style/base.css";
import "./style/controls.css";
import "./style/header.css";
import "./style/dialog.css";
import "./style/parts.css";
import "./style/job-table.css";
import "./style/home.css";
import "./style/queues.css";
import "./style/job.css";
import "./style/gang.css";
import "./style/map.css";
import "./style/policy.css";

import { render } from "preact";

import { keepCurrent } from "./app/live/sync";
import { startTheme } from "./app/look/theme";
import { startKeys } from "./app/page/keys";
import { startRouter } from "./app/page/route";
import { startViewport } from "./app/page/viewport";
import { startClock } from "./app/server/clock";
import { App } from "./views/App";

startTheme();
startClock();
startRouter();
startViewport();
startKeys();
const root = document.getElementById("app");
if (root) render(<App />, root);
void keepCurrent();
