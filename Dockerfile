# Image of the operator and all other commands. Build it with: docker build -t pliant:0.1.0 .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY pliant pliant
RUN python -m venv /opt/pliant && /opt/pliant/bin/pip install --no-cache-dir .

FROM python:3.11-slim
COPY --from=build /opt/pliant /opt/pliant
ENV PATH=/opt/pliant/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# An unprivileged user; a numeric UID lets the kubelet verify runAsNonRoot.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["pliant"]
