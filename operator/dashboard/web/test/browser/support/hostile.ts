/** Texts that try to become something else than text. */

const ESCAPE = "\u001b";

/** Texts that an attacker writes into objects of a cluster. Each has its own mark, `h00` and so on. */
export const HOSTILE_TEXTS: readonly string[] = [
  // Markup
  `<img src=x onerror="alert('@')">`,
  `<script>alert("@")</script>`,
  `</script><script>alert("@")</script>`,
  `<svg onload=alert("@")>`,
  `<svg><script href="data:text/javascript,alert(1)"/>@</svg>`,
  `<iframe src="javascript:alert('@')"></iframe>`,
  `<iframe srcdoc="<script>parent.alert('@')</script>">`,
  `<a href="javascript:alert('@')">click @</a>`,
  `<a href="https://evil.example/@" target=_blank>@</a>`,
  `<form action="https://evil.example/"><input name=@ autofocus onfocus=alert(1)></form>`,
  `<link rel=stylesheet href="https://evil.example/@.css">`,
  `<style>*{display:none}</style>@`,
  `<base href="https://evil.example/">@`,
  `<meta http-equiv=refresh content="0;url=https://evil.example/@">`,
  `<object data="https://evil.example/@"></object>`,
  `<math><mtext><table><mglyph><style><img src=x onerror=alert("@")>`,
  `"><img src=x onerror=alert("@")>`,
  `' onmouseover='alert("@")`,
  `<!-- @ --><![CDATA[ @ ]]>`,
  `&lt;img src=x onerror=alert("@")&gt; &amp;amp; &#60;b&#62;`,
  `<details open ontoggle=alert("@")>`,
  // Links
  `javascript:alert("@")`,
  `JaVaScRiPt:alert("@")`,
  `data:text/html,<script>alert("@")</script>`,
  `https://evil.example/@?cookie=`,
  `//evil.example/@`,
  `../../../@`,
  `#code=@`,
  // Templates and formats
  "${alert('@')} {{constructor.constructor('alert(1)')()}} #{7*7} <%= 7*7 %>",
  `%3Cimg%20src=x%20onerror=alert("@")%3E`,
  `%s %n %x @ {0} $1 \\1`,
  `=cmd|'/c calc'!A1@`,
  `+1+1@`,
  `@SUM(1+1)@`,
  `-2+3+cmd@`,
  // Names of JavaScript
  `__proto__ @`,
  `constructor.prototype.polluted @`,
  `{"__proto__": {"polluted": "@"}}`,
  `toString @ valueOf hasOwnProperty`,
  // Writing direction and characters without a width
  `safe@\u202egnp.exe\u202c`,
  `\u2066@\u2067abc\u2069\u200f\u200e\u061c`,
  `@\u200b\u200c\u200d\u2060\ufeff`,
  `\u0645\u0631\u062d\u0628\u0627 @ \u05e9\u05dc\u05d5\u05dd`,
  // Control characters
  `${ESCAPE}[31mred@${ESCAPE}[0m${ESCAPE}[2J${ESCAPE}[H`,
  `${ESCAPE}]0;title@\u0007${ESCAPE}]8;;https://evil.example\u0007link@${ESCAPE}]8;;\u0007`,
  `bell\u0007back\u0008@\u007f\u009b31m`,
  `null\u0000byte@`,
  `line@\r\nSet-Cookie: a=b\r\n\r\nbody`,
  // Unicode
  `\ud83d\udca9\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67\u200d\ud83d\udc66@\ud83c\udff3\ufe0f\u200d\ud83c\udf08`,
  `lone\ud800@surrogate\udfff`,
  `Z\u0351\u036b\u0343\u036a\u0302a\u0334\u0335\u031b\u031dl\u0322\u035cg\u0321\u0361o\u0353@`,
  `\uffff\ufffe@\ufdd0`,
  `\u{e0041}\u{e0042}@\u{10ffff}`,
  // Length
  `@${"W".repeat(900)}`,
  `@ ${"word ".repeat(180)}`,
].map((text, place) => text.replaceAll("@", markOf(place)));

/** A text that is much longer than a screen. It has no place to break a line. */
export const LONG_TEXT = `hlong${"<b>x</b>".repeat(12_500)}`;

/** Returns the mark of a hostile text. */
export function markOf(place: number): string {
  return `h${String(place).padStart(2, "0")}`;
}

/** Characters that no text of the page may have: they control a terminal, or turn the direction of writing. */
const FORBIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** Returns true for a text that the page must show exactly as it is. */
export function isPlain(text: string): boolean {
  return !FORBIDDEN.test(text) && !/[\ufeff\u2028\u2029]/.test(text) && text.isWellFormed() && !/\s\s|^\s|\s$/.test(text);
}

/** Returns the first forbidden character of a text, as a code point with the text around it. */
export function forbiddenIn(text: string): string | undefined {
  const found = FORBIDDEN.exec(text);
  if (found === null) return undefined;
  const code = found[0].charCodeAt(0).toString(16).padStart(4, "0");
  return `U+${code} in ${JSON.stringify(text.slice(Math.max(0, found.index - 40), found.index + 20))}`;
}
