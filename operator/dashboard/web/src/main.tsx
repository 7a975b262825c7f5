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

import { render } from "preact";

import { startClock } from "./app/clock";
import { startKeys } from "./app/keys";
import { startRouter } from "./app/route";
import { keepCurrent } from "./app/sync";
import { startTheme } from "./app/theme";
import { startViewport } from "./app/viewport";
import { App } from "./views/App";

startTheme();
startClock();
startRouter();
startViewport();
startKeys();
const root = document.getElementById("app");
if (root) render(<App />, root);
void keepCurrent();
