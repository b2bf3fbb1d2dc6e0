# Not run by its authors: no container engine was available. See docs/how-to/operations.md.
# The lock file has the versions of constraints.txt, and those of what they need, with hashes.
FROM python:3.12-slim

WORKDIR /src
COPY pyproject.toml README.md LICENSE deploy/requirements-serve.lock ./
COPY src ./src
RUN pip install --no-cache-dir --require-hashes -r requirements-serve.lock \
    && pip install --no-cache-dir --no-deps --no-build-isolation . && rm -rf /src

RUN useradd --create-home setwise
USER setwise
WORKDIR /home/setwise
ENV NUMBA_CACHE_DIR=/home/setwise/.numba PYTHONUNBUFFERED=1
# Machine code for the processor of the build. On another processor the first start compiles for half a minute.
RUN setwise compile

# Nothing but the copy of the artifact, in /tmp, must be written: run it with --read-only --tmpfs /tmp.
# Mount the artifact and pass the key: -v .../songs:/artifact:ro -e SETWISE_API_KEY=...
# Clients that use another name than localhost or an IP address need: -e SETWISE_ALLOW_HOST=NAME
EXPOSE 8080
HEALTHCHECK --start-period=5m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz')"]
ENTRYPOINT ["setwise", "serve", "/artifact", "--host", "0.0.0.0", "--port", "8080"]
