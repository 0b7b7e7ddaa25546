"""Quality of service classes of pods."""

import pytest

from volcanopy.api import core
from volcanopy.scheduler.model.pod_fields import Quality, quality_of_service


def container(requests: core.Quantities, limits: core.Quantities) -> core.Container:
    return core.Container(resources=core.ResourceRequirements(requests=requests, limits=limits))


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [
        ({}, {}, Quality.BEST_EFFORT),
        ({"cpu": "1"}, {}, Quality.BURSTABLE),
        ({}, {"cpu": "1"}, Quality.BURSTABLE),
        ({}, {"cpu": "1", "memory": "1Gi"}, Quality.GUARANTEED),
        ({"cpu": "1000m", "memory": "1024Mi"}, {"cpu": "1", "memory": "1Gi"}, Quality.GUARANTEED),
        ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, Quality.BURSTABLE),
    ],
)
def test_requests_equal_to_limits_are_guaranteed_in_any_notation(
    requests: core.Quantities, limits: core.Quantities, quality: Quality
) -> None:
    assert quality_of_service(core.PodSpec(containers=(container(requests, limits),))) is quality


def test_one_container_below_its_limit_makes_the_pod_burstable() -> None:
    whole = container({}, {"cpu": "1", "memory": "1Gi"})
    assert quality_of_service(core.PodSpec(containers=(whole, container({}, {})))) is Quality.BURSTABLE
