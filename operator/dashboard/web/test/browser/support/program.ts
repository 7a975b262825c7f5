/** Runs programs to their end. */

import { spawn } from "node:child_process";

/** The output of a program that has ended. */
export interface ProgramResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Options of a run. */
export interface RunOptions {
  /** Text on standard input. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Longest run of a program. */
const TIMEOUT_MS = 60_000;

/** Runs a program. A failure of the program is no error: its exit code says so. */
export function runProgram(program: string, args: readonly string[], options: RunOptions = {}): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...options.env },
      stdio: "pipe",
      timeout: TIMEOUT_MS,
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        output[name] += text;
      });
    }
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === null) reject(new Error(`${program} ${args.join(" ")} was ended by ${signal}`));
      else resolve({ code, ...output });
    });
    // A program may end before it has read all of its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.input ?? "");
  });
}

/** Runs a program and returns its output. Fails with the program's message. */
export async function outputOf(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await runProgram(program, args, options);
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} returned ${code}: ${stderr}${stdout}`);
  return stdout;
}
