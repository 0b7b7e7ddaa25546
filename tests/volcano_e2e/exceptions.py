"""Specs of Volcano's suites that do not pass, and why. A key is a part of the spec's name."""

from collections.abc import Mapping

EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "admission": {
        "Should add svc plugin for pytorch plugin": "rejected, as the plugin would configure nothing: the job has no task of "
        "the name that --master gives (master by default)",
        "Should allow jobflow update with valid DAG structure": "a race of the spec: it updates the object of its creation, "
        "while the controller has written its status",
    },
}
