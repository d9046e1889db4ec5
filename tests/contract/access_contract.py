"""ACLs, on clusters with an authorizer and without."""

from __future__ import annotations

from srm_common.kafka.admin.acl_admin import AclAdmin
from tests.contract.parts import Cluster, settings, shown
from tests.unit.domain.access.test_acl_bindings import binding


class AccessContract:
    """The fixture ``guarded`` is a cluster with an authorizer; whoever asks may do everything."""

    def test_a_cluster_without_an_authorizer_says_so(self, kafka: Cluster) -> None:
        admin = AclAdmin(settings(kafka))
        assert admin.topic_bindings() is None
        (refused,) = admin.create([binding("ALLOW READ bob orders")])
        assert "SECURITY_DISABLED" in str(refused)

    def test_bindings_are_kept_and_removed(self, guarded: Cluster, name: str) -> None:
        admin = AclAdmin(settings(guarded))
        bindings = [binding(f"ALLOW READ bob {name}"), binding(f"DENY WRITE eve {name}* 10.0.0.1")]

        def mine() -> frozenset[object]:
            return frozenset(
                topic_binding
                for topic_binding in admin.topic_bindings() or ()
                if topic_binding.topics.name.startswith(name)
            )

        assert admin.create(bindings) == [None, None]
        assert shown(mine, frozenset(bindings)) == frozenset(bindings)
        assert admin.create(bindings[:1]) == [None]
        assert admin.delete([bindings[0], binding(f"ALLOW READ nobody {name}")]) == [None, None]
        assert shown(mine, frozenset(bindings[1:])) == frozenset(bindings[1:])
        assert admin.delete(bindings[1:]) == [None]
