// `await using` looks for Symbol.asyncDispose, which Node has from 18.18 on.
// Every module that has something to dispose of imports this one first.
if (!Symbol.asyncDispose) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol("Symbol.asyncDispose") });
}
export {};
