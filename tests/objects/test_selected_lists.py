"""Lists with a selector remember their verdicts: what they show is still what the objects say now."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.api.kinds import CONFIG_MAP
from headrace.objects.verdicts import Verdicts
from headrace.store.rows import Key, Row
from tests.objects.stores import opened


def test_a_verdict_is_asked_for_once_a_revision() -> None:
    asked = []

    def match(body: bytes) -> bool:
        asked.append(body)
        return True

    verdicts, key = Verdicts(), Key("configmaps", "default", "one")
    for _ in range(2):
        judge = verdicts.judge((CONFIG_MAP, "a=b", ""), match)
        assert [judge(Row(*key, revision, b"%d" % revision)) for revision in (2, 3)] == [True, True]
    assert asked == [b"2", b"3"]


def test_verdicts_about_the_oldest_selectors_and_too_many_rows_are_forgotten() -> None:
    asked = []

    def match(body: bytes) -> bool:
        asked.append(body)
        return False

    verdicts, key = Verdicts(selectors=2, rows=3), Key("configmaps", "default", "one")
    for selector in ("a", "b", "c", "a"):
        verdicts.judge((CONFIG_MAP, selector, ""), match)(Row(*key, 2, b""))
    assert len(asked) == 4
    judge = verdicts.judge((CONFIG_MAP, "a", ""), match)
    for revision in (*range(2, 6), 2):
        judge(Row(*key, revision, b""))
    assert len(asked) == 4 + 4, "revisions 3, 4 and 5, and 2 once more after all were forgotten"


SELECTORS = ("tier=web", "tier!=web", "tier in (web, db)", "!tier", "tier=web,zone=a")
LABELS = st.fixed_dictionaries(
    {}, optional={"tier": st.sampled_from(["web", "db", "w"]), "zone": st.sampled_from("ab")}
)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 4), LABELS), max_size=12), limit=st.integers(0, 3))
async def test_a_list_shows_what_matches_now_whatever_was_listed_before(
    steps: list[tuple[int, dict[str, str]]], limit: int
) -> None:
    store = await opened()
    for number in range(5):
        await store.create(CONFIG_MAP, {"metadata": {"name": f"c-{number}"}}, "default")
    for number, labels in steps:
        told = {"tier": labels.get("tier"), "zone": labels.get("zone")}
        await store.patch(CONFIG_MAP, f"c-{number}", "default", fields={"metadata": {"labels": told}})
        for selector in SELECTORS:
            everything = (await store.list(CONFIG_MAP, "default")).items
            expected = [each["metadata"]["name"] for each in everything if _matches(selector, each["metadata"])]
            found, resume = [], ""
            while True:
                page = await store.list(CONFIG_MAP, "default", labels=selector, limit=limit, resume=resume)
                found += [each["metadata"]["name"] for each in page.items]
                resume = page.resume
                if not resume:
                    break
            assert found == expected, selector
    await store.rows.close()


def _matches(selector: str, meta: dict[str, dict[str, str]]) -> bool:
    labels = meta.get("labels") or {}
    tier = labels.get("tier")
    return {
        "tier=web": tier == "web",
        "tier!=web": tier != "web",
        "tier in (web, db)": tier in ("web", "db"),
        "!tier": tier is None,
        "tier=web,zone=a": tier == "web" and labels.get("zone") == "a",
    }[selector]
