import { expect, test } from "vitest";
import { fault, matcher, searchExpression } from "../src/keys/keyexpr";

test.each([
  ["", "**"],
  ["  ", "**"],
  ["ant", "**/$*ant$*/**"],
  ["fleet/a", "fleet/a$*/**"],
  ["/fleet/ant/", "fleet/ant$*/**"],
  ["fleet/*/pose", "fleet/*/pose"],
])("searching %j means %s", (text, expression) => expect(searchExpression(text)).toBe(expression));

test.each([
  ["**", "a/b", true],
  ["**", "@/router", false],
  ["**", "a/@b", false],
  ["a/*", "a/b", true],
  ["a/*", "a/b/c", false],
  ["a/*", "a/@b", false],
  ["a/**", "a", true],
  ["a/**/d", "a/b/c/d", true],
  ["a/**/d", "a/d", true],
  ["a/**/d", "a/d/e", false],
  ["@/*/session/**", "@/a1/session/x", true],
  ["**/$*ant$*/**", "fleet/giants/pose", true],
  ["**/$*ant$*/**", "fleet/bee/pose", false],
  ["a/b$*", "a/b.c", true],
  ["a/b.$*", "a/bxc", false],
])("%s includes %s: %s", (expression, key, included) => expect(matcher(expression)(key)).toBe(included));

test.each(["a//b", "/a", "a#b", "a?b", "a/b*", "a/$b"])("%s is not a key expression", (text) => expect(fault(text)).not.toBeNull());

test.each(["a", "a/*/c", "a/**", "a/b$*c"])("%s is one", (text) => expect(fault(text)).toBeNull());
