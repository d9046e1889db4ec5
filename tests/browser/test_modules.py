"""The page's own modules, by themselves: figures as people read them, and drawing anew without disturbing anybody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page

from srm_common.rest.pages import page as replications
from srm_common.testing.airflow_client import wait_until

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The page without an API behind it."""
    app = FastAPI()
    app.include_router(replications.router)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started, 180, "the page is served")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(180)


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """Some page of the same origin, into which modules are imported."""
    context = browser.new_context(locale="en", timezone_id="UTC")
    sheet = context.new_page()
    sheet.goto(f"{address}/page/x/vendor/uPlot.LICENSE")
    yield sheet
    context.close()


@pytest.fixture
def sheet(browser: Browser, address: str) -> Iterator[Page]:
    """A test's own, to draw on."""
    with opened(browser, address) as sheet:
        yield sheet


@pytest.fixture(scope="module")
def calculator(browser: Browser, address: str) -> Iterator[Page]:
    """For functions that draw nothing: a page of its own would cost each case half a second of CPU."""
    with opened(browser, address) as sheet:
        yield sheet


def called(sheet: Page, module: str, name: str, *arguments: object) -> object:
    return sheet.evaluate(
        "async ([module, name, list]) => (await import(`/page/x/${module}.js`))[name](...list)",
        [module, name, list(arguments)],
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 0, "0"),
        ("count", None, "\N{EN DASH}"),
        ("count", 9_999, "9,999"),
        ("count", 10_000, "10.0 k"),
        ("count", 1_284_551, "1.28 M"),
        ("count", 9_999.6, "10.0 k"),
        ("count", 99_999, "100 k"),
        ("count", 999_499, "999 k"),
        ("count", 999_999, "1.00 M"),
        ("count", -999_999, "-1.00 M"),
        ("count", 999.7, "1.00 k"),
        ("count", 10**18, "1000 P"),
        ("count", 0.25, "0.3"),
        ("exact", 1_284_551, "1,284,551"),
        ("byteRate", 48_200_000, "48.2 MB/s"),
        ("byteRate", 0, "0 B/s"),
        ("bytes", 999, "999 B"),
        ("bytes", 999.7, "1.00 kB"),
        ("bytes", 9_999, "10.0 kB"),
        ("bytes", 999_600_000, "1.00 GB"),
        ("duration", 0.4, "0.4 ms"),
        ("duration", 842, "842 ms"),
        ("duration", 999.7, "1.0 s"),
        ("duration", 1_234, "1.2 s"),
        ("duration", 61_000, "61 s"),
        ("duration", 240_000, "4 min"),
        ("duration", -1_500, "-1.5 s"),
        ("span", 99_400, "99 s"),
        ("span", 7_200_000, "2 h"),
        ("span", 3 * 86_400_000, "3 d"),
        ("span", -5_000, "0 s"),
        ("time", 1_795_289_880_000, "2026-11-21 19:38:00"),
    ],
)
def test_figures_as_people_read_them(calculator: Page, name: str, value: float | None, text: str) -> None:
    assert called(calculator, "format", name, value) == text


@pytest.mark.parametrize(
    ("counts", "word", "tone"),
    [
        ({}, "\N{EN DASH}", ""),
        ({"proved": 4}, "proved", "good-text"),
        ({"proved": 4, "unproved": 1}, "in part", ""),
        ({"unproved": 1}, "not proved", ""),
        ({"proved": 4, "uncompared": 1}, "in part", ""),
        ({"proved": 4, "unproved": 1, "different": 2}, "2 different", "fault-text"),
    ],
)
def test_only_what_is_proved_whole_is_green(calculator: Page, counts: dict[str, int], word: str, tone: str) -> None:
    flow = {f"{name}_partitions": count for name, count in counts.items()}
    found = called(calculator, "format", "verifiedFigure", flow)
    assert isinstance(found, dict)
    assert (found["word"], found["tone"]) == (word, tone)


@pytest.mark.parametrize(
    ("found", "word", "tone"),
    [
        (None, "\N{EN DASH}", ""),
        ({"verdict": "proved"}, "proved", "good-text"),
        ({"verdict": "partly", "whole": False, "sample": 0.05}, "in part", ""),
        ({"verdict": "different"}, "different", "fault-text"),
        ({"verdict": "of tomorrow"}, "of tomorrow", ""),
    ],
)
def test_only_a_partition_that_is_proved_whole_is_green(
    calculator: Page, found: dict[str, object] | None, word: str, tone: str
) -> None:
    usual = {"records": 7, "proved_to": 12, "whole": True, "sample": 1, "against": "source"}
    shown = called(calculator, "format", "partitionVerified", {"verified": found and {**usual, **found}})
    assert isinstance(shown, dict)
    assert (shown["word"], shown["tone"]) == (word, tone)
    if found:
        assert str(shown["title"]).startswith("7 records proved, proved up to source offset 12; ")


NOT_ASKED = "The lag is from the last run, without an age; the source was not queried since."
DID_NOT_SAY = "The source returned no timestamp: no waiting record has one, or its broker did not respond."


@pytest.mark.parametrize(
    ("row", "fault", "word", "why"),
    [
        ({"lag": 5, "lag_ms": 9, "reported_ms": 4, "behind_ms": 28_000}, None, "28 s", None),
        ({"lag": 0, "lag_ms": 9, "reported_ms": 4, "behind_ms": 0}, None, "\N{EN DASH}", None),
        ({"lag": 5, "lag_ms": 4, "reported_ms": 4, "behind_ms": None}, None, "not queried since", NOT_ASKED),
        ({"lag": 5, "lag_ms": 4, "reported_ms": 4, "behind_ms": None}, "no answer", "unknown", "no answer"),
        ({"lag": 5, "lag_ms": 9, "reported_ms": 4, "behind_ms": None}, None, "unknown", DID_NOT_SAY),
        (
            {"lag": None, "lag_bounds": {"least": 5, "unknown": 1}, "lag_ms": 9, "reported_ms": 4, "behind_ms": None},
            *(None, "unknown", "A partition could not be queried, and may hold an older record."),
        ),
    ],
)
def test_the_age_of_what_waits_or_why_it_is_not_known(
    calculator: Page, row: dict[str, object], fault: str | None, word: str, why: str | None
) -> None:
    found = calculator.evaluate(
        """async ([row, fault]) => {
            const { behindFigure } = await import('/page/x/format.js');
            const told = behindFigure(row, {lag_fault: fault});
            return typeof told === 'string' ? [told, null] : [told.textContent, told.title];
        }""",
        [row, fault],
    )
    assert found == [word, why]


def test_drawing_anew_keeps_focus_and_what_was_typed_and_moves_rows_by_their_key(sheet: Page) -> None:
    found = sheet.evaluate(
        """async () => {
            const { h, patch } = await import('/page/x/dom.js');
            document.body.replaceChildren();
            const root = document.body.appendChild(h('div'));
            const row = (name, figure) => h('p', {key: name, onclick: () => figure}, name, h('b', null, figure));
            patch(root, h('input', {value: 'a'}), row('east', 1), row('west', 2));
            const [input, east, west] = root.childNodes;
            input.focus();
            input.value = 'typed';
            patch(root, h('input', {value: 'b'}), row('west', 3), row('north', 4), row('east', 5));
            const kept = [...root.childNodes];
            patch(root, h('input', {value: 'b'}), row('<b>east</b>', 6));
            return {
                same: kept[0] === input && kept[1] === west && kept[3] === east,
                focus: document.activeElement === input,
                value: input.value,
                figures: kept.slice(1).map((one) => one.textContent),
                handlers: [west.onclick(), east.onclick()],
                left: root.childNodes.length,
                text: root.lastChild.textContent,
            };
        }"""
    )
    assert found == {
        "same": True,
        "focus": True,
        "value": "typed",
        "figures": ["west3", "north4", "east5"],
        "handlers": [3, 5],
        "left": 2,
        "text": "<b>east</b>6",
    }


def test_a_sparkline_has_a_gap_where_nothing_was_reported(sheet: Page) -> None:
    lines = sheet.evaluate(
        """async () => {
            const { sparkline } = await import('/page/x/sparkline.js');
            const drawn = (values) => {
                const lines = sparkline({values}, 'good', 'Lag').querySelectorAll('path.line');
                return [...lines].map((one) => one.getAttribute('d'));
            };
            return [[1, 2, null, 4], [null, null], [5]].map(drawn);
        }"""
    )
    assert [len(found) for found in lines] == [2, 0, 1]
    (single,) = lines[2]
    assert single.startswith("M0.0 ")
    assert "L96.0 " in single


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_names_in_the_table_of_a_move_are_whole_and_a_remark_has_the_whole_width(sheet: Page, width: int) -> None:
    sheet.set_viewport_size({"width": width, "height": 900})
    names = ["billing", "east.orders", "payments-settlement-batch"]
    longest = "x" * 100
    found = sheet.evaluate(
        """async ([names, longest]) => {
            const { h } = await import('/page/x/dom.js');
            const { positions } = await import('/page/x/move_wizard.js');
            await new Promise((done) =>
                document.head.append(h('link', {rel: 'stylesheet', href: '/page/x/sheets.css', onload: done})));
            const reason = 'the group is 240 offsets ahead of what is copied; '.repeat(3);
            const row = (name, index) => ({
                group: name, topic: name, from_topic: name, partition: index, applied: 123456789, before: 123456789,
                upstream: 123456789, age_ms: 1000, read_again: {text: 'at most 1,000'}, reason});
            const table = positions({positions: [...names, longest].map(row), read_again: null});
            const body = h('div', {class: 'dialog-body'}, h('div', {class: 'stage'}, table));
            document.body.replaceChildren(h('dialog', {class: 'dialog wide', open: true}, body));
            const lines = (element) => {
                const range = document.createRange();
                range.selectNodeContents(element);
                return new Set([...range.getClientRects()].map((one) => Math.round(one.bottom))).size;
            };
            const cells = (name) => [...document.querySelectorAll('.whole')].filter(
                (one) => one.textContent.replace(/-\\d$/, '') === name || one.textContent === name);
            const wide = document.querySelector('table').getBoundingClientRect().width;
            return {
                lines: names.map((name) => cells(name).map(lines)),
                broken: cells(longest).map(lines),
                remark: document.querySelector('.under td').getBoundingClientRect().width / wide,
                hidden: document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth,
            };
        }""",
        [names, longest],
    )
    assert found["lines"] == [[1, 1]] * len(names)
    assert all(lines > 1 for lines in found["broken"])
    assert len(found["broken"]) == 2
    assert found["remark"] > 0.99
    assert found["hidden"] == 0, "it has to be scrolled sideways"


def test_without_an_api_the_page_says_so(browser: Browser, address: str) -> None:
    sheet = browser.new_page()
    sheet.goto(f"{address}/")
    sheet.get_by_test_id("page-faults").wait_for()
    assert "404" in sheet.get_by_test_id("page-faults").inner_text()
    sheet.close()
