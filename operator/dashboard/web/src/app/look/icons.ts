/** The shapes of icons, drawn here: the page loads no font and no picture from elsewhere. */

/** Strokes of each icon in a square of 16. */
export const ICON_PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13a.5.5 0 0 1-.5.5H9.75v-3.5h-3.5v3.5H3a.5.5 0 0 1-.5-.5z",
  jobs: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  queues: "M3 2.5v9.5a1 1 0 0 0 1 1h2.5M3 7.5h3.5M8.5 5.5h5v4h-5zM8.5 11.25h5v3.25h-5z",
  nodes: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
  plan: "M3.5 2h6l3 3v9h-9zM5.7 9.3l1.6 1.6 3-3.4",
  timeline: "M2.5 4h5M5.5 8h6M8.5 12h5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  help: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM6.2 6.2a1.9 1.9 0 1 1 2.6 1.9c-.5.2-.8.6-.8 1.2v.2M8 11.7h.01",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  clock: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.5V8l2.5 1.5",
  play: "M5 3.5v9l7.5-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  half: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 2.5v11A5.5 5.5 0 0 1 8 2.5z",
  restart: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
  stop: "M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM8 5v3.5M8 11h.01",
  ban: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM4 4l8 8",
  dots: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warning: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5h.01",
  info: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 7.5V11M8 5h.01",
  map: "M2 4l4-1.5 4 1.5 4-1.5V12l-4 1.5L6 12l-4 1.5zM6 2.5V12M10 4v9.5",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  whole: "M9.5 3H13v3.5M13 3 9 7M6.5 13H3V9.5M3 13l4-4",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  up: "M3.5 10 8 5.5 12.5 10",
  arrow: "M3 8h10M9 4l4 4-4 4",
  swap: "M4.5 2.5v9M2 9l2.5 2.5L7 9M11.5 13.5v-9M9 7l2.5-2.5L14 7",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
  raise: "M8 13V4M4 7.5 8 3.5l4 4M3 14h10",
  flag: "M4 14V2.5h8l-1.5 3 1.5 3H4",
} as const;

/** Name of an icon. */
export type IconName = keyof typeof ICON_PATHS;
