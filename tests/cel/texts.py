"""Random expressions whose value is a text: what numbers, times, addresses, URLs and quantities are written as.

Indexing a map with such a text fails and names it, so that one evaluation shows all of it.
"""

import random
from typing import Any

ZONES = ["America/New_York", "Asia/Kolkata", "-03:30", "UTC", "Europe/London"]
PARTS = ["getHours", "getDate", "getDayOfWeek", "getDayOfYear", "getMilliseconds", "getMinutes", "getFullYear",
         "getMonth", "getDayOfMonth"]  # fmt: skip
HOSTS = ["h", "[::1]", "[fe80::1%25e%20n]", "[::1%25a%41]", "[::1%e]", "[1.2.3.4]", "a%", "a%2", "h%c3%a9", "a b%zz",
         "a.b.c", "h%20x", "é"]  # fmt: skip
PATHS = ["", "/", "/a b", "/%2F%41", "/x;y=1,2", "/é", "/a%zz"]
QUERIES = ["", "?", "?a=1&a=2&b", "?a;b=1&c=%41+%20"]
GETTERS = ["getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"]
SIZES = ["", "0", "00", "1", "12", "123456789012345678", "99999999999999999999"]
DECIMALS = ["", ".", ".0", ".5", ".123456789", ".12345678901"]
UNITS = ["", "n", "u", "m", "k", "M", "G", "E", "Ki", "Gi", "Ei", "e3", "E-3", "e", "x", "e18"]
OTHERS = ["1", "1.5Gi", "500m", "-3", "1e9", "9223372036854775807"]


class Texts:
    """Expressions of type string, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kinds = (
            lambda: f"string({self._choice([self._double, self._timestamp, self._duration])()})",
            lambda: f'"%.{self._below(20)}{self._choice("fe")}".format([{self._double()}])',
            self._list,
            self._integers,
            self._url,
            self._address,
            self._quantity,
            lambda: f'string({self._timestamp()}.{self._choice(PARTS)}("{self._choice(ZONES)}"))',
        )

    def expression(self) -> str:
        return f'{{"no text": 1}}[{self._choice(self._kinds)()}] == 1'

    def _choice(self, among: Any) -> Any:
        return self._random.choice(among)

    def _below(self, end: int) -> int:
        return self._random.randrange(end)

    def _double(self) -> str:
        scaled = self._below(10**9) / 10 ** self._below(9)
        small, large = self._random.uniform(-10, 10), self._random.uniform(-1e20, 1e20)
        return repr(self._choice([small, large, 10.0 ** (self._below(60) - 30), scaled, 0.5, 1.5, 2.5, 1e15, 123456.5]))

    def _timestamp(self) -> str:
        date = f"{self._below(9998) + 1:04d}-{self._below(12) + 1:02d}-{self._below(28) + 1:02d}"
        time = f"{self._below(24):02d}:{self._below(60):02d}:{self._below(60):02d}"
        fraction, zone = self._choice(["", ".5", ".123456789", ".10"]), self._choice(["Z", "+02:00", "-11:30"])
        return f'timestamp("{date}T{time}{fraction}{zone}")'

    def _duration(self) -> str:
        first = f"{self._choice(['', '-'])}{self._below(1000)}{self._choice(['h', 'm', 's', 'ms', 'us', 'ns'])}"
        return f'duration("{first}{self._below(1000)}.{self._below(1000)}{self._choice(["s", "ms", "us", "m"])}")'

    def _list(self) -> str:
        values = (
            f'{self._double()}, {self._timestamp()}, {self._duration()}, "q\\n\\u00e9\\u200b", b"\\\\x", true, null'
        )
        return f'"%s|%s".format([[{values}, int], {{1: {self._double()}}}])'

    def _integers(self) -> str:
        numbers = (
            f"{self._below(2 * 10**6) - 10**6}, 'aé', {self._below(99)}, {self._below(18) - 9}, {self._below(99)}u"
        )
        return f'"%x|%X|%o|%b|%d".format([{numbers}])'

    def _url(self) -> str:
        start = f"{self._choice(['https', 'http', 'ftp', 'HTTP'])}://{self._choice(['', 'u@', 'u:p@'])}"
        host = self._choice(HOSTS) + self._choice(["", ":80", ":", "::1"])
        rest = self._choice(PATHS) + self._choice(QUERIES) + self._choice(["", "#f", "#f%20é"])
        url = f'url("{start}{host}{rest}")'
        query = f'{url}.getQuery().map(key, key + "=" + {url}.getQuery()[key].join(",")).sort().join("&")'
        same = f"string({url} == {url.replace('%41', 'A')})"
        return str(self._choice([f"{url}.{self._choice(GETTERS)}()", query, same]))

    def _address(self) -> str:
        text = "".join(self._choice("0123456789abcf:.:::/%") for _ in range(self._below(11) + 1))
        whole = [f"1.2.3.{self._below(300)}", f"10.0.0.0/{self._below(40)}", f"::/{self._below(140)}"]
        text = self._choice([text, f"::{text}", f"fe80::{text}", f"{text}/8", *whole])
        return f"string({self._choice(['ip(%s)', 'cidr(%s)', 'cidr(%s).masked()', 'ip.isCanonical(%s)']) % repr(text)})"

    def _quantity(self) -> str:
        text = f"{self._choice(['', '-', '+'])}{self._choice(SIZES)}{self._choice(DECIMALS)}{self._choice(UNITS)}"
        changed = f'.{self._choice(["add", "sub"])}(quantity("{self._choice(OTHERS)}"))'
        ends = ["asApproximateFloat()", "isInteger()", "asInteger()", 'compareTo(quantity("1"))']
        return f'string(quantity("{text}"){self._choice(["", changed])}.{self._choice(ends)})'
