// What stays in the browser: the colour scheme and saved queries. Works without storage, for this visit only.

const PREFIX = "zenspark.";
const memory = new Map<string, string>();

export function read(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return memory.get(name) ?? null;
  }
}

export function write(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    if (value === null) memory.delete(name);
    else memory.set(name, value);
  }
}

export interface SavedQuery {
  name: string;
  query: string;
}

/** Reads the saved queries; their key in the storage of browsers is still `questions`, its first name. */
export function readSavedQueries(): SavedQuery[] {
  try {
    const parsed = JSON.parse(read("questions") ?? "[]") as unknown;
    return Array.isArray(parsed) ? parsed.filter(isSavedQuery) : [];
  } catch {
    return [];
  }
}

export function saveQuery(query: SavedQuery): SavedQuery[] {
  const others = readSavedQueries().filter((saved) => saved.name !== query.name);
  const queries = [...others, query].sort((a, b) => a.name.localeCompare(b.name));
  write("questions", JSON.stringify(queries));
  return queries;
}

export function deleteSavedQuery(name: string): SavedQuery[] {
  const queries = readSavedQueries().filter((saved) => saved.name !== name);
  write("questions", JSON.stringify(queries));
  return queries;
}

function isSavedQuery(value: unknown): value is SavedQuery {
  const { name, query } = (value ?? {}) as Partial<SavedQuery>;
  return typeof name === "string" && typeof query === "string";
}
