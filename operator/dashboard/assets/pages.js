import { $ as describeProblem, $t as useComputed, A as PolicyIdLink, At as filterJobs, B as ProblemText, Bt as formatClockSeconds, C as Badge, Ct as refusal, D as JobLink, Dt as canNeverStart, E as Eta, Et as session, F as Ago, Ft as writeOrder, G as ownNamespaces, Gt as jobLabel, H as CopyButton, Ht as formatDateTime, I as Clock, It as countOf, J as usePolled, Jt as RequestError, K as useNamespaceScope, Kt as parseQuantity, L as Until, Lt as formatAge, M as findPolicies, Mt as phaseOf, N as isIdOf, Nt as readOrder, O as NodeLink, Ot as describeEta, P as Age, Pt as sortJobs, Q as describeFailure, Qt as serverTime, R as Table, Rt as formatAmount, S as matchesEnded, St as queue, T as phaseLook, Tt as scope, U as Card, Ut as formatSeconds, V as Command, Vt as formatCount, W as Facts, Wt as formatUntil, X as Empty, Xt as toRequestError, Y as Banner, Yt as post, Z as Loading, Zt as now, _ as endKind, _t as useShortcuts, a as SegmentBar, an as y, at as useTitle, b as groupByJob, bt as jobKey, c as mainResources, cn as P, ct as announce, d as describeAttemptsProblem, dn as w, dt as queueFreshness, en as useSignal, et as Name, f as useEndedAttempts, fn as $, ft as navigate, g as describeAttempt, gt as urls, h as checkpointOf, ht as setQuery, i as QuotaBar, in as x, it as a, j as QueueLink, jt as isPending, k as NodeLinks, kt as describeReason, l as readQuotaRows, ln as T, lt as showToast, m as attemptsOfJob, mt as search, n as JobTable, nn as f, nt as command, o as barScale, on as A, ot as cleanLine, p as END_LOOKS, pt as query, q as useOwnNamespaces, qt as resourceLabel, r as VirtualRows, rn as r, rt as Icon, s as boundedResources, sn as F, st as cutText, t as NamespaceFilter, tn as O, tt as Text, u as isBad, un as d, ut as nodesFreshness, v as endWord, vt as theme, w as PhaseBadge, wt as refuse$1, x as jobKeyOf, xt as nodes, y as endsBesides, yt as follow, z as ListProblem, zt as formatClock } from "./app.js";
// src/app/text/yaml.ts
function writeYaml(value) {
	return `${block(value, 0, "").replace(/^\n/, "")}\n`;
}
function block(value, indent, lead) {
	const pad = "  ".repeat(indent);
	if (Array.isArray(value)) {
		if (value.length === 0) return `${lead}[]`;
		return `\n${value.map((item) => `${pad}- ${inItem(item, indent + 1)}`).join("\n")}`;
	}
	if (typeof value === "object" && value !== null) {
		const entries = Object.entries(value).filter((entry) => entry[1] !== void 0);
		if (entries.length === 0) return `${lead}{}`;
		return `\n${entries.map(([key, own]) => `${pad}${scalar(key)}:${field(own, indent)}`).join("\n")}`;
	}
	if (typeof value === "string" && canBeBlock(value)) return `${lead}${literal(value, pad)}`;
	return `${lead}${scalar(value)}`;
}
function field(value, indent) {
	return block(value, Array.isArray(value) ? indent : indent + 1, " ");
}
function inItem(value, indent) {
	return block(value, indent, "").replace(/^\n */, "");
}
function canBeBlock(text) {
	return /^[\x21-\x7e][\x20-\x7e]*\n[\x20-\x7e\n]*$/.test(text) && !/\n\n+$/.test(text) && !/ \n| $/.test(text);
}
function literal(text, pad) {
	const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n").map((line) => line === "" ? "" : `${pad}${line}`);
	return `|${text.endsWith("\n") ? "" : "-"}\n${lines.join("\n")}`;
}
var PLAIN = /^[A-Za-z_/.][A-Za-z0-9_./@:-]*(?: [A-Za-z0-9_./@:(),-]+)*$/;
var AMOUNT$1 = /^\d+(?:m|k|M|G|T|Ki|Mi|Gi|Ti|Pi)$/;
var WORDS = new Set([
	"true",
	"false",
	"null",
	"yes",
	"no",
	"on",
	"off",
	"y",
	"n",
	"."
]);
function scalar(value) {
	if (typeof value !== "string") return String(value);
	return AMOUNT$1.test(value) || isPlain(value) ? value : quoteText(value);
}
function isPlain(text) {
	const isSpecial = WORDS.has(text.toLowerCase()) || /^\.(inf|nan|\d|\.*$)/i.test(text) || /:(?: |$)/.test(text);
	return PLAIN.test(text) && !isSpecial;
}
var UNSEEN = /[\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
function quoteText(text) {
	const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
	return JSON.stringify(text).replace(UNSEEN, escape);
}
// src/app/plan/manifest.ts
var OWN_METADATA = [
	"name",
	"generateName",
	"namespace",
	"labels",
	"annotations"
];
var FOREIGN_ANNOTATIONS = ["kubectl.kubernetes.io/last-applied-configuration", "trellis.dev/requested-by"];
function writeManifest(job) {
	const { apiVersion, kind, metadata, spec } = job;
	return writeYaml({
		apiVersion: apiVersion ?? "trellis.dev/v1alpha1",
		kind: kind ?? "TrainingJob",
		metadata: ownMetadata(metadata),
		spec
	});
}
function ownMetadata(metadata) {
	const own = pick$1(metadata, (name) => OWN_METADATA.includes(name));
	const annotations = pick$1(own["annotations"], (name) => !FOREIGN_ANNOTATIONS.includes(name));
	return {
		...own,
		annotations: Object.keys(annotations).length > 0 ? annotations : void 0
	};
}
function pick$1(value, isWanted) {
	const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
	return Object.fromEntries(entries.filter(([name]) => isWanted(name)));
}
// src/app/question/question.ts
var Question = class {
	outcome = y(void 0);
	running = y(void 0);
	isAsking = O(() => this.running.value !== void 0);
	announcements;
	constructor(announcements) {
		this.announcements = announcements;
		x(() => {
			if (!refusal.value) return;
			this.outcome.value = void 0;
			this.running.peek()?.abort();
		});
	}
	async ask(about, send) {
		if (this.running.peek()) return;
		const abort = new AbortController();
		this.running.value = abort;
		announce(this.announcements.start);
		try {
			const answer = await send(abort.signal);
			if (abort.signal.aborted) return;
			this.outcome.value = {
				...about,
				answer
			};
			announce(this.announcements.describeAnswer(answer));
		} catch (thrown) {
			if (!abort.signal.aborted) this.fail(about, thrown);
		} finally {
			if (this.running.peek() === abort) this.running.value = void 0;
		}
	}
	cancel() {
		const abort = this.running.peek();
		if (!abort) return false;
		abort.abort();
		this.running.value = void 0;
		return true;
	}
	report(about, error) {
		const since = serverTime();
		this.outcome.value = {
			...about,
			error,
			since
		};
		announce(this.announcements.describeFailure(error, since).title);
	}
	fail(about, thrown) {
		const error = toRequestError(thrown);
		if (error.kind === "key" || error.kind === "unauthorized") refuse$1(error);
		else this.report(about, error);
	}
};
// src/app/plan/draft.ts
var EXAMPLE = `# Two pods with one GPU each: both are placed at once, or neither is.
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata:
  name: two-gpus
spec:
  taskGroups:
  - name: worker
    replicas: 2
    gpus: 1
    image: nvidia/cuda:12.6.3-base-ubuntu24.04
    command: [sh, -c, "nvidia-smi -L && sleep 30"]
    resources: {limits: {cpu: 1, memory: 1Gi}}
`;
var MAX_BYTES = 262144;
var MAX_SIZE = "256 KiB";
function fitsRequest(request) {
	return new TextEncoder().encode(JSON.stringify(request)).length <= MAX_BYTES;
}
function mayFit(bytes) {
	return bytes <= MAX_BYTES;
}
function joinFiles(texts) {
	return texts.map((text) => text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n")).reduce((all, text) => all === "" ? text : `${all.replace(/\n?$/, "\n")}---\n${text}`, "");
}
function offsetOf(text, line, column) {
	let start = 0;
	for (let at = 1; at < line; at += 1) {
		const end = text.indexOf("\n", start);
		if (end < 0) break;
		start = end + 1;
	}
	const lineEnd = text.indexOf("\n", start);
	const before = [...text.slice(start, lineEnd < 0 ? text.length : lineEnd)].slice(0, Math.max(0, column - 1)).join("");
	return start + before.length;
}
// src/app/plan/words.ts
var VERDICTS = {
	"would run": {
		tone: "good",
		icon: "play"
	},
	"would wait": {
		tone: "waiting",
		icon: "clock"
	},
	"would be Refused": {
		tone: "bad",
		icon: "ban"
	},
	"would not run": {
		tone: "still",
		icon: "cross"
	}
};
function verdictLook(verdict) {
	return (Object.hasOwn(VERDICTS, verdict) ? VERDICTS[verdict] : void 0) ?? {
		tone: "still",
		icon: "help"
	};
}
var ALWAYS_COUNTED = ["would run", "would wait"];
function summarizePlan(jobs) {
	const [first, second] = jobs;
	if (!first) return "no job was planned";
	if (!second) return `${first.namespace}/${first.name} ${first.verdict}`;
	const shown = [...new Set([...Object.keys(VERDICTS), ...jobs.map((job) => job.verdict)])].map((verdict) => ({
		verdict,
		count: jobs.filter((job) => job.verdict === verdict).length
	})).filter(({ verdict, count }) => count > 0 || ALWAYS_COUNTED.includes(verdict));
	return `${jobs.length} jobs: ${shown.map(({ verdict, count }) => `${count} ${verdict}`).join(", ")}`;
}
var NODE$2 = /(?<= on | of |\.\.| node )[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/g;
function lineSentence(job, section, line, known) {
	switch (section) {
		case "queue": {
			const name = line.replace(/, priority -?\d+$/, "");
			return known.isQueue(name) ? afterSpan({
				text: name,
				queue: name
			}, line) : [{ text: line }];
		}
		case "preempts": {
			const key = line.slice(0, Math.max(0, line.indexOf(": ")));
			const [namespace = "", name = ""] = key.split("/");
			return known.isJob(key) ? afterSpan({
				text: key,
				job: {
					namespace,
					name
				}
			}, line) : [{ text: line }];
		}
		default: return linkNodes(line, new Set(job.nodes));
	}
}
function afterSpan(span, line) {
	return [span, { text: line.slice(span.text.length) }];
}
function linkNodes(line, nodes) {
	const spans = [];
	let end = 0;
	for (const { 0: name, index } of line.matchAll(NODE$2)) {
		if (!nodes.has(name)) continue;
		if (index > end) spans.push({ text: line.slice(end, index) });
		spans.push({
			text: name,
			node: name
		});
		end = index + name.length;
	}
	if (end < line.length) spans.push({ text: line.slice(end) });
	return spans;
}
function unnamedNodes(job) {
	const all = new Set(job.nodes);
	const sentences = job.sections.flatMap(({ lines }) => lines.map((line) => linkNodes(line, all)));
	for (const { node } of sentences.flat()) if (node !== void 0) all.delete(node);
	return [...all];
}
function submitCommand(jobs, context) {
	const [namespace, ...others] = new Set(jobs.map((job) => job.namespace));
	const where = namespace !== void 0 && others.length === 0 ? ["-n", namespace] : [];
	return command("trellis", "submit", "-f", "job.yaml", ...where, ...context ? ["--context", context] : []);
}
var TITLES$1 = {
	notFound: "This server has no plans",
	busy: "The operator is busy with other questions",
	invalid: "This cannot be planned",
	denied: "You may not plan",
	unreachable: "The cluster could not be reached",
	unavailable: "The operator has not planned",
	internal: "The plan has failed"
};
function refusedNamespace(message) {
	return / in the namespace "([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)"/.exec(message)?.[1];
}
function describePlanFailure(error, since) {
	return describeFailure(TITLES$1, error, since);
}
// src/app/plan/planner.ts
var STORAGE_KEY = "trellis-plan";
var KEEP_MS = 300;
var EXAMPLE_DRAFT = {
	text: EXAMPLE,
	namespace: void 0
};
var draft = y(readDraft() ?? EXAMPLE_DRAFT);
var replaced = y(void 0);
var question$1 = new Question({
	start: "Planning",
	describeAnswer,
	describeFailure: describePlanFailure
});
var { outcome: outcome$1, isAsking: isPlanning } = question$1;
var contextNamespace = O(() => session.value?.mode === "local" ? session.value.namespace : "");
var namespace = O(() => draft.value.namespace ?? contextNamespace.value);
function setText(text) {
	draft.value = {
		...draft.peek(),
		text
	};
}
function setNamespace(name) {
	draft.value = {
		...draft.peek(),
		namespace: name === contextNamespace.peek() ? void 0 : name
	};
}
function replaceDraft(next, by) {
	const before = draft.peek();
	const isWorthKeeping = before.text.trim() !== "" && before.text !== "# Two pods with one GPU each: both are placed at once, or neither is.\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata:\n  name: two-gpus\nspec:\n  taskGroups:\n  - name: worker\n    replicas: 2\n    gpus: 1\n    image: nvidia/cuda:12.6.3-base-ubuntu24.04\n    command: [sh, -c, \"nvidia-smi -L && sleep 30\"]\n    resources: {limits: {cpu: 1, memory: 1Gi}}\n" && before.text !== next.text;
	r(() => {
		replaced.value = isWorthKeeping ? {
			draft: before,
			by
		} : void 0;
		draft.value = next;
		outcome$1.value = void 0;
	});
	cancelPlan();
	keepDraft();
}
function showExample() {
	replaceDraft({
		text: EXAMPLE,
		namespace: draft.peek().namespace
	}, "the example");
}
function bringBack() {
	const before = replaced.peek();
	if (before) replaceDraft(before.draft, "the earlier text");
}
async function planDraft() {
	const planned = draft.peek();
	const request = requestOf(planned);
	await question$1.ask({ draft: planned }, async (signal) => {
		if (!fitsRequest(request)) throw tooLarge("the text");
		return post("/api/plan", request, signal);
	});
}
function cancelPlan() {
	if (question$1.cancel()) announce("The plan was cancelled");
}
function reportFailure(error) {
	question$1.report({ draft: draft.peek() }, error);
}
function tooLarge(what) {
	return new RequestError("invalid", `${what} is too large: this page plans at most ${MAX_SIZE}. Use \`trellis plan -f job.yaml\``);
}
function requestOf({ text, namespace: named }) {
	return named ? {
		namespace: named,
		yaml: text
	} : { yaml: text };
}
function describeAnswer(answer) {
	const { length } = answer.problems;
	return length > 0 ? `${countOf(length, "problem")}: nothing was planned` : summarizePlan(answer.jobs);
}
function readDraft() {
	try {
		const stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
		if (typeof stored !== "object" || stored === null || !("text" in stored)) return void 0;
		const { text } = stored;
		const named = "namespace" in stored ? stored.namespace : void 0;
		return typeof text === "string" ? {
			text,
			namespace: typeof named === "string" ? named : void 0
		} : void 0;
	} catch {
		return;
	}
}
function keepDraft() {
	try {
		sessionStorage.setItem(STORAGE_KEY, JSON.stringify(draft.peek()));
	} catch {}
}
function keepDrafts() {
	let timer;
	let kept = draft.peek();
	const stop = x(() => {
		const current = draft.value;
		clearTimeout(timer);
		if (current === kept) return;
		kept = current;
		timer = setTimeout(keepDraft, KEEP_MS);
	});
	addEventListener("pagehide", keepDraft);
	return () => {
		clearTimeout(timer);
		stop();
		removeEventListener("pagehide", keepDraft);
		keepDraft();
	};
}
// src/views/job/FailureText.tsx
function FailureText({ failure }) {
	return a($, { children: [
		a(Name, { text: failure.reason }),
		failure.pod && a($, { children: [
			" ",
			"of ",
			a(Name, { text: failure.pod })
		] }),
		failure.node !== void 0 && a($, { children: [
			" ",
			"on ",
			a(NodeLink, { name: failure.node })
		] }),
		failure.exitCode !== void 0 && `, exit code ${failure.exitCode}`,
		failure.lastLine && a("pre", {
			class: "last-line",
			children: a(Text, {
				text: failure.lastLine,
				max: 1e3,
				lines: true
			})
		})
	] });
}
// src/views/job/PastAttempts.tsx
var MAX_SHOWN = 8;
function PastAttempts({ attempts, known }) {
	const [isWhole, setWhole] = d(false);
	if (attempts.length === 0) return null;
	return a($, { children: [a("ol", {
		class: "past-attempts",
		"aria-label": "Ended attempts",
		children: (isWhole ? attempts : attempts.slice(0, MAX_SHOWN)).map((ended) => a("li", { children: a(PastAttempt, {
			ended,
			known
		}) }, ended.metadata.name))
	}), !isWhole && attempts.length > MAX_SHOWN && a("p", {
		class: "card-foot",
		children: a("button", {
			type: "button",
			class: "more",
			onClick: () => setWhole(true),
			children: countOf(attempts.length - MAX_SHOWN, "earlier attempt")
		})
	})] });
}
function PastAttempt({ ended, known }) {
	const { tone, icon } = END_LOOKS[endKind(ended)];
	const end = new Date(ended.ended);
	const checkpoint = checkpointOf(ended);
	const message = ended.failure && !ended.preempted ? void 0 : ended.message;
	return a($, { children: [
		a("div", {
			class: "past-attempt-head",
			children: [
				a("strong", { children: ["Attempt ", ended.attempt] }),
				a(Badge, {
					tone,
					icon,
					children: a(Name, { text: endWord(ended) })
				}),
				a("span", {
					class: "dim",
					children: a(Ago, { time: ended.ended })
				})
			]
		}),
		a("p", {
			class: "dim",
			children: [
				"placed ",
				a(Clock, { time: ended.placed }),
				", ",
				ended.running === void 0 ? "never ran" : `ran ${formatAge(ended.running, end)}`,
				", ended",
				" ",
				a(Clock, { time: ended.ended }),
				"; held ",
				countOf(ended.gpus, "GPU"),
				" for ",
				formatAge(ended.placed, end),
				checkpoint !== void 0 && `; last checkpoint ${formatAge(checkpoint, end)} before the end`
			]
		}),
		ended.failure && a("div", { children: a(FailureText, { failure: ended.failure }) }),
		message !== void 0 && message !== known && a("p", { children: a(Text, { text: message }) })
	] });
}
// src/views/job/AttemptsOfGoneJob.tsx
function AttemptsOfGoneJob({ job }) {
	const { answer } = useEndedAttempts(job.namespace);
	const ended = attemptsOfJob(answer?.attempts ?? [], job, void 0);
	if (ended.length === 0) return null;
	return a(Card, {
		title: "Attempts",
		children: a(PastAttempts, {
			attempts: ended,
			known: void 0
		})
	});
}
// src/app/job/attempts.ts
function buildAttemptBar(job, now) {
	const { status, metadata } = job;
	const from = readTime(metadata.creationTimestamp);
	if (!status || from === void 0) return void 0;
	const to = Math.max(readTime(status.completionTime) ?? now.getTime(), from + 1);
	const begin = Math.max(from, pendingSince(job) ?? from);
	const after = (time) => time !== void 0 && time >= begin ? time : void 0;
	const placed = after(readTime(status.scheduledTime));
	const running = after(readTime(status.runningTime));
	const spans = [];
	const add = (kind, start, end) => {
		if (start !== void 0 && end > start) spans.push({
			kind,
			from: start,
			to: Math.min(end, to)
		});
	};
	add("earlier", from, begin);
	add("waiting", begin, placed ?? to);
	add("starting", placed, running ?? to);
	add("running", running, to);
	return {
		from,
		to,
		spans,
		marks: [
			["failure", status.lastFailure?.time],
			["preemption", status.lastPreemption?.time],
			["checkpoint", status.checkpoint?.lastTime]
		].flatMap(([kind, time]) => {
			const at = readTime(time);
			return at === void 0 || at < from || at > to ? [] : [{
				kind,
				at
			}];
		})
	};
}
function pendingSince({ status }) {
	const placed = readTime(status?.scheduledTime) ?? Number.POSITIVE_INFINITY;
	const times = [
		status?.lastFailure?.time,
		status?.lastPreemption?.time,
		status?.stage?.since,
		status?.queuedTime
	].flatMap((time) => readTime(time) ?? []);
	const relevant = [
		"Starting",
		"Running",
		"Complete",
		"Failed"
	].includes(status?.phase ?? "") ? times.filter((time) => time <= placed) : times;
	return relevant.length > 0 ? Math.max(...relevant) : void 0;
}
function describeRuntime(job, now) {
	const before = job.status?.activeSeconds ?? 0;
	const since = readTime(job.status?.runningTime);
	const end = readTime(job.status?.completionTime) ?? now.getTime();
	const current = since === void 0 ? void 0 : Math.max(0, (end - since) / 1e3);
	if (before + (current ?? 0) === 0 && current === void 0) return "";
	const limit = job.spec.deadlines?.activeSeconds;
	const atMost = limit === void 0 ? "" : ` of ${formatSeconds(limit)} at most`;
	const own = current !== void 0 && before > 0 ? `, ${formatSeconds(current)} in this attempt` : "";
	return `${formatSeconds(before + (current ?? 0))}${atMost}${own}`;
}
function readTime(time) {
	const at = Date.parse(time ?? "");
	return Number.isNaN(at) ? void 0 : at;
}
// src/parts/Legend.tsx
function Legend({ entries, label }) {
	return a("ul", {
		class: "legend",
		"aria-label": label,
		children: entries.map((entry) => a("li", { children: [a("span", {
			class: "legend-sample",
			"aria-hidden": "true",
			children: entry.sample
		}), entry.text] }, entry.text))
	});
}
// src/views/job/Attempts.tsx
function Attempts({ job }) {
	const { status, metadata } = job;
	const namespace = metadata.namespace ?? "";
	const polled = useEndedAttempts(namespace, `${status?.attempt} ${status?.phase}`);
	if (!status) return null;
	const ended = attemptsOfJob(polled.answer?.attempts ?? [], {
		namespace,
		name: metadata.name
	}, metadata.uid);
	const bar = buildAttemptBar(job, now.value);
	const isOver = status.completionTime !== void 0;
	const problem = describeAttemptsProblem(polled);
	return a(Card, {
		title: "Attempts",
		aside: status.attempt !== void 0 && !isOver && `attempt ${status.attempt} now`,
		children: [
			bar && a(Bar$1, { bar }),
			a(PastAttempts, {
				attempts: ended,
				known: status.message
			}),
			a(Ends, {
				status,
				ended
			}),
			problem !== void 0 && a("p", {
				class: "dim card-text",
				children: problem
			})
		]
	});
}
var SPANS = {
	earlier: "earlier attempts",
	waiting: "waits",
	starting: "starts",
	running: "runs"
};
var MARKS = {
	failure: "failure",
	preemption: "preempted",
	checkpoint: "last checkpoint"
};
function Bar$1({ bar }) {
	const percent = (at) => (at - bar.from) / (bar.to - bar.from) * 100;
	const spans = bar.spans.map((span) => `${SPANS[span.kind]} ${formatSeconds((span.to - span.from) / 1e3)}`);
	return a($, { children: [
		a("div", {
			class: "attempts",
			role: "img",
			"aria-label": spans.join(", "),
			children: [bar.spans.map((span) => a("div", {
				class: `attempt attempt-${span.kind}`,
				title: `${SPANS[span.kind]}: ${formatSeconds((span.to - span.from) / 1e3)}`,
				style: {
					left: `${percent(span.from)}%`,
					width: `${percent(span.to) - percent(span.from)}%`
				}
			}, span.kind)), bar.marks.map((mark) => a("div", {
				class: `attempt-mark attempt-mark-${mark.kind}`,
				title: `${MARKS[mark.kind]}: ${formatDateTime(new Date(mark.at))}`,
				style: { left: `${percent(mark.at)}%` }
			}, mark.kind))]
		}),
		a("div", {
			class: "attempts-scale",
			children: [a("span", { children: formatClock(new Date(bar.from), now.value) }), a("span", { children: formatClock(new Date(bar.to), now.value) })]
		}),
		a(Legend, {
			label: "Parts of the bar",
			entries: [...bar.spans.map(({ kind }) => ({
				sample: a("span", { class: `attempt attempt-${kind}` }),
				text: SPANS[kind]
			})), ...bar.marks.map(({ kind }) => ({
				sample: a("span", { class: `attempt-mark attempt-mark-${kind}` }),
				text: MARKS[kind]
			}))]
		})
	] });
}
function Ends({ status, ended }) {
	const { checkpoint } = status;
	const { lastFailure, lastPreemption } = endsBesides(status, ended);
	const avoided = (status.excludedNodes ?? []).filter((own) => Date.parse(own.until) > now.value.getTime());
	return a("dl", {
		class: "facts facts-wide",
		children: [
			lastFailure && a("div", { children: [a("dt", { children: "Last failure" }), a("dd", { children: [
				a(Ago, { time: lastFailure.time }),
				", attempt ",
				lastFailure.attempt,
				": ",
				a(FailureText, { failure: lastFailure })
			] })] }),
			lastPreemption && a("div", { children: [a("dt", { children: "Last preemption" }), a("dd", { children: [
				a(Ago, { time: lastPreemption.time }),
				", attempt ",
				lastPreemption.attempt,
				":",
				" ",
				a(Text, { text: lastPreemption.message })
			] })] }),
			checkpoint && a("div", { children: [a("dt", { children: "Checkpoint" }), a("dd", { children: [
				checkpoint.lastTime && a($, { children: ["complete ", a(Ago, { time: checkpoint.lastTime })] }),
				checkpoint.aheadTime && " A pod reported a time in the future.",
				checkpoint.problem && a("span", {
					class: "is-bad",
					children: [" ", a(Text, { text: checkpoint.problem })]
				})
			] })] }),
			avoided.map((own) => a("div", { children: [a("dt", { children: "Avoided node" }), a("dd", { children: [
				a(NodeLink, { name: own.node }),
				" for another ",
				formatUntil(own.until, now.value),
				": ",
				a(Name, { text: own.reason }),
				own.times > 1 && ` ${own.times} times in a row`,
				", last in attempt ",
				own.attempt
			] })] }, own.node))
		]
	});
}
// src/views/job/Commands.tsx
function Commands({ job, phase }) {
	const context = session.value?.context;
	const trellis = (verb, ...more) => {
		const where = [
			"-n",
			job.namespace,
			...context ? ["--context", context] : []
		];
		return command("trellis", verb, argumentOf(job.name), ...more, ...where);
	};
	const isExternal = argumentOf(job.name) !== job.name;
	const isSuspended = phase === "Suspended";
	const hasEnded = phase === "Complete" || phase === "Failed";
	const isPlaced = phase === "Running" || phase === "Starting" || hasEnded;
	return a(Card, {
		title: "Commands",
		children: a("div", {
			class: "commands",
			children: [a(Command, { text: trellis("explain") }), !isExternal && a($, { children: [
				a(Command, { text: trellis("status", "-w") }),
				isPlaced && a(Command, { text: trellis("logs", "-f") }),
				isPlaced && a(Command, { text: trellis("top") }),
				!hasEnded && a(Command, { text: trellis(isSuspended ? "resume" : "suspend", "--wait") }),
				a(Command, { text: trellis("cancel", "--wait") })
			] })]
		})
	});
}
function argumentOf(name) {
	return name.replace(/^(podgroup|pod)\./, "$1/");
}
// src/views/job/Events.tsx
function Events(props) {
	const events = props.events.toReversed();
	if (events.length === 0 && props.unread.length === 0) return null;
	return a(Card, {
		title: "Events",
		children: [a("ol", {
			class: "events",
			children: events.map((event) => a("li", {
				class: event.type === "Warning" ? "is-warning" : "",
				children: [a(Icon, {
					name: event.type === "Warning" ? "warning" : "dots",
					label: event.type
				}), a("div", { children: [a("p", {
					class: "event-head",
					children: [a("strong", { children: a(Name, { text: event.reason }) }), a("span", {
						class: "dim",
						children: [a(Ago, { time: event.last }), event.count > 1 && `, ${event.count} times`]
					})]
				}), a("p", { children: a(Text, { text: event.note }) })] })]
			}, `${event.last} ${event.reason} ${event.note}`))
		}), props.unread.map((own) => a("p", {
			class: "card-text is-bad",
			children: a(Text, { text: own.why })
		}, own.what))]
	});
}
// src/app/job/ranks.ts
function rankGroups(spec, stage) {
	const stages = groupStages(spec.taskGroups);
	const last = Math.max(1, ...stages);
	const wanted = Math.min(Math.max(stage, 1), last);
	const own = spec.taskGroups.filter((_, place) => stages[place] === wanted);
	own.sort((a, b) => roleOrder(a) - roleOrder(b));
	let next = 0;
	return own.map((group) => {
		const pods = group.replicas ?? 1;
		const ranked = {
			group,
			first: next,
			pods
		};
		next += pods;
		return ranked;
	});
}
function groupStages(groups) {
	const known = new Map();
	return groups.map((group) => {
		const after = (group.dependsOn ?? []).map((dependency) => {
			const stage = known.get(dependency.group);
			if (stage === void 0) return 1;
			return dependency.status === "Complete" ? stage + 1 : stage;
		});
		const stage = Math.max(1, ...after);
		known.set(group.name, stage);
		return stage;
	});
}
function roleOrder(group) {
	if (group.membership !== void 0 && group.membership !== "Gang") return 4;
	switch (group.role) {
		case "Coordinator":
		case "Launcher": return 0;
		case "Server": return 2;
		case "Evaluator": return 3;
		default: return 1;
	}
}
function parseRanges(text) {
	const found = [];
	for (const part of text.split(",")) {
		const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
		if (!match) continue;
		const first = Number(match[1]);
		const last = Math.min(Number(match[2] ?? match[1]), first + 65535);
		for (let rank = first; rank <= last; rank += 1) found.push(rank);
	}
	return found;
}
// src/app/job/gang.ts
var MAX_RANKS = 16384;
function buildGang(report) {
	const { spec, status } = report.job;
	const attempt = status?.attempt ?? 1;
	const pods = new Map();
	for (const pod of report.pods) {
		if (pod.attempt !== attempt) continue;
		const key = `${pod.group}/${pod.index}`;
		const other = pods.get(key);
		if (!other || (pod.round ?? 0) >= (other.round ?? 0)) pods.set(key, pod);
	}
	const missing = indexMissing(report.missing);
	const cells = [];
	for (const { group, first, pods: count } of rankGroups(spec, status?.stage?.number ?? 1)) for (let index = 0; index < count && cells.length < MAX_RANKS; index += 1) {
		const key = `${group.name}/${index}`;
		const pod = pods.get(key);
		const own = pod ? void 0 : missing.get(key);
		const place = {
			rank: first + index,
			group: group.name,
			index
		};
		const state = pod ? podState(pod) : missingState(own, status?.phase);
		cells.push({
			...place,
			state,
			...pod && { pod },
			...own && { missing: own }
		});
	}
	return cells;
}
function indexMissing(missing) {
	const found = new Map();
	for (const own of missing) for (const index of parseRanges(own.indexes)) found.set(`${own.group}/${index}`, own);
	return found;
}
var STARTING = new Set([
	"Pending",
	"ContainerCreating",
	"PodInitializing"
]);
function podState(pod) {
	const { state } = pod;
	if (state === "Running") return pod.ready === pod.containers ? "ready" : "running";
	if (state === "Completed" || state === "Succeeded") return "done";
	if (STARTING.has(state) || /^Init:\d+\/\d+$/.test(state)) return "starting";
	return state === "Terminating" ? "stopping" : "failed";
}
function missingState(missing, phase) {
	if (missing) return missing.done ? "done" : "missing";
	if (phase === "Complete") return "done";
	return phase === "Starting" || phase === "Running" ? "missing" : "waiting";
}
function splitByNode(cells) {
	const runs = [];
	for (const cell of cells) {
		const node = cell.pod?.node;
		const last = runs.at(-1);
		if (last && last.group === cell.group && last.node === node) last.cells.push(cell);
		else runs.push({
			group: cell.group,
			node,
			cells: [cell]
		});
	}
	return runs;
}
function countStates(cells) {
	const counts = new Map();
	for (const { state } of cells) counts.set(state, (counts.get(state) ?? 0) + 1);
	return counts;
}
var RANK_STATES = {
	ready: "ready",
	running: "runs, not ready",
	starting: "starting",
	stopping: "stopping",
	done: "completed",
	failed: "failed or stuck",
	missing: "missing",
	waiting: "not placed"
};
// src/parts/RankDetails.tsx
function RankDetails({ cell, onClose }) {
	const { pod, missing } = cell;
	return a("section", {
		class: "rank-details",
		"aria-label": `Rank ${cell.rank}`,
		children: [
			a("div", {
				class: "rank-details-head",
				children: [
					a("span", {
						class: `rank rank-${cell.state}`,
						"aria-hidden": "true"
					}),
					a("strong", { children: [
						"Rank ",
						cell.rank,
						": ",
						pod ? a(Name, { text: pod.state }) : RANK_STATES[cell.state]
					] }),
					a("button", {
						type: "button",
						class: "icon-button",
						"aria-label": "Close",
						onClick: onClose,
						children: a(Icon, { name: "cross" })
					})
				]
			}),
			a(Facts, { facts: [
				pod && {
					term: "Pod",
					value: a(Name, { text: pod.name })
				},
				pod?.node !== void 0 && {
					term: "Node",
					value: a(NodeLink, { name: pod.node })
				},
				{
					term: "Task group",
					value: a(Name, { text: `${cell.group}, index ${cell.index}` })
				},
				pod && {
					term: "Ready",
					value: `${pod.ready} of ${pod.containers} containers`
				},
				pod && pod.restarts > 0 && {
					term: "Restarts",
					value: String(pod.restarts)
				},
				pod?.created !== void 0 && {
					term: "Created",
					value: a(Ago, { time: pod.created })
				},
				pod?.exitCode !== void 0 && {
					term: "Exit code",
					value: String(pod.exitCode)
				},
				missing && {
					term: "Why",
					value: a(Text, { text: missing.why })
				},
				missing?.notBefore !== void 0 && {
					term: "Not before",
					value: a(Until, { time: missing.notBefore })
				}
			] }),
			pod?.message && a("pre", {
				class: "last-line",
				children: a(Text, {
					text: pod.message,
					max: 2e3,
					lines: true
				})
			})
		]
	});
}
// src/parts/Gang.tsx
function Gang({ cells }) {
	const [chosen, setChosen] = d(void 0);
	const [current, setCurrent] = d(0);
	const element = T(null);
	const runs = w(() => boxesOf(cells), [cells]);
	const counts = countStates(cells);
	const open = cells.find((cell) => cell.rank === chosen);
	const isOneGroup = new Set(cells.map((cell) => cell.group)).size === 1;
	const onKeyDown = (event) => {
		const place = cells.findIndex((cell) => cell.rank === current);
		const next = stepFrom(event.key, place, cells.length);
		const cell = next === void 0 ? void 0 : cells[next];
		if (!cell) return;
		event.preventDefault();
		setCurrent(cell.rank);
		if (chosen !== void 0) setChosen(cell.rank);
		element.current?.querySelector(`[data-rank="${cell.rank}"]`)?.focus();
	};
	return a("div", {
		class: "gang",
		children: [
			a("div", {
				ref: element,
				class: "gang-runs",
				role: "group",
				"aria-label": describe(counts),
				onKeyDown,
				children: runs.map((run) => a("div", {
					class: "gang-run",
					children: [a("div", {
						class: "gang-run-head",
						children: [a("span", {
							class: "gang-node",
							children: run.node === void 0 ? run.title : a(Name, { text: run.node })
						}), a("span", {
							class: "dim",
							children: [!isOneGroup && run.node !== void 0 && a($, { children: [a(Name, { text: run.group }), " "] }), rangeOf(run)]
						})]
					}), a("div", {
						class: "gang-cells",
						children: run.cells.map((cell) => a("button", {
							type: "button",
							class: `rank rank-${cell.state}`,
							"data-rank": cell.rank,
							tabIndex: cell.rank === current ? 0 : -1,
							"aria-pressed": cell.rank === chosen,
							"aria-label": `Rank ${cell.rank}, ${RANK_STATES[cell.state]}`,
							title: titleOf(cell),
							onClick: () => {
								setCurrent(cell.rank);
								setChosen(cell.rank === chosen ? void 0 : cell.rank);
							}
						}, cell.rank))
					})]
				}, run.cells[0]?.rank))
			}),
			a("div", {
				"aria-live": "polite",
				children: open && a(RankDetails, {
					cell: open,
					onClose: () => setChosen(void 0)
				})
			}),
			a(Legend, {
				label: "States of ranks",
				entries: Object.keys(RANK_STATES).filter((state) => counts.has(state)).map((state) => ({
					sample: a("span", { class: `rank rank-${state}` }),
					text: `${RANK_STATES[state]}: ${counts.get(state) ?? 0}`
				}))
			})
		]
	});
}
var MAX_BOXES = 96;
function boxesOf(cells) {
	const runs = splitByNode(cells);
	if (!(cells.length < runs.length * 2 && runs.length > 12) && runs.length <= MAX_BOXES) return runs.map((run) => ({
		...run,
		title: "no node"
	}));
	return [...Map.groupBy(cells, (cell) => cell.group)].map(([group, own]) => ({
		group,
		node: void 0,
		title: group,
		cells: own
	}));
}
function titleOf(cell) {
	const node = cell.pod?.node;
	const state = cell.pod?.state ?? RANK_STATES[cell.state];
	return cleanLine(cutText(`Rank ${cell.rank}: ${state}${node === void 0 ? "" : ` on ${node}`}`, 200).text);
}
function stepFrom(key, place, count) {
	switch (key) {
		case "ArrowRight":
		case "ArrowDown": return Math.min(place + 1, count - 1);
		case "ArrowLeft":
		case "ArrowUp": return Math.max(place - 1, 0);
		case "Home": return 0;
		case "End": return count - 1;
		default: return;
	}
}
function rangeOf(run) {
	const first = run.cells[0]?.rank ?? 0;
	const last = run.cells.at(-1)?.rank ?? first;
	return first === last ? `rank ${first}` : `ranks ${first}–${last}`;
}
function describe(counts) {
	return `Gang: ${[...counts].map(([state, count]) => `${countOf(count, "rank")} ${RANK_STATES[state]}`).join(", ")}. Arrow keys walk over the ranks, Enter shows one.`;
}
// src/views/job/GangCard.tsx
var MAX_BAD = 6;
function GangCard$1({ report }) {
	const cells = w(() => buildGang(report), [report]);
	const { status } = report.job;
	const bad = cells.filter((cell) => cell.state === "failed");
	const missing = report.missing.filter((own) => !own.done);
	const ready = status?.ready && `${status.ready} ready`;
	const stage = status?.stage && `stage ${status.stage.number} of ${status.stage.of}`;
	return a(Card, {
		title: "Gang",
		aside: [
			ready,
			stage,
			countOf(cells.length, "pod")
		].filter(Boolean).join(" · "),
		children: [
			a(Gang, { cells }),
			bad.length > 0 && a(BadPods, { cells: bad }),
			missing.length > 0 && a(Missing, { rows: missing }),
			(status?.placement ?? []).map((level) => a(Placement$1, { level }, level.level))
		]
	});
}
function BadPods({ cells }) {
	return a("section", { children: [
		a("h3", {
			class: "card-text",
			children: "Pods that failed or are stuck"
		}),
		a(Table, {
			caption: "Pods that failed or are stuck",
			rows: cells.slice(0, MAX_BAD),
			keyOf: (cell) => cell.rank,
			columns: [
				{
					title: "Rank",
					isNumber: true,
					cell: (cell) => cell.rank
				},
				{
					title: "Node",
					cell: (cell) => cell.pod?.node ? a(NodeLink, { name: cell.pod.node }) : "–"
				},
				{
					title: "State",
					cell: (cell) => a(Name, { text: cell.pod?.state ?? "" })
				},
				{
					title: "Exit",
					isNumber: true,
					cell: (cell) => cell.pod?.exitCode ?? "–"
				},
				{
					title: "Last line",
					isWide: true,
					cell: (cell) => a("code", { children: a(Text, {
						text: cell.pod?.message ?? "",
						max: 240
					}) })
				}
			]
		}),
		cells.length > MAX_BAD && a("p", {
			class: "card-text dim",
			children: countOf(cells.length - MAX_BAD, "more pod")
		})
	] });
}
function Missing({ rows }) {
	return a("section", { children: [a("h3", {
		class: "card-text",
		children: "Missing pods"
	}), a(Table, {
		caption: "Missing pods",
		rows,
		keyOf: (row) => `${row.group} ${row.indexes}`,
		columns: [
			{
				title: "Group",
				cell: (row) => a(Name, { text: row.group })
			},
			{
				title: "Ranks",
				cell: (row) => a(Name, { text: row.ranks })
			},
			{
				title: "Pods",
				isNumber: true,
				cell: (row) => row.count
			},
			{
				title: "Why",
				isWide: true,
				cell: (row) => a($, { children: [a(Text, { text: row.why }), row.notBefore && a($, { children: [", not before ", a(Until, { time: row.notBefore })] })] })
			}
		]
	})] });
}
function Placement$1({ level }) {
	const excess = level.crossings > level.leastCrossings;
	return a("p", {
		class: "card-text",
		children: [
			a("b", { children: a(Name, { text: level.level }) }),
			": ",
			countOf(level.domains, "domain"),
			"; a ring over the ranks crosses them ",
			countOf(level.crossings, "time"),
			excess && `, at least ${level.leastCrossings}: pods that move or join later keep their ranks until the job is suspended and resumed`,
			"."
		]
	});
}
// src/views/job/JobFacts.tsx
var DEFAULT_RESTARTS = 3;
var DEFAULT_DISRUPTIONS = 100;
function JobFacts({ job, row }) {
	const status = job?.status;
	const spec = job?.spec;
	const queue = status?.queue ?? spec?.queueName ?? row?.queue;
	const user = status?.policy?.requester ?? row?.user;
	const submitted = job?.metadata.creationTimestamp ?? row?.submitted;
	const runtime = job ? describeRuntime(job, now.value) : "";
	const restart = spec?.restart;
	return a(Card, {
		title: "Facts",
		children: a(Facts, { facts: [
			queue !== void 0 && {
				term: "Queue",
				value: a(QueueLink, { name: queue })
			},
			user !== void 0 && {
				term: "User",
				value: a(Name, { text: user })
			},
			status?.policy?.requesterUnknown !== void 0 && {
				term: "User unknown",
				value: a(Text, { text: status.policy.requesterUnknown })
			},
			row && {
				term: "Priority",
				value: String(row.priority)
			},
			spec?.priorityClassName !== void 0 && {
				term: "Priority class",
				value: a(Name, { text: spec.priorityClassName })
			},
			row && {
				term: "Size",
				value: `${countOf(row.pods, "pod")}, ${countOf(row.gpus, "GPU")}`
			},
			!row && status?.gpus !== void 0 && {
				term: "GPUs",
				value: String(status.gpus)
			},
			row?.nodeCount !== void 0 && {
				term: "Nodes",
				value: a($, { children: [a(NodeLinks, { names: row.nodes ?? [] }), row.nodeCount > (row.nodes?.length ?? 0) && ` and ${row.nodeCount - (row.nodes?.length ?? 0)} more`] })
			},
			submitted !== void 0 && {
				term: "Submitted",
				value: a(Ago, { time: submitted })
			},
			row?.expectedEnd !== void 0 && {
				term: "Ends",
				value: a(Until, { time: row.expectedEnd })
			},
			status?.completionTime !== void 0 && {
				term: "Ended",
				value: a(Ago, { time: status.completionTime })
			},
			runtime !== "" && {
				term: "Ran",
				value: runtime
			},
			status?.attempt !== void 0 && {
				term: "Restarts",
				value: `${status.restarts ?? 0} of ${restart?.limit ?? DEFAULT_RESTARTS}, disruptions ${status.disruptions ?? 0} of ${restart?.disruptionLimit ?? DEFAULT_DISRUPTIONS}`
			},
			status?.retryTime !== void 0 && Date.parse(status.retryTime) > now.value.getTime() && {
				term: "Not placed before",
				value: a(Until, { time: status.retryTime })
			},
			spec?.framework !== void 0 && {
				term: "Framework",
				value: a(Name, { text: spec.framework })
			},
			status?.profile && {
				term: "Profile",
				value: a(Name, { text: status.profile.name })
			},
			spec?.managedBy !== void 0 && {
				term: "Managed by",
				value: a(Name, { text: spec.managedBy })
			},
			job?.metadata.deletionTimestamp !== void 0 && {
				term: "Deletion",
				value: "it is being deleted"
			}
		] })
	});
}
// src/views/job/NodeFit.tsx
function NodeFit({ explanation }) {
	const groups = explanation.taskGroups ?? [];
	const reserved = explanation.reservedNodes ?? [];
	if (groups.length === 0 && reserved.length === 0) return null;
	return a(Card, {
		title: "Nodes",
		children: [groups.map((group) => a(GroupFit, {
			group,
			isOnly: groups.length === 1
		}, group.name)), reserved.length > 0 && a("p", {
			class: "card-text",
			children: ["Reserved for it: ", a(NodeLinks, { names: reserved })]
		})]
	});
}
function GroupFit({ group, isOnly }) {
	const excluded = group.excluded ?? [];
	const candidates = group.candidates ?? [];
	const flavors = group.flavors ?? [];
	return a("section", {
		class: "fit",
		children: [
			!isOnly && a("h3", { children: ["Task group ", a(Name, { text: group.name })] }),
			a("p", {
				class: "card-text",
				children: [
					a("b", { children: `${group.matching} of ${countOf(group.nodes, "node")}` }),
					" match, with room for",
					" ",
					a("b", { children: `${group.room} of ${countOf(group.pods, "pod")}` }),
					(group.requests?.length ?? 0) > 0 && a($, { children: [
						" ",
						"of ",
						a(Amounts, { amounts: group.requests ?? [] }),
						" each"
					] }),
					flavors.length > 0 && a($, { children: [
						", in ",
						flavors.length === 1 ? "flavor" : "flavors",
						" ",
						flavors.join(", ")
					] }),
					"."
				]
			}),
			a(SegmentBar, {
				noun: "node",
				segments: [{
					name: "match",
					count: group.matching,
					kind: "good"
				}, ...excluded.map((own) => ({
					name: own.detail ? `${own.constraint} ${own.detail}` : own.constraint,
					count: own.count,
					kind: "still"
				}))]
			}),
			excluded.length > 0 && a(ExcludedTable, { excluded }),
			candidates.length > 0 && a(CandidateTable, { candidates })
		]
	});
}
function ExcludedTable({ excluded }) {
	return a(Table, {
		caption: "Constraints that exclude nodes",
		rows: excluded,
		keyOf: (row) => `${row.constraint} ${row.detail ?? ""}`,
		columns: [
			{
				title: "Excluded",
				isNumber: true,
				cell: (row) => row.count
			},
			{
				title: "Constraint",
				cell: (row) => a($, { children: [a(Name, { text: row.constraint }), row.detail && a("span", {
					class: "dim",
					children: [" ", a(Text, {
						text: row.detail,
						max: 120
					})]
				})] })
			},
			{
				title: "Nodes",
				isWide: true,
				cell: (row) => a(ExcludedNames, { row })
			}
		]
	});
}
function ExcludedNames({ row }) {
	const names = row.nodes ?? [];
	if (names.length === 0) return a("span", {
		class: "dim",
		children: "names need the right to list nodestates"
	});
	return a($, { children: [a(NodeLinks, { names }), row.count > names.length && ` and ${row.count - names.length} more`] });
}
function CandidateTable({ candidates }) {
	return a(Table, {
		caption: "Matching nodes with the most room",
		rows: candidates,
		keyOf: (row) => row.node,
		columns: [
			{
				title: "Room for",
				isNumber: true,
				cell: (row) => countOf(row.room, "pod")
			},
			{
				title: "Best nodes",
				cell: (row) => a(NodeLink, { name: row.node })
			},
			{
				title: "Free",
				isWide: true,
				cell: (row) => a(Amounts, { amounts: row.free })
			}
		]
	});
}
function Amounts({ amounts }) {
	return a($, { children: amounts.map((own, place) => a("span", { children: [
		place > 0 && ", ",
		formatAmount(own.resource, own.amount),
		" ",
		a(Name, { text: own.resource })
	] }, own.resource)) });
}
// src/views/job/Objects.tsx
var STATES = {
	there: {
		text: "there",
		icon: "check",
		isBad: false
	},
	missing: {
		text: "missing",
		icon: "cross",
		isBad: true
	},
	notOurs: {
		text: "not ours",
		icon: "warning",
		isBad: true
	},
	forbidden: {
		text: "forbidden: you may not read it",
		icon: "ban",
		isBad: false
	},
	unread: {
		text: "not read",
		icon: "help",
		isBad: false
	}
};
function Objects({ report }) {
	if (report.objects.length === 0) return null;
	const hasEnded = report.job.status?.completionTime !== void 0;
	return a(Card, {
		title: "Objects",
		children: a("ul", {
			class: "objects",
			children: report.objects.map((object) => a("li", { children: a(ObjectState, {
				object,
				hasEnded
			}) }, `${object.kind}/${object.name}`))
		})
	});
}
function ObjectState({ object, hasEnded }) {
	const known = STATES[object.state] ?? {
		text: object.state,
		icon: "help",
		isBad: false
	};
	const isBad = known.isBad && !(hasEnded && object.state === "missing");
	return a($, { children: [a("span", {
		class: isBad ? "object-state is-bad" : "object-state",
		children: a(Icon, {
			name: known.icon,
			label: known.text
		})
	}), a("span", { children: [
		a(Name, { text: object.kind }),
		" ",
		a(Name, { text: object.name }),
		object.state !== "there" && a("span", {
			class: "dim",
			children: [" ", known.text]
		}),
		object.problem && a("span", {
			class: "is-bad",
			children: [" ", a(Text, { text: object.problem })]
		})
	] })] });
}
// src/parts/PolicyDecision.tsx
var LOOKS = {
	Allowed: {
		tone: "good",
		icon: "check"
	},
	Denied: {
		tone: "bad",
		icon: "ban"
	}
};
function DecisionBadge({ policy }) {
	const decision = policy.decision ?? "Undecided";
	const look = LOOKS[decision] ?? {
		tone: "waiting",
		icon: "clock"
	};
	return a(Badge, {
		tone: look.tone,
		icon: look.icon,
		children: a(Text, {
			text: decision,
			max: 40
		})
	});
}
function DecisionDetails({ policy }) {
	const ids = policy.policies ?? [];
	return a("div", {
		class: "policy",
		children: [
			ids.length > 0 && a($, { children: [a("h3", { children: "Decided by" }), a("ul", {
				class: "plain",
				children: ids.map((id) => a("li", { children: a(PolicyIdLink, { id }) }, id))
			})] }),
			(policy.missingPermits ?? []).map((permit) => a("div", { children: [a("h3", { children: ["Missing permit ", a(CopyButton, {
				text: permit,
				what: "permit"
			})] }), a("pre", { children: a(Text, {
				text: permit,
				max: 4e3,
				lines: true
			}) })] }, permit)),
			a(TextList, {
				title: "Errors",
				texts: policy.errors,
				isBad: true
			}),
			a(TextList, {
				title: "Would be denied, if enforced",
				texts: policy.warnings
			})
		]
	});
}
function TextList(props) {
	const texts = props.texts ?? [];
	if (texts.length === 0) return null;
	return a($, { children: [a("h3", { children: props.title }), a("ul", {
		class: props.isBad ? "plain is-bad" : "plain",
		children: texts.map((text) => a("li", { children: a(Text, { text }) }, text))
	})] });
}
// src/views/job/Policy.tsx
function Policy({ policy }) {
	return a(Card, {
		title: "Policy",
		aside: a(DecisionBadge, { policy }),
		children: a("div", {
			class: "card-text",
			children: a(DecisionDetails, { policy })
		})
	});
}
// src/views/job/QueueQuota.tsx
function QueueQuota({ queue }) {
	const rows = readQuotaRows(queue, mainResources(queue));
	return a(Card, {
		title: "Queue",
		aside: a(QueueLink, { name: queue.metadata.name }),
		children: a("div", {
			class: "card-text",
			children: [
				rows.length === 0 && a("p", {
					class: "dim",
					children: "No quota: the capacity of the nodes decides."
				}),
				rows.map(({ row, amounts }) => a(QuotaBar, {
					row,
					amounts,
					scale: barScale(rows.filter((other) => other.row.resource === row.resource).map((own) => own.amounts))
				}, `${row.flavor} ${row.resource}`)),
				a("p", {
					class: "dim",
					children: `${countOf(queue.admitted, "job")} admitted, ${queue.pending} pending${queue.share === void 0 ? "" : `, share ${queue.share}`}`
				})
			]
		})
	});
}
// src/views/job/ShortageCard.tsx
function ShortageCard({ shortage }) {
	const resource = shortage.resource ?? "";
	const text = (term, value) => value === void 0 ? void 0 : {
		term,
		value: a(Text, {
			text: value,
			max: 200
		})
	};
	const amount = (term, value) => value === void 0 ? void 0 : {
		term,
		value: formatAmount(resource, value)
	};
	const count = (term, value) => value === void 0 ? void 0 : {
		term,
		value: String(value)
	};
	return a(Card, {
		title: "Shortage",
		children: [a(ShortageBar, { shortage }), a(Facts, { facts: [
			amount("needed", shortage.needs),
			amount("missing", shortage.missing),
			amount("free", shortage.free),
			amount("used", shortage.used),
			amount("maximum", shortage.most),
			amount("held by jobs", shortage.heldByJobs),
			amount("held by other pods", shortage.heldByOthers),
			count("on nodes", shortage.nodes),
			count("pods", shortage.pods),
			count("room for", shortage.room),
			text("resource", shortage.resource),
			text("flavor", shortage.flavor),
			text("task group", shortage.taskGroup),
			shortage.queue !== void 0 && {
				term: "quota of queue",
				value: a(QueueLink, { name: shortage.queue })
			},
			text("limit", shortage.limit),
			text("level", shortage.level),
			text("domain", shortage.domain),
			shortage.behind && {
				term: "blocked by",
				value: a(JobLink, { job: shortage.behind })
			},
			shortage.behindPriority !== void 0 && {
				term: "blocked by",
				value: `a job that you may not see, priority ${shortage.behindPriority}`
			}
		] })]
	});
}
function ShortageBar({ shortage }) {
	const needs = parseQuantity(shortage.needs);
	const missing = parseQuantity(shortage.missing);
	if (needs === void 0 || missing === void 0 || needs <= 0) return null;
	const resource = shortage.resource ?? "";
	const show = (value) => formatAmount(resource, String(value));
	const lacks = Math.min(missing, needs);
	return a("div", {
		class: "shortage",
		children: [a(SegmentBar, {
			noun: "unit",
			segments: [{
				name: "can have",
				count: needs - lacks,
				kind: "good"
			}, {
				name: "missing",
				count: lacks,
				kind: "bad"
			}]
		}), a("p", {
			class: "shortage-text",
			children: [a("span", { children: [
				show(needs - lacks),
				" of ",
				show(needs),
				" ",
				a(Name, { text: resource })
			] }), a("span", {
				class: "shortage-missing",
				children: [show(lacks), " missing"]
			})]
		})]
	});
}
// src/parts/Sentence.tsx
function Sentence({ spans }) {
	return a("span", {
		class: "sentence",
		children: spans.map((span, place) => {
			const href = spanUrl(span);
			const text = a(SpanText, { text: span.text });
			return href ? a("a", {
				href,
				children: text
			}, place) : a("span", { children: text }, place);
		})
	});
}
function SpanText({ text }) {
	return a($, { children: [
		/^\s/.test(text) && " ",
		a(Text, {
			text,
			max: 2e3
		}),
		/\S\s+$/.test(text) && " "
	] });
}
function spanUrl(span) {
	if (span.job) return urls.job(span.job);
	if (span.node !== void 0) return urls.node(span.node);
	if (span.queue !== void 0) return urls.queue(span.queue);
}
function nodesOf(sentences) {
	const names = sentences.flat().flatMap((span) => span.node === void 0 ? [] : [span.node]);
	return [...new Set(names)];
}
// src/views/job/Verdict.tsx
function Verdict(props) {
	const { why, status, row } = props;
	const answer = why?.answer;
	const stored = status?.job.status;
	const word = answer?.word || row?.phase || stored?.phase || "not processed yet";
	const reason = answer ? answer.reason : row?.reason ?? stored?.reason;
	const message = answer ? answer.message : row?.message ?? stored?.message ?? "";
	const since = answer?.since;
	return a("section", {
		class: `verdict verdict-${phaseLook(word).tone}`,
		"aria-label": "State",
		children: [
			a("p", {
				class: "verdict-state",
				children: [
					a(PhaseBadge, { phase: word }),
					since !== void 0 && a("span", { children: ["for ", a(Age, { time: since })] }),
					reason !== void 0 && reason !== word && a("span", {
						class: "verdict-reason",
						children: a(Name, { text: reason })
					})
				]
			}),
			message && a("p", {
				class: "verdict-message",
				children: a(Text, {
					text: message,
					max: 1200
				})
			}),
			(answer?.place || answer?.start) && a("ul", {
				class: "verdict-turn",
				children: [answer.place && a("li", { children: [a(Icon, { name: "jobs" }), a(Sentence, { spans: answer.place })] }), answer.start && a("li", { children: [a(Icon, { name: "clock" }), a(Sentence, { spans: answer.start })] })]
			}),
			row && !isPending(row) && a(Placement, { row }),
			!answer && a("p", {
				class: "dim",
				children: "The status of the job, as the operator wrote it last. There is no current explanation."
			}),
			why?.notes?.map((note) => a("p", {
				class: "dim",
				children: a(Text, { text: note })
			}, note))
		]
	});
}
function Placement({ row }) {
	return a("ul", {
		class: "verdict-turn",
		children: [row.nodeCount !== void 0 && a("li", { children: [a(Icon, { name: "nodes" }), a("span", { children: [
			countOf(row.pods, "pod"),
			" on ",
			countOf(row.nodeCount, "node"),
			row.gpus > 0 && `, ${countOf(row.gpus, "GPU")}`,
			", for ",
			a(Age, { time: row.since })
		] })] }), a("li", { children: [a(Icon, { name: "clock" }), row.expectedEnd === void 0 ? "its end is unknown" : a("span", { children: ["ends ", a(Until, { time: row.expectedEnd })] })] })]
	});
}
// src/views/job/WhatHelps.tsx
var ICONS = {
	preemption: "stop",
	change: "raise",
	request: "edit",
	moves: "swap"
};
function WhatHelps({ answer }) {
	if (answer.sections.length === 0 && !answer.nextSteps) return null;
	return a(Card, {
		title: "What would help",
		children: a("div", {
			class: "helps",
			children: [answer.sections.map((section) => a(Section, { section }, section.heading)), answer.nextSteps && a("section", {
				class: "help-section",
				children: [a("h3", { children: [a(Icon, { name: "flag" }), "Next steps"] }), a("p", { children: a(Text, {
					text: answer.nextSteps,
					max: 2e3
				}) })]
			})]
		})
	});
}
function Section({ section }) {
	const [node] = nodesOf(section.lines);
	return a("section", {
		class: "help-section",
		children: [
			a("h3", { children: [a(Icon, { name: ICONS[section.kind] ?? "flag" }), a("span", { children: [a(Text, { text: section.heading }), node !== void 0 && a("a", {
				class: "help-map",
				href: urls.nodes({ at: node }),
				children: [a(Icon, { name: "map" }), " show on map"]
			})] })] }),
			a("ul", { children: section.lines.map((line, place) => a("li", { children: a(Sentence, { spans: line }) }, place)) }),
			section.note && a("p", {
				class: "dim",
				children: a(Text, { text: section.note })
			})
		]
	});
}
// src/views/job/Yaml.tsx
function Yaml({ value }) {
	const [isOpen, setOpen] = d(false);
	const text = w(() => isOpen ? writeYaml(value) : "", [isOpen, value]);
	return a("details", {
		class: "card yaml",
		onToggle: (event) => setOpen(event.currentTarget.open),
		children: [a("summary", { children: "YAML" }), isOpen && a("div", {
			class: "yaml-body",
			children: [a(CopyButton, {
				text,
				what: "YAML"
			}), a("pre", {
				tabIndex: 0,
				children: a(Text, {
					text,
					max: 4e4,
					lines: true
				})
			})]
		})]
	});
}
// src/views/job/JobBody.tsx
function JobBody(props) {
	const { job, status, why, row } = props;
	const object = status?.job ?? why?.job;
	const explanation = why?.explanation;
	const events = status?.events ?? why?.events ?? [];
	return a($, { children: [
		a(Verdict, {
			why,
			status,
			row
		}),
		a("div", {
			class: "job",
			children: [a("div", {
				class: "job-main",
				children: [
					why && a(WhatHelps, { answer: why.answer }),
					explanation?.shortage && a(ShortageCard, { shortage: explanation.shortage }),
					explanation && a(NodeFit, { explanation }),
					status && a(GangCard$1, { report: status }),
					object && a(Attempts, { job: object }),
					a(Events, {
						events,
						unread: status?.unread ?? []
					})
				]
			}), a("div", {
				class: "job-side",
				children: [
					a(JobFacts, {
						job: object,
						row
					}),
					why?.queue && a(QueueQuota, { queue: why.queue }),
					object?.status?.policy && a(Policy, { policy: object.status.policy }),
					status && a(Objects, { report: status }),
					a(Commands, {
						job,
						phase: object?.status?.phase
					})
				]
			})]
		}),
		(object ?? why?.podGroup ?? why?.pod) && a(Yaml, { value: object ?? why?.podGroup ?? why?.pod })
	] });
}
// src/views/Job.tsx
var POLL_MS$1 = 1e4;
function Job({ job }) {
	const label = jobLabel(job.name);
	const isExternal = label !== job.name;
	const row = useComputed(() => queue.jobs.value.get(jobKey(job))).value;
	const address = session.value && `/api/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
	const status = usePolled(isExternal ? void 0 : address, POLL_MS$1, row);
	const why = usePolled(address && `${address}/why`, POLL_MS$1, row);
	const word = why.answer?.answer.word || row?.phase || status.answer?.job.status?.phase;
	useTitle(`${job.namespace}/${label}${word ? ` · ${word}` : ""}`);
	const isEmpty = !why.answer && !status.answer;
	const problem = why.problem ?? status.problem;
	const object = status.answer?.job ?? why.answer?.job;
	return a("div", {
		class: "page",
		children: [
			a("div", {
				class: "page-head",
				children: [
					a("p", {
						class: "crumbs",
						children: [
							a("a", {
								href: urls.jobs(),
								children: "Jobs"
							}),
							a(Icon, { name: "right" }),
							a("a", {
								href: urls.jobs({ namespace: job.namespace }),
								children: a(Name, { text: job.namespace })
							})
						]
					}),
					a("h1", { children: a(Name, { text: label }) }),
					object && a(PlanChange, { object })
				]
			}),
			!isEmpty && a(OldDataBanner, {
				status,
				why
			}),
			isEmpty && problem && a(NoJob, {
				job,
				problem
			}),
			isEmpty && !problem && a(Loading, { rows: 8 }),
			!isEmpty && a(JobBody, {
				job,
				status: status.answer,
				why: why.answer,
				row
			})
		]
	});
}
function PlanChange({ object }) {
	const { name, namespace } = object.metadata;
	return a("button", {
		type: "button",
		class: "button page-action",
		onClick: () => {
			replaceDraft({
				text: writeManifest(object),
				namespace
			}, `job ${name}`);
			navigate(urls.plan);
		},
		children: [a(Icon, { name: "plan" }), "Plan a change"]
	});
}
function NoJob({ job, problem }) {
	if (problem.kind === "notFound") return a($, { children: [a("div", {
		class: "page-text",
		children: [a("p", { children: a(Text, {
			text: problem.message,
			max: 2e3
		}) }), a("p", { children: ["The job may have been deleted, or its name has another spelling. ", a("a", {
			href: urls.jobs(),
			children: "All jobs"
		})] })]
	}), a(AttemptsOfGoneJob, { job })] });
	const { title, text } = describeProblem(problem);
	return a("div", {
		class: "page-text",
		children: [a("h2", { children: title }), a("p", { children: a(Text, {
			text,
			max: 2e3
		}) })]
	});
}
function OldDataBanner({ status, why }) {
	const gone = [status.problem, why.problem].find((problem) => problem?.kind === "notFound");
	if (gone) return a(Banner, {
		tone: "warning",
		title: "This job is gone",
		children: [
			"The cluster has had no job of this name since ",
			a(Clock, { time: gone.since.toISOString() }),
			". The page shows what was known last."
		]
	});
	return a($, { children: [why.problem && a(Banner, {
		tone: "warning",
		title: why.answer ? "The explanation is old" : "There is no explanation now",
		children: a(Text, {
			text: describeProblem(why.problem).text,
			max: 1e3
		})
	}), status.problem && a(Banner, {
		tone: "warning",
		title: status.answer ? "Pods and objects are old" : "Pods and objects are not known",
		children: a(Text, {
			text: describeProblem(status.problem).text,
			max: 1e3
		})
	})] });
}
var MAX_TEXT$1 = 4e3;
var KINDS = [
	"addNodes",
	"removeNode",
	"cordonNode",
	"restoreNode",
	"changeQueue",
	"addJob",
	"changeJob",
	"removeJob"
];
function kindOf(change) {
	return KINDS.find((kind) => kind in change) ?? "addNodes";
}
function isUnfinished(change) {
	if ("changeQueue" in change) return Object.keys(change.changeQueue).length === 1;
	return "changeJob" in change && Object.keys(change.changeJob).length === 2;
}
function writeChanges(changes) {
	return changes.length === 0 ? void 0 : JSON.stringify(changes);
}
function readChanges(text) {
	if (text === null || text === "") return { changes: [] };
	if (text.length > 4e3) return refuse(`its changes have more than ${MAX_TEXT$1} characters`);
	let value;
	try {
		value = JSON.parse(text);
	} catch {
		return refuse("its changes are not JSON");
	}
	if (!Array.isArray(value)) return refuse("its changes are not a list");
	if (value.length > 64) return refuse(`it has more than 64 changes`);
	for (const [place, change] of value.entries()) {
		const problem = findProblem(change);
		if (problem !== void 0) return refuse(`change ${place + 1} ${problem}`);
	}
	return { changes: value };
}
function refuse(problem) {
	return {
		changes: [],
		problem
	};
}
var isText = (value) => typeof value === "string";
var isWhole = (value) => typeof value === "number" && Number.isSafeInteger(value);
var isTextMap = (value) => isObject(value) && Object.values(value).every(isText);
function isObject(value) {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
function isLike(fields) {
	return (value) => {
		if (!isObject(value)) return false;
		return Object.keys(value).every((name) => Object.hasOwn(fields, name) || Object.hasOwn(fields, `${name}?`)) && Object.entries(fields).every(([field, check]) => {
			const name = field.replace(/\?$/, "");
			return Object.hasOwn(value, name) ? check(value[name]) : name !== field;
		});
	};
}
function isListOf(check) {
	return (value) => Array.isArray(value) && value.every(check);
}
var NODE$1 = { name: isText };
var JOB$2 = {
	namespace: isText,
	name: isText
};
var QUOTA = {
	resource: isText,
	"flavor?": isText,
	"nominal?": isText,
	"borrowingLimit?": isText,
	"lendingLimit?": isText
};
var GROUP = {
	replicas: isWhole,
	requests: isTextMap
};
var FIELDS = {
	addNodes: {
		like: isText,
		count: isWhole,
		"labels?": isTextMap
	},
	removeNode: NODE$1,
	cordonNode: NODE$1,
	restoreNode: NODE$1,
	changeQueue: {
		name: isText,
		"quotas?": isListOf(isLike(QUOTA)),
		"priority?": isWhole,
		"weight?": isText,
		"stopPolicy?": isText
	},
	addJob: {
		...JOB$2,
		"count?": isWhole,
		"like?": isLike(JOB$2),
		"groups?": isListOf(isLike(GROUP)),
		"queue?": isText,
		"priority?": isWhole,
		"runtimeSeconds?": isWhole
	},
	changeJob: {
		...JOB$2,
		"priority?": isWhole,
		"queue?": isText,
		"runtimeSeconds?": isWhole
	},
	removeJob: JOB$2
};
function findProblem(change) {
	if (!isObject(change)) return "is not an object";
	const [kind, ...more] = Object.keys(change);
	if (kind === void 0 || more.length > 0) return "does not have exactly one field";
	if (!Object.hasOwn(FIELDS, kind)) return "has a kind that this page does not know";
	return isLike(FIELDS[kind])(change[kind]) ? void 0 : "has a field that this page cannot read";
}
// src/draw/node/quantity.ts
var MAX_LENGTH = 32;
var BINARY = new Map([
	"Ki",
	"Mi",
	"Gi",
	"Ti",
	"Pi",
	"Ei"
].map((suffix, index) => [suffix, index + 1]));
var DECIMAL = new Map([
	["n", -9],
	["u", -6],
	["m", -3],
	["", 0],
	["k", 3],
	["M", 6],
	["G", 9],
	["T", 12],
	["P", 15],
	["E", 18]
]);
function wholeUnits(text) {
	if (text === void 0 || text.length > MAX_LENGTH) return 0;
	if (/^\d{1,15}$/.test(text)) return Number(text);
	const [, sign = "", whole = "", fraction = "", suffix = ""] = /^([+-]?)(\d*)(?:\.(\d*))?(.*)$/.exec(text) ?? [];
	if (whole === "" && fraction === "") return 0;
	const scale = scaleOf(suffix);
	if (scale === void 0) return 0;
	const digits = BigInt(whole + fraction) * scale.factor;
	const exponent = scale.ten - fraction.length;
	const signed = sign === "-" ? -digits : digits;
	return Number(exponent >= 0 ? signed * 10n ** BigInt(exponent) : floorDivide(signed, 10n ** BigInt(-exponent)));
}
function scaleOf(suffix) {
	const binary = BINARY.get(suffix);
	if (binary !== void 0) return {
		factor: 1024n ** BigInt(binary),
		ten: 0
	};
	const decimal = DECIMAL.get(suffix);
	if (decimal !== void 0) return {
		factor: 1n,
		ten: decimal
	};
	const exponent = /^[eE]([+-]?\d{1,2})$/.exec(suffix)?.[1];
	return exponent === void 0 ? void 0 : {
		factor: 1n,
		ten: Number(exponent)
	};
}
function floorDivide(value, divisor) {
	const quotient = value / divisor;
	return value < 0n && quotient * divisor !== value ? quotient - 1n : quotient;
}
// src/draw/node/devices.ts
var NO_DEVICES = new Set([
	"cpu",
	"memory",
	"ephemeral-storage"
]);
var POD_SIZES = [
	1,
	2,
	4,
	8
];
var countsByNode = new WeakMap();
function devicesOf(node) {
	const known = countsByNode.get(node);
	if (known !== void 0) return known;
	const counts = (node.resources ?? []).filter((entry) => isDevice(entry.resource)).map(countsOf);
	countsByNode.set(node, counts);
	return counts;
}
function isDevice(resource) {
	return !NO_DEVICES.has(resource);
}
function countsOf(entry) {
	return {
		device: entry.resource,
		total: wholeUnits(entry.allocatable),
		jobs: wholeUnits(entry.jobs),
		others: wholeUnits(entry.others),
		kept: wholeUnits(entry.kept),
		free: wholeUnits(entry.free)
	};
}
function isPartlyFree(node) {
	return node.schedulable && devicesOf(node).some((counts) => counts.free > 0 && counts.free < counts.total);
}
function stateWord(node) {
	if (!node.schedulable) return (node.reasons ?? []).map((reason) => reason.reason).join(",");
	const devices = devicesOf(node);
	const total = devices.reduce((sum, counts) => sum + counts.total, 0);
	const free = devices.reduce((sum, counts) => sum + counts.free, 0);
	if (total === 0) return (node.jobs ?? []).length === 0 ? "Idle" : "Mixed";
	if (free === 0) return "Full";
	return free >= total ? "Idle" : "Mixed";
}
function sumDevices(nodes) {
	const sums = new Map();
	for (const node of nodes) for (const counts of devicesOf(node)) {
		const before = sums.get(counts.device) ?? emptySums(counts.device);
		sums.set(counts.device, addCounts(before, counts, node.schedulable ? counts.free : 0));
	}
	return [...sums.values()].sort((a, b) => a.device < b.device ? -1 : 1);
}
function emptySums(device) {
	return {
		device,
		total: 0,
		jobs: 0,
		others: 0,
		kept: 0,
		free: 0,
		usable: 0,
		pods: POD_SIZES.map(() => 0)
	};
}
function addCounts(sums, counts, usable) {
	return {
		device: sums.device,
		total: sums.total + counts.total,
		jobs: sums.jobs + counts.jobs,
		others: sums.others + counts.others,
		kept: sums.kept + counts.kept,
		free: sums.free + counts.free,
		usable: sums.usable + usable,
		pods: POD_SIZES.map((size, index) => (sums.pods[index] ?? 0) + Math.trunc(usable / size))
	};
}
// src/views/node/JobsNamingNode.tsx
function JobsNamingNode({ name }) {
	const jobs = [...queue.jobs.value.values()].filter((job) => job.nodes?.includes(name));
	if (jobs.length === 0) return null;
	return a(Card, {
		title: "Jobs on this node",
		children: [a("p", {
			class: "card-text dim",
			children: "A job lists its first 8 nodes by name, so further jobs may be here."
		}), a("ul", {
			class: "card-text plain-list",
			children: jobs.map((job) => a("li", { children: [
				a(JobLink, { job: {
					namespace: job.metadata.namespace ?? "",
					name: job.metadata.name
				} }),
				" ",
				a(PhaseBadge, { phase: phaseOf(job) })
			] }, jobKey(job)))
		})]
	});
}
// src/draw/base/batch.ts
var LAYERS = [
	"frame",
	"tile",
	"cell",
	"pattern",
	"halo",
	"mark",
	"veil"
];
var RectBatch = class {
	#layers = new Map(LAYERS.map((layer) => [layer, new Map()]));
	add(layer, fill, x, y, width, height) {
		const fills = this.#layers.get(layer);
		const rects = fills.get(fill);
		if (rects === void 0) fills.set(fill, [
			x,
			y,
			width,
			height
		]);
		else rects.push(x, y, width, height);
	}
	flush(context) {
		for (const fills of this.#layers.values()) {
			for (const [fill, rects] of fills) {
				context.fillStyle = fill;
				for (let index = 0; index < rects.length; index += 4) context.fillRect(rects[index], rects[index + 1], rects[index + 2], rects[index + 3]);
			}
			fills.clear();
		}
	}
};
// src/draw/base/patterns.ts
var PATTERN_NAMES = [
	"hatch",
	"dots",
	"bars",
	"falling",
	"crosses"
];
function buildPatterns(context, theme, ratio) {
	const size = Math.max(Math.round(6 * ratio), 4);
	const build = (draw) => {
		const canvas = new OffscreenCanvas(size, size);
		const tile = canvas.getContext("2d");
		tile.fillStyle = theme.tile;
		tile.strokeStyle = theme.tile;
		draw(tile);
		return context.createPattern(canvas, "repeat");
	};
	return {
		hatch: build((tile) => strokeDiagonal(tile, size, .45, 1)),
		falling: build((tile) => strokeDiagonal(tile, size, .45, -1)),
		bars: build((tile) => tile.fillRect(0, 0, Math.round(size * .4), size)),
		dots: build((tile) => maskDots(tile, size)),
		crosses: build((tile) => strokeCross(tile, size, theme.bad))
	};
}
function anchorPatterns(patterns, x, y, scale = 1) {
	for (const name of PATTERN_NAMES) patterns[name].setTransform({
		a: scale,
		d: scale,
		e: x,
		f: y
	});
}
function strokeDiagonal(tile, size, width, sign) {
	tile.lineWidth = size * width * Math.SQRT1_2;
	tile.beginPath();
	for (const offset of [
		-size,
		0,
		size
	]) {
		const [from, to] = sign > 0 ? [2 * size, -size] : [-size, 2 * size];
		tile.moveTo(offset - size, from);
		tile.lineTo(offset + 2 * size, to);
	}
	tile.stroke();
}
function maskDots(tile, size) {
	tile.fillRect(0, 0, size, size);
	tile.globalCompositeOperation = "destination-out";
	tile.beginPath();
	tile.arc(size / 2, size / 2, size * .33, 0, 2 * Math.PI);
	tile.fill();
}
function strokeCross(tile, size, colour) {
	tile.strokeStyle = colour;
	tile.lineWidth = Math.max(size / 6, 1);
	const [near, far] = [size * .16, size * .84];
	tile.beginPath();
	tile.moveTo(near, near);
	tile.lineTo(far, far);
	tile.moveTo(far, near);
	tile.lineTo(near, far);
	tile.stroke();
}
function gangKey(job) {
	return `${job.namespace}/${job.name}`;
}
function gangOfKey(key) {
	const slash = key.indexOf("/");
	return {
		namespace: key.slice(0, Math.max(slash, 0)),
		name: key.slice(slash + 1)
	};
}
function gangTitle(job) {
	return `${job.namespace}/${jobLabel(job.name)}`;
}
function colourNumber(name) {
	let hash = 2166136261;
	for (let index = 0; index < name.length; index += 1) hash = Math.imul(hash ^ name.charCodeAt(index), 16777619);
	hash = Math.imul(hash ^ hash >>> 16, 2246822507);
	hash = Math.imul(hash ^ hash >>> 13, 3266489909);
	return ((hash ^ hash >>> 16) >>> 0) % 12;
}
// src/draw/base/time-left.ts
var MINUTE$1 = 6e4;
var HOUR$1 = 60 * MINUTE$1;
var TIME_STEPS = [
	{
		below: 15 * MINUTE$1,
		label: "under 15m"
	},
	{
		below: HOUR$1,
		label: "under 1h"
	},
	{
		below: 4 * HOUR$1,
		label: "under 4h"
	},
	{
		below: 24 * HOUR$1,
		label: "under 24h"
	},
	{
		below: Number.POSITIVE_INFINITY,
		label: "24h or more"
	}
];
function timeStep(expectedEnd, now) {
	const end = Date.parse(expectedEnd ?? "");
	if (Number.isNaN(end)) return void 0;
	return TIME_STEPS.findIndex((step) => end - now < step.below);
}
// src/draw/base/theme.ts
function themeOf(element) {
	const style = getComputedStyle(element);
	return buildTheme((token) => style.getPropertyValue(token).trim(), style.fontFamily);
}
function buildTheme(read, font) {
	return {
		ground: read("--map-ground"),
		boxes: [
			read("--map-box-1"),
			read("--map-box-2"),
			read("--map-box-3")
		],
		boxLine: read("--map-box-line"),
		ink: read("--map-ink"),
		faint: read("--map-faint"),
		tile: read("--map-tile"),
		line: read("--map-line"),
		partly: read("--map-partly"),
		other: read("--map-other"),
		freeLine: read("--map-free-line"),
		bad: read("--map-bad"),
		reserved: read("--map-reserved"),
		kept: read("--map-kept"),
		focus: read("--map-focus"),
		veil: read("--map-veil"),
		fits: read("--map-fits"),
		unknown: read("--map-unknown"),
		running: read("--map-running"),
		starting: read("--map-starting"),
		stopping: read("--map-stopping"),
		gangs: Array.from({ length: 12 }, (_, index) => read(`--map-gang-${index}`)),
		times: TIME_STEPS.map((_, index) => read(`--map-time-${index}`)),
		font: font === "" ? "sans-serif" : font
	};
}
// src/draw/map/look.ts
var COLOUR_BY = [
	"gang",
	"queue",
	"state",
	"time"
];
function readColourBy(text) {
	return COLOUR_BY.find((by) => by === text) ?? "gang";
}
var STATE_PATTERNS = {
	running: void 0,
	starting: "bars",
	stopping: "falling",
	other: "hatch",
	kept: "dots",
	free: void 0,
	blocked: "crosses"
};
function fillKey(run, context) {
	if (run.gang === void 0 || run.state === "other" || context.by === "gang") return "";
	if (context.by === "queue") return context.jobs.get(run.gang)?.queue ?? "";
	if (context.by === "time") return String(timeStep(context.jobs.get(run.gang)?.expectedEnd, context.now));
	return "";
}
function fillOf(run, context, theme) {
	if (run.state === "free" || run.state === "blocked") return void 0;
	if (run.state === "other") return theme.other;
	if (context.by === "state") return stateFill(run.state, theme);
	if (run.gang === void 0) return theme.unknown;
	return gangFill(run.gang, context, theme);
}
function gangFill(gang, context, theme) {
	switch (context.by) {
		case "gang": return theme.gangs[colourNumber(gang)] ?? theme.unknown;
		case "queue": {
			const queue = context.jobs.get(gang)?.queue;
			return queue === void 0 ? theme.unknown : queueFill(queue, theme);
		}
		case "time": {
			const step = timeStep(context.jobs.get(gang)?.expectedEnd, context.now);
			return step === void 0 ? theme.unknown : theme.times[step] ?? theme.unknown;
		}
		case "state": return theme.running;
	}
}
function queueFill(queue, theme) {
	return theme.gangs[colourNumber(queue)] ?? theme.unknown;
}
function stateFill(state, theme) {
	switch (state) {
		case "starting": return theme.starting;
		case "stopping": return theme.stopping;
		case "kept": return theme.kept;
		default: return theme.running;
	}
}
// src/draw/map/fills.ts
function addRun(batch, brush, run, fill, row, columns) {
	const edge = (cell) => Math.round(row.x + row.width * cell / columns);
	const wide = row.width / columns / brush.ratio;
	const gap = wide < 3 ? 0 : Math.round((wide < 12 ? 1 : 2) * brush.ratio);
	if (gap === 0) {
		const x = edge(run.first);
		addCell(batch, brush, run, fill, {
			x,
			y: row.y,
			width: edge(run.first + run.cells) - x,
			height: row.height
		}, false);
		return;
	}
	for (let cell = run.first; cell < run.first + run.cells; cell += 1) {
		const x = edge(cell);
		addCell(batch, brush, run, fill, {
			x,
			y: row.y,
			width: edge(cell + 1) - x - gap,
			height: row.height
		}, wide >= 5);
	}
}
function addCell(batch, brush, run, fill, cell, hasEdge) {
	const { x, y, width, height } = cell;
	if (fill !== void 0) batch.add("cell", fill, x, y, width, height);
	else if (hasEdge) addEmptyCell(batch, brush, cell);
	const pattern = STATE_PATTERNS[run.state];
	if (pattern === void 0) return;
	const inset = hasEdge && fill !== void 0 ? Math.round(brush.ratio) : 0;
	batch.add("pattern", brush.patterns[pattern], x + inset, y + inset, width - 2 * inset, height - 2 * inset);
}
function addEmptyCell(batch, brush, cell) {
	const edge = Math.max(Math.round(brush.ratio), 1);
	batch.add("cell", brush.theme.freeLine, cell.x, cell.y, cell.width, cell.height);
	batch.add("cell", brush.theme.tile, cell.x + edge, cell.y + edge, cell.width - 2 * edge, cell.height - 2 * edge);
}
function shareCells(counts, limit = 16) {
	const total = counts.reduce((sum, count) => sum + count, 0);
	if (total <= limit) return [...counts];
	return apportion(counts, limit, total);
}
function apportion(counts, seats, total = counts.reduce((sum, count) => sum + count, 0)) {
	if (total <= 0) return counts.map(() => 0);
	const shares = counts.map((count) => Math.floor(count * seats / total));
	let left = seats - shares.reduce((sum, share) => sum + share, 0);
	const byRemainder = counts.map((count, index) => ({
		index,
		remainder: count * seats % total
	})).sort((a, b) => b.remainder - a.remainder || a.index - b.index);
	for (const { index } of byRemainder) {
		if (left === 0) break;
		shares[index] = (shares[index] ?? 0) + 1;
		left -= 1;
	}
	return shares;
}
// src/draw/node/cells.ts
var CELL_STATES = [
	"running",
	"starting",
	"stopping",
	"other",
	"kept",
	"free",
	"blocked"
];
var rowsByNode = new WeakMap();
function cellRows(node) {
	const known = rowsByNode.get(node);
	if (known !== void 0) return known;
	const rows = devicesOf(node).map((counts) => buildRow(node, counts));
	rowsByNode.set(node, rows);
	return rows;
}
function runAt(row, cell) {
	return row.runs.find((run) => cell >= run.first && cell < run.first + run.cells);
}
function buildRow(node, counts) {
	const free = Math.max(counts.total - counts.jobs - counts.others - counts.kept, 0);
	const groups = [
		holdParts(node.jobs ?? [], counts.device, counts.jobs, stateOf),
		[{
			state: "other",
			gang: void 0,
			devices: counts.others
		}],
		holdParts(node.keptFor ?? [], counts.device, counts.kept, () => "kept"),
		[{
			state: node.schedulable ? "free" : "blocked",
			gang: void 0,
			devices: free
		}]
	];
	const shares = shareCells([
		counts.jobs,
		counts.others,
		counts.kept,
		free
	]);
	const runs = [];
	let first = 0;
	groups.forEach((parts, index) => {
		const share = shares[index] ?? 0;
		const cells = apportion(parts.map((part) => part.devices), share);
		parts.forEach((part, position) => {
			const count = cells[position] ?? 0;
			if (count > 0) runs.push({
				...part,
				first,
				cells: count
			});
			first += count;
		});
	});
	return {
		counts,
		cells: first,
		runs,
		brackets: buildBrackets(node, counts, first)
	};
}
function holdParts(holds, device, devices, state) {
	const parts = [];
	let left = devices;
	for (const hold of holds) {
		const held = Math.min(devicesOfHold(hold, device), left);
		if (held > 0) parts.push({
			state: state(hold),
			gang: gangKey(hold),
			devices: held
		});
		left -= Math.max(held, 0);
	}
	if (left > 0) parts.push({
		state: state(void 0),
		gang: void 0,
		devices: left
	});
	return parts;
}
function devicesOfHold(hold, device) {
	return wholeUnits(hold.devices?.find((entry) => entry.resource === device)?.amount);
}
function stateOf(hold) {
	switch (hold?.state) {
		case "Starting": return "starting";
		case "Stopping": return "stopping";
		default: return "running";
	}
}
function buildBrackets(node, counts, cells) {
	const brackets = [];
	const all = Math.max(counts.total, 1);
	let end = cells;
	for (const hold of node.reservedFor ?? []) {
		const devices = devicesOfHold(hold, counts.device);
		if (devices <= 0 || cells === 0) continue;
		const wide = Math.min(Math.max(Math.round(devices * cells / all), 1), cells);
		if (end - wide < 0) end = cells;
		end -= wide;
		brackets.push({
			gang: gangKey(hold),
			first: end,
			cells: wide,
			devices,
			expectedStart: hold.expectedStart
		});
	}
	return brackets;
}
// src/views/node/NodeCells.tsx
var STRIP = {
	width: 520,
	height: 30,
	gap: 6
};
function NodeCells({ node }) {
	const canvas = T(null);
	const rows = cellRows(node);
	const look = theme.value;
	F(() => {
		const frame = requestAnimationFrame(() => canvas.current && drawCells(canvas.current, node));
		return () => cancelAnimationFrame(frame);
	}, [node, look]);
	if (rows.length === 0) return a(Card, {
		title: "Devices",
		children: a("p", {
			class: "card-text dim",
			children: "This node has no devices."
		})
	});
	return a(Card, {
		title: "Devices",
		children: a("div", {
			class: "node-cells",
			children: [
				a("canvas", {
					ref: canvas,
					"aria-hidden": "true",
					style: { height: `${rows.length * (STRIP.height + STRIP.gap) - STRIP.gap}px` }
				}),
				rows.map(({ counts }) => a("p", { children: [
					a("strong", { children: [
						counts.free,
						" of ",
						counts.total
					] }),
					" ",
					a(Name, { text: counts.device }),
					" free; jobs hold ",
					counts.jobs,
					", pods of no job ",
					counts.others,
					", kept ",
					counts.kept
				] }, counts.device)),
				a("p", {
					class: "dim",
					children: "A cell is a count, not a physical device."
				})
			]
		})
	});
}
function drawCells(canvas, node) {
	const [ratio, rows, context] = [
		devicePixelRatio,
		cellRows(node),
		canvas.getContext("2d")
	];
	if (context === null) return;
	canvas.width = Math.round(canvas.clientWidth * ratio);
	canvas.height = Math.round(canvas.clientHeight * ratio);
	const colours = themeOf(canvas);
	const brush = {
		theme: colours,
		ratio,
		patterns: buildPatterns(context, colours, ratio)
	};
	const batch = new RectBatch();
	context.fillStyle = colours.ground;
	context.fillRect(0, 0, canvas.width, canvas.height);
	rows.forEach((row, index) => {
		const rect = {
			x: 0,
			y: Math.round(index * (STRIP.height + STRIP.gap) * ratio),
			width: canvas.width,
			height: Math.round(STRIP.height * ratio)
		};
		for (const run of row.runs) addRun(batch, brush, run, fillOf(run, {
			by: "gang",
			jobs: queue.jobs.peek(),
			now: 0
		}, colours), rect, row.cells);
	});
	batch.flush(context);
}
// src/views/node/NodeFacts.tsx
function NodeFacts({ node }) {
	const { domains = [], taints = [], metadata } = node;
	return a(Card, {
		title: "Node",
		children: a(Facts, { facts: [
			...domains.map((entry) => ({
				term: `${entry.level} (${entry.topology})`,
				value: a(Name, { text: entry.domain })
			})),
			domains.length === 0 && {
				term: "Domains",
				value: "none: no Topology has labels of this node"
			},
			{
				term: "Taints",
				value: taints.length === 0 ? "none" : a(TaintList, { taints })
			},
			metadata.creationTimestamp !== void 0 && {
				term: "Age",
				value: a(Age, { time: metadata.creationTimestamp })
			}
		] })
	});
}
function TaintList({ taints }) {
	return a("ul", {
		class: "plain-list",
		children: taints.map((taint) => a("li", { children: a("code", { children: a(Name, { text: taint }) }) }, taint))
	});
}
// src/views/node/NodeJobs.tsx
var jobOf = (hold) => queue.jobs.value.get(gangKey(hold));
var JOB$1 = {
	title: "Job",
	cell: (hold) => a(JobLink, { job: hold })
};
var DEVICES = {
	title: "Devices",
	cell: (hold) => devicesText(hold)
};
var PODS = {
	title: "Pods",
	isNumber: true,
	cell: (hold) => hold.pods
};
var QUEUE$1 = {
	title: "Queue",
	cell: (hold) => {
		const job = jobOf(hold);
		return job === void 0 ? "-" : a(QueueLink, { name: job.queue });
	}
};
var HOLDING = [
	JOB$1,
	{
		title: "State",
		cell: (hold) => a(Name, { text: hold.state ?? "Running" })
	},
	DEVICES,
	PODS,
	QUEUE$1,
	{
		title: "Expected end",
		cell: (hold) => endText(jobOf(hold))
	},
	{
		title: "User",
		isWide: true,
		cell: (hold) => a(Name, { text: jobOf(hold)?.user ?? "-" })
	}
];
var RESERVED = [
	JOB$1,
	DEVICES,
	PODS,
	QUEUE$1,
	{
		title: "Expected start",
		isWide: true,
		cell: (hold) => hold.expectedStart === void 0 ? "unknown" : a(Until, { time: hold.expectedStart })
	}
];
var KEPT = [
	JOB$1,
	DEVICES,
	PODS,
	QUEUE$1,
	{
		title: "Kept until",
		isWide: true,
		cell: (hold) => hold.until === void 0 ? "unknown" : a(Until, { time: hold.until })
	}
];
function HoldingJobs({ node }) {
	const jobs = node.jobs ?? [];
	const others = node.otherPods === 1 ? "1 pod of no job" : `${node.otherPods} pods of no job`;
	return a(Card, {
		title: "Who holds it",
		aside: node.otherPods > 0 && a("span", {
			class: "dim",
			children: ["and ", others]
		}),
		children: jobs.length === 0 ? a("p", {
			class: "card-text dim",
			children: "No job is on this node."
		}) : a(Table, {
			caption: "Jobs on this node",
			columns: HOLDING,
			rows: jobs,
			keyOf: gangKey
		})
	});
}
function Reservations({ node }) {
	const holds = node.reservedFor ?? [];
	if (holds.length === 0) return null;
	return a(Card, {
		title: "Reserved for",
		children: [a("p", {
			class: "card-text",
			children: "Another job starts here only if it delays none of these."
		}), a(Table, {
			caption: "Reservations",
			columns: RESERVED,
			rows: holds,
			keyOf: gangKey
		})]
	});
}
function KeptPlaces({ node }) {
	const holds = node.keptFor ?? [];
	if (holds.length === 0) return null;
	return a(Card, {
		title: "Kept for jobs that restart",
		children: a(Table, {
			caption: "Kept places",
			columns: KEPT,
			rows: holds,
			keyOf: gangKey
		})
	});
}
function AvoidingJobs({ node }) {
	const jobs = node.excludedBy ?? [];
	if (jobs.length === 0) return null;
	return a(Card, {
		title: "Jobs that avoid it",
		children: [a("p", {
			class: "card-text",
			children: "Pods of these jobs have failed on this node. The list has at most 16 jobs."
		}), a("ul", {
			class: "card-text plain-list",
			children: jobs.map((job) => a("li", { children: a(JobLink, { job }) }, gangKey(job)))
		})]
	});
}
function devicesText(hold) {
	const devices = hold.devices ?? [];
	return a(Name, { text: devices.length === 0 ? "-" : devices.map((entry) => `${entry.amount} ${entry.resource}`).join(", ") });
}
function endText(job) {
	return job === void 0 ? "-" : describeEta(job, now.value) ?? "unknown";
}
// src/views/node/NodeResources.tsx
var COLUMNS = [
	{
		title: "Resource",
		cell: (row) => a(Name, { text: row.resource })
	},
	{
		title: "All",
		isNumber: true,
		cell: (row) => formatAmount(row.resource, row.allocatable)
	},
	{
		title: "Jobs",
		isNumber: true,
		cell: (row) => formatAmount(row.resource, row.jobs)
	},
	{
		title: "Others",
		isNumber: true,
		cell: (row) => formatAmount(row.resource, row.others)
	},
	{
		title: "Kept",
		isNumber: true,
		cell: (row) => formatAmount(row.resource, row.kept)
	},
	{
		title: "Free",
		isNumber: true,
		cell: (row) => freeText(row)
	},
	{
		title: "Use",
		isWide: true,
		cell: (row) => a(UseBar, { row })
	}
];
function NodeResources({ node }) {
	const rows = node.resources ?? [];
	return a(Card, {
		title: "Resources",
		children: a(Table, {
			caption: "Capacity and use of each resource",
			columns: COLUMNS,
			rows,
			keyOf: (row) => row.resource
		})
	});
}
function freeText(row) {
	return row.free === void 0 ? "less than 0" : formatAmount(row.resource, row.free);
}
function UseBar({ row }) {
	const all = parseQuantity(row.allocatable) ?? 0;
	const part = (amount) => all > 0 ? Math.min(100 * (parseQuantity(amount) ?? 0) / all, 100) : 0;
	const parts = [
		{
			kind: "jobs",
			width: part(row.jobs)
		},
		{
			kind: "others",
			width: part(row.others)
		},
		{
			kind: "kept",
			width: part(row.kept)
		}
	];
	return a("div", {
		class: "use-bar",
		"aria-hidden": "true",
		children: parts.map(({ kind, width }) => width > 0 && a("span", {
			class: `sum-${kind}`,
			style: { width: `${width}%` }
		}, kind))
	});
}
// src/parts/RoleCommands.tsx
function RoleCommands({ role, verbs, resource, namespace }) {
	const user = session.value?.user ?? "";
	const binding = namespace === void 0 ? ["clusterrolebinding"] : [
		"rolebinding",
		"-n",
		namespace
	];
	return a("div", {
		class: "card-text role-commands",
		children: [a(Command, {
			label: "role",
			text: command("kubectl", "create", "clusterrole", role, `--verb=${verbs}`, `--resource=${resource}`)
		}), a(Command, {
			label: "binding",
			text: command("kubectl", "create", ...binding, `${role}-${user}`, `--clusterrole=${role}`, `--user=${user}`)
		})]
	});
}
// src/views/nodes/NoNodes.tsx
function NoRightToNodes({ problem }) {
	return a("div", {
		class: "no-nodes",
		children: [
			a(Card, {
				title: "You may not list the nodes",
				children: [
					a("p", {
						class: "card-text",
						children: problem ? a(Text, { text: problem.message }) : "The right to list nodestates.visibility.trellis.dev is missing. The ClusterRole trellis-platform has it."
					}),
					a("p", {
						class: "card-text",
						children: "Rows of nodes name the jobs of all namespaces. An administrator can grant the right to list nodes without the other rights of trellis-platform:"
					}),
					a(RoleCommands, {
						role: "trellis-read-nodes",
						verbs: "get,list",
						resource: "nodestates.visibility.trellis.dev"
					})
				]
			}),
			a(FreeQuota, {}),
			a("p", { children: ["The page of a job names its own nodes, and says why a waiting job does not start. ", a("a", {
				href: urls.jobs(),
				children: "All jobs that you may see"
			})] })
		]
	});
}
function FreeQuota() {
	const rows = [...queue.queues.value?.values() ?? []].flatMap((entry) => (entry.resources ?? []).filter((resource) => isDevice(resource.resource) && resource.available !== void 0).map((resource) => ({
		name: entry.metadata.name,
		...resource
	})));
	if (rows.length === 0) return null;
	return a(Card, {
		title: "Free quota of your queues",
		children: a("ul", {
			class: "card-text plain-list",
			children: rows.map((row) => a("li", { children: [
				a(QueueLink, { name: row.name }),
				": ",
				formatCount(wholeUnits(row.available)),
				" ",
				a(Name, { text: resourceLabel(row.resource, row.flavor) })
			] }, `${row.name} ${row.flavor} ${row.resource}`))
		})
	});
}
function NodesNotHere() {
	const [own, jobs] = [nodesFreshness.value, queueFreshness.value];
	if (own.state === "failed") return a(ProblemText, { problem: own.problem });
	if (jobs.state === "failed") return a(ProblemText, { problem: jobs.problem });
	return a(Loading, { rows: 8 });
}
// src/views/Node.tsx
function NodeView({ name }) {
	useTitle(`Node ${name}`);
	A(() => follow("nodes"), []);
	const node = nodes.nodes.value.get(name);
	return a("div", {
		class: "page drawing",
		children: [a("div", {
			class: "page-head",
			children: [
				a("p", {
					class: "crumbs",
					children: a("a", {
						href: urls.nodes(),
						children: "Nodes"
					})
				}),
				a("h1", { children: a(Name, { text: name }) }),
				node && a(NodeBadge, { node }),
				node && a("a", {
					href: urls.nodes({ at: name }),
					children: [a(Icon, { name: "map" }), " show on map"]
				}),
				node && a("a", {
					href: urls.whatIf({ changes: writeChanges([{ removeNode: { name } }]) }),
					children: [a(Icon, { name: "whatIf" }), " what if it were removed"]
				})
			]
		}), node ? a(NodeContent, {
			node,
			name
		}) : a(MissingNode, { name })]
	});
}
function NodeBadge({ node }) {
	const word = stateWord(node);
	if (!node.schedulable) return a(Badge, {
		tone: "bad",
		icon: "ban",
		children: a(Name, { text: word === "" ? "takes no pods" : word })
	});
	return a(Badge, {
		tone: word === "Full" ? "still" : "good",
		icon: word === "Full" ? "nodes" : word === "Mixed" ? "half" : "check",
		children: word
	});
}
function NodeContent({ node, name }) {
	const freshness = nodesFreshness.value;
	return a($, { children: [(node.reasons ?? []).map((reason) => a(Banner, {
		tone: "bad",
		title: `Takes no new pods: ${reason.reason}`,
		children: a(Text, { text: reason.message })
	}, reason.reason)), a("div", {
		class: `node-page ${freshness.state === "stale" ? "is-stale" : ""}`,
		children: [a("div", {
			class: "node-main",
			children: [
				a(NodeCells, { node }),
				a(NodeResources, { node }),
				a(HoldingJobs, { node }),
				a(Reservations, { node }),
				a(KeptPlaces, { node }),
				a(AvoidingJobs, { node })
			]
		}), a("div", {
			class: "node-side",
			children: [a(NodeFacts, { node }), a(Card, {
				title: "Command line",
				children: [a(Command, {
					label: "this row",
					text: command("trellis", "nodes", name)
				}), a(Command, {
					label: "object",
					text: command("kubectl", "describe", "node", name)
				})]
			})]
		})]
	})] });
}
function MissingNode({ name }) {
	const problem = nodes.problem.value;
	const freshness = nodesFreshness.value;
	if (problem?.kind === "denied" || session.value?.may.nodes === false) return a("div", {
		class: "no-nodes",
		children: [a(JobsNamingNode, { name }), a(NoRightToNodes, { problem })]
	});
	if (freshness.state === "failed" || freshness.state === "loading") return a(NodesNotHere, {});
	return a($, { children: [a(Empty, {
		title: "There is no such node",
		children: a("p", { children: "It may have been deleted. A deleted node stays in the list while it still has pods." })
	}), a(JobsNamingNode, { name })] });
}
// src/draw/map/zoom.ts
var MARGIN$1 = 10;
var FITTED_MOST = 3;
var MOST = 7;
var ZOOM_STEP = 1.5;
function fitView(map, window) {
	const width = Math.max(window.width - 20, 1);
	const height = Math.max(window.height - 20, 1);
	const scale = Math.min(width / Math.max(map.width, 1), height / Math.max(map.height, 1), FITTED_MOST);
	return {
		scale,
		x: (window.width - map.width * scale) / 2,
		y: Math.max((window.height - map.height * scale) / 2 * topShare(map, window, scale), MARGIN$1)
	};
}
function topShare(map, window, scale) {
	return map.height * scale < window.height / 2 ? .3 : 1;
}
function zoomLimits(map, window) {
	return {
		least: fitView(map, window).scale * .7,
		most: MOST
	};
}
function zoomAt(view, at, factor, limits) {
	const scale = Math.min(Math.max(view.scale * factor, limits.least), limits.most);
	const ratio = scale / view.scale;
	return {
		scale,
		x: at.x - (at.x - view.x) * ratio,
		y: at.y - (at.y - view.y) * ratio
	};
}
function panBy(view, dx, dy) {
	return {
		scale: view.scale,
		x: view.x + dx,
		y: view.y + dy
	};
}
function clampView(view, map, window) {
	const clamp = (at, length, room) => {
		const visible = Math.min(80, length, room);
		return Math.min(Math.max(at, visible - length), room - visible);
	};
	return {
		scale: view.scale,
		x: clamp(view.x, map.width * view.scale, window.width),
		y: clamp(view.y, map.height * view.scale, window.height)
	};
}
function toMap(view, at) {
	return {
		x: (at.x - view.x) / view.scale,
		y: (at.y - view.y) / view.scale
	};
}
function toWindow(view, at) {
	return {
		x: at.x * view.scale + view.x,
		y: at.y * view.scale + view.y
	};
}
function reveal(view, rect, window, margin = 8) {
	const shift = (from, length, room) => {
		const space = Math.max(Math.min(margin, (room - length) / 2), 0);
		if (from < space) return space - from;
		return from + length > room - space ? room - space - from - length : 0;
	};
	const { x, y } = toWindow(view, rect);
	const dx = shift(x, rect.width * view.scale, window.width);
	const dy = shift(y, rect.height * view.scale, window.height);
	return dx === 0 && dy === 0 ? view : panBy(view, dx, dy);
}
function between(from, to, part) {
	const scale = from.scale * (to.scale / from.scale) ** part;
	const travelled = to.scale === from.scale ? part : (scale - from.scale) / (to.scale - from.scale);
	return {
		scale,
		x: from.x + (to.x - from.x) * travelled,
		y: from.y + (to.y - from.y) * travelled
	};
}
function writeView(view, map, window) {
	const fitted = fitView(map, window);
	if (Math.abs(view.scale / fitted.scale - 1) < .005 && Math.abs(view.x - fitted.x) < 1 && Math.abs(view.y - fitted.y) < 1) return void 0;
	const centre = toMap(view, {
		x: window.width / 2,
		y: window.height / 2
	});
	return [
		view.scale / fitted.scale,
		centre.x / Math.max(map.width, 1),
		centre.y / Math.max(map.height, 1)
	].map((part) => String(Math.round(part * 1e3) / 1e3)).join(",");
}
function readView(text, map, window) {
	const parts = (text ?? "").split(",").map(Number);
	const [zoom = NaN, x = NaN, y = NaN] = parts;
	if (parts.length !== 3 || !parts.every(Number.isFinite) || zoom <= 0) return void 0;
	const limits = zoomLimits(map, window);
	const scale = Math.min(Math.max(fitView(map, window).scale * zoom, limits.least), limits.most);
	return clampView({
		scale,
		x: window.width / 2 - x * map.width * scale,
		y: window.height / 2 - y * map.height * scale
	}, map, window);
}
// src/parts/ZoomButtons.tsx
function ZoomButtons(props) {
	return a("div", {
		class: "map-zoom",
		children: [
			a(ZoomButton, {
				label: "Zoom in",
				keys: "+",
				icon: "plus",
				run: props.zoomIn
			}),
			a(ZoomButton, {
				label: "Zoom out",
				keys: "-",
				icon: "minus",
				run: props.zoomOut
			}),
			a(ZoomButton, {
				label: props.whole,
				keys: "0",
				icon: "whole",
				run: props.showWhole
			})
		]
	});
}
function ZoomButton(props) {
	return a("button", {
		type: "button",
		"aria-label": props.label,
		title: `${props.label} (${props.keys})`,
		onClick: props.run,
		children: a(Icon, { name: props.icon })
	});
}
// src/draw/layout/tile.ts
var LARGE_FROM = 250;
var CELLS_FROM = 26;
var NAMES_FROM = 76;
var JOBS_FROM = 112;
function detailFor(width) {
	if (width < CELLS_FROM) return "bar";
	if (width < NAMES_FROM) return "cells";
	return width < JOBS_FROM ? "names" : "jobs";
}
function tileParts(width, height, rows) {
	const detail = detailFor(width);
	const [lineHeight, textSize] = width < LARGE_FROM ? [14, 11] : [18, 13];
	if (detail === "bar") return {
		detail,
		name: 0,
		cells: {
			x: 0,
			y: 0,
			width,
			height
		},
		linesTop: height,
		lines: 0,
		lineHeight,
		textSize
	};
	const padding = Math.min(Math.max(width / 32, 1.5), 6);
	const name = detail === "cells" ? 0 : Math.min(Math.max(height * .34, 13), lineHeight + 6);
	const top = name === 0 ? padding : name + padding / 2;
	const below = height - top - padding;
	const least = Math.min(12 * rows + 2 * (rows - 1), below);
	const lines = detail === "jobs" ? Math.max(Math.floor((below - Math.max(least, below * .3) - 3) / lineHeight), 0) : 0;
	const cellHeight = Math.min(below - lines * lineHeight - (lines > 0 ? 4 : 0), lines > 0 ? 40 * rows : below);
	return {
		detail,
		name,
		cells: {
			x: padding,
			y: top,
			width: width - 2 * padding,
			height: cellHeight
		},
		linesTop: top + cellHeight + 4,
		lines,
		lineHeight,
		textSize
	};
}
function columnsFor(cells) {
	return 2 ** Math.ceil(Math.log2(Math.min(Math.max(cells, 1), 16)));
}
function rowRect(parts, row, rows) {
	const gap = parts.detail === "bar" ? 0 : 2;
	const height = (parts.cells.height - gap * (rows - 1)) / rows;
	return {
		...parts.cells,
		y: parts.cells.y + row * (height + gap),
		height
	};
}
// src/draw/node/order.ts
var keys = new WeakMap();
function nodeName(node) {
	return node.metadata.name;
}
function sortNodes(nodes) {
	return [...nodes].sort(compareNodes);
}
function compareNodes(a, b) {
	const [left, right] = [keyOf$1(a), keyOf$1(b)];
	return compareLists(left.domains, right.domains, compareText$1) || compareLists(left.name, right.name, comparePart);
}
function splitName(name) {
	const parts = [];
	for (const match of name.matchAll(/(\D*)(\d*)/g)) {
		const [all, word = "", digits = ""] = match;
		if (all !== "") parts.push({
			word,
			number: numberOf(digits)
		});
	}
	return parts;
}
function numberOf(digits) {
	const number = Number(digits);
	return number < 2 ** 64 ? number : 0;
}
function keyOf$1(node) {
	const known = keys.get(node);
	if (known !== void 0) return known;
	const key = {
		domains: (node.domains ?? []).map((entry) => entry.domain),
		name: splitName(nodeName(node))
	};
	keys.set(node, key);
	return key;
}
function compareText$1(a, b) {
	return a === b ? 0 : a < b ? -1 : 1;
}
function comparePart(a, b) {
	return compareText$1(a.word, b.word) || a.number - b.number;
}
function compareLists(a, b, compare) {
	const shared = Math.min(a.length, b.length);
	for (let index = 0; index < shared; index += 1) {
		const order = compare(a[index], b[index]);
		if (order !== 0) return order;
	}
	return a.length - b.length;
}
// src/draw/map/scene.ts
function buildScene(parts) {
	const { layout, look, now, fitOf } = parts;
	const nodes = layout.names.map((name) => parts.nodes.get(name)).filter((node) => node !== void 0);
	return {
		layout,
		nodes,
		columns: columnsFor(nodes.reduce((most, node) => Math.max(most, ...cellRows(node).map((row) => row.cells)), 1)),
		look,
		now,
		fits: fitOf === void 0 ? void 0 : nodes.map(fitOf)
	};
}
function hasSameGround(before, after) {
	return before.layout === after.layout && before.columns === after.columns && before.look.by === after.look.by && before.fits === void 0 === (after.fits === void 0);
}
function changedTiles(before, after) {
	const changed = [];
	after.nodes.forEach((node, position) => {
		if (before.nodes[position] === node ? looksDifferent(node, position, before, after) : true) changed.push(position);
	});
	return changed;
}
function looksDifferent(node, position, before, after) {
	const [old, fit] = [before.fits?.[position], after.fits?.[position]];
	if (old?.kind !== fit?.kind || old?.brief !== fit?.brief || old?.why !== fit?.why) return true;
	if (after.look.by === "gang" || after.look.by === "state") return false;
	return cellRows(node).flatMap((row) => row.runs).some((run) => fillKey(run, before.look) !== fillKey(run, after.look));
}
function nodesByGang(nodes) {
	const positions = new Map();
	nodes.forEach((node, position) => {
		const gangs = new Set();
		for (const row of cellRows(node)) {
			for (const run of row.runs) if (run.gang !== void 0) gangs.add(run.gang);
			for (const bracket of row.brackets) gangs.add(bracket.gang);
		}
		for (const gang of gangs) {
			const known = positions.get(gang);
			if (known === void 0) positions.set(gang, [position]);
			else known.push(position);
		}
	});
	return positions;
}
function positionOf(scene, name) {
	const position = name === void 0 ? void 0 : scene.layout.positions.get(name);
	return position !== void 0 && scene.nodes[position] !== void 0 && nodeName(scene.nodes[position]) === name ? position : void 0;
}
// src/draw/node/fit.ts
var LARGEST = 1e5;
function readFit(text) {
	const match = /^\s*(?:(\d{1,6})\s*[x×*]\s*)?(\d{1,6})\s*(?::\s*(\S+))?\s*$/i.exec(text ?? "");
	if (match === null) return void 0;
	const [, podsText = "1", devicesText = "", device] = match;
	const [pods, devices] = [Number(podsText), Number(devicesText)];
	return pods < 1 || devices < 1 || pods > LARGEST || devices > LARGEST ? void 0 : {
		pods,
		devices,
		device
	};
}
function deviceOf(query, nodes) {
	if (query?.device !== void 0) return query.device;
	const sums = sumDevices(nodes);
	return sums.reduce((most, sum) => most === void 0 || sum.total > most.total ? sum : most, sums[0])?.device ?? "";
}
function fitNode(node, context) {
	const need = context.query.devices;
	if (!node.schedulable) {
		const reason = node.reasons?.[0];
		return off(reason === void 0 ? "takes no pods" : `${reason.reason}: ${reason.message}`, reason?.reason ?? "takes no pods");
	}
	const counts = devicesOf(node).find((entry) => entry.device === context.device);
	if (counts === void 0 || counts.total === 0) return off(`has no ${context.device}`, "no such device");
	if (counts.total < need) return off(`has ${counts.total} devices; a pod needs ${need}`, `has ${counts.total}`);
	if (counts.free < need) return off(tooFewFree(node, counts, context), `${counts.free}/${counts.total} free`);
	return fitReserved(node, counts, context);
}
function rememberFits(context) {
	const known = new WeakMap();
	return (node) => {
		const fit = known.get(node) ?? fitNode(node, context);
		known.set(node, fit);
		return fit;
	};
}
function sumFits(fits, device) {
	const nodes = {
		fits: 0,
		short: 0,
		off: 0
	};
	let [pods, shortPods] = [0, 0];
	for (const fit of fits) {
		nodes[fit.kind] += 1;
		if (fit.kind === "fits") pods += fit.pods;
		if (fit.kind === "short") shortPods += fit.pods;
	}
	return {
		device,
		pods,
		shortPods,
		nodes
	};
}
function fitSentence(query, summary) {
	const gang = `${countOf(query.pods, "pod")} with ${query.devices} ${summary.device}${query.pods === 1 ? "" : " each"}`;
	if (summary.pods >= query.pods) return `${gang}: fits now; ${countOf(summary.nodes.fits, "node")} with room for ${countOf(summary.pods, "pod")}.`;
	const missing = `${gang}: room for ${summary.pods}, ${query.pods - summary.pods} missing.`;
	if (summary.pods + summary.shortPods < query.pods) return missing;
	return `${missing} On reserved nodes is room for ${summary.shortPods} more, if the job ends before the reservations begin.`;
}
function fitReserved(node, counts, context) {
	const need = context.query.devices;
	const pods = Math.floor(counts.free / need);
	const reservations = (node.reservedFor ?? []).filter((hold) => devicesOfHold(hold, counts.device) > 0);
	const reserved = reservations.reduce((sum, hold) => sum + devicesOfHold(hold, counts.device), 0);
	const first = reservations[0];
	if (first !== void 0 && counts.free - reserved < need) {
		const start = first.expectedStart === void 0 ? "" : ` in ${formatUntil(first.expectedStart, context.now)}`;
		return {
			kind: "short",
			pods,
			why: `reserved for ${gangTitle(first)}${start}: only for a job that ends before`,
			brief: "reserved"
		};
	}
	const open = first === void 0 ? pods : Math.floor((counts.free - reserved) / need);
	const taints = node.taints ?? [];
	return {
		kind: "fits",
		pods: open,
		why: taints.length === 0 ? "" : `for pods that tolerate ${taints.join(", ")}`,
		brief: countOf(open, "pod")
	};
}
function tooFewFree(node, counts, context) {
	const head = `${counts.free} of ${counts.total} free`;
	const missing = context.query.devices - counts.free;
	const holds = (node.jobs ?? []).map((hold) => ({
		hold,
		devices: devicesOfHold(hold, counts.device),
		end: endOf$1(context, gangKey(hold))
	})).filter((entry) => entry.devices > 0);
	const enough = holds.filter((entry) => entry.devices >= missing);
	const next = (enough.length > 0 ? enough : holds).sort((a, b) => a.end - b.end || b.devices - a.devices)[0];
	if (next !== void 0) {
		const end = Number.isFinite(next.end) ? `, which ends in ${formatUntil(new Date(next.end), context.now)}` : "";
		return `${head}: ${gangTitle(next.hold)} holds ${next.devices}${end}`;
	}
	if (counts.others > 0) return `${head}: pods of no job hold ${counts.others}`;
	return counts.kept > 0 ? `${head}: ${counts.kept} kept for a job that restarts` : head;
}
function endOf$1(context, gang) {
	const end = Date.parse(context.jobs.get(gang)?.expectedEnd ?? "");
	return Number.isNaN(end) ? Number.POSITIVE_INFINITY : end;
}
function off(why, brief) {
	return {
		kind: "off",
		pods: 0,
		why,
		brief
	};
}
// src/views/nodes/model.ts
var STEP_MS$1 = 15e3;
var sortedNodes = O(() => sortNodes(nodes.nodes.value.values()));
var sums = O(() => sumDevices(nodes.nodes.value.values()));
var colourBy = O(() => readColourBy(query.value.get("by") ?? void 0));
var steppedTime$1 = O(() => Math.floor(now.value.getTime() / STEP_MS$1) * STEP_MS$1);
var look = O(() => ({
	by: colourBy.value,
	jobs: queue.jobs.value,
	now: steppedTime$1.value
}));
var fitText$1 = O(() => query.value.get("fit") ?? "");
var fitQuery = O(() => readFit(fitText$1.value));
var mainDevice = O(() => deviceOf(fitQuery.value, nodes.nodes.value.values()));
var fitOf = O(() => {
	const asked = fitQuery.value;
	if (asked === void 0) return void 0;
	return rememberFits({
		query: asked,
		device: mainDevice.value,
		jobs: queue.jobs.value,
		now: new Date(steppedTime$1.value)
	});
});
var fitSummary = O(() => {
	const answer = fitOf.value;
	return answer && sumFits(sortedNodes.value.map(answer), mainDevice.value);
});
var chosenGang = O(() => query.value.get("job") ?? void 0);
var chosenQueue = O(() => query.value.get("queue") ?? void 0);
var litGangs = O(() => {
	const gang = chosenGang.value;
	if (gang !== void 0) return new Set([gang]);
	const name = chosenQueue.value;
	if (name === void 0) return void 0;
	return new Set([...queue.jobs.value].filter(([, job]) => job.queue === name).map(([key]) => key));
});
var gangNodes = O(() => nodesByGang(sortedNodes.value));
var isTable = O(() => query.value.get("view") === "table");
var isBadOnly = O(() => query.value.get("state") === "bad");
function showBadOnly(isOn) {
	setQuery({ state: isOn ? "bad" : void 0 }, { step: true });
}
function toggleTable() {
	setQuery({ view: isTable.peek() ? void 0 : "table" }, { step: true });
}
function cycleColour() {
	chooseColour(COLOUR_BY[(COLOUR_BY.indexOf(colourBy.peek()) + 1) % COLOUR_BY.length] ?? "gang");
}
function chooseColour(by) {
	setQuery({ by: by === "gang" ? void 0 : by });
}
function chooseGang(gang) {
	setQuery({
		job: gang,
		queue: void 0
	});
}
// src/views/nodes/GangCard.tsx
function GangCard({ onShow }) {
	const gang = chosenGang.value;
	if (gang === void 0) return a(QueueCard, {});
	const job = queue.jobs.value.get(gang);
	const nodes = gangNodes.value.get(gang)?.length ?? 0;
	return a("section", {
		class: "map-card",
		"aria-label": "Chosen job",
		children: [
			a("div", {
				class: "map-card-head",
				children: [a("strong", { children: a(JobLink, { job: gangOfKey(gang) }) }), a(CloseButton, {})]
			}),
			job ? a($, { children: [
				a("div", {
					class: "map-card-row",
					children: [a(PhaseBadge, { phase: phaseOf(job) }), a("span", { children: describeEta(job, now.value) ?? "no known end" })]
				}),
				a("div", { children: [
					countOf(job.gpus, "GPU"),
					", ",
					countOf(job.pods, "pod"),
					" in queue ",
					a(QueueLink, { name: job.queue })
				] }),
				job.user !== void 0 && a("div", {
					class: "dim",
					children: ["of ", a(Name, { text: job.user })]
				}),
				job.message !== void 0 && job.phase !== "Running" && a("div", {
					class: "dim",
					children: a(Text, {
						text: job.message,
						max: 160
					})
				})
			] }) : a("div", {
				class: "dim",
				children: "This job is not in the list of jobs."
			}),
			a("div", {
				class: "map-card-row",
				children: [a("span", { children: nodes === 0 ? "on no node" : `on ${countOf(nodes, "node")}` }), nodes > 0 && a("button", {
					type: "button",
					class: "button",
					onClick: () => onShow(gang),
					children: ["Zoom to ", nodes === 1 ? "it" : "them"]
				})]
			})
		]
	});
}
function QueueCard() {
	const name = chosenQueue.value;
	if (name === void 0) return null;
	const gangs = [...litGangs.value ?? []].filter((gang) => gangNodes.value.has(gang));
	return a("section", {
		class: "map-card",
		"aria-label": "Chosen queue",
		children: [a("div", {
			class: "map-card-head",
			children: [a("strong", { children: ["Queue ", a(QueueLink, { name })] }), a(CloseButton, {})]
		}), a("div", { children: [countOf(gangs.length, "job"), " of this queue on the map"] })]
	});
}
function CloseButton() {
	return a("button", {
		type: "button",
		class: "icon-button",
		"aria-label": "End the choice",
		onClick: () => chooseGang(void 0),
		children: a(Icon, { name: "cross" })
	});
}
// src/draw/node/domains.ts
var SEPARATOR = "/";
var NO_DOMAIN = "no domain";
function groupByDomain(nodes) {
	const paths = nodes.map(domainsOf);
	const bare = paths.findIndex((path) => path.length > 0);
	const without = bare < 0 ? nodes.length : bare;
	const groups = [];
	if (without > 0) {
		const label = without === nodes.length ? "" : NO_DOMAIN;
		groups.push({
			key: "",
			label,
			level: "",
			depth: 0,
			first: 0,
			count: without,
			direct: without,
			children: []
		});
	}
	groups.push(...groupLevel(paths, without, nodes.length, 0));
	return groups;
}
function domainsOf(node) {
	const name = nodeName(node);
	return (node.domains ?? []).filter((entry) => entry.domain !== name);
}
function domainText(node) {
	return (node.domains ?? []).map((entry) => entry.domain).join("/");
}
function groupLevel(paths, from, to, depth) {
	const groups = [];
	let first = from;
	while (first < to) {
		const entry = paths[first]?.[depth];
		let end = first + 1;
		while (end < to && paths[end]?.[depth]?.domain === entry?.domain) end += 1;
		if (entry !== void 0) groups.push(buildGroup(paths, first, end, depth));
		first = end;
	}
	return groups;
}
function buildGroup(paths, first, end, depth) {
	const path = paths[first] ?? [];
	let direct = 0;
	while (first + direct < end && (paths[first + direct]?.length ?? 0) <= depth + 1) direct += 1;
	return {
		key: path.slice(0, depth + 1).map((entry) => entry.domain).join(SEPARATOR),
		label: path[depth]?.domain ?? "",
		level: path[depth]?.level ?? "",
		depth,
		first,
		count: end - first,
		direct,
		children: groupLevel(paths, first + direct, end, depth + 1)
	};
}
// src/draw/node/describe.ts
var MAX_JOBS$4 = 4;
var STATE_WORDS = {
	running: "held by a running job",
	starting: "held by a starting job",
	stopping: "held by a stopping job",
	other: "held by pods of no job",
	kept: "kept for a job that restarts",
	free: "free",
	blocked: "free, but the node takes no pods"
};
function describeNode(node, now) {
	const place = domainText(node);
	return `${[
		`${nodeName(node)}: ${stateWord(node)}`,
		...devicesOf(node).map((counts) => `${counts.free} of ${counts.total} ${counts.device} free`),
		...place === "" ? [] : [`in ${place}`],
		...holders(node, now)
	].join(", ").replace(/\.$/, "")}.`;
}
function holders(node, now) {
	const jobs = node.jobs ?? [];
	const more = jobs.length - MAX_JOBS$4;
	const avoided = (node.excludedBy ?? []).slice(0, MAX_JOBS$4).map(gangTitle);
	return [
		...node.schedulable ? [] : (node.reasons ?? []).map((reason) => reason.message),
		...jobs.slice(0, MAX_JOBS$4).map((hold) => `${holdText(hold)}${stateSuffix(hold)}`),
		...more > 0 ? [more === 1 ? "1 more job" : `${more} more jobs`] : [],
		...node.otherPods > 0 ? [node.otherPods === 1 ? "1 other pod" : `${node.otherPods} other pods`] : [],
		...(node.reservedFor ?? []).map((hold) => `reserved for ${holdText(hold)}${startText(hold, now)}`),
		...(node.keptFor ?? []).map((hold) => `kept for ${holdText(hold)}${untilText(hold, now)}`),
		...avoided.length > 0 ? [`avoided by ${avoided.join(" ")}`] : []
	];
}
function startText(hold, now) {
	if (hold.expectedStart === void 0) return "";
	const span = formatUntil(hold.expectedStart, now);
	return span === "now" ? " from now" : ` in ${span}`;
}
function untilText(hold, now) {
	return hold.until === void 0 ? "" : ` for ${formatUntil(hold.until, now)}`;
}
function stateSuffix(hold) {
	return hold.state === void 0 || hold.state === "Running" ? "" : ` (${hold.state})`;
}
function holdText(hold) {
	const devices = (hold.devices ?? []).map((entry) => entry.amount);
	if (devices.length > 0) return `${gangTitle(hold)}:${devices.join("+")}`;
	return hold.pods === 1 ? gangTitle(hold) : `${gangTitle(hold)} (${hold.pods} pods)`;
}
// src/views/nodes/MapTip.tsx
var DISTANCE$1 = 8;
function MapTip({ controller }) {
	const box = T(null);
	const pointed = controller.pointed.value;
	const scene = controller.scene.value;
	const node = pointed === void 0 ? void 0 : scene?.nodes[pointed.hit.position];
	F(() => {
		const element = box.current;
		const room = element?.parentElement;
		if (!element || !room || !pointed) return;
		const { tile } = pointed;
		const top = tile.y + tile.height + DISTANCE$1 + element.offsetHeight <= room.clientHeight ? tile.y + tile.height + DISTANCE$1 : tile.y - DISTANCE$1 - element.offsetHeight;
		const left = Math.min(Math.max(tile.x + tile.width / 2 - element.offsetWidth / 2, 4), room.clientWidth - element.offsetWidth - 4);
		element.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(top, 4))}px)`;
	});
	if (node === void 0 || pointed === void 0 || scene === void 0) return null;
	const fit = scene.fits?.[pointed.hit.position];
	const place = domainText(node);
	return a("div", {
		class: "map-tip",
		ref: box,
		"aria-hidden": "true",
		children: [
			a("div", {
				class: "map-tip-head",
				children: [a("strong", { children: a(Name, { text: nodeName(node) }) }), a("span", { children: stateWord(node) })]
			}),
			devicesOf(node).map((counts) => a("div", { children: [
				counts.free,
				" of ",
				counts.total,
				" ",
				a(Name, { text: counts.device }),
				" free"
			] }, counts.device)),
			place !== "" && a("div", {
				class: "dim",
				children: a(Name, { text: place })
			}),
			pointed.hit.cell ? a(CellText, {
				hit: pointed.hit.cell,
				now: scene.now
			}) : a(HolderText, { texts: holders(node, scene.now) }),
			pointed.hit.cell && (node.reservedFor ?? []).slice(0, 2).map((hold) => a("div", { children: [
				"reserved for ",
				a(Name, { text: gangTitle(hold) }),
				startText(hold, scene.now)
			] }, gangTitle(hold))),
			fit && fit.why !== "" && a("div", {
				class: "map-tip-fit",
				children: [fit.kind === "off" ? "does not fit: " : "fits ", a(Text, {
					text: fit.why,
					max: 160
				})]
			})
		]
	});
}
function CellText({ hit, now }) {
	const { run } = hit;
	if (run.gang === void 0) return a("div", {
		class: "map-tip-cell",
		children: [
			run.devices,
			" ",
			STATE_WORDS[run.state]
		]
	});
	const job = queue.jobs.value.get(run.gang);
	const end = job?.expectedEnd === void 0 ? void 0 : formatUntil(job.expectedEnd, now);
	return a("div", {
		class: "map-tip-cell",
		children: [
			run.devices,
			" of ",
			a(Name, { text: gangTitle(gangOfKey(run.gang)) }),
			run.state !== "running" && ` (${run.state})`,
			job && a("div", {
				class: "dim",
				children: [
					"queue ",
					a(Name, { text: job.queue }),
					end !== void 0 && (end === "now" ? ", ends now" : `, ends in ${end}`)
				]
			})
		]
	});
}
function HolderText({ texts }) {
	if (texts.length === 0) return null;
	return a("div", {
		class: "map-tip-cell",
		children: texts.slice(0, 4).map((text) => a("div", { children: a(Text, {
			text,
			max: 100
		}) }, text))
	});
}
// src/draw/base/frames.ts
var FramePlanner = class {
	#run;
	#handle;
	constructor(run) {
		this.#run = run;
	}
	plan() {
		this.#handle ??= requestAnimationFrame((time) => {
			this.#handle = void 0;
			this.#run(time);
		});
	}
	cancel() {
		if (this.#handle !== void 0) cancelAnimationFrame(this.#handle);
		this.#handle = void 0;
	}
};
// src/draw/base/gestures.ts
var DRAG_FROM = 5;
var LINE_PIXELS = 16;
var PAGE_PIXELS = 400;
function wheelPixels(event) {
	const unit = event.deltaMode === 1 ? LINE_PIXELS : event.deltaMode === 2 ? PAGE_PIXELS : 1;
	return {
		x: event.deltaX * unit,
		y: event.deltaY * unit
	};
}
function wheelFactor(event) {
	const step = Math.max(Math.min(wheelPixels(event).y, 120), -120);
	return Math.exp(-step * (event.ctrlKey ? .01 : .0022));
}
function listenToGestures(element, target) {
	const gestures = new Gestures(element, target);
	const stop = new AbortController();
	const options = { signal: stop.signal };
	element.addEventListener("pointerdown", (event) => gestures.press(event), options);
	element.addEventListener("pointermove", (event) => gestures.move(event), options);
	element.addEventListener("pointerup", (event) => gestures.release(event, true), options);
	element.addEventListener("pointercancel", (event) => gestures.release(event, false), options);
	element.addEventListener("pointerleave", () => target.point(void 0), options);
	element.addEventListener("dblclick", (event) => target.doubleClick(gestures.place(event)), options);
	const wheel = (event) => {
		if (target.wheel(event, gestures.place(event))) event.preventDefault();
	};
	element.addEventListener("wheel", wheel, {
		...options,
		passive: false
	});
	return () => stop.abort();
}
var Gestures = class {
	#element;
	#target;
	#pressed = new Map();
	#start = {
		x: 0,
		y: 0
	};
	#isDrag = false;
	constructor(element, target) {
		this.#element = element;
		this.#target = target;
	}
	place(event) {
		const box = this.#element.getBoundingClientRect();
		return {
			x: event.clientX - box.left - this.#element.clientLeft,
			y: event.clientY - box.top - this.#element.clientTop
		};
	}
	press(event) {
		if (event.button !== 0) return;
		const at = this.place(event);
		this.#pressed.set(event.pointerId, at);
		this.#isDrag = this.#pressed.size > 1;
		if (this.#pressed.size === 1) this.#start = at;
		this.#element.setPointerCapture(event.pointerId);
	}
	move(event) {
		const at = this.place(event);
		const before = this.#pressed.get(event.pointerId);
		if (before === void 0) {
			if (event.pointerType !== "touch") this.#target.point(at);
			return;
		}
		if (this.#pressed.size > 1) this.#pinch(event.pointerId, before, at);
		else this.#drag(before, at);
	}
	release(event, isClick) {
		if (!this.#pressed.delete(event.pointerId) || this.#pressed.size > 0) return;
		if (isClick && !this.#isDrag) this.#target.click(this.place(event));
		this.#isDrag = false;
	}
	#drag(before, at) {
		if (!this.#isDrag && distance(this.#start, at) < DRAG_FROM) return;
		const from = this.#isDrag ? before : this.#start;
		if (!this.#isDrag) this.#target.point(void 0);
		this.#isDrag = true;
		for (const id of this.#pressed.keys()) this.#pressed.set(id, at);
		this.#target.pan(at.x - from.x, at.y - from.y);
	}
	#pinch(id, before, at) {
		const other = [...this.#pressed].find(([key]) => key !== id)?.[1];
		if (other === void 0) return;
		const [old, next] = [middle(before, other), middle(at, other)];
		this.#pressed.set(id, at);
		this.#target.pan(next.x - old.x, next.y - old.y);
		this.#target.zoom(next, distance(at, other) / Math.max(distance(before, other), 1));
	}
};
function distance(a, b) {
	return Math.hypot(a.x - b.x, a.y - b.y);
}
function middle(a, b) {
	return {
		x: (a.x + b.x) / 2,
		y: (a.y + b.y) / 2
	};
}
function chooseColumns(count, tile, aspect, before) {
	if (count < 2) return 1;
	const costOf = (columns) => {
		const rows = Math.ceil(count / columns);
		return shapeCost({
			width: columns * tile.width,
			height: rows * tile.height
		}, aspect) * Math.sqrt(columns * rows / count);
	};
	return choose(columnsNear(count, tile, aspect), costOf, before !== void 0 && before <= count ? before : void 0);
}
function flow(sizes, width, gap) {
	const places = [];
	let [x, y, rowHeight, widest] = [
		0,
		0,
		0,
		0
	];
	for (const size of sizes) {
		if (x > 0 && x + size.width > width) [x, y, rowHeight] = [
			0,
			y + rowHeight + gap,
			0
		];
		places.push({
			x,
			y
		});
		widest = Math.max(widest, x + size.width);
		rowHeight = Math.max(rowHeight, size.height);
		x += size.width + gap;
	}
	return {
		places,
		width: widest,
		height: y + rowHeight
	};
}
function chooseWidth(sizes, gap, aspect, before) {
	const widest = sizes.reduce((most, size) => Math.max(most, size.width), 0);
	const firstRows = new Set();
	let sum = -gap;
	for (const size of sizes) {
		sum += size.width + gap;
		firstRows.add(Math.max(sum, widest));
	}
	const options = spread([...firstRows]);
	const cost = (width) => shapeCost(flow(sizes, width, gap), aspect);
	return choose(options, cost, before !== void 0 && before >= widest ? before : void 0);
}
function shapeCost(size, aspect) {
	return Math.max(size.width / Math.sqrt(aspect), size.height * Math.sqrt(aspect));
}
function choose(options, cost, before) {
	let best = options[0] ?? 1;
	let least = Number.POSITIVE_INFINITY;
	for (const option of options) {
		const costs = cost(option);
		if (costs < least - 1e-9) [best, least] = [option, costs];
	}
	return before !== void 0 && cost(before) <= least * 1.25 ? before : best;
}
function columnsNear(count, tile, aspect) {
	const ideal = Math.sqrt(count * aspect * tile.height / tile.width);
	const first = Math.min(Math.max(Math.floor(ideal * .6), 1), count);
	const last = Math.min(Math.max(Math.ceil(ideal * 1.6), first), count);
	return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
function spread(options) {
	const limit = 96;
	if (options.length <= limit) return options;
	const kept = new Set();
	for (let step = 0; step < limit; step += 1) {
		const index = Math.floor((options.length - 1) * (step / 95) ** 2);
		kept.add(options[Math.max(index, Math.min(step, options.length - 1))]);
	}
	return [...kept].sort((a, b) => a - b);
}
// src/draw/layout/layout.ts
var TILE = {
	width: 64,
	height: 32
};
var LEAF_ASPECTS = [
	1,
	.5,
	2
];
var INNER_ASPECTS = [
	1.2,
	.7,
	2,
	3
];
function headerFor(nodes, windowPixels) {
	const scale = Math.sqrt(windowPixels / Math.max(nodes, 1) / (TILE.width * TILE.height * 1.4));
	const step = 2 ** Math.round(Math.log2(20 / Math.max(scale, .02)));
	return Math.min(Math.max(step, 8), 128);
}
function layOut(nodes, options) {
	const run = chooseRun(groupByDomain(nodes), options);
	const names = nodes.map(nodeName);
	return {
		width: run.size.width,
		height: run.size.height,
		names,
		positions: new Map(names.map((name, index) => [name, index])),
		boxes: run.boxes,
		grids: run.grids,
		shape: {
			aspects: run.aspects,
			columns: run.columns,
			widths: run.widths
		}
	};
}
function chooseRun(groups, options) {
	const before = options.before?.aspects;
	const kept = before === void 0 ? void 0 : new LayoutRun(groups, options, before);
	const hasBoxes = groups.some((group) => group.label !== "");
	if (kept !== void 0 && !hasBoxes) return kept;
	let best;
	for (const leaf of LEAF_ASPECTS) for (const inner of INNER_ASPECTS) {
		const run = new LayoutRun(groups, options, {
			leaf,
			inner
		});
		if (best === void 0 || run.cost < best.cost - 1e-9) best = run;
	}
	if (kept !== void 0 && (best === void 0 || kept.cost <= best.cost * 1.25)) return kept;
	return best;
}
function gridOf(layout, position) {
	let [low, high] = [0, layout.grids.length - 1];
	while (low <= high) {
		const middle = low + high >> 1;
		const grid = layout.grids[middle];
		if (position < grid.first) high = middle - 1;
		else if (position >= grid.first + grid.count) low = middle + 1;
		else return grid;
	}
}
function tileOf(layout, position) {
	const grid = gridOf(layout, position);
	return grid === void 0 ? void 0 : tileIn(grid, position - grid.first);
}
function tileIn(grid, index) {
	return {
		x: grid.x + index % grid.columns * (TILE.width + 4),
		y: grid.y + Math.floor(index / grid.columns) * (TILE.height + 4),
		...TILE
	};
}
var LayoutRun = class {
	boxes = [];
	grids = [];
	columns = new Map();
	widths = new Map();
	aspects;
	size;
	cost;
	#options;
	constructor(groups, options, aspects) {
		this.#options = options;
		this.aspects = aspects;
		const bare = groups.length === 1 && groups[0]?.label === "" ? groups[0] : void 0;
		this.size = bare === void 0 ? this.#placeAll(groups) : this.#placeBare(bare);
		this.cost = shapeCost(this.size, options.aspect);
	}
	#placeBare(group) {
		const grid = this.#measureGrid(group.key, group.count, this.#options.aspect);
		if (group.count > 0) this.grids.push({
			...grid,
			x: 0,
			y: 0,
			first: group.first,
			count: group.count
		});
		return {
			width: grid.width,
			height: grid.height
		};
	}
	#placeAll(groups) {
		const gap = this.#options.header / 2;
		const measured = groups.map((group) => this.#measure(group));
		const placed = this.#flow("", measured, gap, this.#options.aspect);
		measured.forEach((child, index) => this.#place(child, placed.places[index] ?? {
			x: 0,
			y: 0
		}));
		return {
			width: placed.width,
			height: placed.height
		};
	}
	#measure(group) {
		const children = group.children.map((child) => this.#measure(child));
		const levels = levelsBelow(group);
		const header = headerOf(this.#options.header, group.depth, levels);
		const padding = levels === 0 ? 3 : Math.max(Math.min(this.#options.header / 6, 10), 4);
		const aspect = levels === 0 ? this.aspects.leaf : this.aspects.inner;
		const grid = this.#measureGrid(group.key, group.direct, aspect);
		const placed = this.#flow(`${group.key}/`, children, Math.max(padding, 6), this.aspects.inner);
		const between = group.direct > 0 && children.length > 0 ? padding : 0;
		return {
			group,
			header,
			padding,
			columns: grid.columns,
			grid,
			children,
			flow: placed,
			width: Math.max(grid.width, placed.width) + 2 * padding,
			height: header + grid.height + between + placed.height + padding
		};
	}
	#measureGrid(key, count, aspect) {
		if (count === 0) return {
			width: 0,
			height: 0,
			columns: 1
		};
		const pitch = {
			width: TILE.width + 4,
			height: TILE.height + 4
		};
		const columns = chooseColumns(count, pitch, aspect, this.#options.before?.columns.get(key));
		this.columns.set(key, columns);
		const rows = Math.ceil(count / columns);
		return {
			columns,
			width: Math.min(columns, count) * pitch.width - 4,
			height: rows * pitch.height - 4
		};
	}
	#flow(key, children, gap, aspect) {
		if (children.length === 0) return {
			places: [],
			width: 0,
			height: 0
		};
		const width = chooseWidth(children, gap, aspect, this.#options.before?.widths.get(key));
		this.widths.set(key, width);
		return flow(children, width, gap);
	}
	#place(measured, at) {
		const { group, header, padding, width, height, grid, columns } = measured;
		const { key, label, level, depth, first, count } = group;
		this.boxes.push({
			key,
			label,
			level,
			depth,
			first,
			count,
			header,
			x: at.x,
			y: at.y,
			width,
			height
		});
		const left = at.x + padding;
		let top = at.y + header;
		if (group.direct > 0) {
			this.grids.push({
				x: left,
				y: top,
				width: grid.width,
				height: grid.height,
				first,
				count: group.direct,
				columns
			});
			top += grid.height + padding;
		}
		measured.children.forEach((child, index) => {
			const place = measured.flow.places[index] ?? {
				x: 0,
				y: 0
			};
			this.#place(child, {
				x: left + place.x,
				y: top + place.y
			});
		});
	}
};
function headerOf(outermost, depth, levelsBelow) {
	if (depth === 0) return outermost;
	return levelsBelow === 0 ? Math.min(outermost, 10) : Math.min(outermost, Math.max(outermost / 3, 14));
}
function levelsBelow(group) {
	return group.children.reduce((most, child) => Math.max(most, 1 + levelsBelow(child)), 0);
}
// src/draw/layout/walk.ts
function walk(layout, position, direction) {
	switch (direction) {
		case "left": return Math.max(position - 1, 0);
		case "right": return Math.min(position + 1, layout.names.length - 1);
		case "up":
		case "down": return walkVertically(layout, position, direction === "up" ? -1 : 1);
	}
}
function walkGrid(layout, position, step) {
	const grid = gridOf(layout, position);
	const index = grid === void 0 ? -1 : layout.grids.indexOf(grid);
	return layout.grids[index + step]?.first ?? (step < 0 ? 0 : layout.names.length - 1);
}
function walkVertically(layout, position, sign) {
	const grid = gridOf(layout, position);
	const from = tileOf(layout, position);
	if (grid === void 0 || from === void 0) return position;
	const inside = position + sign * grid.columns;
	if (inside >= grid.first && inside < grid.first + grid.count) return inside;
	return nearestBeyond(layout, from, sign) ?? position;
}
function nearestBeyond(layout, from, sign) {
	let best;
	let least = Number.POSITIVE_INFINITY;
	for (const grid of layout.grids) {
		if (!(sign > 0 ? grid.y + grid.height > from.y + from.height : grid.y < from.y)) continue;
		for (let index = 0; index < grid.count; index += 1) {
			const position = grid.first + index;
			const tile = tileOf(layout, position);
			const down = (tile.y - from.y) * sign;
			if (down <= 0) continue;
			const distance = down + 3 * Math.abs(tile.x - from.x);
			if (distance < least) [best, least] = [position, distance];
		}
	}
	return best;
}
// src/draw/map/camera.ts
var GLIDE_MS = 160;
var Camera = class {
	#map = {
		width: 1,
		height: 1
	};
	#window = {
		width: 1,
		height: 1
	};
	#view = {
		scale: 1,
		x: 0,
		y: 0
	};
	#glide;
	#isFitted = true;
	get view() {
		return this.#view;
	}
	get target() {
		return this.#glide?.to ?? this.#view;
	}
	get isGliding() {
		return this.#glide !== void 0;
	}
	setSizes(map, window) {
		const written = this.#isFitted ? void 0 : writeView(this.#view, this.#map, this.#window);
		[this.#map, this.#window, this.#glide] = [
			map,
			window,
			void 0
		];
		this.#view = readView(written, map, window) ?? fitView(map, window);
	}
	read(text) {
		const view = readView(text, this.#map, this.#window);
		this.#isFitted = view === void 0;
		this.#glide = void 0;
		this.#view = view ?? fitView(this.#map, this.#window);
	}
	write() {
		return this.#isFitted ? void 0 : writeView(this.target, this.#map, this.#window);
	}
	pan(dx, dy) {
		this.#jump(panBy(this.#view, dx, dy));
	}
	zoom(at, factor) {
		this.#jump(zoomAt(this.#view, at, factor, zoomLimits(this.#map, this.#window)));
	}
	glideZoom(at, factor, now) {
		this.#go(zoomAt(this.target, at, factor, zoomLimits(this.#map, this.#window)), now);
	}
	glideFit(now) {
		this.#go(fitView(this.#map, this.#window), now);
		this.#isFitted = true;
	}
	glideTo(rect, mostScale, now) {
		const scale = Math.min(fitView(rect, this.#window).scale, mostScale);
		const x = this.#window.width / 2 - (rect.x + rect.width / 2) * scale;
		const y = this.#window.height / 2 - (rect.y + rect.height / 2) * scale;
		this.#go({
			scale,
			x,
			y
		}, now);
	}
	reveal(rect, now) {
		const view = reveal(this.target, rect, this.#window);
		if (view !== this.target) this.#go(view, now);
	}
	advance(now) {
		const glide = this.#glide;
		if (glide === void 0) return;
		const part = Math.min(Math.max((now - glide.start) / GLIDE_MS, 0), 1);
		if (part === 1) this.#glide = void 0;
		this.#view = part === 1 ? glide.to : between(glide.from, glide.to, 1 - (1 - part) ** 3);
	}
	#jump(view) {
		this.#glide = void 0;
		this.#isFitted = false;
		this.#view = clampView(view, this.#map, this.#window);
	}
	#go(view, now) {
		this.#isFitted = false;
		const to = clampView(view, this.#map, this.#window);
		if (now === void 0) this.#jump(to);
		else this.#glide = {
			from: this.#view,
			to,
			start: now
		};
	}
};
// src/draw/base/geometry.ts
function contains(rect, at) {
	return at.x >= rect.x && at.x < rect.x + rect.width && at.y >= rect.y && at.y < rect.y + rect.height;
}
function overlaps(a, b) {
	return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
// src/draw/layout/hit.ts
function nodeAt(layout, at) {
	const grid = layout.grids.find((candidate) => contains(candidate, at));
	if (grid === void 0) return void 0;
	const index = indexIn(grid, at);
	return index === void 0 ? void 0 : grid.first + index;
}
function visitNodesIn(layout, area, visit) {
	for (const grid of layout.grids) if (overlaps(grid, area)) visitTilesIn(grid, area, visit);
}
function cellAt(node, at, tile, columns) {
	const rows = cellRows(node);
	const parts = tileParts(tile.width, tile.height, Math.max(rows.length, 1));
	for (const [index, row] of rows.entries()) {
		const rect = rowRect(parts, index, rows.length);
		if (!contains(rect, at)) continue;
		const run = runAt(row, Math.floor((at.x - rect.x) / rect.width * Math.max(columns, row.cells)));
		return run === void 0 ? void 0 : {
			row,
			run
		};
	}
}
function indexIn(grid, at) {
	const column = Math.floor((at.x - grid.x) / (TILE.width + 4));
	const index = Math.floor((at.y - grid.y) / (TILE.height + 4)) * grid.columns + column;
	return index < grid.count && contains(tileIn(grid, index), at) ? index : void 0;
}
function visitTilesIn(grid, area, visit) {
	const pitch = {
		x: TILE.width + 4,
		y: TILE.height + 4
	};
	const rows = Math.ceil(grid.count / grid.columns);
	const firstRow = Math.max(Math.floor((area.y - grid.y) / pitch.y), 0);
	const lastRow = Math.min(Math.floor((area.y + area.height - grid.y) / pitch.y), rows - 1);
	const firstColumn = Math.max(Math.floor((area.x - grid.x) / pitch.x), 0);
	const lastColumn = Math.min(Math.floor((area.x + area.width - grid.x) / pitch.x), grid.columns - 1);
	for (let row = firstRow; row <= lastRow; row += 1) for (let column = firstColumn; column <= lastColumn; column += 1) {
		const index = row * grid.columns + column;
		if (index < grid.count) visit(grid.first + index, tileIn(grid, index));
	}
}
// src/draw/base/fit-text.ts
var ELLIPSIS = "…";
var MAX_CHARACTERS = 200;
var MAX_WIDTHS = 2e4;
var widths = new Map();
function fitText(context, raw, width, kept) {
	const text = cleanLine(kept === "start" ? raw.slice(0, MAX_CHARACTERS) : raw.slice(-200));
	const whole = widthOf(context, text);
	if (whole <= width) return text;
	let length = Math.floor(text.length * width / whole);
	while (length > 0) {
		const cut = kept === "start" ? text.slice(0, length) + ELLIPSIS : ELLIPSIS + text.slice(text.length - length);
		if (widthOf(context, cut) <= width) return cut;
		length -= 1;
	}
	return "";
}
function widthOf(context, text) {
	const key = `${context.font}\n${text}`;
	const known = widths.get(key);
	if (known !== void 0) return known;
	if (widths.size > MAX_WIDTHS) widths.clear();
	const width = context.measureText(text).width;
	widths.set(key, width);
	return width;
}
// src/draw/map/paint-boxes.ts
var LABEL = {
	least: 10,
	most: 14,
	strip: 11
};
function paintBoxes(context, brush, boxes, view, area) {
	const visible = boxes.filter((box) => overlaps(box, area));
	for (const box of visible) fillBox(context, brush, box, view);
	for (const box of visible) drawLabel(context, brush, box, view);
}
function deviceRect$1(rect, view) {
	const from = toWindow(view, rect);
	const to = toWindow(view, {
		x: rect.x + rect.width,
		y: rect.y + rect.height
	});
	const [x, y] = [Math.round(from.x), Math.round(from.y)];
	return {
		x,
		y,
		width: Math.max(Math.round(to.x) - x, 1),
		height: Math.max(Math.round(to.y) - y, 1)
	};
}
function fillBox(context, brush, box, view) {
	const { theme } = brush;
	const rect = deviceRect$1(box, view);
	const edge = Math.max(Math.round(brush.ratio), 1);
	context.fillStyle = theme.boxLine;
	context.fillRect(rect.x, rect.y, rect.width, rect.height);
	context.fillStyle = theme.boxes[Math.min(box.depth, theme.boxes.length - 1)] ?? theme.ground;
	context.fillRect(rect.x + edge, rect.y + edge, rect.width - 2 * edge, rect.height - 2 * edge);
}
function drawLabel(context, brush, box, view) {
	const strip = box.header * view.scale / brush.ratio;
	if (strip < LABEL.strip || box.label === "") return;
	const size = Math.min(Math.max(strip * .72, LABEL.least), LABEL.most);
	const rect = deviceRect$1(box, view);
	const left = rect.x + Math.round(Math.min(6, 2 + strip / 6) * brush.ratio);
	const width = rect.width - 2 * (left - rect.x);
	context.font = `600 ${Math.round(size * brush.ratio)}px ${brush.theme.font}`;
	context.textBaseline = "middle";
	context.fillStyle = box.depth === 0 ? brush.theme.ink : brush.theme.faint;
	const text = fitText(context, box.label, width, "end");
	context.fillText(text, left, rect.y + Math.round(box.header * view.scale / 2));
}
// src/draw/map/paint-node.ts
function paintNode(node, tile, paint) {
	const { ratio } = paint.brush;
	const rows = cellRows(node);
	const parts = tileParts(tile.width / ratio, tile.height / ratio, Math.max(rows.length, 1));
	const frame = frameOf$1(node, parts, paint);
	addFrame(paint, tile, frame);
	const inset = parts.detail === "bar" ? frame.width : 0;
	rows.forEach((row, index) => {
		addRow(paint, row, deviceRect(rowRect(parts, index, rows.length), tile, ratio, inset), parts);
	});
	if (!node.schedulable && (parts.detail === "bar" || parts.detail === "cells")) addCross(paint, tile);
	if (paint.fit === "off" && paint.gang === void 0) addVeil(paint, tile);
}
function frameOf$1(node, parts, paint) {
	const { theme, ratio } = paint.brush;
	const thin = Math.max(Math.round(ratio), 1);
	const thick = Math.max(Math.round((parts.detail === "bar" ? 1.5 : 2) * ratio), 1);
	if (paint.fit === "fits" || paint.fit === "short") return {
		colour: theme.fits,
		width: thick
	};
	if (!node.schedulable) return {
		colour: theme.bad,
		width: thin
	};
	if (isPartlyFree(node)) return {
		colour: theme.partly,
		width: thick
	};
	return {
		colour: theme.line,
		width: thin
	};
}
function addFrame(paint, tile, frame) {
	const { batch, brush } = paint;
	if (frame.colour !== void 0) batch.add("frame", frame.colour, tile.x, tile.y, tile.width, tile.height);
	const { width } = frame;
	batch.add("tile", brush.theme.tile, tile.x + width, tile.y + width, tile.width - 2 * width, tile.height - 2 * width);
	if (paint.fit !== "short") return;
	const dash = Math.max(Math.round(tile.width / 9), 2);
	for (let x = tile.x + dash; x < tile.x + tile.width - dash; x += 2 * dash) batch.add("tile", brush.theme.tile, x, tile.y, dash, tile.height);
}
function addRow(paint, row, rect, parts) {
	const columns = Math.max(paint.columns, row.cells);
	const full = parts.detail === "bar" ? row.cells : columns;
	let before;
	for (const run of row.runs) {
		const fill = fillOf(run, paint.look, paint.brush.theme);
		const isDimmed = paint.gang !== void 0 && (run.gang === void 0 || !paint.gang.has(run.gang));
		if (!isDimmed) addRun(paint.batch, paint.brush, run, fill, rect, full);
		if (!isDimmed && fill !== void 0 && fill === before) addDivider(paint, rect, run.first, full);
		before = fill;
	}
	for (const bracket of row.brackets) if (paint.gang === void 0 || paint.gang.has(bracket.gang)) addBracket(paint, bracket, rect, full);
}
function addDivider(paint, row, cell, columns) {
	const width = Math.max(Math.round(paint.brush.ratio), 1);
	const x = Math.round(row.x + row.width * cell / columns) - width;
	const extra = row.width / columns < 4 * width ? 0 : width;
	paint.batch.add("mark", paint.brush.theme.tile, x - extra, row.y, width + 2 * extra, row.height);
	if (extra > 0) paint.batch.add("mark", paint.brush.theme.ink, x, row.y, width, row.height);
}
function addBracket(paint, bracket, row, columns) {
	const { batch, brush } = paint;
	const thick = Math.max(Math.round(Math.min(2, row.height / brush.ratio / 4) * brush.ratio), 1);
	const left = Math.round(row.x + row.width * bracket.first / columns);
	const right = Math.round(row.x + row.width * (bracket.first + bracket.cells) / columns) - 1;
	const bottom = row.y + row.height;
	const height = Math.min(Math.round(row.height * .45), Math.round(9 * brush.ratio));
	const rects = [
		{
			x: left,
			y: bottom - thick,
			width: right - left,
			height: thick
		},
		{
			x: left,
			y: bottom - height,
			width: thick,
			height
		},
		{
			x: right - thick,
			y: bottom - height,
			width: thick,
			height
		}
	];
	const halo = Math.max(Math.ceil(thick / 2), 1);
	for (const rect of rects) {
		const top = Math.max(rect.y - halo, row.y);
		batch.add("halo", brush.theme.tile, rect.x - (rect.x > left ? halo : 0), top, rect.width + halo, rect.y + rect.height - top);
	}
	for (const rect of rects) batch.add("mark", brush.theme.reserved, rect.x, rect.y, rect.width, rect.height);
}
function addCross(paint, tile) {
	const { batch, brush } = paint;
	const thick = Math.max(Math.round(1.25 * brush.ratio), 1);
	const halo = tile.height > 10 * brush.ratio ? thick : 0;
	const steps = Math.max(Math.round(tile.height / thick), 1);
	const width = Math.max(Math.ceil(tile.width / steps), thick);
	const end = tile.x + tile.width;
	for (let step = 0; step < steps; step += 1) {
		const y = tile.y + step * thick;
		const height = Math.min(thick, tile.y + tile.height - y);
		const shift = Math.min(Math.round((tile.width - width) * step / Math.max(steps - 1, 1)), tile.width - width);
		for (const x of [tile.x + shift, end - width - shift]) {
			const left = Math.max(x - halo, tile.x);
			if (halo > 0) batch.add("halo", brush.theme.tile, left, y, Math.min(x + width + halo, end) - left, height);
			batch.add("mark", brush.theme.bad, x, y, width, height);
		}
	}
}
function addVeil(paint, tile) {
	paint.batch.add("veil", paint.brush.theme.veil, tile.x, tile.y, tile.width, tile.height);
}
function deviceRect(rect, tile, ratio, inset) {
	const x = tile.x + Math.round(rect.x * ratio) + inset;
	const y = tile.y + Math.round(rect.y * ratio) + inset;
	const right = tile.x + Math.round((rect.x + rect.width) * ratio) - inset;
	const bottom = tile.y + Math.round((rect.y + rect.height) * ratio) - inset;
	return {
		x,
		y,
		width: Math.max(right - x, 1),
		height: Math.max(bottom - y, 1)
	};
}
// src/draw/map/paint-text.ts
var SWATCH = 8;
function paintText(node, tile, paint) {
	const { ratio } = paint.brush;
	const rows = cellRows(node);
	const parts = tileParts(tile.width / ratio, tile.height / ratio, Math.max(rows.length, 1));
	if (parts.name === 0) return;
	const place = {
		left: tile.x + Math.round(parts.cells.x * ratio),
		width: parts.cells.width * ratio,
		size: parts.textSize * ratio
	};
	paintName(node, paint, place, tile.y + parts.name * ratio / 2 + ratio);
	if (rows.length === 0) paintLine(paint, {
		text: "no devices",
		run: void 0
	}, place, tile.y + (parts.cells.y + 8) * ratio);
	cutLines(parts.lines === 0 ? [] : linesOf(node, paint), parts.lines).forEach((line, index) => {
		paintLine(paint, line, place, tile.y + (parts.linesTop + (index + .5) * parts.lineHeight) * ratio);
	});
}
function paintName(node, paint, place, middle) {
	const { context, brush } = paint;
	const { left, width, size } = place;
	context.font = `600 ${size}px ${brush.theme.font}`;
	context.textBaseline = "middle";
	const word = statusWord(node, paint);
	const name = word?.isBad === true ? `× ${nodeName(node)}` : nodeName(node);
	const wordWidth = word === void 0 ? 0 : widthOf(context, word.text) + 6 * brush.ratio;
	const hasRoom = word !== void 0 && widthOf(context, name) + wordWidth <= width;
	context.fillStyle = word?.isBad === true ? brush.theme.bad : brush.theme.ink;
	context.fillText(fitText(context, name, width, word?.isBad === true ? "start" : "end"), left, middle);
	if (!hasRoom || word === void 0) return;
	context.fillStyle = word.isBad ? brush.theme.bad : brush.theme.faint;
	context.font = `${size}px ${brush.theme.font}`;
	context.fillText(word.text, left + width - widthOf(context, word.text), middle);
}
function statusWord(node, paint) {
	if (!node.schedulable) return {
		text: stateWord(node),
		isBad: true
	};
	if (paint.fit !== void 0) return {
		text: paint.fit.brief,
		isBad: false
	};
	const first = cellRows(node)[0];
	return first === void 0 ? void 0 : {
		text: `${first.counts.free}/${first.counts.total}`,
		isBad: false
	};
}
function linesOf(node, paint) {
	const plain = (text) => ({
		text,
		run: void 0
	});
	const others = node.otherPods === 1 ? "1 other pod" : `${node.otherPods} other pods`;
	const held = cellRows(node).map((row) => row.counts.others).filter((count) => count > 0);
	return [
		...paint.fit?.kind === "short" || paint.fit?.kind === "off" && node.schedulable ? [plain(paint.fit.why)] : [],
		...node.schedulable ? [] : (node.reasons ?? []).map((reason) => plain(reason.message)),
		...(node.jobs ?? []).map((hold) => holdLine(hold, stateOf(hold))),
		...held.length > 0 ? [{
			text: `${held.join("+")} ${others}`,
			run: sampleRun("other", void 0)
		}] : [],
		...(node.keptFor ?? []).map((hold) => holdLine(hold, "kept")),
		...(node.reservedFor ?? []).map((hold) => plain(`reserved: ${gangTitle(hold)}${startText(hold, paint.now)}`))
	];
}
function holdLine(hold, state) {
	const devices = (hold.devices ?? []).map((entry) => entry.amount).join("+");
	const suffix = state === "running" ? "" : ` (${state})`;
	if (devices === "") return {
		text: `${gangTitle(hold)}${suffix}, no devices`,
		run: void 0
	};
	return {
		text: `${devices} ${gangTitle(hold)}${suffix}`,
		run: sampleRun(state, gangKey(hold))
	};
}
function sampleRun(state, gang) {
	return {
		state,
		gang,
		first: 0,
		cells: 1,
		devices: 1
	};
}
function cutLines(lines, room) {
	const [first] = lines;
	if (lines.length <= room || first === void 0) return lines;
	if (room === 1) return [{
		text: `+${lines.length - 1}: ${first.text}`,
		run: first.run
	}];
	return [...lines.slice(0, room - 1), {
		text: `${lines.length - room + 1} more`,
		run: void 0
	}];
}
function paintLine(paint, line, place, middle) {
	const { context, brush } = paint;
	const size = Math.round(SWATCH * brush.ratio);
	const indent = line.run === void 0 ? 0 : size + Math.round(4 * brush.ratio);
	if (line.run !== void 0) paintSwatch(paint, line.run, place.left, Math.round(middle - size / 2), size);
	context.font = `${place.size}px ${brush.theme.font}`;
	context.textBaseline = "middle";
	context.fillStyle = line.run === void 0 ? brush.theme.faint : brush.theme.ink;
	context.fillText(fitText(context, line.text, place.width - indent, "start"), place.left + indent, middle);
}
function paintSwatch(paint, run, x, y, size) {
	const { context, brush } = paint;
	context.fillStyle = fillOf(run, paint.look, brush.theme) ?? brush.theme.tile;
	context.fillRect(x, y, size, size);
	const pattern = STATE_PATTERNS[run.state];
	if (pattern === void 0) return;
	context.fillStyle = brush.patterns[pattern];
	context.fillRect(x + 1, y + 1, size - 2, size - 2);
}
// src/draw/map/layer.ts
var FAST_NODES = 300;
var MOST_STRETCH = 1.7;
var MapLayer = class {
	#batch = new RectBatch();
	#front;
	#back;
	#overview;
	#view;
	#nodes = 0;
	#width = 0;
	#height = 0;
	clear() {
		this.#view = void 0;
		this.#overview = void 0;
	}
	canStretch(view, width, height) {
		if (this.#view === void 0 || width !== this.#width || height !== this.#height || this.#nodes <= FAST_NODES) return false;
		const stretch = view.scale / this.#view.scale;
		return stretch !== 1 && stretch < MOST_STRETCH && stretch > 1 / MOST_STRETCH;
	}
	copyTo(context, brush, view) {
		const [front, drawn] = [this.#front, this.#view];
		if (front === void 0 || drawn === void 0) return;
		if (drawn.scale === view.scale) {
			context.drawImage(front.canvas, view.x - drawn.x, view.y - drawn.y);
			return;
		}
		context.fillStyle = brush.theme.ground;
		context.fillRect(0, 0, this.#width, this.#height);
		if (this.#overview !== void 0 && view.scale < drawn.scale) stretch(context, this.#overview.canvas, this.#overview.view, view);
		stretch(context, front.canvas, drawn, view);
	}
	update(scene, brush, view, width, height, changed) {
		if (width !== this.#width || height !== this.#height || this.#front === void 0) this.#resize(width, height);
		const before = this.#view;
		this.#view = view;
		anchorPatterns(brush.patterns, view.x, view.y);
		if (before === void 0 || before.scale !== view.scale || !this.#move(scene, brush, view, before)) {
			this.#nodes = this.#paint(scene, brush, view, {
				x: 0,
				y: 0,
				width,
				height
			});
			if (this.#nodes === scene.nodes.length) this.#keepOverview(view);
			return;
		}
		this.#paintTiles(scene, brush, view, changed);
	}
	#resize(width, height) {
		[this.#width, this.#height, this.#view, this.#overview] = [
			width,
			height,
			void 0,
			void 0
		];
		this.#front = createSurface(width, height);
		this.#back = createSurface(width, height);
	}
	#move(scene, brush, view, before) {
		const [dx, dy] = [view.x - before.x, view.y - before.y];
		if (dx === 0 && dy === 0) return true;
		const [width, height] = [this.#width, this.#height];
		if (Math.abs(dx) >= width || Math.abs(dy) >= height) return false;
		const [front, back] = [this.#front, this.#back];
		back.context.drawImage(front.canvas, dx, dy);
		[this.#front, this.#back] = [back, front];
		if (dx !== 0) this.#paint(scene, brush, view, {
			x: dx > 0 ? 0 : width + dx,
			y: 0,
			width: Math.abs(dx),
			height
		});
		if (dy !== 0) this.#paint(scene, brush, view, {
			x: 0,
			y: dy > 0 ? 0 : height + dy,
			width,
			height: Math.abs(dy)
		});
		return true;
	}
	#keepOverview(view) {
		const canvas = this.#overview?.canvas ?? createSurface(this.#width, this.#height).canvas;
		canvas.getContext("2d")?.drawImage(this.#front.canvas, 0, 0);
		this.#overview = {
			canvas,
			view
		};
	}
	#paint(scene, brush, view, part) {
		const { context } = this.#front;
		context.save();
		context.beginPath();
		context.rect(part.x, part.y, part.width, part.height);
		context.clip();
		context.fillStyle = brush.theme.ground;
		context.fillRect(part.x, part.y, part.width, part.height);
		const area = {
			...toMap(view, part),
			width: part.width / view.scale,
			height: part.height / view.scale
		};
		paintBoxes(context, brush, scene.layout.boxes, view, area);
		const positions = [];
		visitNodesIn(scene.layout, area, (position) => positions.push(position));
		paintNodes(context, this.#batch, scene, brush, view, positions);
		context.restore();
		return positions.length;
	}
	#paintTiles(scene, brush, view, changed) {
		if (changed.size === 0) return;
		const visible = [...changed].filter((position) => {
			const tile = tileOf(scene.layout, position);
			if (tile === void 0) return false;
			const rect = deviceRect$1(tile, view);
			return rect.x < this.#width && rect.y < this.#height && rect.x + rect.width > 0 && rect.y + rect.height > 0;
		});
		paintNodes(this.#front.context, this.#batch, scene, brush, view, visible);
	}
};
function paintNodes(context, batch, scene, brush, view, positions) {
	const base = {
		batch,
		brush,
		look: scene.look,
		columns: scene.columns,
		gang: void 0
	};
	const text = {
		context,
		brush,
		look: scene.look,
		now: scene.now
	};
	const tiles = [];
	for (const position of positions) {
		const [tile, node] = [tileOf(scene.layout, position), scene.nodes[position]];
		if (tile === void 0 || node === void 0) continue;
		const rect = deviceRect$1(tile, view);
		paintNode(node, rect, {
			...base,
			fit: scene.fits?.[position]?.kind
		});
		tiles.push([position, rect]);
	}
	batch.flush(context);
	for (const [position, rect] of tiles) {
		const node = scene.nodes[position];
		if (node !== void 0) paintText(node, rect, {
			...text,
			fit: scene.fits?.[position]
		});
	}
}
function stretch(context, picture, drawn, view) {
	const ratio = view.scale / drawn.scale;
	context.drawImage(picture, view.x - drawn.x * ratio, view.y - drawn.y * ratio, picture.width * ratio, picture.height * ratio);
}
function createSurface(width, height) {
	const canvas = new OffscreenCanvas(Math.max(width, 1), Math.max(height, 1));
	return {
		canvas,
		context: canvas.getContext("2d", { alpha: false })
	};
}
// src/draw/map/map.ts
var VEIL = .82;
var ClusterMap = class {
	#canvas;
	#context;
	#layer = new MapLayer();
	#batch = new RectBatch();
	#changed = new Set();
	#brush;
	#scene;
	#byGang = new Map();
	#view = {
		scale: 1,
		x: 0,
		y: 0
	};
	#window = {
		width: 1,
		height: 1
	};
	#ratio = 1;
	#focus;
	#gangs;
	#isZooming = false;
	#stale = true;
	constructor(canvas) {
		this.#canvas = canvas;
		this.#context = canvas.getContext("2d", { alpha: false });
	}
	get isStale() {
		return this.#stale;
	}
	resize(window, ratio) {
		if (window.width === this.#window.width && window.height === this.#window.height && ratio === this.#ratio) return;
		const sameRatio = ratio === this.#ratio;
		[this.#window, this.#ratio, this.#stale] = [
			window,
			ratio,
			true
		];
		this.#canvas.width = Math.max(Math.round(window.width * ratio), 1);
		this.#canvas.height = Math.max(Math.round(window.height * ratio), 1);
		if (!sameRatio && this.#brush !== void 0) this.setTheme(this.#brush.theme);
	}
	setTheme(theme) {
		this.#brush = {
			theme,
			ratio: this.#ratio,
			patterns: buildPatterns(this.#context, theme, this.#ratio)
		};
		this.#layer.clear();
		this.#stale = true;
	}
	setScene(scene) {
		const before = this.#scene;
		if (before === scene) return;
		this.#scene = scene;
		if (before?.nodes !== scene.nodes) this.#byGang = nodesByGang(scene.nodes);
		if (before === void 0 || !hasSameGround(before, scene)) {
			this.#changed.clear();
			this.#layer.clear();
			this.#stale = true;
			return;
		}
		for (const position of changedTiles(before, scene)) this.#changed.add(position);
		if (this.#changed.size > 0) this.#stale = true;
	}
	setView(view) {
		this.#view = view;
		this.#stale = true;
	}
	setZooming(isZooming) {
		if (this.#isZooming && !isZooming) this.#stale = true;
		this.#isZooming = isZooming;
	}
	setFocus(position) {
		if (position === this.#focus) return;
		this.#focus = position;
		this.#stale = true;
	}
	setGangs(gangs) {
		if (gangs === this.#gangs) return;
		this.#gangs = gangs;
		this.#stale = true;
	}
	hit(at) {
		const scene = this.#scene;
		if (scene === void 0) return void 0;
		const point = toMap(this.#view, at);
		const position = nodeAt(scene.layout, point);
		const node = position === void 0 ? void 0 : scene.nodes[position];
		const tile = position === void 0 ? void 0 : tileOf(scene.layout, position);
		if (position === void 0 || node === void 0 || tile === void 0) return void 0;
		const { scale } = this.#view;
		return {
			position,
			cell: cellAt(node, {
				x: (point.x - tile.x) * scale,
				y: (point.y - tile.y) * scale
			}, {
				width: TILE.width * scale,
				height: TILE.height * scale
			}, scene.columns)
		};
	}
	windowTile(position) {
		const tile = this.#scene === void 0 ? void 0 : tileOf(this.#scene.layout, position);
		if (tile === void 0) return void 0;
		const { scale, x, y } = this.#view;
		return {
			x: tile.x * scale + x,
			y: tile.y * scale + y,
			width: tile.width * scale,
			height: tile.height * scale
		};
	}
	draw() {
		this.#stale = false;
		const [scene, brush] = [this.#scene, this.#brush];
		if (scene === void 0 || brush === void 0) return;
		const view = this.#deviceView();
		const { width, height } = this.#canvas;
		if (!this.#isZooming || !this.#layer.canStretch(view, width, height)) {
			this.#layer.update(scene, brush, view, width, height, this.#changed);
			this.#changed.clear();
		}
		this.#layer.copyTo(this.#context, brush, view);
		if (this.#gangs !== void 0) this.#drawGangs(scene, brush, view, this.#gangs);
		if (this.#focus !== void 0) this.#drawFocus(scene, brush, view, this.#focus);
	}
	#deviceView() {
		const { scale, x, y } = this.#view;
		return {
			scale: scale * this.#ratio,
			x: Math.round(x * this.#ratio),
			y: Math.round(y * this.#ratio)
		};
	}
	#drawGangs(scene, brush, view, gangs) {
		const context = this.#context;
		context.globalAlpha = VEIL;
		context.fillStyle = brush.theme.ground;
		context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
		context.globalAlpha = 1;
		const paint = {
			batch: this.#batch,
			brush,
			look: scene.look,
			columns: scene.columns,
			fit: void 0,
			gang: gangs
		};
		for (const position of new Set([...gangs].flatMap((gang) => this.#byGang.get(gang) ?? []))) {
			const [tile, node] = [tileOf(scene.layout, position), scene.nodes[position]];
			if (tile !== void 0 && node !== void 0) paintNode(node, deviceRect$1(tile, view), paint);
		}
		this.#batch.flush(context);
	}
	#drawFocus(scene, brush, view, position) {
		const tile = tileOf(scene.layout, position);
		if (tile === void 0) return;
		const rect = deviceRect$1(tile, view);
		const context = this.#context;
		const ring = (width, distance, colour) => {
			context.lineWidth = width * brush.ratio;
			context.strokeStyle = colour;
			const d = distance * brush.ratio;
			context.strokeRect(rect.x - d, rect.y - d, rect.width + 2 * d, rect.height + 2 * d);
		};
		ring(5, 2, brush.theme.ground);
		ring(2.5, 2, brush.theme.focus);
	}
};
// src/views/nodes/map-controller.ts
var DWELL_MS = 140;
var SETTLE_MS$1 = 350;
var SHARPEN_MS = 90;
var SHOWN_SCALE = 3;
var DIRECTIONS = {
	ArrowLeft: "left",
	ArrowRight: "right",
	ArrowUp: "up",
	ArrowDown: "down"
};
var MapController = class {
	pointed = y(void 0);
	scene = y(void 0);
	#map;
	#camera = new Camera();
	#frames = new FramePlanner((time) => this.#frame(time));
	#stopGestures;
	#scene;
	#window = {
		width: 1,
		height: 1
	};
	#isPlaced = false;
	#focus;
	#dwell;
	#settle;
	#sharpen;
	constructor(canvas) {
		this.#map = new ClusterMap(canvas);
		this.#stopGestures = listenToGestures(canvas, {
			pan: (dx, dy) => this.#moved(() => this.#camera.pan(dx, dy)),
			zoom: (at, factor) => this.#moved(() => this.#camera.zoom(at, factor)),
			wheel: (event, at) => this.#wheel(event, at),
			point: (at) => this.#point(at),
			click: (at) => this.#click(at),
			doubleClick: (at) => this.#moved(() => this.#camera.glideZoom(at, ZOOM_STEP * ZOOM_STEP, this.#glideStart()))
		});
	}
	stop() {
		this.#stopGestures();
		this.#frames.cancel();
		clearTimeout(this.#dwell);
		clearTimeout(this.#settle);
		clearTimeout(this.#sharpen);
	}
	resize(window, ratio) {
		this.#window = window;
		this.#map.resize(window, ratio);
		if (this.#scene !== void 0) this.#camera.setSizes(this.#scene.layout, window);
		this.#refresh();
	}
	setTheme(theme) {
		this.#map.setTheme(theme);
		this.#frames.plan();
	}
	setScene(scene) {
		const isNewLayout = this.#scene?.layout !== scene.layout;
		const focused = this.#focus === void 0 ? void 0 : this.#scene?.layout.names[this.#focus];
		this.#scene = scene;
		this.scene.value = scene;
		this.#map.setScene(scene);
		if (isNewLayout) {
			this.#camera.setSizes(scene.layout, this.#window);
			if (!this.#isPlaced) this.#camera.read(query.peek().get("zoom") ?? void 0);
			this.#setFocus(positionOf(scene, focused ?? query.peek().get("at") ?? void 0));
			if (!this.#isPlaced) this.#revealFocus();
			this.#isPlaced = true;
		}
		this.#refresh();
	}
	followUrl(at, zoom) {
		if (this.#scene === void 0 || this.#settle !== void 0) return;
		if (zoom !== this.#camera.write()) this.#camera.read(zoom);
		const position = positionOf(this.#scene, at);
		if (position !== this.#focus) this.#setFocus(position);
		this.#refresh();
	}
	light(gangs) {
		this.#map.setGangs(gangs);
		this.#frames.plan();
	}
	zoom(factor) {
		const middle = {
			x: this.#window.width / 2,
			y: this.#window.height / 2
		};
		this.#moved(() => this.#camera.glideZoom(this.#focusPoint() ?? middle, factor, this.#glideStart()));
	}
	fit() {
		this.#moved(() => this.#camera.glideFit(this.#glideStart()));
	}
	show(positions) {
		const tiles = positions.map((position) => this.#tile(position)).filter((tile) => tile !== void 0);
		if (tiles.length === 0) return;
		const x = Math.min(...tiles.map((tile) => tile.x));
		const y = Math.min(...tiles.map((tile) => tile.y));
		const right = Math.max(...tiles.map((tile) => tile.x + tile.width));
		const bottom = Math.max(...tiles.map((tile) => tile.y + tile.height));
		this.#moved(() => this.#camera.glideTo({
			x,
			y,
			width: right - x,
			height: bottom - y
		}, SHOWN_SCALE, this.#glideStart()));
	}
	key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || this.#scene === void 0) return false;
		const last = this.#scene.layout.names.length - 1;
		const from = this.#focus ?? 0;
		const direction = DIRECTIONS[event.key];
		if (direction !== void 0 && event.shiftKey) return this.#panByKey(direction);
		if (direction !== void 0) return this.#walkTo(this.#focus === void 0 ? this.#firstVisible() : walk(this.#scene.layout, from, direction));
		switch (event.key) {
			case "Home": return this.#walkTo(0);
			case "End": return this.#walkTo(last);
			case "PageDown": return this.#walkTo(walkGrid(this.#scene.layout, from, 1));
			case "PageUp": return this.#walkTo(walkGrid(this.#scene.layout, from, -1));
			case "Enter": return this.#open();
			case " ": return this.#chooseNextGang();
			case "Escape": return this.#clear();
			default: return false;
		}
	}
	blur() {
		if (this.pointed.peek()?.by === "keyboard") this.pointed.value = void 0;
		this.light(litGangs.peek());
	}
	#moved(move) {
		const { scale } = this.#camera.view;
		move();
		if (this.#camera.view.scale !== scale || this.#camera.isGliding) this.#planSharpening();
		this.#planUrl();
		this.#refresh();
	}
	#planSharpening() {
		this.#map.setZooming(true);
		clearTimeout(this.#sharpen);
		this.#sharpen = setTimeout(() => {
			if (this.#camera.isGliding) return this.#planSharpening();
			this.#map.setZooming(false);
			this.#frames.plan();
		}, SHARPEN_MS);
	}
	#planUrl() {
		clearTimeout(this.#settle);
		this.#settle = setTimeout(() => this.#writeUrl(), SETTLE_MS$1);
	}
	#writeUrl() {
		clearTimeout(this.#settle);
		this.#settle = void 0;
		setQuery({
			zoom: this.#camera.write(),
			at: this.#focus === void 0 ? void 0 : this.#scene?.layout.names[this.#focus]
		});
	}
	#refresh() {
		this.#map.setView(this.#camera.view);
		const pointed = this.pointed.peek();
		const tile = pointed === void 0 ? void 0 : this.#map.windowTile(pointed.hit.position);
		if (pointed !== void 0) this.pointed.value = tile === void 0 ? void 0 : {
			...pointed,
			tile
		};
		this.#frames.plan();
	}
	#frame(time) {
		if (this.#camera.isGliding) {
			this.#camera.advance(time);
			this.#refresh();
		}
		if (this.#map.isStale) this.#map.draw();
	}
	#glideStart() {
		return matchMedia("(prefers-reduced-motion: reduce)").matches ? void 0 : performance.now();
	}
	#wheel(event, at) {
		const pixels = wheelPixels(event);
		if (event.shiftKey || Math.abs(pixels.x) > Math.abs(pixels.y)) this.#moved(() => this.#camera.pan(-(pixels.x || pixels.y), 0));
		else this.#moved(() => this.#camera.zoom(at, wheelFactor(event)));
		return true;
	}
	#point(at) {
		const hit = at === void 0 ? void 0 : this.#map.hit(at);
		const tile = hit === void 0 ? void 0 : this.#map.windowTile(hit.position);
		const before = this.pointed.peek();
		if (!(before?.by === "pointer" && before.hit.position === hit?.position && before.hit.cell?.run === hit?.cell?.run)) this.pointed.value = hit === void 0 || tile === void 0 ? void 0 : {
			hit,
			tile,
			by: "pointer"
		};
		this.#dim(hit?.cell?.run.gang);
	}
	#dim(gang) {
		clearTimeout(this.#dwell);
		const gangs = gang === void 0 ? litGangs.peek() : new Set([gang]);
		if (gang === void 0) this.light(gangs);
		else this.#dwell = setTimeout(() => this.light(gangs), DWELL_MS);
	}
	#click(at) {
		const hit = this.#map.hit(at);
		const gang = hit?.cell?.run.gang;
		this.#setFocus(hit?.position);
		chooseGang(gang);
		this.#planUrl();
		this.#point(at);
	}
	#walkTo(position) {
		const node = this.#scene?.nodes[position];
		const tile = this.#tile(position);
		if (node === void 0 || tile === void 0) return true;
		this.#setFocus(position);
		this.#moved(() => this.#camera.reveal(tile, this.#glideStart()));
		const windowTile = this.#map.windowTile(position);
		if (windowTile !== void 0) this.pointed.value = {
			hit: {
				position,
				cell: void 0
			},
			tile: windowTile,
			by: "keyboard"
		};
		const gangs = (node.jobs ?? []).map((hold) => `${hold.namespace}/${hold.name}`);
		this.light(litGangs.peek() ?? (gangs.length > 0 ? new Set(gangs) : void 0));
		this.#planUrl();
		announce(describeNode(node, this.#scene?.now ?? new Date()));
		return true;
	}
	#panByKey(direction) {
		const step = {
			x: this.#window.width / 4,
			y: this.#window.height / 4
		};
		const sign = direction === "left" || direction === "up" ? 1 : -1;
		const isAcross = direction === "left" || direction === "right";
		this.#moved(() => this.#camera.pan(isAcross ? sign * step.x : 0, isAcross ? 0 : sign * step.y));
		return true;
	}
	#open() {
		const name = this.#focus === void 0 ? void 0 : this.#scene?.layout.names[this.#focus];
		if (name === void 0) return false;
		this.#writeUrl();
		navigate(urls.node(name));
		return true;
	}
	#chooseNextGang() {
		const gangs = ((this.#focus === void 0 ? void 0 : this.#scene?.nodes[this.#focus])?.jobs ?? []).map((hold) => `${hold.namespace}/${hold.name}`);
		const chosen = [...litGangs.peek() ?? []][0];
		const next = gangs[(chosen === void 0 ? -1 : gangs.indexOf(chosen)) + 1];
		chooseGang(next);
		announce(next === void 0 ? "No job is chosen." : `${next} is chosen.`);
		return true;
	}
	#clear() {
		if (litGangs.peek() === void 0 && this.#focus === void 0) return false;
		if (litGangs.peek() !== void 0) chooseGang(void 0);
		else this.#setFocus(void 0);
		this.pointed.value = void 0;
		this.light(void 0);
		this.#planUrl();
		return true;
	}
	#setFocus(position) {
		this.#focus = position;
		this.#map.setFocus(position);
		this.#frames.plan();
	}
	#revealFocus() {
		const tile = this.#focus === void 0 ? void 0 : this.#tile(this.#focus);
		if (tile !== void 0 && query.peek().get("zoom") === null) this.#camera.glideTo(grown(tile, 3), SHOWN_SCALE, void 0);
	}
	#firstVisible() {
		return this.#map.hit({
			x: this.#window.width / 2,
			y: this.#window.height / 2
		})?.position ?? 0;
	}
	#focusPoint() {
		const tile = this.#focus === void 0 ? void 0 : this.#map.windowTile(this.#focus);
		if (tile === void 0) return void 0;
		const point = {
			x: tile.x + tile.width / 2,
			y: tile.y + tile.height / 2
		};
		return point.x >= 0 && point.y >= 0 && point.x <= this.#window.width && point.y <= this.#window.height ? point : void 0;
	}
	#tile(position) {
		return this.#scene === void 0 ? void 0 : tileOf(this.#scene.layout, position);
	}
};
function grown(tile, times) {
	const [dx, dy] = [TILE.width * times, TILE.height * times];
	return {
		x: tile.x - dx,
		y: tile.y - dy,
		width: tile.width + 2 * dx,
		height: tile.height + 2 * dy
	};
}
// src/draw/layout/layout-keeper.ts
var ASPECT_STEPS = 4;
var LayoutKeeper = class {
	#layout;
	#nodes = [];
	#aspect = 0;
	#header = 0;
	layoutOf(nodes, window) {
		const aspect = 2 ** (Math.round(Math.log2(Math.max(window.width, 1) / Math.max(window.height, 1)) * ASPECT_STEPS) / ASPECT_STEPS);
		const header = headerFor(nodes.length, Math.max(window.width * window.height, 1));
		const isSameShape = aspect === this.#aspect && header === this.#header;
		if (this.#layout === void 0 || !isSameShape || !haveSamePlaces(this.#nodes, nodes)) this.#layout = layOut(nodes, {
			aspect,
			header,
			before: isSameShape ? this.#layout?.shape : void 0
		});
		[this.#nodes, this.#aspect, this.#header] = [
			nodes,
			aspect,
			header
		];
		return this.#layout;
	}
};
function haveSamePlaces(before, after) {
	return before.length === after.length && before.every((node, index) => isSamePlace(node, after[index]));
}
function isSamePlace(before, after) {
	if (before === after) return true;
	if (after === void 0 || nodeName(before) !== nodeName(after)) return false;
	const [left, right] = [before.domains ?? [], after.domains ?? []];
	return left.length === right.length && left.every((entry, index) => entry.domain === right[index]?.domain && entry.level === right[index]?.level);
}
// src/parts/follow-canvas.ts
function followSize(element, report) {
	const read = () => report({
		width: element.clientWidth,
		height: element.clientHeight
	});
	const observer = new ResizeObserver(read);
	observer.observe(element);
	const ratio = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
	ratio.addEventListener("change", read);
	return () => {
		observer.disconnect();
		ratio.removeEventListener("change", read);
	};
}
function followTheme(element, report) {
	const read = () => report(themeOf(element));
	const system = ["(forced-colors: active)", "(prefers-contrast: more)"].map((text) => matchMedia(text));
	for (const list of system) list.addEventListener("change", read);
	let frame = 0;
	const stop = x(() => {
		theme.value;
		frame = requestAnimationFrame(read);
	});
	read();
	return () => {
		stop();
		cancelAnimationFrame(frame);
		for (const list of system) list.removeEventListener("change", read);
	};
}
// src/views/nodes/map-follow.ts
function followAll(frame, controller) {
	const size = y({
		width: frame.clientWidth,
		height: frame.clientHeight
	});
	const stops = [
		followSize(frame, (next) => size.value = next),
		followTheme(frame, (next) => controller.setTheme(next)),
		x(() => controller.resize(size.value, devicePixelRatio)),
		followScene(() => size.value, controller),
		x(() => controller.light(litGangs.value)),
		x(() => {
			const [at, zoom] = [query.value.get("at") ?? void 0, query.value.get("zoom") ?? void 0];
			f(() => controller.followUrl(at, zoom));
		})
	];
	return () => {
		for (const stop of stops) stop();
	};
}
function followScene(size, controller) {
	const keeper = new LayoutKeeper();
	return x(() => {
		const layout = keeper.layoutOf(sortedNodes.value, size());
		const context = look.value;
		const scene = buildScene({
			layout,
			nodes: nodes.nodes.value,
			look: context,
			now: new Date(context.now),
			fitOf: fitOf.value
		});
		f(() => controller.setScene(scene));
	});
}
// src/views/nodes/MapCanvas.tsx
function MapCanvas() {
	const frame = T(null);
	const canvas = T(null);
	const [controller, setController] = d(void 0);
	A(() => {
		if (canvas.current === null || frame.current === null) return;
		const made = new MapController(canvas.current);
		const stop = followAll(frame.current, made);
		setController(made);
		return () => {
			stop();
			made.stop();
		};
	}, []);
	useShortcuts("Map of nodes", [
		{
			keys: "+",
			label: "Zoom in",
			run: () => controller?.zoom(ZOOM_STEP)
		},
		{
			keys: "-",
			label: "Zoom out",
			run: () => controller?.zoom(1 / ZOOM_STEP)
		},
		{
			keys: "0",
			label: "Show the whole map",
			run: () => controller?.fit()
		}
	]);
	return a("div", {
		class: "map-frame",
		ref: frame,
		children: [
			a("div", {
				class: "map-canvas",
				role: "application",
				"aria-label": "Cluster map",
				"aria-describedby": "map-keys",
				tabIndex: 0,
				onKeyDown: (event) => {
					if (controller?.key(event)) event.preventDefault();
				},
				onBlur: () => controller?.blur(),
				children: a("canvas", {
					ref: canvas,
					"aria-hidden": "true"
				})
			}),
			a("p", {
				id: "map-keys",
				class: "hidden",
				children: "Arrow keys walk from node to node, Page Up and Page Down from domain to domain. Enter opens the page of the node, Space chooses its next job, Escape ends the choice. T shows the same nodes as a table."
			}),
			controller && a($, { children: [
				a(ZoomButtons, {
					whole: "Show the whole map",
					zoomIn: () => controller.zoom(1.5),
					zoomOut: () => controller.zoom(1 / 1.5),
					showWhole: () => controller.fit()
				}),
				a(MapTip, { controller }),
				a(GangCard, { onShow: (gang) => controller.show(gangNodes.peek().get(gang) ?? []) })
			] })
		]
	});
}
// src/views/nodes/MapLegend.tsx
var SAMPLE = {
	width: 24,
	height: 14
};
var COLOUR_TEXT = {
	gang: "A colour is a job, by its name. Two jobs may share one of the 12 colours: point at a cell for the job.",
	queue: "A colour is a queue, by its name. Two queues may share one of the 12 colours.",
	state: "A colour is a state, as is its pattern.",
	time: "A colour is the time until the job is expected to end, which is no promise."
};
function MapLegend() {
	const by = colourBy.value;
	const states = CELL_STATES.map((state) => ({
		sample: a(Sample, {
			state,
			by
		}),
		text: STATE_WORDS[state]
	}));
	const frames = [
		{
			sample: a("span", { class: "sample-frame sample-reserved" }),
			text: "reserved for a waiting job"
		},
		{
			sample: a("span", { class: "sample-frame sample-partly" }),
			text: "thick frame: a node with some, not all, devices free"
		},
		{
			sample: a("span", { class: "sample-frame sample-bad" }),
			text: "crossed: a node that takes no pods"
		}
	];
	const lens = [{
		sample: a("span", { class: "sample-frame sample-fits" }),
		text: "fits: the node has room for a pod"
	}, {
		sample: a("span", { class: "sample-frame sample-short" }),
		text: "fits only until a reservation begins"
	}];
	const times = TIME_STEPS.map((step, index) => ({
		sample: a("span", { class: `sample-time sample-time-${index}` }),
		text: step.label
	}));
	return a("section", {
		class: "sums map-legend",
		children: [
			a("h2", { children: "Legend" }),
			a("p", { children: "A cell is a count, not a physical device: the scheduler knows how many devices a job holds, not which." }),
			a(Legend, {
				label: "Cells and frames",
				entries: [
					...states,
					...frames,
					...fitQuery.value ? lens : []
				]
			}),
			a("p", { children: COLOUR_TEXT[by] }),
			by === "time" && a(Legend, {
				label: "Time left",
				entries: times
			})
		]
	});
}
function Sample({ state, by }) {
	const canvas = T(null);
	const look = theme.value;
	F(() => {
		const frame = requestAnimationFrame(() => canvas.current && drawSample(canvas.current, state, by));
		return () => cancelAnimationFrame(frame);
	}, [
		state,
		by,
		look
	]);
	return a("canvas", {
		ref: canvas,
		class: "map-sample"
	});
}
function drawSample(canvas, state, by) {
	const ratio = devicePixelRatio;
	[canvas.width, canvas.height] = [SAMPLE.width * ratio, SAMPLE.height * ratio];
	const context = canvas.getContext("2d");
	if (context === null) return;
	const colours = themeOf(canvas);
	const brush = {
		theme: colours,
		ratio,
		patterns: buildPatterns(context, colours, ratio)
	};
	const run = {
		state,
		gang: state !== "other" && state !== "free" && state !== "blocked" && by === "gang" ? "sample/a" : void 0,
		first: 0,
		cells: 2,
		devices: 2
	};
	const fill = fillOf(run, {
		by,
		jobs: new Map(),
		now: 0
	}, colours);
	const batch = new RectBatch();
	context.fillStyle = colours.tile;
	context.fillRect(0, 0, canvas.width, canvas.height);
	addRun(batch, brush, run, fill, {
		x: 0,
		y: 0,
		width: canvas.width,
		height: canvas.height
	}, 2);
	batch.flush(context);
}
// src/views/nodes/NodeTable.tsx
var ROW_HEIGHT = 30;
function NodeTable() {
	const rows = selectRows(isBadOnly.value ? sortedNodes.value.filter(isBad) : sortedNodes.value, litGangs.value);
	if (rows.length === 0 && isBadOnly.value) return a(Empty, {
		icon: "check",
		title: "No node is bad."
	});
	const byName = new Map(rows.map((node) => [nodeName(node), node]));
	const hasPlaces = rows.some((node) => (node.domains ?? []).length > 0);
	const fit = fitOf.value;
	const columns = [
		"Node",
		"State",
		"Free",
		"Devices",
		...hasPlaces ? ["Where"] : [],
		...fit ? ["Fits"] : [],
		"Held by"
	];
	return a("div", {
		class: "node-table-scroll",
		children: a("div", {
			class: `node-table ${hasPlaces ? "has-places" : ""} ${fit ? "has-fit" : ""}`,
			role: "table",
			"aria-label": "Nodes",
			"aria-rowcount": rows.length + 1,
			children: [a("div", {
				class: "node-row node-head",
				role: "row",
				"aria-rowindex": 1,
				children: columns.map((column) => a("span", {
					role: "columnheader",
					children: column
				}, column))
			}), a(VirtualRows, {
				keys: [...byName.keys()],
				rowHeight: ROW_HEIGHT,
				row: (name) => {
					const node = byName.get(name);
					return node === void 0 ? null : a(NodeRow, {
						node,
						hasPlaces
					});
				}
			})]
		})
	});
}
function selectRows(nodes, gangs) {
	if (gangs === void 0) return nodes;
	return nodes.filter((node) => [
		...node.jobs ?? [],
		...node.keptFor ?? [],
		...node.reservedFor ?? []
	].some((hold) => gangs.has(`${hold.namespace}/${hold.name}`)));
}
function NodeRow({ node, hasPlaces }) {
	const devices = devicesOf(node);
	const fit = fitOf.value?.(node);
	const texts = holders(node, now.value);
	return a("div", {
		class: "node-row",
		children: [
			a("span", {
				role: "cell",
				children: a("a", {
					href: urls.node(nodeName(node)),
					"data-row": "",
					children: a(Name, { text: nodeName(node) })
				})
			}),
			a("span", {
				role: "cell",
				class: node.schedulable ? void 0 : "bad",
				children: stateWord(node)
			}),
			a("span", {
				role: "cell",
				class: "number",
				children: devices.map((counts) => `${counts.free}/${counts.total}`).join(",") || "-"
			}),
			a("span", {
				role: "cell",
				children: a(Name, { text: devices.map((counts) => counts.device).join(",") || "-" })
			}),
			hasPlaces && a("span", {
				role: "cell",
				children: a(Name, { text: domainText(node) })
			}),
			fit && a("span", {
				role: "cell",
				title: fit.why,
				children: [fit.kind === "off" ? "no: " : fit.kind === "short" ? "short: " : "", a(Text, {
					text: fit.kind === "fits" ? fit.brief : fit.why,
					max: 120
				})]
			}),
			a("span", {
				role: "cell",
				title: texts.join(", ").slice(0, 600),
				children: a(Text, {
					text: texts.join(", "),
					max: 300
				})
			})
		]
	});
}
// src/draw/node/holes.ts
function holesBySize(nodes, device) {
	const holes = new Map();
	for (const node of nodes) {
		const counts = devicesOf(node).find((entry) => entry.device === device);
		if (!node.schedulable || counts === void 0 || counts.free <= 0) continue;
		const whole = counts.free >= counts.total;
		const key = `${counts.free}/${whole}`;
		holes.set(key, {
			free: counts.free,
			whole,
			nodes: (holes.get(key)?.nodes ?? 0) + 1
		});
	}
	return [...holes.values()].sort((a, b) => a.free - b.free || Number(a.whole) - Number(b.whole));
}
function largestGangs(nodes, device, devices) {
	const rooms = new Map();
	const levels = [];
	let anywhere = 0;
	for (const node of nodes) {
		const room = roomOf(node, device, devices);
		anywhere += room;
		let path = "";
		for (const entry of domainsOf(node)) {
			path += `/${entry.domain}`;
			if (!levels.includes(entry.level)) levels.push(entry.level);
			const key = `${entry.level} ${path}`;
			const before = rooms.get(key)?.devices ?? 0;
			rooms.set(key, {
				level: entry.level,
				domain: entry.domain,
				devices: before + room
			});
		}
	}
	return [...levels.reverse().map((level) => {
		const ofLevel = [...rooms.values()].filter((entry) => entry.level === level);
		return ofLevel.reduce((most, entry) => entry.devices > most.devices ? entry : most, ofLevel[0]);
	}), {
		level: "",
		domain: "",
		devices: anywhere
	}];
}
function roomOf(node, device, devices) {
	const free = node.schedulable ? devicesOf(node).find((entry) => entry.device === device)?.free ?? 0 : 0;
	return Math.floor(Math.max(free, 0) / devices) * devices;
}
// src/views/nodes/Sums.tsx
function Sums() {
	if (sums.value.length === 0) return a("p", {
		class: "dim",
		children: "These nodes have no devices."
	});
	return a($, { children: [
		sums.value.map((sum) => a(DeviceSection, { sum }, sum.device)),
		a(Holes, {}),
		a(LargestGangs, {})
	] });
}
function DeviceSection({ sum }) {
	const parts = [
		{
			label: "All",
			count: sum.total,
			title: "Devices that pods may use"
		},
		{
			label: "Jobs",
			count: sum.jobs,
			title: "Devices that jobs hold",
			sample: "jobs"
		},
		{
			label: "Others",
			count: sum.others,
			title: "Devices that pods of no job hold",
			sample: "others"
		},
		{
			label: "Kept",
			count: sum.kept,
			title: "Devices that are kept for jobs that restart",
			sample: "kept"
		},
		{
			label: "Free",
			count: sum.free,
			title: "Free devices, also on nodes that take no pods",
			sample: "free"
		},
		{
			label: "Usable",
			count: sum.usable,
			title: "Free devices on nodes that take pods"
		}
	];
	return a("section", {
		class: "sums",
		children: [
			a("h2", { children: a(Name, { text: sum.device }) }),
			a("div", {
				class: "sum-bar",
				"aria-hidden": "true",
				children: parts.map((part) => part.sample === void 0 || part.count === 0 ? null : a("span", {
					class: `sum-part sum-${part.sample}`,
					style: { flexGrow: part.count }
				}, part.label))
			}),
			a("dl", {
				class: "sum-list",
				children: parts.map((part) => a("div", {
					title: part.title,
					children: [a("dt", { children: [part.sample !== void 0 && a("span", {
						class: `sum-key sum-${part.sample}`,
						"aria-hidden": "true"
					}), part.label] }), a("dd", { children: formatCount(part.count) })]
				}, part.label))
			}),
			a("dl", {
				class: "sum-pods",
				title: "Pods that could start now, each within one node",
				children: [a("dt", { children: ["Pods of ", POD_SIZES.join("/")] }), a("dd", { children: sum.pods.join("/") })]
			})
		]
	});
}
function Holes() {
	const holes = holesBySize(sortedNodes.value, mainDevice.value);
	const most = holes.reduce((max, hole) => Math.max(max, hole.nodes), 1);
	return a("section", {
		class: "sums",
		children: [a("h2", { children: "Holes by size" }), holes.length === 0 ? a("p", {
			class: "dim",
			children: [
				"No node that takes pods has free ",
				a(Name, { text: mainDevice.value }),
				"."
			]
		}) : a("ul", {
			class: "holes",
			children: holes.map((hole) => a(HoleRow, {
				hole,
				most
			}, `${hole.free}-${hole.whole}`))
		})]
	});
}
function HoleRow({ hole, most }) {
	return a("li", { children: [
		a("span", {
			class: "hole-size",
			children: hole.whole ? `all ${hole.free}` : `${hole.free} free`
		}),
		a("span", {
			class: "hole-bar",
			"aria-hidden": "true",
			children: a("span", {
				class: hole.whole ? "hole-whole" : "hole-part",
				style: { width: `${100 * hole.nodes / most}%` }
			})
		}),
		a("span", {
			class: "hole-count",
			children: countOf(hole.nodes, "node")
		})
	] });
}
function LargestGangs() {
	const size = fitQuery.value?.devices ?? 1;
	const gangs = largestGangs(sortedNodes.value, mainDevice.value, size);
	return a("section", {
		class: "sums",
		children: [
			a("h2", { children: "Largest gang that starts now" }),
			a("p", {
				class: "dim",
				children: [
					"Pods with ",
					countOf(size, "device"),
					" each. Quota, taints and reservations do not count."
				]
			}),
			a("dl", {
				class: "sum-list sum-wide",
				children: gangs.map((gang) => a("div", { children: [a("dt", { children: [gang.level === "" ? "anywhere" : a($, { children: ["in one ", gang.level] }), gang.domain !== "" && gang.devices > 0 && a("span", {
					class: "dim",
					children: [" ", a(Name, { text: gang.domain })]
				})] }), a("dd", { children: formatCount(gang.devices) })] }, gang.level))
			})
		]
	});
}
// src/views/nodes/FitForm.tsx
function FitForm() {
	const id = P();
	const text = fitText$1.value;
	const isWrong = text !== "" && fitQuery.value === void 0;
	return a("div", {
		class: "fit-form",
		children: [
			a("label", {
				for: id,
				children: "Would fit"
			}),
			a("input", {
				id,
				type: "text",
				class: "field",
				size: 9,
				placeholder: "8x8",
				autocomplete: "off",
				spellcheck: false,
				value: text,
				"aria-invalid": isWrong,
				"aria-describedby": `${id}-help`,
				title: "Pods x devices of each pod, such as 8x8. For another kind of device: 8x1:rdma/hca",
				onInput: (event) => setQuery({ fit: event.currentTarget.value }),
				onKeyDown: (event) => {
					if (event.key === "Escape") setQuery({ fit: void 0 });
				}
			}),
			text !== "" && a("button", {
				type: "button",
				class: "icon-button",
				"aria-label": "Turn the lens off",
				onClick: () => setQuery({ fit: void 0 }),
				children: a(Icon, { name: "cross" })
			}),
			a("span", {
				id: `${id}-help`,
				class: isWrong ? "fit-help fit-wrong" : "fit-help",
				role: "status",
				children: a(FitAnswer, { isWrong })
			})
		]
	});
}
function FitAnswer({ isWrong }) {
	if (isWrong) return a($, { children: "Write pods x devices, such as 8x8 or 8x1:rdma/hca." });
	const [asked, summary] = [fitQuery.value, fitSummary.value];
	if (asked === void 0 || summary === void 0) return a("span", {
		class: "dim",
		children: "pods x devices"
	});
	return a($, { children: fitSentence(asked, summary) });
}
// src/views/nodes/Toolbar.tsx
var COLOUR_LABELS = {
	gang: "Job",
	queue: "Queue",
	state: "State",
	time: "Time left"
};
function Toolbar() {
	return a("div", {
		class: "map-toolbar",
		children: [
			a("div", {
				class: "segmented",
				role: "group",
				"aria-label": "View",
				children: [a(Segment, {
					isOn: !isTable.value,
					text: "Map",
					keys: "t",
					run: () => isTable.peek() && toggleTable()
				}), a(Segment, {
					isOn: isTable.value,
					text: "Table",
					keys: "t",
					run: () => isTable.peek() || toggleTable()
				})]
			}),
			isTable.value && a("button", {
				type: "button",
				class: "button toggle",
				"aria-pressed": isBadOnly.value,
				title: "Nodes that are not ready or unhealthy. A cordoned node alone is not bad.",
				onClick: () => showBadOnly(!isBadOnly.peek()),
				children: "Only bad nodes"
			}),
			!isTable.value && a("div", {
				class: "colour-by",
				children: [a("span", {
					class: "dim",
					"aria-hidden": "true",
					children: "Colour by"
				}), a("div", {
					class: "segmented",
					role: "group",
					"aria-label": "Colour by",
					children: COLOUR_BY.map((by) => a(Segment, {
						isOn: colourBy.value === by,
						text: COLOUR_LABELS[by],
						keys: "c",
						run: () => chooseColour(by)
					}, by))
				})]
			}),
			a(FitForm, {})
		]
	});
}
function Segment(props) {
	return a("button", {
		type: "button",
		"aria-pressed": props.isOn,
		title: `Key ${props.keys}`,
		onClick: props.run,
		children: props.text
	});
}
// src/views/Nodes.tsx
function NodesView() {
	useTitle("Nodes");
	A(() => follow("nodes"), []);
	useShortcuts("Nodes", [{
		keys: "t",
		label: "Map, or table of nodes",
		run: toggleTable
	}, {
		keys: "c",
		label: "Colour by job, queue, state, time left",
		run: cycleColour
	}]);
	return a("div", {
		class: "page nodes-page drawing",
		children: [a("div", {
			class: "page-head",
			children: [a("h1", { children: "Nodes" }), a(NodeCounts, {})]
		}), a(NodesContent, {})]
	});
}
function NodeCounts() {
	if (sortedNodes.value.length === 0) return null;
	const bad = sortedNodes.value.filter((node) => !node.schedulable).length;
	return a("p", {
		class: "counts",
		children: [a("span", { children: countOf(sortedNodes.value.length, "node") }), bad > 0 && a("span", { children: `${formatCount(bad)} ${bad === 1 ? "takes" : "take"} no pods` })]
	});
}
function NodesContent() {
	const problem = nodes.problem.value;
	if (problem?.kind === "denied" || session.value?.may.nodes === false) return a(NoRightToNodes, { problem });
	const freshness = nodesFreshness.value;
	if (freshness.state === "failed" || freshness.state === "loading") return a(NodesNotHere, {});
	if (nodes.nodes.value.size === 0) return a(Empty, {
		title: "There is no node",
		children: "The scheduler knows no node that runs pods of jobs."
	});
	return a($, { children: [
		a(NodesBanner, {}),
		a(Toolbar, {}),
		a("div", {
			class: `nodes-columns ${freshness.state === "stale" && queueFreshness.value.state !== "stale" ? "is-stale" : ""}`,
			children: [a("div", {
				class: "nodes-main",
				children: isTable.value ? a(NodeTable, {}) : a(MapCanvas, {})
			}), a("aside", {
				class: "nodes-side",
				"aria-label": "Sums",
				children: [a(Sums, {}), !isTable.value && a(MapLegend, {})]
			})]
		})
	] });
}
function isCauseOfJobs(problem) {
	const jobs = queueFreshness.value;
	return jobs.state === "stale" && jobs.problem?.kind === problem?.kind;
}
function NodesBanner() {
	const freshness = nodesFreshness.value;
	const problem = freshness.state === "stale" && !isCauseOfJobs(freshness.problem) ? freshness.problem : void 0;
	const words = problem && describeProblem(problem);
	return a($, { children: [words && freshness.state === "stale" && a(Banner, {
		tone: "warning",
		title: words.title,
		children: [
			a(Text, { text: words.text }),
			" Nodes as of ",
			formatClockSeconds(freshness.time),
			"."
		]
	}), nodes.notes.value.slice(0, 5).map((note) => a(Banner, {
		tone: "info",
		title: "Not everything is shown",
		children: a(Text, { text: note })
	}, note))] });
}
// src/views/plan/files.ts
var NAME_LENGTH = 80;
function hasFiles(event) {
	return event.dataTransfer?.types.includes("Files") ?? false;
}
async function loadFiles(list) {
	const files = [...list ?? []];
	const [first] = files;
	if (!first) return;
	const name = cleanLine(cutText(first.name, NAME_LENGTH).text);
	if (!mayFit(files.reduce((sum, file) => sum + file.size, 0))) {
		reportFailure(tooLarge(files.length === 1 ? name : "the text of these files"));
		return;
	}
	try {
		const texts = await Promise.all(files.map(readText));
		const by = files.length === 1 ? name : countOf(files.length, "file");
		replaceDraft({
			text: joinFiles(texts),
			namespace: draft.peek().namespace
		}, by);
	} catch {
		reportFailure(new RequestError("invalid", `${name} is no text file in UTF-8`));
	}
}
async function readText(file) {
	const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
	if (text.includes("\0")) throw new TypeError("binary file");
	return text;
}
// src/views/plan/Editor.tsx
function Editor({ area }) {
	const id = P();
	return a("section", {
		class: "card plan-editor",
		"aria-labelledby": `${id}-title`,
		children: [
			a("div", {
				class: "card-head",
				children: [a("h2", {
					id: `${id}-title`,
					children: a("label", {
						for: id,
						children: "Jobs as YAML"
					})
				}), a("div", {
					class: "plan-sources",
					children: [
						a(FileButton, {}),
						a("button", {
							type: "button",
							class: "button",
							onClick: showExample,
							children: "Example"
						}),
						a(CopyButton, {
							text: draft.value.text,
							what: "the text"
						})
					]
				})]
			}),
			a("textarea", {
				id,
				ref: area,
				class: "plan-text",
				"aria-describedby": `${id}-help`,
				spellcheck: false,
				autocomplete: "off",
				autocapitalize: "off",
				wrap: "off",
				value: draft.value.text,
				onInput: (event) => setText(event.currentTarget.value)
			}),
			a("p", {
				id: `${id}-help`,
				class: "plan-help",
				children: [
					"Drop a file on this page, or choose one. Tab moves on to the next field; ",
					a("kbd", { children: "Ctrl" }),
					" ",
					a("kbd", { children: "Enter" }),
					" plans."
				]
			}),
			a(Replaced, {}),
			a(Actions, { id })
		]
	});
}
function FileButton() {
	const input = T(null);
	return a($, { children: [a("button", {
		type: "button",
		class: "button",
		onClick: () => input.current?.click(),
		children: "Choose a file"
	}), a("input", {
		ref: input,
		type: "file",
		hidden: true,
		multiple: true,
		accept: ".yaml,.yml,.json",
		"aria-label": "File with jobs",
		onChange: (event) => {
			const field = event.currentTarget;
			loadFiles(field.files).finally(() => field.value = "");
		}
	})] });
}
function Replaced() {
	const current = replaced.value;
	if (!current) return null;
	return a("p", {
		class: "plan-replaced",
		role: "status",
		children: [
			"This is ",
			a(Text, { text: current.by }),
			".",
			" ",
			a("button", {
				type: "button",
				class: "more",
				onClick: bringBack,
				children: "Bring the earlier text back"
			})
		]
	});
}
function Actions({ id }) {
	const isBusy = isPlanning.value;
	useOwnNamespaces();
	return a("div", {
		class: "plan-actions",
		children: [
			a("div", {
				class: "plan-namespace",
				children: [
					a("label", {
						for: `${id}-namespace`,
						children: "Namespace"
					}),
					a("input", {
						id: `${id}-namespace`,
						type: "text",
						class: "field",
						autocomplete: "off",
						autocapitalize: "off",
						spellcheck: false,
						maxLength: 63,
						list: `${id}-namespaces`,
						"aria-describedby": `${id}-namespace-help`,
						value: namespace.value,
						placeholder: session.value?.mode === "local" ? session.value.namespace : void 0,
						onInput: (event) => setNamespace(event.currentTarget.value.trim()),
						onKeyDown: (event) => {
							if (event.key === "Enter") planDraft();
						}
					}),
					a("datalist", {
						id: `${id}-namespaces`,
						children: ownNamespaces.value.filter(({ maySubmit }) => maySubmit).map(({ name }) => a("option", { value: name }, name))
					}),
					a("span", {
						id: `${id}-namespace-help`,
						class: "dim",
						children: "of jobs that name none"
					})
				]
			}),
			isBusy && a("button", {
				type: "button",
				class: "button",
				onClick: cancelPlan,
				children: ["Cancel ", a("kbd", { children: "Esc" })]
			}),
			a("button", {
				type: "button",
				class: "button button-main",
				"aria-disabled": isBusy,
				onClick: () => void planDraft(),
				children: isBusy ? "Planning…" : "Plan it"
			})
		]
	});
}
// src/views/plan/PlannedJobCard.tsx
function PlannedJobCard({ job }) {
	const id = P();
	const look = verdictLook(job.verdict);
	const exists = useComputed(() => queue.jobs.value.has(jobKey(job))).value;
	return a("section", {
		class: `card planned planned-${look.tone}`,
		"aria-labelledby": id,
		children: [a("div", {
			class: "card-head",
			children: [a("h2", {
				id,
				children: exists ? a(JobLink, { job }) : a(Name, { text: `${job.namespace}/${job.name}` })
			}), a(Badge, {
				tone: look.tone,
				icon: look.icon,
				children: a(Name, { text: job.verdict })
			})]
		}), a("dl", {
			class: "planned-sections",
			children: reasonFirst(job.sections).map((section) => a("div", { children: [a("dt", { children: a(Name, { text: section.name }) }), a("dd", { children: [a(Lines, {
				job,
				section
			}), section.name === "nodes" && a(NodePlaces, { job })] })] }, section.name))
		})]
	});
}
function reasonFirst(sections) {
	return sections.toSorted((a, b) => Number(b.name === "reason") - Number(a.name === "reason"));
}
var known = {
	isJob: (key) => queue.jobs.value.has(key),
	isQueue: (name) => queue.queues.value?.has(name) ?? false
};
function Lines({ job, section }) {
	if (section.name === "reason") return section.lines.map((line, place) => a("p", {
		class: "planned-reason",
		children: a(Text, {
			text: line,
			max: 2e3
		})
	}, place));
	return a("ul", { children: section.lines.map((line, place) => a("li", {
		class: line.startsWith("  ") ? "planned-detail" : void 0,
		children: a(Sentence, { spans: lineSentence(job, section.name, line, known) })
	}, place)) });
}
function NodePlaces({ job }) {
	const [first] = job.nodes;
	const others = unnamedNodes(job);
	return a($, { children: [others.length > 0 && a("details", {
		class: "planned-nodes",
		children: [a("summary", { children: "All nodes" }), a(NodeLinks, { names: job.nodes })]
	}), first !== void 0 && session.value?.may.nodes && a("a", {
		class: "planned-map",
		href: urls.nodes({ at: first }),
		children: [a(Icon, { name: "map" }), job.nodes.length === 1 ? "show on map" : a(ShowFirst, { node: first })]
	})] });
}
function ShowFirst({ node }) {
	return a("span", { children: [
		"show ",
		a(Name, { text: node }),
		" on map"
	] });
}
// src/views/plan/Problems.tsx
function Problems(props) {
	return a(Card, {
		title: countOf(props.problems.length, "problem"),
		aside: "nothing was planned",
		children: a("ol", {
			class: "problems",
			children: props.problems.map((problem, place) => a(Problem, {
				problem,
				onPlace: () => props.onPlace(problem.line, problem.column)
			}, place))
		})
	});
}
function Problem({ problem, onPlace }) {
	const hasPlace = problem.line > 0;
	return a("li", {
		class: hasPlace ? "problem has-place" : "problem",
		onClick: () => {
			if (hasPlace && getSelection()?.isCollapsed !== false) onPlace();
		},
		children: [
			a("p", {
				class: "problem-place",
				children: [hasPlace ? a("button", {
					type: "button",
					class: "more",
					onClick: (event) => {
						event.stopPropagation();
						onPlace();
					},
					children: `line ${problem.line}, column ${problem.column}`
				}) : "the whole text", problem.field && a("code", { children: a(Text, {
					text: problem.field,
					max: 200
				}) })]
			}),
			a("p", { children: a(Text, {
				text: problem.message,
				max: 2e3
			}) }),
			problem.snippet && a("pre", {
				class: "problem-snippet",
				tabIndex: 0,
				"aria-label": "The line, with a mark below the column",
				children: a(Text, {
					text: problem.snippet,
					max: 4e3,
					lines: true
				})
			})
		]
	});
}
// src/views/plan/Outcome.tsx
function Outcome$1({ onPlace }) {
	const place = T(null);
	const result = outcome$1.value;
	const isFirst = T(true);
	A(() => {
		if (isFirst.current) isFirst.current = false;
		else if (result && place.current) showOutcome(place.current);
	}, [result]);
	return a("section", {
		ref: place,
		class: isPlanning.value ? "plan-outcome is-old" : "plan-outcome",
		"aria-label": "Outcome",
		children: result === void 0 ? a(Nothing, {}) : a(Ended$1, {
			result,
			onPlace
		})
	});
}
function showOutcome(place) {
	if (place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView({ block: "start" });
}
function Nothing() {
	return a(Empty, {
		title: "A plan says whether each job would run now",
		children: a("p", {
			class: "dim",
			children: "It names the nodes that the job would get and the jobs that it would preempt, or the reason why it would wait or be Refused. The operator makes it, and names nodes and jobs only if you may read them."
		})
	});
}
function Ended$1({ result, onPlace }) {
	const isOld = draft.value.text !== result.draft.text || draft.value.namespace !== result.draft.namespace;
	return a($, { children: [isOld && a("p", {
		class: "dim plan-old",
		children: "The text has changed since then."
	}), "answer" in result ? a(Answer$1, {
		answer: result.answer,
		onPlace
	}) : a(Failure$1, { result })] });
}
function Failure$1({ result }) {
	if (result.error.kind === "denied") return a(NoRight$1, { message: result.error.message });
	const { title, text } = describePlanFailure(result.error, result.since);
	return a(Banner, {
		tone: "warning",
		title,
		children: a(Text, {
			text,
			max: 2e3
		})
	});
}
function NoRight$1({ message }) {
	const namespace = refusedNamespace(message);
	return a(Card, {
		title: "You may not plan",
		children: [
			a("p", {
				class: "card-text",
				children: a(Text, {
					text: message,
					max: 2e3
				})
			}),
			a("p", {
				class: "card-text",
				children: "A plan needs the right to create plans.visibility.trellis.dev in the namespace of the jobs. The ClusterRole trellis-edit has it, and so has edit. An administrator can grant it alone:"
			}),
			a(RoleCommands, {
				role: "trellis-plan-jobs",
				verbs: "create",
				resource: "plans.visibility.trellis.dev",
				namespace
			})
		]
	});
}
function Answer$1({ answer, onPlace }) {
	const { jobs, notes, problems } = answer;
	return a($, { children: [
		problems.length > 0 && a(Problems, {
			problems,
			onPlace
		}),
		problems.length === 0 && jobs.length === 0 && a(Empty, { title: "The text contains no job" }),
		jobs.length > 1 && a("p", {
			class: "plan-summary",
			children: summarizePlan(jobs)
		}),
		jobs.map((job) => a(PlannedJobCard, { job }, `${job.namespace}/${job.name}`)),
		notes.length > 0 && a(Notes, { notes }),
		jobs.length > 0 && a(Card, {
			title: jobs.length === 1 ? "Submit it" : `Submit ${countOf(jobs.length, "job")}`,
			children: a("div", {
				class: "card-text",
				children: [a("p", {
					class: "plan-hint",
					children: "Save the text as job.yaml first. This page submits nothing."
				}), a(Command, { text: submitCommand(jobs, session.value?.context) })]
			})
		})
	] });
}
function Notes({ notes }) {
	return a(Card, {
		title: notes.length === 1 ? "Note" : "Notes",
		children: a("ul", {
			class: "card-text plan-notes",
			children: notes.map((note) => a("li", { children: a(Text, {
				text: note,
				max: 1e3
			}) }, note))
		})
	});
}
// src/views/plan/cursor.ts
function moveCursor(area, line, column) {
	const offset = offsetOf(area.value, line, column);
	area.focus({ preventScroll: true });
	area.setSelectionRange(offset, offset);
	const { lineHeight, fontSize } = getComputedStyle(area);
	const height = Number.parseFloat(lineHeight);
	const top = (line - 1) * height;
	if (!(top >= area.scrollTop && top + height <= area.scrollTop + area.clientHeight)) area.scrollTop = top - area.clientHeight / 2;
	const left = (column - 1) * Number.parseFloat(fontSize) * .6;
	if (left < area.scrollLeft || left > area.scrollLeft + area.clientWidth - 40) area.scrollLeft = left - area.clientWidth / 2;
	area.scrollIntoView({ block: "nearest" });
}
// src/views/Plan.tsx
function Plan() {
	useTitle("Plan");
	A(keepDrafts, []);
	usePlanKeys();
	const area = T(null);
	const isDropping = useSignal(false);
	return a("div", {
		class: isDropping.value ? "page plan is-dropping" : "page plan",
		onDragOver: (event) => {
			if (!hasFiles(event)) return;
			event.preventDefault();
			isDropping.value = true;
		},
		onDragLeave: (event) => {
			const into = event.relatedTarget;
			isDropping.value = into instanceof Node && event.currentTarget.contains(into);
		},
		onDrop: (event) => {
			if (!hasFiles(event)) return;
			event.preventDefault();
			isDropping.value = false;
			loadFiles(event.dataTransfer?.files);
		},
		children: [a("div", {
			class: "page-head",
			children: [a("h1", { children: "Plan" }), a("p", {
				class: "counts",
				children: "What would become of jobs if they were submitted now. A plan changes nothing."
			})]
		}), a("div", {
			class: "plan-columns",
			children: [a(Editor, { area }), a(Outcome$1, { onPlace: (line, column) => area.current && moveCursor(area.current, line, column) })]
		})]
	});
}
function usePlanKeys() {
	useShortcuts("Plan", [{
		keys: "Ctrl-Enter",
		label: "Plan it"
	}, {
		keys: "Escape",
		label: "Cancel the plan"
	}]);
	A(() => {
		const onKey = (event) => {
			if (document.querySelector("dialog[open]") || event.isComposing) return;
			const isOnLink = event.target instanceof Element && event.target.closest("a") !== null;
			if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !isOnLink) planDraft();
			else if (event.key === "Escape" && isPlanning.peek()) cancelPlan();
			else return;
			event.preventDefault();
			event.stopPropagation();
		};
		document.addEventListener("keydown", onKey, { capture: true });
		return () => document.removeEventListener("keydown", onKey, { capture: true });
	}, []);
}
// src/app/policy/policy-state.ts
var BAD_IF_TRUE = ["Stalled", "Degraded"];
function policyState(policy) {
	const conditions = policy.status?.conditions ?? [];
	const isTrue = (type) => conditions.some((own) => own.type === type && own.status === "True");
	const active = conditions.find((own) => own.type === "Active");
	const problems = conditions.filter((own) => BAD_IF_TRUE.includes(own.type) && own.status === "True");
	if (!active || isOutdated(policy)) return {
		word: "Not read yet",
		tone: "waiting",
		icon: "clock",
		problems,
		rank: 2
	};
	if (active.status !== "True") return {
		word: "Not active",
		tone: "bad",
		icon: "ban",
		problems: problems.length > 0 ? problems : [active],
		rank: 0
	};
	if (isTrue("Stalled") || isTrue("Degraded")) return {
		word: "Degraded",
		tone: "bad",
		icon: "warning",
		problems,
		rank: 1
	};
	return {
		word: "Active",
		tone: "good",
		icon: "check",
		problems: [],
		rank: 4
	};
}
function isOutdated({ generation, status }) {
	return generation !== void 0 && status?.observedGeneration !== void 0 && status.observedGeneration < generation;
}
function violationCount(policy) {
	return policy.status?.violationCount ?? policy.status?.violations?.length ?? 0;
}
function violationWords(policy) {
	if (policy.enforcement === "Deny") return policy.onViolation === "Evict" ? "run and are evicted" : "run, and would be refused now";
	return policy.enforcement === "Warn" ? "are warned" : "would be denied";
}
function sortJobPolicies(policies) {
	return policies.toSorted((a, b) => rankOf(a) - rankOf(b) || violationCount(b) - violationCount(a) || compareText(keyOf(a), keyOf(b)));
}
function rankOf(policy) {
	const { rank } = policyState(policy);
	return violationCount(policy) > 0 ? Math.min(rank, 3) : rank;
}
function keyOf(policy) {
	return `${policy.kind} ${policy.namespace ?? ""} ${policy.name}`;
}
function sortQuotaPolicies(policies) {
	const rank = (policy) => {
		const own = policyState(policy).rank;
		return (policy.status?.fullCount ?? 0) > 0 ? Math.min(own, 3) : own;
	};
	return policies.toSorted((a, b) => rank(a) - rank(b) || compareText(a.name, b.name));
}
var DECISIONS = ["Denied", "Undecided"];
function sortVerdicts(jobs) {
	const rank = ({ policy }) => {
		const place = DECISIONS.indexOf(policy.decision ?? "Undecided");
		return place < 0 ? DECISIONS.length : place;
	};
	return jobs.toSorted((a, b) => rank(a) - rank(b) || compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
}
function compareText(a, b) {
	if (a === b) return 0;
	return a < b ? -1 : 1;
}
// src/app/policy/quota-use.ts
var LABELS = {
	runningJobs: "running jobs",
	queuedJobs: "pending jobs",
	gpuHours: "GPU-hours"
};
function readUseBar(use, limits) {
	const used = parseQuantity(use.used) ?? 0;
	const max = parseQuantity(use.max) ?? 0;
	const resource = use.limit.slice(flavorEnd(use.limit));
	const hours = use.limit === "gpuHours" ? limits.gpuHours?.windowHours : void 0;
	const label = LABELS[use.limit] ?? limitLabel(use.limit);
	return {
		label: hours === void 0 ? label : `${label} in the last ${formatSeconds(hours * 3600)}`,
		used: formatAmount(resource, use.used),
		max: formatAmount(resource, use.max),
		percent: max > 0 ? Math.min(100, Math.max(0, used / max * 100)) : 100,
		isFull: used >= max
	};
}
function flavorEnd(limit) {
	const slash = limit.indexOf("/");
	if (slash < 0 || limit.slice(0, slash).includes(".")) return 0;
	return slash + 1;
}
function limitLabel(limit) {
	const end = flavorEnd(limit);
	return end === 0 ? limit : `${limit.slice(end)} (${limit.slice(0, end - 1)})`;
}
function holderLabel(holder) {
	if (holder.requester === void 0) return "all together";
	return holder.requester === "" ? "unknown users" : holder.requester;
}
function subjectTexts({ subject }) {
	const texts = [
		subject.team !== void 0 && `team ${subject.team}`,
		subject.queueName !== void 0 && `queue ${subject.queueName} and the queues below it`,
		subject.requester !== void 0 && `user ${subject.requester}, and unknown users`,
		subject.serviceAccountName !== void 0 && `ServiceAccount ${subject.serviceAccountName}`,
		subject.namespaceSelector !== void 0 && selectorText(subject.namespaceSelector)
	].filter((text) => text !== false);
	return texts.length > 0 ? texts : ["every job"];
}
function perJobTexts(limits) {
	return [
		limits.podsPerJob !== void 0 && `at most ${limits.podsPerJob} pods`,
		limits.gpusPerJob !== void 0 && `at most ${limits.gpusPerJob} GPUs`,
		limits.runtimeSecondsPerJob !== void 0 && `at most ${formatSeconds(limits.runtimeSecondsPerJob)} of running time`
	].filter((text) => text !== false);
}
function selectorText(selector) {
	const labels = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
	const expressions = (selector?.matchExpressions ?? []).map(({ key, operator, values = [] }) => values.length > 0 ? `${key} ${operator} (${values.join(", ")})` : `${key} ${operator}`);
	const all = [...labels, ...expressions];
	return all.length > 0 ? `namespaces with ${all.join(", ")}` : "all namespaces";
}
// src/views/policy/PolicyBadges.tsx
function PolicyStateBadge({ state }) {
	return a(Badge, {
		tone: state.tone,
		icon: state.icon,
		children: state.word
	});
}
function Enforcement({ enforcement }) {
	return a("span", {
		class: "policy-mode",
		children: a(Name, { text: enforcement })
	});
}
// src/views/policy/PolicyConditions.tsx
function PolicyConditions({ conditions }) {
	if (conditions.length === 0) return null;
	return a("ul", {
		class: "policy-conditions",
		children: conditions.map((condition) => a("li", { children: [
			a("b", { children: a(Name, { text: condition.type }) }),
			" ",
			a(Name, { text: condition.status }),
			", ",
			a(Name, { text: condition.reason }),
			": ",
			a(Text, {
				text: condition.message,
				max: 1e3
			}),
			" ",
			a("span", {
				class: "dim",
				children: a(Ago, { time: condition.lastTransitionTime })
			})
		] }, condition.type))
	});
}
// src/views/policy/JobPolicyRow.tsx
function JobPolicyRow({ policy }) {
	const state = policyState(policy);
	const violations = violationCount(policy);
	return a("li", {
		class: "policy-row",
		children: [
			a("div", {
				class: "policy-row-head",
				children: [
					a("a", {
						class: "policy-name",
						href: urls.policy(policy),
						"data-row": true,
						children: [policy.namespace !== void 0 && a("span", {
							class: "namespace",
							children: [a(Name, { text: policy.namespace }), "/"]
						}), a(Name, { text: policy.name })]
					}),
					a(PolicyStateBadge, { state }),
					a(Enforcement, { enforcement: policy.enforcement }),
					violations > 0 && a("span", {
						class: "waits",
						children: [
							countOf(violations, "job"),
							" ",
							violationWords(policy)
						]
					})
				]
			}),
			a("p", {
				class: "dim",
				children: [
					policy.kind,
					", ",
					a(Text, { text: policy.namespace === void 0 ? selectorText(policy.namespaceSelector) : `namespace ${policy.namespace}` }),
					",",
					" ",
					countOf(policy.status?.policyIds?.length ?? 0, "policy", "policies"),
					" in effect"
				]
			}),
			a(PolicyConditions, { conditions: state.problems })
		]
	});
}
// src/views/policy/PolicyNotes.tsx
function PolicyNotes({ answer, problem }) {
	return a($, { children: [answer && problem && a(Banner, {
		tone: "warning",
		title: "The policies are old",
		children: a(Text, {
			text: describeProblem(problem).text,
			max: 1e3
		})
	}), answer && answer.notes.length > 0 && a(Banner, {
		tone: "info",
		title: "Not everything is shown",
		children: answer.notes.map((note) => a("div", { children: a(Text, {
			text: note,
			max: 1e3
		}) }, note))
	})] });
}
// src/views/policy/PolicyProblem.tsx
function PolicyProblem({ problem }) {
	const { title, text } = describeProblem(problem);
	return a("div", {
		class: "page-text",
		children: [a("h2", { children: title }), a("p", { children: a(Text, {
			text,
			max: 2e3
		}) })]
	});
}
// src/views/policy/QuotaBars.tsx
function QuotaBars({ policy, most }) {
	const holders = policy.status?.holders ?? [];
	const all = policy.status?.holderCount ?? holders.length;
	const shown = holders.slice(0, most);
	if (holders.length === 0) return a("p", {
		class: "dim",
		children: "No usage is known yet."
	});
	return a($, { children: [a("ul", {
		class: "policy-holders",
		children: shown.map((holder) => a("li", { children: a(Holder, {
			holder,
			policy
		}) }, holder.requester ?? " subject"))
	}), all > shown.length && a("p", {
		class: "dim",
		children: [countOf(all - shown.length, "more holder"), " with more room"]
	})] });
}
function Holder({ holder, policy }) {
	return a($, { children: [holder.requester !== void 0 && a("h3", { children: a(Name, { text: holderLabel(holder) }) }), holder.uses.map((use) => {
		const bar = readUseBar(use, policy.limits);
		return a("div", {
			class: bar.isFull ? "policy-use is-full" : "policy-use",
			children: [
				a("span", {
					class: "policy-use-label",
					children: a(Name, { text: bar.label })
				}),
				a("div", {
					class: "policy-use-bar",
					"aria-hidden": "true",
					children: a("div", { style: { width: `${bar.percent}%` } })
				}),
				a("span", {
					class: "policy-use-numbers",
					children: [
						a("b", { children: a(Name, { text: bar.used }) }),
						" ",
						"of ",
						a(Name, { text: bar.max }),
						bar.isFull && a("span", {
							class: "waits",
							children: " full"
						})
					]
				})
			]
		}, use.limit);
	})] });
}
// src/views/policy/QuotaPolicyRow.tsx
var MAX_HOLDERS$1 = 3;
function QuotaPolicyRow({ policy }) {
	const state = policyState(policy);
	const perJob = perJobTexts(policy.limits);
	return a("li", {
		class: "policy-row",
		children: [
			a("div", {
				class: "policy-row-head",
				children: [
					a("a", {
						class: "policy-name",
						href: urls.policy({
							kind: "QuotaPolicy",
							name: policy.name
						}),
						"data-row": true,
						children: a(Name, { text: policy.name })
					}),
					a(PolicyStateBadge, { state }),
					a(Enforcement, { enforcement: policy.enforcement })
				]
			}),
			a("p", {
				class: "dim",
				children: [
					a(Text, { text: subjectTexts(policy).join("; ") }),
					policy.each === "Requester" && ", for each user",
					perJob.length > 0 && `; each job: ${perJob.join(", ")}`
				]
			}),
			a(PolicyConditions, { conditions: state.problems }),
			a(QuotaBars, {
				policy,
				most: MAX_HOLDERS$1
			})
		]
	});
}
// src/views/policy/VerdictList.tsx
function VerdictList(props) {
	const shown = sortVerdicts(props.jobs).slice(0, props.most);
	return a($, { children: [a("ul", {
		class: "policy-jobs",
		children: shown.map((job) => a("li", { children: [
			a("div", {
				class: "policy-row-head",
				children: [
					a(JobLink, { job }),
					job.phase !== void 0 && a(PhaseBadge, { phase: job.phase }),
					a(DecisionBadge, { policy: job.policy })
				]
			}),
			job.refusal && a("p", { children: a(Text, { text: job.refusal.message }) }),
			a(DecisionDetails, { policy: job.policy })
		] }, `${job.namespace}/${job.name}`))
	}), props.count > shown.length && a("p", {
		class: "card-foot",
		children: [countOf(props.count - shown.length, "more job"), " of this kind"]
	})] });
}
// src/views/policy/use-policies.ts
var POLL_MS = 15e3;
function usePolicies() {
	useNamespaceScope();
	const current = session.value;
	const asked = query.value.get("namespace") || void 0;
	const namespace = current?.may.allJobs === false ? scope.value : asked;
	const suffix = namespace === void 0 ? "" : `?namespace=${encodeURIComponent(namespace)}`;
	return {
		...usePolled(current && `/api/policies${suffix}`, POLL_MS, void 0),
		namespace
	};
}
// src/views/Policies.tsx
var MAX_JOBS$3 = 20;
function Policies() {
	useTitle("Policies");
	const { answer, problem, namespace } = usePolicies();
	return a("div", {
		class: "page",
		children: [
			a("div", {
				class: "page-head",
				children: [a("h1", { children: "Policies" }), answer && a("p", {
					class: "counts",
					children: [a("span", { children: countOf(answer.jobPolicies.length, "job policy", "job policies") }), a("span", { children: countOf(answer.quotaPolicies.length, "quota policy", "quota policies") })]
				})]
			}),
			a("div", {
				class: "toolbar",
				children: a(NamespaceFilter, {
					value: namespace,
					namespaces: namespacesOf(answer)
				})
			}),
			a(PolicyNotes, {
				answer,
				problem
			}),
			!answer && problem && a(PolicyProblem, { problem }),
			!answer && !problem && a(Loading, { rows: 8 }),
			answer && a(PolicyCards, { answer }),
			a(Command, {
				label: "Same in a terminal",
				text: "kubectl get clusterjobpolicies,jobpolicies,quotapolicies -A"
			})
		]
	});
}
function PolicyCards({ answer }) {
	const isUnread = (...kinds) => kinds.every((kind) => answer.unread.includes(kind));
	return a($, { children: [
		a(Card, {
			title: "Jobs that policies deny or warn",
			children: isUnread("trainingjobs") ? a(Unread, { kinds: "TrainingJobs" }) : answer.jobs.length === 0 ? a(Empty, {
				icon: "check",
				title: "Policies allow every job, without a warning."
			}) : a(VerdictList, {
				jobs: answer.jobs,
				count: answer.jobCount,
				most: MAX_JOBS$3
			})
		}),
		a(Card, {
			title: "Job policies",
			children: answer.jobPolicies.length > 0 ? a("ul", {
				class: "policy-rows",
				children: sortJobPolicies(answer.jobPolicies).map((policy) => a(JobPolicyRow, { policy }, keyOf(policy)))
			}) : isUnread("clusterjobpolicies", "jobpolicies") ? a(Unread, { kinds: "ClusterJobPolicies and JobPolicies" }) : isUnread("clusterjobpolicies") ? a(Empty, { title: "This namespace has no JobPolicy." }) : a(Empty, {
				icon: "warning",
				title: "There is no job policy, so each job is refused.",
				children: a("p", {
					class: "dim",
					children: "A request that no policy permits is denied. The chart has a starter set: its value starterPolicies."
				})
			})
		}),
		a(Card, {
			title: "Quota policies",
			children: answer.quotaPolicies.length > 0 ? a("ul", {
				class: "policy-rows",
				children: sortQuotaPolicies(answer.quotaPolicies).map((policy) => a(QuotaPolicyRow, { policy }, policy.name))
			}) : isUnread("quotapolicies") ? a(Unread, { kinds: "QuotaPolicies" }) : a(Empty, { title: "No quota policy limits teams, queues or users." })
		})
	] });
}
function Unread({ kinds }) {
	return a(Empty, {
		title: `${kinds} could not be read.`,
		children: a("p", {
			class: "dim",
			children: "The note above says why. If a right is missing: the ClusterRole trellis-view has it. Ask an administrator."
		})
	});
}
function namespacesOf(answer) {
	const names = new Set();
	for (const job of queue.jobs.value.values()) if (job.metadata.namespace !== void 0) names.add(job.metadata.namespace);
	for (const { namespace } of [...answer?.jobPolicies ?? [], ...answer?.jobs ?? []]) if (namespace !== void 0) names.add(namespace);
	return [...names].sort();
}
// src/views/policy/JobPolicyBody.tsx
var MAX_JOBS$2 = 50;
var MAX_TEXT = 8e3;
function JobPolicyBody({ policy, jobs }) {
	const state = policyState(policy);
	const deciding = jobs.filter(({ policy: verdict }) => verdict.policies?.some((id) => isIdOf(id, policy)));
	const place = policy.namespace === void 0 ? [] : ["-n", policy.namespace];
	return a($, { children: [
		a("div", {
			class: "queue-page",
			children: [a("div", { children: [a(Violations, { policy }), a(Card, {
				title: "Jobs that it decides on",
				children: deciding.length === 0 ? a(Empty, {
					icon: "check",
					title: "It denies no job that waits."
				}) : a(VerdictList, {
					jobs: deciding,
					count: deciding.length,
					most: MAX_JOBS$2
				})
			})] }), a(Card, {
				title: policy.kind,
				aside: a(PolicyStateBadge, { state }),
				children: [a(Facts, { facts: [
					policy.namespace !== void 0 && {
						term: "Namespace",
						value: a(Name, { text: policy.namespace })
					},
					{
						term: "Enforcement",
						value: a(Name, { text: policy.enforcement })
					},
					policy.enforcement === "Deny" && {
						term: "On violation",
						value: a(Name, { text: policy.onViolation })
					},
					policy.namespace === void 0 && {
						term: "Applies to",
						value: a(Text, { text: selectorText(policy.namespaceSelector) })
					},
					{
						term: "Tests",
						value: policy.testCount
					},
					{
						term: "In effect",
						value: a(Ids, { ids: policy.status?.policyIds ?? [] })
					}
				] }), a("div", {
					class: "card-text",
					children: a(PolicyConditions, { conditions: policy.status?.conditions ?? [] })
				})]
			})]
		}),
		a(Card, {
			title: "Text",
			aside: a(CopyButton, {
				text: policy.cedar,
				what: "policies"
			}),
			children: a("div", {
				class: "card-text policy",
				children: a("pre", {
					tabIndex: 0,
					children: a(Text, {
						text: policy.cedar,
						max: MAX_TEXT,
						lines: true
					})
				})
			})
		}),
		a(Command, {
			label: "Same in a terminal",
			text: command("kubectl", "get", policy.kind.toLowerCase(), policy.name, ...place, "-o", "yaml")
		})
	] });
}
function Ids({ ids }) {
	if (ids.length === 0) return a($, { children: "none" });
	return a("ul", { children: ids.map((id) => a("li", { children: a(Name, { text: id }) }, id)) });
}
function Violations({ policy }) {
	const violations = policy.status?.violations ?? [];
	const all = violationCount(policy);
	if (all === 0) return null;
	return a(Card, {
		title: `${countOf(all, "job")} ${violationWords(policy)}`,
		children: [a("ul", {
			class: "policy-jobs",
			children: violations.map((violation) => a("li", { children: [
				a(JobLink, { job: {
					namespace: violation.namespace,
					name: violation.job
				} }),
				a("p", { children: a(Text, { text: violation.message }) }),
				a("p", {
					class: "dim",
					children: violation.policies.map((id, place) => a("span", { children: [place > 0 && ", ", a(PolicyIdLink, { id })] }, id))
				})
			] }, `${violation.namespace}/${violation.job}`))
		}), all > violations.length && a("p", {
			class: "card-foot",
			children: [countOf(all - violations.length, "more job"), " of this kind"]
		})]
	});
}
// src/views/policy/QuotaPolicyBody.tsx
var MAX_HOLDERS = 20;
function QuotaPolicyBody({ policy }) {
	const perJob = perJobTexts(policy.limits);
	return a($, { children: [a("div", {
		class: "queue-page",
		children: [a(Card, {
			title: "Usage",
			children: a("div", {
				class: "card-text",
				children: a(QuotaBars, {
					policy,
					most: MAX_HOLDERS
				})
			})
		}), a(Card, {
			title: "QuotaPolicy",
			aside: a(PolicyStateBadge, { state: policyState(policy) }),
			children: [a(Facts, { facts: [
				{
					term: "Limits",
					value: subjectTexts(policy).map((text) => a("div", { children: a(Text, { text }) }, text))
				},
				{
					term: "Holder",
					value: policy.each === "Requester" ? "each user" : "all jobs together"
				},
				{
					term: "Without room",
					value: a(Enforced, { enforcement: policy.enforcement })
				},
				perJob.length > 0 && {
					term: "Each job",
					value: perJob.join(", ")
				},
				policy.status?.gpuHoursLeft !== void 0 && {
					term: "GPU-hours left",
					value: a(Name, { text: policy.status.gpuHoursLeft })
				}
			] }), a("div", {
				class: "card-text",
				children: a(PolicyConditions, { conditions: policy.status?.conditions ?? [] })
			})]
		})]
	}), a(Command, {
		label: "Same in a terminal",
		text: command("kubectl", "get", "quotapolicy", policy.name, "-o", "yaml")
	})] });
}
var EFFECTS$1 = {
	Queue: "jobs wait",
	Deny: "jobs are refused",
	Warn: "jobs run, with a warning"
};
function Enforced({ enforcement }) {
	const effect = EFFECTS$1[enforcement];
	return a($, { children: [effect !== void 0 && `${effect}, `, a(Name, { text: enforcement })] });
}
// src/views/Policy.tsx
function PolicyView({ name }) {
	useTitle(`Policy ${name}`);
	const { answer, problem } = usePolicies();
	const kind = query.value.get("kind") ?? void 0;
	const found = answer && findPolicies(answer, name, kind);
	const isEmpty = found !== void 0 && found.jobPolicies.length + found.quotaPolicies.length === 0;
	return a("div", {
		class: "page",
		children: [
			a("div", {
				class: "page-head",
				children: [a("p", {
					class: "crumbs",
					children: a("a", {
						href: urls.policies(),
						children: "Policies"
					})
				}), a("h1", { children: a(Name, { text: name }) })]
			}),
			a(PolicyNotes, {
				answer,
				problem
			}),
			!answer && problem && a(PolicyProblem, { problem }),
			!answer && !problem && a(Loading, { rows: 8 }),
			isEmpty && a("p", { children: "No policy that you may list has this name. It may have been deleted." }),
			answer && found?.jobPolicies.map((policy) => a(JobPolicyBody, {
				policy,
				jobs: answer.jobs
			}, keyOf(policy))),
			found?.quotaPolicies.map((policy) => a(QuotaPolicyBody, { policy }, policy.name))
		]
	});
}
// src/app/queue/queue-tree.ts
function buildQueueTree(queues) {
	const children = new Map();
	for (const queue of queues.values()) {
		const parent = queue.parent !== void 0 && queues.has(queue.parent) ? queue.parent : void 0;
		const siblings = children.get(parent);
		if (siblings) siblings.push(queue);
		else children.set(parent, [queue]);
	}
	const seen = new Set();
	const build = (parent, depth) => {
		const nodes = [];
		for (const queue of children.get(parent) ?? []) {
			const { name } = queue.metadata;
			if (seen.has(name)) continue;
			seen.add(name);
			const below = build(name, depth + 1);
			const pendingBelow = below.reduce((sum, child) => sum + child.pendingBelow, queue.pending);
			nodes.push({
				queue,
				depth,
				children: below,
				pendingBelow,
				isNext: false
			});
		}
		return markNext(nodes.sort(compareShare));
	};
	const roots = build(void 0, 0);
	const lost = [...queues.values()].filter((queue) => !seen.has(queue.metadata.name));
	return [...roots, ...lost.map((queue) => leaf(queue))];
}
function leaf(queue) {
	return {
		queue,
		depth: 0,
		children: [],
		pendingBelow: queue.pending,
		isNext: false
	};
}
function compareShare(a, b) {
	return shareOf(a.queue) - shareOf(b.queue) || (a.queue.metadata.name < b.queue.metadata.name ? -1 : 1);
}
function shareOf(queue) {
	const share = Number(queue.share ?? 0);
	return Number.isNaN(share) ? Number.POSITIVE_INFINITY : share;
}
function markNext(siblings) {
	const waiting = siblings.filter((node) => node.pendingBelow > 0 && node.queue.active !== false);
	const [first] = waiting;
	if (!first || waiting.length < 2) return siblings;
	return siblings.map((node) => node === first ? {
		...node,
		isNext: true
	} : node);
}
function flattenTree(roots) {
	return roots.flatMap((node) => [node, ...flattenTree(node.children)]);
}
function namesBelow(node) {
	return new Set(flattenTree([node]).map((own) => own.queue.metadata.name));
}
function jobsOfQueues(jobs, names) {
	const holders = [];
	const waiters = [];
	for (const job of jobs) if (names.has(job.queue)) (isPending(job) ? waiters : holders).push(job);
	holders.sort((a, b) => b.gpus - a.gpus || b.pods - a.pods);
	waiters.sort((a, b) => (a.position ?? 0) - (b.position ?? 0));
	return {
		holders,
		waiters
	};
}
// src/views/queue/QueueBadge.tsx
function QueueBadge({ queue }) {
	if (queue.active === void 0) return null;
	const isBypassed = queue.reason === "QuotaBypassed";
	if (queue.active && !isBypassed) return null;
	return a($, { children: [
		a(Badge, {
			tone: queue.active ? "waiting" : "bad",
			icon: queue.active ? "warning" : "stop",
			children: a(Text, {
				text: queue.reason ?? "Inactive",
				max: 60
			})
		}),
		" ",
		queue.message && a(Text, {
			text: queue.message,
			max: 300
		})
	] });
}
// src/views/queue/QueueJobLists.tsx
var MAX_JOBS$1 = 8;
function QueueJobLists({ names, queue: queue$1 }) {
	const { holders, waiters } = useComputed(() => jobsOfQueues(queue.jobs.value.values(), names)).value;
	return a("div", {
		class: "queue-lists",
		children: [a(JobList, {
			title: "Hold it",
			jobs: holders,
			more: urls.jobs({
				q: queue$1,
				state: "running"
			}),
			isWaiting: false
		}), a(JobList, {
			title: "Wait",
			jobs: waiters,
			more: urls.jobs({
				q: queue$1,
				state: "waiting"
			}),
			isWaiting: true
		})]
	});
}
function JobList(props) {
	const { jobs, isWaiting } = props;
	const gpus = jobs.reduce((sum, job) => sum + job.gpus, 0);
	return a("section", { children: [
		a("h3", { children: [
			props.title,
			" ",
			a("span", {
				class: "dim",
				children: `${countOf(jobs.length, "job")}, ${countOf(gpus, "GPU")}`
			})
		] }),
		jobs.length === 0 && a("p", {
			class: "dim",
			children: "None."
		}),
		a("ol", {
			class: "short-jobs",
			children: jobs.slice(0, MAX_JOBS$1).map((job) => a("li", { children: [
				a("span", {
					class: "short-jobs-count",
					children: isWaiting ? job.position ?? "–" : formatCount(job.gpus)
				}),
				a("span", {
					class: "short-jobs-name",
					children: [
						a(JobLink, { job: {
							namespace: job.metadata.namespace ?? "",
							name: job.metadata.name
						} }),
						job.user && a("span", {
							class: "dim",
							children: [" ", a(Name, { text: job.user })]
						}),
						isWaiting && a("span", {
							class: "short-jobs-reason",
							children: a(Text, { text: cutText(describeReason(job), 160).text })
						})
					]
				}),
				a("span", {
					class: "short-jobs-time",
					children: [
						isWaiting ? `${countOf(job.gpus, "GPU")}, ` : "",
						a(Age, { time: job.since }),
						a("br", {}),
						a(Eta, { job })
					]
				})
			] }, jobKey(job)))
		}),
		jobs.length > MAX_JOBS$1 && a("p", { children: a("a", {
			href: props.more,
			children: [formatCount(jobs.length - MAX_JOBS$1), " more"]
		}) })
	] });
}
// src/views/queue/QuotaLegend.tsx
function QuotaLegend() {
	return a(Legend, {
		label: "Parts of a bar",
		entries: [
			{
				sample: a("span", { class: "quota-frame" }),
				text: "quota"
			},
			{
				sample: a("span", { class: "quota-own" }),
				text: "used"
			},
			{
				sample: a("span", { class: "quota-borrowed" }),
				text: "borrowed"
			},
			{
				sample: a("span", { class: "quota-lendable" }),
				text: "lendable"
			},
			{
				sample: a("span", { class: "quota-waiting" }),
				text: "wait, in any flavor"
			}
		]
	});
}
// src/views/Queue.tsx
function Queue({ name }) {
	useTitle(`Queue ${name}`);
	const jobs = useComputed(() => filterJobs(queue.jobs.value.values(), { queue: name }));
	const tree = useComputed(() => buildQueueTree(queue.queues.value ?? new Map()));
	const freshness = queueFreshness.value;
	if (freshness.state === "failed") return a(ListProblem, {
		title: name,
		problem: freshness.problem
	});
	const node = flattenTree(tree.value).find((own) => own.queue.metadata.name === name);
	const isKnown = node !== void 0 || jobs.value.length > 0 || queue.queues.value === null;
	const order = readOrder(query.value.get("sort"));
	return a("div", {
		class: "page",
		children: [
			a("div", {
				class: "page-head",
				children: [
					a("p", {
						class: "crumbs",
						children: a("a", {
							href: urls.queues,
							children: "Queues"
						})
					}),
					a("h1", { children: a(Name, { text: name }) }),
					node?.queue.active && node.queue.reason !== "QuotaBypassed" && a(Badge, {
						tone: "good",
						icon: "check",
						children: "Active"
					}),
					node && a(QueueBadge, { queue: node.queue })
				]
			}),
			freshness.state === "loading" && a(Loading, { rows: 8 }),
			freshness.state !== "loading" && !isKnown && a("p", { children: "No queue and no job has this name. It may have been deleted." }),
			node && a("div", {
				class: "queue-page",
				children: [a(Card, {
					title: "Quota",
					aside: a(QuotaLegend, {}),
					children: a(Quota, { queue: node.queue })
				}), a(Card, {
					title: "Facts",
					children: a(QueueFacts, {
						queue: node.queue,
						children: node.children.map((child) => child.queue.metadata.name)
					})
				})]
			}),
			node && node.children.length > 0 && a(Card, {
				title: "Jobs of this queue and the queues below it",
				children: a(QueueJobLists, {
					names: namesBelow(node),
					queue: name
				})
			}),
			jobs.value.length > 0 && a("section", {
				"aria-label": "Jobs",
				children: [a("div", {
					class: "section-head",
					children: [
						a("h2", { children: "Jobs" }),
						a("a", {
							href: urls.jobs({ q: name }),
							children: [a(Icon, { name: "search" }), " Filter"]
						}),
						a("a", {
							href: urls.timeline({ q: name }),
							children: [a(Icon, { name: "timeline" }), " Timeline"]
						})
					]
				}), a(JobTable, {
					jobs: jobs.value,
					order,
					onOrder: (next) => setQuery({ sort: writeOrder(next) }, { step: true }),
					selection: search.value
				})]
			}),
			isKnown && freshness.state !== "loading" && jobs.value.length === 0 && a("p", {
				class: "dim",
				children: "No job of this queue is pending or placed."
			}),
			node && a("p", {
				class: "what-if-link",
				children: a("a", {
					href: urls.whatIf({ changes: writeChanges([{ changeQueue: { name } }]) }),
					children: [a(Icon, { name: "whatIf" }), " What if this queue had another quota?"]
				})
			}),
			a(Command, {
				label: "Same in a terminal",
				text: command("trellis", "queue", name, "-A")
			})
		]
	});
}
function Quota({ queue }) {
	const rows = readQuotaRows(queue, boundedResources(queue));
	if (rows.length === 0) return a("p", {
		class: "card-text dim",
		children: "No quota: the capacity of the nodes decides."
	});
	return a("div", {
		class: "queue-bars",
		children: rows.map(({ row, amounts }) => {
			const alike = rows.filter((other) => other.row.resource === row.resource);
			return a(QuotaBar, {
				row,
				amounts,
				scale: barScale(alike.map((other) => other.amounts))
			}, `${row.flavor} ${row.resource}`);
		})
	});
}
function QueueFacts({ queue, children }) {
	return a(Facts, { facts: [
		{
			term: "Placed",
			value: countOf(queue.admitted, "job")
		},
		{
			term: "Pending",
			value: countOf(queue.pending, "job")
		},
		{
			term: "Share",
			value: queue.share ?? "unknown"
		},
		{
			term: "Weight",
			value: queue.weight
		},
		queue.parent !== void 0 && {
			term: "Parent",
			value: a(QueueLink, { name: queue.parent })
		},
		children.length > 0 && {
			term: "Below it",
			value: children.map((name, place) => a("span", { children: [place > 0 && ", ", a(QueueLink, { name })] }, name))
		},
		(queue.decayedUsage?.length ?? 0) > 0 && {
			term: "Usage, half-life 7 days",
			value: a($, { children: [queue.decayedUsage?.map((own) => a("div", { children: [
				formatAmount(own.resource, own.amount),
				" ",
				a(Name, { text: own.resource })
			] }, own.resource)), queue.decayedTime && a("span", {
				class: "dim",
				children: ["computed ", a(Ago, { time: queue.decayedTime })]
			})] })
		}
	] });
}
// src/views/queue/QueueRow.tsx
function QueueRow(props) {
	const { node, isOpen } = props;
	const { queue } = node;
	const id = P();
	return a("li", {
		class: isOpen ? "queue-row is-open" : "queue-row",
		style: { "--depth": String(node.depth) },
		children: [a("div", {
			class: "queue-row-main",
			children: [a("div", {
				class: "queue-name",
				children: [a("button", {
					type: "button",
					class: "icon-button",
					"data-row": true,
					"aria-expanded": isOpen,
					"aria-controls": id,
					"aria-label": `Jobs of queue ${queue.metadata.name}`,
					onClick: props.onToggle,
					children: a(Icon, { name: isOpen ? "down" : "right" })
				}), a("div", { children: [
					a("h2", { children: a(QueueLink, { name: queue.metadata.name }) }),
					queue.parent !== void 0 && a("span", {
						class: "hidden",
						children: ["below queue ", a(Name, { text: queue.parent })]
					}),
					a("p", {
						class: "queue-facts",
						children: [
							a("span", { children: [countOf(queue.admitted, "job"), " placed"] }),
							a("span", { children: [queue.pending, " pending"] }),
							a("span", {
								title: "Usage divided by the weight, as a part of the cluster. It decides the next turn.",
								children: ["share ", queue.share ?? "–"]
							}),
							a("span", { children: ["weight ", queue.weight] })
						]
					}),
					a("p", {
						class: "queue-badges",
						children: [a(QueueBadge, { queue }), node.isNext && a("span", {
							class: "badge tone-starting",
							title: "Of the queues with this parent that have pending jobs, it has the smallest share. Quota and the priority of a queue may change the turn.",
							children: [a(Icon, { name: "arrow" }), "next turn"]
						})]
					})
				] })]
			}), a("div", {
				class: "queue-bars",
				children: [props.quotas.length === 0 && a("p", {
					class: "dim",
					children: "No quota: the capacity of the nodes decides."
				}), props.quotas.map(({ row, amounts }) => a(QuotaBar, {
					row,
					amounts,
					scale: props.scales.get(row.resource) ?? 0
				}, `${row.flavor} ${row.resource}`))]
			})]
		}), a("div", {
			id,
			class: "queue-jobs",
			hidden: !isOpen,
			children: isOpen && a(QueueJobLists, {
				names: namesBelow(node),
				queue: queue.metadata.name
			})
		})]
	});
}
// src/views/Queues.tsx
function Queues() {
	useTitle("Queues");
	const tree = useComputed(() => buildQueueTree(queue.queues.value ?? new Map()));
	const freshness = queueFreshness.value;
	if (freshness.state === "failed") return a(ListProblem, {
		title: "Queues",
		problem: freshness.problem
	});
	const showAll = query.value.get("resources") === "all";
	const open = query.value.get("open") ?? void 0;
	const rows = flattenTree(tree.value);
	return a("div", {
		class: "page",
		children: [a("div", {
			class: "page-head",
			children: [a("h1", { children: "Queues" }), a("p", {
				class: "counts",
				children: a("span", { children: countOf(rows.length, "queue") })
			})]
		}), queue.queues.value === null ? a(Empty, {
			title: "You may not list queues.",
			children: a("p", {
				class: "dim",
				children: [
					"The right is list on queuestates.visibility.trellis.dev; the ClusterRole trellis-view has it. Ask an administrator. ",
					a("a", {
						href: urls.jobs(),
						children: "Your jobs"
					}),
					" are listed all the same."
				]
			})
		}) : freshness.state === "loading" ? a(Loading, { rows: 8 }) : rows.length === 0 ? a(Empty, { title: "The cluster has no queue." }) : a($, { children: [a("div", {
			class: "toolbar",
			children: [a(QuotaLegend, {}), a("button", {
				type: "button",
				class: "button toggle",
				"aria-pressed": showAll,
				onClick: () => setQuery({ resources: showAll ? void 0 : "all" }, { step: true }),
				children: "All resources"
			})]
		}), a(QueueTree, {
			rows,
			showAll,
			open
		})] })]
	});
}
function QueueTree(props) {
	const quotas = props.rows.map((node) => readQuotaRows(node.queue, props.showAll ? boundedResources(node.queue) : mainResources(node.queue)));
	const scales = scalesByResource(quotas.flat());
	return a("ul", {
		class: "queue-tree",
		children: props.rows.map((node, place) => {
			const { name } = node.queue.metadata;
			return a(QueueRow, {
				node,
				quotas: quotas[place] ?? [],
				scales,
				isOpen: props.open === name,
				onToggle: () => setQuery({ open: props.open === name ? void 0 : name })
			}, name);
		})
	});
}
function scalesByResource(rows) {
	const byResource = Map.groupBy(rows, ({ row }) => row.resource);
	return new Map([...byResource].map(([resource, own]) => [resource, barScale(own.map((row) => row.amounts))]));
}
var NO_PAST = new Map();
function buildRows(jobs, past = NO_PAST, gone = NO_PAST) {
	const live = groupBy(sortJobs(jobs, {
		column: void 0,
		descending: false
	}), (job) => job.queue);
	const ended = groupBy([...gone.values()], (attempts) => attempts.at(-1)?.queue ?? "");
	const rows = [...new Set([...live.keys(), ...ended.keys()])].sort().flatMap((queue) => rowsOfQueue(queue, live.get(queue) ?? [], ended.get(queue) ?? [], past));
	return {
		rows,
		tops: topsOf(rows)
	};
}
function groupBy(items, keyOf) {
	const groups = new Map();
	for (const item of items) {
		const group = groups.get(keyOf(item));
		if (group) group.push(item);
		else groups.set(keyOf(item), [item]);
	}
	return groups;
}
function rowsOfQueue(queue, own, gone, past) {
	const placed = own.filter((job) => !isPending(job));
	const gpus = placed.reduce((sum, job) => sum + job.gpus, 0);
	const head = {
		kind: "queue",
		queue,
		placed: placed.length,
		pending: own.length - placed.length,
		gpus,
		ended: gone.length
	};
	const last = [...gone].sort((a, b) => endOf(b) - endOf(a)).slice(0, 50);
	return [
		head,
		...own.map((job) => {
			const key = `${job.metadata.namespace ?? ""}/${job.metadata.name}`;
			return {
				kind: "job",
				key,
				job,
				past: past.get(key) ?? [],
				gpus: job.gpus
			};
		}),
		...last.flatMap((attempts) => {
			const ended = attempts.at(-1);
			return ended ? [{
				kind: "job",
				key: jobKeyOf(ended),
				job: void 0,
				past: attempts,
				gpus: ended.gpus
			}] : [];
		})
	];
}
function endOf(attempts) {
	return Date.parse(attempts.at(-1)?.ended ?? "");
}
function topsOf(rows) {
	const tops = [0];
	let top = 0;
	for (const row of rows) {
		top += row.kind === "queue" ? 26 : 22;
		tops.push(top);
	}
	return tops;
}
function heightOf(rows) {
	return rows.tops.at(-1) ?? 0;
}
function rowAt(rows, distance) {
	if (distance < 0 || distance >= heightOf(rows)) return void 0;
	let [low, high] = [0, rows.rows.length - 1];
	while (low < high) {
		const middle = low + high + 1 >> 1;
		if ((rows.tops[middle] ?? 0) <= distance) low = middle;
		else high = middle - 1;
	}
	return low;
}
function rowOfJob(rows, key) {
	const index = key === void 0 ? -1 : rows.rows.findIndex((row) => row.kind === "job" && row.key === key);
	return index < 0 ? void 0 : index;
}
function stepRow(rows, from, step) {
	const jobs = rows.rows.flatMap((row, index) => row.kind === "job" ? [index] : []);
	if (jobs.length === 0) return void 0;
	const current = from === void 0 ? -1 : jobs.findIndex((index) => index >= from);
	const next = from === void 0 ? 0 : (current < 0 ? jobs.length - 1 : current) + step;
	return jobs[Math.min(Math.max(next, 0), jobs.length - 1)];
}
// src/views/timeline/describe-job.ts
function describeRow(row, now) {
	const { job } = row;
	const head = job === void 0 ? `${gangTitle(gangOfKey(row.key))}, queue ${row.past.at(-1)?.queue ?? ""}: neither pending nor placed.` : describeJob$1(job, now);
	const lines = shownAttempts(row.past).map((ended) => `${capital(describeAttempt(ended, now))}.`);
	const more = row.past.length - lines.length;
	return [
		head,
		...lines,
		...more > 0 ? [`${countOf(more, "earlier attempt")}.`] : []
	].join(" ");
}
function shownAttempts(past) {
	return past.slice(-3).reverse();
}
function describeJob$1(job, now) {
	const name = gangTitle({
		namespace: job.metadata.namespace ?? "",
		name: job.metadata.name
	});
	const place = job.position === void 0 ? "" : `, number ${job.position} of its queue`;
	return `${name}, queue ${job.queue}: ${phaseOf(job)} for ${formatAge(job.since, now)}, ${countOf(job.gpus, "GPU")}${place}, ${foreseen(job, now)}.`;
}
function foreseen(job, now) {
	return describeEta(job, now) ?? (isPending(job) ? "no known start" : "no known end");
}
function capital(text) {
	return text.charAt(0).toUpperCase() + text.slice(1);
}
// src/views/timeline/TimelineCard.tsx
function TimelineCard({ controller }) {
	const row = controller.chosenRow.value;
	if (row === void 0) return null;
	const { key, job, past } = row;
	return a("section", {
		class: "map-card timeline-card",
		"aria-label": "Chosen job",
		children: [
			a("div", {
				class: "map-card-head",
				children: [a("strong", { children: a(JobLink, { job: gangOfKey(key) }) }), a("button", {
					type: "button",
					class: "icon-button",
					"aria-label": "End the choice",
					onClick: () => controller.endChoice(),
					children: a(Icon, { name: "cross" })
				})]
			}),
			job && a($, { children: [a("div", {
				class: "map-card-row",
				children: [a(PhaseBadge, { phase: phaseOf(job) }), a("span", { children: foreseen(job, now.value) })]
			}), a("div", {
				class: "map-card-row",
				children: [a("span", { children: [
					countOf(job.gpus, "GPU"),
					", ",
					countOf(job.pods, "pod")
				] }), a("a", {
					href: urls.nodes({ job: key }),
					children: "show on map"
				})]
			})] }),
			shownAttempts(past).map((ended) => a("p", {
				class: "timeline-attempt",
				children: capital(describeAttempt(ended, now.value))
			}, ended.metadata.name))
		]
	});
}
// src/draw/timeline/free-curve.ts
function foreseenCurve(jobs, totals, now) {
	const changes = [];
	let held = 0;
	for (const job of jobs) if (isPending(job)) changes.push(...changesOfPending(job, now));
	else {
		held += job.gpus;
		const end = Date.parse(job.expectedEnd ?? "");
		if (end > now) changes.push({
			at: end,
			held: -job.gpus
		});
	}
	changes.sort((a, b) => a.at - b.at || a.held - b.held);
	const kind = totals === void 0 ? "held" : "free";
	const sign = kind === "held" ? 1 : -1;
	const values = accumulate(changes, totals?.usable ?? held, sign, now);
	const top = totals?.total ?? values.reduce((most, step) => Math.max(most, step.gpus), 1);
	return {
		kind,
		top,
		steps: values.map((step) => ({
			at: step.at,
			gpus: Math.min(Math.max(step.gpus, 0), top)
		}))
	};
}
function changesOfPending(job, now) {
	const start = Date.parse(job.expectedStart ?? "");
	if (Number.isNaN(start) || canNeverStart(job)) return [];
	const begin = Math.max(start, now);
	const end = Date.parse(job.expectedEnd ?? "");
	const changes = [{
		at: begin,
		held: job.gpus
	}];
	if (end > begin) changes.push({
		at: end,
		held: -job.gpus
	});
	return changes;
}
function accumulate(changes, from, sign, now) {
	const steps = [{
		at: now,
		gpus: from
	}];
	let gpus = from;
	for (const change of changes) {
		gpus += sign * change.held;
		const last = steps.at(-1);
		if (last !== void 0 && last.at === change.at) steps[steps.length - 1] = {
			at: change.at,
			gpus
		};
		else steps.push({
			at: change.at,
			gpus
		});
	}
	return steps;
}
function curveAt(curve, at) {
	let [low, high] = [0, curve.steps.length - 1];
	if (high < 0 || at < (curve.steps[0]?.at ?? 0)) return void 0;
	while (low < high) {
		const middle = low + high + 1 >> 1;
		if ((curve.steps[middle]?.at ?? 0) <= at) low = middle;
		else high = middle - 1;
	}
	return curve.steps[low]?.gpus;
}
// src/draw/timeline/time-scale.ts
var MINUTE = 6e4;
var HOUR = 60 * MINUTE;
var DAY = 24 * HOUR;
var SHORTEST = 5 * MINUTE;
var LONGEST = 60 * DAY;
var FARTHEST = 90 * DAY;
var TICK_PIXELS = 72;
var STEPS$1 = [
	MINUTE,
	2 * MINUTE,
	5 * MINUTE,
	10 * MINUTE,
	15 * MINUTE,
	30 * MINUTE,
	HOUR,
	2 * HOUR,
	3 * HOUR,
	6 * HOUR,
	12 * HOUR,
	DAY,
	2 * DAY,
	7 * DAY,
	14 * DAY
];
function placeOf(scale, at) {
	const { window, now, left, width } = scale;
	return left + (at - now + window.back) / (window.back + window.ahead) * width;
}
function timeAt(scale, place) {
	const { window, now, left, width } = scale;
	return now - window.back + (place - left) / width * (window.back + window.ahead);
}
function zoomTime(window, part, factor) {
	const length = window.back + window.ahead;
	const next = Math.min(Math.max(length / factor, SHORTEST), LONGEST);
	const fixed = part * length - window.back;
	return limit({
		back: part * next - fixed,
		ahead: (1 - part) * next + fixed
	});
}
function panTime(window, part) {
	const shift = part * (window.back + window.ahead);
	return limit({
		back: window.back - shift,
		ahead: window.ahead + shift
	});
}
function limit(window) {
	const length = window.back + window.ahead;
	const back = Math.min(Math.max(window.back, length - FARTHEST), FARTHEST);
	return {
		back,
		ahead: length - back
	};
}
function openingWindow(ends, now) {
	const sorted = ends.filter((end) => end > now).sort((a, b) => a - b);
	const most = sorted[Math.floor((sorted.length - 1) * .9)] ?? now;
	const ahead = Math.ceil((most - now) / (6 * HOUR)) * 6 * HOUR;
	return {
		back: DAY,
		ahead: Math.min(Math.max(ahead, 6 * HOUR), 2 * DAY)
	};
}
function ticksOf(scale, pixels = TICK_PIXELS) {
	const length = scale.window.back + scale.window.ahead;
	const step = STEPS$1.find((candidate) => candidate / length * scale.width >= pixels) ?? LONGEST;
	const [first, last] = [scale.now - scale.window.back, scale.now + scale.window.ahead];
	const ticks = [];
	for (let at = startOfStep(first, step); at <= last; at = nextStep(at, step)) if (at >= first) ticks.push(tickAt(at, step));
	return ticks;
}
function startOfStep(at, step) {
	const day = new Date(at);
	day.setHours(0, 0, 0, 0);
	return day.getTime() + Math.floor((at - day.getTime()) / step) * step;
}
function nextStep(at, step) {
	const next = new Date(at + step);
	if (step < DAY) {
		const midnight = new Date(at);
		midnight.setHours(24, 0, 0, 0);
		return Math.min(at + step, midnight.getTime() > at ? midnight.getTime() : at + step);
	}
	next.setTime(at + step + 12 * HOUR);
	next.setHours(0, 0, 0, 0);
	return next.getTime();
}
function tickAt(at, step) {
	const date = new Date(at);
	const isDay = date.getHours() === 0 && date.getMinutes() === 0;
	const pad = (value) => String(value).padStart(2, "0");
	const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
	return {
		at,
		label: isDay || step >= DAY ? day.slice(5) : `${pad(date.getHours())}:${pad(date.getMinutes())}`,
		isDay
	};
}
function writeHours(milliseconds) {
	return `${Math.round(milliseconds / HOUR * 100) / 100}h`;
}
function readHours(text) {
	const match = /^(-?\d{1,6}(?:\.\d{1,4})?)([mhd])$/.exec(text ?? "");
	const unit = {
		m: MINUTE,
		h: HOUR,
		d: DAY
	}[match?.[2] ?? ""];
	return match === null || unit === void 0 ? void 0 : Number(match[1]) * unit;
}
function readWindow(from, to) {
	const [first, last] = [readHours(from), readHours(to)];
	if (first === void 0 || last === void 0 || last - first < SHORTEST || last - first > LONGEST) return void 0;
	return limit({
		back: -first,
		ahead: last
	});
}
// src/views/timeline/model.ts
var totals = O(() => {
	if (nodes.nodes.value.size === 0) return void 0;
	const sums = sumDevices(nodes.nodes.value.values());
	return {
		total: sums.reduce((sum, device) => sum + device.total, 0),
		usable: sums.reduce((sum, device) => sum + device.usable, 0)
	};
});
var STEP_MS = 1e4;
var steppedTime = O(() => Math.floor(now.value.getTime() / STEP_MS) * STEP_MS);
var curve = O(() => foreseenCurve(queue.jobs.value.values(), totals.value, steppedTime.value));
var urlWindow = O(() => {
	const params = query.value;
	return readWindow(params.get("from") ?? void 0, params.get("to") ?? void 0);
});
function firstWindow() {
	return openingWindow([...queue.jobs.peek().values()].map((job) => Date.parse(job.expectedEnd ?? "")), now.peek().getTime());
}
// src/views/timeline/TimelineTip.tsx
var DISTANCE = 14;
function TimelineTip({ controller }) {
	const box = T(null);
	const pointed = controller.pointed.value;
	F(() => {
		const element = box.current;
		const room = element?.parentElement;
		if (!element || !room || !pointed) return;
		const { x, y } = pointed.at;
		const top = y + DISTANCE + element.offsetHeight <= room.clientHeight ? y + DISTANCE : y - DISTANCE - element.offsetHeight;
		const left = Math.min(x + DISTANCE, room.clientWidth - element.offsetWidth - 4);
		element.style.transform = `translate(${Math.round(Math.max(left, 4))}px, ${Math.round(Math.max(top, 4))}px)`;
	});
	if (pointed === void 0) return null;
	const { row, ended, gpus, time } = pointed;
	return a("div", {
		class: "map-tip",
		ref: box,
		"aria-hidden": "true",
		children: [
			row && a("div", {
				class: "map-tip-head",
				children: [a("strong", { children: a(Name, { text: gangTitle(gangOfKey(row.key)) }) }), time !== void 0 && a("span", {
					class: "dim",
					children: formatClock(new Date(time), now.value)
				})]
			}),
			row && a(RowText, {
				row,
				ended
			}),
			gpus !== void 0 && time !== void 0 && a("div", { children: [
				a("strong", { children: formatClock(new Date(time), now.value) }),
				": ",
				formatCount(gpus),
				" ",
				curve.value.kind === "free" ? `of ${formatCount(curve.value.top)} GPUs free` : "GPUs held by the listed jobs",
				", no promise"
			] })
		]
	});
}
function RowText({ row, ended }) {
	const shown = ended ?? (row.job === void 0 ? row.past.at(-1) : void 0);
	if (shown !== void 0) return a(AttemptText, { ended: shown });
	return row.job === void 0 ? null : a(JobText, { job: row.job });
}
function AttemptText({ ended }) {
	return a($, { children: [
		a("div", { children: capital(describeAttempt(ended, now.value)) }),
		a("div", {
			class: "dim",
			children: [
				countOf(ended.gpus, "GPU"),
				", ",
				formatClock(ended.placed, now.value),
				" to ",
				formatClock(ended.ended, now.value)
			]
		}),
		ended.user !== void 0 && a("div", {
			class: "dim",
			children: a(Name, { text: ended.user })
		})
	] });
}
function JobText({ job }) {
	const reason = describeReason(job);
	return a($, { children: [
		a("div", { children: [
			phaseOf(job),
			" for ",
			formatAge(job.since, now.value),
			", ",
			countOf(job.gpus, "GPU"),
			", ",
			foreseen(job, now.value)
		] }),
		job.user !== void 0 && a("div", {
			class: "dim",
			children: a(Name, { text: job.user })
		}),
		reason !== "" && a("div", {
			class: "dim",
			children: a(Text, {
				text: reason,
				max: 160
			})
		})
	] });
}
// src/draw/timeline/past-runs.ts
var runs = new WeakMap();
function pastRun(ended) {
	const known = runs.get(ended);
	if (known !== void 0) return known;
	const [from, to, saved] = [
		Date.parse(ended.placed),
		Date.parse(ended.ended),
		checkpointOf(ended)
	];
	const checkpoint = saved === void 0 ? void 0 : Date.parse(saved);
	const run = {
		from: Math.min(from, to),
		to,
		end: endKind(ended),
		checkpoint
	};
	runs.set(ended, run);
	return run;
}
function attemptAt(attempts, at, reach) {
	let nearest;
	for (const ended of attempts) {
		const { from, to } = pastRun(ended);
		const distance = Math.max(from - at, at - to, 0);
		if (distance <= reach && (nearest === void 0 || distance < nearest.distance)) nearest = {
			ended,
			distance
		};
	}
	return nearest?.ended;
}
// src/draw/timeline/frame.ts
var AXIS = 26;
var CURVE = 76;
var NARROW = 620;
function frameOf(window) {
	const labels = window.width < NARROW ? 112 : 248;
	const width = Math.max(window.width - labels, 1);
	const top = 102;
	const height = Math.max(window.height - top, 1);
	return {
		labels,
		axis: {
			x: labels,
			y: 0,
			width,
			height: AXIS
		},
		curve: {
			x: labels,
			y: AXIS,
			width,
			height: CURVE
		},
		rows: {
			x: 0,
			y: top,
			width: window.width,
			height
		},
		bars: {
			x: labels,
			y: top,
			width,
			height
		}
	};
}
// src/draw/timeline/paint-axis.ts
var NOW_WIDTH = 36;
function paintAxis(paint, ticks) {
	const { context, theme, frame, scale } = paint;
	const bottom = frame.rows.y + frame.rows.height;
	const now = placeOf(scale, scale.now);
	context.textBaseline = "middle";
	context.textAlign = "left";
	for (const tick of ticks) {
		const x = crisp(placeOf(scale, tick.at), paint.ratio);
		context.fillStyle = tick.isDay ? theme.line : theme.boxLine;
		context.fillRect(x, tick.isDay ? 4 : frame.axis.height - 5, 1 / paint.ratio, bottom);
		context.fillStyle = tick.isDay ? theme.ink : theme.faint;
		context.font = `${tick.isDay ? 600 : 400} 11px ${theme.font}`;
		const width = context.measureText(tick.label).width;
		if (!(x + 4 < now + NOW_WIDTH && x + 4 + width > now - 4) && x + 4 + width <= frame.axis.x + frame.axis.width) context.fillText(tick.label, x + 4, frame.axis.height / 2);
	}
}
function paintNow(paint, height) {
	const { context, theme, frame, scale } = paint;
	const x = crisp(placeOf(scale, scale.now), paint.ratio);
	if (x < frame.bars.x || x > frame.bars.x + frame.bars.width) return;
	context.fillStyle = theme.focus;
	context.fillRect(x - .75, 0, 1.5, height);
	context.font = `600 11px ${theme.font}`;
	const width = context.measureText("now").width + 8;
	const left = Math.min(x, frame.bars.x + frame.bars.width - width);
	context.fillRect(left, 0, width, 16);
	context.fillStyle = theme.ground;
	context.textBaseline = "middle";
	context.fillText("now", left + 4, 8.5);
}
function crisp(place, ratio) {
	return Math.round(place * ratio) / ratio;
}
// src/draw/timeline/paint-curve.ts
var PADDING = {
	top: 14,
	bottom: 8
};
function paintCurve(paint, curve) {
	const { context, theme, frame } = paint;
	const { x, y, width, height } = frame.curve;
	context.save();
	context.beginPath();
	context.rect(x, y, width, height);
	context.clip();
	paintSteps(paint, curve);
	context.restore();
	context.fillStyle = theme.line;
	context.fillRect(0, crisp(y + height, paint.ratio) - 1 / paint.ratio, frame.rows.width, 1 / paint.ratio);
	paintLabels(paint, curve);
}
function paintSteps(paint, curve) {
	const { context, theme, frame, scale } = paint;
	const { y, height } = frame.curve;
	const base = y + height - PADDING.bottom;
	const room = height - PADDING.top - PADDING.bottom;
	const levelOf = (gpus) => base - gpus / Math.max(curve.top, 1) * room;
	const right = frame.curve.x + frame.curve.width;
	const from = Math.max(placeOf(scale, scale.now), frame.curve.x);
	if (from > right) return;
	const path = new Path2D();
	const line = new Path2D();
	let level = levelOf(curve.steps[0]?.gpus ?? 0);
	path.moveTo(from, base);
	path.lineTo(from, level);
	line.moveTo(from, level);
	let drawn = from;
	for (const step of curve.steps) {
		const x = Math.max(placeOf(scale, step.at), from);
		if (x > right) break;
		if (x - drawn >= .5) {
			path.lineTo(x, level);
			line.lineTo(x, level);
			drawn = x;
		}
		level = levelOf(step.gpus);
		path.lineTo(drawn, level);
		line.lineTo(drawn, level);
	}
	path.lineTo(right, level);
	line.lineTo(right, level);
	path.lineTo(right, base);
	path.closePath();
	context.fillStyle = theme.boxes[1] ?? theme.tile;
	context.fill(path);
	context.strokeStyle = theme.fits;
	context.lineWidth = 1.5;
	context.stroke(line);
	context.fillStyle = theme.freeLine;
	context.fillRect(from, base, right - from, 1 / paint.ratio);
	context.fillRect(from, base - room, right - from, 1 / paint.ratio);
}
function paintLabels(paint, curve) {
	const { context, theme, frame, scale } = paint;
	const { y, height } = frame.curve;
	const width = frame.labels - 16;
	const word = curve.kind === "free" ? "Free GPUs" : "GPUs held by jobs";
	const title = frame.labels < 160 ? word : `${word}, foreseen`;
	const now = curveAt(curve, scale.now) ?? 0;
	const of = curve.kind === "free" ? ` of ${formatCount(curve.top)}` : "";
	context.textBaseline = "middle";
	context.textAlign = "left";
	context.font = `600 11px ${theme.font}`;
	context.fillStyle = theme.ink;
	context.fillText(fitText(context, title, width, "start"), 10, y + height / 2 - 9);
	context.font = `11px ${theme.font}`;
	context.fillStyle = theme.faint;
	context.fillText(fitText(context, `now ${formatCount(now)}${of}`, width, "start"), 10, y + height / 2 + 9);
}
// src/draw/timeline/job-spans.ts
function spansOf(job, now, past = []) {
	if (job === void 0) return {
		...NOTHING,
		past
	};
	return isPending(job) ? pendingSpans(job, now, past) : placedSpans(job, now, past);
}
var NOTHING = {
	past: [],
	wait: void 0,
	foreseenWait: void 0,
	solid: void 0,
	hatched: void 0,
	outline: void 0,
	isOverdue: false,
	isNever: false,
	isGone: true
};
function placedSpans(job, now, past) {
	const [submitted, since, end] = [
		parse(job.submitted),
		parse(job.since),
		parse(job.expectedEnd)
	];
	const begin = Math.min(since ?? now, now);
	const isOverdue = end !== void 0 && end <= now;
	return {
		past,
		wait: submitted !== void 0 && submitted < begin ? {
			from: submitted,
			to: begin
		} : void 0,
		foreseenWait: void 0,
		solid: {
			from: begin,
			to: now
		},
		hatched: isOverdue ? void 0 : {
			from: now,
			to: end
		},
		outline: void 0,
		isOverdue,
		isNever: false,
		isGone: false
	};
}
function pendingSpans(job, now, past) {
	const [submitted, start, end] = [
		parse(job.submitted),
		parse(job.expectedStart),
		parse(job.expectedEnd)
	];
	const isNever = canNeverStart(job);
	const begin = start === void 0 || isNever ? void 0 : Math.max(start, now);
	return {
		past,
		wait: {
			from: Math.min(submitted ?? now, now),
			to: now
		},
		foreseenWait: begin !== void 0 && begin > now ? {
			from: now,
			to: begin
		} : void 0,
		solid: void 0,
		hatched: void 0,
		outline: begin === void 0 ? void 0 : {
			from: begin,
			to: end !== void 0 && end > begin ? end : void 0
		},
		isOverdue: false,
		isNever,
		isGone: false
	};
}
function parse(time) {
	const at = Date.parse(time ?? "");
	return Number.isNaN(at) ? void 0 : at;
}
// src/draw/timeline/paint-run.ts
var INSET = 3;
var REACH$1 = 4;
function paintRun(paint, run, colour, y, height) {
	const { context, theme, frame, scale, ratio } = paint;
	const edge = frame.bars.x + frame.bars.width;
	const left = crisp(Math.min(Math.max(placeOf(scale, run.from), frame.bars.x - 10), edge + 10), ratio);
	const end = crisp(Math.min(placeOf(scale, run.to), edge + 10), ratio);
	if (end < frame.bars.x - 10 || left > edge) return;
	const width = Math.max(end - left, 2);
	const [top, size] = [y + INSET, height - 6];
	context.fillStyle = theme.ground;
	context.fillRect(left, top, width, size);
	context.globalAlpha = .45;
	context.fillStyle = colour;
	context.fillRect(left, top, width, size);
	context.globalAlpha = 1;
	if (run.checkpoint !== void 0) {
		context.fillStyle = theme.ink;
		context.fillRect(crisp(placeOf(scale, run.checkpoint), ratio) - .75, top - 2, 1.5, size + 4);
	}
	paintMark(paint, run.end, left + width, y + height / 2);
}
function paintMark({ context, theme }, end, x, y) {
	context.strokeStyle = end === "failed" ? theme.bad : theme.ink;
	context.lineWidth = end === "failed" ? 2 : 1.5;
	context.beginPath();
	switch (end) {
		case "complete": return;
		case "failed":
			context.moveTo(x - REACH$1, y - REACH$1);
			context.lineTo(x + REACH$1, y + REACH$1);
			context.moveTo(x - REACH$1, y + REACH$1);
			context.lineTo(x + REACH$1, y - REACH$1);
			break;
		case "preempted":
			context.moveTo(x + 1, y - REACH$1 - 1);
			context.lineTo(x - REACH$1 - 1, y);
			context.lineTo(x + 1, y + REACH$1 + 1);
			context.fillStyle = theme.ground;
			context.fill();
			break;
		case "suspended":
			context.moveTo(x + 2, y - REACH$1);
			context.lineTo(x + 2, y + REACH$1);
			context.moveTo(x + 5, y - REACH$1);
			context.lineTo(x + 5, y + REACH$1);
			break;
		case "deleted":
			context.arc(x + REACH$1, y, 3, 0, 2 * Math.PI);
			break;
		case "other":
			context.moveTo(x, y - REACH$1 - 2);
			context.lineTo(x, y + REACH$1 + 2);
	}
	context.stroke();
}
// src/draw/timeline/paint-bars.ts
var MARGIN = 4;
var OPEN_LENGTH = 56;
function paintBars(paint, spans, colour, top) {
	const { context, theme, patterns } = paint;
	const [y, height] = [top + MARGIN, 14];
	const middle = top + 11;
	if (spans.wait !== void 0) fillSpan(paint, spans.wait, middle - 1, 2, theme.faint);
	for (const run of spans.past) paintRun(paint, run, colour, y, height);
	if (spans.foreseenWait !== void 0) dotSpan(paint, spans.foreseenWait, middle, theme.faint);
	if (spans.hatched !== void 0) {
		const tail = boundsOf(paint, spans.hatched);
		context.fillStyle = colour;
		context.fillRect(tail.left, y, tail.width, height);
		context.fillStyle = patterns.hatch;
		context.fillRect(tail.left, y, tail.width, height);
		if (spans.hatched.to === void 0) paintOpenEnd(paint, tail.left + tail.width, y, height);
		else frameRect(paint, tail.left, y, tail.width, height, colour);
	}
	if (spans.solid !== void 0) fillSpan(paint, spans.solid, y, height, colour);
	if (spans.outline !== void 0) {
		const outline = boundsOf(paint, spans.outline);
		if (spans.outline.to === void 0) openFrame(paint, outline.left, y, outline.width, height, colour);
		else frameRect(paint, outline.left, y, outline.width, height, colour, 1.5);
	}
	if (spans.isOverdue) paintNote(paint, "overdue", middle, theme.bad);
	if (spans.isNever) paintNote(paint, "never as it is", middle, theme.bad);
	else if (spans.solid === void 0 && spans.outline === void 0 && !spans.isGone) paintNote(paint, "no known start", middle, theme.faint);
}
function boundsOf(paint, span) {
	const { frame, scale, ratio } = paint;
	const edge = frame.bars.x + frame.bars.width;
	const from = Math.min(Math.max(placeOf(scale, span.from), frame.bars.x - 10), edge + 10);
	const end = span.to === void 0 ? placeOf(scale, span.from) + OPEN_LENGTH : placeOf(scale, span.to);
	const left = crisp(from, ratio);
	return {
		left,
		width: Math.max(crisp(Math.min(end, edge + 10), ratio) - left, 2)
	};
}
function fillSpan(paint, span, y, height, colour) {
	const { left, width } = boundsOf(paint, span);
	paint.context.fillStyle = colour;
	paint.context.fillRect(left, y, width, height);
}
function dotSpan(paint, span, middle, colour) {
	const { left, width } = boundsOf(paint, span);
	const { context } = paint;
	context.strokeStyle = colour;
	context.lineWidth = 2;
	context.setLineDash([2, 4]);
	context.beginPath();
	context.moveTo(left, middle);
	context.lineTo(left + width, middle);
	context.stroke();
	context.setLineDash([]);
}
function frameRect(paint, x, y, width, height, colour, line = 1) {
	const { context } = paint;
	context.strokeStyle = colour;
	context.lineWidth = line;
	context.strokeRect(x + line / 2, y + line / 2, Math.max(width - line, 1), height - line);
}
function openFrame(paint, x, y, width, height, colour) {
	const { context } = paint;
	context.strokeStyle = colour;
	context.lineWidth = 1.5;
	context.beginPath();
	context.moveTo(x + width, y + .75);
	context.lineTo(x + .75, y + .75);
	context.lineTo(x + .75, y + height - .75);
	context.lineTo(x + width, y + height - .75);
	context.stroke();
}
function paintOpenEnd(paint, right, y, height) {
	const { context, theme } = paint;
	const teeth = 3;
	context.fillStyle = theme.ground;
	context.beginPath();
	context.moveTo(right + 2, y - 1);
	for (let tooth = 0; tooth < teeth; tooth += 1) {
		context.lineTo(right, y - 1 + (height + 2) * tooth / teeth);
		context.lineTo(right - 6, y - 1 + (height + 2) * (tooth + .5) / teeth);
	}
	context.lineTo(right, y + height + 1);
	context.lineTo(right + 2, y + height + 1);
	context.fill();
}
function paintNote(paint, text, middle, colour) {
	const { context, theme, frame, scale } = paint;
	const x = placeOf(scale, scale.now) + 7;
	if (x < frame.bars.x || x > frame.bars.x + frame.bars.width) return;
	context.font = `11px ${theme.font}`;
	context.textBaseline = "middle";
	context.textAlign = "left";
	context.fillStyle = colour;
	context.fillText(text, x, middle + .5);
}
// src/draw/timeline/paint-rows.ts
var LEAST_THUMB = 24;
function paintRows(paint, scene) {
	const { context, frame } = paint;
	const { x, y, width, height } = frame.rows;
	context.save();
	context.beginPath();
	context.rect(x, y, width, height);
	context.clip();
	const first = rowAt(scene.rows, scene.scroll) ?? 0;
	for (let index = first; index < scene.rows.rows.length; index += 1) {
		const top = y + (scene.rows.tops[index] ?? 0) - scene.scroll;
		if (top >= y + height) break;
		const row = scene.rows.rows[index];
		if (row?.kind === "queue") paintGroup(paint, row, top);
		else if (row?.kind === "job") paintJob(paint, scene, row, index, top);
	}
	context.restore();
	paintScrollBar(paint, scene);
}
function paintGroup(paint, row, top) {
	const { context, theme, frame } = paint;
	const middle = top + 13;
	context.fillStyle = theme.boxes[1] ?? theme.ground;
	context.fillRect(0, top, frame.rows.width, 26);
	context.textBaseline = "middle";
	context.textAlign = "left";
	context.font = `600 12px ${theme.font}`;
	context.fillStyle = theme.ink;
	const name = fitText(context, row.queue, frame.labels - 20, "start");
	context.fillText(name, 10, middle);
	const after = Math.max(10 + context.measureText(name).width + 14, frame.labels + 6);
	context.font = `11px ${theme.font}`;
	context.fillStyle = theme.faint;
	const counts = `${formatCount(row.placed)} placed, hold ${formatCount(row.gpus)} GPUs; ${formatCount(row.pending)} pending${endedText(row.ended)}`;
	context.fillText(fitText(context, counts, frame.rows.width - after - 12, "start"), after, middle);
}
function endedText(ended) {
	if (ended === 0) return "";
	return `; ${formatCount(ended)} ended${ended > 50 ? `, the last 50 are shown` : ""}`;
}
function paintJob(paint, scene, row, index, top) {
	const { context, theme, frame } = paint;
	if (index === scene.hover || index === scene.focus) {
		context.fillStyle = theme.boxes[0] ?? theme.ground;
		context.fillRect(0, top, frame.rows.width, 22);
	}
	context.save();
	context.beginPath();
	context.rect(frame.bars.x, top, frame.bars.width, 22);
	context.clip();
	paintBars(paint, spansOf(row.job, scene.now, row.past.map(pastRun)), theme.gangs[colourNumber(row.key)] ?? theme.unknown, top);
	context.restore();
	paintLabel(paint, row, top);
	if (index !== scene.focus) return;
	context.strokeStyle = theme.focus;
	context.lineWidth = 2;
	context.strokeRect(1, top + 1, frame.rows.width - 2, 20);
}
function paintLabel(paint, row, top) {
	const { context, theme, frame } = paint;
	const middle = top + 11 + .5;
	const gpus = formatCount(row.gpus);
	context.textBaseline = "middle";
	context.font = `11px ${theme.font}`;
	context.fillStyle = theme.faint;
	context.textAlign = "right";
	context.fillText(gpus, frame.labels - 10, middle);
	context.textAlign = "left";
	context.fillStyle = row.job === void 0 ? theme.faint : theme.ink;
	const room = frame.labels - 32 - context.measureText(gpus).width;
	const title = gangTitle(gangOfKey(row.key));
	context.fillText(fitText(context, title, room, "end"), 14, middle);
}
function paintScrollBar(paint, scene) {
	const { context, theme, frame } = paint;
	const [all, room] = [heightOf(scene.rows), frame.rows.height];
	if (all <= room) return;
	const length = Math.max(room / all * room, LEAST_THUMB);
	const top = frame.rows.y + scene.scroll / (all - room) * (room - length);
	context.fillStyle = theme.freeLine;
	context.fillRect(frame.rows.width - 6, top, 5, length);
}
// src/draw/timeline/timeline.ts
var Timeline = class {
	#canvas;
	#context;
	#window = {
		width: 1,
		height: 1
	};
	#ratio = 1;
	#theme;
	#patterns;
	constructor(canvas) {
		this.#canvas = canvas;
		this.#context = canvas.getContext("2d", { alpha: false });
	}
	get frame() {
		return frameOf(this.#window);
	}
	resize(window, ratio) {
		const isSharper = ratio !== this.#ratio;
		[this.#window, this.#ratio] = [window, ratio];
		this.#canvas.width = Math.max(Math.round(window.width * ratio), 1);
		this.#canvas.height = Math.max(Math.round(window.height * ratio), 1);
		if (isSharper && this.#theme !== void 0) this.setTheme(this.#theme);
	}
	setTheme(theme) {
		this.#theme = theme;
		this.#patterns = buildPatterns(this.#context, theme, this.#ratio);
	}
	scaleOf(scene) {
		const { bars } = this.frame;
		return {
			window: scene.window,
			now: scene.now,
			left: bars.x,
			width: bars.width
		};
	}
	scrollRoom(rows) {
		return Math.max(heightOf(rows) - this.frame.rows.height, 0);
	}
	hit(scene, at) {
		const { rows, bars } = this.frame;
		return {
			row: contains(rows, at) ? rowAt(scene.rows, at.y - rows.y + scene.scroll) : void 0,
			at: at.x >= bars.x ? timeAt(this.scaleOf(scene), at.x) : void 0
		};
	}
	draw(scene) {
		if (this.#theme === void 0 || this.#patterns === void 0) return;
		const [context, frame, scale] = [
			this.#context,
			this.frame,
			this.scaleOf(scene)
		];
		const paint = {
			context,
			theme: this.#theme,
			patterns: this.#patterns,
			ratio: this.#ratio,
			frame,
			scale
		};
		context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
		anchorPatterns(this.#patterns, placeOf(scale, scene.now), -scene.scroll, 1 / this.#ratio);
		context.fillStyle = this.#theme.ground;
		context.fillRect(0, 0, this.#window.width, this.#window.height);
		paintAxis(paint, ticksOf(scale));
		paintCurve(paint, scene.curve);
		paintRows(paint, scene);
		paintNow(paint, this.#window.height);
	}
};
// src/views/timeline/timeline-controller.ts
var SETTLE_MS = 350;
var KEY_PAN = 1 / 8;
var REACH = 6;
var TimelineController = class {
	pointed = y(void 0);
	chosen = y(void 0);
	chosenRow = y(void 0);
	#timeline;
	#frames = new FramePlanner(() => this.#timeline.draw(this.#scene));
	#stopGestures;
	#settle;
	#isMoved = false;
	#scene;
	constructor(canvas, rows, curve, now, window) {
		this.#timeline = new Timeline(canvas);
		this.#isMoved = window !== void 0;
		this.#scene = {
			rows,
			curve,
			now,
			window: window ?? firstWindow(),
			scroll: 0,
			focus: void 0,
			hover: void 0
		};
		this.#stopGestures = listenToGestures(canvas, {
			pan: (dx, dy) => this.#pan(dx, dy),
			zoom: (at, factor) => this.#zoomAt(at, factor),
			wheel: (event, at) => this.#wheel(event, at),
			point: (at) => this.#point(at),
			click: (at) => this.#click(at),
			doubleClick: () => this.#open()
		});
	}
	stop() {
		this.#stopGestures();
		this.#frames.cancel();
		clearTimeout(this.#settle);
	}
	resize(window, ratio) {
		this.#timeline.resize(window, ratio);
		this.#change({ scroll: this.#limitScroll(this.#scene.scroll) });
	}
	setTheme(theme) {
		this.#timeline.setTheme(theme);
		this.#frames.plan();
	}
	setRows(rows) {
		const focus = rowOfJob(rows, this.chosen.peek());
		const row = focus === void 0 ? void 0 : rows.rows[focus];
		this.chosenRow.value = row?.kind === "job" ? row : void 0;
		this.#change({
			rows,
			focus,
			hover: void 0
		});
		this.#change({ scroll: this.#limitScroll(this.#scene.scroll) });
	}
	setTime(curve, now) {
		this.#change({
			curve,
			now
		});
	}
	followUrl(window) {
		if (this.#settle !== void 0 || window === void 0 && !this.#isMoved) return;
		this.#isMoved = window !== void 0;
		this.#change({ window: window ?? firstWindow() });
	}
	zoom(factor) {
		const { back, ahead } = this.#scene.window;
		const part = back / (back + ahead);
		this.#setWindow(zoomTime(this.#scene.window, part > 0 && part < 1 ? part : .5, factor));
	}
	reset() {
		this.#isMoved = false;
		this.#change({ window: firstWindow() });
		this.#planUrl();
	}
	key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey) return false;
		const page = Math.max(Math.floor(this.#timeline.frame.rows.height / 22) - 2, 1);
		switch (event.key) {
			case "ArrowUp": return this.#walk(-1);
			case "ArrowDown": return this.#walk(1);
			case "PageUp": return this.#walk(-page);
			case "PageDown": return this.#walk(page);
			case "Home": return this.#walk(-this.#scene.rows.rows.length);
			case "End": return this.#walk(this.#scene.rows.rows.length);
			case "ArrowLeft": return this.#setWindow(panTime(this.#scene.window, -.125));
			case "ArrowRight": return this.#setWindow(panTime(this.#scene.window, KEY_PAN));
			case "Enter": return this.#open();
			case "Escape": return this.#choose(void 0);
			default: return false;
		}
	}
	step(sign) {
		this.zoom(ZOOM_STEP ** sign);
	}
	endChoice() {
		this.#choose(void 0);
	}
	#change(change) {
		this.#scene = {
			...this.#scene,
			...change
		};
		this.#frames.plan();
	}
	#setWindow(window) {
		this.#isMoved = true;
		this.#change({ window });
		this.#planUrl();
		return true;
	}
	#planUrl() {
		clearTimeout(this.#settle);
		this.#settle = setTimeout(() => {
			this.#settle = void 0;
			const { back, ahead } = this.#scene.window;
			setQuery({
				from: this.#isMoved ? writeHours(-back) : void 0,
				to: this.#isMoved ? writeHours(ahead) : void 0
			});
		}, SETTLE_MS);
	}
	#pan(dx, dy) {
		const scroll = this.#limitScroll(this.#scene.scroll - dy);
		this.#change({ scroll });
		if (dx !== 0) this.#setWindow(panTime(this.#scene.window, -dx / this.#timeline.frame.bars.width));
	}
	#zoomAt(at, factor) {
		const { bars } = this.#timeline.frame;
		const part = Math.min(Math.max((at.x - bars.x) / bars.width, 0), 1);
		this.#setWindow(zoomTime(this.#scene.window, part, factor));
	}
	#wheel(event, at) {
		const pixels = wheelPixels(event);
		if (event.ctrlKey) this.#zoomAt(at, wheelFactor(event));
		else if (event.shiftKey || Math.abs(pixels.x) > Math.abs(pixels.y)) this.#pan(-(pixels.x || pixels.y), 0);
		else {
			const scroll = this.#limitScroll(this.#scene.scroll + pixels.y);
			if (scroll === this.#scene.scroll) return false;
			this.#change({ scroll });
		}
		this.#point(at);
		return true;
	}
	#point(at) {
		const hit = at === void 0 ? void 0 : this.#timeline.hit(this.#scene, at);
		const found = hit?.row === void 0 ? void 0 : this.#scene.rows.rows[hit.row];
		const row = found?.kind === "job" ? found : void 0;
		const gpus = at !== void 0 && hit?.at !== void 0 && contains(this.#timeline.frame.curve, at) && hit?.at !== void 0 ? curveAt(this.#scene.curve, hit.at) : void 0;
		const ended = row && hit?.at !== void 0 ? attemptAt(row.past, hit.at, this.#reach()) : void 0;
		this.pointed.value = at !== void 0 && (row !== void 0 || gpus !== void 0) ? {
			row,
			ended,
			gpus,
			at,
			time: hit?.at
		} : void 0;
		const hover = row === void 0 ? void 0 : hit?.row;
		if (hover !== this.#scene.hover) this.#change({ hover });
	}
	#reach() {
		const { back, ahead } = this.#scene.window;
		return REACH / this.#timeline.frame.bars.width * (back + ahead);
	}
	#click(at) {
		const { row } = this.#timeline.hit(this.#scene, at);
		this.#choose(row);
	}
	#choose(index) {
		const row = index === void 0 ? void 0 : this.#scene.rows.rows[index];
		const isJob = row?.kind === "job";
		this.chosen.value = isJob ? row.key : void 0;
		this.chosenRow.value = isJob ? row : void 0;
		this.#change({ focus: isJob ? index : void 0 });
		return true;
	}
	#walk(step) {
		const index = stepRow(this.#scene.rows, this.#scene.focus, step);
		const row = index === void 0 ? void 0 : this.#scene.rows.rows[index];
		if (index === void 0 || row?.kind !== "job") return true;
		this.#choose(index);
		this.#reveal(index);
		announce(describeRow(row, new Date(this.#scene.now)));
		return true;
	}
	#reveal(index) {
		const [top = 0, bottom = 0] = this.#scene.rows.tops.slice(index, index + 2);
		const room = this.#timeline.frame.rows.height;
		const scroll = Math.min(Math.max(this.#scene.scroll, bottom - room + 8), top - 8);
		this.#change({ scroll: this.#limitScroll(scroll) });
	}
	#open() {
		const key = this.chosen.peek();
		if (key === void 0) return false;
		navigate(urls.job(gangOfKey(key)));
		return true;
	}
	#limitScroll(scroll) {
		return Math.min(Math.max(scroll, 0), this.#timeline.scrollRoom(this.#scene.rows));
	}
};
// src/views/timeline/TimelineCanvas.tsx
function TimelineCanvas({ rows }) {
	const frame = T(null);
	const canvas = T(null);
	const [controller, setController] = d(void 0);
	const size = useSignal({
		width: 1,
		height: 1
	});
	A(() => {
		const box = frame.current;
		if (canvas.current === null || box === null) return;
		const made = new TimelineController(canvas.current, rows, curve.peek(), now.peek().getTime(), urlWindow.peek());
		size.value = {
			width: box.clientWidth,
			height: box.clientHeight
		};
		const stops = [
			followSize(box, (next) => size.value = next),
			x(() => made.resize(size.value, devicePixelRatio)),
			followTheme(box, (theme) => made.setTheme(theme)),
			x(() => made.setTime(curve.value, now.value.getTime())),
			x(() => made.followUrl(urlWindow.value))
		];
		setController(made);
		return () => {
			for (const stop of stops) stop();
			made.stop();
		};
	}, []);
	A(() => controller?.setRows(rows), [controller, rows]);
	useShortcuts("Timeline", [
		{
			keys: "+",
			label: "Zoom in",
			run: () => controller?.step(1)
		},
		{
			keys: "-",
			label: "Zoom out",
			run: () => controller?.step(-1)
		},
		{
			keys: "0",
			label: "Show 24 hours back and what is foreseen",
			run: () => controller?.reset()
		}
	]);
	return a("div", {
		class: "timeline-frame",
		ref: frame,
		children: [
			a("div", {
				class: "map-canvas",
				role: "application",
				"aria-label": "Timeline of jobs",
				"aria-describedby": "timeline-keys",
				tabIndex: 0,
				onKeyDown: (event) => {
					if (controller?.key(event)) event.preventDefault();
				},
				children: a("canvas", {
					ref: canvas,
					"aria-hidden": "true"
				})
			}),
			a("p", {
				id: "timeline-keys",
				class: "hidden",
				children: "Up and Down walk from job to job, Left and Right move time. Enter opens the page of the job, Escape ends the choice. T shows the same jobs as a table."
			}),
			controller && a($, { children: [
				a(ZoomButtons, {
					whole: "Show 24 hours back",
					zoomIn: () => controller.step(1),
					zoomOut: () => controller.step(-1),
					showWhole: () => controller.reset()
				}),
				a(TimelineTip, { controller }),
				a(TimelineCard, { controller })
			] })
		]
	});
}
// src/views/timeline/TimelineLegend.tsx
var ENTRIES = [
	{
		sample: a("span", { class: "time-sample time-wait" }),
		text: "pending"
	},
	{
		sample: a("span", { class: "time-sample time-solid" }),
		text: "placed, from its start until now"
	},
	{
		sample: a("span", { class: "time-sample time-hatched" }),
		text: "until its expected end"
	},
	{
		sample: a("span", { class: "time-sample time-open" }),
		text: "no known end"
	},
	{
		sample: a("span", { class: "time-sample time-outline" }),
		text: "foreseen start"
	}
];
var ENDED = [
	{
		sample: a(Mark, {}),
		text: "ended attempt, complete"
	},
	{
		sample: a(Mark, { children: a("path", {
			class: "time-mark-bad",
			d: "M14 2l8 8M14 10l8-8"
		}) }),
		text: "failed"
	},
	{
		sample: a(Mark, { children: a("path", {
			class: "time-mark time-mark-notch",
			d: "M19 1l-6 5 6 5"
		}) }),
		text: "preempted"
	},
	{
		sample: a(Mark, { children: a("path", {
			class: "time-mark",
			d: "M20 2v8M23 2v8"
		}) }),
		text: "suspended"
	},
	{
		sample: a(Mark, { children: a("circle", {
			class: "time-mark",
			cx: "22",
			cy: "6",
			r: "3"
		}) }),
		text: "job deleted"
	},
	{
		sample: a(Mark, { children: a("path", {
			class: "time-mark",
			d: "M18 0v12"
		}) }),
		text: "ended otherwise"
	},
	{
		sample: a(Mark, { children: a("path", {
			class: "time-mark",
			d: "M9 1v10"
		}) }),
		text: "last checkpoint"
	}
];
function Mark({ children }) {
	return a("svg", {
		class: "time-past",
		viewBox: "0 0 26 12",
		width: "26",
		height: "12",
		children: [a("rect", {
			x: "0",
			y: "2",
			width: "18",
			height: "8"
		}), children]
	});
}
function TimelineLegend({ problem }) {
	return a("div", {
		class: "timeline-legend",
		children: [
			a(Legend, {
				label: "Bars",
				entries: ENTRIES
			}),
			a(Legend, {
				label: "Ended attempts",
				entries: ENDED
			}),
			problem !== void 0 && a("p", { children: problem }),
			a("p", { children: [
				a("strong", { children: "No promise." }),
				" The forecast assumes that placed jobs end when they are expected to, that no further job passes those that wait, and that nodes stay as they are. A job without a known end keeps its GPUs.",
				" ",
				curveText()
			] }),
			a("p", {
				class: "dim",
				children: "The leader of the scheduler remembers ended attempts for 24 hours. After a change of leader, only the last attempts of completed jobs are known."
			})
		]
	});
}
function curveText() {
	if (totals.value === void 0) return "The curve shows what the listed jobs hold: you may not list the nodes, so the free GPUs are not known.";
	if (session.value?.may.allJobs === false) return "The curve starts from the free GPUs of all nodes, and knows the jobs that you may see.";
	return "The curve starts from the free GPUs of nodes that take pods.";
}
// src/views/Timeline.tsx
function TimelineView(props) {
	const { jobs, filter } = props;
	const mayListNodes = session.value?.may.nodes === true;
	A(() => mayListNodes ? follow("nodes") : void 0, [mayListNodes]);
	const polled = useEndedAttempts(scope.value);
	const attempts = polled.answer?.attempts;
	const past = w(() => groupByJob(attempts ?? []), [attempts]);
	const matching = w(() => groupByJob((attempts ?? []).filter((own) => matchesEnded(own, filter))), [attempts, filter]);
	const all = queue.jobs.value;
	const gone = w(() => new Map([...matching.keys()].filter((key) => !all.has(key)).map((key) => [key, past.get(key) ?? []])), [
		matching,
		past,
		all
	]);
	const rows = w(() => buildRows(jobs, past, gone), [
		jobs,
		past,
		gone
	]);
	const problem = describeAttemptsProblem(polled);
	if (rows.rows.length === 0) return a($, { children: [props.empty, problem !== void 0 && a("p", {
		class: "dim",
		children: problem
	})] });
	return a("div", {
		class: "timeline drawing",
		children: [a(TimelineCanvas, { rows }), a(TimelineLegend, { problem })]
	});
}
// src/app/what-if/command.ts
var GPU$1 = "nvidia.com/gpu";
var ORDER = [
	"--add-nodes",
	"--restore",
	"--cordon",
	"--remove-node",
	"--quota",
	"--queue-priority",
	"--stop-queue",
	"--remove-job",
	"--priority",
	"--runtime",
	"--move",
	"--add-job"
];
var NAME = /^[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?$/;
var RESOURCE = /^[A-Za-z0-9](?:[-_./A-Za-z0-9]*[A-Za-z0-9])?$/;
var AMOUNT = /^[0-9.]+[A-Za-z]*$/;
function whatIfCommand(changes, context) {
	const options = [];
	let jobs = 0;
	for (const change of changes) {
		if ("addJob" in change) jobs += 1;
		const own = optionsOf(change, jobs);
		if (!own) return void 0;
		options.push(...own);
	}
	if (options.length === 0 || !keepsOrder(options)) return void 0;
	const namespaces = new Set(options.flatMap(({ namespace }) => namespace ?? []));
	if (namespaces.size > 1) return void 0;
	const where = [...namespaces].flatMap((namespace) => ["-n", namespace]);
	const own = options.flatMap(({ name, value }) => [name, value]);
	return command("trellis", "what-if", ...own, ...where, ...context ? ["--context", context] : []);
}
function keepsOrder(options) {
	return options.every((option, place) => options.slice(place + 1).every((later) => ORDER.indexOf(later.name) >= ORDER.indexOf(option.name) || later.subject !== option.subject));
}
function optionsOf(change, jobNumber) {
	if ("addNodes" in change) {
		const { like, count, labels } = change.addNodes;
		if (Object.keys(labels ?? {}).length > 0 || !NAME.test(like)) return void 0;
		return [{
			name: "--add-nodes",
			value: `${like}=${count}`,
			subject: `node ${like}`
		}];
	}
	if ("removeNode" in change) return nodeOption("--remove-node", change.removeNode.name);
	if ("cordonNode" in change) return nodeOption("--cordon", change.cordonNode.name);
	if ("restoreNode" in change) return nodeOption("--restore", change.restoreNode.name);
	if ("changeQueue" in change) return queueOptions(change.changeQueue);
	if ("addJob" in change) {
		const { namespace, name, queue, groups, count = 1, ...more } = change.addJob;
		const [group, ...others] = groups ?? [];
		const gpus = group?.requests[GPU$1] ?? "";
		if (!(Object.keys(more).length === 0 && others.length === 0 && count === 1 && name === `added-${jobNumber}` && group && Object.keys(group.requests).length === 1 && /^\d+$/.test(gpus)) || queue === void 0 || !NAME.test(queue) || !NAME.test(namespace)) return void 0;
		return [{
			name: "--add-job",
			value: `${queue}=${group.replicas}x${gpus}`,
			subject: `job ${namespace}/${name}`,
			namespace
		}];
	}
	const { namespace, name, ...fields } = "changeJob" in change ? change.changeJob : change.removeJob;
	if (!NAME.test(namespace) || !NAME.test(name)) return void 0;
	const job = `${namespace}/${name}`;
	const subject = `job ${job}`;
	if ("removeJob" in change) return [{
		name: "--remove-job",
		value: job,
		subject
	}];
	const { priority, queue, runtimeSeconds } = fields;
	if (queue !== void 0 && !NAME.test(queue)) return void 0;
	return someOf([
		priority !== void 0 && {
			name: "--priority",
			value: `${job}=${priority}`,
			subject
		},
		runtimeSeconds !== void 0 && {
			name: "--runtime",
			value: `${job}=${runtimeSeconds}s`,
			subject
		},
		queue !== void 0 && {
			name: "--move",
			value: `${job}=${queue}`,
			subject
		}
	]);
}
function nodeOption(name, node) {
	return NAME.test(node) ? [{
		name,
		value: node,
		subject: `node ${node}`
	}] : void 0;
}
function queueOptions(queue) {
	const { name, quotas = [], priority, weight, stopPolicy } = queue;
	if (!NAME.test(name) || weight !== void 0) return void 0;
	const subject = `queue ${name}`;
	const options = [];
	for (const { resource, flavor, nominal, borrowingLimit, lendingLimit } of quotas) {
		if (nominal === void 0 || borrowingLimit !== void 0 || lendingLimit !== void 0) return void 0;
		if (!RESOURCE.test(resource) || !AMOUNT.test(nominal) || flavor !== void 0 && !NAME.test(flavor)) return void 0;
		const place = flavor === void 0 ? resource : `${resource}@${flavor}`;
		options.push({
			name: "--quota",
			value: `${name}:${place}=${nominal}`,
			subject
		});
	}
	return someOf([
		...options,
		priority !== void 0 && {
			name: "--queue-priority",
			value: `${name}=${priority}`,
			subject
		},
		stopPolicy !== void 0 && /^[A-Za-z]+$/.test(stopPolicy) && {
			name: "--stop-queue",
			value: `${name}=${stopPolicy}`,
			subject
		}
	]);
}
function someOf(options) {
	const some = options.filter((option) => option !== false);
	return some.length > 0 ? some : void 0;
}
function forecastYaml(changes) {
	return writeYaml({
		apiVersion: "visibility.trellis.dev/v1alpha1",
		kind: "Forecast",
		spec: JSON.parse(JSON.stringify({ changes }))
	});
}
// src/app/what-if/moved-jobs.ts
var EFFECTS = {
	Earlier: {
		word: "earlier",
		tone: "good",
		icon: "up",
		verbs: ["starts earlier", "start earlier"]
	},
	Later: {
		word: "later",
		tone: "waiting",
		icon: "down",
		verbs: ["starts later", "start later"]
	},
	Stops: {
		word: "stops",
		tone: "bad",
		icon: "stop",
		verbs: ["has to stop", "have to stop"]
	},
	Stays: {
		word: "stays",
		tone: "good",
		icon: "check",
		verbs: ["no longer has to stop", "no longer have to stop"]
	},
	OtherEnd: {
		word: "other end",
		tone: "still",
		icon: "swap",
		verbs: ["ends at another time", "end at another time"]
	},
	Added: {
		word: "added",
		tone: "starting",
		icon: "plus",
		verbs: ["is added", "are added"]
	},
	Removed: {
		word: "removed",
		tone: "still",
		icon: "minus",
		verbs: ["is removed", "are removed"]
	}
};
function effectLook(effect) {
	return (Object.hasOwn(EFFECTS, effect) ? EFFECTS[effect] : void 0) ?? {
		word: effect,
		tone: "still",
		icon: "help",
		verbs: [effect, effect]
	};
}
function summarizeForecast({ jobs, unmoved }) {
	const effects = new Set([...Object.keys(EFFECTS), ...jobs.map(({ effect }) => effect)]);
	const parts = [];
	for (const effect of effects) {
		const count = jobs.filter((job) => job.effect === effect).length;
		const [one, many] = effectLook(effect).verbs;
		if (count > 0) parts.push(`${parts.length === 0 ? countOf(count, "job") : formatCount(count)} ${count === 1 ? one : many}`);
	}
	if (parts.length === 0) return `No job moves. ${countOf(unmoved, "job")} ${unmoved === 1 ? "starts" : "start"} and ${unmoved === 1 ? "ends" : "end"} as without the changes.`;
	return `${parts.join(", ")}; ${countOf(unmoved, "job")} ${unmoved === 1 ? "does" : "do"} not move.`;
}
function sortMovedJobs(jobs) {
	return jobs.map((job) => ({
		job,
		distance: distanceOf(job)
	})).sort((a, b) => a.distance === b.distance ? 0 : b.distance - a.distance).map(({ job }) => job);
}
function movedMoment(times) {
	const moment = Date.parse((times?.placed ? times.end : times?.start) ?? "");
	return Number.isNaN(moment) ? void 0 : moment;
}
function distanceOf({ before, after }) {
	const [old, next] = [movedMoment(before), movedMoment(after)];
	if (old !== void 0 && next !== void 0) return Math.abs(next - old);
	return old === next ? 0 : Number.POSITIVE_INFINITY;
}
function describeDifference({ before, after }) {
	if (!before || !after) return "";
	if (before.placed && !after.placed) return after.start === void 0 ? "loses its place, and has no known start" : "loses its place";
	const [old, next] = [movedMoment(before), movedMoment(after)];
	const noun = after.placed ? "end" : "start";
	if (old !== void 0 && next !== void 0 && old !== next) return `${noun}s ${formatAge(new Date(Math.min(old, next)), new Date(Math.max(old, next)))} ${next < old ? "earlier" : "later"}`;
	if (old !== void 0 && next === void 0) return `has no known ${noun} any more`;
	if (old === void 0 && next !== void 0) return `has a known ${noun}`;
	return "ends at another time";
}
function describeStart(times, from) {
	if (!times) return "–";
	return times.placed ? "runs" : describeTime(times.start, from);
}
function describeEnd(times, from) {
	if (!times) return "–";
	const end = describeTime(times.end, from);
	return times.stops && times.end !== void 0 ? `${end}, makes room` : end;
}
function describeTime(time, from) {
	if (time === void 0) return "unknown";
	const span = formatUntil(time, from);
	return span === "now" ? span : `in ${span}`;
}
// src/app/what-if/problems.ts
var TITLES = {
	notFound: "This server has no forecasts",
	busy: "The scheduler is busy with other forecasts",
	invalid: "These changes cannot be made",
	denied: "You may not ask for forecasts",
	unreachable: "The cluster could not be reached",
	unavailable: "No scheduler has answered",
	internal: "The forecast has failed"
};
function describeForecastFailure(error, since) {
	return describeFailure(TITLES, error, since);
}
var PATH = /spec\.changes\[(\d+)\](?:\.[A-Za-z0-9_.[\]-]+)?: /g;
function placeProblems(message, count) {
	const byChange = new Map();
	const rest = [];
	const matches = [...message.matchAll(PATH)].filter(({ index }) => index === 0 || /(?:; |: |\n)$/.test(message.slice(0, index)));
	const before = trim(message.slice(0, matches[0]?.index ?? message.length));
	if (before !== "" && (matches.length === 0 || /;$/.test(message.slice(0, matches[0]?.index).trimEnd()))) rest.push(before);
	for (const [number, match] of matches.entries()) {
		const text = trim(message.slice(match.index + match[0].length, matches[number + 1]?.index ?? message.length));
		const place = Number(match[1]);
		if (place < count) byChange.set(place, [...byChange.get(place) ?? [], text]);
		else rest.push(match[0] + text);
	}
	return {
		byChange,
		rest
	};
}
function trim(text) {
	return text.trim().replace(/;$/, "").trim();
}
// src/app/what-if/forecaster.ts
var written = O(() => readChanges(query.value.get("changes")));
var text = O(() => writeChanges(written.value.changes) ?? "");
var question = new Question({
	start: "The scheduler looks ahead",
	describeAnswer: summarizeForecast,
	describeFailure: describeForecastFailure
});
var { outcome, isAsking } = question;
function setChanges(changes) {
	const next = writeChanges(changes);
	if (changes.length > 64 || (next?.length ?? 0) > 4e3) {
		showToast(`A forecast on this page has at most 64 changes with ${MAX_TEXT$1} characters`);
		return false;
	}
	setQuery({ changes: next }, { step: true });
	return true;
}
async function askForecast() {
	const { changes } = written.peek();
	if (changes.length === 0) return;
	const spec = { changes };
	await question.ask({ asked: text.peek() }, (signal) => post("/api/what-if", spec, signal));
}
function askAtOpening() {
	if (outcome.peek()?.asked === text.peek() || written.peek().changes.some(isUnfinished)) return;
	askForecast();
}
// src/app/what-if/describe.ts
var KIND_LABELS = {
	addNodes: "Add nodes",
	removeNode: "Remove a node",
	cordonNode: "Cordon a node",
	restoreNode: "Restore a node",
	changeQueue: "Change a queue",
	addJob: "Add jobs",
	changeJob: "Change a job",
	removeJob: "Remove a job"
};
function describeChange(change) {
	if ("addNodes" in change) {
		const { like, count, labels } = change.addNodes;
		const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
		return `Add ${countOf(count, "node")} like ${like}${pairs.length > 0 ? ` with ${pairs.join(", ")}` : ""}`;
	}
	if ("removeNode" in change) return `Remove node ${change.removeNode.name}`;
	if ("cordonNode" in change) return `Cordon node ${change.cordonNode.name}: its pods stay`;
	if ("restoreNode" in change) return `Make node ${change.restoreNode.name} usable`;
	if ("changeQueue" in change) return describeQueue(change.changeQueue);
	if ("addJob" in change) return describeAddedJob(change.addJob);
	if ("changeJob" in change) return describeJob(change.changeJob);
	return `Remove job ${change.removeJob.namespace}/${jobLabel(change.removeJob.name)}`;
}
function describeQueue(queue) {
	const parts = (queue.quotas ?? []).flatMap(describeQuota);
	if (queue.priority !== void 0) parts.push(`priority ${queue.priority}`);
	if (queue.weight !== void 0) parts.push(`weight ${queue.weight}`);
	const stop = queue.stopPolicy === void 0 ? void 0 : describeStop(queue.stopPolicy);
	if (stop !== void 0 && parts.length === 0) return `${stop} queue ${queue.name}`;
	const sum = parts.length > 0 ? `Give queue ${queue.name} ${parts.join(", ")}` : `Change nothing of queue ${queue.name}`;
	return stop === void 0 ? sum : `${sum}, and ${stop.toLowerCase()} it`;
}
function describeStop(policy) {
	if (policy === "None") return "Open";
	return policy === "HoldAndDrain" ? "Stop and drain" : "Stop";
}
function describeQuota(quota) {
	const resource = resourceLabel(quota.resource, quota.flavor ?? "");
	return [
		["a quota of", quota.nominal],
		["a borrowing limit of", quota.borrowingLimit],
		["a lending limit of", quota.lendingLimit]
	].flatMap(([words, amount]) => amount === void 0 ? [] : [`${words} ${formatAmount(quota.resource, amount)} ${resource}`]);
}
function describeAddedJob(job) {
	const count = job.count ?? 1;
	const parts = [`Add ${count === 1 ? "job" : `${countOf(count, "job")} named`} ${job.namespace}/${job.name}`];
	if (job.like) parts.push(`like ${job.like.namespace}/${jobLabel(job.like.name)}`);
	const groups = (job.groups ?? []).map((group) => {
		const requests = Object.entries(group.requests).map(([resource, amount]) => `${formatAmount(resource, amount)} ${resource}`);
		return `${countOf(group.replicas, "pod")}${requests.length > 0 ? ` with ${requests.join(", ")} each` : ""}`;
	});
	if (groups.length > 0) parts.push(`of ${groups.join(" and ")}`);
	if (job.queue !== void 0) parts.push(`to queue ${job.queue}`);
	if (job.priority !== void 0) parts.push(`with priority ${job.priority}`);
	if (job.runtimeSeconds !== void 0) parts.push(`for ${formatSeconds(job.runtimeSeconds)}`);
	return parts.join(" ");
}
function describeJob(job) {
	const name = `${job.namespace}/${jobLabel(job.name)}`;
	const parts = [];
	if (job.priority !== void 0) parts.push(`give it priority ${job.priority}`);
	if (job.queue !== void 0) parts.push(`move it to queue ${job.queue}`);
	if (job.runtimeSeconds !== void 0) parts.push(`let it run for ${formatSeconds(job.runtimeSeconds)}`);
	return `Change job ${name}: ${parts.join(", ") || "nothing"}`;
}
// src/app/what-if/form.ts
var NODE = [{
	name: "name",
	label: "Node",
	isRequired: true,
	offers: "nodes"
}];
var JOB = {
	name: "job",
	label: "Job",
	isRequired: true,
	offers: "jobs",
	placeholder: "NAMESPACE/NAME",
	check: checkJob
};
var PRIORITY = {
	name: "priority",
	label: "Priority",
	check: wholeNumber(-2147483648, 2147483647)
};
var RUNTIME = {
	name: "runtimeSeconds",
	label: "Runtime in seconds",
	check: wholeNumber(1, Number.MAX_SAFE_INTEGER)
};
var QUEUE = {
	name: "queue",
	label: "Queue",
	offers: "queues"
};
var GPU = "nvidia.com/gpu";
var FORMS = {
	addNodes: [
		{
			name: "like",
			label: "Like node",
			isRequired: true,
			offers: "nodes"
		},
		{
			name: "count",
			label: "Number of nodes",
			isRequired: true,
			check: wholeNumber(1, 1e4)
		},
		{
			name: "labels",
			label: "Other labels",
			placeholder: "KEY=VALUE, KEY=VALUE",
			check: checkLabels
		}
	],
	removeNode: NODE,
	cordonNode: NODE,
	restoreNode: NODE,
	changeQueue: [
		{
			...QUEUE,
			name: "name",
			isRequired: true
		},
		{
			name: "resource",
			label: "Resource",
			offers: "resources",
			placeholder: GPU
		},
		{
			name: "flavor",
			label: "Flavor",
			offers: "flavors",
			placeholder: "the only one"
		},
		{
			name: "nominal",
			label: "Nominal quota",
			check: checkQuantity
		},
		{
			name: "borrowingLimit",
			label: "Borrowing limit",
			check: checkQuantity
		},
		{
			name: "lendingLimit",
			label: "Lending limit",
			check: checkQuantity
		},
		PRIORITY,
		{
			name: "weight",
			label: "Weight",
			check: checkQuantity
		},
		{
			name: "stopPolicy",
			label: "Stopped",
			choices: [
				["", "as now"],
				["None", "no"],
				["Hold", "yes, and running jobs stay"],
				["HoldAndDrain", "yes, and running jobs are evicted"]
			]
		}
	],
	addJob: [
		{
			name: "namespace",
			label: "Namespace",
			isRequired: true,
			offers: "namespaces"
		},
		{
			name: "name",
			label: "Name",
			isRequired: true
		},
		{
			name: "count",
			label: "Number of jobs",
			placeholder: "1",
			check: wholeNumber(1, 1e3)
		},
		{
			...JOB,
			name: "like",
			label: "Like job",
			isRequired: false
		},
		{
			name: "replicas",
			label: "Pods",
			check: wholeNumber(1, 1e4)
		},
		{
			name: "gpus",
			label: "GPUs a pod",
			check: wholeNumber(0, 1e3)
		},
		QUEUE,
		PRIORITY,
		RUNTIME
	],
	changeJob: [
		JOB,
		PRIORITY,
		QUEUE,
		RUNTIME
	],
	removeJob: [JOB]
};
function emptyDraft(kind, namespace, jobNumber) {
	if (kind === "addNodes") return { count: "1" };
	return kind === "addJob" ? {
		namespace,
		name: `added-${jobNumber}`
	} : {};
}
function draftOf(change) {
	const draft = {};
	const put = (values) => {
		for (const [name, value] of Object.entries(values)) if (typeof value === "string" || typeof value === "number") draft[name] = String(value);
	};
	if ("addNodes" in change) {
		put(change.addNodes);
		draft["labels"] = Object.entries(change.addNodes.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");
	} else if ("changeQueue" in change) put({
		...change.changeQueue,
		...change.changeQueue.quotas?.[0],
		name: change.changeQueue.name
	});
	else if ("addJob" in change) {
		const { like, groups, ...own } = change.addJob;
		put(own);
		if (like) draft["like"] = `${like.namespace}/${like.name}`;
		if (groups?.[0]) put({
			replicas: groups[0].replicas,
			gpus: groups[0].requests[GPU]
		});
	} else if ("changeJob" in change) put({
		...change.changeJob,
		job: `${change.changeJob.namespace}/${change.changeJob.name}`
	});
	else if ("removeJob" in change) draft["job"] = `${change.removeJob.namespace}/${change.removeJob.name}`;
	else for (const named of Object.values(change)) put(named);
	return draft;
}
function changeOf(kind, draft, base) {
	const problems = {};
	const text = (name) => (draft[name] ?? "").trim();
	for (const field of FORMS[kind]) {
		const value = text(field.name);
		const problem = value === "" ? field.isRequired ? "is needed" : void 0 : field.check?.(value);
		if (problem !== void 0) problems[field.name] = problem;
	}
	const own = base && kindOf(base) === kind ? base : void 0;
	const missing = findMissing(kind, text, own);
	if (missing && problems[missing[0]] === void 0) problems[missing[0]] = missing[1];
	return Object.keys(problems).length > 0 ? { problems } : { change: build(kind, text, own) };
}
function findMissing(kind, text, base) {
	if (kind === "changeJob" && !text("priority") && !text("queue") && !text("runtimeSeconds")) return ["priority", "or another field is needed"];
	if (kind === "changeQueue") {
		const hasAmount = text("nominal") !== "" || text("borrowingLimit") !== "" || text("lendingLimit") !== "";
		if (text("resource") && !hasAmount) return ["nominal", "or a limit is needed"];
		if (!hasAmount && !text("priority") && !text("weight") && !text("stopPolicy")) return ["nominal", "or another field is needed"];
	}
	if (kind === "addJob") {
		if (text("like") && (text("replicas") || text("gpus"))) return ["replicas", "must be empty: the job is like another one"];
		const hasGroups = base !== void 0 && "addJob" in base && (base.addJob.groups?.length ?? 0) > 1;
		if (!text("like") && !text("replicas") && !hasGroups) return ["replicas", "is needed, or a job that it is like"];
		if (!text("like") && !text("queue")) return ["queue", "is needed"];
	}
}
function build(kind, text, base) {
	const texts = (...names) => pick(names, (name) => text(name) || void 0);
	const numbers = (...names) => pick(names, (name) => text(name) ? Number(text(name)) : void 0);
	switch (kind) {
		case "addNodes": {
			const labels = readLabels(text("labels")) ?? {};
			const more = Object.keys(labels).length > 0 ? { labels } : {};
			return { addNodes: {
				like: text("like"),
				count: Number(text("count")),
				...more
			} };
		}
		case "removeNode": return { removeNode: { name: text("name") } };
		case "cordonNode": return { cordonNode: { name: text("name") } };
		case "restoreNode": return { restoreNode: { name: text("name") } };
		case "changeQueue": {
			const rest = base && "changeQueue" in base ? (base.changeQueue.quotas ?? []).slice(1) : [];
			const amounts = texts("nominal", "borrowingLimit", "lendingLimit");
			const quotas = [...Object.keys(amounts).length > 0 ? [{
				resource: text("resource") || GPU,
				...texts("flavor"),
				...amounts
			}] : [], ...rest];
			return { changeQueue: {
				name: text("name"),
				...quotas.length > 0 && { quotas },
				...numbers("priority"),
				...texts("weight", "stopPolicy")
			} };
		}
		case "addJob": return { addJob: {
			namespace: text("namespace"),
			name: text("name"),
			...numbers("count"),
			...shapeOf(text, base && "addJob" in base ? base.addJob.groups ?? [] : []),
			...texts("queue"),
			...numbers("priority", "runtimeSeconds")
		} };
		case "changeJob": return { changeJob: {
			...readJob(text("job")),
			...numbers("priority"),
			...texts("queue"),
			...numbers("runtimeSeconds")
		} };
		case "removeJob": return { removeJob: readJob(text("job")) };
	}
}
function shapeOf(text, [own, ...rest]) {
	if (text("like")) return { like: readJob(text("like")) };
	const { [GPU]: _, ...requests } = own?.requests ?? {};
	const gpus = text("gpus") ? { [GPU]: text("gpus") } : {};
	return { groups: [{
		replicas: Number(text("replicas")),
		requests: {
			...requests,
			...gpus
		}
	}, ...rest] };
}
function pick(names, valueOf) {
	const entries = names.map((name) => [name, valueOf(name)]);
	return Object.fromEntries(entries.filter((entry) => entry[1] !== void 0));
}
function wholeNumber(least, most) {
	return (text) => {
		const value = Number(text);
		if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(value)) return "must be a whole number";
		if (value < least) return `must be at least ${least}`;
		return value > most ? `must be at most ${most}` : void 0;
	};
}
function checkQuantity(text) {
	const amount = parseQuantity(text);
	if (amount === void 0) return "must be an amount, such as 64 or 512Gi";
	return amount < 0 ? "must be at least 0" : void 0;
}
function checkJob(text) {
	return /^[^/\s]+\/[^/\s]+$/.test(text) ? void 0 : "must be NAMESPACE/NAME";
}
function checkLabels(text) {
	return readLabels(text) ? void 0 : "must be KEY=VALUE, separated by commas";
}
function readLabels(text) {
	const pairs = text.split(",").map((pair) => pair.trim()).filter((pair) => pair !== "").map((pair) => /^([^=\s]+)=(\S*)$/.exec(pair));
	if (pairs.some((pair) => pair === null)) return void 0;
	return Object.fromEntries(pairs.flatMap((pair) => pair ? [[pair[1] ?? "", pair[2] ?? ""]] : []));
}
function readJob(text) {
	const [namespace = "", name = ""] = text.split("/");
	return {
		namespace,
		name
	};
}
// src/views/what-if/ChangeForm.tsx
var MAX_OFFERS = 50;
function ChangeForm(props) {
	const [draft, setDraft] = d(props.start);
	const [isTried, setTried] = d(false);
	const frame = T(null);
	A(() => frame.current?.querySelector("input, select")?.focus(), []);
	const result = changeOf(props.kind, draft, props.base);
	const problems = isTried && "problems" in result ? result.problems : {};
	const finish = () => {
		if ("change" in result) {
			props.onDone(result.change);
			return;
		}
		setTried(true);
		const [first] = FORMS[props.kind].filter(({ name }) => result.problems[name] !== void 0);
		if (first) frame.current?.querySelector(`[name="${first.name}"]`)?.focus();
	};
	return a("div", {
		ref: frame,
		class: "what-if-form",
		role: "group",
		"aria-label": KIND_LABELS[props.kind],
		onKeyDown: (event) => {
			if (event.isComposing) return;
			if (event.key === "Enter" && event.target instanceof HTMLInputElement) finish();
			else if (event.key === "Escape") props.onCancel();
			else return;
			event.preventDefault();
			event.stopPropagation();
		},
		children: [a("div", {
			class: "what-if-fields",
			children: FORMS[props.kind].map((field) => a(FormField, {
				field,
				draft,
				problem: problems[field.name],
				onInput: (value) => setDraft({
					...draft,
					[field.name]: value
				})
			}, field.name))
		}), a("div", {
			class: "what-if-form-actions",
			children: [a("button", {
				type: "button",
				class: "button",
				onClick: finish,
				children: props.base ? "Keep the change" : "Add the change"
			}), a("button", {
				type: "button",
				class: "button",
				onClick: props.onCancel,
				children: "Cancel"
			})]
		})]
	});
}
function FormField(props) {
	const { field, draft, problem } = props;
	const id = P();
	const value = draft[field.name] ?? "";
	const common = {
		id,
		name: field.name,
		class: "field",
		"aria-invalid": problem === void 0 ? void 0 : "true",
		"aria-describedby": problem === void 0 ? void 0 : `${id}-problem`
	};
	return a("div", {
		class: "what-if-field",
		children: [
			a("label", {
				for: id,
				children: [field.label, field.isRequired && a("span", {
					"aria-hidden": "true",
					children: " *"
				})]
			}),
			field.choices ? a("select", {
				...common,
				value,
				onChange: (event) => props.onInput(event.currentTarget.value),
				children: field.choices.map(([choice, text]) => a("option", {
					value: choice,
					children: text
				}, choice))
			}) : a("input", {
				...common,
				type: "text",
				autocomplete: "off",
				spellcheck: false,
				maxLength: 400,
				placeholder: field.placeholder,
				"aria-required": field.isRequired ? "true" : void 0,
				list: field.offers && `${id}-offers`,
				value,
				onInput: (event) => props.onInput(event.currentTarget.value)
			}),
			field.offers && a("datalist", {
				id: `${id}-offers`,
				children: listOffers(field.offers, draft, value).map((name) => a("option", { value: name }, name))
			}),
			problem !== void 0 && a("span", {
				id: `${id}-problem`,
				class: "what-if-field-problem",
				children: problem
			})
		]
	});
}
function listOffers(offer, draft, text) {
	const found = new Set();
	for (const name of namesOf(offer, draft)) {
		if (name.includes(text)) found.add(name);
		if (found.size >= MAX_OFFERS) break;
	}
	return [...found];
}
function* namesOf(offer, draft) {
	switch (offer) {
		case "nodes":
			yield* nodes.nodes.value.keys();
			break;
		case "queues":
			yield* queue.queues.value?.keys() ?? [];
			break;
		case "jobs":
			yield* queue.jobs.value.keys();
			break;
		case "namespaces":
			for (const job of queue.jobs.value.values()) if (job.metadata.namespace !== void 0) yield job.metadata.namespace;
			break;
		default: {
			const own = queue.queues.value?.get(draft["name"] ?? "");
			const queues = own ? [own] : queue.queues.value?.values() ?? [];
			for (const { resources } of queues) for (const row of resources ?? []) yield offer === "resources" ? row.resource : row.flavor;
		}
	}
}
// src/views/what-if/Changes.tsx
function Changes() {
	const open = useSignal(findUnfinished());
	const ask = T(null);
	const { changes } = written.value;
	const close = () => {
		open.value = void 0;
		ask.current?.focus();
	};
	const put = (change, place) => {
		if (setChanges([
			...changes.slice(0, place),
			change,
			...changes.slice(place + 1)
		])) close();
	};
	const form = open.value?.place !== void 0 && open.value.place >= changes.length ? void 0 : open.value;
	const isNew = form !== void 0 && form.place === void 0;
	const jobs = changes.filter((change) => "addJob" in change).length;
	return a(Card, {
		title: "Changes",
		aside: changes.length > 0 && countOf(changes.length, "change"),
		children: [
			changes.length === 0 && !isNew && a(NoChanges, {}),
			changes.length > 0 && a("ol", {
				class: "what-if-changes",
				"aria-label": "List of changes",
				children: changes.map((change, place) => a("li", { children: [a(ChangeRow, {
					change,
					place,
					onEdit: () => open.value = {
						kind: kindOf(change),
						place
					},
					onRemove: () => {
						open.value = void 0;
						setChanges(changes.filter((_, other) => other !== place));
					}
				}), form?.place === place && a(ChangeForm, {
					kind: form.kind,
					start: draftOf(change),
					base: change,
					onDone: (next) => put(next, place),
					onCancel: close
				})] }, `${place} ${JSON.stringify(change)}`))
			}),
			isNew && a(ChangeForm, {
				kind: form.kind,
				start: emptyDraft(form.kind, session.value?.namespace ?? "", jobs + 1),
				onDone: (change) => put(change, changes.length),
				onCancel: close
			}, form.kind),
			a("div", {
				class: "what-if-add",
				role: "group",
				"aria-label": "Add a change",
				children: KINDS.map((kind) => a("button", {
					type: "button",
					class: "chip",
					onClick: () => open.value = { kind },
					children: [a(Icon, { name: "plus" }), KIND_LABELS[kind]]
				}, kind))
			}),
			a("div", {
				class: "what-if-actions",
				children: [a("button", {
					ref: ask,
					type: "button",
					class: "button button-main",
					disabled: changes.length === 0,
					"aria-disabled": isAsking.value ? "true" : void 0,
					onClick: () => void askForecast(),
					children: [a(Icon, { name: "play" }), isAsking.value ? "The scheduler looks ahead…" : "Forecast"]
				}), changes.length > 0 && a("button", {
					type: "button",
					class: "button",
					onClick: () => setChanges([]) && (open.value = void 0),
					children: "Remove all"
				})]
			})
		]
	});
}
function findUnfinished() {
	const { changes } = written.peek();
	const place = changes.findIndex(isUnfinished);
	const change = changes[place];
	return change && {
		kind: kindOf(change),
		place
	};
}
function NoChanges() {
	return a(Empty, {
		title: "Add a change to see what it does to the jobs",
		children: a("p", {
			class: "dim",
			children: "The scheduler looks ahead twice, with and without the changes, and names the jobs that start or end at another time. It answers questions such as: does another quota help this queue, what does maintenance of a node cost, how many nodes are missing? Nothing in the cluster changes."
		})
	});
}
function ChangeRow(props) {
	const sentence = describeChange(props.change);
	const number = props.place + 1;
	return a($, { children: [a("div", {
		class: "what-if-change",
		children: [
			a("span", {
				class: "what-if-sentence",
				children: a(Text, {
					text: sentence,
					max: 300
				})
			}),
			a("button", {
				type: "button",
				class: "icon-button",
				"aria-label": `Edit change ${number}`,
				title: "Edit",
				onClick: props.onEdit,
				children: a(Icon, { name: "edit" })
			}),
			a("button", {
				type: "button",
				class: "icon-button",
				"aria-label": `Remove change ${number}`,
				title: "Remove",
				onClick: props.onRemove,
				children: a(Icon, { name: "cross" })
			})
		]
	}), problemsOf(props.place).map((problem) => a("p", {
		class: "what-if-problem",
		children: [
			a(Icon, {
				name: "warning",
				label: "Problem"
			}),
			" ",
			a(Text, {
				text: problem,
				max: 600
			})
		]
	}, problem))] });
}
function problemsOf(place) {
	const result = outcome.value;
	if (!result || !("error" in result) || result.asked !== text.value || result.error.kind !== "invalid") return [];
	return placeProblems(result.error.message, written.value.changes.length).byChange.get(place) ?? [];
}
// src/app/what-if/bars.ts
var PAST = .03;
var SHORTEST_MS = 6e5;
function axisOf(jobs, time) {
	const all = jobs.flatMap(({ before, after }) => [before, after]);
	const starts = all.map((times) => Date.parse(times?.start ?? "")).filter(Number.isFinite);
	const ends = all.map((times) => Date.parse(times?.end ?? "")).filter(Number.isFinite);
	const now = time.getTime();
	const lastStart = Math.max(now, ...starts);
	const lastEnd = Math.max(lastStart, ...ends);
	const limit = Math.max(SHORTEST_MS, 3 * (lastStart - now), Math.min(lastEnd - now, 864e5));
	const span = Math.max(SHORTEST_MS, Math.min(1.1 * (lastEnd - now), limit), 1.1 * (lastStart - now));
	return {
		from: now - PAST * span,
		to: now + span
	};
}
function placeOn({ from, to }, moment) {
	return Math.min(100, Math.max(0, 100 * (moment - from) / (to - from)));
}
function barOf(times, axis) {
	if (!times) return void 0;
	const start = times.placed ? axis.from : Date.parse(times.start ?? "");
	if (Number.isNaN(start)) return void 0;
	const end = Date.parse(times.end ?? "");
	const x = placeOn(axis, start);
	const isOpen = Number.isNaN(end) || end > axis.to;
	return {
		x,
		width: Math.max(.4, (isOpen ? 100 : placeOn(axis, end)) - x),
		isOpen
	};
}
var STEPS = [
	60,
	300,
	600,
	1800,
	3600,
	7200,
	14400,
	28800,
	43200,
	86400,
	172800,
	604800,
	2592e3,
	31536e3
];
var MOST_MARKS = 5;
function axisMarks(axis, time) {
	const seconds = (axis.to - time.getTime()) / 1e3;
	const step = STEPS.find((own) => seconds / own <= MOST_MARKS) ?? seconds / MOST_MARKS;
	const marks = [];
	for (let at = step; at < .97 * seconds && marks.length < MOST_MARKS; at += step) marks.push({
		x: placeOn(axis, time.getTime() + at * 1e3),
		label: `+${formatSeconds(at)}`
	});
	return marks;
}
// src/views/what-if/MovedJobBars.tsx
var MAX_JOBS = 20;
function MovedJobBars({ jobs, time }) {
	const shown = jobs.slice(0, MAX_JOBS);
	const axis = axisOf(shown, time);
	const hidden = jobs.length - shown.length;
	return a(Card, {
		title: "Before and after",
		aside: a(BarLegend, {}),
		children: [a("div", {
			class: "what-if-bars",
			"aria-hidden": "true",
			children: [a("div", {
				class: "what-if-bar-row",
				children: [a("span", {}), a("div", {
					class: "what-if-axis",
					children: [a("span", {
						class: "what-if-mark",
						style: { left: `${placeOn(axis, time.getTime())}%` },
						children: "now"
					}), axisMarks(axis, time).map(({ x, label }) => a("span", {
						class: "what-if-mark",
						style: { left: `${x}%` },
						children: label
					}, label))]
				})]
			}), shown.map((job) => a("div", {
				class: "what-if-bar-row",
				children: [a("span", {
					class: "what-if-bar-name",
					children: a(Name, { text: `${job.namespace}/${job.name}` })
				}), a(JobBars, {
					job,
					axis,
					time
				})]
			}, jobKey(job)))]
		}), hidden > 0 && a("p", {
			class: "card-text dim",
			children: [
				"The drawing leaves out ",
				countOf(hidden, "job"),
				" that moves less; the table has all."
			]
		})]
	});
}
function BarLegend() {
	const sample = (name) => a("span", { class: `what-if-sample what-if-${name}` });
	return a(Legend, {
		label: "Bars",
		entries: [{
			sample: sample("before"),
			text: "before"
		}, {
			sample: sample("after"),
			text: "after"
		}]
	});
}
function JobBars({ job, axis, time }) {
	const now = `${placeOn(axis, time.getTime())}%`;
	return a("div", {
		class: "what-if-track",
		children: [
			a(Bar, {
				bar: barOf(job.before, axis),
				look: "before"
			}),
			a(Bar, {
				bar: barOf(job.after, axis),
				look: `after tone-bar-${effectLook(job.effect).tone}`
			}),
			a("span", {
				class: "what-if-now",
				style: { left: now }
			})
		]
	});
}
function Bar({ bar, look }) {
	if (!bar) return null;
	return a("span", {
		class: `what-if-bar what-if-${look}${bar.isOpen ? " is-open" : ""}`,
		style: {
			left: `${bar.x}%`,
			width: `${bar.width}%`
		}
	});
}
// src/views/what-if/MovedJobTable.tsx
function MovedJobTable({ jobs, time }) {
	return a(Table, {
		caption: "Jobs that the changes move",
		columns: [
			{
				title: "Job",
				cell: (job) => a(MovedJobName, { job })
			},
			{
				title: "Queue",
				cell: (job) => a(QueueLink, { name: job.queue })
			},
			{
				title: "GPUs",
				cell: (job) => formatCount(job.gpus),
				isNumber: true
			},
			{
				title: "Effect",
				cell: (job) => a(EffectBadge, { effect: job.effect })
			},
			{
				title: "Start before",
				cell: (job) => describeStart(job.before, time)
			},
			{
				title: "Start after",
				cell: (job) => describeStart(job.after, time)
			},
			{
				title: "Difference",
				cell: describeDifference
			},
			{
				title: "End before",
				cell: (job) => describeEnd(job.before, time)
			},
			{
				title: "End after",
				cell: (job) => describeEnd(job.after, time)
			}
		],
		rows: jobs,
		keyOf: jobKey
	});
}
function MovedJobName({ job }) {
	return job.before ? a(JobLink, { job }) : a(Name, { text: `${job.namespace}/${job.name}` });
}
function EffectBadge({ effect }) {
	const { tone, icon, word } = effectLook(effect);
	return a(Badge, {
		tone,
		icon,
		children: a(Name, { text: word })
	});
}
// src/views/what-if/Outcome.tsx
function Outcome() {
	const result = outcome.value;
	if (written.value.changes.length === 0) return null;
	return a("section", {
		class: isAsking.value ? "what-if-outcome is-old" : "what-if-outcome",
		"aria-label": "Forecast",
		"aria-busy": isAsking.value,
		children: [
			isAsking.value && a("p", {
				class: "dim",
				children: "The scheduler looks ahead…"
			}),
			!result && !isAsking.value && a("p", {
				class: "dim",
				children: "Press Forecast to ask the scheduler."
			}),
			result && a(Ended, { result })
		]
	});
}
function Ended({ result }) {
	const isOld = result.asked !== text.value;
	return a($, { children: [isOld && !isAsking.value && a(Banner, {
		tone: "info",
		title: "The changes are others than those of this answer",
		children: "Press Forecast to ask again."
	}), "answer" in result ? a(Answer, { answer: result.answer }) : a(Failure, {
		result,
		isOld
	})] });
}
function Answer({ answer }) {
	const jobs = sortMovedJobs(answer.jobs);
	return a($, { children: [
		a("p", {
			class: "what-if-summary",
			children: summarizeForecast(answer)
		}),
		answer.horizon !== void 0 && a(Banner, {
			tone: "info",
			title: `The scheduler looked ${formatUntil(answer.horizon, new Date(answer.time))} ahead, and not longer`,
			children: "Later starts and ends are unknown."
		}),
		jobs.length > 0 && a($, { children: [a(MovedJobBars, {
			jobs,
			time: new Date(answer.time)
		}), a(Card, {
			title: "Moved jobs",
			children: a(MovedJobTable, {
				jobs,
				time: new Date(answer.time)
			})
		})] }),
		a("p", {
			class: "dim what-if-assumes",
			children: [
				"Seen from ",
				a(Clock, { time: answer.time }),
				". The forecast assumes that no other job arrives, that running jobs end when expected, and that policies allow the jobs: it judges no policy."
			]
		})
	] });
}
function Failure({ result, isOld }) {
	const { error, since } = result;
	if (error.kind === "denied") return a(NoRight, { message: error.message });
	const { title, text: words } = describeForecastFailure(error, since);
	const placed = placeProblems(error.message, written.value.changes.length);
	if (error.kind === "invalid" && !isOld && placed.byChange.size > 0) return a(Banner, {
		tone: "warning",
		title,
		children: [placed.rest.map((message) => a("p", { children: a(Text, {
			text: message,
			max: 2e3
		}) }, message)), a("p", { children: "The list above says why." })]
	});
	return a(Banner, {
		tone: "warning",
		title,
		children: a(Text, {
			text: words,
			max: 2e3
		})
	});
}
function NoRight({ message }) {
	return a(Card, {
		title: "You may not ask for forecasts",
		children: [
			a("p", {
				class: "card-text",
				children: a(Text, {
					text: message,
					max: 2e3
				})
			}),
			a("p", {
				class: "card-text",
				children: "A forecast needs the right to create forecasts.visibility.trellis.dev, because the answer names jobs of all namespaces. The ClusterRole trellis-platform has it. An administrator can grant it alone:"
			}),
			a(RoleCommands, {
				role: "trellis-forecast",
				verbs: "create",
				resource: "forecasts.visibility.trellis.dev"
			})
		]
	});
}
// src/views/WhatIf.tsx
function WhatIf() {
	useTitle("What if");
	A(() => follow("nodes"), []);
	useOpening();
	useForecastKeys();
	const { problem } = written.value;
	return a("div", {
		class: "page what-if",
		children: [
			a("div", {
				class: "page-head",
				children: [a("h1", { children: "What if" }), a("p", {
					class: "counts",
					children: "Which jobs would start earlier or later after a change. Nothing in the cluster changes."
				})]
			}),
			problem !== void 0 && a(Banner, {
				tone: "warning",
				title: "The URL has no changes that this page can read",
				children: a(Text, { text: `The page ignores the URL: ${problem}.` })
			}),
			a(Changes, {}),
			a(Outcome, {}),
			a(Twin, {})
		]
	});
}
function useOpening() {
	const isReady = session.value !== void 0;
	A(() => {
		if (isReady) askAtOpening();
	}, [isReady]);
}
function useForecastKeys() {
	useShortcuts("What if", [{
		keys: "Ctrl-Enter",
		label: "Forecast"
	}]);
	A(() => {
		const onKey = (event) => {
			if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
			if (document.querySelector("dialog[open]") || event.isComposing) return;
			if (event.target instanceof Element && event.target.closest("a, .what-if-form")) return;
			event.preventDefault();
			askForecast();
		};
		document.addEventListener("keydown", onKey);
		return () => document.removeEventListener("keydown", onKey);
	}, []);
}
function Twin() {
	const { changes } = written.value;
	if (changes.length === 0) return null;
	const line = whatIfCommand(changes, session.value?.context);
	if (line !== void 0) return a(Command, {
		label: "Same in a terminal",
		text: line
	});
	const yaml = forecastYaml(changes);
	return a(Card, {
		title: "Same in a terminal",
		aside: a(CopyButton, {
			text: yaml,
			what: "Forecast"
		}),
		children: [a("p", {
			class: "card-text",
			children: [
				"No option of ",
				a("code", { children: "trellis what-if" }),
				" says all of these changes. Save this object, and use",
				" ",
				a("code", { children: "trellis what-if -f FILE" }),
				" or ",
				a("code", { children: "kubectl create -f FILE -o yaml" }),
				"."
			]
		}), a("pre", {
			class: "what-if-yaml",
			tabIndex: 0,
			children: a(Text, {
				text: yaml,
				max: 6e3,
				lines: true
			})
		})]
	});
}
export { Job, NodeView, NodesView, Plan, Policies, PolicyView, Queue, Queues, TimelineView, WhatIf };
