/*!
This file contains these packages.

preact

The MIT License (MIT)

Copyright (c) 2015-present Jason Miller

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

@preact/signals

The MIT License (MIT)

Copyright (c) 2022-present Preact Team

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

@preact/signals-core

The MIT License (MIT)

Copyright (c) 2022-present Preact Team

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
// node_modules/preact/dist/preact.mjs
var n$1;
var t$2;
var r$2;
var u$3;
var i$2;
var f$3;
var o$3;
var e$2;
var l$2;
var c$2;
var a$3;
var h$3 = Symbol.for("pv");
var p$3 = {};
var y$3 = [];
var v$2 = /^m(i|n|o|s|text|space)$/;
var w$3 = Array.isArray;
var d$3 = y$3.slice;
var _$3 = Object.assign;
function g$3(n) {
	n && n.parentNode && n.remove();
}
function k$2(n, t, r) {
	var u, i, f, o = {}, e = arguments.length;
	for (f in t) "key" == f ? u = t[f] : "ref" == f && "function" != typeof n ? i = t[f] : o[f] = t[f];
	return e > 2 && (o.children = e > 3 ? d$3.call(arguments, 2) : r), m$3(n, o, u, i, null);
}
function m$3(r, u, i, f, o) {
	var e = {
		type: r,
		props: u,
		key: i,
		ref: f,
		__k: null,
		__: null,
		__b: 0,
		__e: null,
		__c: null,
		constructor: h$3,
		__v: o || ++t$2,
		__i: -1,
		__u: 0
	};
	return !o && n$1.vnode && n$1.vnode(e), e;
}
function $(n) {
	return n.children;
}
function x$2(n, t) {
	this.props = n, this.context = t, this.__g = 0;
}
function S$1(n, t) {
	if (null == t) return n.__ && S$1(n.__, n.__i + 1);
	for (var r; t < n.__k.length; t++) if ((r = n.__k[t]) && r.__e) return r.__e;
	return "function" != typeof n.type || n.props.__P ? null : S$1(n);
}
function C$1(t) {
	var r, u = t.__v, i = u.__e, f = [], o = [], e = t.__P;
	e && ((r = _$3({ constructor: h$3 }, u)).__v = u.__v + 1, n$1.vnode && n$1.vnode(r), z$1(e, r, u, t.__n, e.namespaceURI, 32 & u.__u ? [i] : null, f, i || S$1(u), 32 & u.__u, o), r.__v = u.__v, r.__.__k[r.__i] = r, E$1(f, r, o), u.__ = u.__e = null, r.__e != i && j$1(r));
}
function j$1(n) {
	if ((n = n.__) && n.__c && !n.props.__P) return n.__e = null, n.__k.some(function(t) {
		return t && (n.__e = t.__e);
	}), j$1(n);
}
function L(t) {
	(8 & t.__g || (t.__g |= 8, u$3.push(t), f$3++)) && i$2 == n$1.debounceRendering || ((i$2 = n$1.debounceRendering) || queueMicrotask)(H);
}
function H() {
	try {
		for (var n, t = 1; u$3.length;) u$3.length > t && u$3.sort(o$3), n = u$3.shift(), t = u$3.length, 8 & n.__g && C$1(n);
	} finally {
		(f$3 = u$3.length) && (i$2 || queueMicrotask)(H);
	}
}
function I(n, t, r, u, i, f, o, e, l, c, a) {
	var s, h, v, w, d, _, g = u.__k || y$3, k = t.length;
	for (l = q$1(r, t, g, l, k), s = 0; s < k; s++) null != (v = r.__k[s]) && (h = ~v.__i && g[v.__i] || p$3, v.__i = s, _ = z$1(n, v, h, i, f, o, e, l, c, a), w = v.__e, (h.ref != v.ref || 8 & h.__u) && (h.ref && G$1(h.ref, null, v, h), v.ref && a.push(v.ref, v.__c || w, v)), d = d || w, 4 & v.__u ? (l = A$2(v, l, n, !h.__v), h.__e && (h.__e = null)) : "function" == typeof v.type && void 0 !== _ ? l = _ : w && (l = w.nextSibling), v.__u &= -21);
	return r.__e = d, l;
}
function q$1(n, t, r, u, i) {
	var f, o, e, l, c, a, s, p, y, v = r.length, d = v, _ = 0, g = 0, k = n.__k = Array(i);
	for (f = 0; f < i; f++) null != (o = t[f]) && "boolean" != typeof o && "function" != typeof o ? ("object" != typeof o || o.constructor === String ? o = k[f] = m$3(null, o) : w$3(o) ? o = k[f] = m$3($, { children: o }) : o.constructor === h$3 && o.__b ? o = k[f] = m$3(o.type, o.props, o.key, o.ref, o.__v) : k[f] = o, l = f + _, o.__ = n, o.__b = n.__b + 1, e = null, ~(c = o.__i = P$1(o, r, l, d)) && (d--, (e = r[c]) && (e.__u |= 2)), e && e.__v ? (o.__u |= 16, c == l - 1 ? _-- : c == l + 1 ? _++ : c != l && (c > l ? _-- : _++, g = 1)) : (~c || (i > v ? _-- : i < v && _++), "function" != typeof o.type && (o.__u |= 4))) : k[f] = null;
	if (g) {
		for (a = [], s = [], f = 0; f < i; f++) if ((o = k[f]) && 16 & o.__u) {
			for (_ = 0, p = a.length; _ < p;) a[y = _ + p >> 1] < o.__i ? _ = y + 1 : p = y;
			a[_] = o.__i, s[f] = _ + 1;
		}
		for (_ = a.length; f--;) s[f] && (s[f] == _ ? _-- : k[f].__u |= 4);
	}
	if (d) for (f = 0; f < v; f++) !(e = r[f]) || 2 & e.__u || (e.__e == u && (u = S$1(e)), J(e, e));
	return u;
}
function A$2(n, t, r, u) {
	var i, f, o, e;
	if ("function" == typeof n.type) {
		if (n.props.__P) return t;
		if (i = n.__k) for (f = 0; f < i.length; f++) i[f] && (i[f].__ = n, t = A$2(i[f], t, r, !1));
		return t;
	}
	for (t && !t.parentNode && (t = S$1(n)) && !t.parentNode && (t = null), o = n.__e, e = t; e && 8 == e.nodeType;) e = e.nextSibling;
	for (o != e && (!u && r.moveBefore && o.parentNode ? r.moveBefore(o, t) : r.insertBefore(o, t || null)), t = o; (t = t && t.nextSibling) && 8 == t.nodeType && !t.data.startsWith("$s"););
	return t;
}
function P$1(n, t, r, u) {
	var i, f = n.key, o = n.type, e = t[r], l = e && !(2 & e.__u);
	if (null === e && null == f || l && f == e.key && o == e.type) return r;
	if (u > (l ? 1 : 0)) {
		for (i = r - 1; i >= 0; i--) if ((e = t[i]) && !(2 & e.__u) && f == e.key && o == e.type) return i;
		for (i = r + 1; i < t.length; i++) if ((e = t[i]) && !(2 & e.__u) && f == e.key && o == e.type) return i;
	}
	return -1;
}
function T$2(n, t, r) {
	r ??= "", "-" == t[0] ? n.setProperty(t, r) : n[t] = r;
}
function N(n, t, r, u, i) {
	var f, o;
	if ("style" == t) if ("string" == typeof r) n.style.cssText = r;
	else {
		if ("string" == typeof u && (n.style.cssText = u = ""), u) for (t in u) r && t in r || T$2(n.style, t);
		if (r) for (t in r) u && r[t] == u[t] || T$2(n.style, t, r[t]);
	}
	else if ("o" == t[0] && "n" == t[1]) "function" != typeof r && (r = null), "function" != typeof u && (u = null), (n.__e || (n.__e = {}))[t] = r, r && u || (o = a$3[t] || (a$3[t] = V(t)), (n.__a || (n.__a = {}))[t] = c$2, f = t != (t = t.replace(l$2, "$1")), (t = t.slice(2))[0] < "a" && (t = t.toLowerCase()), r ? n.addEventListener(t, o, f) : n.removeEventListener(t, o, f));
	else {
		if ("http://www.w3.org/2000/svg" == i) t = t.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
		else if ("width" != t && "height" != t && "href" != t && "list" != t && "form" != t && "tabIndex" != t && "download" != t && "rowSpan" != t && "colSpan" != t && "role" != t && "popover" != t && t in n) try {
			n[t] = null == r ? "" : r;
			return;
		} catch (n) {}
		if ("function" == typeof r) return;
		null == r || !1 === r && "-" != t[4] ? n.removeAttribute(t) : n.setAttribute(t, "popover" == t && 1 == r ? "" : r);
	}
}
function V(t) {
	return function(r) {
		var u = this.__e;
		if (u) {
			if (u = u[t], null == r[e$2]) r[e$2] = c$2++;
			else if (r[e$2] < this.__a[t]) return;
			return u(n$1.event ? n$1.event(r) : r);
		}
	};
}
function z$1(t, r, u, i, f, o, e, l, c, a) {
	var s, p, v, d, k, b, m, M, C, j, L, H, q, A, O, P, T, N, V = r.type;
	if (r.constructor !== h$3) return null;
	128 & u.__u && (c = 32 & u.__u, s = u.__c.__z) && (r.__u |= c, p = o = [], 8 == s.nodeType ? l = B$1(s, o) : o.push(s), l = o[0] || l), (s = n$1.__b) && s(r);
	n: if ("function" == typeof V) {
		v = e.length;
		try {
			if (M = r.props, C = (s = V.prototype) && s.render, j = (s = V.contextType) && i[s.__c], L = s ? j ? j.props.value : s.__ : i, (d = u.__c) ? (r.__c = d, 2 & d.__g && (d.__g |= 1)) : (C ? r.__c = d = new V(M, L) : (r.__c = d = new x$2(M, L), d.constructor = V, d.render = K), j && j.sub(d), d.state || (d.state = {}), d.__n = i, d.__g |= 8, d.__h = [], d.__k = []), C && (d.__s || (d.__s = d.state), V.getDerivedStateFromProps && (d.__s == d.state && (d.__s = _$3({}, d.__s)), _$3(d.__s, V.getDerivedStateFromProps(M, d.__s)))), k = d.props, b = d.state, d.__v = r, u.__c) {
				if (M !== k && C && !V.getDerivedStateFromProps && d.componentWillReceiveProps && d.componentWillReceiveProps(M, L), r.__v == u.__v && !(8 & d.__g) || !(4 & d.__g) && d.shouldComponentUpdate && !1 === d.shouldComponentUpdate(M, d.__s, L)) {
					r.__v != u.__v && (d.props = M, d.state = d.__s, d.__g &= -9), r.__e = u.__e, r.__k = u.__k, r.__k.some(function(n) {
						n && (n.__ = r);
					}), y$3.push.apply(d.__h, d.__k), d.__k = [], d.__h.length && e.push(d), l = S$1(u);
					break n;
				}
				d.componentWillUpdate && d.componentWillUpdate(M, d.__s, L), C && d.componentDidUpdate && d.__h.push(function() {
					d.componentDidUpdate(k, b, m);
				});
			} else C && !V.getDerivedStateFromProps && d.componentWillMount && d.componentWillMount(), C && d.componentDidMount && d.__h.push(d.componentDidMount);
			d.context = L, d.props = M, d.__P = t, d.__g &= -5, H = n$1.__r, q = C ? 25 : 0;
			do
				d.__g &= -9, H && H(r), s = d.render(d.props, d.state = d.__s, d.context);
			while (8 & d.__g && ++q < 25);
			C && (y$3.push.apply(d.__h, d.__k), d.__k = []), d.state = d.__s, d.getChildContext && (i = _$3({}, i, d.getChildContext())), C && u.__c && d.getSnapshotBeforeUpdate && (m = d.getSnapshotBeforeUpdate(k, b)), A = s && s.type === $ && null == s.key ? s.props.children : s, M.__P && (s = l, f = (t = M.__P).namespaceURI, c = o = null, u.props && u.props.__P != t && (u.__k.some(function(n) {
				n && J(n, n);
			}), u.__k = null), l = u.__k ? S$1(u, 0) : null), l = I(t, w$3(A) ? A : [A], r, u, i, f, o, e, l, c, a), M.__P && (r.__e = null, l = s), r.__u &= -161, p && p.some(g$3), d.__h.length && e.push(d), 1 & d.__g && (d.__g &= -4);
		} catch (t) {
			if (e.length = v, r.__v = null, c || o) if (t && t.then) {
				if (r.__u |= 128 | c, o) {
					for (~(T = o.indexOf(l || void 0)) || (T = o.length); (N = o[T - 1]) && 8 == N.nodeType;) T--;
					for (; T < o.length; T++) if (N = o[T]) if (o[T] = null, O) {
						if (N == P) break;
					} else {
						if (8 != N.nodeType) break;
						N.data.startsWith("$s") && (P = B$1(O = N));
					}
				}
				if (!O) {
					for (; l && 8 == l.nodeType && l.nextSibling;) l = l.nextSibling;
					O = l;
				}
				(s = B$1(O = r.__c.__z || (r.__c.__z = O))) ? (r.__e = O, l = s) : r.__e = l, l = l && l.nextSibling;
			} else o && o.some(g$3);
			else r.__e = u.__e;
			r.__k || (r.__k = u.__k || []), t && t.then || D$1(r), n$1.__e(t, r, u);
		}
	} else l = r.__e = F$2(u.__e, r, u, i, f, o, e, c, a, t);
	return (s = n$1.diffed) && s(r), l;
}
function B$1(n, t) {
	if (n && 8 == n.nodeType && n.data.startsWith("$s")) for (var r = 1; n = n.nextSibling;) {
		if (8 == n.nodeType) {
			if (n.data.startsWith("$s")) r++;
			else if (n.data.startsWith("/$s") && !--r) return n;
		}
		t && t.push(n);
	}
}
function D$1(n) {
	n && (n.__c && (n.__c.__g |= 4), n.__k && n.__k.some(D$1));
}
function E$1(t, r, u) {
	for (var i = 0; i < u.length;) G$1(u[i++], u[i++], u[i++]);
	n$1.__c && n$1.__c(r, t), t.some(function(r) {
		try {
			t = r.__h, r.__h = [], t.some(function(n) {
				n.call(r);
			});
		} catch (t) {
			n$1.__e(t, r.__v);
		}
	});
}
function F$2(t, r, u, i, f, o, e, l, c, a) {
	var s, h, y, _, k, b, m, M, $ = u.props || p$3, x = r.props, C = r.type;
	if ("svg" == C ? f = "http://www.w3.org/2000/svg" : "math" == C ? f = "http://www.w3.org/1998/Math/MathML" : f || (f = "http://www.w3.org/1999/xhtml"), o) {
		for (s = 0; s < o.length; s++) if ((k = o[s]) && (C ? k.localName == C : 3 == k.nodeType)) {
			t = k, o[s] = null;
			break;
		}
	}
	if (!t) {
		if (M = a.ownerDocument || document, !C) return M.createTextNode(x);
		t = M.createElementNS(f, C, x.is ? x : a), l && (n$1.__m && n$1.__m(r, o), l = !1), o = null;
	}
	if (C) {
		if (a = "template" == C && t.content || t, o = "textarea" == C && null != x.defaultValue ? null : o && d$3.call(a.childNodes), !l && o) for ($ = {}, s = 0; s < t.attributes.length; s++) $[(k = t.attributes[s]).name] = k.value;
		for (s in $) k = $[s], "dangerouslySetInnerHTML" == s ? y = k : "children" == s || s in x || "value" == s && "defaultValue" in x || "checked" == s && "defaultChecked" in x || N(t, s, null, k, f);
		for (s in x) k = x[s], "children" == s ? _ = k : "dangerouslySetInnerHTML" == s ? h = k : "value" == s ? b = k : "checked" == s ? m = k : l && "function" != typeof k || $[s] === k || N(t, s, k, $[s], f);
		h ? (l || y && (h.__html == y.__html || h.__html == t.innerHTML) || (t.innerHTML = h.__html), r.__k = []) : (y && (t.textContent = ""), ("foreignObject" == C || "http://www.w3.org/1998/Math/MathML" == f && v$2.test(C)) && (f = "http://www.w3.org/1999/xhtml"), I(a, w$3(_) ? _ : [_], r, u, i, f, o, e, o ? o[0] : u.__k && S$1(u, 0), l, c), o && o.some(g$3)), l && "textarea" != C || (s = "value", "progress" == C && null == b ? t.removeAttribute(s) : null == b || b === t[s] && ("progress" != C || b) || N(t, s, b, $[s], f), s = "checked", null != m && m != t[s] && N(t, s, m, $[s], f));
	} else $ === x || l && t.data == x || (t.data = x);
	return t;
}
function G$1(t, r, u, i) {
	try {
		"function" == typeof t ? r ? r.__x = t(r) || 1 : i && (i = i.__c || i.__e) && (r = i.__x) && (i.__x = null, "function" == typeof r ? r() : t(null)) : t.current = r;
	} catch (t) {
		n$1.__e(t, u);
	}
}
function J(t, r, u) {
	var i, f, o, e;
	if (n$1.unmount && n$1.unmount(t), !(i = t.ref) || i.current && i.current != t.__e || G$1(i, null, r, t), i = t.__c) {
		if (i.componentWillUnmount) try {
			i.componentWillUnmount();
		} catch (t) {
			n$1.__e(t, r);
		}
		i.__P = i.__n = null;
	}
	if (i = t.__k) for (e = 0; e < i.length; e++) i[e] && J(i[e], r, "function" != typeof t.type || u && !t.props.__P);
	!u && (i = t.__c) && (i = i.__z) && (f = B$1(i, o = [])) && (i == t.__e && o.some(g$3), g$3(f), g$3(i)), u || g$3(t.__e), t.__e = t.__c = t.__ = null;
}
function K(n, t, r) {
	return this.constructor(n, r);
}
function Q(t, r) {
	var u, i, f, o;
	n$1.__ && n$1.__(t, r), 9 == r.nodeType && (r = r.documentElement), i = (u = t && 32 & t.__u) ? null : r.__k, r.__k = m$3($, { children: [t] }), f = [], o = [], z$1(r, r.__k, i || p$3, p$3, r.namespaceURI, i ? null : r.firstChild ? d$3.call(r.childNodes) : null, f, i ? i.__e : r.firstChild, u, o), E$1(f, r.__k, o), r.__k.props.children = null;
}
n$1 = { __e: function(n, t, r, u) {
	for (var i, o, e; t = t.__;) if ((i = t.__c) && !(1 & i.__g)) {
		i.__g |= 4;
		try {
			if ((e = (o = i.constructor) && o.getDerivedStateFromError) && i.setState(o.getDerivedStateFromError(n)), i.componentDidCatch && (i.componentDidCatch(n, u || {}), e = 1), e && 8 & i.__g) return void (i.__g |= 2);
		} catch (t) {
			n = t;
		}
	}
	throw f$3 = 0, n;
} }, t$2 = 0, r$2 = function(n) {
	return null != n && n.constructor === h$3;
}, x$2.prototype.setState = function(n, t) {
	var r = this.__s;
	r && r != this.state || (r = this.__s = _$3({}, this.state)), "function" == typeof n && (n = n(_$3({}, r), this.props)), n && (_$3(r, n), this.__v && (t && this.__k.push(t), L(this)));
}, x$2.prototype.forceUpdate = function(n) {
	this.__v && (this.__g |= 4, n && this.__h.push(n), L(this));
}, x$2.prototype.render = $, u$3 = [], f$3 = 0, o$3 = function(n, t) {
	return n.__v.__b - t.__v.__b;
}, e$2 = Symbol(), l$2 = /(PointerCapture)$|Capture$/i, c$2 = 0, a$3 = {};
// node_modules/preact/hooks/dist/hooks.mjs
var t$1;
var r$1;
var u$2;
var i$1;
var o$2 = Object.is;
var f$2 = 0;
var c$1 = [];
var e$1 = [];
var a$2 = n$1;
var v$1 = a$2.__b;
var l$1 = a$2.__r;
var m$2 = a$2.diffed;
var h$2 = a$2.__c;
var s$1 = a$2.unmount;
var p$2 = a$2.__;
function y$2(n, t) {
	a$2.__h && a$2.__h(r$1, n, f$2 || t), f$2 = 0;
	var u = r$1.__H || (r$1.__H = {
		__: [],
		__h: []
	});
	return n >= u.__.length && u.__.push({}), u.__[n];
}
function d$2(n) {
	return f$2 = 1, _$2(G, n);
}
function _$2(n, u, i) {
	var f = y$2(t$1++, 2);
	if (f.t = n, !f.__c && (f.__ = [i ? i(u) : G(void 0, u), function(n) {
		var t = (f.__N || f.__)[0], r = f.t(t, n);
		o$2(t, r) || (f.__N = [r, f.__[1]], f.__c.setState({}));
	}], f.__c = r$1, !r$1.__f)) {
		r$1.__f = !0;
		var c = r$1.shouldComponentUpdate;
		r$1.shouldComponentUpdate = function(n, t, r) {
			var u = this.__H;
			if (!u) return !0;
			var i = !1, f = this.props != n;
			if (u.__.some(function(n) {
				n.__N && (i = !0, o$2(n.__[0], n.__N[0]) || (f = !0));
			}), c) {
				var e = c.call(this, n, t, r);
				return i ? e || f : e;
			}
			return !i || f;
		};
	}
	return f.__;
}
function A$1(n, u) {
	var i = y$2(t$1++, 3);
	!a$2.__s && E(i.__H, u) && (i.__P = !0, i.__ = n, i.u = u, r$1.__H.__h.push(i));
}
function F$1(n, u) {
	var i = y$2(t$1++, 4);
	!a$2.__s && E(i.__H, u) && (i.__P = !1, i.__ = n, i.u = u, r$1.__h.push(i));
}
function T$1(n) {
	return f$2 = 5, w$2(function() {
		return { current: n };
	}, []);
}
function w$2(n, r) {
	var u = y$2(t$1++, 7);
	return E(u.__H, r) && (u.__ = n(), u.__H = r), u.__;
}
function P() {
	var n = y$2(t$1++, 11);
	if (!n.__) {
		for (var u = r$1.__v; !u.__m && u.__;) u = u.__;
		var i = u.__m || (u.__m = [0, 0]);
		n.__ = "P" + i[0] + "-" + i[1]++;
	}
	return n.__;
}
function g$2() {
	var n;
	do {
		for (; n = e$1.shift();) try {
			C(n);
		} catch (t) {
			a$2.__e(t, { __: (n = n.__P) && n.__v });
		}
		for (; n = c$1.shift();) {
			var t = n.__H;
			if (n.__P && t) try {
				t.__h.some(C), t.__h.some(D), t.__h = [];
			} catch (r) {
				t.__h = [], a$2.__e(r, n.__v);
			}
		}
	} while (e$1.length);
}
a$2.__b = function(n) {
	r$1 = null, v$1 && v$1(n);
}, a$2.__ = function(n, t) {
	n && t.__k && t.__k.__m && (n.__m = t.__k.__m), p$2 && p$2(n, t);
}, a$2.__r = function(n) {
	l$1 && l$1(n), t$1 = 0;
	var i = (r$1 = n.__c).__H;
	i && (u$2 == r$1 ? r$1.__h = [] : (i.__h.some(C), i.__h.some(D), t$1 = 0), i.__h = [], i.__.some(function(n) {
		n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
	})), u$2 = r$1;
}, a$2.diffed = function(n) {
	m$2 && m$2(n);
	var t = n.__c;
	t && t.__H && (t.__H.__h.length && B(c$1.push(t)), t.__H.__.some(function(n) {
		n.u && (n.__H = n.u);
	})), u$2 = r$1 = null;
}, a$2.__c = function(n, t) {
	t.some(function(n) {
		try {
			n.__h.some(C), n.__h = n.__h.filter(function(n) {
				return !n.__ || D(n);
			});
		} catch (t) {
			n.__h = [function() {
				throw t;
			}];
		}
	}), h$2 && h$2(n, t);
}, a$2.unmount = function(n) {
	s$1 && s$1(n);
	var t, r, u = n.__c;
	u && u.__H && (u.__H.__.some(function(u) {
		try {
			if (u.__P && u.__c) {
				if (void 0 === r) {
					for (r = n.__; r && (!r.__c || !r.__c.__P);) r = r.__;
					r = r && r.__c;
				}
				u.__P = r, B(e$1.push(u));
			} else C(u);
		} catch (n) {
			t = n;
		}
	}), u.__H = void 0, t && a$2.__e(t, u.__v));
};
var k$1 = "function" == typeof requestAnimationFrame;
function z(n) {
	var t, r = function() {
		clearTimeout(u), k$1 && cancelAnimationFrame(t), setTimeout(n);
	}, u = setTimeout(r, 35);
	k$1 && (t = requestAnimationFrame(r));
}
function B(n) {
	1 != n && i$1 == a$2.requestAnimationFrame || ((i$1 = a$2.requestAnimationFrame) || z)(g$2);
}
function C(n) {
	var t = r$1, u = n.__c;
	"function" == typeof u && (n.__c = void 0, u()), r$1 = t;
}
function D(n) {
	var t = r$1;
	n.__c = n.__(), r$1 = t;
}
function E(n, t) {
	return !n || n.length != t.length || t.some(function(t, r) {
		return !o$2(t, n[r]);
	});
}
function G(n, t) {
	return "function" == typeof t ? t(n) : t;
}
// node_modules/@preact/signals-core/dist/signals-core.module.js
var i = Symbol.for("preact-signals");
function t() {
	if (!(v > 1)) {
		var i, t = !1;
		(function() {
			var i = c;
			c = void 0;
			while (void 0 !== i) {
				var t = i.S;
				if (t.v === i.v) {
					for (var r = t.t; void 0 !== r; r = r.x) if (r.i === i.i) r.i = t.i;
				}
				i = i.o;
			}
		})();
		while (void 0 !== h$1) {
			var r = h$1;
			h$1 = void 0;
			s++;
			while (void 0 !== r) {
				var n = r.u;
				r.u = void 0;
				r.f &= -3;
				if (!(8 & r.f) && w$1(r)) try {
					r.c();
				} catch (r) {
					if (!t) {
						i = r;
						t = !0;
					}
				}
				r = n;
			}
		}
		s = 0;
		v--;
		if (t) throw i;
	} else v--;
}
function r(i) {
	if (v > 0) return i();
	u$1 = ++e;
	v++;
	try {
		return i();
	} finally {
		t();
	}
}
var n;
var o$1 = void 0;
function f$1(i) {
	var t = o$1, r = n;
	o$1 = void 0;
	n = void 0;
	try {
		return i();
	} finally {
		o$1 = t;
		n = r;
	}
}
var h$1 = void 0;
var v = 0;
var s = 0;
var e = 0;
var u$1 = 0;
var c = void 0;
var a$1 = 0;
function d$1(i) {
	if (void 0 !== o$1) {
		var t = i.n;
		if (void 0 === t || t.t !== o$1) {
			t = {
				i: 0,
				S: i,
				p: o$1.s,
				n: void 0,
				t: o$1,
				e: void 0,
				x: void 0,
				r: t
			};
			if (void 0 !== o$1.s) o$1.s.n = t;
			o$1.s = t;
			i.n = t;
			if (32 & o$1.f) i.S(t);
			return t;
		} else if (-1 === t.i) {
			t.i = 0;
			if (void 0 !== t.n) {
				t.n.p = t.p;
				if (void 0 !== t.p) t.p.n = t.n;
				t.p = o$1.s;
				t.n = void 0;
				o$1.s.n = t;
				o$1.s = t;
			}
			return t;
		}
	}
}
function l(i, t) {
	this.v = i;
	this.i = 0;
	this.n = void 0;
	this.t = void 0;
	this.l = 0;
	this.W = null == t ? void 0 : t.watched;
	this.Z = null == t ? void 0 : t.unwatched;
	this.name = null == t ? void 0 : t.name;
}
l.prototype.brand = i;
l.prototype.h = function() {
	return !0;
};
l.prototype.S = function(i) {
	var t = this, r = this.t;
	if (r !== i && void 0 === i.e) {
		i.x = r;
		this.t = i;
		if (void 0 !== r) r.e = i;
		else f$1(function() {
			var i;
			null == (i = t.W) || i.call(t);
		});
	}
};
l.prototype.U = function(i) {
	var t = this;
	if (void 0 !== this.t) {
		var r = i.e, n = i.x;
		if (void 0 !== r) {
			r.x = n;
			i.e = void 0;
		}
		if (void 0 !== n) {
			n.e = r;
			i.x = void 0;
		}
		if (i === this.t) {
			this.t = n;
			if (void 0 === n) f$1(function() {
				var i;
				null == (i = t.Z) || i.call(t);
			});
		}
	}
};
l.prototype.subscribe = function(i) {
	var t = this;
	return x$1(function() {
		var r = t.value;
		f$1(function() {
			return i(r);
		});
	}, { name: "sub" });
};
l.prototype.valueOf = function() {
	return this.value;
};
l.prototype.toString = function() {
	return this.value + "";
};
l.prototype.toJSON = function() {
	return this.value;
};
l.prototype.peek = function() {
	var i = this;
	return f$1(function() {
		return i.value;
	});
};
Object.defineProperty(l.prototype, "value", {
	get: function() {
		var i = d$1(this);
		if (void 0 !== i) i.i = this.i;
		return this.v;
	},
	set: function(i) {
		if (i !== this.v) {
			if (s > 100) throw new Error("Cycle detected");
			(function(i) {
				if (0 !== v && 0 === s) {
					if (i.l !== u$1) {
						i.l = u$1;
						c = {
							S: i,
							v: i.v,
							i: i.i,
							o: c
						};
					}
				}
			})(this);
			this.v = i;
			this.i++;
			a$1++;
			v++;
			try {
				for (var r = this.t; void 0 !== r; r = r.x) r.t.N();
			} finally {
				t();
			}
		}
	}
});
function y$1(i, t) {
	return new l(i, t);
}
function w$1(i) {
	for (var t = i.s; void 0 !== t; t = t.n) if (t.S.i !== t.i || !t.S.h() || t.S.i !== t.i) return !0;
	return !1;
}
function b$1(i) {
	for (var t = i.s; void 0 !== t; t = t.n) {
		var r = t.S.n;
		if (void 0 !== r) t.r = r;
		t.S.n = t;
		t.i = -1;
		if (void 0 === t.n) {
			i.s = t;
			break;
		}
	}
}
function _$1(i) {
	var t = i.s, r = void 0;
	while (void 0 !== t) {
		var n = t.p;
		if (-1 === t.i) {
			t.S.U(t);
			if (void 0 !== n) n.n = t.n;
			if (void 0 !== t.n) t.n.p = n;
		} else r = t;
		t.S.n = t.r;
		if (void 0 !== t.r) t.r = void 0;
		t = n;
	}
	i.s = r;
}
function j(i, t) {
	l.call(this, void 0, t);
	this.x = i;
	this.s = void 0;
	this.g = a$1 - 1;
	this.f = 4;
}
j.prototype = new l();
j.prototype.h = function() {
	this.f &= -3;
	if (1 & this.f) return !1;
	if (32 == (36 & this.f)) return !0;
	this.f &= -5;
	if (this.g === a$1) return !0;
	this.g = a$1;
	this.f |= 1;
	if (this.i > 0 && !w$1(this)) {
		this.f &= -2;
		return !0;
	}
	var i = o$1;
	try {
		b$1(this);
		o$1 = this;
		var t = this.x();
		if (16 & this.f || this.v !== t || 0 === this.i) {
			this.v = t;
			this.f &= -17;
			this.i++;
		}
	} catch (i) {
		this.v = i;
		this.f |= 16;
		this.i++;
	}
	o$1 = i;
	_$1(this);
	this.f &= -2;
	return !0;
};
j.prototype.S = function(i) {
	if (void 0 === this.t) {
		this.f |= 36;
		for (var t = this.s; void 0 !== t; t = t.n) t.S.S(t);
	}
	l.prototype.S.call(this, i);
};
j.prototype.U = function(i) {
	if (void 0 !== this.t) {
		l.prototype.U.call(this, i);
		if (void 0 === this.t) {
			this.f &= -33;
			for (var t = this.s; void 0 !== t; t = t.n) t.S.U(t);
		}
	}
};
j.prototype.N = function() {
	if (!(2 & this.f)) {
		this.f |= 6;
		for (var i = this.t; void 0 !== i; i = i.x) i.t.N();
	}
};
Object.defineProperty(j.prototype, "value", { get: function() {
	if (1 & this.f) throw new Error("Cycle detected");
	var i = d$1(this);
	this.h();
	if (void 0 !== i) i.i = this.i;
	if (16 & this.f) throw this.v;
	return this.v;
} });
function O(i, t) {
	return new j(i, t);
}
function p$1(i) {
	var r = i.j;
	i.j = void 0;
	if ("function" == typeof r) {
		v++;
		var n = o$1;
		o$1 = void 0;
		try {
			r();
		} catch (t) {
			i.f &= -2;
			i.f |= 8;
			g$1(i);
			throw t;
		} finally {
			o$1 = n;
			t();
		}
	}
}
function g$1(i) {
	for (var t = i.s; void 0 !== t; t = t.n) t.S.U(t);
	i.x = void 0;
	i.s = void 0;
	p$1(i);
}
function S(i) {
	if (o$1 !== this) throw new Error("Out-of-order effect");
	_$1(this);
	o$1 = i;
	this.f &= -2;
	try {
		if (8 & this.f) g$1(this);
	} finally {
		t();
	}
}
function m$1(i, t) {
	this.x = i;
	this.j = void 0;
	this.s = void 0;
	this.u = void 0;
	this.f = 32;
	this.name = null == t ? void 0 : t.name;
	if (n) n.push(this);
}
m$1.prototype.c = function() {
	var i = this.S();
	try {
		if (8 & this.f) return;
		if (void 0 === this.x) return;
		var t = this.x();
		if ("function" == typeof t) this.j = t;
	} finally {
		i();
	}
};
m$1.prototype.S = function() {
	if (1 & this.f) throw new Error("Cycle detected");
	this.f |= 1;
	this.f &= -9;
	p$1(this);
	b$1(this);
	v++;
	var i = o$1;
	o$1 = this;
	return S.bind(this, i);
};
m$1.prototype.N = function() {
	if (!(2 & this.f)) {
		this.f |= 2;
		this.u = h$1;
		h$1 = this;
	}
};
m$1.prototype.d = function() {
	this.f |= 8;
	if (!(1 & this.f)) g$1(this);
};
m$1.prototype.dispose = function() {
	this.d();
};
function x$1(i, t) {
	var r = new m$1(i, t);
	try {
		r.c();
	} catch (i) {
		r.d();
		throw i;
	}
	var n = r.d.bind(r);
	n[Symbol.dispose] = n;
	return n;
}
// node_modules/@preact/signals/dist/signals.module.js
var h;
var d;
var p;
var m = "undefined" != typeof window && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var _ = [];
var g = [];
x$1(function() {
	h = this.N;
})();
function b(i, n) {
	n$1[i] = n.bind(null, n$1[i] || function() {});
}
function y(i) {
	if (p) {
		var n = p;
		p = void 0;
		n();
	}
	p = i && i.S();
}
function w(i) {
	var n = this, r = i.data, t = useSignal(r);
	t.name = "ReactiveDom";
	t.value = r;
	var e = w$2(function() {
		var i = n, r = n.__v;
		while (r = r.__) if (r.__c) {
			r.__c.__$f |= 4;
			break;
		}
		var o = O(function() {
			var i = t.value.value;
			return 0 === i ? 0 : !0 === i ? "" : i || "";
		}), e = O(function() {
			return !Array.isArray(o.value) && !r$2(o.value);
		}), u = x$1(function() {
			this.N = M;
			if (e.value) {
				var n = o.value;
				if (i.__v && i.__v.__e && 3 === i.__v.__e.nodeType) i.__v.__e.data = n;
			}
		}), c = n.__$u.d;
		n.__$u.d = function() {
			u();
			c.call(this);
		};
		return [e, o];
	}, []), u = e[0], c = e[1];
	return u.value ? c.peek() : c.value;
}
w.displayName = "ReactiveTextNode";
Object.defineProperties(l.prototype, {
	constructor: {
		configurable: !0,
		value: k$2($, null).constructor
	},
	type: {
		configurable: !0,
		value: w
	},
	props: {
		configurable: !0,
		get: function() {
			var i = this;
			return { data: { get value() {
				return i.value;
			} } };
		}
	},
	__b: {
		configurable: !0,
		value: 1
	}
});
b("__b", function(i, n) {
	y();
	d = void 0;
	if ("string" == typeof n.type) {
		var r, t = n.props;
		for (var f in t) if ("children" !== f) {
			var o = t[f];
			if (o instanceof l) {
				if (!r) n.__np = r = {};
				r[f] = o;
				t[f] = o.peek();
			}
		}
	}
	i(n);
});
b("__r", function(i, r) {
	i(r);
	if (r.type !== $) {
		y();
		var t, f = r.__c;
		if (f) {
			f.__$f &= -2;
			if (void 0 === (t = f.__$u)) f.__$u = t = function(i, n) {
				var r;
				x$1(function() {
					r = this;
				}, { name: n });
				r.c = i;
				return r;
			}(function(i) {
				return function() {
					var n;
					if (m) null == (n = this.y) || n.call(this);
					i.__$f |= 1;
					i.setState({});
				};
			}(f), "function" == typeof r.type ? r.type.displayName || r.type.name : "");
		}
		d = f;
		y(t);
	}
});
b("__e", function(i, n, r, t) {
	y();
	d = void 0;
	i(n, r, t);
});
b("diffed", function(i, n) {
	y();
	d = void 0;
	var r;
	if ("string" == typeof n.type && (r = n.__e)) {
		var t = n.__np, f = n.props, o = r.U;
		if (o) for (var e in o) {
			var u = o[e];
			if (!(void 0 === u || t && e in t)) {
				u.d();
				o[e] = void 0;
			}
		}
		if (t) {
			if (!o) {
				o = {};
				r.U = o;
			}
			for (var a in t) {
				var c = o[a], v = t[a];
				if (void 0 === c) {
					c = k(r, a, v, f);
					o[a] = c;
				} else c.o(v, f);
			}
		}
	}
	i(n);
});
function k(i, n, r, t) {
	var f = n in i && void 0 === i.ownerSVGElement, o = y$1(r);
	return {
		o: function(i, n) {
			o.value = i;
			t = n;
		},
		d: x$1(function() {
			this.N = M;
			var r = o.value.value;
			if (t[n] !== r) {
				t[n] = r;
				if (f) i[n] = r;
				else if (null != r && (!1 !== r || "-" === n[4])) i.setAttribute(n, r);
				else i.removeAttribute(n);
			}
		})
	};
}
b("unmount", function(i, n) {
	if ("string" == typeof n.type) {
		var r = n.__e;
		if (r) {
			var t = r.U;
			if (t) {
				r.U = void 0;
				for (var f in t) {
					var o = t[f];
					if (o) o.d();
				}
			}
		}
		var e = n.__np;
		if (e) {
			var u = n.props;
			for (var a in e) u[a] = e[a];
		}
		n.__np = void 0;
	} else {
		var c = n.__c;
		if (c) {
			c.__$f |= 8;
			var v = c.__$u;
			if (v) {
				c.__$u = void 0;
				v.d();
			}
		}
	}
	i(n);
});
b("__h", function(i, n, r, t) {
	if (t < 3) n.__$f |= 2;
	i(n, r, t);
});
x$2.prototype.shouldComponentUpdate = function(i, n) {
	if (this.__R) return !0;
	var r = this.__$u, t = r && void 0 !== r.s;
	for (var f in n) return !0;
	if (this.__f || "boolean" == typeof this.u && !0 === this.u) {
		var o = 2 & this.__$f;
		if (!(t || o || 4 & this.__$f)) return !0;
		if (1 & this.__$f) return !0;
	} else {
		if (!(t || 4 & this.__$f)) return !0;
		if (3 & this.__$f) return !0;
	}
	for (var e in i) if ("__source" !== e && i[e] !== this.props[e]) return !0;
	for (var u in this.props) if (!(u in i)) return !0;
	return !1;
};
function useSignal(i, n) {
	return w$2(function() {
		return y$1(i, n);
	}, []);
}
function useComputed(i, n) {
	var r = T$1(i);
	r.current = i;
	d.__$f |= 4;
	return w$2(function() {
		return O(function() {
			return r.current();
		}, n);
	}, []);
}
var q = "undefined" == typeof requestAnimationFrame ? setTimeout : function(i) {
	var n = function() {
		clearTimeout(r);
		cancelAnimationFrame(t);
		i();
	}, r = setTimeout(n, 35), t = requestAnimationFrame(n);
};
var A = function(i) {
	queueMicrotask(function() {
		queueMicrotask(i);
	});
};
function T() {
	r(function() {
		var i;
		while (i = _.shift()) h.call(i);
	});
}
function x() {
	if (1 === _.push(this)) (n$1.requestAnimationFrame || q)(T);
}
function F() {
	r(function() {
		var i;
		while (i = g.shift()) h.call(i);
	});
}
function M() {
	if (1 === g.push(this)) (n$1.requestAnimationFrame || A)(F);
}
function useSignalEffect(i, n) {
	var r = T$1(i);
	r.current = i;
	var t = d;
	A$1(function() {
		return x$1(function() {
			this.N = x;
			if (!(t && 8 & t.__$f)) return r.current();
		}, n);
	}, []);
}
// src/app/server/clock.ts
var base = y$1(Date.now() - performance.now());
var now = y$1(new Date());
var skew = O(() => Date.now() - performance.now() - base.value);
var PRECISION_MS = 2e3;
function serverTime() {
	return new Date(base.peek() + performance.now());
}
function noteServerTime(stated) {
	const next = stated.getTime() - performance.now();
	if (Number.isNaN(next) || Math.abs(next - base.peek()) < PRECISION_MS) return;
	base.value = next;
	tick();
}
function startClock() {
	tick();
	setInterval(tick, 1e3);
	document.addEventListener("visibilitychange", tick);
}
function tick() {
	if (!document.hidden) now.value = serverTime();
}
// src/app/server/key-sharing.ts
var CHANNEL = "trellis-key";
var TIMEOUT_MS$1 = 300;
var QUESTION = "key?";
function answerTabs(readKey) {
	const channel = new BroadcastChannel(CHANNEL);
	channel.onmessage = ({ data }) => {
		if (data !== QUESTION) return;
		const key = readKey();
		if (key !== void 0) channel.postMessage({ key });
	};
	return () => channel.close();
}
function askTabs(accepts) {
	return new Promise((resolve) => {
		const channel = new BroadcastChannel(CHANNEL);
		const end = (key) => {
			clearTimeout(timer);
			channel.close();
			resolve(key);
		};
		const timer = setTimeout(end, TIMEOUT_MS$1);
		channel.onmessage = ({ data }) => {
			const key = readAnswer$1(data);
			if (key !== void 0 && accepts(key)) end(key);
		};
		channel.postMessage(QUESTION);
	});
}
function readAnswer$1(data) {
	if (typeof data !== "object" || data === null || !("key" in data)) return void 0;
	const { key } = data;
	return typeof key === "string" && /^[\x21-\x7e]{1,256}$/.test(key) ? key : void 0;
}
// src/app/server/session-key.ts
var STORAGE_KEY$1 = "trellis-key";
var memory;
var rejected = new Set();
function readKey() {
	const key = memory ?? readStored();
	return key !== void 0 && isRejected(key) ? void 0 : key;
}
function readStored() {
	try {
		return sessionStorage.getItem(STORAGE_KEY$1) ?? void 0;
	} catch {
		return;
	}
}
function keepKey(key) {
	memory = key;
	try {
		sessionStorage.setItem(STORAGE_KEY$1, key);
	} catch {}
}
function rejectKey(key) {
	rejected.add(key);
	if (memory === key) memory = void 0;
	if (readStored() === key) sessionStorage.removeItem(STORAGE_KEY$1);
}
function isRejected(key) {
	return rejected.has(key);
}
function takeCode() {
	const code = new URLSearchParams(location.hash.slice(1)).get("code");
	if (code === null) return void 0;
	history.replaceState(history.state, "", location.pathname + location.search);
	return code;
}
// src/app/server/request.ts
var OPEN_PATH = "/api/open";
var TIMEOUT_MS = 3e4;
var RequestError = class extends Error {
	name = "RequestError";
	kind;
	retryAfter;
	constructor(kind, message, retryAfter) {
		super(message);
		this.kind = kind;
		this.retryAfter = retryAfter;
	}
};
async function get(path, signal) {
	return readAnswer(await send(path, { signal: limited(signal) }));
}
async function post(path, body, signal) {
	return readAnswer(await send(path, {
		method: "POST",
		headers: { "Content-Type": "application/json" },
		body: JSON.stringify(body),
		signal: limited(signal)
	}));
}
function limited(signal) {
	const limit = AbortSignal.timeout(TIMEOUT_MS);
	return signal ? AbortSignal.any([signal, limit]) : limit;
}
async function readAnswer(response) {
	try {
		return await response.json();
	} catch (error) {
		if (!(error instanceof SyntaxError)) throw asRequestError(error);
		throw new RequestError("internal", "The server has sent an answer that is no JSON.");
	}
}
async function send(path, init) {
	const headers = new Headers(init.headers);
	const key = path === "/api/open" ? void 0 : readKey();
	if (key !== void 0) headers.set("Trellis-Key", key);
	let response;
	try {
		response = await fetch(path, {
			...init,
			headers,
			cache: "no-store",
			redirect: "error"
		});
	} catch (error) {
		throw asRequestError(error);
	}
	const date = response.headers.get("Date");
	if (date !== null) noteServerTime(new Date(date));
	if (response.ok) return response;
	const error = await readError(response);
	if (error.kind === "key" && key !== void 0) rejectKey(key);
	throw error;
}
function toRequestError(thrown) {
	if (thrown instanceof RequestError) return thrown;
	console.error(thrown);
	return new RequestError("internal", String(thrown));
}
function asRequestError(error) {
	if (error instanceof RequestError) return error;
	if (error instanceof DOMException && error.name === "AbortError") return error;
	if (error instanceof DOMException && error.name === "TimeoutError") return new RequestError("unavailable", "The server of this page has not answered in time.");
	return new RequestError("offline", "The server of this page cannot be reached.");
}
async function readError(response) {
	const wait = Number(response.headers.get("Retry-After") ?? NaN);
	const retryAfter = Number.isFinite(wait) ? wait : void 0;
	try {
		const error = readWireError(await response.json());
		if (error) return new RequestError(error.kind, error.message, retryAfter);
	} catch {}
	return new RequestError(KIND_OF_STATUS[response.status] ?? "internal", `The server answered with HTTP status ${response.status}.`, retryAfter);
}
var KIND_OF_STATUS = {
	401: "unauthorized",
	403: "denied",
	404: "notFound",
	429: "busy",
	502: "unreachable",
	503: "unavailable",
	504: "unavailable"
};
function readWireError(body) {
	if (typeof body !== "object" || body === null || !("error" in body)) return void 0;
	const { error } = body;
	if (typeof error !== "object" || error === null) return void 0;
	if (!("kind" in error) || !("message" in error)) return void 0;
	return {
		kind: String(error.kind),
		message: String(error.message)
	};
}
// src/app/server/session.ts
var needsNoKey = false;
async function exchangeCode() {
	const code = takeCode();
	if (code === void 0) return;
	try {
		const { key } = await post(OPEN_PATH, { code });
		keepKey(key);
	} catch (error) {
		if (isKeyRefusal(error) && readKey() !== void 0) return;
		throw error;
	}
}
function isKeyRefusal(error) {
	return error instanceof RequestError && error.kind === "key";
}
async function openSession(signal) {
	const key = readKey();
	const session = await get("/api/session", signal);
	if (key === void 0) needsNoKey = true;
	noteServerTime(new Date(session.time));
	return session;
}
async function borrowKey() {
	if (needsNoKey) return false;
	const own = readKey();
	if (own !== void 0) rejectKey(own);
	const key = await askTabs((other) => !isRejected(other));
	if (key !== void 0) keepKey(key);
	return key !== void 0;
}
// src/app/live/back-off.ts
var PAUSES = [
	1,
	2,
	4,
	8,
	15,
	30
];
var REFUSED_PAUSE = 30;
function pauseAfter(failures, kind, retryAfter, random) {
	const spread = (kind === "unauthorized" || kind === "denied" ? REFUSED_PAUSE : PAUSES[Math.min(Math.max(failures, 1), PAUSES.length) - 1] ?? 30) * (.9 + random * .2);
	return Math.max(spread, retryAfter ?? 0);
}
// src/app/text/format.ts
var MINUTE = 60;
var HOUR$1 = 3600;
var DAY = 24 * HOUR$1;
var YEAR = 365 * DAY;
function formatAge(since, now) {
	return formatSeconds(wholeSeconds(now) - wholeSeconds(since));
}
function formatUntil(then, now) {
	const seconds = wholeSeconds(then) - wholeSeconds(now);
	return seconds <= 0 ? "now" : formatSeconds(seconds);
}
function formatSeconds(total) {
	const seconds = Number.isFinite(total) ? Math.max(0, Math.floor(total)) : 0;
	const two = (large, name, small, smallName) => {
		const few = Math.floor(seconds % large / small);
		return `${Math.floor(seconds / large)}${name}${few === 0 ? "" : `${few}${smallName}`}`;
	};
	if (seconds < 120) return `${seconds}s`;
	if (seconds < 600) return two(MINUTE, "m", 1, "s");
	if (seconds < 3 * HOUR$1) return `${Math.floor(seconds / MINUTE)}m`;
	if (seconds < 8 * HOUR$1) return two(HOUR$1, "h", MINUTE, "m");
	if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR$1)}h`;
	if (seconds < 8 * DAY) return two(DAY, "d", HOUR$1, "h");
	if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
	if (seconds < 8 * YEAR) return two(YEAR, "y", DAY, "d");
	return `${Math.floor(seconds / YEAR)}y`;
}
function wholeSeconds(time) {
	return Math.floor((time instanceof Date ? time.getTime() : Date.parse(time)) / 1e3);
}
var pad = (value) => String(value).padStart(2, "0");
function formatClock(time, now) {
	const at = new Date(time);
	if (Number.isNaN(at.getTime())) return String(time);
	const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
	return at.toDateString() === now.toDateString() ? clock : `${formatDate(at)} ${clock}`;
}
function formatClockSeconds(at) {
	return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}
function formatDateTime(time) {
	const at = new Date(time);
	if (Number.isNaN(at.getTime())) return String(time);
	return `${formatDate(at)} ${formatClockSeconds(at)}`;
}
function formatDate(at) {
	return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}
var SUFFIXES = {
	n: 1e-9,
	u: 1e-6,
	m: .001,
	"": 1,
	k: 1e3,
	M: 1e6,
	G: 1e9,
	T: 0xe8d4a51000,
	P: 0x38d7ea4c68000,
	E: 0xde0b6b3a7640000,
	Ki: 1024,
	Mi: 2 ** 20,
	Gi: 2 ** 30,
	Ti: 2 ** 40,
	Pi: 2 ** 50,
	Ei: 2 ** 60
};
function parseQuantity(quantity) {
	const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/.exec(quantity ?? "");
	if (!match) return void 0;
	const factor = SUFFIXES[match[2] ?? ""];
	return factor === void 0 ? void 0 : Number(match[1]) * factor;
}
var BYTES = new Set([
	"memory",
	"ephemeral-storage",
	"storage"
]);
var BYTE_UNITS = [
	"Ki",
	"Mi",
	"Gi",
	"Ti",
	"Pi"
];
function formatAmount(resource, quantity) {
	const bytes = BYTES.has(resource) || resource.startsWith("hugepages-") ? parseQuantity(quantity) : void 0;
	if (bytes === void 0) return quantity;
	const whole = Math.floor(bytes);
	let value = Math.abs(whole);
	let unit = "";
	for (const next of BYTE_UNITS) {
		if (value < 1024) break;
		value /= 1024;
		unit = next;
	}
	const tenths = Math.floor(value * 10) / 10;
	return `${whole < 0 ? "-" : ""}${tenths}${unit}`;
}
function formatCount(count) {
	return String(count).replace(/\B(?=(\d{3})+$)/g, " ");
}
function countOf(count, noun, plural = `${noun}s`) {
	return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}
function jobLabel(name) {
	if (name.startsWith("podgroup.")) return `PodGroup/${name.slice(9)}`;
	if (name.startsWith("pod.")) return `Pod/${name.slice(4)}`;
	return name;
}
function resourceLabel(resource, flavor) {
	return flavor === "" || flavor === "default" ? resource : `${resource} (${flavor})`;
}
// src/app/job/jobs.ts
var REQUIRES_CHANGE = new Set([
	"ExceedsQuota",
	"ExceedsCluster",
	"ExceedsTopology",
	"FlavorNotFound"
]);
function canNeverStart(job) {
	return isPending(job) && job.reason !== void 0 && REQUIRES_CHANGE.has(job.reason);
}
function isPending(job) {
	return job.position !== void 0 || job.phase === "Queued";
}
function phaseOf(job) {
	return job.phase ?? "Queued";
}
function describeEta(job, now) {
	if (canNeverStart(job)) return "never as it is";
	const isWaiting = isPending(job);
	const time = isWaiting ? job.expectedStart : job.expectedEnd;
	if (time === void 0) return void 0;
	const word = isWaiting ? "starts" : "ends";
	const span = formatUntil(time, now);
	return span === "now" ? `${word} now` : `${word} in ${span}`;
}
function describeReason(job) {
	if (job.reason === void 0 || job.phase === "Running") return "";
	return job.message ? `${job.reason}: ${job.message}` : job.reason;
}
function readFilter(query) {
	const value = (name) => query.get(name) || void 0;
	return {
		queue: value("q"),
		state: value("state"),
		namespace: value("namespace"),
		user: value("user"),
		text: value("text")
	};
}
function filterJobs(jobs, filter) {
	const words = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
	const selected = [];
	for (const job of jobs) if (matches(job, filter, words)) selected.push(job);
	return selected;
}
function matches(job, filter, words) {
	if (filter.queue !== void 0 && job.queue !== filter.queue) return false;
	if (filter.namespace !== void 0 && job.metadata.namespace !== filter.namespace) return false;
	if (filter.user !== void 0 && job.user !== filter.user) return false;
	if (filter.state !== void 0 && !matchesState(job, filter.state)) return false;
	if (words.length === 0) return true;
	const text = searchText(job);
	return words.every((word) => text.includes(word));
}
function matchesState(job, state) {
	if (state === "waiting") return isPending(job);
	if (state === "running") return !isPending(job);
	return phaseOf(job) === state;
}
var jobTimes = new WeakMap();
function timesOf(job) {
	let times = jobTimes.get(job);
	if (times === void 0) {
		const eta = isPending(job) ? job.expectedStart : job.expectedEnd;
		const isKnown = eta !== void 0 && !canNeverStart(job);
		times = {
			since: Date.parse(job.since),
			eta: isKnown ? Date.parse(eta) : void 0
		};
		jobTimes.set(job, times);
	}
	return times;
}
var searchTexts = new WeakMap();
function searchText(job) {
	let text = searchTexts.get(job);
	if (text === void 0) {
		const name = `${job.metadata.namespace ?? ""}/${jobLabel(job.metadata.name)}`;
		const message = job.message?.slice(0, 400);
		text = [
			name,
			job.user,
			job.queue,
			job.reason,
			message
		].join("\n").toLowerCase();
		searchTexts.set(job, text);
	}
	return text;
}
var SORT_COLUMNS = [
	"position",
	"job",
	"user",
	"queue",
	"priority",
	"gpus",
	"pods",
	"state",
	"since",
	"eta",
	"reason"
];
var QUEUE_ORDER = {
	column: void 0,
	descending: false
};
function readOrder(text) {
	const descending = text?.startsWith("-") ?? false;
	const name = descending ? text?.slice(1) : text;
	return {
		column: SORT_COLUMNS.find((column) => column === name),
		descending
	};
}
function writeOrder(order) {
	if (order.column === void 0) return void 0;
	return `${order.descending ? "-" : ""}${order.column}`;
}
function nextOrder(order, column) {
	if (order.column !== column) return {
		column,
		descending: false
	};
	if (!order.descending) return {
		column,
		descending: true
	};
	return QUEUE_ORDER;
}
var SORT_KEYS = {
	position: (job) => job.position,
	job: (job) => `${job.metadata.namespace ?? ""}/${job.metadata.name}`,
	user: (job) => job.user,
	queue: (job) => job.queue,
	priority: (job) => job.priority,
	gpus: (job) => job.gpus,
	pods: (job) => job.pods,
	state: (job) => phaseOf(job),
	since: (job) => timesOf(job).since,
	eta: (job) => timesOf(job).eta,
	reason: (job) => describeReason(job) || void 0
};
function sortJobs(jobs, order) {
	const inQueueOrder = sortInQueueOrder(jobs);
	const { column, descending } = order;
	if (column === void 0) return inQueueOrder;
	const keyOf = SORT_KEYS[column];
	const rows = inQueueOrder.map((job) => ({
		job,
		key: keyOf(job)
	}));
	rows.sort((a, b) => {
		if (a.key === void 0 || b.key === void 0) return Number(a.key === void 0) - Number(b.key === void 0);
		const compared = compare(a.key, b.key);
		return descending ? -compared : compared;
	});
	return rows.map((row) => row.job);
}
function sortInQueueOrder(jobs) {
	const rows = jobs.map((job) => ({
		job,
		position: job.position ?? 0,
		since: timesOf(job).since
	}));
	rows.sort((a, b) => compare(a.job.queue, b.job.queue) || a.position - b.position || a.since - b.since || b.job.priority - a.job.priority || compare(a.job.metadata.namespace ?? "", b.job.metadata.namespace ?? "") || compare(a.job.metadata.name, b.job.metadata.name));
	return rows.map((row) => row.job);
}
function compare(a, b) {
	if (a === b) return 0;
	return a < b ? -1 : 1;
}
// src/app/live/changes.ts
var MAX_CHANGES = 100;
function keepRecent(changes) {
	return changes.slice(0, MAX_CHANGES);
}
function diffJobs(before, after, keys, time) {
	const found = [];
	for (const key of new Set(keys)) {
		const change = diffJob(before.get(key), after.get(key));
		if (change) found.push({
			...change,
			key,
			time
		});
	}
	return found;
}
function diffJob(before, after) {
	if (!after) return before && {
		what: "left",
		job: before
	};
	if (!before) return {
		what: "submitted",
		job: after
	};
	if (before.metadata.uid !== after.metadata.uid) return {
		what: "submitted",
		job: after
	};
	if (before.phase !== after.phase) return {
		what: after.phase === "Running" ? "started" : "phase",
		job: after,
		before
	};
	return after.position === 1 && before.position !== 1 ? {
		what: "first",
		job: after,
		before
	} : void 0;
}
// src/app/live/delta.ts
function applyDeltas(old, deltas, keyOf) {
	if (!deltas.some((delta) => delta.changed?.length || delta.gone?.length)) return old;
	const rows = new Map(old);
	for (const delta of deltas) {
		for (const key of delta.gone ?? []) rows.delete(key);
		for (const row of delta.changed ?? []) rows.set(keyOf(row), row);
	}
	return rows;
}
function indexRows(rows, keyOf) {
	return new Map(rows.map((row) => [keyOf(row), row]));
}
// src/app/live/positions.ts
function applyJobDeltas(old, deltas, keyOf) {
	return deltas.reduce((jobs, delta) => applyOne(jobs, delta, keyOf), old);
}
function applyOne(old, delta, keyOf) {
	const next = applyDeltas(old, [delta], keyOf);
	const queues = reorderedQueues(old, delta, keyOf);
	if (queues.size === 0) return next;
	const [before, after] = [waitingKeys(old, queues), waitingKeys(next, queues)];
	const jobs = new Map(next);
	for (const queue of queues) (ownOrder(delta.orders, queue) ?? expectedOrder(before.get(queue), after.get(queue))).forEach((key, index) => {
		const job = jobs.get(key);
		const position = index + 1;
		if (job && job.position !== position) jobs.set(key, {
			...job,
			position
		});
	});
	return jobs;
}
function reorderedQueues(old, delta, keyOf) {
	const changed = delta.changed ?? [];
	const before = [...changed.map(keyOf), ...delta.gone ?? []].map((key) => old.get(key));
	const queues = new Set(Object.keys(delta.orders ?? {}));
	for (const job of [...changed, ...before]) if (job?.position !== void 0) queues.add(job.queue);
	return queues;
}
function ownOrder(orders, queue) {
	return orders && Object.hasOwn(orders, queue) ? orders[queue] : void 0;
}
function waitingKeys(jobs, queues) {
	const waiting = new Map();
	for (const [key, { queue, position }] of jobs) {
		if (position === void 0 || !queues.has(queue)) continue;
		const list = waiting.get(queue);
		if (list) list.push({
			key,
			position
		});
		else waiting.set(queue, [{
			key,
			position
		}]);
	}
	const sorted = [...waiting].map(([queue, list]) => {
		list.sort((a, b) => a.position - b.position);
		return [queue, list.map(({ key }) => key)];
	});
	return new Map(sorted);
}
function expectedOrder(before = [], after = []) {
	const [waits, known] = [new Set(after), new Set(before)];
	return [...before.filter((key) => waits.has(key)), ...after.filter((key) => !known.has(key))];
}
// src/app/live/store.ts
function listHead() {
	return {
		time: y$1(void 0),
		notes: y$1([]),
		problem: y$1(void 0),
		heard: y$1(void 0),
		version: y$1(void 0)
	};
}
var session = y$1(void 0);
var firstVersion = y$1(void 0);
var refusal = y$1(void 0);
var queue = {
	...listHead(),
	jobs: y$1(new Map()),
	queues: y$1(new Map())
};
var nodes = {
	...listHead(),
	nodes: y$1(new Map())
};
var scope = y$1(void 0);
var changes = y$1([]);
var isOrdered = false;
var nodeFollowers = y$1(0);
var wantsNodes = O(() => nodeFollowers.value > 0);
function follow(_list) {
	nodeFollowers.value = nodeFollowers.peek() + 1;
	let isHeld = true;
	return () => {
		if (!isHeld) return;
		isHeld = false;
		nodeFollowers.value = nodeFollowers.peek() - 1;
	};
}
function jobKey(job) {
	const { namespace, name } = "metadata" in job ? job.metadata : job;
	return `${namespace ?? ""}/${name}`;
}
var nameOf = (row) => row.metadata.name;
function markFresh(list, answer) {
	list.version.value = answer.version;
	list.time.value = new Date(answer.time);
	list.heard.value = serverTime();
	list.problem.value = void 0;
}
function replaceQueue(answer) {
	r(() => {
		const jobs = indexRows(sortJobs(answer.jobs, QUEUE_ORDER), jobKey);
		if (queue.version.peek() !== void 0) noteChanges(queue.jobs.peek(), jobs);
		queue.jobs.value = jobs;
		isOrdered = answer.ordered;
		queue.queues.value = answer.queues && indexRows(answer.queues, nameOf);
		queue.notes.value = answer.notes;
		markFresh(queue, answer);
	});
}
function replaceNodes(answer) {
	r(() => {
		nodes.nodes.value = indexRows(answer.nodes, nameOf);
		nodes.notes.value = answer.notes;
		markFresh(nodes, answer);
	});
}
function updateQueue(deltas) {
	const last = deltas.at(-1);
	if (!last) return;
	r(() => {
		const before = queue.jobs.peek();
		const changed = deltas.map(({ jobs, goneJobs, orders }) => ({
			changed: jobs,
			gone: goneJobs,
			orders
		}));
		queue.jobs.value = isOrdered ? applyJobDeltas(before, changed, jobKey) : applyDeltas(before, changed, jobKey);
		noteChanges(before, queue.jobs.peek(), deltas);
		for (const delta of deltas) {
			if (delta.queues === null) queue.queues.value = null;
			else if (delta.queues || delta.goneQueues) {
				const rows = {
					changed: delta.queues,
					gone: delta.goneQueues
				};
				queue.queues.value = applyDeltas(queue.queues.peek() ?? new Map(), [rows], nameOf);
			}
			if (delta.notes) queue.notes.value = delta.notes;
		}
		markFresh(queue, last);
	});
}
function updateNodes(deltas) {
	const last = deltas.at(-1);
	if (!last) return;
	r(() => {
		const changed = deltas.map((delta) => ({
			changed: delta.nodes,
			gone: delta.goneNodes
		}));
		nodes.nodes.value = applyDeltas(nodes.nodes.peek(), changed, nameOf);
		for (const delta of deltas) if (delta.notes) nodes.notes.value = delta.notes;
		markFresh(nodes, last);
	});
}
function reportProblem(list, error, retryAt) {
	const before = list.problem.peek();
	const since = before?.kind === error.kind ? before.since : serverTime();
	const problem = {
		kind: error.kind,
		message: error.message,
		since
	};
	r(() => {
		list.problem.value = retryAt ? {
			...problem,
			retryAt
		} : problem;
		if (error.kind === "denied") clearRows(list);
	});
}
function refuse(error) {
	r(() => {
		refusal.value = {
			kind: error.kind,
			message: error.message,
			since: serverTime()
		};
		session.value = void 0;
		clearQueue();
		clearNodes();
	});
}
function clearQueue() {
	clearRows(queue);
	queue.problem.value = void 0;
}
function clearNodes() {
	clearRows(nodes);
	nodes.problem.value = void 0;
}
function clearRows(list) {
	r(() => {
		list.version.value = void 0;
		list.time.value = void 0;
		list.heard.value = void 0;
		list.notes.value = [];
		if (list === queue) {
			queue.jobs.value = new Map();
			queue.queues.value = new Map();
			changes.value = [];
		} else nodes.nodes.value = new Map();
	});
}
function noteChanges(before, after, deltas) {
	const found = diffJobs(before, after, deltas ? deltas.flatMap((delta) => [...(delta.jobs ?? []).map(jobKey), ...delta.goneJobs ?? []]) : [...before.keys(), ...after.keys()], serverTime());
	if (found.length) changes.value = keepRecent([...found, ...changes.peek()]);
}
// src/app/live/ndjson.ts
var LineParser = class {
	decoder = new TextDecoder();
	rest = "";
	push(chunk) {
		const text = this.decoder.decode(chunk, { stream: true });
		if (!text.includes("\n")) {
			this.rest += text;
			return [];
		}
		const lines = (this.rest + text).split("\n");
		this.rest = lines.pop() ?? "";
		const values = [];
		for (const line of lines) if (line.trim() !== "") values.push(JSON.parse(line));
		return values;
	}
};
// src/app/live/stream.ts
async function readStream(address, signal) {
	const reader = (await send(address, { signal })).body?.getReader();
	if (!reader) return { lines: 0 };
	const parser = new LineParser();
	const inbox = new Inbox();
	let lines = 0;
	try {
		for (;;) {
			const { done, value } = await readChunk(reader);
			if (done) return { lines };
			for (const line of parser.push(value)) {
				lines += 1;
				if (!endsStream(line)) {
					inbox.add(line);
					continue;
				}
				inbox.flush();
				endStream(line);
				return { lines };
			}
		}
	} finally {
		inbox.flush();
		reader.cancel().catch(() => void 0);
	}
}
var SILENCE_MS = 2e4;
async function readChunk(reader) {
	let timer;
	const silence = new Promise((_, reject) => {
		const error = new RequestError("silent", "The connection is open, but nothing comes. The page opens another one.");
		timer = setTimeout(() => reject(error), SILENCE_MS);
	});
	try {
		return await Promise.race([reader.read(), silence]);
	} catch (error) {
		throw asRequestError(error);
	} finally {
		clearTimeout(timer);
	}
}
function endsStream(line) {
	return "reset" in line || "error" in line && isRefusal$1(line.error.kind);
}
function endStream(line) {
	const list = line.list === "queue" ? queue : nodes;
	if ("reset" in line) list.version.value = void 0;
	else if (line.list === "nodes" && line.error.kind === "denied") reportProblem(list, line.error);
	else throw new RequestError(line.error.kind, line.error.message);
}
var isRefusal$1 = (kind) => kind === "key" || kind === "unauthorized" || kind === "denied";
var Inbox = class {
	lines = [];
	isPlanned = false;
	add(line) {
		this.lines.push(line);
		if (this.isPlanned) return;
		this.isPlanned = true;
		if (document.hidden) setTimeout(() => this.flush(), 1e3);
		else requestAnimationFrame(() => this.flush());
	}
	flush() {
		this.isPlanned = false;
		const lines = this.lines;
		this.lines = [];
		applyLines(lines);
	}
};
function applyLines(lines) {
	const queueDeltas = [];
	const nodesDeltas = [];
	for (const line of lines) if ("error" in line) {
		applyDeltas();
		reportProblem(line.list === "queue" ? queue : nodes, line.error);
	} else if (!("reset" in line)) {
		if (line.list === "queue") queueDeltas.push(line);
		else nodesDeltas.push(line);
	}
	applyDeltas();
	function applyDeltas() {
		updateQueue(queueDeltas.splice(0));
		updateNodes(nodesDeltas.splice(0));
	}
}
// src/app/live/visibility.ts
var HIDDEN_MS = 3e4;
var isAsleep = false;
var waiting = [];
function watchVisibility(onHidden) {
	let timer;
	const update = () => {
		clearTimeout(timer);
		if (document.hidden) {
			timer = setTimeout(() => {
				isAsleep = true;
				onHidden();
			}, HIDDEN_MS);
			return;
		}
		isAsleep = false;
		for (const resolve of waiting.splice(0)) resolve();
	};
	document.addEventListener("visibilitychange", update);
	update();
}
function whenShown() {
	return isAsleep ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
}
// src/app/live/sync.ts
var NODES_LINGER_MS = 15e3;
var SESSION_MS = 24e4;
var NODES_RETRY_MS = 6e4;
var turn = new AbortController();
var endPause;
var holdsNodes = false;
var isStreaming = false;
var nodesRefusedAt = Number.NEGATIVE_INFINITY;
var sessionEndsAt = Number.NEGATIVE_INFINITY;
async function keepCurrent() {
	watchVisibility(() => turn.abort());
	answerTabs(readKey);
	followNodesOnDemand();
	followScope();
	followRefusal();
	let failures = 0;
	let needsCode = true;
	let firstRefusal;
	for (;;) {
		await whenShown();
		turn = new AbortController();
		try {
			if (needsCode) await exchangeCode();
			needsCode = false;
			await catchUp(turn.signal);
			firstRefusal = void 0;
			isStreaming = true;
			const { lines } = await readStream(streamAddress(), turn.signal);
			failures = lines > 0 ? 0 : failures + 1;
			if (lines === 0) await pause(pauseAfter(failures, "", void 0, Math.random()));
		} catch (thrown) {
			if (turn.signal.aborted) continue;
			needsCode = false;
			if (isKeyRefusal(thrown)) {
				firstRefusal ??= thrown;
				if (await borrowKey()) continue;
			}
			failures += 1;
			await handleFailure(isKeyRefusal(thrown) ? firstRefusal ?? thrown : thrown, failures);
			firstRefusal = void 0;
		} finally {
			isStreaming = false;
		}
	}
}
function retryNow() {
	nodesRefusedAt = Number.NEGATIVE_INFINITY;
	endPause?.();
}
async function catchUp(signal) {
	if (session.peek() === void 0 || performance.now() > sessionEndsAt) {
		const opened = await openSession(signal);
		sessionEndsAt = performance.now() + SESSION_MS;
		r(() => {
			refusal.value = void 0;
			session.value = opened;
			firstVersion.value ??= opened.version;
			if (!opened.may.allJobs) scope.value ??= opened.namespace;
		});
	}
	if (queue.version.peek() === void 0) replaceQueue(await get(`/api/queue${scopeQuery("?")}`, signal));
	const maySeeNodes = performance.now() - nodesRefusedAt > NODES_RETRY_MS;
	if (holdsNodes && nodes.version.peek() === void 0 && maySeeNodes) await loadNodes(signal);
}
async function loadNodes(signal) {
	try {
		replaceNodes(await get("/api/nodes", signal));
	} catch (error) {
		if (!(error instanceof RequestError) || isRefusal(error.kind)) throw error;
		nodesRefusedAt = performance.now();
		reportProblem(nodes, error);
	}
}
function streamAddress() {
	const parameters = [`queue=${encodeURIComponent(queue.version.peek() ?? "")}`];
	const nodesVersion = nodes.version.peek();
	if (holdsNodes && nodesVersion !== void 0) parameters.push(`nodes=${encodeURIComponent(nodesVersion)}`);
	return `/api/stream?${parameters.join("&")}${scopeQuery("&")}`;
}
function scopeQuery(separator) {
	const namespace = scope.peek();
	return namespace === void 0 ? "" : `${separator}namespace=${encodeURIComponent(namespace)}`;
}
var isRefusal = (kind) => kind === "key" || kind === "unauthorized";
async function handleFailure(error, failures) {
	sessionEndsAt = Number.NEGATIVE_INFINITY;
	if (!(error instanceof RequestError)) {
		console.error(error);
		await pause(pauseAfter(failures, "", void 0, Math.random()));
		return;
	}
	const seconds = pauseAfter(failures, error.kind, error.retryAfter, Math.random());
	if (isRefusal(error.kind)) refuse(error);
	else {
		const retryAt = new Date(serverTime().getTime() + seconds * 1e3);
		reportProblem(queue, error, retryAt);
		if (nodes.version.peek() !== void 0) reportProblem(nodes, error, retryAt);
	}
	await pause(error.kind === "key" ? Number.POSITIVE_INFINITY : seconds);
}
function pause(seconds) {
	return new Promise((resolve) => {
		const timer = Number.isFinite(seconds) ? setTimeout(resolve, seconds * 1e3) : void 0;
		endPause = () => {
			clearTimeout(timer);
			resolve();
		};
	});
}
function followNodesOnDemand() {
	let release;
	x$1(() => {
		clearTimeout(release);
		if (wantsNodes.value) {
			if (holdsNodes) return;
			holdsNodes = true;
			if (isStreaming) turn.abort();
			return;
		}
		release = setTimeout(() => {
			if (!holdsNodes) return;
			holdsNodes = false;
			clearNodes();
			if (isStreaming) turn.abort();
		}, NODES_LINGER_MS);
	});
}
function followRefusal() {
	x$1(() => {
		if (refusal.value && isStreaming) turn.abort();
	});
}
function followScope() {
	let before = scope.peek();
	x$1(() => {
		if (scope.value === before) return;
		const isFirst = before === void 0 && queue.version.peek() === void 0;
		before = scope.value;
		if (isFirst) return;
		clearQueue();
		turn.abort();
		endPause?.();
	});
}
// src/app/look/theme.ts
var STORAGE_KEY = "trellis-theme";
var prefersDark = y$1(false);
var themeChoice = y$1("system");
var theme = O(() => {
	if (themeChoice.value !== "system") return themeChoice.value;
	return prefersDark.value ? "dark" : "light";
});
function startTheme() {
	const dark = matchMedia("(prefers-color-scheme: dark)");
	prefersDark.value = dark.matches;
	dark.addEventListener("change", () => {
		prefersDark.value = dark.matches;
	});
	themeChoice.value = readChoice();
	x$1(() => {
		document.documentElement.dataset["theme"] = theme.value;
	});
}
function cycleTheme() {
	themeChoice.value = {
		system: "light",
		light: "dark",
		dark: "system"
	}[themeChoice.peek()];
	try {
		localStorage.setItem(STORAGE_KEY, themeChoice.peek());
	} catch {}
}
function readChoice() {
	try {
		const stored = localStorage.getItem(STORAGE_KEY);
		return stored === "light" || stored === "dark" ? stored : "system";
	} catch {
		return "system";
	}
}
// src/app/page/keys.ts
var shortcutGroups = y$1([]);
var SEQUENCE_MS = 1200;
function addShortcuts(group) {
	shortcutGroups.value = [...shortcutGroups.peek(), group];
	return () => {
		shortcutGroups.value = shortcutGroups.peek().filter((other) => other !== group);
	};
}
function useShortcuts(heading, shortcuts) {
	const latest = T$1(shortcuts);
	latest.current = shortcuts;
	A$1(() => {
		return addShortcuts({
			heading,
			shortcuts: latest.current.map((shortcut, place) => ({
				...shortcut,
				...shortcut.run && { run: (event) => latest.current[place]?.run?.(event) }
			}))
		});
	}, [heading, shortcuts.map((shortcut) => `${shortcut.keys} ${shortcut.label}`).join("\n")]);
}
function startKeys() {
	let first;
	document.addEventListener("keydown", (event) => {
		if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
		if (isTyping(event.target) || isInDialog()) return;
		const shortcut = findShortcut(first !== void 0 && event.timeStamp - first.at < SEQUENCE_MS && first ? `${first.key} ${event.key}` : event.key) ?? findShortcut(event.key);
		first = void 0;
		if (shortcut?.run) {
			event.preventDefault();
			shortcut.run(event);
		} else if (beginsSequence(event.key)) first = {
			key: event.key,
			at: event.timeStamp
		};
	});
}
function findShortcut(keys) {
	return shortcutGroups.peek().flatMap((group) => group.shortcuts).findLast((shortcut) => shortcut.run && shortcut.keys === keys);
}
function beginsSequence(key) {
	return shortcutGroups.peek().flatMap((group) => group.shortcuts).some((shortcut) => shortcut.keys.startsWith(`${key} `));
}
function isTyping(target) {
	if (!(target instanceof HTMLElement)) return false;
	if (target.isContentEditable || target instanceof HTMLSelectElement) return true;
	if (target instanceof HTMLTextAreaElement) return true;
	return target instanceof HTMLInputElement && ![
		"checkbox",
		"radio",
		"button"
	].includes(target.type);
}
function isInDialog() {
	return document.querySelector("dialog[open]") !== null;
}
// src/app/page/route.ts
function parsePath(path) {
	const names = path.split("/").filter((part) => part !== "").map(decodePart);
	if (names.some((name) => name === void 0)) return { page: "notFound" };
	const [area, first, second, ...rest] = names;
	if (rest.length > 0) return { page: "notFound" };
	switch (area) {
		case void 0: return { page: "home" };
		case "queue": return first === void 0 ? { page: "jobs" } : { page: "notFound" };
		case "queues":
			if (second !== void 0) return { page: "notFound" };
			return first === void 0 ? { page: "queues" } : {
				page: "queue",
				name: first
			};
		case "nodes":
			if (second !== void 0) return { page: "notFound" };
			return first === void 0 ? { page: "nodes" } : {
				page: "node",
				name: first
			};
		case "policies":
			if (second !== void 0) return { page: "notFound" };
			return first === void 0 ? { page: "policies" } : {
				page: "policy",
				name: first
			};
		case "plan": return first === void 0 ? { page: "plan" } : { page: "notFound" };
		case "what-if": return first === void 0 ? { page: "whatIf" } : { page: "notFound" };
		case "jobs":
			if (first === void 0 || second === void 0) return { page: "notFound" };
			return {
				page: "job",
				namespace: first,
				name: second
			};
		default: return { page: "notFound" };
	}
}
function decodePart(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return;
	}
}
function encodePart(part) {
	const encoded = encodeURIComponent(part);
	return /^\.{1,2}$/.test(encoded) ? encoded.replaceAll(".", "%2E") : encoded;
}
function withQuery(path, query) {
	const params = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) if (value) params.set(name, value);
	const text = params.toString();
	return text ? `${path}?${text}` : path;
}
var urls = {
	home: "/",
	jobs: (query = {}) => withQuery("/queue", query),
	timeline: (query = {}) => withQuery("/queue", {
		...query,
		view: "timeline"
	}),
	queues: "/queues",
	queue: (name) => `/queues/${encodePart(name)}`,
	nodes: (query = {}) => withQuery("/nodes", query),
	node: (name) => `/nodes/${encodePart(name)}`,
	policies: (query = {}) => withQuery("/policies", query),
	policy: ({ kind, namespace, name }) => withQuery(`/policies/${encodePart(name)}`, {
		kind,
		namespace
	}),
	plan: "/plan",
	whatIf: (query = {}) => withQuery("/what-if", query),
	job: (job) => `/jobs/${encodePart(job.namespace)}/${encodePart(job.name)}`
};
var path = y$1("/");
var search = y$1("");
var query = O(() => new URLSearchParams(search.value));
var page = O(() => parsePath(path.value));
var arrival = y$1({
	by: "load",
	scroll: 0
});
function canGoBack() {
	return readState().depth > 0;
}
function navigate(href, options = {}) {
	const target = new URL(href, location.href);
	if (target.origin !== location.origin) return;
	if (!options.replace) saveScroll();
	writeState(0, target.pathname + target.search, !options.replace);
	readLocation({
		by: "link",
		scroll: 0
	});
}
function setQuery(changes, options = {}) {
	const params = new URLSearchParams(location.search);
	for (const [name, value] of Object.entries(changes)) if (value) params.set(name, value);
	else params.delete(name);
	const text = params.toString();
	const address = location.pathname + (text ? `?${text}` : "");
	if (address === location.pathname + location.search) return;
	saveScroll();
	writeState(scrollY, address, options.step ?? false);
	search.value = text;
}
function startRouter() {
	history.scrollRestoration = "manual";
	readLocation({
		by: "load",
		scroll: readState().scroll
	});
	addEventListener("popstate", () => readLocation({
		by: "history",
		scroll: readState().scroll
	}));
	addEventListener("pagehide", saveScroll);
	document.addEventListener("click", followLink);
}
function readLocation(how) {
	r(() => {
		const isNewPath = path.peek() !== location.pathname;
		path.value = location.pathname;
		search.value = location.search.slice(1);
		if (isNewPath || how.by !== "link") arrival.value = how;
	});
}
function saveScroll() {
	history.replaceState({
		...readState(),
		scroll: scrollY
	}, "");
}
function writeState(scroll, address, isStep) {
	const { depth } = readState();
	if (isStep) history.pushState({
		scroll,
		depth: depth + 1
	}, "", address);
	else history.replaceState({
		scroll,
		depth
	}, "", address);
}
function readState() {
	const state = history.state;
	return {
		scroll: Number(state?.scroll ?? 0),
		depth: Number(state?.depth ?? 0)
	};
}
function followLink(event) {
	if (!(event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) || event.defaultPrevented || !(event.target instanceof Element)) return;
	const link = event.target.closest("a[href]");
	if (!(link instanceof HTMLAnchorElement)) return;
	if (!(link.origin === location.origin && !link.target && !link.hasAttribute("download")) || link.getAttribute("href")?.startsWith("#")) return;
	event.preventDefault();
	navigate(link.href);
}
// src/app/page/viewport.ts
var viewport = y$1({
	top: 0,
	height: 800
});
var isNarrow = y$1(false);
var NARROW = "(max-width: 760px)";
var isPlanned = false;
function startViewport() {
	const narrow = matchMedia(NARROW);
	const read = () => {
		isPlanned = false;
		viewport.value = {
			top: scrollY,
			height: innerHeight
		};
		isNarrow.value = narrow.matches;
	};
	const plan = () => {
		if (isPlanned) return;
		isPlanned = true;
		requestAnimationFrame(read);
	};
	read();
	addEventListener("scroll", plan, { passive: true });
	addEventListener("resize", plan);
	narrow.addEventListener("change", plan);
}
// src/app/live/freshness.ts
var STALE_SECONDS = {
	queue: 15,
	nodes: 25
};
var queueFreshness = watch(queue, STALE_SECONDS.queue);
var nodesFreshness = watch(nodes, STALE_SECONDS.nodes);
function watch(list, limit) {
	let last = { state: "loading" };
	return O(() => {
		const next = judge(list, limit);
		if (!isSame(last, next)) last = next;
		return last;
	});
}
function isSame(a, b) {
	const facts = (own) => [
		own.state,
		"time" in own ? own.time : void 0,
		"problem" in own ? own.problem : void 0
	];
	const others = facts(b);
	return facts(a).every((fact, place) => fact === others[place]);
}
function judge(list, limit) {
	const time = list.time.value;
	const heard = list.heard.value;
	const problem = list.problem.value;
	if (!time || !heard) return problem ? {
		state: "failed",
		problem
	} : { state: "loading" };
	if (problem) return {
		state: "stale",
		time,
		problem
	};
	return (now.value.getTime() - heard.getTime()) / 1e3 > limit ? {
		state: "stale",
		time,
		problem
	} : {
		state: "fresh",
		time
	};
}
// src/app/page/announce.ts
var announcement = y$1("");
var toast = y$1(void 0);
var TOAST_MS = 3500;
var timer;
function announce(text) {
	announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
}
function showToast(text) {
	announce(text);
	toast.value = text;
	clearTimeout(timer);
	timer = setTimeout(() => {
		toast.value = void 0;
	}, TOAST_MS);
}
// src/app/text/clean.ts
var UNSAFE$1 = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
var ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
function cleanLines(text) {
	return text.replace(/\r\n?/g, "\n").replace(/\t/g, " ").replace(ESCAPES, "").replace(UNSAFE$1, "");
}
function cleanLine(text) {
	return cleanLines(text).replace(/\s+/g, " ").trim();
}
function cutText(text, length) {
	if (text.length <= length) return {
		text,
		isCut: false
	};
	const last = text.charCodeAt(length - 1);
	const isHalf = last >= 55296 && last <= 56319;
	return {
		text: text.slice(0, isHalf ? length - 1 : length),
		isCut: true
	};
}
// src/app/page/title.ts
function useTitle(title) {
	A$1(() => {
		document.title = `${cleanLine(title)} · Trellis`;
	}, [title]);
}
function useArrival() {
	const { by, scroll } = arrival.value;
	const place = path.value;
	F$1(() => {
		scrollTo(0, by === "link" ? 0 : scroll);
		if (by !== "load") focusHeading();
	}, [arrival.value, place]);
}
function focusHeading() {
	const heading = document.querySelector("main h1");
	if (!(heading instanceof HTMLElement)) return;
	heading.tabIndex = -1;
	heading.focus({ preventScroll: true });
}
// node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
var f = Symbol.for("pv");
var o = 0;
Array.isArray;
function a(t, e, n, u, a, i) {
	e || (e = {});
	var c, l, p = e;
	if ("ref" in p && "function" != typeof t) for (l in p = {}, e) "ref" == l ? c = e[l] : p[l] = e[l];
	var s = {
		type: t,
		props: p,
		key: n,
		ref: c,
		__k: null,
		__: null,
		__b: 0,
		__e: null,
		__c: null,
		constructor: f,
		__v: --o,
		__i: -1,
		__u: 0
	};
	return (a || i) && (s.__source = a, s.__self = i), n$1.vnode && n$1.vnode(s), s;
}
// src/parts/Freshness.tsx
function Freshness() {
	const state = queueFreshness.value;
	if (refusal.value) return a("span", {
		class: "freshness freshness-failed",
		children: [a("span", {
			class: "freshness-dot",
			"aria-hidden": "true"
		}), "no data"]
	});
	return a("span", {
		class: `freshness freshness-${state.state}`,
		children: [a("span", {
			class: "freshness-dot",
			"aria-hidden": "true"
		}), describe(state)]
	});
}
function describe(state) {
	switch (state.state) {
		case "loading": return "loading";
		case "failed": return "no data";
		case "fresh": return a("span", {
			title: `Data of ${formatDateTime(state.time)}`,
			children: [formatAge(state.time, now.value), " ago"]
		});
		case "stale": return `as of ${formatClockSeconds(state.time)}`;
	}
}
// src/app/look/icons.ts
var ICON_PATHS = {
	home: "M2.5 7.5 8 3l5.5 4.5V13a.5.5 0 0 1-.5.5H9.75v-3.5h-3.5v3.5H3a.5.5 0 0 1-.5-.5z",
	jobs: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
	queues: "M3 2.5v9.5a1 1 0 0 0 1 1h2.5M3 7.5h3.5M8.5 5.5h5v4h-5zM8.5 11.25h5v3.25h-5z",
	nodes: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
	policies: "M8 1.75l5 2v4c0 3-2 5.2-5 6.5-3-1.3-5-3.5-5-6.5v-4zM5.8 8l1.6 1.6 2.9-3.1",
	plan: "M3.5 2h6l3 3v9h-9zM5.7 9.3l1.6 1.6 3-3.4",
	whatIf: "M2.5 8h4M6.5 8c2 0 2-4 4-4H13M6.5 8c2 0 2 4 4 4H13M11.5 2.5 13 4l-1.5 1.5M11.5 10.5 13 12l-1.5 1.5",
	timeline: "M2.5 4h5M5.5 8h6M8.5 12h5",
	search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14",
	sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
	moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
	system: "M2 3h12v8H2zM6 14h4M8 11v3",
	help: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM6.2 6.2a1.9 1.9 0 1 1 2.6 1.9c-.5.2-.8.6-.8 1.2v.2M8 11.7h.01",
	copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
	check: "M3 8.5 6.5 12 13 4.5",
	cross: "M4 4l8 8M12 4l-8 8",
	clock: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.5V8l2.5 1.5",
	play: "M5 3.5v9l7.5-4.5z",
	pause: "M5.5 3.5v9M10.5 3.5v9",
	half: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 2.5v11A5.5 5.5 0 0 1 8 2.5z",
	restart: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
	stop: "M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM8 5v3.5M8 11h.01",
	ban: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM4 4l8 8",
	dots: "M3.5 8h.01M8 8h.01M12.5 8h.01",
	warning: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5h.01",
	info: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 7.5V11M8 5h.01",
	map: "M2 4l4-1.5 4 1.5 4-1.5V12l-4 1.5L6 12l-4 1.5zM6 2.5V12M10 4v9.5",
	plus: "M8 3.5v9M3.5 8h9",
	minus: "M3.5 8h9",
	whole: "M9.5 3H13v3.5M13 3 9 7M6.5 13H3V9.5M3 13l4-4",
	right: "M6 3.5 10.5 8 6 12.5",
	down: "M3.5 6 8 10.5 12.5 6",
	up: "M3.5 10 8 5.5 12.5 10",
	arrow: "M3 8h10M9 4l4 4-4 4",
	swap: "M4.5 2.5v9M2 9l2.5 2.5L7 9M11.5 13.5v-9M9 7l2.5-2.5L14 7",
	edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
	raise: "M8 13V4M4 7.5 8 3.5l4 4M3 14h10",
	flag: "M4 14V2.5h8l-1.5 3 1.5 3H4"
};
// src/parts/Icon.tsx
function Icon({ name, label }) {
	return a("svg", {
		class: "icon",
		viewBox: "0 0 16 16",
		width: "16",
		height: "16",
		fill: "none",
		stroke: "currentColor",
		"stroke-width": "1.5",
		"stroke-linecap": "round",
		"stroke-linejoin": "round",
		role: label ? "img" : void 0,
		"aria-label": label,
		"aria-hidden": label ? void 0 : "true",
		children: a("path", { d: ICON_PATHS[name] })
	});
}
// src/app/text/shell-quote.ts
var UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
function quote(argument) {
	const oneLine = argument.replace(UNSAFE, " ");
	if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(oneLine)) return oneLine;
	return `'${oneLine.replaceAll("'", `'\\''`)}'`;
}
function command(...arguments_) {
	return arguments_.map(quote).join(" ");
}
// src/app/page/copy.ts
async function copyText(text, what) {
	try {
		await navigator.clipboard.writeText(text);
		showToast(`${what} copied`);
		return true;
	} catch {
		showToast("The browser does not allow copying. Select the text and copy it yourself.");
		return false;
	}
}
function copyLink() {
	const place = location.pathname + location.search;
	const isLocal = session.peek()?.mode !== "cluster";
	copyText(isLocal ? command("trellis", "dashboard", place) : location.origin + place, isLocal ? "Command that opens this view" : "Link");
}
// src/app/find/find.ts
var MAX_HITS = 8;
var MAX_FIXED = 12;
function find(text, all) {
	const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
	const fixed = best(all.fixed, words, (hit) => hit.label.toLowerCase(), MAX_FIXED);
	if (words.length === 0) return fixed;
	const queues = best(all.queues, words, (name) => name.toLowerCase(), MAX_HITS);
	const jobs = best(all.jobs, words, searchText, MAX_HITS);
	const nodes = best(all.nodes, words, (name) => name.toLowerCase(), MAX_HITS);
	const hits = [
		...fixed,
		...queues.map((name) => ({
			kind: "queue",
			label: name,
			href: urls.queue(name)
		})),
		...jobs.map(jobHit),
		...nodes.map((name) => ({
			kind: "node",
			label: name,
			href: urls.node(name)
		}))
	];
	const typed = words.join(" ");
	const isExact = (hit) => hit.label.toLowerCase() === typed;
	return [...hits.filter(isExact), ...hits.filter((hit) => !isExact(hit))];
}
function jobHit(job) {
	const { namespace = "", name } = job.metadata;
	return {
		kind: "job",
		label: `${namespace}/${jobLabel(name)}`,
		detail: [
			job.phase ?? "Queued",
			job.queue,
			job.user
		].filter(Boolean).join(" · "),
		href: urls.job({
			namespace,
			name
		})
	};
}
function best(items, words, textOf, limit) {
	const found = [];
	for (const item of items) {
		const text = textOf(item);
		if (!words.every((word) => text.includes(word))) continue;
		found.push({
			item,
			rank: rankOf(text, words[0] ?? "")
		});
	}
	found.sort((a, b) => a.rank - b.rank);
	return found.slice(0, limit).map(({ item }) => item);
}
function rankOf(text, word) {
	const place = text.indexOf(word);
	if (place === 0 || text.startsWith(word, text.indexOf("/") + 1)) return 0;
	const nameEnd = text.indexOf("\n");
	return nameEnd < 0 || place < nameEnd ? 1 : 2;
}
// src/app/find/searchable.ts
var PAGES = [
	{
		kind: "page",
		label: "Home",
		href: urls.home
	},
	{
		kind: "page",
		label: "Jobs",
		href: urls.jobs()
	},
	{
		kind: "page",
		label: "Queues",
		href: urls.queues
	},
	{
		kind: "page",
		label: "Nodes",
		href: urls.nodes()
	},
	{
		kind: "page",
		label: "Table of nodes",
		href: urls.nodes({ view: "table" })
	},
	{
		kind: "page",
		label: "Timeline",
		href: urls.timeline()
	},
	{
		kind: "page",
		label: "Policies",
		href: urls.policies()
	},
	{
		kind: "page",
		label: "Plan",
		href: urls.plan
	},
	{
		kind: "page",
		label: "What if",
		href: urls.whatIf()
	}
];
var ACTIONS = [{
	kind: "action",
	label: "Copy a link to this view",
	run: copyLink
}, {
	kind: "action",
	label: "Change the theme: system, light, dark",
	run: cycleTheme
}];
function findAll(text) {
	const user = session.peek()?.user;
	const mine = user ? [{
		kind: "page",
		label: "My jobs",
		href: urls.jobs({ user })
	}] : [];
	return find(text, {
		...rows(),
		fixed: [
			...mine,
			...PAGES,
			...ACTIONS
		]
	});
}
function findRows(text) {
	const all = {
		kind: "page",
		label: `All jobs with “${text.trim()}”`,
		href: urls.jobs({ text: text.trim() })
	};
	return [...find(text, {
		...rows(),
		fixed: []
	}), all];
}
function rows() {
	const jobs = queue.jobs.peek();
	const known = nodes.nodes.peek();
	return {
		jobs: jobs.values(),
		queues: queue.queues.peek()?.keys() ?? [],
		nodes: known.size > 0 ? known.keys() : nodesOfJobs()
	};
}
function nodesOfJobs() {
	const names = new Set();
	for (const job of queue.jobs.peek().values()) for (const node of job.nodes ?? []) names.add(node);
	return names;
}
// src/parts/Text.tsx
var MORE = 2e4;
var NAME_LENGTH = 120;
var TITLE_LENGTH = 600;
function Text({ text, max = 600, lines = false }) {
	const [length, setLength] = d$2(max);
	const cut = cutText(text, length);
	const shown = lines ? cleanLines(cut.text) : cleanLine(cut.text);
	return a($, { children: [a("bdi", {
		class: lines ? "text lines" : "text",
		children: shown
	}), cut.isCut && a($, { children: ["… ", a("button", {
		type: "button",
		class: "more",
		onClick: () => setLength(length + MORE),
		children: "more"
	})] })] });
}
function Name({ text }) {
	const cut = cutText(text, NAME_LENGTH);
	if (!cut.isCut) return a("bdi", {
		class: "name",
		children: cleanLine(text)
	});
	return a("bdi", {
		class: "name",
		title: cleanLine(cutText(text, TITLE_LENGTH).text),
		children: [cleanLine(cut.text), "…"]
	});
}
// src/parts/Finder.tsx
var ICONS$1 = {
	page: "right",
	queue: "queues",
	job: "jobs",
	node: "nodes",
	action: "flag"
};
var KIND_NAMES = {
	page: "Page",
	queue: "Queue",
	job: "Job",
	node: "Node",
	action: "Action"
};
function Finder(props) {
	const [text, setText] = d$2("");
	const [chosen, setChosen] = d$2(0);
	const [hasFocus, setFocus] = d$2(false);
	const listId = P();
	const isShown = props.isOpen || hasFocus && text !== "";
	const hits = isShown ? props.hits(text) : [];
	const current = Math.min(chosen, hits.length - 1);
	const open = (hit) => {
		if (!hit) return;
		setText("");
		setChosen(0);
		props.onDone();
		if (hit.href) navigate(hit.href);
		hit.run?.();
	};
	const onKeyDown = (event) => {
		const step = {
			ArrowDown: 1,
			ArrowUp: -1
		}[event.key];
		if (step !== void 0 && hits.length > 0) {
			event.preventDefault();
			setChosen((current + step + hits.length) % hits.length);
		} else if (event.key === "Enter") {
			event.preventDefault();
			open(hits[current]);
		} else if (event.key === "Escape" && !props.isOpen) {
			event.stopPropagation();
			setText("");
			event.currentTarget.blur();
		}
	};
	return a("div", {
		class: "finder",
		children: [a("div", {
			class: "finder-field",
			children: [
				a(Icon, { name: "search" }),
				a("input", {
					id: props.inputId,
					type: "text",
					role: "combobox",
					"aria-label": props.label,
					"aria-expanded": isShown && hits.length > 0,
					"aria-controls": listId,
					"aria-autocomplete": "list",
					"aria-activedescendant": hits[current] ? `${listId}-${current}` : void 0,
					placeholder: props.placeholder,
					autocomplete: "off",
					spellcheck: false,
					maxLength: 200,
					value: text,
					ref: (input) => {
						if (props.autoFocus && input && document.activeElement !== input) input.focus();
					},
					onInput: (event) => {
						setText(event.currentTarget.value);
						setChosen(0);
					},
					onFocus: () => setFocus(true),
					onBlur: () => setFocus(false),
					onKeyDown
				}),
				props.hint && !text && a("kbd", { children: props.hint })
			]
		}), a("ul", {
			id: listId,
			class: "finder-hits",
			role: "listbox",
			"aria-label": "Hits",
			hidden: !isShown,
			children: [hits.map((hit, place) => a("li", {
				id: `${listId}-${place}`,
				role: "option",
				"aria-selected": place === current,
				onPointerMove: () => setChosen(place),
				onPointerDown: (event) => {
					event.preventDefault();
				},
				onClick: () => open(hit),
				children: [
					a(Icon, { name: ICONS$1[hit.kind] }),
					a(Name, { text: hit.label }),
					a("span", {
						class: "finder-detail",
						children: hit.detail ? a(Name, { text: hit.detail }) : KIND_NAMES[hit.kind]
					})
				]
			}, `${hit.kind} ${hit.label}`)), isShown && hits.length === 0 && a("li", {
				class: "finder-none",
				role: "option",
				"aria-selected": false,
				"aria-disabled": true,
				children: "Nothing has this name."
			})]
		})]
	});
}
// src/parts/Search.tsx
var INPUT_ID = "search";
function Search() {
	return a("search", {
		class: "search",
		children: a(Finder, {
			label: "Search jobs, queues and nodes",
			placeholder: "Search",
			hint: "/",
			hits: findRows,
			onDone: () => document.getElementById(INPUT_ID)?.blur(),
			isOpen: false,
			inputId: INPUT_ID
		})
	});
}
function focusSearch() {
	const input = document.getElementById(INPUT_ID);
	if (!input?.checkVisibility()) return false;
	input.focus();
	return true;
}
// src/parts/Header.tsx
var AREAS = [
	{
		name: "Home",
		href: urls.home,
		icon: "home",
		pages: ["home"]
	},
	{
		name: "Jobs",
		href: urls.jobs(),
		icon: "jobs",
		pages: ["jobs", "job"]
	},
	{
		name: "Timeline",
		href: urls.timeline(),
		icon: "timeline",
		pages: ["timeline"]
	},
	{
		name: "Queues",
		href: urls.queues,
		icon: "queues",
		pages: ["queues", "queue"]
	},
	{
		name: "Nodes",
		href: urls.nodes(),
		icon: "nodes",
		pages: ["nodes", "node"]
	},
	{
		name: "Policies",
		href: urls.policies(),
		icon: "policies",
		pages: ["policies", "policy"]
	},
	{
		name: "Plan",
		href: urls.plan,
		icon: "plan",
		pages: ["plan"]
	},
	{
		name: "What if",
		href: urls.whatIf(),
		icon: "whatIf",
		pages: ["whatIf"]
	}
];
function Header(props) {
	const current = query.value.get("view") === "timeline" ? "timeline" : page.value.page;
	return a("header", {
		class: "header",
		children: [
			a("a", {
				class: "skip",
				href: "#main",
				children: "Skip to the content"
			}),
			a("a", {
				class: "brand",
				href: urls.home,
				"aria-label": "Trellis, home",
				children: [a(Logo, {}), a("span", { children: "Trellis" })]
			}),
			a("nav", {
				class: "nav",
				"aria-label": "Areas",
				children: AREAS.map((area) => a("a", {
					href: area.href,
					"aria-current": area.pages.includes(current) ? "page" : void 0,
					children: [a(Icon, { name: area.icon }), area.name]
				}, area.name))
			}),
			a("div", {
				class: "header-tools",
				children: [
					a(Search, {}),
					a("button", {
						type: "button",
						class: "icon-button only-narrow",
						"aria-label": "Search",
						onClick: props.onPalette,
						children: a(Icon, { name: "search" })
					}),
					a(Freshness, {}),
					a(Identity, {}),
					a(ThemeButton, {}),
					a("button", {
						type: "button",
						class: "icon-button",
						"aria-label": "Keyboard shortcuts",
						title: "Keyboard shortcuts (?)",
						onClick: props.onHelp,
						children: a(Icon, { name: "help" })
					})
				]
			})
		]
	});
}
function Identity() {
	const current = session.value;
	if (!current) return null;
	return a("span", {
		class: "identity",
		children: [current.context && a($, { children: [a(Name, { text: current.context }), " · "] }), a(Name, { text: current.user })]
	});
}
function ThemeButton() {
	const choice = themeChoice.value;
	const icon = {
		system: "system",
		light: "sun",
		dark: "moon"
	};
	const names = {
		system: "as the system",
		light: "light",
		dark: "dark"
	};
	return a("button", {
		type: "button",
		class: "icon-button",
		"aria-label": `Theme: ${names[choice]}`,
		title: `Theme: ${names[choice]}`,
		onClick: cycleTheme,
		children: a(Icon, { name: icon[choice] })
	});
}
function Logo() {
	return a("svg", {
		class: "logo",
		viewBox: "0 0 16 16",
		width: "20",
		height: "20",
		"aria-hidden": "true",
		children: [a("rect", {
			width: "16",
			height: "16",
			rx: "3.5",
			fill: "var(--accent)"
		}), a("path", {
			d: "M4.5 3v10M8 3v10M11.5 3v10M3 5.5h10M3 10.5h10",
			stroke: "var(--on-accent)",
			"stroke-width": "1.3",
			"stroke-linecap": "round",
			fill: "none"
		})]
	});
}
// src/parts/Dialog.tsx
function Dialog(props) {
	const element = T$1(null);
	const id = P();
	A$1(() => {
		const dialog = element.current;
		const before = document.activeElement;
		dialog?.showModal();
		return () => {
			dialog?.close();
			if (before instanceof HTMLElement && before.isConnected) before.focus();
		};
	}, []);
	return a("dialog", {
		ref: element,
		class: props.isBare ? "dialog dialog-bare" : "dialog",
		"aria-labelledby": id,
		onClose: props.onClose,
		onClick: (event) => {
			if (event.target === element.current) props.onClose();
		},
		children: a("div", {
			class: "dialog-body",
			children: [a("div", {
				class: props.isBare ? "hidden" : "dialog-head",
				children: [a("h2", {
					id,
					children: props.title
				}), !props.isBare && a("button", {
					type: "button",
					class: "icon-button",
					"aria-label": "Close",
					onClick: props.onClose,
					children: a(Icon, { name: "cross" })
				})]
			}), props.children]
		})
	});
}
// src/parts/Help.tsx
function Help({ onClose }) {
	const version = session.value?.version;
	return a(Dialog, {
		title: "Keyboard",
		onClose,
		children: [a("div", {
			class: "help",
			children: shortcutGroups.value.map((group) => a("section", { children: [a("h3", { children: group.heading }), a("dl", { children: group.shortcuts.map((shortcut) => a("div", { children: [a("dt", { children: shortcut.keys.split(" ").map((key) => a("kbd", { children: key }, key)) }), a("dd", { children: shortcut.label })] }, shortcut.keys)) })] }, group.heading))
		}), a("p", {
			class: "dim",
			children: ["Shortcuts do not work while you type. ", version && a(Text, { text: `Trellis ${version}.` })]
		})]
	});
}
// src/parts/Palette.tsx
function Palette({ onClose }) {
	return a(Dialog, {
		title: "Go to",
		onClose,
		isBare: true,
		children: a(Finder, {
			label: "Go to a job, queue, node or page",
			placeholder: "Go to a job, queue, node or page",
			hits: findAll,
			onDone: onClose,
			isOpen: true,
			autoFocus: true
		})
	});
}
// src/app/live/problem-text.ts
function describeProblem(problem) {
	const since = formatClockSeconds(problem.since);
	const text = asSentence(problem.message);
	switch (problem.kind) {
		case "key": return {
			title: "This page is locked",
			text
		};
		case "unauthorized": return {
			title: "The cluster refuses your credential",
			text
		};
		case "denied": return {
			title: "You may not see this",
			text
		};
		case "notFound": return {
			title: "Not found",
			text
		};
		case "unavailable": return {
			title: `The scheduler has not answered since ${since}`,
			text: `${text} Jobs that run go on.`
		};
		case "busy": return {
			title: "The scheduler is busy",
			text
		};
		case "unreachable": return {
			title: `The cluster has not been reachable since ${since}`,
			text
		};
		case "silent": return {
			title: `Nothing has come from the server since ${since}`,
			text
		};
		case "offline": return {
			title: `The server of this page has not answered since ${since}`,
			text: "If you have stopped trellis dashboard, start it again and open the URL that it prints."
		};
		default: return {
			title: `The data could not be read (${problem.kind})`,
			text
		};
	}
}
function describeFailure$1(titles, error, since) {
	const title = Object.hasOwn(titles, error.kind) ? titles[error.kind] : void 0;
	if (title === void 0) return describeProblem({
		...error,
		since
	});
	return {
		title,
		text: asSentence(error.message)
	};
}
function asSentence(message) {
	const text = /^[a-z]+[ :,]/.test(message) ? message.charAt(0).toUpperCase() + message.slice(1) : message;
	return /[.!?]$/.test(text) ? text : `${text}.`;
}
function describeRetry(problem, now) {
	if (!problem.retryAt) return "";
	return problem.retryAt.getTime() <= now.getTime() ? "asking again now" : `asking again in ${formatAge(now, problem.retryAt)}`;
}
// src/parts/Banner.tsx
var ICONS = {
	info: "info",
	warning: "warning",
	bad: "stop"
};
function Banner(props) {
	return a("div", {
		class: `banner banner-${props.tone}`,
		children: [
			a(Icon, { name: ICONS[props.tone] }),
			a("div", {
				class: "banner-text",
				children: [a("strong", { children: props.title }), props.children && a("div", { children: props.children })]
			}),
			props.action
		]
	});
}
function Empty(props) {
	return a("div", {
		class: "empty",
		children: [a(Icon, { name: props.icon ?? "info" }), a("div", { children: [a("p", {
			class: "empty-title",
			children: props.title
		}), props.children] })]
	});
}
function Loading({ rows = 4 }) {
	return a("div", {
		class: "loading",
		role: "status",
		"aria-label": "Loading",
		children: Array.from({ length: rows }, (_, place) => a("div", { class: "loading-row" }, place))
	});
}
// src/parts/ProblemBanners.tsx
var SKEW_MS = 3e4;
var isSkewNoteClosed = y$1(false);
function ProblemBanners() {
	return a("div", {
		class: "banners",
		children: [
			a(StaleBanner, {}),
			a(NoteBanner, {}),
			a(VersionBanner, {}),
			a(ClockBanner, {})
		]
	});
}
function StaleBanner() {
	const freshness = queueFreshness.value;
	const problem = "problem" in freshness ? freshness.problem : void 0;
	const text = problem && describeProblem(problem);
	const isStale = freshness.state === "stale";
	const title = text?.title ?? (isStale ? "The server has not spoken for a while" : "");
	A$1(() => {
		if (title) announce(title);
	}, [title]);
	if (freshness.state !== "stale") return null;
	const retry = problem ? describeRetry(problem, now.value) : "";
	return a(Banner, {
		tone: "warning",
		title,
		action: problem?.retryAt && a("button", {
			type: "button",
			class: "button",
			onClick: retryNow,
			children: "Ask now"
		}),
		children: [
			text && a(Text, { text: text.text }),
			" The data are of ",
			formatClockSeconds(freshness.time),
			retry && `; ${retry}`,
			"."
		]
	});
}
function NoteBanner() {
	const notes = queue.notes.value;
	if (notes.length === 0) return null;
	return a(Banner, {
		tone: "info",
		title: "Not everything is shown",
		children: notes.slice(0, 5).map((note) => a("div", { children: a(Text, { text: note }) }, note))
	});
}
function VersionBanner() {
	const current = session.value?.version;
	const first = firstVersion.value;
	if (current === void 0 || first === void 0 || current === first) return null;
	return a(Banner, {
		tone: "info",
		title: "Trellis has another version now",
		action: a("button", {
			type: "button",
			class: "button",
			onClick: () => location.reload(),
			children: "Reload"
		}),
		children: [
			"This page is of ",
			a(Text, { text: first }),
			", the server of ",
			a(Text, { text: current }),
			". Words that the page does not know are shown as they are."
		]
	});
}
function ClockBanner() {
	const ahead = skew.value;
	if (Math.abs(ahead) < SKEW_MS || isSkewNoteClosed.value) return null;
	return a(Banner, {
		tone: "info",
		title: `The clock of this computer is ${formatSeconds(Math.abs(ahead) / 1e3)} ${ahead > 0 ? "fast" : "slow"}`,
		action: a("button", {
			type: "button",
			class: "button",
			onClick: () => isSkewNoteClosed.value = true,
			children: "Hide"
		}),
		children: "All ages on this page follow the clock of the server. Times of day are in your time zone."
	});
}
// src/app/live/poll.ts
var SHORTEST_MS = 1500;
var LONGEST_MS = 6e4;
function usePolled(path, everyMs, trigger) {
	const answer = useSignal(void 0);
	const problem = useSignal(void 0);
	const wake = useSignal(void 0);
	A$1(() => {
		if (path === void 0) return void 0;
		const stop = new AbortController();
		problem.value = void 0;
		loop(path, stop.signal);
		return () => stop.abort();
	}, [path]);
	A$1(() => wake.peek()?.(), [trigger]);
	async function loop(address, signal) {
		let failures = 0;
		while (!signal.aborted) {
			await whenShown();
			const startedAt = performance.now();
			let wait = everyMs;
			try {
				const value = await get(address, signal);
				if (signal.aborted) return;
				failures = 0;
				answer.value = {
					path: address,
					value
				};
				problem.value = void 0;
			} catch (thrown) {
				if (signal.aborted) return;
				failures += 1;
				wait = pauseOf(failures, everyMs, thrown);
				report(thrown);
			}
			const left = SHORTEST_MS - (performance.now() - startedAt);
			if (left > 0) await sleep(left, signal);
			await sleep(wait, signal, (end) => {
				wake.value = end;
			});
		}
	}
	function report(error) {
		const known = toRequestError(error);
		if (known.kind === "key" || known.kind === "unauthorized") refuse(known);
		if (known.kind === "denied") answer.value = void 0;
		const before = problem.peek();
		const since = before?.kind === known.kind ? before.since : serverTime();
		problem.value = {
			kind: known.kind,
			message: known.message,
			since
		};
	}
	const held = answer.value;
	return {
		answer: held?.path === path ? held?.value : void 0,
		problem: problem.value
	};
}
function pauseOf(failures, everyMs, error) {
	const asked = error instanceof RequestError ? (error.retryAfter ?? 0) * 1e3 : 0;
	return Math.max(asked, Math.min(everyMs * 2 ** (failures - 1), LONGEST_MS));
}
function sleep(ms, signal, onStart) {
	return new Promise((resolve) => {
		const end = () => {
			clearTimeout(timer);
			signal.removeEventListener("abort", end);
			resolve();
		};
		const timer = setTimeout(end, ms);
		signal.addEventListener("abort", end);
		onStart?.(end);
	});
}
// src/app/page/namespace-scope.ts
var EVERY_MS$1 = 6e4;
var ownNamespaces = y$1([]);
function useNamespaceScope() {
	useOwnNamespaces();
	useSignalEffect(() => {
		const current = session.value;
		if (!current) return;
		scope.value = current.may.allJobs ? void 0 : query.value.get("namespace") || chooseNamespace(ownNamespaces.value, current.namespace);
	});
}
function useOwnNamespaces() {
	const { answer } = usePolled(session.value?.may.allJobs === false ? "/api/namespaces" : void 0, EVERY_MS$1, void 0);
	A$1(() => {
		if (answer !== void 0) ownNamespaces.value = answer.namespaces;
	}, [answer]);
}
function chooseNamespace(own, preferred) {
	if (own.some(({ name }) => name === preferred)) return preferred;
	const [first] = own.toSorted((one, other) => other.jobs - one.jobs || one.name.localeCompare(other.name));
	return first?.name ?? preferred;
}
// src/app/queue/summary.ts
function summarizeJobs(jobs) {
	let running = 0;
	let waiting = 0;
	let heldGpus = 0;
	let waitingGpus = 0;
	let oldest;
	for (const job of jobs) {
		if (!isPending(job)) {
			running += 1;
			heldGpus += job.gpus;
			continue;
		}
		waiting += 1;
		waitingGpus += job.gpus;
		const { since } = timesOf(job);
		if (!oldest || since < oldest.since) oldest = {
			job,
			since
		};
	}
	return {
		running,
		waiting,
		heldGpus,
		waitingGpus,
		oldest: oldest?.job
	};
}
var NO_DEVICES$1 = new Set([
	"cpu",
	"memory",
	"ephemeral-storage",
	"pods"
]);
function summarizeDevices(nodes) {
	const found = new Map();
	for (const node of nodes) for (const row of node.resources ?? []) {
		if (NO_DEVICES$1.has(row.resource) || row.resource.startsWith("hugepages-")) continue;
		const sum = found.get(row.resource) ?? {
			all: 0,
			free: 0,
			usable: 0
		};
		const free = parseQuantity(row.free) ?? 0;
		sum.all += parseQuantity(row.allocatable) ?? 0;
		sum.free += free;
		if (node.schedulable) sum.usable += free;
		found.set(row.resource, sum);
	}
	return [...found].map(([resource, sum]) => ({
		resource,
		...sum
	})).filter((row) => row.all > 0).sort((a, b) => b.all - a.all);
}
function headsOfQueues(jobs) {
	const heads = new Map();
	for (const job of jobs) {
		if (job.position === void 0) continue;
		const head = heads.get(job.queue);
		if (!head || (head.position ?? 0) > job.position) heads.set(job.queue, job);
	}
	const start = (job) => timesOf(job).eta ?? Number.POSITIVE_INFINITY;
	const byStart = (a, b) => start(a) === start(b) ? Number(a.queue > b.queue) - Number(a.queue < b.queue) : start(a) - start(b);
	return [...heads.values()].sort(byStart);
}
function ownJobs(jobs, user) {
	const waiting = [];
	const placed = [];
	for (const job of jobs) if (job.user === user) (isPending(job) ? waiting : placed).push(job);
	const start = (job) => {
		if (canNeverStart(job)) return Number.NEGATIVE_INFINITY;
		return timesOf(job).eta ?? Number.POSITIVE_INFINITY;
	};
	const newest = (a, b) => timesOf(b).since - timesOf(a).since;
	waiting.sort((a, b) => start(a) === start(b) ? newest(a, b) : start(a) - start(b));
	placed.sort(newest);
	return {
		waiting,
		placed
	};
}
// src/parts/Card.tsx
function Card(props) {
	const id = P();
	return a("section", {
		class: `card ${props.class ?? ""}`,
		"aria-labelledby": id,
		children: [a("div", {
			class: "card-head",
			children: [a("h2", {
				id,
				children: props.title
			}), props.aside && a("div", {
				class: "card-aside",
				children: props.aside
			})]
		}), props.children]
	});
}
function Facts({ facts }) {
	return a("dl", {
		class: "facts",
		children: facts.map((fact) => fact && a("div", { children: [a("dt", { children: fact.term }), a("dd", { children: fact.value })] }, fact.term))
	});
}
// src/parts/Copy.tsx
var SHOWN_MS = 1500;
function CopyButton({ text, what }) {
	const [isDone, setDone] = d$2(false);
	return a("button", {
		type: "button",
		class: "icon-button copy",
		"aria-label": `Copy ${what}`,
		title: `Copy ${what}`,
		onClick: async () => {
			if (!await copyText(text, what)) return;
			setDone(true);
			setTimeout(() => setDone(false), SHOWN_MS);
		},
		children: a(Icon, { name: isDone ? "check" : "copy" })
	});
}
function Command({ text, label }) {
	return a("div", {
		class: "command",
		children: [
			label !== void 0 && a("span", {
				class: "command-label",
				children: label
			}),
			a("code", {
				tabIndex: 0,
				children: text
			}),
			a(CopyButton, {
				text,
				what: "command"
			})
		]
	});
}
// src/parts/ListProblem.tsx
function ProblemText({ problem }) {
	const text = describeProblem(problem);
	A$1(() => announce(text.title), [text.title]);
	const retry = describeRetry(problem, now.value);
	return a("div", {
		class: "page-text",
		children: [
			a("h2", { children: text.title }),
			a("p", { children: a(Text, {
				text: text.text,
				max: 2e3
			}) }),
			a("p", { children: [
				a("button", {
					type: "button",
					class: "button",
					onClick: retryNow,
					children: "Ask now"
				}),
				" ",
				retry && a("span", {
					class: "dim",
					children: retry
				})
			] })
		]
	});
}
function ListProblem({ title, problem }) {
	return a("div", {
		class: "page",
		children: [a("div", {
			class: "page-head",
			children: a("h1", { children: a(Name, { text: title }) })
		}), a(ProblemText, { problem })]
	});
}
// src/parts/Table.tsx
function Table(props) {
	const frame = T$1(null);
	const narrow = isNarrow.value;
	F$1(() => {
		const element = frame.current;
		if (element) element.tabIndex = element.scrollWidth > element.clientWidth ? 0 : -1;
	}, [narrow, props.rows]);
	return a("div", {
		ref: frame,
		class: "table-scroll",
		role: "region",
		"aria-label": props.caption,
		children: a("table", {
			class: "table",
			children: [
				a("caption", {
					class: "hidden",
					children: props.caption
				}),
				a("thead", { children: a("tr", { children: props.columns.map((column) => a("th", {
					scope: "col",
					class: cellClass(column),
					children: column.title
				}, column.title)) }) }),
				a("tbody", { children: props.rows.map((row) => a("tr", { children: props.columns.map((column) => a("td", {
					class: cellClass(column),
					children: column.cell(row)
				}, column.title)) }, props.keyOf(row))) })
			]
		})
	});
}
function cellClass(column) {
	if (column.isNumber) return "number";
	return column.isWide ? "wide" : void 0;
}
// src/parts/Time.tsx
function Age({ time }) {
	return a("time", {
		dateTime: time,
		title: formatDateTime(time),
		children: formatAge(time, now.value)
	});
}
function Ago({ time }) {
	return a("time", {
		dateTime: time,
		title: formatDateTime(time),
		children: [formatAge(time, now.value), " ago"]
	});
}
function Until({ time }) {
	const span = formatUntil(time, now.value);
	return a("time", {
		dateTime: time,
		title: formatDateTime(time),
		children: span === "now" ? span : `in ${span}`
	});
}
function Clock({ time }) {
	return a("time", {
		dateTime: time,
		title: formatDateTime(time),
		children: formatClock(time, now.value)
	});
}
// src/app/policy/policy-ref.ts
function refOfId(id) {
	const [first, second, third, ...rest] = id.split("/");
	if (!first || !second || rest.length > 0) return void 0;
	if (third === void 0) return {
		kind: "ClusterJobPolicy",
		name: first
	};
	return {
		kind: "JobPolicy",
		namespace: first,
		name: second
	};
}
function isIdOf(id, policy) {
	const ref = refOfId(id);
	return ref?.kind === policy.kind && ref.namespace === policy.namespace && ref.name === policy.name;
}
function findPolicies(answer, name, kind) {
	const isKind = (own) => kind === void 0 || kind === own;
	return {
		jobPolicies: answer.jobPolicies.filter((policy) => policy.name === name && isKind(policy.kind)),
		quotaPolicies: isKind("QuotaPolicy") ? answer.quotaPolicies.filter((policy) => policy.name === name) : []
	};
}
// src/parts/links.tsx
function JobLink({ job }) {
	return a("a", {
		href: urls.job(job),
		children: a(Name, { text: `${job.namespace}/${jobLabel(job.name)}` })
	});
}
function NodeLink({ name }) {
	return a("a", {
		href: urls.node(name),
		children: a(Name, { text: name })
	});
}
function QueueLink({ name }) {
	return a("a", {
		href: urls.queue(name),
		children: a(Name, { text: name })
	});
}
function PolicyIdLink({ id }) {
	const ref = refOfId(id);
	return ref ? a("a", {
		href: urls.policy(ref),
		children: a(Name, { text: id })
	}) : a(Name, { text: id });
}
function NodeLinks({ names }) {
	return a($, { children: names.map((name, place) => a("span", { children: [place > 0 && ", ", a(NodeLink, { name })] }, name)) });
}
// src/views/home/Changes.tsx
var MAX_SHOWN = 8;
function Changes() {
	const user = session.value?.user;
	const all = changes.value;
	const own = all.filter((change) => change.job.user === user);
	const others = all.filter((change) => change.job.user !== user);
	const shown = [...own, ...others].slice(0, MAX_SHOWN);
	return a(Card, {
		title: "What changed",
		children: shown.length === 0 ? a("p", {
			class: "dim card-text",
			children: "Nothing since this page was opened."
		}) : a("ul", {
			class: "changes",
			children: shown.map((change) => a("li", { children: [
				a(JobLink, { job: {
					namespace: change.job.metadata.namespace ?? "",
					name: change.job.metadata.name
				} }),
				" ",
				a(What, { change }),
				a("span", {
					class: "dim",
					children: [" ", a(Ago, { time: change.time.toISOString() })]
				})
			] }, `${change.key} ${change.time.getTime()}`))
		})
	});
}
function What({ change }) {
	const { job, before } = change;
	switch (change.what) {
		case "submitted": return a($, { children: ["came to queue ", a(Name, { text: job.queue })] });
		case "started": return a($, { children: ["runs", job.nodeCount !== void 0 && ` on ${countOf(job.nodeCount, "node")}`] });
		case "left": return a($, { children: "ended, or was suspended or deleted" });
		case "first": return a($, { children: [
			"is first in queue ",
			a(Name, { text: job.queue }),
			" now"
		] });
		case "phase": return a($, { children: [
			"is ",
			a(Name, { text: phaseOf(job) }),
			job.reason && a($, { children: [
				" ",
				"(",
				a(Name, { text: job.reason }),
				")"
			] }),
			before && a($, { children: [", it was ", a(Name, { text: phaseOf(before) })] })
		] });
	}
}
// src/views/home/Eta.tsx
function Eta({ job }) {
	const eta = describeEta(job, now.value);
	if (eta === void 0) return a("span", {
		class: "dim",
		children: "unknown"
	});
	return a("span", {
		class: canNeverStart(job) ? "never" : void 0,
		children: eta
	});
}
// src/app/look/phases.ts
var LOOKS = {
	Running: {
		tone: "good",
		icon: "play"
	},
	Complete: {
		tone: "good",
		icon: "check"
	},
	Queued: {
		tone: "waiting",
		icon: "clock"
	},
	Waiting: {
		tone: "waiting",
		icon: "dots"
	},
	Starting: {
		tone: "starting",
		icon: "half"
	},
	Restarting: {
		tone: "starting",
		icon: "restart"
	},
	Blocked: {
		tone: "bad",
		icon: "stop"
	},
	Refused: {
		tone: "bad",
		icon: "ban"
	},
	Failed: {
		tone: "bad",
		icon: "cross"
	},
	Suspended: {
		tone: "still",
		icon: "pause"
	}
};
function phaseLook(phase) {
	return Object.hasOwn(LOOKS, phase) ? LOOKS[phase] ?? UNKNOWN : UNKNOWN;
}
var UNKNOWN = {
	tone: "still",
	icon: "help"
};
// src/parts/Badge.tsx
function Badge(props) {
	return a("span", {
		class: `badge tone-${props.tone}`,
		children: [a(Icon, { name: props.icon }), props.children]
	});
}
function PhaseBadge({ phase }) {
	const look = phaseLook(phase);
	return a(Badge, {
		tone: look.tone,
		icon: look.icon,
		children: a(Name, { text: phase })
	});
}
// src/views/home/JobLine.tsx
function JobLine({ job }) {
	const { namespace = "", name } = job.metadata;
	const reason = describeReason(job);
	return a("li", {
		class: "job-line",
		children: [
			a(PhaseBadge, { phase: phaseOf(job) }),
			a("div", {
				class: "job-line-text",
				children: [
					a("div", {
						class: "job-line-head",
						children: [a("a", {
							href: urls.job({
								namespace,
								name
							}),
							"data-row": true,
							children: [a("span", {
								class: "namespace",
								children: [a(Name, { text: namespace }), "/"]
							}), a(Name, { text: jobLabel(name) })]
						}), a("span", {
							class: "dim",
							children: [
								job.gpus > 0 ? countOf(job.gpus, "GPU") : countOf(job.pods, "pod"),
								" for ",
								a(Age, { time: job.since })
							]
						})]
					}),
					reason && a("p", {
						class: "job-line-reason",
						children: a(Text, {
							text: reason,
							max: 320
						})
					}),
					a("p", {
						class: "dim",
						children: isPending(job) ? a(Place, { job }) : a(Where, { job })
					})
				]
			}),
			a("div", {
				class: "job-line-eta",
				children: a(Eta, { job })
			})
		]
	});
}
function Place({ job }) {
	return job.position === void 0 ? a($, { children: [
		"in queue ",
		a(QueueLink, { name: job.queue }),
		", waits for preempted jobs to stop"
	] }) : a($, { children: [
		"number ",
		job.position,
		" of queue ",
		a(QueueLink, { name: job.queue }),
		", priority ",
		job.priority
	] });
}
function Where({ job }) {
	return a($, { children: [
		job.nodeCount !== void 0 && a($, { children: [
			"on ",
			countOf(job.nodeCount, "node"),
			", "
		] }),
		"queue ",
		a(QueueLink, { name: job.queue }),
		", priority ",
		job.priority
	] });
}
// src/app/job/ended-attempts.ts
function endKind(ended) {
	if (ended.preempted) return "preempted";
	if (ended.phase === "Complete") return "complete";
	if (ended.phase === "Failed") return "failed";
	if (ended.phase === "Suspended") return "suspended";
	if (ended.failure) return "failed";
	return ended.phase === void 0 ? "deleted" : "other";
}
var WORDS = {
	complete: "Complete",
	failed: "Failed",
	preempted: "Preempted",
	suspended: "Suspended",
	deleted: "Deleted"
};
function endWord(ended) {
	const kind = endKind(ended);
	return kind === "other" ? ended.reason ?? "Ended" : WORDS[kind];
}
var END_LOOKS = {
	complete: {
		tone: "good",
		icon: "check"
	},
	failed: {
		tone: "bad",
		icon: "cross"
	},
	preempted: {
		tone: "waiting",
		icon: "swap"
	},
	suspended: {
		tone: "still",
		icon: "pause"
	},
	deleted: {
		tone: "still",
		icon: "minus"
	},
	other: {
		tone: "starting",
		icon: "restart"
	}
};
var BRIEF = 160;
function describeCause(ended) {
	const cut = cutText(cleanLine(ended.failure ? describeFailure(ended.failure) : ended.message ?? ""), BRIEF);
	return cut.isCut ? `${cut.text}…` : cut.text;
}
function describeFailure({ pod, reason, exitCode, lastLine }) {
	return `${pod} ${reason}${exitCode === void 0 ? "" : `, exit code ${exitCode}`}${lastLine ? `: ${lastLine}` : ""}`;
}
function describeAttempt(ended, now) {
	const cause = describeCause(ended);
	const held = formatAge(ended.placed, new Date(ended.ended));
	const head = `attempt ${ended.attempt}: ${endWord(ended)} ${formatAge(ended.ended, now)} ago after ${held}`;
	return cause === "" ? head : `${head}, ${cause.replace(/[.\s]+$/, "")}`;
}
function checkpointOf(ended) {
	const at = Date.parse(ended.checkpoint ?? "");
	return at >= Date.parse(ended.placed) && at <= Date.parse(ended.ended) ? ended.checkpoint : void 0;
}
function endsBesides(status, listed) {
	const { lastFailure, lastPreemption } = status;
	const hasFailure = listed.some((ended) => ended.failure !== void 0 && ended.attempt === lastFailure?.attempt);
	const hasPreemption = listed.some((ended) => ended.preempted && ended.attempt === lastPreemption?.attempt);
	return {
		...lastFailure !== void 0 && !hasFailure && { lastFailure },
		...lastPreemption !== void 0 && !hasPreemption && { lastPreemption }
	};
}
function jobKeyOf(ended) {
	return `${ended.metadata.namespace ?? ""}/${ended.job}`;
}
function attemptsOfJob(attempts, job, uid) {
	const key = `${job.namespace}/${job.name}`;
	return attempts.filter((own) => jobKeyOf(own) === key && (uid === void 0 || own.uid === uid)).reverse();
}
function groupByJob(attempts) {
	const groups = new Map();
	for (const ended of attempts) {
		const key = jobKeyOf(ended);
		const group = groups.get(key);
		if (group) group.push(ended);
		else groups.set(key, [ended]);
	}
	return groups;
}
function matchesEnded(ended, filter) {
	if (filter.queue !== void 0 && ended.queue !== filter.queue) return false;
	if (filter.namespace !== void 0 && ended.metadata.namespace !== filter.namespace) return false;
	if (filter.user !== void 0 && ended.user !== filter.user) return false;
	if (filter.state !== void 0 && ended.phase !== filter.state) return false;
	const words = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) return true;
	const text = [
		jobKeyOf(ended),
		ended.user,
		ended.queue,
		ended.reason,
		ended.message?.slice(0, 400)
	].join("\n").toLowerCase();
	return words.every((word) => text.includes(word));
}
// src/app/live/ended-attempts.ts
var EVERY_MS = 15e3;
function useEndedAttempts(namespace, trigger) {
	const suffix = namespace === void 0 ? "" : `?namespace=${encodeURIComponent(namespace)}`;
	return usePolled(session.value && `/api/attempts${suffix}`, EVERY_MS, trigger);
}
function describeAttemptsProblem({ answer, problem }) {
	if (problem === void 0) return void 0;
	const cause = asSentence(cleanLine(problem.message));
	if (answer !== void 0) return `Ended attempts are old: ${cause}`;
	return `Ended attempts are not known: ${cause} An older operator does not remember them.`;
}
// src/app/queue/on-call.ts
var INTENDED = new Set(["SchedulingDisabled", "NoPods"]);
function isBad(node) {
	return !node.schedulable && (node.reasons ?? []).some(({ reason }) => !INTENDED.has(reason));
}
function countBadNodes(nodes) {
	const bad = [...nodes].filter(isBad);
	const reasons = new Map();
	for (const node of bad) for (const { reason } of node.reasons ?? []) if (!INTENDED.has(reason)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
	const jobs = new Set(bad.flatMap((node) => (node.jobs ?? []).map(({ namespace, name }) => `${namespace}/${name}`)));
	const byCount = [...reasons].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
	return {
		count: bad.length,
		reasons: byCount,
		jobs: jobs.size
	};
}
function recentEnds(attempts, since) {
	const recent = [];
	for (let index = attempts.length - 1; index >= 0; index -= 1) {
		const ended = attempts[index];
		if (ended === void 0 || Date.parse(ended.ended) < since) break;
		recent.push(ended);
	}
	return {
		failed: recent.filter((ended) => endKind(ended) === "failed"),
		preempted: recent.filter((ended) => endKind(ended) === "preempted")
	};
}
function quietText(areNodesKnown, areAttemptsKnown) {
	if (areNodesKnown && areAttemptsKnown) return "No bad node, and no failed attempt in the last hour.";
	if (areNodesKnown) return "No bad node.";
	return areAttemptsKnown ? "No failed attempt in the last hour." : void 0;
}
// src/views/home/OnCall.tsx
var HOUR = 36e5;
var STEP_MS = 15e3;
function OnCall() {
	const polled = useEndedAttempts(void 0);
	const since = useComputed(() => Math.floor(now.value.getTime() / STEP_MS) * STEP_MS - HOUR).value;
	const bad = useComputed(() => countBadNodes(nodes.nodes.value.values())).value;
	const ends = recentEnds(polled.answer?.attempts ?? [], since);
	const problem = describeAttemptsProblem(polled);
	const areNodesKnown = session.value?.may.nodes === true && nodesFreshness.value.state === "fresh";
	const areAttemptsKnown = polled.answer !== void 0 && problem === void 0;
	const quiet = bad.count + ends.failed.length + ends.preempted.length === 0 ? quietText(areNodesKnown, areAttemptsKnown) : void 0;
	return a("section", {
		class: "on-call",
		"aria-label": "What broke",
		children: [
			quiet !== void 0 && a(Line, {
				icon: "check",
				children: quiet
			}),
			bad.count > 0 && a(BadNodesLine, { bad }),
			a(Ends, {
				icon: "cross",
				verb: ["failed", "failed"],
				ends: ends.failed
			}),
			a(Ends, {
				icon: "swap",
				verb: ["was preempted", "were preempted"],
				ends: ends.preempted
			}),
			problem !== void 0 && a(Line, {
				icon: "info",
				children: a(Text, {
					text: problem,
					max: 300
				})
			})
		]
	});
}
function Line({ icon, children }) {
	return a("p", {
		class: `on-call-line on-call-${icon}`,
		children: [a(Icon, { name: icon }), a("span", { children })]
	});
}
function BadNodesLine({ bad }) {
	return a(Line, {
		icon: "warning",
		children: [
			a("a", {
				href: urls.nodes({
					view: "table",
					state: "bad"
				}),
				children: countOf(bad.count, "node is bad", "nodes are bad")
			}),
			" ",
			"(",
			bad.reasons.map(([reason, count], place) => a("span", { children: [
				place > 0 && ", ",
				a(Name, { text: reason }),
				" ",
				formatCount(count)
			] }, reason)),
			"), ",
			bad.jobs === 0 ? "with no job" : `with pods of ${countOf(bad.jobs, "job")}`
		]
	});
}
function Ends(props) {
	const { icon, verb, ends } = props;
	const [last] = ends;
	if (last === void 0) return null;
	const cause = describeCause(last);
	const [one, more] = verb;
	return a(Line, {
		icon,
		children: [
			a("a", {
				href: urls.timeline({
					from: "-1h",
					to: "15m"
				}),
				children: countOf(ends.length, `attempt ${one}`, `attempts ${more}`)
			}),
			" in the last hour, the last of ",
			a(JobLink, { job: {
				namespace: last.metadata.namespace ?? "",
				name: last.job
			} }),
			" ",
			a(Ago, { time: last.ended }),
			cause !== "" && a($, { children: [": ", a(Text, {
				text: cause,
				max: 160
			})] })
		]
	});
}
// src/app/queue/quota-bar.ts
var WIDTH = 100;
var ROOM = 1.06;
var NO_DEVICES = new Set([
	"cpu",
	"memory",
	"ephemeral-storage",
	"pods"
]);
function mainResources(queue) {
	const devices = (queue.resources ?? []).filter((row) => !NO_DEVICES.has(row.resource));
	return devices.length > 0 ? devices : boundedResources(queue);
}
function boundedResources(queue) {
	return (queue.resources ?? []).filter((row) => row.resource !== "pods" || row.available !== void 0);
}
function readQuotaRows(queue, rows) {
	const pending = new Map((queue.pendingResources ?? []).map((own) => [own.resource, own.amount]));
	return rows.map((row) => {
		const waiting = pending.get(row.resource);
		pending.delete(row.resource);
		return {
			row,
			amounts: {
				nominal: parseQuantity(row.nominalQuota) ?? 0,
				used: parseQuantity(row.used) ?? 0,
				borrowed: parseQuantity(row.borrowed) ?? 0,
				lendable: parseQuantity(row.lendable) ?? 0,
				waiting: parseQuantity(waiting) ?? 0
			}
		};
	});
}
function barScale(all) {
	return Math.max(0, ...all.map((own) => Math.max(own.nominal, own.used, own.lendable))) * ROOM;
}
function quotaBarParts(amounts, scale) {
	const percent = (amount) => scale > 0 ? Math.min(Math.max(amount / scale * WIDTH, 0), WIDTH) : 0;
	const borrowed = Math.min(Math.max(amounts.borrowed, 0), amounts.used);
	const end = percent(amounts.used);
	const own = percent(amounts.used - borrowed);
	const lendableStart = percent(Math.max(amounts.nominal - amounts.lendable, 0));
	return {
		nominal: percent(amounts.nominal),
		own,
		borrowed: end - own,
		lendableStart,
		lendable: percent(Math.max(amounts.nominal, amounts.lendable)) - lendableStart,
		waiting: percent(amounts.waiting),
		isWaitingCut: amounts.waiting > scale
	};
}
// src/parts/Bar.tsx
function QuotaBar(props) {
	const { row, amounts, scale } = props;
	const parts = quotaBarParts(amounts, scale);
	const isUnlimited = row.available === void 0;
	const amount = (quantity) => formatAmount(row.resource, quantity);
	return a("div", {
		class: "quota",
		children: [
			a("div", {
				class: "quota-name",
				children: a(Name, { text: resourceLabel(row.resource, row.flavor) })
			}),
			a("div", {
				class: isUnlimited && amounts.nominal === 0 ? "quota-bar is-unlimited" : "quota-bar",
				"aria-hidden": "true",
				children: [
					parts.waiting > 0 && a("div", {
						class: parts.isWaitingCut ? "quota-waiting is-cut" : "quota-waiting",
						style: { width: `${parts.waiting}%` }
					}),
					a("div", {
						class: "quota-track",
						children: [
							a("div", {
								class: "quota-own",
								style: { width: `${parts.own}%` }
							}),
							a("div", {
								class: "quota-borrowed",
								style: {
									left: `${parts.own}%`,
									width: `${parts.borrowed}%`
								}
							}),
							parts.nominal > 0 && a("div", {
								class: "quota-frame",
								style: { width: `${parts.nominal}%` }
							})
						]
					}),
					parts.lendable > 0 && a("div", {
						class: "quota-lendable",
						style: {
							left: `${parts.lendableStart}%`,
							width: `${parts.lendable}%`
						}
					})
				]
			}),
			a("div", {
				class: "quota-numbers",
				children: [
					a("span", { children: [a("b", { children: amount(row.used) }), amounts.nominal > 0 ? a($, { children: [" of ", amount(row.nominalQuota)] }) : " used"] }),
					amounts.borrowed > 0 && a("span", {
						class: "borrowed",
						children: [amount(row.borrowed), " borrowed"]
					}),
					amounts.lendable > 0 && a("span", { children: [amount(row.lendable), " lendable"] }),
					a("span", { children: isUnlimited ? "no limit" : `${amount(row.available ?? "0")} free by quota` }),
					amounts.waiting > 0 && a("span", {
						class: "waits",
						children: [formatAmount(row.resource, String(amounts.waiting)), " wait"]
					})
				]
			})
		]
	});
}
function SegmentBar({ segments, noun }) {
	const all = segments.reduce((sum, segment) => sum + segment.count, 0);
	return a("div", {
		class: "segments",
		role: "img",
		"aria-label": segments.map((segment) => `${segment.name}: ${countOf(segment.count, noun)}`).join("; "),
		children: segments.map((segment) => segment.count > 0 && a("div", {
			class: `segment segment-${segment.kind}`,
			style: { width: `${segment.count / all * 100}%` },
			title: `${segment.name}: ${countOf(segment.count, noun)}`
		}, segment.name))
	});
}
// src/views/home/QueueBars.tsx
var MAX_QUEUES = 5;
function QueueBars() {
	const queues = queue.queues.value;
	if (session.value && !session.value.may.queues) return null;
	if (!queues || queues.size === 0) return null;
	const busy = [...queues.values()].filter((own) => mainResources(own).length > 0).sort((a, b) => b.pending + b.admitted - (a.pending + a.admitted)).slice(0, MAX_QUEUES);
	return a(Card, {
		title: "Quota",
		aside: a("a", {
			href: urls.queues,
			children: "All queues"
		}),
		children: a("div", {
			class: "home-quotas",
			children: busy.map((own) => {
				const rows = readQuotaRows(own, mainResources(own).slice(0, 1));
				const scale = barScale(rows.map((row) => row.amounts));
				return a("div", {
					class: "home-quota",
					children: [a("h3", { children: a(QueueLink, { name: own.metadata.name }) }), rows.map(({ row, amounts }) => a(QuotaBar, {
						row,
						amounts,
						scale
					}, `${row.flavor} ${row.resource}`))]
				}, own.metadata.name);
			})
		})
	});
}
// src/views/home/Tiles.tsx
function Tiles({ summary, isLoading }) {
	const { oldest } = summary;
	return a("ul", {
		class: "tiles",
		"aria-label": "The cluster in numbers",
		children: [
			a(Tile, {
				term: "Placed",
				href: urls.jobs({ state: "running" }),
				value: isLoading ? "–" : formatCount(summary.running),
				note: `hold ${countOf(summary.heldGpus, "GPU")}`
			}),
			a(Tile, {
				term: "Pending",
				href: urls.jobs({ state: "waiting" }),
				value: isLoading ? "–" : formatCount(summary.waiting),
				note: `want ${countOf(summary.waitingGpus, "GPU")}`
			}),
			a(Tile, {
				term: "Longest wait",
				value: oldest ? a(Age, { time: oldest.since }) : "–",
				note: oldest ? a(JobLink, { job: {
					namespace: oldest.metadata.namespace ?? "",
					name: oldest.metadata.name
				} }) : "nothing waits"
			}),
			a(FreeTile, {})
		]
	});
}
function FreeTile() {
	const [main] = useComputed(() => summarizeDevices(nodes.nodes.value.values())).value;
	if (!main) return null;
	const blocked = main.free - main.usable;
	return a(Tile, {
		term: "Free",
		href: urls.nodes(),
		value: a($, { children: [
			formatCount(main.usable),
			" ",
			a("small", { children: ["of ", formatCount(main.all)] })
		] }),
		note: a($, { children: [a(Name, { text: main.resource }), blocked > 0 && `, ${formatCount(blocked)} more on nodes that take no pods`] })
	});
}
function Tile(props) {
	return a("li", {
		class: "tile",
		children: [
			a("div", {
				class: "tile-term",
				children: props.href ? a("a", {
					href: props.href,
					children: props.term
				}) : props.term
			}),
			a("div", {
				class: "tile-value",
				children: props.value
			}),
			a("div", {
				class: "tile-note",
				children: props.note
			})
		]
	});
}
// src/views/Home.tsx
var MAX_OWN = 6;
var MAX_HEADS = 8;
function Home() {
	useTitle("Home");
	useNamespaceScope();
	const mayNodes = session.value?.may.nodes ?? false;
	A$1(() => mayNodes ? follow("nodes") : void 0, [mayNodes]);
	const summary = useComputed(() => summarizeJobs(queue.jobs.value.values()));
	const heads = useComputed(() => headsOfQueues(queue.jobs.value.values()));
	const freshness = queueFreshness.value;
	if (freshness.state === "failed") return a(ListProblem, {
		title: "Home",
		problem: freshness.problem
	});
	const isLoading = freshness.state === "loading";
	return a("div", {
		class: "page",
		children: [
			a("h1", {
				class: "hidden",
				children: "Home"
			}),
			a(OneNamespace, {}),
			!isLoading && session.value?.may.allJobs && a(OnCall, {}),
			a(Tiles, {
				summary: summary.value,
				isLoading
			}),
			a("div", {
				class: "home",
				children: [a("div", {
					class: "home-main",
					children: [a(OwnJobs, { isLoading }), a(Card, {
						title: "First in each queue",
						aside: a("a", {
							href: urls.jobs({ state: "waiting" }),
							children: "All that wait"
						}),
						children: isLoading ? a(Loading, {}) : heads.value.length === 0 ? a(Empty, {
							icon: "check",
							title: "Nothing waits."
						}) : a(Heads, { jobs: heads.value.slice(0, MAX_HEADS) })
					})]
				}), a("div", {
					class: "home-side",
					children: [a(Changes, {}), a(QueueBars, {})]
				})]
			})
		]
	});
}
function OneNamespace() {
	if (scope.value === void 0 || session.value?.may.allJobs !== false) return null;
	return a("p", {
		class: "home-scope",
		children: [
			"Jobs of namespace ",
			a(Name, { text: scope.value }),
			": you may not list those of all namespaces.",
			" ",
			a("a", {
				href: urls.jobs(),
				children: "Choose another"
			})
		]
	});
}
function OwnJobs({ isLoading }) {
	const user = session.value?.user;
	const { waiting, placed } = ownJobs(queue.jobs.value.values(), user ?? "");
	const isEmpty = waiting.length + placed.length === 0;
	return a(Card, {
		title: "My jobs",
		aside: user !== void 0 && !isEmpty && a("a", {
			href: urls.jobs({ user }),
			children: "All of mine"
		}),
		children: [
			isLoading && a(Loading, {}),
			!isLoading && isEmpty && a(Empty, {
				title: "No job of yours waits or runs.",
				children: [
					a("p", {
						class: "dim",
						children: "Submit one from a file, or look at what ended:"
					}),
					a(Command, {
						label: "Submit",
						text: "trellis submit -f job.yaml"
					}),
					a(Command, {
						label: "All jobs",
						text: "kubectl get trainingjobs"
					})
				]
			}),
			a(JobLines, {
				title: "Wait",
				jobs: waiting,
				more: urls.jobs({
					user,
					state: "waiting"
				})
			}),
			a(JobLines, {
				title: "Placed",
				jobs: placed,
				more: urls.jobs({
					user,
					state: "running"
				})
			})
		]
	});
}
function JobLines(props) {
	const { title, jobs, more } = props;
	if (jobs.length === 0) return null;
	return a("section", { children: [
		a("h3", {
			class: "job-lines-title",
			children: [
				title,
				" ",
				a("span", {
					class: "dim",
					children: jobs.length
				})
			]
		}),
		a("ul", { children: jobs.slice(0, MAX_OWN).map((job) => a(JobLine, { job }, jobKey(job))) }),
		jobs.length > MAX_OWN && a("p", {
			class: "card-foot",
			children: a("a", {
				href: more,
				children: [jobs.length - MAX_OWN, " more"]
			})
		})
	] });
}
function Heads({ jobs }) {
	return a(Table, {
		caption: "The first pending job of each queue",
		rows: jobs,
		keyOf: jobKey,
		columns: [
			{
				title: "Queue",
				cell: (job) => a(QueueLink, { name: job.queue })
			},
			{
				title: "Job",
				isWide: true,
				cell: (job) => a(JobLink, { job: {
					namespace: job.metadata.namespace ?? "",
					name: job.metadata.name
				} })
			},
			{
				title: "GPUs",
				isNumber: true,
				cell: (job) => job.gpus
			},
			{
				title: "Waits for",
				cell: (job) => a(Age, { time: job.since })
			},
			{
				title: "Expected",
				cell: (job) => a(Eta, { job })
			}
		]
	});
}
// src/app/list/paused-order.ts
function comparePausedOrder(shown, current) {
	const currentKeys = new Set(current);
	const shownKeys = new Set(shown);
	const keptShown = shown.filter((key) => currentKeys.has(key));
	const keptCurrent = current.filter((key) => shownKeys.has(key));
	const left = shown.length - keptShown.length;
	const came = current.length - keptCurrent.length;
	const moved = keptShown.length - longestRunInOrder(keptShown, keptCurrent);
	return {
		keys: shown,
		changes: left + came + moved
	};
}
function longestRunInOrder(shown, current) {
	const places = new Map(current.map((key, place) => [key, place]));
	const tails = [];
	for (const key of shown) {
		const place = places.get(key) ?? 0;
		let low = 0;
		let high = tails.length;
		while (low < high) {
			const middle = low + high >> 1;
			if ((tails[middle] ?? 0) < place) low = middle + 1;
			else high = middle;
		}
		tails[low] = place;
	}
	return tails.length;
}
// src/parts/JobCells.tsx
var REASON_LENGTH = 300;
function JobCells({ job, href, isGone }) {
	const eta = describeEta(job, now.value);
	return a($, { children: [
		a("div", {
			class: "cell cell-position",
			role: "cell",
			children: job.position === void 0 ? "" : formatCount(job.position)
		}),
		a("div", {
			class: "cell cell-job",
			role: "cell",
			children: a("a", {
				href,
				"data-row": true,
				children: [a("span", {
					class: "namespace",
					children: [a(Name, { text: job.metadata.namespace ?? "" }), "/"]
				}), a(Name, { text: jobLabel(job.metadata.name) })]
			})
		}),
		a("div", {
			class: "cell cell-user",
			role: "cell",
			children: job.user && a(Name, { text: job.user })
		}),
		a("div", {
			class: "cell cell-queue",
			role: "cell",
			children: a("a", {
				href: urls.queue(job.queue),
				children: a(Name, { text: job.queue })
			})
		}),
		a("div", {
			class: "cell cell-priority",
			role: "cell",
			children: job.priority
		}),
		a("div", {
			class: "cell cell-gpus",
			role: "cell",
			children: formatCount(job.gpus)
		}),
		a("div", {
			class: "cell cell-pods",
			role: "cell",
			children: formatCount(job.pods)
		}),
		a("div", {
			class: "cell cell-state",
			role: "cell",
			children: isGone ? "left the list" : a(PhaseBadge, { phase: phaseOf(job) })
		}),
		a("div", {
			class: "cell cell-since",
			role: "cell",
			children: a(Age, { time: job.since })
		}),
		a("div", {
			class: canNeverStart(job) ? "cell cell-eta never" : "cell cell-eta",
			role: "cell",
			children: eta
		}),
		a("div", {
			class: "cell cell-reason",
			role: "cell",
			children: a(Text, { text: cutText(describeReason(job), REASON_LENGTH).text })
		})
	] });
}
// src/app/list/virtual.ts
function rowsInView(list) {
	const { count, rowHeight, above, viewHeight, overscan } = list;
	const top = Math.floor(above / rowHeight) - overscan;
	const bottom = Math.ceil((above + viewHeight) / rowHeight) + overscan;
	const first = Math.min(Math.max(top, 0), count);
	return {
		first,
		end: Math.min(Math.max(bottom, first), count)
	};
}
// src/parts/VirtualRows.tsx
var OVERSCAN = 12;
function VirtualRows(props) {
	const { keys, rowHeight, row } = props;
	const element = T$1(null);
	const [offset, setOffset] = d$2(0);
	const [focused, setFocused] = d$2(void 0);
	const view = viewport.value;
	F$1(() => {
		const box = element.current?.getBoundingClientRect();
		if (box) setOffset(Math.round(box.top + scrollY));
	});
	const above = view.top - offset;
	const range = rowsInView({
		count: keys.length,
		rowHeight,
		above,
		viewHeight: view.height,
		overscan: OVERSCAN
	});
	const indexes = Array.from({ length: range.end - range.first }, (_, place) => range.first + place);
	const focusedIndex = focused === void 0 ? -1 : keys.indexOf(focused);
	if (focusedIndex >= 0 && (focusedIndex < range.first || focusedIndex >= range.end)) indexes.push(focusedIndex);
	return a("div", {
		ref: element,
		class: "virtual-rows",
		role: "rowgroup",
		style: { height: `${keys.length * rowHeight}px` },
		onFocusIn: (event) => {
			const own = event.target instanceof Element ? event.target.closest("[data-key]") : null;
			setFocused(own?.getAttribute("data-key") ?? void 0);
		},
		onFocusOut: () => setFocused(void 0),
		children: indexes.map((index) => {
			const key = keys[index] ?? "";
			return a("div", {
				class: "virtual-row",
				role: "row",
				"aria-rowindex": index + 2,
				"data-key": key,
				style: {
					transform: `translateY(${index * rowHeight}px)`,
					height: `${rowHeight}px`
				},
				children: row(key, index)
			}, key);
		})
	});
}
// src/parts/JobTable.tsx
var ROW_HEIGHT = 34;
var CARD_HEIGHT = 96;
var COLUMNS = [
	{
		column: "position",
		title: "Pos",
		hint: "Position in the order of its queue"
	},
	{
		column: "job",
		title: "Job"
	},
	{
		column: "user",
		title: "User"
	},
	{
		column: "queue",
		title: "Queue"
	},
	{
		column: "priority",
		title: "Priority"
	},
	{
		column: "gpus",
		title: "GPUs"
	},
	{
		column: "pods",
		title: "Pods"
	},
	{
		column: "state",
		title: "State"
	},
	{
		column: "since",
		title: "Since"
	},
	{
		column: "eta",
		title: "Expected",
		hint: "Expected start or end. No promise."
	},
	{
		column: "reason",
		title: "Reason"
	}
];
function JobTable(props) {
	const { jobs, order, onOrder, selection } = props;
	const paused = usePausedOrder(w$2(() => sortJobs(jobs, order).map(jobKey), [
		jobs,
		order.column,
		order.descending
	]), selection);
	const rowHeight = isNarrow.value ? CARD_HEIGHT : ROW_HEIGHT;
	return a("div", {
		class: "job-table-frame",
		...paused.listeners,
		children: [paused.changes > 0 && a("div", {
			class: "paused",
			children: a("button", {
				type: "button",
				class: "button",
				onClick: paused.resume,
				children: [a(Icon, { name: "restart" }), countOf(paused.changes, "change")]
			})
		}), a("div", {
			class: "job-table",
			role: "table",
			"aria-label": "Jobs",
			"aria-rowcount": paused.keys.length + 1,
			children: [a("div", {
				class: "job-table-head",
				role: "rowgroup",
				children: a("div", {
					class: "job-row",
					role: "row",
					"aria-rowindex": 1,
					children: COLUMNS.map(({ column, title, hint }) => a(SortHeader, {
						column,
						title,
						hint,
						order,
						onOrder
					}, column))
				})
			}), a(VirtualRows, {
				keys: paused.keys,
				rowHeight,
				row: (key) => a(JobRow, { jobKey: key })
			})]
		})]
	});
}
function SortHeader(props) {
	const { column, title, hint, order, onOrder } = props;
	const isSorted = order.column === column;
	const direction = order.descending ? "descending" : "ascending";
	return a("div", {
		class: `cell cell-${column}`,
		role: "columnheader",
		"aria-sort": isSorted ? direction : "none",
		children: a("button", {
			type: "button",
			class: "sort",
			title: hint,
			onClick: () => onOrder(nextOrder(order, column)),
			children: [title, isSorted && a(Icon, { name: order.descending ? "down" : "up" })]
		})
	});
}
function JobRow({ jobKey: key }) {
	const last = T$1(void 0);
	const current = useComputed(() => queue.jobs.value.get(key)).value;
	if (current) last.current = current;
	const job = current ?? last.current;
	if (!job) return null;
	const { namespace = "", name } = job.metadata;
	return a("div", {
		class: current ? "job-row" : "job-row is-gone",
		role: "presentation",
		children: a(JobCells, {
			job,
			href: urls.job({
				namespace,
				name
			}),
			isGone: !current
		})
	});
}
function usePausedOrder(current, selection) {
	const [isPaused, setPaused] = d$2(false);
	const shown = T$1({
		keys: current,
		selection
	});
	if (!isPaused || shown.current.selection !== selection) shown.current = {
		keys: current,
		selection
	};
	const [, redraw] = d$2(0);
	const { keys, changes } = shown.current.keys === current ? {
		keys: current,
		changes: 0
	} : comparePausedOrder(shown.current.keys, current);
	return {
		keys,
		changes,
		resume: () => {
			shown.current = {
				keys: current,
				selection
			};
			redraw((count) => count + 1);
		},
		listeners: {
			onPointerEnter: (event) => setPaused(event.pointerType === "mouse"),
			onPointerLeave: () => setPaused(false)
		}
	};
}
// \0vite/preload-helper.js
var scriptRel = (function detectScriptRel() {
	const relList = typeof document !== "undefined" && document.createElement("link").relList;
	return relList && relList.supports && relList.supports("modulepreload") ? "modulepreload" : "preload";
})();
var assetsURL = function(dep) {
	return "/" + dep;
};
var seen = {};
var isCssPreloadUrl = function isCssPreloadUrl(url) {
	return url.pathname.endsWith(".css");
};
var preloadOnce = function preloadOnce(seen, href, preload) {
	if (href in seen) return seen[href];
	const promise = preload();
	if (!promise) {
		seen[href] = void 0;
		return;
	}
	const preloadPromise = promise.then(() => {
		seen[href] = void 0;
	}, (err) => {
		seen[href] = void 0;
		throw err;
	});
	seen[href] = preloadPromise;
	return preloadPromise;
};
var __vitePreload = function preload(baseModule, deps, importerUrl) {
	let promise = Promise.resolve();
	if (deps && deps.length > 0) {
		let preloadedHrefs;
		const cspNonceMeta = document.querySelector("meta[property=csp-nonce]");
		const cspNonce = cspNonceMeta?.nonce || cspNonceMeta?.getAttribute("nonce");
		function allSettled(promises) {
			return Promise.all(promises.map((p) => Promise.resolve(p).then((value) => ({
				status: "fulfilled",
				value
			}), (reason) => ({
				status: "rejected",
				reason
			}))));
		}
		function importMetaResolve(specifier) {
			if (import.meta.resolve) return new URL(import.meta.resolve(specifier));
			return new URL(specifier, import.meta.url);
		}
		promise = allSettled(deps.map((depString) => {
			depString = assetsURL(depString, importerUrl);
			const dep = importMetaResolve(depString);
			const isCss = isCssPreloadUrl(dep);
			return preloadOnce(seen, dep.href, () => {
				if (preloadedHrefs === void 0) {
					preloadedHrefs = {
						all: new Set(),
						styles: new Set()
					};
					const links = document.getElementsByTagName("link");
					for (let i = links.length - 1; i >= 0; i--) {
						const link = links[i];
						preloadedHrefs.all.add(link.href);
						if (link.rel === "stylesheet") preloadedHrefs.styles.add(link.href);
					}
				}
				if ((isCss ? preloadedHrefs.styles : preloadedHrefs.all).has(dep.href)) return;
				const link = document.createElement("link");
				link.rel = isCss ? "stylesheet" : scriptRel;
				if (!isCss) link.as = "script";
				link.crossOrigin = "";
				link.href = dep.href;
				if (cspNonce) link.setAttribute("nonce", cspNonce);
				document.head.appendChild(link);
				if (isCss) return new Promise((res, rej) => {
					const handleSettle = (e) => {
						link.removeEventListener("load", handleSettle);
						link.removeEventListener("error", handleSettle);
						if (e.type === "error") rej(new Error(`Unable to preload CSS for ${dep}`));
						else res(e);
					};
					link.addEventListener("load", handleSettle);
					link.addEventListener("error", handleSettle);
				});
			});
		}).filter((p) => p !== void 0));
	}
	function handlePreloadError(err) {
		const e = new Event("vite:preloadError", { cancelable: true });
		e.payload = err;
		window.dispatchEvent(e);
		if (!e.defaultPrevented) throw err;
	}
	return promise.then((res) => {
		for (const item of res || []) {
			if (item.status !== "rejected") continue;
			handlePreloadError(item.reason);
		}
		return baseModule().catch(handlePreloadError);
	});
};
// src/views/LatePage.tsx
var pages = y$1(void 0);
var hasFailed = y$1(false);
async function load() {
	try {
		pages.value = await __vitePreload(() => import("./pages.js"), []);
	} catch {
		hasFailed.value = true;
	}
}
function LatePage({ show }) {
	const isLoaded = pages.value !== void 0;
	const wasLoaded = T$1(isLoaded);
	A$1(() => {
		if (!pages.peek()) load();
	}, []);
	F$1(() => {
		if (isLoaded && !wasLoaded.current && arrival.peek().by !== "load") focusHeading();
	}, [isLoaded]);
	if (pages.value) return show(pages.value);
	if (!hasFailed.value) return a("div", {
		class: "page",
		children: a(Loading, { rows: 8 })
	});
	return a("div", {
		class: "page",
		children: a(Banner, {
			tone: "warning",
			title: "This page could not be loaded",
			action: a("button", {
				type: "button",
				class: "button",
				onClick: () => location.reload(),
				children: "Reload"
			}),
			children: "The server has ended, or has another version now."
		})
	});
}
// src/parts/Select.tsx
var OPTION_LENGTH = 60;
function Select(props) {
	const options = props.value === void 0 || props.options.some(([value]) => value === props.value) ? props.options : [...props.options, [props.value ?? "", props.value ?? ""]];
	return a("select", {
		class: props.value === void 0 ? "field" : "field is-set",
		"aria-label": props.label,
		value: props.value ?? "",
		onChange: (event) => props.onChange(event.currentTarget.value || void 0),
		children: [a("option", {
			value: "",
			children: props.all
		}), options.map(([value, text]) => a("option", {
			value,
			children: cleanLine(cutText(text, OPTION_LENGTH).text)
		}, value))]
	});
}
// src/parts/NamespaceFilter.tsx
function NamespaceFilter(props) {
	const id = P();
	const set = (namespace) => setQuery({ namespace }, { step: true });
	if (session.value?.may.allJobs !== false) return a(Select, {
		label: "Namespace",
		value: props.value,
		all: "All namespaces",
		options: props.namespaces.map((name) => [name, name]),
		onChange: set
	});
	return a($, { children: [a("input", {
		type: "text",
		class: "field",
		"aria-label": "Namespace",
		placeholder: "Namespace",
		list: id,
		maxLength: 63,
		value: scope.value ?? "",
		onChange: (event) => set(event.currentTarget.value.trim() || void 0)
	}), a("datalist", {
		id,
		children: ownNamespaces.value.map(({ name, jobs }) => a("option", {
			value: name,
			label: `${name}: ${countOf(jobs, "job")}`
		}, name))
	})] });
}
// src/views/jobs/JobFilters.tsx
function JobFilters({ filter, isTimeline }) {
	const choices = useComputed(() => {
		const jobs = [...queue.jobs.value.values()];
		const queues = [...queue.queues.value?.keys() ?? [], ...jobs.map((job) => job.queue)];
		return {
			phases: unique(jobs.map(phaseOf)),
			queues: unique(queues),
			namespaces: unique(jobs.map((job) => job.metadata.namespace ?? ""))
		};
	});
	const user = session.value?.user;
	const isMine = user !== void 0 && filter.user === user;
	const { phases, queues, namespaces } = choices.value;
	return a("div", {
		class: "toolbar",
		role: "group",
		"aria-label": "Filters",
		children: [
			a("input", {
				type: "search",
				class: "field grow",
				"aria-label": "Filter by text",
				placeholder: "Name, user, queue or reason",
				maxLength: 200,
				value: filter.text ?? "",
				onInput: (event) => setQuery({ text: event.currentTarget.value })
			}),
			a("button", {
				type: "button",
				class: "button toggle",
				"aria-pressed": isMine,
				disabled: user === void 0,
				onClick: () => setQuery({ user: isMine ? void 0 : user }, { step: true }),
				children: "Mine"
			}),
			a(Select, {
				label: "State",
				value: filter.state,
				all: "All states",
				options: [
					["waiting", "Pending"],
					["running", "Placed"],
					...phases.map((phase) => [phase, phase])
				],
				onChange: (state) => setQuery({ state }, { step: true })
			}),
			a(Select, {
				label: "Queue",
				value: filter.queue,
				all: "All queues",
				options: queues.map((name) => [name, name]),
				onChange: (q) => setQuery({ q }, { step: true })
			}),
			a(NamespaceFilter, {
				value: filter.namespace,
				namespaces
			}),
			filter.user !== void 0 && !isMine && a("button", {
				type: "button",
				class: "chip",
				onClick: () => setQuery({ user: void 0 }, { step: true }),
				children: [
					"user ",
					cleanLine(filter.user),
					" ",
					a(Icon, {
						name: "cross",
						label: "Remove this filter"
					})
				]
			}),
			isNarrow.value && !isTimeline && a(SortSelect, {}),
			a("div", {
				class: "segmented",
				role: "group",
				"aria-label": "View",
				children: [a("button", {
					type: "button",
					"aria-pressed": !isTimeline,
					onClick: () => setQuery({ view: void 0 }, { step: true }),
					children: [a(Icon, { name: "jobs" }), " Table"]
				}), a("button", {
					type: "button",
					"aria-pressed": isTimeline,
					onClick: () => setQuery({ view: "timeline" }, { step: true }),
					children: [a(Icon, { name: "timeline" }), " Timeline"]
				})]
			})
		]
	});
}
function SortSelect() {
	const order = readOrder(query.value.get("sort"));
	const names = SORT_COLUMNS.flatMap((column) => {
		const write = (descending) => writeOrder({
			column,
			descending
		}) ?? "";
		return [[write(false), `${column}, ascending`], [write(true), `${column}, descending`]];
	});
	return a(Select, {
		label: "Order",
		value: writeOrder(order),
		all: "Order of the queue",
		options: names,
		onChange: (sort) => setQuery({ sort }, { step: true })
	});
}
function unique(values) {
	return [...new Set(values)].sort();
}
// src/views/Jobs.tsx
function Jobs({ isTimeline }) {
	const title = isTimeline ? "Timeline" : "Jobs";
	useTitle(title);
	useNamespaceScope();
	const filter = useComputed(() => readFilter(query.value));
	const jobs = useComputed(() => filterJobs(queue.jobs.value.values(), filter.value));
	const freshness = queueFreshness.value;
	return a("div", {
		class: "page",
		children: [
			a("div", {
				class: "page-head",
				children: [a("h1", { children: [title, a(Scope, {})] }), freshness.state !== "failed" && a(Counts, { jobs: jobs.value })]
			}),
			a(JobFilters, {
				filter: filter.value,
				isTimeline
			}),
			freshness.state === "failed" ? a(ProblemText, { problem: freshness.problem }) : freshness.state === "loading" ? a(Loading, { rows: 12 }) : isTimeline ? a(LatePage, { show: ({ TimelineView }) => a(TimelineView, {
				jobs: jobs.value,
				filter: filter.value,
				empty: a(NoJobs, { filter: filter.value })
			}) }) : jobs.value.length === 0 ? a(NoJobs, { filter: filter.value }) : a(JobList, { jobs: jobs.value })
		]
	});
}
function JobList({ jobs }) {
	const order = readOrder(query.value.get("sort"));
	const onOrder = (next) => setQuery({ sort: writeOrder(next) }, { step: true });
	return a(JobTable, {
		jobs,
		order,
		onOrder,
		selection: search.value
	});
}
function Scope() {
	if (scope.value === void 0 || session.value?.may.allJobs) return null;
	return a($, { children: [
		" ",
		"of ",
		a(Name, { text: scope.value })
	] });
}
function Counts({ jobs }) {
	const all = queue.jobs.value.size;
	const { running, waiting, heldGpus, waitingGpus } = summarizeJobs(jobs);
	return a("p", {
		class: "counts",
		children: [
			jobs.length < all && a("span", { children: `${formatCount(jobs.length)} of ${countOf(all, "job")}` }),
			a("span", { children: `${formatCount(running)} placed, hold ${countOf(heldGpus, "GPU")}` }),
			a("span", { children: `${formatCount(waiting)} pending, want ${countOf(waitingGpus, "GPU")}` })
		]
	});
}
function NoJobs({ filter }) {
	if (!Object.values(filter).some((value) => value !== void 0)) return a(Empty, {
		icon: "check",
		title: "No job is pending or placed.",
		children: a("p", {
			class: "dim",
			children: "Jobs that have ended, and jobs in the phases Waiting, Refused and Blocked, are not listed here: kubectl get trainingjobs -A"
		})
	});
	const clear = {
		q: void 0,
		state: void 0,
		namespace: void 0,
		user: void 0,
		text: void 0
	};
	return a(Empty, {
		title: "No job matches the filters.",
		children: a("button", {
			type: "button",
			class: "button",
			onClick: () => setQuery(clear, { step: true }),
			children: "Clear the filters"
		})
	});
}
// src/views/NotFound.tsx
function NotFound() {
	useTitle("Not found");
	return a("div", {
		class: "page page-text",
		children: [
			a("h1", { children: "There is no page at this address" }),
			a("p", { children: [
				a("code", { children: a(Text, {
					text: path.value,
					max: 200
				}) }),
				" ",
				"is no page of Trellis."
			] }),
			a("p", { children: [
				a("a", {
					href: urls.home,
					children: "Home"
				}),
				", ",
				a("a", {
					href: urls.jobs(),
					children: "jobs"
				}),
				", ",
				a("a", {
					href: urls.queues,
					children: "queues"
				}),
				" and",
				" ",
				a("a", {
					href: urls.nodes(),
					children: "nodes"
				}),
				" are."
			] })
		]
	});
}
// src/views/Refused.tsx
function Refused({ problem }) {
	const { title, text } = describeProblem(problem);
	const isKey = problem.kind === "key";
	useTitle(title);
	A$1(() => announce(title), [title]);
	return a("div", {
		class: "page page-text",
		children: [
			a("h1", { children: title }),
			a("p", { children: a(Text, { text }) }),
			isKey ? a(Command, { text: command("trellis", "dashboard", ...placeArgument()) }) : a("p", { children: "The page asks again by itself. Data of the cluster are no longer on the screen." }),
			a("p", { children: a("button", {
				type: "button",
				class: "button",
				onClick: retryNow,
				children: "Try again"
			}) })
		]
	});
}
function placeArgument() {
	const place = location.pathname + location.search;
	return place === urls.home ? [] : [place];
}
// src/views/global-shortcuts.ts
function useGlobalShortcuts(overlays) {
	useShortcuts("Everywhere", [
		{
			keys: "/",
			label: "Search",
			run: () => focusSearch() || overlays.openPalette()
		},
		{
			keys: "Ctrl-K",
			label: "Go to a job, queue, node or page"
		},
		{
			keys: "j",
			label: "Next row",
			run: () => moveRow(1)
		},
		{
			keys: "k",
			label: "Previous row",
			run: () => moveRow(-1)
		},
		{
			keys: "Enter",
			label: "Open the row"
		},
		{
			keys: "Escape",
			label: "Back",
			run: goBack
		},
		{
			keys: "m",
			label: "My jobs, or all jobs",
			run: toggleMine
		},
		{
			keys: "t",
			label: "Timeline, or table of jobs",
			run: toggleTimeline
		},
		{
			keys: "y",
			label: "Copy a link to this view",
			run: copyLink
		},
		{
			keys: "?",
			label: "Help",
			run: overlays.openHelp
		}
	]);
	useShortcuts("Go to", [
		{
			keys: "g h",
			label: "Home",
			run: () => navigate(urls.home)
		},
		{
			keys: "g q",
			label: "Jobs",
			run: () => navigate(urls.jobs())
		},
		{
			keys: "g t",
			label: "Timeline",
			run: () => navigate(urls.timeline())
		},
		{
			keys: "g u",
			label: "Queues",
			run: () => navigate(urls.queues)
		},
		{
			keys: "g n",
			label: "Nodes",
			run: () => navigate(urls.nodes())
		},
		{
			keys: "g o",
			label: "Policies",
			run: () => navigate(urls.policies())
		},
		{
			keys: "g p",
			label: "Plan",
			run: () => navigate(urls.plan)
		},
		{
			keys: "g w",
			label: "What if",
			run: () => navigate(urls.whatIf())
		}
	]);
}
function moveRow(step) {
	const rows = [...document.querySelectorAll("main [data-row]")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
	const current = rows.findIndex((row) => row === document.activeElement);
	const headerBottom = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
	const firstInView = rows.findIndex((row) => row.getBoundingClientRect().top >= headerBottom);
	const next = current < 0 ? firstInView : current + step;
	const row = rows[Math.max(0, next)];
	row?.focus();
	row?.scrollIntoView({ block: "nearest" });
}
var PARENTS = {
	job: urls.jobs(),
	queue: urls.queues,
	node: urls.nodes(),
	policy: urls.policies()
};
function goBack() {
	const focused = document.activeElement;
	if (focused instanceof HTMLElement && focused.matches("[data-row]")) {
		focused.blur();
		return;
	}
	const parent = PARENTS[page.peek().page];
	if (parent === void 0) return;
	if (canGoBack()) history.back();
	else navigate(parent);
}
function toggleMine() {
	const user = session.peek()?.user;
	if (user === void 0) return;
	if (page.peek().page !== "jobs") navigate(urls.jobs({ user }));
	else setQuery({ user: query.peek().get("user") === user ? void 0 : user }, { step: true });
}
function toggleTimeline() {
	if (page.peek().page !== "jobs") navigate(urls.timeline());
	else setQuery({ view: query.peek().get("view") === "timeline" ? void 0 : "timeline" }, { step: true });
}
// src/views/App.tsx
function App() {
	const [overlay, setOverlay] = d$2(void 0);
	useGlobalShortcuts({
		openHelp: () => setOverlay("help"),
		openPalette: () => setOverlay("palette")
	});
	useArrival();
	A$1(() => {
		const onKey = (event) => {
			if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
			event.preventDefault();
			setOverlay((now) => now === "palette" ? void 0 : "palette");
		};
		document.addEventListener("keydown", onKey);
		return () => document.removeEventListener("keydown", onKey);
	}, []);
	const close = () => setOverlay(void 0);
	return a($, { children: [
		a(Header, {
			onHelp: () => setOverlay("help"),
			onPalette: () => setOverlay("palette")
		}),
		a("main", {
			id: "main",
			tabIndex: -1,
			class: queueFreshness.value.state === "stale" ? "is-stale" : void 0,
			children: refusal.value ? a(Refused, { problem: refusal.value }) : a($, { children: [a(ProblemBanners, {}), a(CurrentView, {})] })
		}),
		overlay === "help" && a(Help, { onClose: close }),
		overlay === "palette" && a(Palette, { onClose: close }),
		a(LiveRegion, {})
	] });
}
function CurrentView() {
	const current = page.value;
	switch (current.page) {
		case "home": return a(Home, {});
		case "jobs": return a(Jobs, { isTimeline: query.value.get("view") === "timeline" });
		case "queues": return a(LatePage, { show: ({ Queues }) => a(Queues, {}) });
		case "queue": return a(LatePage, { show: ({ Queue }) => a(Queue, { name: current.name }, current.name) });
		case "nodes": return a(LatePage, { show: ({ NodesView }) => a(NodesView, {}) });
		case "node": return a(LatePage, { show: ({ NodeView }) => a(NodeView, { name: current.name }, current.name) });
		case "policies": return a(LatePage, { show: ({ Policies }) => a(Policies, {}) });
		case "policy": return a(LatePage, { show: ({ PolicyView }) => a(PolicyView, { name: current.name }, `${current.name}?${search.value}`) });
		case "plan": return a(LatePage, { show: ({ Plan }) => a(Plan, {}) });
		case "whatIf": return a(LatePage, { show: ({ WhatIf }) => a(WhatIf, {}) });
		case "job": return a(LatePage, { show: ({ Job }) => a(Job, { job: current }, `${current.namespace}/${current.name}`) });
		case "notFound": return a(NotFound, {});
	}
}
function LiveRegion() {
	return a($, { children: [a("div", {
		class: "hidden",
		role: "status",
		"aria-live": "polite",
		children: announcement.value
	}), toast.value !== void 0 && a("div", {
		class: "toast",
		"aria-hidden": "true",
		children: toast.value
	})] });
}
// src/main.tsx
startTheme();
startClock();
startRouter();
startViewport();
startKeys();
var root = document.getElementById("app");
if (root) Q(a(App, {}), root);
keepCurrent();
export { describeProblem as $, useComputed as $t, PolicyIdLink as A, filterJobs as At, ProblemText as B, formatClockSeconds as Bt, Badge as C, refusal as Ct, JobLink as D, canNeverStart as Dt, Eta as E, session as Et, Ago as F, writeOrder as Ft, ownNamespaces as G, jobLabel as Gt, CopyButton as H, formatDateTime as Ht, Clock as I, countOf as It, usePolled as J, RequestError as Jt, useNamespaceScope as K, parseQuantity as Kt, Until as L, formatAge as Lt, findPolicies as M, phaseOf as Mt, isIdOf as N, readOrder as Nt, NodeLink as O, describeEta as Ot, Age as P, sortJobs as Pt, describeFailure$1 as Q, serverTime as Qt, Table as R, formatAmount as Rt, matchesEnded as S, queue as St, phaseLook as T, scope as Tt, Card as U, formatSeconds as Ut, Command as V, formatCount as Vt, Facts as W, formatUntil as Wt, Empty as X, toRequestError as Xt, Banner as Y, post as Yt, Loading as Z, now as Zt, endKind as _, useShortcuts as _t, SegmentBar as a, y$1 as an, useTitle as at, groupByJob as b, jobKey as bt, mainResources as c, P as cn, announce as ct, describeAttemptsProblem as d, w$2 as dn, queueFreshness as dt, useSignal as en, Name as et, useEndedAttempts as f, $ as fn, navigate as ft, describeAttempt as g, urls as gt, checkpointOf as h, setQuery as ht, QuotaBar as i, x$1 as in, a as it, QueueLink as j, isPending as jt, NodeLinks as k, describeReason as kt, readQuotaRows as l, T$1 as ln, showToast as lt, attemptsOfJob as m, search as mt, JobTable as n, f$1 as nn, command as nt, barScale as o, A$1 as on, cleanLine as ot, END_LOOKS as p, query as pt, useOwnNamespaces as q, resourceLabel as qt, VirtualRows as r, r as rn, Icon as rt, boundedResources as s, F$1 as sn, cutText as st, NamespaceFilter as t, O as tn, Text as tt, isBad as u, d$2 as un, nodesFreshness as ut, endWord as v, theme as vt, PhaseBadge as w, refuse as wt, jobKeyOf as x, nodes as xt, endsBesides as y, follow as yt, ListProblem as z, formatClock as zt };
