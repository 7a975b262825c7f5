/** Types of `GET /api/namespaces`: `kubectl get visiblenamespaces`. */

import type { Time } from "./cluster";

/** A namespace whose jobs the user may list. */
export interface VisibleNamespace {
  readonly name: string;
  /** Number of jobs that have not ended. */
  readonly jobs: number;
  readonly maySubmit: boolean;
}

/** Answer of `GET /api/namespaces`, by name. */
export interface NamespacesAnswer {
  readonly time: Time;
  readonly namespaces: readonly VisibleNamespace[];
}
