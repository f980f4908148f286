"""CRDs with rules, and writes of their objects: the same requests go to both servers."""
# ruff: noqa: E501 - some rules are long

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_TEXT, _INTEGER = {"type": "string"}, {"type": "integer"}
PROPERTIES: Json = {
    "a": _INTEGER,
    "s": _TEXT,
    "str": {"type": "string", "maxLength": 30},
    "l": {"type": "array", "items": _INTEGER, "maxItems": 10},
    "ul": {"type": "array", "items": _TEXT},
    "m": {"type": "object", "additionalProperties": _TEXT, "maxProperties": 5},
    "o": {"type": "object", "properties": {"x": _INTEGER, "y-z": _TEXT, "namespace": _TEXT}},
    "ios": {"x-kubernetes-int-or-string": True},
    "d": {"type": "string", "format": "duration"},
    "t": {"type": "string", "format": "date-time"},
    "b": {"type": "string", "format": "byte"},
    "n": {"type": "number"},
    "nul": {"type": "string", "nullable": True},
    "u": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "sl": {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 10},
    "ml": {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 20}, "v": _INTEGER},
        },
    },
    "set": {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 20},
    },
}


def definition(plural: str, schema: Json) -> Json:
    """Return a CRD of the group rules.example.org."""
    names = {"plural": plural, "singular": f"{plural}one", "kind": plural.capitalize()}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.rules.example.org"},
        "spec": {"group": "rules.example.org", "scope": "Cluster", "names": names, "versions": [version]},
    }


def with_rules(rules: list[Any], properties: Json | None = None, **more: Any) -> Json:
    """Return a schema whose spec has rules."""
    spec = {"type": "object", "properties": {**PROPERTIES, **(properties or {})}, **more}
    if rules:
        spec["x-kubernetes-validations"] = [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]
    return {"type": "object", "properties": {"spec": spec}}


REFUSED_OR_NOT = """
self.zz > 1
self.a > 'x'
foo.bar
1 +
self.a
self.a +
self.s.foo()
self.a.all(x, x)
self.l.all(1, true)
has(self)
has(self.zz)
self.l.all(x, y)
self.o.y__dash__z == 'a'
self.o.namespace == 'a'
self.o.__namespace__ == 'a'
self.d > duration('1h') && self.t < timestamp('2020-01-01T00:00:00Z')
self.d > 'a'
self.b == b'abc'
self.n > 1
self.n + 1 > 2
self.ios == 3 || self.ios == 'x'
self.u.x == 1
self.nul == null
self.ul.all(x, self.ul.all(y, x == y))
self.ul.all(x, x.contains('abc'))
self.ul.all(x, x.matches('a.*b'))
self.l.all(x, self.l.all(y, x == y))
self.s.matches('(')
duration('abc') > self.d
timestamp('x') > self.t
'%s %d'.format(['x', 1]) == 'x 1'
'%s %d'.format([self.s, self.a]) == 'x 1'
[1, 'a'].size() == 2
{'a': 1, 'b': 'x'}.size() == 2
self.m['x'] == 1
self.m.x == 'y'
self.l[0] == 'a'
self.sl.join(',').size() < 10
self.str.split(',').all(x, x.size() > 1)
self.ml.all(x, x.v > 1)
self.ml.exists_one(x, x.name == 'a')
self.set.exists(x, x == 'a')
quantity(self.s).isGreaterThan(quantity('1'))
quantity(self.s).sign() > 0
sign(quantity(self.s)) > 0
self.s.lowerAscii() == self.s && self.s.replace('a','b') == 'x'
self.ul.map(x, x + 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa').join('').matches('x*y*')
ip(self.s).family() == 4
isIP(self.s) && cidr(self.s).containsIP('10.0.0.1')
url(self.s).getHost() == 'x'
self.?a.orValue(3) > 2
self.?zz.orValue(3) > 2
self.o.?x.hasValue()
optional.of(self.a).optMap(x, x + 1).orValue(1) > 2
self.l.sum() > 3 && self.l.max() > 2 && self.l.isSorted()
self.ul.sum() > 3
self.s.find('[0-9]+') == '1'
sets.contains(self.sl, ['a'])
self.sl.indexOf('a') > 0
self.l.map(x, x * 2).filter(y, y > 2).size() == 1
self.l.transformList(i, v, i + v).size() == 1
self.m.transformMap(k, v, v).size() == 1
self.m.all(k, v, k == v)
semver(self.s).major() == 1
format.dns1123Label().validate(self.s).hasValue()
format.named('dns1123Label').value().validate(self.s).hasValue()
type(self.ios) == int
type(self.a) == string
string(self.a) == '1' && int(self.s) == 1 && double(self.s) == 1.0
self.a in [1,2,3]
self.s in ['a','b']
'a' in self.m
'a' in self.ul
self.a / 0 == 1
self == oldSelf
oldSelf.a <= self.a
self.a == 1 ? true : 'x'
self.a ? true : false
!self.a
-self.s == 1
self.a && self.s
self.metadata.name == 'a'
self.l.all(x, x > 1, 2)
self.l.map(x)
self.l == self.ul
(self.a
self.a)
self.a > 1 &&
self.a > 1 self.b
'abc
"a\\qb" == 'x'
self..a
self.a = 1
self.a === 1
for == 1
self.a > 1 // comment
self[a]
self['a']
{}.a
[].all(x, x)
[] == self.l
{} == self.m
self.s.startsWith('a') && self.s.endsWith('b') && self.s.contains(self.s)
self.ul.all(x, x.startsWith('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))
self.m.all(k, self.m[k].size() > 1)
self.ul.exists(x, self.ul.exists(y, self.ul.exists(z, x == y)))
size(self.l) > 1 && size(self.s) > 2
int('x') == self.a
Foo{a: 1} == self
self.a.b.c > 1
self.l.sort() == self.l && self.l.distinct().size() > 1
lists.range(3).size() == 3
self.l.sortBy(x, -x) == self.l
self.l.flatten() == self.l
self.l.slice(0, 1) == [1]
self.l.reverse() == self.l
self.l.first().hasValue()
strings.quote(self.s) == 'x'
self.s.reverse() == 'x'
math.greatest(1, 2) == 2
base64.encode(b'x') == 'x'
cel.bind(x, 1, x == 1)
dyn(self.a) == 'x'
self.t.getFullYear() > 2000 && self.t + self.d > self.t
self.t.getHours('America/New_York') == 1
1u == 1
1.5 > 1
1 < 2u
self.a > 9223372036854775808
x.y.z.w == 1\\n && self.zz > 1
""".strip().splitlines()
"""Rules that kube-apiserver accepts or refuses; a `\\\\n` is a line break."""

DEFINITIONS: list[Json] = [
    {"rule": " "},
    {"rule": "true", "message": " "},
    {"rule": "true", "message": "a\nb"},
    {"rule": "self.a\n>1"},
    {"rule": "true", "messageExpression": " "},
    {"rule": "true", "reason": "Foo"},
    {"rule": "true", "fieldPath": ".zz"},
    {"rule": "true", "fieldPath": ".o['y-z']"},
    {"rule": "true", "messageExpression": "1"},
    {"rule": "true", "messageExpression": "self.zz"},
    {"rule": "true", "optionalOldSelf": True},
    {"rule": "oldSelf.hasValue()", "optionalOldSelf": True},
    {"rule": "oldSelf == self", "optionalOldSelf": True},
    {"rule": "true", "messageExpression": "self.ul.map(x, x + x).join(',')"},
]
_SAME = [{"rule": "self == oldSelf"}]
NESTED: list[Json] = [
    {"type": "array", "items": {"type": "string", "x-kubernetes-validations": _SAME}},
    {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        "items": {
            "type": "object",
            "required": ["n"],
            "properties": {"n": _TEXT, "v": {"type": "string", "x-kubernetes-validations": _SAME}},
        },
    },
    {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": _SAME}},
    {
        "type": "array",
        "items": {"type": "array", "items": {**_TEXT, "x-kubernetes-validations": [{"rule": "self.matches('a+b*')"}]}},
    },
]


def definitions() -> Iterator[tuple[str, Json]]:
    """Yield a title and a CRD, which servers accept or refuse."""
    for rule in REFUSED_OR_NOT:
        yield rule, definition("checked", with_rules([rule.replace("\\n", "\n")]))
    for fields in DEFINITIONS:
        yield str(fields), definition("checked", with_rules([fields]))
    for nested in NESTED:
        yield str(nested), definition("checked", with_rules([], {"x": nested}))


@dataclass(frozen=True)
class Writes:
    """A schema, and the specs with which an object of it is created, then replaced."""

    rules: list[Any]
    specs: list[Json]
    properties: Json = field(default_factory=dict)
    more: Json = field(default_factory=dict)
    root: list[Json] = field(default_factory=list)

    def schema(self) -> Json:
        schema = with_rules(self.rules, self.properties, **self.more)
        return {**schema, "x-kubernetes-validations": self.root} if self.root else schema


WRITES = [
    Writes(["self.a > 1"], [{}, {"a": 1}, {"a": 2}, {"a": 0}, {"a": "x"}]),
    Writes(
        [
            {"rule": "self.a > 1", "message": "a too small"},
            {"rule": "self.a < 5", "messageExpression": "'a is ' + string(self.a)", "fieldPath": ".a"},
            {"rule": "self.a != 3", "reason": "FieldValueForbidden"},
            {"rule": "self.a != 4", "reason": "FieldValueDuplicate", "message": "dup"},
            {"rule": "self.a != -1", "reason": "FieldValueRequired", "message": "need"},
        ],
        [{"a": 1}, {"a": 7}, {"a": 3}, {"a": 4}, {"a": -1}, {"a": 2}],
    ),
    Writes(["!has(oldSelf.a) || self.a >= oldSelf.a"], [{"a": 3}, {"a": 2}, {"a": 4}, {}]),
    Writes(
        [{"rule": "oldSelf.hasValue() ? self.a > oldSelf.value().a : self.a == 1", "optionalOldSelf": True}],
        [{"a": 3}, {"a": 1}, {"a": 1}, {"a": 2}],
    ),
    Writes(
        ["self.m['k'] == 'v'", "self.l[2] > 1"],
        [{"m": {}, "l": []}, {"m": {"k": "w"}, "l": [1, 2, 1]}, {"m": {"k": "v"}, "l": [1, 1, 9]}],
    ),
    Writes(["self.ios > 3"], [{"ios": "a"}, {"ios": 2}, {"ios": 5}]),
    Writes(
        ["self.d > duration('1h')", "self.t.getFullYear() == 2020", "self.b == b'abc'"],
        [{"d": "30m", "t": "2021-01-01T00:00:00Z", "b": "YWI="}, {"d": "2h", "t": "2020-05-01T00:00:00Z", "b": "YWJj"}],
    ),
    Writes(
        ["self.o.y__dash__z == 'a'", "self.o.__namespace__ == 'b'"],
        [{"o": {"y-z": "a", "namespace": "c"}}, {"o": {"y-z": "a", "namespace": "b"}}],
    ),
    Writes(
        [],
        [{"x": [{"v": 1}, {"v": 2}, {"v": 3}]}, {"y": {"a": "pq", "b": "z"}}, {"x": [{"v": 2}], "y": {"a": "p"}}],
        properties={
            "x": {
                "type": "array",
                "maxItems": 4,
                "items": {
                    "type": "object",
                    "properties": {"v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}},
                },
            },
            "y": {
                "type": "object",
                "maxProperties": 4,
                "additionalProperties": {
                    "type": "string",
                    "maxLength": 9,
                    "x-kubernetes-validations": [{"rule": "self.startsWith('p')", "message": "must begin with p"}],
                },
            },
        },
    ),
    Writes(
        [],
        [
            {"ml": [{"name": "a", "v": 5}, {"name": "b", "v": 1}]},
            {"ml": [{"name": "b", "v": 1}, {"name": "a", "v": 4}]},
            {"ml": [{"name": "b", "v": 0}, {"name": "a", "v": 4}]},
            {"ml": [{"name": "c", "v": 0}]},
        ],
        properties={
            "ml": {
                "type": "array",
                "maxItems": 5,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "maxLength": 20},
                        "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
                    },
                },
            }
        },
    ),
    Writes(
        ["self.set == oldSelf.set", "self.ml == oldSelf.ml"],
        [
            {"set": ["a", "b"], "ml": [{"name": "a", "v": 1}, {"name": "b"}]},
            {"set": ["b", "a"], "ml": [{"name": "b"}, {"name": "a", "v": 1}]},
            {"set": ["b", "c"], "ml": [{"name": "b"}, {"name": "a", "v": 2}]},
        ],
    ),
    Writes(["self.u == oldSelf.u"], [{"u": {"q": 1}}, {"u": {"q": 2}}, {"u": {"q": 1}, "a": 3}]),
    Writes(
        [],
        [{"a": 1}],
        root=[
            {"rule": "self.metadata.name == 'y'"},
            {"rule": "self.kind == 'X' || self.apiVersion == 'y'", "message": "kind"},
        ],
    ),
    Writes(
        [
            "self.l.all(x, x > 1)",
            "self.l.exists(x, x == 3)",
            "self.l.exists_one(x, x == 3)",
            "self.l.map(x, x * 2).sum() < 20",
        ],
        [{"l": [1, 2, 3]}, {"l": [2, 3, 3]}, {"l": [2, 2]}, {"l": [2, 3]}, {"l": []}],
    ),
    Writes(["int(self.s) > 1"], [{"s": "x"}, {"s": "99999999999999999999"}, {"s": "2"}]),
    Writes(
        ["self.a / (self.a - 1) > 0", "self.a % (self.a - 2) == 0"],
        [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 9223372036854775807}],
    ),
    Writes(["self.a + 1 > 0"], [{"a": 9223372036854775807}, {"a": -5}, {"a": 1}]),
    Writes(
        ["isQuantity(self.s) && quantity(self.s).isLessThan(quantity('1Gi'))"],
        [{"s": "x"}, {"s": "2Gi"}, {"s": "200M"}],
    ),
    Writes(
        ["quantity(self.s).asInteger() > 3", "ip(self.str).family() == 4"],
        [{"s": "1.5", "str": "x"}, {"s": "foo", "str": "::1"}, {"s": "5", "str": "1.2.3.4"}],
    ),
    Writes(["url(self.s).getHost() == 'a.b'"], [{"s": "x y"}, {"s": "https://c.d/"}, {"s": "https://a.b/"}]),
    Writes(["self.s.matches('^[a-z]+$')"], [{"s": "A"}, {"s": "abc\n"}, {"s": "abc"}]),
    Writes(["self.s.split(',').size() == 2 && self.s.substring(1, 3) == 'b,'"], [{"s": "a"}, {"s": "ab,c"}]),
    Writes(["self.z == 5"], [{"z": 4}, {}], properties={"z": {"type": "integer", "default": 5}}),
    Writes(["self.nul == 'x'"], [{"nul": None}, {"nul": "y"}, {"nul": "x"}, {}]),
    Writes(["has(self.nul)"], [{"nul": None}, {}]),
    Writes(
        [],
        [
            {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "f"}}},
            {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}}},
        ],
        properties={
            "e": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('e') && self.kind == 'Pod'"}],
            }
        },
    ),
    Writes(["dyn(self.s) + 1 == 2"], [{"s": "a"}]),
    Writes(["dyn(self.a).startsWith('x')"], [{"a": 1}]),
    Writes(["self.sl.all(x, self.sl.exists_one(y, x == y))"], [{"sl": ["a", "a"]}, {"sl": ["a", "b"]}]),
    Writes(["optional.none().value() == 1", "self.?o.?x.value() == 3"], [{"o": {}}, {"o": {"x": 2}}, {"o": {"x": 3}}]),
    Writes(
        ["self.a > 1"],
        [{"a": 0}, {"a": 0, "req": "x"}, {"a": "x", "req": "x"}, {"a": 2, "req": "x"}],
        properties={"req": {"type": "string"}},
        more={"required": ["req"]},
    ),
    Writes(["self.a > 1"], [{"a": 0, "mn": 1}], properties={"mn": {"type": "integer", "minimum": 3}}),
    Writes(
        [{"rule": "self.a > 1", "messageExpression": "self.s"}],
        [{"a": 0}, {"a": 0, "s": "from expr"}, {"a": 0, "s": "  "}, {"a": 0, "s": "a\nb"}],
    ),
    Writes(["self.n == 1.5 || self.n > 2"], [{"n": 1}, {"n": 1.5}, {"n": 3}]),
    Writes(["'%s|%d|%.2f|%x'.format([self.s, self.a, self.n, self.a]) == 'q'"], [{"s": "q", "a": 12, "n": 1.5}]),
    Writes(
        ["string(self.d) == 'x' || string(self.t) == 'y' || string(self.n) == 'z'"],
        [{"d": "90m", "t": "2020-01-01T00:00:00.5Z", "n": 1.25}],
    ),
    Writes(
        [
            {
                "rule": "false",
                "messageExpression": "string(self.d) + ' ' + string(self.t) + ' ' + string(self.n) + ' ' + string(self.b) + ' %s %s %s'.format([dyn(self.d), dyn(self.t), dyn(self.n)])",
            }
        ],
        [
            {"d": "90m", "t": "2020-01-01T00:00:00.5Z", "n": 1.25, "b": "YWI="},
            {"d": "1d", "t": "2020-01-01T00:00:00+02:00", "n": 1e30, "b": "YWI="},
        ],
    ),
    Writes(
        [
            {"rule": "self.a > 1", "message": "a too small"},
            {"rule": "self.a < 5", "messageExpression": "'a is ' + string(self.a)", "fieldPath": ".a"},
        ],
        [{"a": 1}, {"a": 7}, {"a": 3}],
    ),
    Writes(
        [
            {"rule": "self.a != 3", "reason": "FieldValueForbidden"},
            {"rule": "self.a != 4", "reason": "FieldValueDuplicate", "message": "dup"},
            {"rule": "self.a != -1", "reason": "FieldValueRequired", "message": "need"},
        ],
        [{"a": 3}, {"a": 4}, {"a": -1}, {"a": 2}],
    ),
    Writes(
        [],
        [{"al": 4}, {"al": 3}, {"q": "a<b"}, {"arr": ["a", "b"]}],
        properties={
            "al": {
                "type": "integer",
                "x-kubernetes-validations": [
                    {"rule": "self != 4", "reason": "FieldValueDuplicate", "message": "dup"},
                    {"rule": "self != 3", "reason": "FieldValueForbidden", "message": "no"},
                ],
            },
            "q": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a<b'"}]},
            "arr": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.size() < 2"}],
            },
        },
    ),
    Writes(["dyn(self.a).split(',').size() == 1"], [{"a": 1}]),
    Writes(["size(dyn(self.a)) == 1"], [{"a": 1}]),
    Writes(["dyn(self.a).contains('x')"], [{"a": 1}]),
    Writes(["dyn(self.a).all(x, x > 1)"], [{"a": 1}]),
    Writes(["dyn(self.a).foo == 1"], [{"a": 1}]),
    Writes(["dyn(self.l)['x'] == 1"], [{"l": [1]}]),
    Writes(["quantity(dyn(self.a)).asInteger() == 1"], [{"a": 1}]),
    Writes(["dyn(self.a) in dyn(self.s)"], [{"a": 1, "s": "x"}]),
    Writes(["dyn(self.a) && true"], [{"a": 1, "s": "x"}]),
    Writes(["!dyn(self.a)"], [{"a": 1, "s": "x"}]),
    Writes(["dyn(self.a) ? true : false"], [{"a": 1, "s": "x"}]),
    Writes(["self.s.substring(5) == ''"], [{"a": 1, "s": "x"}]),
    Writes(
        ["self.s.charAt(5) == ''", "self.s.indexOf('a', -1) == 2", "self.l.min() > 0", "self.s.find('(') == 'x'"],
        [{"a": 1, "s": "x", "l": []}],
    ),
    Writes(
        ["duration(self.s) > duration('1s')", "timestamp(self.str) > timestamp('2020-01-01T00:00:00Z')"],
        [{"str": "1", "s": "x", "l": []}, {"s": "1d", "str": "2020-01-01"}, {"s": "2h", "str": "2023-01-01T00:00:00Z"}],
    ),
    Writes(["cidr(self.str).containsIP('10.0.0.1')"], [{"str": "x"}, {"str": "10.0.0.0/33"}, {"str": "10.0.0.1/8"}]),
    Writes(["semver(self.s).major() == 1"], [{"s": "x"}, {"s": "v1.2.3"}, {"s": "1.2"}, {"s": "1.2.3-rc.1+x"}]),
    Writes(["!format.dns1123Label().validate(self.s).hasValue()"], [{"s": "X"}, {"s": "x"}]),
    Writes(
        [
            {
                "rule": "!format.dns1123Label().validate(self.s).hasValue()",
                "messageExpression": "format.dns1123Label().validate(self.s).orValue(['']).join(',')",
            }
        ],
        [{"s": "X"}, {"s": "x"}],
        properties={"s": {"type": "string", "maxLength": 20}},
    ),
    Writes(
        [
            "self.l.all(x, self.l.all(y, self.l.all(z, self.l.all(w, self.l.all(v, self.l.all(u, x + y + z + w + v + u >= 0))))))"
        ],
        [{"l": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}, {"l": [1, 2, 3, 4, 5]}],
    ),
    Writes(
        ["self.s.matches('^(a+)+$')"],
        [{"s": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}],
        properties={"s": {"type": "string", "maxLength": 5000}},
    ),
    Writes(
        ["self.sortBy.size() == 1"],
        [{"sortBy": "ab"}],
        properties={
            "sortBy": {"type": "string"},
            "in": {"type": "string", "maxLength": 9},
            "size": {"type": "integer"},
        },
    ),
    Writes(
        ["self.__in__ == 'a'", "self.size > 1"],
        [{"in": "b", "size": 1}, {"in": "a", "size": 2}],
        properties={"in": {"type": "string", "maxLength": 9}, "size": {"type": "integer"}},
    ),
    Writes(["self.a > 1"], [{"a": 2}, {"a": 0}]),
    Writes(
        [],
        [{"mx": {"a": 1}}, {"mx": {"a": 0, "b": 0}}, {"mx": {"a": 2, "b": 0}}],
        properties={
            "mx": {
                "type": "object",
                "maxProperties": 4,
                "additionalProperties": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {"rule": "!oldSelf.hasValue() || oldSelf.value() <= self", "optionalOldSelf": True}
                    ],
                },
            }
        },
    ),
    Writes([{"rule": "false", "message": "m1"}, {"rule": "self.a == 5"}], [{"a": 1}, {"a": 5}]),
    Writes(["self.s == string(self.n)"], [{"s": "1.5", "n": 1.5}, {"s": "x", "n": 1e30}]),
    Writes(
        [{"rule": "self.a == 1", "messageExpression": "'%s %s'.format([string(self.n), string(self.d)])"}],
        [
            {"a": 2, "n": 1.5, "d": "90m"},
            {"a": 2, "n": 1e30, "d": "1d"},
            {"a": 2, "n": 0.1, "d": "1ms"},
            {"a": 2, "n": 100000, "d": "1w"},
        ],
    ),
    Writes(
        [
            {
                "rule": "self.a == 1",
                "messageExpression": "'%s %s %s %s %d %f %e %x %b'.format([self.n, self.d, self.l, {'a': 1}, self.a, self.n, self.n, self.a, true])",
            }
        ],
        [
            {"a": 2, "n": 1.5, "d": "90m", "l": [1, 2]},
            {"a": 12345, "n": 1e30, "d": "0.5s", "l": []},
            {"a": 2, "n": 0.1, "d": "1ms"},
        ],
    ),
    Writes(
        [{"rule": "self.a == 1", "messageExpression": "string(self.t) + ' %s'.format([self.t])"}],
        [{"a": 2, "t": "2020-01-01T00:00:00+02:00"}, {"a": 2, "t": "2020-01-01T00:00:00.123Z"}],
    ),
    Writes(
        [
            {"rule": "self.a > 1", "message": "a too small"},
            {"rule": "self.a < 5", "messageExpression": "'ax is ' + self.str", "fieldPath": ".a"},
        ],
        [{"a": 1}, {"a": 7}, {"a": 7, "str": "b"}],
    ),
    Writes(["!format.dns1123Label().validate(self.str).hasValue()"], [{"str": "X"}, {"str": "x"}]),
    Writes(
        [
            {
                "rule": "!format.dns1123Label().validate(self.str).hasValue()",
                "messageExpression": "format.dns1123Label().validate(self.str).orValue([]).join(',')",
            }
        ],
        [{"str": "X"}, {"str": "x"}],
    ),
    Writes(
        [
            "self.l4.all(x, self.l4.all(y, self.l4.all(z, self.l4.all(w, x + y + z + w >= 0))))",
            "self.l4.all(x, self.l4.all(y, self.l4.all(z, self.l4.all(w, x + y + z + w >= 1))))",
        ],
        [
            {"l4": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]},
            {"l4": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]},
            {"l4": []},
        ],
        properties={"l4": {"type": "array", "items": {"type": "integer"}, "maxItems": 26}},
    ),
    Writes(["self.a in [1,2] ? self.str == 'x' : true"], [{"a": 1, "str": "y"}]),
    Writes(
        [{"rule": "self.a == 1", "messageExpression": "string(self.t) + ' %s %s'.format([self.t, [self.t]])"}],
        [{"a": 2, "t": "2020-01-01T00:00:00+02:00"}, {"a": 2, "t": "2020-01-01T00:00:00.123Z"}],
    ),
]
