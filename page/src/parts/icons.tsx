// Icons of the navigation, drawn in lines of the text colour.

import type { JSX } from "preact";
import type { View } from "../state/route";

const PATHS: Record<View | "sun" | "moon", string> = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  keys: "M5 5v12a2 2 0 0 0 2 2h3M5 9h5M13 9h6M13 14h6M13 19h6",
  time: "M12 7v5l3 2M4 12a8 8 0 1 0 2.5-5.8M4 4v4h4",
  network: "M12 8v4M12 12l-5 4M12 12l5 4M12 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM6 20a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM18 20a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  query: "M5 6h14v9h-8l-4 4v-4H5zM9 10.5h6",
  sql: "M5 6c0-1.7 3.1-3 7-3s7 1.3 7 3-3.1 3-7 3-7-1.3-7-3zM5 6v12c0 1.7 3.1 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.1 3 7 3s7-1.3 7-3",
  pipeline: "M3 12h5M16 12h5M8 7h8v10H8zM11 10.5l2 1.5-2 1.5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M19 5l-1.4 1.4M6.4 17.6 5 19",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
};

export function Icon({ name }: { name: keyof typeof PATHS }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
