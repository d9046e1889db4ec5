from __future__ import annotations

import pytest

from demo.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--seconds", "nan"], "nan is not a number of seconds to wait"),
        (["--seconds", "inf"], "inf is not a number of seconds to wait"),
        (["--seconds=-1"], "-1 is not a number of seconds to wait"),
        (["--interval", "0"], "0 is not a number of seconds, 1 or more"),
        (["--interval", "soon"], "invalid interval value: 'soon'"),
    ],
)
def test_times_of_the_demo(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert reason in capsys.readouterr().err
