// What live.js uses of the vendored file, for the check of types (e2e/types.test.js).
export const Idiomorph: { morph(from: Node, to: Node, options?: object): void };
