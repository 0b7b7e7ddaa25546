# One image; its subcommands are the services: scheduler, controller, admission.
# hack/image.py runs these very steps in a clean root where there is no engine (make image-check).
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/volcanopy
COPY pyproject.toml README.md ./
COPY volcanopy ./volcanopy
RUN /opt/volcanopy/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM python:3.11-slim-bookworm
COPY --from=build /opt/volcanopy /opt/volcanopy
RUN useradd --uid 65532 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin volcanopy
ENV PATH=/opt/volcanopy/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONDONTWRITEBYTECODE=1
ENV PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
ENTRYPOINT ["volcanopy"]
CMD ["--help"]
