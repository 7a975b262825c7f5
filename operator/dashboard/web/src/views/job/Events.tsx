import { Card } from "../../parts/Card";
import { Icon } from "../../parts/Icon";
import { Name, Text } from "../../parts/Text";
import { Ago } from "../../parts/Time";
import type { EventLine, StatusReport } from "../../wire/job";

/** The last events of the job, the newest first. */
export function Events(props: { readonly events: readonly EventLine[]; readonly unread: StatusReport["unread"] }) {
  const events = props.events.toReversed();
  if (events.length === 0 && props.unread.length === 0) return null;
  return (
    <Card title="Events">
      <ol class="events">
        {events.map((event) => (
          <li key={`${event.last} ${event.reason} ${event.note}`} class={event.type === "Warning" ? "is-warning" : ""}>
            <Icon name={event.type === "Warning" ? "warning" : "dots"} label={event.type} />
            <div>
              <p class="event-head">
                <strong>
                  <Name text={event.reason} />
                </strong>
                <span class="dim">
                  <Ago time={event.last} />
                  {event.count > 1 && `, ${event.count} times`}
                </span>
              </p>
              <p>
                <Text text={event.note} />
              </p>
            </div>
          </li>
        ))}
      </ol>
      {props.unread.map((own) => (
        <p key={own.what} class="card-text is-bad">
          <Text text={own.why} />
        </p>
      ))}
    </Card>
  );
}
