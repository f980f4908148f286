# The operator, and every other command: docker build -t pliant:0.1.0 .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY pliant pliant
RUN python -m venv /opt/pliant && /opt/pliant/bin/pip install --no-cache-dir .

FROM python:3.11-slim
COPY --from=build /opt/pliant /opt/pliant
ENV PATH=/opt/pliant/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Nobody in particular; as a number, so that a kubelet can tell it is not root.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["pliant"]
