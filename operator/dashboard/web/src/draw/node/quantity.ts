/**
 * Kubernetes quantities in whole units, with the rules of `api/src/quantity.rs`.
 *
 * The arithmetic is exact: `0.29e2` is 29, which floating point rounds down to 28.
 */

/** Longest text that is read as a quantity, in characters. */
const MAX_LENGTH = 32;

/** Powers of 1024 by binary suffix. */
const BINARY: ReadonlyMap<string, number> = new Map(
  ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].map((suffix, index) => [suffix, index + 1]),
);

/** Powers of ten by decimal suffix. */
const DECIMAL: ReadonlyMap<string, number> = new Map([
  ["n", -9], ["u", -6], ["m", -3], ["", 0], ["k", 3], ["M", 6], ["G", 9], ["T", 12], ["P", 15], ["E", 18],
]);

/** Returns a quantity rounded down to whole units. A text that is no quantity counts as 0. */
export function wholeUnits(text: string | undefined): number {
  if (text === undefined || text.length > MAX_LENGTH) return 0;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(.*)$/.exec(text);
  const [, sign = "", whole = "", fraction = "", suffix = ""] = parts ?? [];
  if (whole === "" && fraction === "") return 0;
  const scale = scaleOf(suffix);
  if (scale === undefined) return 0;
  const digits = BigInt(whole + fraction) * scale.factor;
  const exponent = scale.ten - fraction.length;
  const signed = sign === "-" ? -digits : digits;
  return Number(exponent >= 0 ? signed * 10n ** BigInt(exponent) : floorDivide(signed, 10n ** BigInt(-exponent)));
}

interface Scale {
  /** Whole factor of a binary suffix. */
  readonly factor: bigint;
  /** Power of ten of a decimal suffix or exponent. */
  readonly ten: number;
}

function scaleOf(suffix: string): Scale | undefined {
  const binary = BINARY.get(suffix);
  if (binary !== undefined) return { factor: 1024n ** BigInt(binary), ten: 0 };
  const decimal = DECIMAL.get(suffix);
  if (decimal !== undefined) return { factor: 1n, ten: decimal };
  const exponent = /^[eE]([+-]?\d{1,2})$/.exec(suffix)?.[1];
  return exponent === undefined ? undefined : { factor: 1n, ten: Number(exponent) };
}

function floorDivide(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  return value < 0n && quotient * divisor !== value ? quotient - 1n : quotient;
}
