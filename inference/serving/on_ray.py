"""The server as a Ray Serve deployment over several machines: each replica is the complete application with its
workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .application import create_application
from .settings import ServingSettings


def deployment(settings: ServingSettings, **options: Any) -> Any:
    """Return a Ray Serve application, for `serve.run`, whose replicas behave like `trninfer serve`.

    `options` are passed to `serve.deployment`, such as `num_replicas`, `autoscaling_config`, or on a chip
    `ray_actor_options={"resources": {"neuron_cores": 1}}`. A model file is read in this process and sent to the
    replicas. Raises ModelError if it cannot be read.
    """
    from ray import serve

    model = settings.load()
    replica_settings = dataclasses.replace(settings, model=model, name=settings.model_name(model))

    def build() -> Any:
        return create_application(replica_settings, wait=True)

    deploy: Any = serve.deployment(**{"name": replica_settings.name, **options})
    return deploy(serve.ingress(build)()).bind()


def application(arguments: Mapping[str, str]) -> Any:
    """Return the same application for Ray Serve's command line, whose arguments are settings as text:

    `serve run trninfer.inference.serving.on_ray:application model=digits-cnn workers=2 replicas=3`
    """
    rest = dict(arguments)
    replicas = int(rest.pop("replicas", "1"))
    known = {field.name: field for field in dataclasses.fields(ServingSettings)}
    values: dict[str, Any] = {}
    for name, text in rest.items():
        if name not in known or name in ("launches", "neuron_options", "hosts"):
            raise ValueError(f"{name!r} is not a setting; allowed: replicas, {', '.join(known)}")
        kind = str(known[name].type)
        values[name] = int(text) if kind == "int" else float(text) if kind == "float" else text
    return deployment(ServingSettings(**values), num_replicas=replicas)
