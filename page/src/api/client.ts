// Requests to the node. Every response that is not 2xx becomes an ApiError with the sentence of the server.

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

type Listener = () => void;
const onUnauthorized = new Set<Listener>();

/** Calls a listener whenever the server requires a login; returns what removes it. */
export function whenUnauthorized(listener: Listener): () => void {
  onUnauthorized.add(listener);
  return () => onUnauthorized.delete(listener);
}

export type Parameters = Record<string, string | number | null | undefined>;

/** Returns the path of an API request, with those parameters that have a value. */
export function apiPath(name: string, parameters: Parameters = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined) search.set(key, String(value));
  }
  const text = search.toString();
  return `/_api/${name}${text === "" ? "" : `?${text}`}`;
}

export async function get<T>(name: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return (await request(apiPath(name, parameters), signal === undefined ? {} : { signal })) as T;
}

/** Like `get`, with null where the server has no such thing (404). */
export async function getOrNull<T>(name: string, parameters: Parameters, signal?: AbortSignal): Promise<T | null> {
  try {
    return await get<T>(name, parameters, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export async function post<T>(name: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  };
  return (await request(apiPath(name), init)) as T;
}

async function request(path: string, init: RequestInit): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The node does not respond.");
  }
  if (!response.ok) {
    const message = await sentence(response);
    if (response.status === 401) onUnauthorized.forEach((listener) => listener());
    throw new ApiError(response.status, message);
  }
  return response.status === 204 ? null : await response.json();
}

async function sentence(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const document = JSON.parse(text) as { error?: unknown };
    if (typeof document.error === "string") return document.error;
  } catch {
    // Not JSON: the text itself, if it is short.
  }
  return text !== "" && text.length < 300 ? text : `The node responded ${response.status} ${response.statusText}.`;
}

/** Returns the text to show for anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
