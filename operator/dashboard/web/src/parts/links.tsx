/** Links to the pages of jobs, nodes, queues and policies. The router handles clicks on them. */

import { urls } from "../app/page/route";
import { refOfId } from "../app/policy/policy-ref";
import { jobLabel } from "../app/text/format";
import type { JobRef } from "../wire/cluster";
import { Name } from "./Text";

/** A link to a job, with its namespace. */
export function JobLink({ job }: { readonly job: JobRef }) {
  return (
    <a href={urls.job(job)}>
      <Name text={`${job.namespace}/${jobLabel(job.name)}`} />
    </a>
  );
}

/** A link to a node. */
export function NodeLink({ name }: { readonly name: string }) {
  return (
    <a href={urls.node(name)}>
      <Name text={name} />
    </a>
  );
}

/** A link to a queue. */
export function QueueLink({ name }: { readonly name: string }) {
  return (
    <a href={urls.queue(name)}>
      <Name text={name} />
    </a>
  );
}

/** The id of a policy, with a link to its object. A fixed rule of Trellis is no object. */
export function PolicyIdLink({ id }: { readonly id: string }) {
  const ref = refOfId(id);
  return ref ? (
    <a href={urls.policy(ref)}>
      <Name text={id} />
    </a>
  ) : (
    <Name text={id} />
  );
}

/** Links to several nodes, separated by commas. */
export function NodeLinks({ names }: { readonly names: readonly string[] }) {
  return (
    <>
      {names.map((name, place) => (
        <span key={name}>
          {place > 0 && ", "}
          <NodeLink name={name} />
        </span>
      ))}
    </>
  );
}
