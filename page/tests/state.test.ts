import { afterEach, expect, test, vi } from "vitest";
import { apiPath, ApiError, get, getOrNull, whenUnauthorized } from "../src/api/client";
import { Live, live, reconnectDelay } from "../src/api/live";
import type { Current, Login, NetworkEvent, Overview } from "../src/api/types";
import { lanesOf } from "../src/parts/timeline";
import { parseRoute, routeTo } from "../src/state/route";
import { deleteSavedQuery, readSavedQueries, saveQuery } from "../src/state/saved";
import { connect, extend, loginMethods, loginNeeded, startSession, toMilliseconds } from "../src/state/session";

afterEach(() => {
  vi.unstubAllGlobals();
  localStorage.clear();
});

const CURRENT: Current = {
  messages_rate: 5,
  bytes_rate: 50,
  keys: 2,
  sessions: 1,
  recorded: 10,
  ingested: 8,
  waiting_rows: 2,
  lag_seconds: 0.5,
  disk_bytes: 100,
  lost: 0,
  quarantined: 0,
  starting: false,
};

function overview(): Overview {
  const series = { t: [100], messages: [1], bytes: [1], sessions: [1], rows_ingested: [0], waiting: null, lag: [0] };
  return { now: "", series, current: { ...CURRENT, ingested: 4 }, problems: ["old"] };
}

test("figures are appended once, and rates come from counts", () => {
  const next = extend(overview(), { ...CURRENT, t: 102, problems: [] });
  expect(next.series).toMatchObject({ t: [100, 102], messages: [1, 5], rows_ingested: [0, 2], waiting: null, lag: [0, 0.5] });
  expect(next.problems).toEqual([]);
  expect(extend(next, { ...CURRENT, t: 102 })).toBe(next);
});

test("times are numbers of seconds, of milliseconds, or ISO text", () => {
  expect(toMilliseconds(1_794_928_261)).toBe(1_794_928_261_000);
  expect(toMilliseconds(1_794_928_261_000)).toBe(1_794_928_261_000);
  expect(toMilliseconds("1970-01-01T00:00:01Z")).toBe(1000);
});

test("routes are in the fragment", () => {
  expect(parseRoute("#/keys?search=a%2Fb").parameters.get("search")).toBe("a/b");
  expect(parseRoute("").view).toBe("overview");
  expect(parseRoute("#/nothing").view).toBe("overview");
  expect(routeTo("time", { key: "a/b" })).toBe("#/time?key=a%2Fb");
});

test("queries are kept by name", () => {
  saveQuery({ name: "b", query: "select 1" });
  saveQuery({ name: "a", query: "select 2" });
  expect(saveQuery({ name: "b", query: "select 3" }).map((each) => each.query)).toEqual(["select 2", "select 3"]);
  expect(deleteSavedQuery("a")).toHaveLength(1);
  localStorage.setItem("zenspark.questions", "{broken");
  expect(readSavedQueries()).toEqual([]);
});

test("reconnection waits longer each time, up to a limit", () => {
  const delays = [0, 1, 2, 10].map((attempt) => reconnectDelay(attempt, () => 1));
  expect(delays).toEqual([250, 500, 1000, 5000]);
  expect(reconnectDelay(0, () => 0)).toBe(125);
});

class FakeSocket {
  static readonly OPEN = 1;
  static made: FakeSocket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;

  constructor() {
    FakeSocket.made.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 3;
  }

  open(): void {
    this.readyState = FakeSocket.OPEN;
    this.onopen?.();
  }
}

test("the WebSocket is opened again, and the subscription sent again", () => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  const ours = new Live(() => "ws://test");
  const received: unknown[] = [];
  ours.listen((batch) => received.push(batch));
  ours.want({ overview: true });
  const stop = ours.want({ keys: "a/**" });
  ours.start();
  FakeSocket.made[0]?.open();
  expect(JSON.parse(FakeSocket.made[0]?.sent[0] ?? "")).toEqual({ subscribe: { overview: true, keys: "a/**", follow: null, network: false } });
  FakeSocket.made[0]?.onmessage?.({ data: '{"skipped": 1}' });
  expect(received).toEqual([{ skipped: 1 }]);
  stop();
  FakeSocket.made[0]?.onclose?.();
  expect(ours.connection.value).toBe("lost");
  vi.runOnlyPendingTimers();
  FakeSocket.made[1]?.open();
  expect(ours.connection.value).toBe("connected");
  expect(JSON.parse(FakeSocket.made[1]?.sent[0] ?? "")).toMatchObject({ subscribe: { keys: null } });
  vi.useRealTimers();
});

function respondToLogin(login: Login): void {
  const responses: Record<string, unknown> = { "/_api/login": login, "/_api/node": { zid: "a1" }, "/_api/overview": null };
  vi.stubGlobal("fetch", (path: string) => Promise.resolve(new Response(JSON.stringify(responses[path]))));
}

test("no WebSocket is opened before a login", async () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  respondToLogin({ methods: ["password"], is_needed: true });
  await connect();
  expect([loginNeeded.value, loginMethods.value]).toEqual([true, ["password"]]);
  expect([live.connection.value, FakeSocket.made.length]).toEqual(["closed", 0]);
  respondToLogin({ methods: ["password"], is_needed: false });
  await connect();
  expect([loginNeeded.value, live.connection.value, FakeSocket.made.length]).toEqual([false, "connecting", 1]);
  FakeSocket.made[0]?.open();
  expect(live.connection.value).toBe("connected");
  live.stop();
});

test("a page whose login ended with its node asks for it again", async () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  respondToLogin({ methods: ["token"], is_needed: false });
  startSession();
  await vi.waitFor(() => expect(FakeSocket.made.length).toBe(1));
  FakeSocket.made[0]?.open();
  respondToLogin({ methods: ["token"], is_needed: true });
  FakeSocket.made[0]?.onclose?.();
  await vi.waitFor(() => expect(loginNeeded.value).toBe(true));
  expect(live.connection.value).toBe("closed");
});

test("errors carry the sentence of the server", async () => {
  const responses = [new Response('{"error": "expected a key"}', { status: 400 }), new Response("", { status: 404 }), new Response("{}", { status: 401 })];
  vi.stubGlobal("fetch", () => Promise.resolve(responses.shift()));
  let asked = 0;
  const forget = whenUnauthorized(() => (asked += 1));
  await expect(get("value")).rejects.toThrow("expected a key");
  expect(await getOrNull("value", {})).toBeNull();
  await expect(get("node")).rejects.toBeInstanceOf(ApiError);
  expect(asked).toBe(1);
  forget();
});

test("parameters without a value are left out", () => {
  expect(apiPath("past", { key: "a/b", to: null, limit: 5 })).toBe("/_api/past?key=a%2Fb&limit=5");
});

function event(seconds: number, name: string, part: Partial<NetworkEvent>): NetworkEvent {
  return { time: new Date(seconds * 1000).toISOString(), event: name, zid: null, whatami: null, key: null, detail: null, ...part };
}

test("events become bars from beginning to end, in any order", () => {
  const lanes = lanesOf([
    event(5, "closed", { zid: "a", whatami: "peer" }),
    event(1, "opened", { zid: "a", whatami: "peer" }),
    event(7, "opened", { zid: "a", whatami: "peer" }),
    event(2, "token", { zid: "a", key: "alive" }),
    event(3, "declared", { zid: "a", key: "x" }),
    event(4, "closed", { zid: "b", whatami: "client" }),
  ]);
  expect(lanes.map((lane) => [lane.label, lane.bars])).toEqual([
    [
      "peer a",
      [
        { from: 1000, to: 5000 },
        { from: 7000, to: null },
      ],
    ],
    ["alive", [{ from: 2000, to: null }]],
    ["client b", [{ from: -Infinity, to: 4000 }]],
  ]);
});
