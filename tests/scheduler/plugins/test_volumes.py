"""Volume claims: feasible nodes and assignment of volumes."""

from volcanopy_testing.notation import plan

PLUGINS = "gang, priority | predicates, nodeorder, proportion"


def test_a_pod_is_placed_where_its_volume_is_accessible() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            pv  v1 on=n2
            pvc data volume=v1
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2"
    )


def test_nodes_without_access_to_the_volume_are_rejected_with_a_message() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            pv  v1 on=n2
            pvc data volume=v1
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == """
        podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity
        """
    )


def test_a_delayed_claim_gets_the_smallest_matching_volume_of_the_node() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            storageclass local waits
            pv  big size=10Gi class=local on=n1
            pv  small size=2Gi class=local on=n1
            pv  tiny size=1Gi class=local on=n1
            pvc data size=2Gi class=local
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == "bind a-0 -> n1 (data=small)"
    )


def test_two_pods_of_a_gang_never_get_one_volume() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            storageclass local waits
            pv  v1 class=local on=n1
            pv  v2 class=local on=n2
            pvc one class=local
            pvc two class=local
            job a: 1 x cpu=1 pvc=one role=x, 1 x cpu=1 pvc=two role=y
            """,
            PLUGINS,
        )
        == """
        bind a-x-0 -> n1 (one=v1)
        bind a-y-0 -> n2 (two=v2)
        """
    )


def test_a_gang_with_insufficient_volumes_is_assigned_none() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            storageclass local waits
            pv  v1 class=local
            pvc one class=local
            pvc two class=local
            job a: 1 x cpu=1 pvc=one role=x, 1 x cpu=1 pvc=two role=y
            job b: 1 x cpu=1 pvc=two
            """,
            PLUGINS,
        )
        == """
        bind b-0 -> n1 (two=v1)
        podgroup a Inqueue Unschedulable: 2 pods must start together, 1 can be placed: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind
        """
    )


def test_claims_of_a_pod_are_matched_so_that_each_gets_a_volume() -> None:
    """The claim that matches both volumes leaves one to the claim that matches only that."""
    assert (
        plan(
            """
            node n1 cpu=4
            storageclass local waits
            pv  v1 size=5Gi class=local
            pv  v2 size=5Gi class=local mode=ReadWriteOnce,ReadWriteMany
            pvc any size=1Gi class=local
            pvc many size=2Gi class=local mode=ReadWriteMany
            job a: 1 x cpu=1 pvc=any,many
            """,
            PLUGINS,
        )
        == "bind a-0 -> n1 (any=v1, many=v2)"
    )


def test_a_volume_is_provisioned_in_the_allowed_topologies_of_its_class() -> None:
    assert (
        plan(
            """
            node n1 cpu=4 zone=a
            node n2 cpu=4 zone=b
            storageclass fast waits provisioner=disks.example.com zones=b
            pvc data class=fast
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2 (data=new)"
    )


def test_a_volume_is_provisioned_where_the_driver_reports_capacity() -> None:
    world = """
        node n1 cpu=4 zone=a
        node n2 cpu=4 zone=b
        storageclass fast waits provisioner=disks.example.com
        csidriver disks.example.com storagecapacity
        capacity here class=fast size=1Gi zone=a
        capacity there class=fast size=9Gi zone=b
        pvc data size={size} class=fast
        job a: 1 x cpu=1 pvc=data
        """
    assert plan(world.format(size="5Gi"), PLUGINS) == "bind a-0 -> n2 (data=new)"
    assert (
        plan(world.format(size="10Gi"), PLUGINS)
        == """
        podgroup a Inqueue Unschedulable: 0/2 nodes are available: 2 node(s) did not have enough free storage
        """
    )


def test_an_unbound_immediate_claim_rejects_every_node() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            storageclass slow provisioner=disks.example.com
            pvc data class=slow
            job a: 1 x cpu=1 pvc=data
            job b: 1 x cpu=1 pvc=nothing
            """,
            PLUGINS,
        )
        == """
        podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 pod has unbound immediate PersistentVolumeClaims
        podgroup b Inqueue Unschedulable: 0/1 nodes are available: 1 persistentvolumeclaim "nothing" not found
        """
    )


def test_a_claim_that_names_the_volume_of_another_claim_is_not_bound() -> None:
    assert plan(
        """
        node n1 cpu=4
        pv  v1 for=other
        pv  v2 for=mine
        pvc data volume=v1
        pvc mine volume=v2
        job a: 1 x cpu=1 pvc=data
        job b: 1 x cpu=1 pvc=mine
        """,
        PLUGINS,
    ).lines == [
        "bind b-0 -> n1",
        "podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 pod has unbound immediate PersistentVolumeClaims",
    ]


def test_pods_that_share_a_claim_follow_the_first_of_them() -> None:
    assert (
        plan(
            """
            node n1 cpu=1
            node n2 cpu=4
            node n3 cpu=4
            storageclass fast waits provisioner=disks.example.com
            pvc data class=fast
            job a: 2 x cpu=2 pvc=data
            """,
            "gang | predicates, nodeorder",
        )
        == """
        bind a-0 -> n2 (data=new)
        bind a-1 -> n2 (data=new)
        """
    )


def test_a_claim_with_a_selected_node_restricts_its_pods_to_it() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            storageclass fast waits provisioner=disks.example.com
            pvc data class=fast selected=n2
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2 (data=new)"
    )


def test_a_reserved_volume_is_used_by_its_claim_only() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            storageclass local waits
            pv  v1 class=local on=n2 for=mine
            pvc mine class=local
            pvc other class=local
            job a: 1 x cpu=1 pvc=mine
            job b: 1 x cpu=1 pvc=other
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n2 (mine=v1)
        podgroup b Inqueue Unschedulable: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind
        """
    )


def test_a_volume_of_a_zone_is_used_in_that_zone() -> None:
    assert (
        plan(
            """
            node n1 cpu=4 zone=a
            node n2 cpu=4 zone=b
            pv  v1 zone=b
            pvc data volume=v1
            job a: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2"
    )


def test_a_claim_for_one_pod_is_used_by_one_pod() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            pv  v1
            pvc data volume=v1 mode=ReadWriteOncePod
            job a: 1 x cpu=1 pvc=data
            job b: 1 x cpu=1 pvc=data
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n1
        podgroup b Inqueue Unschedulable: 0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode
        """
    )


def test_volumes_per_node_are_limited_by_the_driver() -> None:
    """n1 has one volume that two pods use: it counts once. Each new pod has its own volume."""
    assert (
        plan(
            """
            node n1 cpu=8
            csinode n1 disks.example.com=2
            pv  v1 csi=disks.example.com
            pv  v2 csi=disks.example.com
            pv  v3 csi=disks.example.com
            pvc one volume=v1
            pvc two volume=v2
            pvc three volume=v3
            job old: 2 x cpu=1 pvc=one on=n1
            job a: 1 x cpu=1 pvc=two
            job b: 1 x cpu=1 pvc=three
            job c: 1 x cpu=1 pvc=one
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n1
        bind c-0 -> n1
        podgroup b Inqueue Unschedulable: 0/1 nodes are available: 1 node(s) exceed max volume count
        """
    )


def test_each_pod_has_its_ephemeral_volume() -> None:
    assert (
        plan(
            """
            node n1 cpu=8
            node n2 cpu=8
            storageclass local waits
            pv  v1 class=local on=n1
            pv  v2 class=local on=n2
            pvc a-0-scratch class=local owner=a-0
            pvc a-1-scratch class=local owner=a-1
            job a: 2 x cpu=1 ephemeral=scratch
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n1 (a-0-scratch=v1)
        bind a-1 -> n2 (a-1-scratch=v2)
        """
    )


def test_a_pod_waits_until_its_ephemeral_claim_is_created() -> None:
    assert (
        plan(
            """
            node n1 cpu=8
            pvc b-0-scratch owner=somebody
            job a: 1 x cpu=1 ephemeral=scratch
            job b: 1 x cpu=1 ephemeral=scratch
            """,
            PLUGINS,
        )
        == """
        podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 waiting for ephemeral volume controller to create the persistentvolumeclaim "a-0-scratch"
        podgroup b Inqueue Unschedulable: 0/1 nodes are available: 1 persistentvolumeclaim "b-0-scratch" was not created for the pod
        """
    )
