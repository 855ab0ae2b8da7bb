"""What values are written as; every text here was given by Kubernetes' own evaluator."""

import pytest

from headrace.cel.device import compile_selector, prepare_device
from headrace.cel.errors import EvaluationError

DEVICE = prepare_device("gpu.example.com", {}, {})

WRITTEN = [
    ("string(1e20)", "1e+20"),
    ("string(1e-7)", "1e-07"),
    ("string(123456.5)", "123456.5"),
    ('"%.3f".format([2.0005])', "2.001"),
    ('"%e".format([123456.789])', "1.234568\u00d710⁰⁵"),
    ('"%.12e".format([0.5])', "5.000000\u00d710⁻⁰¹"),
    ('"%x|%X|%o|%b".format([-255, "aé", 8, 5])', "-ff|61C3A9|10|101"),
    ('"%s".format([[1, "a", null, {2: 1.5}]])', '[1, "a", null, {2:1.500000}]'),
    ('string(duration("1h30m1.5s"))', "5401.5s"),
    ('string(duration("-90ms"))', "-0.09s"),
    ('string(timestamp("2024-02-29T23:59:59.50+02:00"))', "2024-02-29T23:59:59.5+02:00"),
    ('string(timestamp("9999-12-31T23:30:00Z").getFullYear("+01:00"))', "10000"),
    ('string(timestamp("0001-01-01T00:30:00Z").getFullYear("-01:00"))', "0"),
    ('string(timestamp("2024-07-01T00:00:00Z").getHours("America/New_York"))', "20"),
    ('string(ip("2001:db8:0:0:1:0:0:1"))', "2001:db8::1:0:0:1"),
    ('string(cidr("10.1.2.3/16").masked())', "10.1.0.0/16"),
    ('url("https://[fe80::1%25e%20n]:80/").getHost()', "[fe80::1%e n]:80"),
    ('url("HTTP://a.b/%2f%41 b").getEscapedPath()', "//A%20b"),
    ('string(quantity("1.5Gi").add(quantity("500m")).asApproximateFloat())', "1.6106127365e+09"),
    ("strings.quote('a\\t\"\\u200b é')", '"a\\t\\"\u200b é"'),
]
REFUSED = [
    (
        'url("http://a.b#f%20é").getHost()',
        'URL parse error during conversion from string: parse "http://a.b#f%20é": invalid character "#" in host name',
    ),
    (
        'url("http://a%zz/").getHost()',
        'URL parse error during conversion from string: parse "http://a%zz/": invalid URL escape "%zz"',
    ),
    (
        'url("http://a:b/").getHost()',
        'URL parse error during conversion from string: parse "http://a:b/": invalid port ":b" after host',
    ),
    ('string(quantity(".Ei").asInteger())', "unable to parse numeric part of quantity"),
    ('string(quantity("1.5").asInteger())', "cannot convert value to integer"),
    ('string(ip("::ffff:1.2.3.4"))', 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
    ('string(ip("fe80::1%eth0"))', 'IP address "fe80::1%eth0" with zone value is not allowed'),
    ('string(ip("::ffff:0:1"))', 'IPv4-mapped IPv6 address "::ffff:0:1" is not allowed'),
]


def shown(expression: str) -> str:
    """The text as the key that a map does not have."""
    with pytest.raises(EvaluationError) as raised:
        compile_selector(f'{{"": 1}}[{expression}] == 1').matches(DEVICE)
    return str(raised.value)


@pytest.mark.parametrize(("expression", "text"), WRITTEN, ids=[row[0] for row in WRITTEN])
def test_a_value_is_written_as_kubernetes_writes_it(expression: str, text: str) -> None:
    assert shown(expression) == f"no such key: {text}"


@pytest.mark.parametrize(("expression", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_read_is_refused_in_kubernetes_words(expression: str, words: str) -> None:
    assert shown(expression) == words
