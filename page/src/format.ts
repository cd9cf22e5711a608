// Numbers, sizes, durations and times as text that does not change its width needlessly.

const DASH = "–";
const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"] as const;

/** Splits a number into the text of its figure and its unit: 12,345,678 is "12.3" and "M". */
export function scaled(value: number): [string, string] {
  const size = Math.abs(value);
  if (size >= 1e9) return [significant(value / 1e9), "G"];
  if (size >= 1e6) return [significant(value / 1e6), "M"];
  if (size >= 1e5) return [significant(value / 1e3), "k"];
  return [Number.isInteger(value) || size >= 1000 ? grouped(Math.round(value)) : significant(value), ""];
}

/** Splits a number of bytes into its figure and its unit, in powers of 1000. */
export function scaledBytes(value: number): [string, string] {
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 1000 && unit < BYTE_UNITS.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return [unit === 0 ? String(Math.round(rest)) : significant(rest), BYTE_UNITS[unit] ?? "B"];
}

/** Splits a number of seconds into its figure and its unit. */
export function scaledSeconds(seconds: number): [string, string] {
  const size = Math.abs(seconds);
  if (size === 0) return ["0", "s"];
  if (size < 1e-3) return [significant(seconds * 1e6), "µs"];
  if (size < 1) return [significant(seconds * 1e3), "ms"];
  if (size < 120) return [significant(seconds), "s"];
  if (size < 7200) return [String(Math.floor(seconds / 60)), "min"];
  if (size < 172_800) return [String(Math.floor(seconds / 3600)), "h"];
  return [String(Math.floor(seconds / 86_400)), "d"];
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? DASH : scaled(value).join(" ").trimEnd();
}

export function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? DASH : scaledBytes(value).join(" ");
}

export function duration(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? DASH : scaledSeconds(seconds).join(" ");
}

/** A rate per second: one decimal below 100. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0";
  if (value < 0.05) return "<0.1";
  return value < 100 ? value.toFixed(1) : count(Math.round(value));
}

/** The age of something, in whole units, so that it does not flicker: "now" below a second. */
export function age(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Local time of the day with milliseconds, from ISO text or milliseconds since 1970. */
export function clock(time: string | number | null | undefined, milliseconds = true): string {
  const date = toDate(time);
  if (date === null) return DASH;
  const text = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return milliseconds ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

/** Local date and time of the day, to milliseconds. */
export function dateTime(time: string | number | null | undefined, milliseconds = true): string {
  const date = toDate(time);
  if (date === null) return DASH;
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${clock(date.getTime(), milliseconds)}`;
}

/** The first eight digits of an id; whole where it is shorter. */
export function shortId(id: string | null | undefined): string {
  if (id === null || id === undefined || id === "") return DASH;
  return id.length > 10 ? id.slice(0, 8) : id;
}

/** "1 key", "2 keys". */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

function toDate(time: string | number | null | undefined): Date | null {
  if (time === null || time === undefined) return null;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? null : date;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function significant(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/\.?0+$/, "");
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
