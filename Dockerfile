# Not run by its authors: no container engine was at hand. See docs/how-to/operations.md.
FROM python:3.12-slim

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[serve]' && rm -rf /src

RUN useradd --create-home setwise
USER setwise
WORKDIR /home/setwise
ENV NUMBA_CACHE_DIR=/home/setwise/.numba PYTHONUNBUFFERED=1

# The artifact is mounted, the key is given: -v .../songs:/artifact:ro -e SETWISE_API_KEY=...
EXPOSE 8080
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz')"]
ENTRYPOINT ["setwise", "serve", "/artifact", "--host", "0.0.0.0", "--port", "8080"]
