"""Reconciling: everything wanted comes, everything of ours that is not wanted goes, nothing else is touched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.access.acl_bindings import AclBinding, Permission
from srm_common.domain.access.acl_changes import (
    CreateAcls,
    DeleteAcls,
    acl_actions,
    first_binding_locks_out,
    other_writers,
    reconcile,
    replaced,
)
from tests.unit.domain.access.test_acl_bindings import binding, bindings

sets = st.frozensets(bindings, max_size=6)


class Target:
    """A cluster and our record, changed by the actions of one reconciliation after the other."""

    def __init__(self) -> None:
        self.bindings: set[AclBinding] = set()
        self.record: set[AclBinding] = set()

    def reconcile(self, wanted: frozenset[AclBinding], *, crash_after: int | None = None) -> int:
        """Returns the number of actions; with ``crash_after`` ends after so many steps."""
        difference = reconcile(dict.fromkeys(wanted, ""), self.bindings, self.record)
        actions = acl_actions("b", difference)
        steps = []
        for action in actions:
            if isinstance(action, CreateAcls):
                steps += [(self.record.update, action.bindings), (self.bindings.update, action.bindings)]
            else:
                steps += [
                    (self.bindings.difference_update, action.bindings),
                    (self.record.difference_update, action.bindings),
                ]
        for change, changed in steps[:crash_after]:
            change(changed)
        return len(actions)


@given(st.lists(st.tuples(sets, sets, sets, st.none() | st.integers(0, 4)), max_size=5), sets)
def test_the_target_has_what_is_wanted_and_what_others_made(
    history: list[tuple[frozenset[AclBinding], frozenset[AclBinding], frozenset[AclBinding], int | None]],
    last: frozenset[AclBinding],
) -> None:
    target = Target()
    foreign: set[AclBinding] = set()
    for wanted, added, removed, crash_after in history:
        # What is recorded when it was about to be made counts as ours, whoever makes it then.
        foreign |= added - target.bindings - target.record
        target.bindings |= added
        foreign -= removed
        target.bindings -= removed
        target.reconcile(wanted, crash_after=crash_after)
        assert foreign <= target.bindings
    target.reconcile(last)
    assert target.bindings == last | foreign
    assert target.record == last - foreign
    assert target.reconcile(last) == 0


def test_actions_are_in_the_safe_order_and_say_why() -> None:
    wanted = {binding("ALLOW READ bob x.a"): "why", binding("DENY READ bob x.b"): "because"}
    ours = frozenset({binding("ALLOW READ eve x.a"), binding("DENY READ eve x.a"), binding("ALLOW READ eve x.gone")})
    existing = ours - {binding("ALLOW READ eve x.gone")}
    actions = acl_actions("b", reconcile(wanted, existing, ours))
    assert [(type(action), action.permission, action.topic) for action in actions] == [
        (CreateAcls, Permission.DENY, "x.b"),
        (CreateAcls, Permission.ALLOW, "x.a"),
        (DeleteAcls, Permission.ALLOW, "x.a"),
        (DeleteAcls, Permission.ALLOW, "x.gone"),
        (DeleteAcls, Permission.DENY, "x.a"),
    ]
    assert str(actions[0]) == "create ACL DENY on topic x.b on b: User:bob READ (because)"
    assert actions[0].to_json() == {
        "action": "create_acls",
        "cluster": "b",
        "topic": "x.b",
        "before": [],
        "after": [["LITERAL", "x.b", "User:bob", "*", "READ", "DENY"]],
        "reason": "as it is at the source",
        "reasons": ["because"],
    }
    assert "it is already gone" in str(actions[3])
    (difference,) = actions[2].differences()
    assert (difference.what, difference.before, difference.after) == ("User:eve READ", "ALLOW", None)


def test_other_writers_are_named() -> None:
    existing = [
        binding("ALLOW WRITE srm *"),
        binding("ALLOW WRITE app x.*"),
        binding("ALLOW ALL ops x.a"),
        binding("ALLOW READ bob x.a"),
        binding("DENY WRITE eve x.a"),
        binding("ALLOW WRITE app local"),
    ]
    assert other_writers(existing, ["x.a", "x.b"], {"User:srm"}, "b") == (
        "User:ops may write to x.a on b by 'ALLOW User:ops ALL on x.a'",
        "User:app may write to 2 copies on b by 'ALLOW User:app WRITE on x. (prefixed)'",
    )
    *_, advice = other_writers(existing, ["x.a", "x.b"], (), "b")
    assert "whose principal on b is unknown; configure it with sync.topic.acls.replicator.principals" in advice
    many = [binding(f"ALLOW WRITE app{number:02} x.a") for number in range(15)]
    notices = other_writers(many, ["x.a"], {"User:srm"}, "b")
    assert len(notices) == 11
    assert notices[-1] == "5 more bindings permit others to write to copies on b"


def test_a_first_binding_may_lock_the_replicator_out() -> None:
    wanted = [binding("ALLOW READ bob x.*")]
    copies = ["x.a", "x.b", "y"]
    assert first_binding_locks_out(wanted, [], copies, {"User:srm"}) == "x.a"
    assert first_binding_locks_out(wanted, [binding("ALLOW WRITE srm x.a")], copies, {"User:srm"}) == "x.b"
    assert first_binding_locks_out(wanted, [binding("ALLOW ALL srm x.*")], copies, {"User:srm"}) is None
    assert first_binding_locks_out([], [], copies, {"User:srm"}) is None
    # Closed already, by the binding of somebody else.
    assert first_binding_locks_out(wanted, [binding("DENY READ eve x.*")], copies, {"User:srm"}) is None


def test_what_takes_the_place_of_another_has_the_same_right_on_some_of_its_topics() -> None:
    deleted = [binding(f"ALLOW {one}") for one in ("READ bob a.*", "READ bob b.1", "READ bob b.2", "DESCRIBE bob a.*")]
    created = [binding(one) for one in ("ALLOW READ bob a.1", "ALLOW READ bob b.*", "DENY DESCRIBE bob a.1")]
    assert replaced(deleted, created) == set(deleted[:3])
    assert replaced([binding("ALLOW READ bob a.1")], [binding("ALLOW READ bob a.2")]) == set()
    (creation, deletion) = acl_actions("b", reconcile({created[0]: ""}, {deleted[0]}, {deleted[0]}))
    assert (type(creation), deletion.reason) == (CreateAcls, "others take its place")
