/** Pages that are not the first to be opened. They are in a file of their own: pages.js. */

export { Job } from "./Job";
export { NodeView } from "./Node";
export { NodesView } from "./Nodes";
export { Plan } from "./Plan";
export { Policies } from "./Policies";
export { PolicyView } from "./Policy";
export { Queue } from "./Queue";
export { Queues } from "./Queues";
export { TimelineView } from "./Timeline";
export { WhatIf } from "./WhatIf";
