# Builds the package, then leaves nothing in the image but Python and what the package needs.
# How it is run: docs/how-to/container.md
FROM python:3.13-slim AS build
ARG EXTRAS=excel,plot,report,sign
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY dprelease dprelease
RUN python -m venv /opt/dprelease \
    && /opt/dprelease/bin/python -m pip install --no-cache-dir ".[${EXTRAS}]" \
    && /opt/dprelease/bin/python -m compileall -q /opt/dprelease/lib

FROM python:3.13-slim
LABEL org.opencontainers.image.title="dprelease" \
      org.opencontainers.image.description="Differentially private data releases" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/dprelease /opt/dprelease
# Whatever a library would keep at home goes to the one place that can be written.
ENV PATH=/opt/dprelease/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["dprelease"]
CMD ["--help"]
