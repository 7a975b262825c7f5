/** Commands to copy. Each argument is quoted, since names may come from other people. Pure. */

/** Returns an argument for a POSIX shell. */
export function quote(argument: string): string {
  // A line break or control character would run or hide a part of a pasted command.
  const oneLine = argument.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(oneLine)) return oneLine;
  return `'${oneLine.replaceAll("'", `'\\''`)}'`;
}

/** Returns a command line. */
export function command(...arguments_: readonly string[]): string {
  return arguments_.map(quote).join(" ");
}
