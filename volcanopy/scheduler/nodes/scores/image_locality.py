"""Image locality: how much of what a pod runs is on a node already."""

from functools import partial

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Ints, frozen
from volcanopy.scheduler.nodes.traits.trait_cache import cached

LEAST = 23 * 1024 * 1024  # Bytes of images that count for nothing.
MOST = 1000 * 1024 * 1024  # Bytes of images, per container, that count in full.


def locality(spec: core.PodSpec, traits: NodeTraits) -> Ints | None:
    """(N,): 0 to 100 for the pod's images on each node, those that few nodes have counting less; None if all are 0."""
    if not cached(traits, "any images", None, lambda: any(node.status.images for node in traits.objects)):
        return None
    names = tuple(normal(container.image) for container in (*spec.init_containers, *spec.containers))
    return cached(traits, "image locality", names, lambda: _score(names, traits))


def normal(image: str) -> str:
    """An image's name with its tag, ``latest`` if it names none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _score(names: tuple[str, ...], traits: NodeTraits) -> Ints | None:
    summed = np.zeros(len(traits.objects), dtype=np.int64)
    for name in names:
        sizes = cached(traits, "image sizes", name, partial(_sizes, name, traits))
        having = np.count_nonzero(sizes >= 0)
        if having:
            spread = having / len(traits.objects)
            summed += (sizes.clip(min=0) * spread).astype(np.int64)
    most = MOST * len(names)
    score: Ints = 100 * (summed.clip(LEAST, most) - LEAST) // (most - LEAST)
    return frozen(score) if score.any() else None


def _sizes(name: str, traits: NodeTraits) -> Ints:
    """(N,): the bytes of an image on each node, -1 where it is not."""
    sizes = [
        next((image.size_bytes for image in node.status.images if name in image.names), -1) for node in traits.objects
    ]
    return frozen(np.array(sizes, dtype=np.int64))
