"""Everything that can be wrong with a command, of every command: one helpful sentence, and the right exit status."""

import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from tests.cli.fake_api_server import JOBS, FakeApiServer, a_job, error_status, forbidden
from tests.cli.run_commands import run_in_process
from volcanopy.cli.main import GROUPS, all_commands

DEFAULT = JOBS.format("default")


def leaves(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


COMMANDS = dict(leaves(all_commands()))
MORE: dict[tuple[str, ...], list[str]] = {
    ("queue", "update"): ["--weight", "2"],
    ("job", "run"): ["--image", "i"],
}
"""What a command wants besides."""
ASKING = {words: command for words, command in COMMANDS.items() if words[0] in GROUPS}
"""Those that speak to a cluster."""


def arguments(words: tuple[str, ...], folder: Path) -> list[str]:
    """The least that a command must be given to get as far as the cluster."""
    given = list(words)
    for parameter in COMMANDS[words].params:
        if parameter.param_type_name == "argument" and (parameter.required or parameter.name == "names"):
            given.append("training")
        elif parameter.required and parameter.name == "files":
            given += ["-f", str(folder / "all.yaml")]
        elif parameter.required:
            given += [parameter.opts[0], "2" if parameter.name == "replicas" else "x"]
    return given + MORE.get(words, [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with manifests of every kind that a command asks for."""
    template = "spec: {tasks: [{name: w, template: {spec: {containers: [{name: c, image: i}]}}}]}"
    documents = [
        "{apiVersion: batch.volcanopy.io/v1alpha1, kind: BatchJob, metadata: {name: training}}\n",
        "{apiVersion: flow.volcanopy.io/v1alpha1, kind: JobTemplate, metadata: {name: training}}\n",
        "{apiVersion: flow.volcanopy.io/v1alpha1, kind: JobFlow, metadata: {name: training},"
        " spec: {flows: [{name: training}]}}\n",
    ]
    text = "---\n".join(
        document.replace("}}\n", "}, " + template + "}\n") if "spec" not in document else document
        for document in documents
    )
    (tmp_path / "all.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_sentence(words: tuple[str, ...]) -> None:
    api = run_in_process(*words, "--help")
    assert (api.status, api.err) == (0, "")
    assert api.lines[0].startswith(f"Usage: volcanopy {' '.join(words)}")
    sentence = COMMANDS[words].help.strip().partition("\n\n")[0]
    assert sentence.endswith("."), sentence


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_has_a_help_text(words: tuple[str, ...]) -> None:
    for parameter in COMMANDS[words].params:
        assert parameter.help, f"{' '.join(words)}: {parameter.name}"
        assert parameter.help.endswith("."), parameter.help


def test_commands_for_queues_have_no_option_for_namespaces() -> None:
    queue_commands = {words: command for words, command in COMMANDS.items() if words[0] == "queue"}
    assert len(queue_commands) > 10
    for words, command in queue_commands.items():
        assert not {"namespace", "all_namespaces"} & {parameter.name for parameter in command.params}, words
        assert not [parameter.help for parameter in command.params if "namespace" in parameter.help], words


def test_unknown_fields_are_kept_in_documents_and_dry_runs(server: FakeApiServer, tmp_path: Path) -> None:
    job = a_job("a", "Running")
    job["spec"]["fromTheFuture"] = {"x": [1]}
    server.has(DEFAULT, job)
    config = server.kubeconfig(tmp_path)
    for words in (["get", "a"], ["scale", "a", "-r", "5", "--dry-run=client"]):
        document = json.loads(run_in_process("job", *words, "-o", "json", kubeconfig=config).out)
        assert document["spec"]["fromTheFuture"] == {"x": [1]}, words
    assert run_in_process("job", "list", kubeconfig=config).lines[1].split()[:2] == ["a", "Running"]


def test_every_example_is_a_valid_command_line() -> None:
    """Parsed as typed, without being run: options and arguments exist, choices are among those that are offered."""
    seen = 0
    for words, command in COMMANDS.items():
        for line in (command.epilog or "").splitlines():
            if not (match := re.search(r"volcanopy (.+?)( >.*)?$", line.strip().removesuffix(")"))):
                continue
            typed = shlex.split(match[1])
            meant = next((item for item in (tuple(typed[:2]), tuple(typed[:1])) if item in COMMANDS), ())
            assert meant, line
            COMMANDS[meant].make_context(" ".join(meant), typed[len(meant) :])
            seen += meant == words
    assert seen > 20


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_a_usage_error_that_names_the_help(words: tuple[str, ...]) -> None:
    refused = run_in_process(*words, "--definitely-not")
    assert refused.status == 2
    assert refused.sentence() == f"No such option: --definitely-not; see `volcanopy {' '.join(words)} --help`"


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_without_a_cluster_the_error_names_local_up(words: tuple[str, ...], folder: Path) -> None:
    refused = run_in_process(*arguments(words, folder), home=folder)
    assert refused.status == 1
    assert refused.sentence().startswith("no cluster is configured: ")
    assert "volcanopy local up" in refused.sentence()


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_cluster_without_answer_is_an_error_at_once(words: tuple[str, ...], folder: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        api = FakeApiServer(url=url)
        refused = run_in_process(*arguments(words, folder), kubeconfig=api.kubeconfig(folder))
    assert refused.status == 1
    assert refused.sentence() == (
        f"no answer from {url} (context canned): connection refused; "
        "check that the cluster is running, and --context and --kubeconfig"
    )


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_forbidden_request_names_the_missing_permission(
    words: tuple[str, ...], folder: Path, server: FakeApiServer
) -> None:
    server.otherwise = forbidden("list")
    refused = run_in_process(*arguments(words, folder), kubeconfig=server.kubeconfig(folder))
    assert refused.status == 1
    said = [line.removeprefix("volcanopy: ") for line in refused.err.splitlines()]
    assert said
    for sentence in said:
        assert re.fullmatch(
            r'(.*: )?forbidden: user "ada" cannot list batchjobs.batch.volcanopy.io in namespace "default"; .+',
            sentence,
        )


@pytest.mark.parametrize("words", ["job list -A", "job history -A", "usage"])
def test_a_user_of_one_namespace_reads_how_to_list_that_one(words: str, folder: Path, server: FakeApiServer) -> None:
    server.otherwise = forbidden("list")
    server.answers["POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = (201, {"status": {}})
    refused = run_in_process(*words.split(), kubeconfig=server.kubeconfig(folder))
    assert re.fullmatch(r"you may not list \w+ in all namespaces, only in one: use -n NAMESPACE", refused.sentence())


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_cluster_without_volcanopy_is_an_error(words: tuple[str, ...], folder: Path, server: FakeApiServer) -> None:
    refused = run_in_process(*arguments(words, folder), kubeconfig=server.kubeconfig(folder))
    assert refused.status == 1
    assert "Traceback" not in refused.err
    assert "does not serve" in refused.err or "cluster does not serve" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobb", "list"], "No such command 'jobb'. Did you mean 'job'? See `volcanopy --help`"),
        (["job", "lits"], "No such command 'lits'. Did you mean 'list'? See `volcanopy job --help`"),
        (["job", "run"], "specify --image, or a command to run on a process node"),
        (["job", "get"], "Missing argument 'NAME'; see `volcanopy job get --help`"),
        (["job", "delete"], "no job selected: give NAME, -l LABELS or --all"),
        (["job", "delete", "a", "--all"], "use only one of NAME, -l, --all and -f"),
        (["job", "wait", "a", "--for", "complete"], "'complete' is not a phase of a job: did you mean Completed?"),
        (["job", "wait", "a", "--for", "label=x"], "--for: 'label=x' is invalid: use a phase"),
        (
            ["job", "wait", "a", "--timeout", "soon"],
            "--timeout: 'soon' is not a duration: use a number with a unit, such as 30s, 5m or 1h30m",
        ),
        (["job", "get", "pods/a"], "pods/a: expected a name of batchjobs, not of pods"),
        (["job", "list", "-A", "-n", "x"], "use only one of -n and -A"),
        (["job", "run", "--image", "i", "--cpu", "lots"], "--cpu: 'lots' is not a quantity"),
        (["job", "run", "--image", "i", "--cpu", "-1"], "--cpu: '-1' is negative: use 0 or more"),
        (["job", "run", "--image", "i", "--name", "Big_Job"], "--name: 'Big_Job'"),
        (["job", "run", "--image", "i", "--min", "3"], "--min: "),
        (
            ["job", "run", "--image", "i", "--array", "1-99999999"],
            "--array: '1-99999999' has 99999999 indexes: use at most 1000000",
        ),
        (
            ["job", "run", "--image", "i", "--directory", "data"],
            "--directory: 'data' is relative: use an absolute path of the image",
        ),
        (["job", "submit", "-f", "https://example.com/job.yaml"], "addresses are not read, give a file, or -"),
        (["job", "run", "--image", "i", "-e", "HOME"], "--env: 'HOME' is invalid: use name=value"),
        (["job", "submit", "-f", "/nonexistent"], "cannot read /nonexistent: No such file or directory"),
        (["job", "logs", "a", "--index", "x"], "--index: 'x' is invalid: must be an integer"),
        (["job", "logs", "a", "--index", "-1"], "--index: '-1' is invalid: must be at least 0"),
        (["job", "scale", "a", "-r", "many"], "--replicas: 'many' is invalid: must be an integer"),
        (
            ["job", "run", "--image", "i", "--ttl", str(2**31)],
            "--ttl: '2147483648' is too long: use at most 10000d",
        ),
        (["job", "run", "--image", "i", "--ttl", "1.5s"], "--ttl: '1.5s' is invalid: use whole seconds, at least 0"),
        (
            ["job", "run", "--image", "i", "--deadline", "0"],
            "--deadline: '0' is invalid: use whole seconds, at least 1",
        ),
        (
            ["job", "run", "--image", "i", "--cpu", ""],
            "--cpu: '' is invalid: use a quantity such as 500m or 2; 0: none",
        ),
        (
            ["job", "run", "--image", "i", "--memory", " "],
            "--memory: '' is invalid: use a quantity such as 4Gi; 0: none",
        ),
        (["job", "run", "--image", "i", "--cpu-limit", ""], "--cpu-limit: '' is invalid: use a quantity"),
        (["job", "run", "--image", "i", "--memory-limit", ""], "--memory-limit: '' is invalid: use a quantity"),
        (["job", "run", "--image", "i", "--resource", "a/b="], "--resource a/b: '' is invalid: use a quantity"),
        (
            ["queue", "create", "q", "--priority", "99999999999"],
            "--priority: '99999999999' is invalid: must be at most 2147483647",
        ),
        (["queue", "update", "q", "--max-running-jobs", "99999999999"], "must be at most 2147483647"),
        (["local", "run", "x.yaml", "--timeout", "0"], "--timeout: '0' is invalid: use more than 0, such as 30s"),
        (["convert", "--strict"], "give the manifests: FILE or -f FILE, - for standard input"),
        (["job", "list", "-o", "html"], "--output: 'html' is not one of 'table', 'wide'"),
        (["-n", "x", "crd"], "options of `crd` follow the command: see `volcanopy crd --help`"),
        (["job", "list", "--phase", "Runing"], "'Runing' is not a phase"),
        (["job", "delete", "-l"], "Option '-l' requires an argument; see `volcanopy job delete --help`"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_usage_is_one_sentence(words: list[str], said: str, server: FakeApiServer, tmp_path: Path) -> None:
    server.has(DEFAULT, a_job("a", "Running"))
    refused = run_in_process(*words, kubeconfig=server.kubeconfig(tmp_path))
    assert said in refused.sentence()
    assert refused.status == 2


def test_a_malformed_object_does_not_fail_the_whole_table(server: FakeApiServer, tmp_path: Path) -> None:
    malformed = a_job("broken", "Running") | {"status": {"running": "two"}}
    server.has(DEFAULT, a_job("a", "Running"), malformed, a_job("z", "Running"))
    listed = run_in_process("job", "list", kubeconfig=server.kubeconfig(tmp_path))
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "a", "z"]
    assert listed.err == (
        'volcanopy: warning: BatchJob "broken" cannot be read: Expected `int`, got `str` - at `$.status.running`: left out\n'
    )
    assert listed.status == 0


def test_a_missing_name_gets_suggestions(server: FakeApiServer, tmp_path: Path) -> None:
    server.has(DEFAULT, a_job("training", "Running"), a_job("training-2", "Running"), a_job("other", "Running"))
    server.has("/apis/batch.volcanopy.io/v1alpha1/batchjobs")
    config = server.kubeconfig(tmp_path)
    near = run_in_process("job", "get", "trainign", kubeconfig=config)
    assert near.sentence() == ('job "trainign" not found in namespace "default"; did you mean training or training-2?')
    server.has("/apis/batch.volcanopy.io/v1alpha1/batchjobs", a_job("trainign", "Running", namespace="lab"))
    elsewhere = run_in_process("job", "get", "trainign", kubeconfig=config)
    assert (
        elsewhere.sentence()
        == 'job "trainign" not found in namespace "default"; it exists in namespace lab: use -n lab'
    )
    assert (near.status, elsewhere.status) == (1, 1)


def test_a_missing_name_of_volcanos_api_is_found_there(server: FakeApiServer, tmp_path: Path) -> None:
    server.has(DEFAULT, a_job("training", "Running"))
    server.has("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", a_job("trained", "Running"))
    message = 'job "trained" not found in namespace "default"; jobs.batch.volcano.sh has one: use kubectl'
    assert run_in_process("job", "logs", "trained", kubeconfig=server.kubeconfig(tmp_path)).sentence() == message


def test_a_missing_name_without_list_permission_gets_no_suggestion(server: FakeApiServer, tmp_path: Path) -> None:
    server.has(DEFAULT)
    server.answers["GET", DEFAULT] = forbidden("list")
    server.answers["GET", f"{DEFAULT}/x"] = error_status(404, "NotFound", 'batchjobs "x" not found', "x")
    assert run_in_process("job", "get", "x", kubeconfig=server.kubeconfig(tmp_path)).sentence() == (
        'job "x" not found in namespace "default"'
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error_status(401, "Unauthorized", "Unauthorized"), "the cluster rejected these credentials"),
        (error_status(422, "Invalid", "spec.tasks: too many"), "rejected by the cluster: spec.tasks: too many"),
        (
            error_status(
                403, "Forbidden", 'admission webhook "jobs.volcanopy.io" denied the request: spec.queue: closed'
            ),
            "rejected by the cluster: spec.queue: closed",
        ),
        (error_status(409, "AlreadyExists", 'batchjobs.batch.volcanopy.io "x" already exists'), "already exists"),
        (error_status(500, "InternalError", "etcd is sad"), "rejected by the cluster: etcd is sad"),
    ],
    ids=["unauthorized", "invalid", "denied", "exists", "broken"],
)
def test_a_rejection_has_the_message_of_the_server(
    answer: tuple[int, Any], said: str, server: FakeApiServer, tmp_path: Path
) -> None:
    server.answers["POST", DEFAULT] = answer
    refused = run_in_process("job", "run", "--name", "x", "--image", "i", kubeconfig=server.kubeconfig(tmp_path))
    assert said in refused.sentence()
    assert refused.status == 1


def test_an_invalid_selector_is_named(server: FakeApiServer, tmp_path: Path) -> None:
    server.answers["GET", DEFAULT] = error_status(400, "BadRequest", "found '=', expected: !, identifier")
    refused = run_in_process("job", "list", "-l", "=b", kubeconfig=server.kubeconfig(tmp_path))
    assert refused.sentence() == "--selector: '=b' is invalid: found '=', expected: !, identifier"
    assert refused.status == 2


@pytest.mark.parametrize("verb", ["describe", "suspend", "restart", "delete"])
@pytest.mark.parametrize("choice", [["--all"], ["-l", "a=b"]], ids=" ".join)
def test_a_selection_of_nothing_is_reported(
    verb: str, choice: list[str], server: FakeApiServer, tmp_path: Path
) -> None:
    server.has(DEFAULT)
    done = run_in_process("job", verb, *choice, kubeconfig=server.kubeconfig(tmp_path))
    assert (done.out, done.err, done.status) == ("", 'No jobs found in namespace "default".\n', 0)


def test_a_rule_about_a_whole_object_is_reported_without_its_empty_path(server: FakeApiServer, tmp_path: Path) -> None:
    message = 'BatchJob.batch.volcanopy.io "x" is invalid: <nil>: Invalid value: pod names must be shorter'
    server.answers["POST", DEFAULT] = error_status(422, "Invalid", message)
    refused = run_in_process("job", "run", "--name", "x", "--image", "i", kubeconfig=server.kubeconfig(tmp_path))
    assert refused.sentence().endswith('"x" is invalid: Invalid value: pod names must be shorter')


def test_the_address_of_the_web_page_is_named_if_it_cannot_be_used(server: FakeApiServer, tmp_path: Path) -> None:
    refused = run_in_process("ui", "--address", "192.0.2.1", "--port", "0", kubeconfig=server.kubeconfig(tmp_path))
    assert "volcanopy: --address 192.0.2.1: must be an address of this machine, such as 127.0.0.1: " in refused.err
    assert refused.status == 1


@pytest.mark.parametrize("host", ["https://batch.example.com", "batch.example.com:8443", ""])
def test_a_host_of_the_web_page_is_a_name(host: str, server: FakeApiServer, tmp_path: Path) -> None:
    refused = run_in_process("ui", "--host", host, kubeconfig=server.kubeconfig(tmp_path))
    assert refused.sentence() == f"--host {host}: must be a name without scheme and port, such as batch.example.com"
    assert refused.status == 2


def test_a_missing_context_gets_suggestions(server: FakeApiServer, tmp_path: Path) -> None:
    refused = run_in_process("job", "list", "--context", "prod", kubeconfig=server.kubeconfig(tmp_path))
    assert "there is no context 'prod'; it has canned; choose one with --context" in refused.sentence()


def test_options_of_the_cluster_may_precede_the_command(server: FakeApiServer, tmp_path: Path) -> None:
    server.has(JOBS.format("lab"), a_job("a", "Running", namespace="lab"))
    config = server.kubeconfig(tmp_path)
    before = run_in_process("--kubeconfig", config, "-n", "lab", "job", "list", "-o", "name")
    after = run_in_process("job", "list", "--kubeconfig", config, "-n", "lab", "-o", "name")
    assert before == after
    assert before.out == "batchjob.batch.volcanopy.io/a\n"


def test_short_options_take_values_as_those_of_kubectl(server: FakeApiServer, tmp_path: Path) -> None:
    server.has(JOBS.format("lab"), a_job("a", "Running", namespace="lab"))
    config = server.kubeconfig(tmp_path)
    for words in ("-n=lab job list -o=name", "job list -n=lab -oname -l=a=b", "job list -nlab -o name"):
        listed = run_in_process(*words.split(), kubeconfig=config)
        assert (listed.out, listed.err) == ("batchjob.batch.volcanopy.io/a\n", ""), words


def test_a_server_dry_run_is_in_each_request(server: FakeApiServer, tmp_path: Path) -> None:
    job, commands = a_job("a", "Running"), "/apis/bus.volcanopy.io/v1alpha1/namespaces/default/commands"
    server.has(DEFAULT, job)
    for method, path in (("POST", DEFAULT), ("PATCH", f"{DEFAULT}/a"), ("DELETE", f"{DEFAULT}/a"), ("POST", commands)):
        server.answers[method, path] = (200, job)
    config = server.kubeconfig(tmp_path)
    for words in (["run", "--image", "i"], ["scale", "a", "-r", "5"], ["delete", "a"], ["suspend", "a"]):
        done = run_in_process("job", *words, "--dry-run=server", kubeconfig=config)
        assert (done.status, done.out.endswith("(server dry run)\n")) == (0, True), done
        method, _, query, _ = server.asked[-1]
        assert (method in {"POST", "PATCH", "DELETE"}, query["dryRun"]) == (True, ["All"])
    for words in (["scale", "a", "-r", "5"], ["delete", "a"], ["suspend", "a"]):
        server.asked.clear()
        assert run_in_process("job", *words, "--dry-run=client", kubeconfig=config).out.endswith("(dry run)\n")
        assert {method for method, *_ in server.asked} == {"GET"}
