// What stays in the browser: the colour scheme and saved questions. Works without storage, for this visit only.

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

export interface Question {
  name: string;
  query: string;
}

export function readQuestions(): Question[] {
  try {
    const parsed = JSON.parse(read("questions") ?? "[]") as unknown;
    return Array.isArray(parsed) ? parsed.filter(isQuestion) : [];
  } catch {
    return [];
  }
}

export function saveQuestion(question: Question): Question[] {
  const others = readQuestions().filter((saved) => saved.name !== question.name);
  const questions = [...others, question].sort((a, b) => a.name.localeCompare(b.name));
  write("questions", JSON.stringify(questions));
  return questions;
}

export function deleteQuestion(name: string): Question[] {
  const questions = readQuestions().filter((saved) => saved.name !== name);
  write("questions", JSON.stringify(questions));
  return questions;
}

function isQuestion(value: unknown): value is Question {
  const { name, query } = (value ?? {}) as Partial<Question>;
  return typeof name === "string" && typeof query === "string";
}
