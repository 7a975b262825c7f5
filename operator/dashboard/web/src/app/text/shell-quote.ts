/** Commands to copy. Each argument is quoted, since names may come from other people. Pure. */

const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Returns an argument for a POSIX shell. */
export function quote(argument: string): string {
  // A line break, control character or mark of direction would run or hide a part of the command.
  const oneLine = argument.replace(UNSAFE, " ");
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(oneLine)) return oneLine;
  return `'${oneLine.replaceAll("'", `'\\''`)}'`;
}

/** Returns a command line. */
export function command(...arguments_: readonly string[]): string {
  return arguments_.map(quote).join(" ");
}
