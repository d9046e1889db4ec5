from __future__ import annotations

import pytest

from srm_common.rest.pages.markdown_page import markdown_page


def known(target: str) -> str | None:
    return {"there.md": "there", "#here": "#here"}.get(target)


def test_headings_have_githubs_anchors() -> None:
    page = markdown_page("# All of `it`\n\n## State: lost data\n\n### What, again?\n\n### What, again?\n", known)
    assert page.title == "All of it"
    assert page.anchors == {"all-of-it", "state-lost-data", "what-again", "what-again-1"}
    assert '<h2 id="state-lost-data">State: lost data</h2>' in page.html


def test_links_lead_to_what_is_there_and_others_are_text() -> None:
    page = markdown_page("[a](there.md) [**b**](away.md) [c](#here) ![picture](x.png)", known)
    assert page.html.strip() == '<p><a href="there">a</a> <strong>b</strong> <a href="#here">c</a> </p>'


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a <b onclick=x>b</b>", "`<img src=x>`", "# <i>x</i>"])
def test_markup_in_the_text_is_text(text: str) -> None:
    html = markdown_page(text, known).html
    assert "&lt;" in html
    assert not any(tag in html for tag in ("<script", "<b ", "<img", "<i>"))


def test_tables_are_tables() -> None:
    assert "<td>1</td>" in markdown_page("| a |\n|---|\n| 1 |\n", known).html


def test_comments_are_for_those_who_write() -> None:
    html = markdown_page("# A\n\n<!-- made by\n`x` -->\n\nb `<!-- c -->`\n", known).html
    assert html == '<h1 id="a">A</h1>\n<p>b <code>&lt;!-- c --&gt;</code></p>\n'


def test_a_page_of_nothing() -> None:
    assert markdown_page("", known).title == ""
