// The WebSocket to the node: one for the page, opened again with growing delays when it closes.

import type { Batches, Subscription } from "./types";
import { Store } from "../state/store";

/** "closed" where no WebSocket is wanted: before a login. */
export type Connection = "closed" | "connecting" | "connected" | "lost";

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;

/** Returns the delay before a further attempt: doubled each time up to a limit, with some chance in it. */
export function reconnectDelay(attempt: number, random: () => number = Math.random): number {
  const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return delay / 2 + (delay / 2) * random();
}

export class Live {
  readonly connection = new Store<Connection>("connecting");
  private socket: WebSocket | null = null;
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly handlers = new Set<(batch: Batches) => void>();
  private readonly losers = new Set<() => void>();
  private readonly openers = new Set<(again: boolean) => void>();
  private wasOpen = false;
  private readonly wishes = new Map<symbol, Partial<Subscription>>();

  constructor(private readonly url: () => string) {}

  start(): void {
    clearTimeout(this.timer);
    this.socket?.close();
    const socket = new WebSocket(this.url());
    this.socket = socket;
    socket.onopen = () => {
      if (socket !== this.socket) return;
      this.attempt = 0;
      this.connection.set("connected");
      this.sendSubscription();
      this.openers.forEach((open) => open(this.wasOpen));
      this.wasOpen = true;
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      if (socket !== this.socket) return;
      const batch = JSON.parse(event.data) as Batches;
      this.handlers.forEach((handle) => handle(batch));
    };
    socket.onclose = () => {
      if (socket === this.socket) this.lost();
    };
  }

  /** Closes the WebSocket and opens no further one, until `start` or `retry`. */
  stop(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.connection.set("closed");
  }

  /** Connects at once: after a login, or when the user requests it. */
  retry(): void {
    this.attempt = 0;
    if (this.connection.value === "closed") this.connection.set("connecting");
    this.start();
  }

  /** Receives batches until the returned function is called. */
  listen(handle: (batch: Batches) => void): () => void {
    this.handlers.add(handle);
    return () => this.handlers.delete(handle);
  }

  /** Calls a function at each connection; its argument tells the first from later ones. */
  whenOpened(open: (again: boolean) => void): () => void {
    this.openers.add(open);
    return () => this.openers.delete(open);
  }

  /** Calls a function each time a connection ends, or cannot be opened. */
  whenLost(lose: () => void): () => void {
    this.losers.add(lose);
    return () => this.losers.delete(lose);
  }

  /** Adds a part to what this page subscribes to, until the returned function is called. */
  want(wish: Partial<Subscription>): () => void {
    const token = Symbol();
    this.wishes.set(token, wish);
    this.sendSubscription();
    return () => {
      this.wishes.delete(token);
      this.sendSubscription();
    };
  }

  private subscription(): Subscription {
    const whole: Subscription = { overview: false, keys: null, follow: null, network: false };
    for (const wish of this.wishes.values()) {
      whole.overview ||= wish.overview ?? false;
      whole.network ||= wish.network ?? false;
      whole.keys = wish.keys ?? whole.keys;
      whole.follow = wish.follow ?? whole.follow;
    }
    return whole;
  }

  private sendSubscription(): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ subscribe: this.subscription() }));
  }

  private lost(): void {
    this.connection.set("lost");
    this.timer = setTimeout(() => this.start(), reconnectDelay(this.attempt));
    this.attempt += 1;
    this.losers.forEach((lose) => lose());
  }
}

function liveUrl(): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `${scheme}://${location.host}/_api/live`;
}

export const live = new Live(liveUrl);
