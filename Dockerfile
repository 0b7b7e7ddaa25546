# One image; its subcommands are the services: scheduler, controller, admission.
# hack/image.py runs these steps in a clean root on a machine without a container engine (make image-check).
# The base image; `make image BASE=python@sha256:...` pins it by its digest.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv /opt/volcanopy
COPY requirements.lock ./
RUN /opt/volcanopy/bin/pip install --no-cache-dir --disable-pip-version-check --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY volcanopy ./volcanopy
COPY packages/policies ./packages/policies
RUN /opt/volcanopy/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . ./packages/policies

FROM ${BASE}
COPY --from=build /opt/volcanopy /opt/volcanopy
RUN useradd --uid 65532 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin volcanopy
ENV PATH=/opt/volcanopy/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONDONTWRITEBYTECODE=1
ENV PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
ENTRYPOINT ["volcanopy"]
CMD ["--help"]
