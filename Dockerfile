# Dragoman in a container, on the processor, with the compiled engine:
#
#   docker build -t dragoman .
#   echo "Ein Hund schläft." | docker run --rm -i -v "$PWD:/data" dragoman translate runs/de-en
#
# Add `--user "$(id -u):$(id -g)"` where it writes into /data. The CPU build of PyTorch comes from where `make` takes it,
# or from another index: --build-arg TORCH_INDEX=URL.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY constraints.txt scripts/setup_environment.py ./
ARG TORCH_INDEX=
RUN python -m venv /dragoman \
    && index="${TORCH_INDEX:-$(python -c 'import setup_environment; print(setup_environment.TORCH_CPU_INDEX)')}" \
    && /dragoman/bin/pip install --no-cache-dir --constraint constraints.txt --extra-index-url "$index" torch \
    && if /dragoman/bin/pip list | grep -E '^(nvidia|cuda|triton)'; then echo "not a CPU build of PyTorch" >&2; exit 1; fi
COPY LICENSE README.md hatch_build.py pyproject.toml ./
COPY src src
# A machine whose compiler fails would get a wheel without the engine: then there is no image.
RUN /dragoman/bin/pip install --no-cache-dir --constraint constraints.txt ".[serve,audio]" \
    && cd / \
    && /dragoman/bin/python -c "from dragoman.engines.native import load_library as load; print(load().kernels)"

FROM python:${PYTHON}-slim
RUN useradd --uid 1000 --create-home dragoman
COPY --from=build /dragoman /dragoman
ENV PATH="/dragoman/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
USER 1000
ENTRYPOINT ["dragoman"]
CMD ["--help"]
