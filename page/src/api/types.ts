// The documents of the HTTP interface, as docs/http.md describes them.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Value {
  encoding: string;
  size: number;
  text: string | null;
  json?: Json;
  hex: string;
  base64: string | null;
}

export type LoginMethod = "token" | "password";

/** What the node tells before a login. */
export interface Login {
  methods: LoginMethod[];
  is_needed: boolean;
}

export interface Endpoint {
  endpoint: string;
  connected: boolean;
  error: string | null;
}

export interface NodeInfo {
  zid: string;
  whatami: string;
  version: string;
  build: string;
  locators: string[];
  started_at: string;
  write: boolean;
  sql: boolean;
  pipeline: boolean;
  lakes: string[];
  endpoints: { configured: Endpoint[]; connected: number };
}

export type Numbers = (number | null)[];

export interface Series {
  t: (number | string)[];
  messages: Numbers;
  bytes: Numbers;
  sessions: Numbers;
  rows_ingested: Numbers | null;
  waiting: Numbers | null;
  lag: Numbers | null;
}

export interface Current {
  messages_rate: number | null;
  bytes_rate: number | null;
  keys: number | null;
  sessions: number | null;
  recorded: number | null;
  ingested: number | null;
  waiting_rows: number | null;
  lag_seconds: number | null;
  disk_bytes: number | null;
  lost: number | null;
  quarantined: number | null;
  /** Whether the Spark of an ingestion starts for the first time. */
  starting: boolean;
}

export interface Overview {
  now: string;
  series: Series;
  current: Current;
  problems: string[];
}

export interface KeyRow {
  key: string;
  count: number;
  rate: number;
  bytes_rate: number;
  age_ms: number;
  kind: string;
  encoding: string;
  size: number;
  source: string | null;
  value: string;
}

export interface KeyBatch {
  rows: KeyRow[];
  total: number;
  truncated: boolean;
}

export interface Sample {
  key: string;
  kind: string;
  timestamp: string | null;
  received_at?: string | null;
  source?: string | null;
  value: Value;
}

export interface NetworkNode {
  zid: string;
  whatami: string;
  locators: string[];
  self: boolean;
}

export interface NetworkLink {
  src: string;
  dst: string;
  kind?: string;
}

export interface NetworkSession {
  zid: string;
  whatami: string;
  links: { src: string; dst: string }[];
  since: string;
}

export interface Declaration {
  kind: string;
  key: string;
  nodes: string[];
}

export interface NetworkEvent {
  time: string;
  event: string;
  zid: string | null;
  whatami: string | null;
  key: string | null;
  detail: string | null;
}

export interface Network {
  nodes: NetworkNode[];
  links: NetworkLink[];
  sessions: NetworkSession[];
  declarations: Declaration[];
  /** All declarations, those that were left out included. */
  declarations_total: number;
  events: NetworkEvent[];
}

export interface Reply {
  ok: boolean;
  key: string | null;
  timestamp: string | null;
  replier: string | null;
  latency_ms: number;
  value: Value;
}

export interface QueryResult {
  replies: Reply[];
  elapsed_ms: number;
  timed_out: boolean;
  left_out?: number;
}

export interface Past {
  samples: Sample[];
  truncated: boolean;
}

/** Keys of the table `latest`. */
export interface RecordedKeys {
  keys: string[];
  truncated: boolean;
}

export interface PastSeries {
  paths: string[];
  path: string | null;
  t_ms: number[];
  v: (number | null)[];
  samples: number;
  truncated: boolean;
}

export interface Column {
  name: string;
  type: string;
}

export interface Table {
  name: string;
  columns: Column[];
  rows: number | null;
  bytes: number | null;
  files: number | null;
}

export interface SqlResult {
  columns: Column[];
  rows: Json[][];
  elapsed_ms: number;
  truncated: boolean;
}

export interface Batch {
  time: string;
  rows: number;
  seconds: number | null;
  bytes: number | null;
}

/** The last round of a maintenance task; next is null while one runs. */
export interface MaintenanceRun {
  task: string;
  time: string | null;
  seconds: number | null;
  result: string | null;
  failed: boolean;
  next: string | null;
}

export interface Lake {
  lake: string;
  state: string | null;
  problem: string | null;
  rows: number | null;
  bytes: number | null;
  batches: Batch[];
  tables: { name: string; rows: number | null; bytes: number | null; files: number | null }[];
  maintenance: MaintenanceRun[];
}

export interface Pipeline {
  lakes: Lake[];
  gaps: { source: string; missing: number; repeated: number }[];
  latency: { buckets_us: number[]; counts: number[] } | null;
  losses: Record<string, number>;
  status: Record<string, Json> | null;
}

/** What the client wants to receive over the WebSocket. */
export interface Subscription {
  overview: boolean;
  keys: string | null;
  follow: string | null;
  network: boolean;
}

/** One batch of the WebSocket: any of these members. */
export interface Batches {
  overview?: Current & { t: number | string; problems?: string[] };
  keys?: KeyBatch;
  samples?: Sample[];
  skipped?: number;
  network?: Network;
  error?: string;
}
