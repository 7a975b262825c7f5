import { session } from "../app/live/store";
import type { IconName } from "../app/look/icons";
import { cycleTheme, themeChoice } from "../app/look/theme";
import { page, query, urls } from "../app/page/route";
import { Freshness } from "./Freshness";
import { Icon } from "./Icon";
import { Search } from "./Search";
import { Name } from "./Text";

interface Area {
  readonly name: string;
  readonly href: string;
  readonly icon: IconName;
  readonly pages: readonly string[];
}

const AREAS: readonly Area[] = [
  { name: "Home", href: urls.home, icon: "home", pages: ["home"] },
  { name: "Jobs", href: urls.jobs(), icon: "jobs", pages: ["jobs", "job"] },
  { name: "Timeline", href: urls.timeline(), icon: "timeline", pages: ["timeline"] },
  { name: "Queues", href: urls.queues, icon: "queues", pages: ["queues", "queue"] },
  { name: "Nodes", href: urls.nodes(), icon: "nodes", pages: ["nodes", "node"] },
  { name: "Policies", href: urls.policies(), icon: "policies", pages: ["policies", "policy"] },
  { name: "Plan", href: urls.plan, icon: "plan", pages: ["plan"] },
  { name: "What if", href: urls.whatIf(), icon: "whatIf", pages: ["whatIf"] },
];

/** The head of every page: areas, search, freshness, theme and help. */
export function Header(props: { readonly onHelp: () => void; readonly onPalette: () => void }) {
  const current = query.value.get("view") === "timeline" ? "timeline" : page.value.page;
  return (
    <header class="header">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <a class="brand" href={urls.home} aria-label="Trellis, home">
        <Logo />
        <span>Trellis</span>
      </a>
      <nav class="nav" aria-label="Areas">
        {AREAS.map((area) => (
          <a key={area.name} href={area.href} aria-current={area.pages.includes(current) ? "page" : undefined}>
            <Icon name={area.icon} />
            {area.name}
          </a>
        ))}
      </nav>
      <div class="header-tools">
        <Search />
        <button type="button" class="icon-button only-narrow" aria-label="Search" onClick={props.onPalette}>
          <Icon name="search" />
        </button>
        <Freshness />
        <Identity />
        <ThemeButton />
        <button type="button" class="icon-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={props.onHelp}>
          <Icon name="help" />
        </button>
      </div>
    </header>
  );
}

/** Cluster and user: whose data these are. */
function Identity() {
  const current = session.value;
  if (!current) return null;
  return (
    <span class="identity">
      {current.context && (
        <>
          <Name text={current.context} />
          {" · "}
        </>
      )}
      <Name text={current.user} />
    </span>
  );
}

function ThemeButton() {
  const choice = themeChoice.value;
  const icon = { system: "system", light: "sun", dark: "moon" } as const;
  const names = { system: "as the system", light: "light", dark: "dark" } as const;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Theme: ${names[choice]}`}
      title={`Theme: ${names[choice]}`}
      onClick={cycleTheme}
    >
      <Icon name={icon[choice]} />
    </button>
  );
}

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
      <rect width="16" height="16" rx="3.5" fill="var(--accent)" />
      <path
        d="M4.5 3v10M8 3v10M11.5 3v10M3 5.5h10M3 10.5h10"
        stroke="var(--on-accent)"
        stroke-width="1.3"
        stroke-linecap="round"
        fill="none"
      />
    </svg>
  );
}
