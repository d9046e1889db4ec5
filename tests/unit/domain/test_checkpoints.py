import pytest

from srm_common.domain.checkpoints import Checkpoint, downstream_of, supersedes
from srm_common.domain.translation import NotReplicatedYet, TooOld, Translated, Unmapped


def at(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "a.t", 0, upstream, downstream)


@pytest.mark.parametrize(
    ("last", "new", "written"),
    [
        (None, at(5, 5), True),
        (at(5, 5), at(5, 5), False),
        (at(5, 5), at(6, 6), True),
        (at(5, 5), at(6, 5), False),
        (at(5, 5), at(5, 6), True),
        (at(250, 201), at(370, 176), False),  # the store's history was thinned out after a restart
        (at(250, 201), at(400, 376), True),
        (at(13, 6), at(12, 5), True),  # rewound at the source
        (at(13, 6), at(13, 5), False),
    ],
)
def test_checkpoints_never_go_backwards_unless_the_group_does(
    last: Checkpoint | None, new: Checkpoint, written: bool
) -> None:
    assert supersedes(new, last) is written


def test_what_a_checkpoint_may_carry() -> None:
    assert downstream_of(Translated(7, exact=True)) == 7
    assert downstream_of(Translated(7, exact=False)) == 7
    assert downstream_of(NotReplicatedYet(3, 9)) == 9
    assert "upstream offset 40" in str(downstream_of(TooOld(40, 2)))
    assert downstream_of(Unmapped("why")) == "why"
