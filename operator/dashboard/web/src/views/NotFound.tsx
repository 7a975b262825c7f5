import { path, urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { Text } from "../parts/Text";

/** A URL that names no page. */
export function NotFound() {
  useTitle("Not found");
  return (
    <div class="page page-text">
      <h1>There is no page at this address</h1>
      <p>
        <code>
          <Text text={path.value} max={200} />
        </code>{" "}
        is no page of Trellis.
      </p>
      <p>
        <a href={urls.home}>Home</a>, <a href={urls.jobs()}>jobs</a>, <a href={urls.queues}>queues</a> and{" "}
        <a href={urls.nodes()}>nodes</a> are.
      </p>
    </div>
  );
}
