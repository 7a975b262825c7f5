import { expect, test } from "vitest";

import { writeManifest } from "../../../src/app/plan/manifest";
import type { TrainingJob } from "../../../src/wire/job";

/** A job as the API server stores it, with fields that the page does not name. */
function stored(metadata: object): TrainingJob {
  const job = {
    apiVersion: "trellis.dev/v1alpha1",
    kind: "TrainingJob",
    metadata: {
      name: "llm",
      namespace: "ml",
      uid: "u-1",
      resourceVersion: "7",
      generation: 2,
      creationTimestamp: "2026-01-01T00:00:00Z",
      finalizers: ["trellis.dev/job"],
      ownerReferences: [{ uid: "u-0" }],
      managedFields: [{ manager: "kubectl" }],
      ...metadata,
    },
    spec: { queueName: "research", taskGroups: [{ name: "worker", replicas: 8, gpus: 8, image: "train:1" }] },
    status: { phase: "Queued", taskGroups: [] },
  };
  return job as unknown as TrainingJob;
}

test("manifest has what the author of a job writes", () => {
  const annotations = { "trellis.dev/requested-by": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}", note: "mine" };
  expect(writeManifest(stored({ labels: { team: "a" }, annotations }))).toBe(`apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata:
  name: llm
  namespace: ml
  labels:
    team: a
  annotations:
    note: mine
spec:
  queueName: research
  taskGroups:
  - name: worker
    replicas: 8
    gpus: 8
    image: train:1
`);
});

test("annotations are left out if others have written all of them", () => {
  const text = writeManifest(stored({ annotations: { "trellis.dev/requested-by": "{}" } }));
  expect(text).toContain("metadata:\n  name: llm\n  namespace: ml\nspec:\n");
});
