"""How scheduling reads Kubernetes objects."""

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
def test_who_requests_all_limits_is_guaranteed_however_the_amounts_are_written(
    requests: core.Quantities, limits: core.Quantities, quality: Quality
) -> None:
    assert quality_of_service(core.PodSpec(containers=(container(requests, limits),))) is quality


def test_one_container_that_asks_for_less_makes_the_whole_pod_burstable() -> None:
    whole = container({}, {"cpu": "1", "memory": "1Gi"})
    assert quality_of_service(core.PodSpec(containers=(whole, container({}, {})))) is Quality.BURSTABLE
