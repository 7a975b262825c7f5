/** A job of the cluster as somebody would submit it. Pure. */

import type { TrainingJob } from "../../wire/job";
import { type Json, writeYaml } from "../text/yaml";

/** Metadata that the author of a job writes. The API server sets all other fields. */
const OWN_METADATA = ["name", "generateName", "namespace", "labels", "annotations"];

/** Annotations that kubectl and the API server write. */
const FOREIGN_ANNOTATIONS = ["kubectl.kubernetes.io/last-applied-configuration", "trellis.dev/requested-by"];

/** Returns the YAML of a job: its spec, and the metadata that its author has written. */
export function writeManifest(job: TrainingJob): string {
  const { apiVersion, kind, metadata, spec } = job as unknown as Readonly<Record<string, Json | undefined>>;
  return writeYaml({ apiVersion: apiVersion ?? "trellis.dev/v1alpha1", kind: kind ?? "TrainingJob", metadata: ownMetadata(metadata), spec });
}

function ownMetadata(metadata: Json | undefined): Json {
  const own = pick(metadata, (name) => OWN_METADATA.includes(name));
  const annotations = pick(own["annotations"], (name) => !FOREIGN_ANNOTATIONS.includes(name));
  return { ...own, annotations: Object.keys(annotations).length > 0 ? annotations : undefined };
}

function pick(value: Json | undefined, isWanted: (name: string) => boolean): Readonly<Record<string, Json | undefined>> {
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return Object.fromEntries(entries.filter(([name]) => isWanted(name)));
}
