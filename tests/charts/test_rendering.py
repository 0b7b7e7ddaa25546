"""Rendered objects of the chart: security, completeness, and errors for invalid values."""

import json
import re
from collections.abc import Iterator
from typing import Any

import cel
import pytest
import yaml

from tests.charts.chart_processes import mount
from tests.charts.rendering import CHART, NAMESPACE, RELEASE, Json, RenderError, one, render, rights_of, run_helm
from volcanopy.admission import context as policy
from volcanopy.admission.context import AdmissionPolicy
from volcanopy.api.scheduling import Subjects
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy import config
from volcanopy.services.admission.policy_file import PolicyFile
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy_local.user_roles import user_roles

SINGLE: Json = {
    "scheduler": {"replicas": 1, "leaderElection": False},
    "controller": {"replicas": 1, "leaderElection": False},
    "admission": {"replicas": 1},
}
DIGEST = f"sha256:{'0' * 64}"
SETS: dict[str, Json] = {
    "default": {},
    "single": SINGLE,
    "without admission": {"admission": {"enabled": False}},
    "monitored": {"monitoring": {"serviceMonitor": True, "dashboard": True, "rules": True}},
    "metrics with a token": {"monitoring": {"serviceMonitor": True, "tokenSecret": "metrics"}},
    "agent": {"agent": {"enabled": True}},
    "agent of Volcano's API": {
        "api": "volcano",
        "agent": {"enabled": True, "kubeletConfig": "", "extraArgs": ["--verbose"]},
    },
    "web page": {"ui": {"enabled": True, "hosts": ["batch.example.com"]}, "monitoring": {"tokenSecret": "metrics"}},
    "everything": {
        "image": {
            "repository": "registry.example.com/volcanopy",
            "tag": "1.2.3",
            "pullPolicy": "Always",
            "digest": DIGEST,
        },
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "batch",
        "commonLabels": {"team": "platform"},
        "schedulerName": "batch",
        "priorityClassName": "",
        "scheduler": {
            "verbose": True,
            "extraArgs": ["--context=x"],
            "podAnnotations": {"a": "b"},
            "serviceAccountAnnotations": {"cloud.example.com/role": "r"},
            "extraEnv": [{"name": "PYTHONPATH", "value": "/plugins"}],
            "extraVolumes": [{"name": "plugins", "persistentVolumeClaim": {"claimName": "plugins"}}],
            "extraVolumeMounts": [{"name": "plugins", "mountPath": "/plugins", "readOnly": True}],
        },
        "controller": {
            "verbose": True,
            "podOwners": [{"apiGroups": ["argoproj.io"], "resources": ["workflows"]}],
            "nodeSelector": {"role": "system"},
            "tolerations": [{"operator": "Exists"}],
        },
        "admission": {
            "verbose": True,
            "port": 9443,
            "policy": {"maxQueueDepth": 3, "controllers": ["system:serviceaccount:x:y"], "podRejected": "allow"},
            "affinity": {"podAntiAffinity": {}},
        },
        "priorityClasses": {"volcanopy-low": None, "gold": {"value": 7, "description": "paid for"}},
        "roles": {"aggregate": False, "readQueues": False},
    },
}


@pytest.fixture(params=SETS, name="values")
def each_set(request: pytest.FixtureRequest) -> Json:
    result: Json = SETS[request.param]
    return result


def test_helm_lint_reports_nothing(values: Json) -> None:
    said = run_helm("lint", str(CHART), "--strict", "--values=-", values=json.dumps(values))
    assert "[ERROR]" not in said
    assert "[WARNING]" not in said


def deployments(objects: list[Json]) -> Iterator[tuple[Json, Json]]:
    for obj in objects:
        if obj["kind"] == "Deployment":
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            yield obj, container


def test_containers_have_minimal_privileges(values: Json) -> None:
    """Not root, nothing to write on but /tmp, no capabilities, and what the restricted pod security standard asks for."""
    for deployment, container in deployments(render(values)):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
        assert writable == ["/tmp"]


def test_the_web_page_reads_only_and_asks_about_the_configuration_of_its_release() -> None:
    objects = render({"ui": {"enabled": True, "hosts": ["batch.example.com"]}}, release="night", namespace="batch")
    (container,) = [found for _, found in deployments(objects) if found["name"] == "ui"]
    assert container["args"] == ["ui", "--address=0.0.0.0", "--port=8080", "--host=batch.example.com"]
    assert {"name": "VOLCANOPY_CONFIG_MAP", "value": "batch/night-volcanopy-scheduler"} in container["env"]
    roles = [
        each
        for each in objects
        if each["kind"] in {"Role", "ClusterRole"} and each["metadata"]["name"] == "night-volcanopy-ui"
    ]
    rules = [rule for role in roles for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert not any("secrets" in rule["resources"] for rule in rules)


def test_the_web_page_of_users_with_tokens_may_list_the_names_of_namespaces_and_nothing_else() -> None:
    objects = render({"ui": {"enabled": True, "requireToken": True}}, release="night", namespace="batch")
    (container,) = [container for _, container in deployments(objects) if container["name"] == "ui"]
    assert container["args"][-2:] == ["--require-token", "--allow-changes"]
    bound = [
        item["roleRef"]["name"] for item in objects for each in item.get("subjects", ()) if each["name"].endswith("-ui")
    ]
    assert bound == ["night-volcanopy-ui-namespaces"]
    role = one(objects, "ClusterRole", bound[0])
    assert role["rules"] == [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]


def test_the_agent_sees_of_its_node_what_it_reads_only() -> None:
    """Root, because the files belong to root, but without capabilities; of the host it has the kubelet's socket and configuration."""
    objects = render({"agent": {"enabled": True}})
    pod = one(objects, "DaemonSet", "volcanopy-agent")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    kubelet = "/var/lib/kubelet"
    assert folders == {"pod-resources": f"{kubelet}/pod-resources", "kubelet-config": f"{kubelet}/config.yaml"}
    rules = one(objects, "ClusterRole", "volcanopy-agent")["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        (["nodes"], ["get"]),
        (["numatopologies"], ["create", "patch"]),
    ]
    volcano = render({"api": "volcano", "agent": {"enabled": True, "kubeletConfig": ""}})
    assert one(volcano, "ClusterRole", "volcanopy-agent")["rules"][1]["apiGroups"] == ["nodeinfo.volcano.sh"]
    (container,) = one(volcano, "DaemonSet", "volcanopy-agent")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "agent",
        "--kubelet-dir=/host/kubelet",
        "--interval=15",
        "--health-port=8080",
        "--api=volcano",
    ]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/host/kubelet/pod-resources"]


def test_selected_and_referenced_objects_exist(values: Json) -> None:
    """Services, budgets and probes find the pods and the ports; accounts, ConfigMaps and roles that are named exist."""
    objects = render(values)
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for deployment, container in deployments(objects):
        template = deployment["spec"]["template"]
        labels = template["metadata"]["labels"]
        ports = {each["name"] for each in container["ports"]}
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")} <= ports
        assert ("ServiceAccount", template["spec"]["serviceAccountName"]) in names
        for volume in template["spec"]["volumes"]:
            assert "configMap" not in volume or ("ConfigMap", volume["configMap"]["name"]) in names
        service = one(objects, "Service", deployment["metadata"]["name"])
        assert service["spec"]["selector"].items() <= labels.items()
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
        replicated = deployment["spec"]["replicas"] > 1
        assert replicated == (("PodDisruptionBudget", deployment["metadata"]["name"]) in names)
    for binding in (each for each in objects if each["kind"].endswith("RoleBinding")):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in names


def test_all_objects_have_the_namespace_and_the_chart_labels() -> None:
    for result in render(namespace="elsewhere", values={"commonLabels": {"team": "platform"}}):
        assert result["metadata"].get("namespace", "elsewhere") == "elsewhere"
        assert result["metadata"]["labels"]["team"] == "platform"
    assert "volcanopy-system" not in json.dumps(render(namespace="elsewhere"))


def test_object_names_start_with_the_release_name() -> None:
    names = {each["metadata"]["name"] for each in render(release="night") if each["kind"] == "Deployment"}
    assert names == {"night-volcanopy-scheduler", "night-volcanopy-controller", "night-volcanopy-admission"}


def test_two_replicas_elect_a_leader_and_a_single_replica_does_not() -> None:
    for values, elected in (({}, True), (SINGLE, False)):
        objects = render(values)
        args = {result["metadata"]["name"]: container["args"] for result, container in deployments(objects)}
        for part in ("scheduler", "controller"):
            assert ("--leader-elect" in args[f"volcanopy-{part}"]) == elected
            assert ("--no-leader-elect" in args[f"volcanopy-{part}"]) != elected
            assert (f"--lease-name=volcanopy-{part}" in args[f"volcanopy-{part}"]) == elected
            assert (f"--lease-namespace={NAMESPACE}" in args[f"volcanopy-{part}"]) == elected
            roles = [
                each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Role", f"volcanopy-{part}")
            ]
            assert bool(roles) == elected
        assert "--leader-elect" not in args["volcanopy-admission"]


def test_the_scheduler_configuration_is_the_default() -> None:
    text = one(render(), "ConfigMap", "volcanopy-scheduler")["data"]["scheduler.yaml"]
    assert config.parse(text, builtin()) == config.default(builtin())


@pytest.mark.parametrize(("switch", "rights"), [(True, {"get", "patch", "list", "watch"}), (False, {"list", "watch"})])
def test_the_scheduler_may_write_to_nodes_only_if_its_configuration_locks_them(switch: bool, rights: set[str]) -> None:
    plugins = [{"name": "gang"}, {"name": "deviceshare", "arguments": {"deviceshare.NodeLockEnable": switch}}]
    configuration = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    given = rights_of(render({"scheduler": {"config": configuration}}), "scheduler")
    assert {verb for group, resource, verb in given if (group, resource) == ("", "nodes")} == rights


def test_admission_identifies_the_controller_by_its_service_account() -> None:
    result = policy.parse(one(render(), "ConfigMap", "volcanopy-admission")["data"]["admission.yaml"])
    controller = f"system:serviceaccount:{NAMESPACE}:volcanopy-controller"
    assert result == AdmissionPolicy(controllers=[controller], scheduler_plugins=result.scheduler_plugins)
    assert set(result.scheduler_plugins or ()) == config.default(builtin()).plugins
    values = SETS["everything"]
    result = policy.parse(one(render(values), "ConfigMap", "batch-admission")["data"]["admission.yaml"])
    assert result.controllers == [f"system:serviceaccount:{NAMESPACE}:batch-controller", "system:serviceaccount:x:y"]
    assert (result.scheduler_names, result.max_queue_depth) == (["batch"], 3)


def test_the_schema_contains_every_key_of_the_admission_policy() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = schema["properties"]["admission"]["properties"]["policy"]["properties"]

    def keys(model: Any) -> set[str]:
        return {info.alias or name for name, info in model.model_fields.items()}

    assert known.keys() == keys(AdmissionPolicy)
    assert known["superusers"]["properties"].keys() == keys(Subjects)
    assert known["placement"]["items"]["properties"].keys() == keys(policy.Placement)


def test_the_schema_contains_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(values: Json, known: Json, path: str) -> None:
        for key, value in values.items():
            assert key in known["properties"], f"{path}{key} is in values.yaml and not in values.schema.json"
            below = known["properties"][key]
            if isinstance(value, dict) and below.get("properties"):
                compare(value, below, f"{path}{key}.")

    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


def test_own_plugins_are_mounted_and_an_image_is_pinned() -> None:
    objects = render(SETS["everything"])
    pod = one(objects, "Deployment", "batch-scheduler")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"registry.example.com/volcanopy:1.2.3@{DIGEST}"
    assert {"name": "PYTHONPATH", "value": "/plugins"} in container["env"]
    assert {"name": "plugins", "mountPath": "/plugins", "readOnly": True} in container["volumeMounts"]
    assert [volume["name"] for volume in pod["volumes"]] == ["config", "tmp", "plugins"]
    account = one(objects, "ServiceAccount", "batch-scheduler")
    assert account["metadata"]["annotations"] == {"cloud.example.com/role": "r"}
    other = one(objects, "Deployment", "batch-controller")["spec"]["template"]["spec"]
    assert "plugins" not in str(other)


def test_the_alerts_are_those_of_the_documentation() -> None:
    (group,) = one(render(SETS["monitored"]), "PrometheusRule", "volcanopy-alerts")["spec"]["groups"]
    page = (CHART.parents[1] / "docs" / "operations.md").read_text()
    table = page.partition("| alert when | for | it means |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = [(row.split("`")[1], row.rsplit("|", 3)[1].strip()) for row in table]
    assert [(rule["expr"], rule.get("for", "-")) for rule in group["rules"]] == documented
    assert len({rule["alert"] for rule in group["rules"]}) == len(documented)


REFUSED: dict[str, tuple[Json, str]] = {
    "misspelt": ({"scheduler": {"replica": 2}}, "at '/scheduler': additional properties 'replica' not allowed"),
    "no number": ({"scheduler": {"replicas": "two"}}, "at '/scheduler/replicas': got string, want integer"),
    "none": ({"admission": {"replicas": 0}}, "at '/admission/replicas': minimum: got 0, want 1"),
    "two leaders": (
        {"controller": {"leaderElection": False}},
        "controller.replicas is 2 and controller.leaderElection is false: two replicas would act at the same time; "
        "set leaderElection to true or replicas to 1",
    ),
    "low port": ({"admission": {"port": 443}}, "at '/admission/port': minimum: got 443, want 1,024"),
    "policy": ({"admission": {"policy": {"maxDepth": 3}}}, "additional properties 'maxDepth' not allowed"),
    "severity": (
        {"admission": {"policy": {"podAboveNodes": "deny"}}},
        "at '/admission/policy/podAboveNodes': value must be one of 'reject', 'warn', 'allow'",
    ),
    "interval": ({"monitoring": {"interval": "soon"}}, "at '/monitoring/interval': 'soon' does not match pattern"),
    "digest": ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
    "no actions": ({"scheduler": {"config": {"actions": ""}}}, "at '/scheduler/config/actions': minLength"),
    "unknown action": ({"scheduler": {"config": {"actions": "enqueue, foo"}}}, "does not match pattern"),
    "scheduler name": ({"schedulerName": "my scheduler"}, "at '/schedulerName': 'my scheduler' does not match pattern"),
    "namespace": (
        {"controller": {"protectedNamespaces": ["Kube System"]}},
        "at '/controller/protectedNamespaces/0': 'Kube System' does not match pattern",
    ),
    "host": (
        {"ui": {"hosts": ["https://batch.example.com"]}},
        "at '/ui/hosts/0': 'https://batch.example.com' does not match pattern",
    ),
    "label": ({"commonLabels": {"team": "blue team"}}, "at '/commonLabels/team': 'blue team' does not match pattern"),
    "key of a label": ({"commonLabels": {"my team": "blue"}}, "'my team' does not match pattern"),
    "name of a class": ({"priorityClasses": {"Gold": {"value": 1}}}, "'Gold' does not match pattern"),
    "class": ({"priorityClasses": {"gold": {}}}, "at '/priorityClasses/gold': missing property 'value'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_values_are_rejected_with_path_and_expected_type(name: str) -> None:
    values, message = REFUSED[name]
    with pytest.raises(RenderError) as refused:
        render(values)
    assert message in str(refused.value)


def test_a_changed_config_map_is_reloaded_from_its_mount(tmp_path: Any) -> None:
    """A kubelet swaps a link; the files themselves are never written."""
    objects = render()
    scheduling = one(objects, "ConfigMap", "volcanopy-scheduler")["data"]
    admitting = one(objects, "ConfigMap", "volcanopy-admission")["data"]
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "admission").mkdir()
    configuration = ConfigFile(mount(tmp_path / "scheduler", scheduling) / "scheduler.yaml", builtin())
    judging = PolicyFile(mount(tmp_path / "admission", admitting) / "admission.yaml")
    assert not configuration.reload()
    assert not judging.reload()
    changed = render({"scheduler": {"config": {"actions": "allocate"}}, "admission": {"policy": {"maxQueueDepth": 2}}})
    mount(tmp_path / "scheduler", one(changed, "ConfigMap", "volcanopy-scheduler")["data"])
    mount(tmp_path / "admission", one(changed, "ConfigMap", "volcanopy-admission")["data"])
    assert configuration.reload()
    assert configuration.current.actions == ("allocate",)
    assert judging.reload()
    assert judging.current.max_queue_depth == 2


def test_monitors_scrape_the_metrics_port_of_every_component() -> None:
    objects = render(SETS["monitored"])
    monitor = one(objects, "ServiceMonitor", "volcanopy-metrics")["spec"]
    asked = {each["port"]: each.get("scheme", "http") for each in monitor["endpoints"]}
    services = [each for each in objects if each["kind"] == "Service"]
    assert len(services) == 3
    for service in services:
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert asked.keys() <= {each["name"] for each in service["spec"]["ports"]}
    assert asked == {"metrics": "http"}


def test_health_and_metrics_have_listeners_of_their_own_and_metrics_need_the_token_if_there_is_one() -> None:
    open_ones = [container for _, container in deployments(render())]
    objects = render(SETS["metrics with a token"])
    closed_ones = [container for _, container in deployments(objects)]
    for container in (*open_ones, *closed_ones):
        assert {"--health-port=8080", "--metrics-port=8081"} <= set(container["args"])
        assert {each["name"]: each["containerPort"] for each in container["ports"]}.items() >= {
            ("http", 8080),
            ("metrics", 8081),
        }
    argument = "--metrics-token=/etc/volcanopy-metrics/token"
    assert [argument in container["args"] for container in (*open_ones, *closed_ones)] == [False] * 3 + [True] * 3
    for deployment, _ in deployments(objects):
        volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
        assert volumes["metrics-token"]["secret"]["secretName"] == "metrics"
    (endpoint,) = one(objects, "ServiceMonitor", "volcanopy-metrics")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "token"}


def test_replicas_spread_as_the_values_specify() -> None:
    own = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    objects = render(
        {"scheduler": {"topologySpreadConstraints": own}, "controller": {"affinity": {"nodeAffinity": {}}}}
    )
    specs = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each, _ in deployments(objects)}
    assert specs["volcanopy-scheduler"]["topologySpreadConstraints"] == own
    assert "topologySpreadConstraints" not in specs["volcanopy-controller"]
    (usual,) = specs["volcanopy-admission"]["topologySpreadConstraints"]
    assert usual["topologyKey"] == "kubernetes.io/hostname"


def test_admission_takes_its_failure_policy_from_the_values() -> None:
    objects = render({"admission": {"failurePolicy": "Ignore"}})
    (container,) = one(objects, "Deployment", "volcanopy-admission")["spec"]["template"]["spec"]["containers"]
    assert "--failure-policy=Ignore" in container["args"]


def test_the_schema_accepts_every_action_and_own_ones_with_a_hyphen() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    pattern = schema["properties"]["scheduler"]["properties"]["config"]["properties"]["actions"]["pattern"]
    assert re.match(pattern, ", ".join([*builtin().actions, "acme-defragment"]))
    assert not re.match(pattern, "enqueue, foo")


def test_the_dashboard_is_in_a_config_map_with_the_grafana_label() -> None:
    result = one(render(SETS["monitored"]), "ConfigMap", "volcanopy-dashboard")
    assert result["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = sorted((CHART / "dashboards").glob("*.json"))
    assert [(name, json.loads(text)) for name, text in sorted(result["data"].items())] == [
        (path.name, json.loads(path.read_text())) for path in files
    ]
    assert files


def test_an_amount_of_resources_that_is_no_quantity_is_rejected() -> None:
    with pytest.raises(RenderError, match="/scheduler/resources/limits/memory': '2GB' does not match pattern"):
        render({"scheduler": {"resources": {"limits": {"memory": "2GB"}}}})


def test_the_test_of_the_chart_asks_for_a_queue_and_a_job() -> None:
    pod = one(render(), "Pod", "volcanopy-test")
    assert {container["name"]: container["args"][:2] for container in pod["spec"]["containers"]} == {
        "queue": ["queue", "get"],
        "admission": ["job", "run"],
    }


def test_the_policy_of_the_controller_is_evaluated_only_for_what_it_forbids() -> None:
    """Of a request that meets no condition the API server evaluates no validation, which costs it three times as much."""
    spec = one(render(), "ValidatingAdmissionPolicy", f"{RELEASE}-controller-objects")["spec"]
    [condition] = [cel.compile(each["expression"]) for each in spec["matchConditions"]]
    validations = [cel.compile(each["expression"]) for each in spec["validations"]]
    job = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "controller": True}
    for operation, user, namespace, owners, is_forbidden in (
        ("CREATE", "controller", "lab", [job], False),
        ("CREATE", "controller", "lab", [], True),
        ("CREATE", "controller", "kube-system", [job], True),
        ("DELETE", "controller", "lab", [job], False),
        ("DELETE", "controller", "lab", [], True),
        ("DELETE", "scheduler", "kube-system", [], False),
    ):
        pod: Json = {"metadata": {"name": "p", "ownerReferences": owners}, "spec": {}}
        account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{user}"
        request = {"operation": operation, "namespace": namespace, "resource": {"resource": "pods"}}
        objects = {
            "object": pod if operation == "CREATE" else None,
            "oldObject": pod if operation == "DELETE" else None,
        }
        context = cel.Context({"request": request | {"userInfo": {"username": account}}, **objects})
        assert condition.execute(context) is is_forbidden, (operation, user, namespace, owners)
        assert not is_forbidden or not all(validation.execute(context) for validation in validations)


@pytest.mark.parametrize("role", ["view", "edit", "queue-view", "queue-admin"])
def test_the_roles_of_users_in_an_embedded_cluster_have_the_rights_of_those_of_the_chart(role: str) -> None:
    local = {right for right in rights_of(user_roles(), role) if right[0].endswith(".volcanopy.io")}
    assert local == rights_of(render({}), role)
